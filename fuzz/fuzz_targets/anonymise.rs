//! Texts of reports with secrets planted in them: whatever stands around them, none is left, and
//! nothing panics.
#![no_main]

use gpusetup::report::anonymise::{Anonymiser, Names, plain};
use libfuzzer_sys::fuzz_target;

const PLANTED: [&str; 9] = [
    "zq-host-7",
    "zq-user",
    "CZQ3141592",
    "192.168.77.5",
    "b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
    "aa:bb:cc:dd:ee:ff",
    "2001:db8:77::5",
    "zq-mail@zq.example",
    "ghp_zq0123456789abcdefghij",
];

fuzz_target!(|input: (Vec<(String, u8)>, bool)| {
    let (parts, in_json) = input;
    let names = Names {
        hosts: vec![PLANTED[0].to_owned()],
        users: vec![PLANTED[1].to_owned()],
        serials: vec![PLANTED[2].to_owned()],
        keep: vec!["9.10.2.21".to_owned(), "6.8.0-71-generic".to_owned()],
        ..Names::default()
    };
    let holds = |text: &str| {
        let text = text.to_lowercase();
        PLANTED.iter().find(|secret| text.contains(&secret.to_lowercase()))
    };
    let mut text = String::new();
    for (around, which) in &parts {
        // One inside another word is none.
        if holds(&plain(around)).is_none() {
            text.push_str(around);
        }
        text.push(' ');
        text.push_str(PLANTED[usize::from(*which) % PLANTED.len()]);
        text.push(' ');
    }
    let mut anonymiser = Anonymiser::new(&names);
    anonymiser.learn(&text);
    let out = if in_json {
        let mut value = serde_json::json!({ "a": text });
        anonymiser.json(&mut value);
        value["a"].as_str().expect("a text").to_owned()
    } else {
        anonymiser.text(&text)
    };
    assert_eq!(holds(&out), None, "{text:?} became {out:?}");
});
