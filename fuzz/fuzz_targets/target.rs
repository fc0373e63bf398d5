//! The target of `crates/fuzz` that has this program's name.
#![no_main]

use std::sync::OnceLock;

use forerunner_fuzz::Target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    let run = TARGET.get_or_init(own_target).run;
    run(bytes);
});

fn own_target() -> Target {
    let program = std::env::current_exe().expect("a program has a path");
    let name = program.file_stem().expect("and a name").to_string_lossy();
    forerunner_fuzz::target(&name).expect("a target of this name")
}
