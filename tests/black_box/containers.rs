//! `gpusetup container translate`: what it reads, refuses and prints.

mod command_lines;
mod differential;
mod published;

use gpusetup::container::{Form, Translated, Written, translate};

/// The command line in one form.
fn to(form: Form, line: &str) -> Written {
    read(line).forms[form as usize].clone()
}

fn read(line: &str) -> Translated {
    translate(line, &Form::ALL.map(|(form, ..)| form)).unwrap_or_else(|e| panic!("{e:?}\n{line}"))
}
