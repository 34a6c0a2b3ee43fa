//! A real web server for a folder, as long as it is wanted.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// nginx.
pub struct Nginx {
    /// Where it is.
    pub url: String,
    process: Child,
}

impl Nginx {
    /// Serves a folder, where it keeps its log too, `access.log`: status and bytes. None where
    /// there is no nginx.
    pub fn start(folder: &Path) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("bound")
            .port();
        let at = folder.display();
        // Its workers become nobody, whom a private folder is closed to.
        let user = if rustix::process::geteuid().is_root() {
            "user root; "
        } else {
            ""
        };
        let text = format!(
            "{user}daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{ sendfile on; log_format status '$status $body_bytes_sent'; access_log {at}/access.log status;\n\
             client_body_temp_path {at}/t1; proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4;\n\
             scgi_temp_path {at}/t5; server {{ listen 127.0.0.1:{port}; root {at}; }} }}\n"
        );
        fs::write(folder.join("nginx.conf"), text).expect("written");
        let program = ["/usr/sbin/nginx", "/usr/bin/nginx"]
            .into_iter()
            .find(|p| Path::new(p).exists())?;
        let mut command = Command::new(program);
        command
            .arg("-e")
            .arg(folder.join("error.log"))
            .arg("-c")
            .arg(folder.join("nginx.conf"));
        let process = command
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let server = Self {
            url: format!("http://127.0.0.1:{port}"),
            process,
        };
        let answers = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        for _ in 0..100 {
            if answers() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("nginx does not answer");
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let master = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(master, rustix::process::Signal::QUIT);
        let _ = self.process.wait();
    }
}
