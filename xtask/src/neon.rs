//! `cargo xtask neon`: the tests of the CPU device for aarch64, under an emulator.
//!
//! They show what the mode `neon` computes, on a machine that has another processor, and nothing of how fast it is.

use anyhow::Result;

use crate::compiler::{Compiler, EMULATED};
use crate::{debian, workspace};

const EMULATOR: &str = "qemu-aarch64";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// Where both come from, and the C library that tests are linked with.
const PACKAGES: [&str; 3] = ["qemu-user", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// Tests of devices that differ in threads or in a mode that real processors run elsewhere: emulated they take minutes.
const SKIPPED: &str = "other_devices";

/// Builds the tests and runs them, where there are Debian's packages or they can be had; elsewhere it says so.
pub(crate) fn test_where_possible() -> Result<()> {
    if cfg!(target_arch = "aarch64") {
        println!("skipped: this processor runs them among all tests");
        return Ok(());
    }
    let Some(compiler) = Compiler::find()? else { return Ok(()) };
    if ![EMULATOR, LINKER].iter().all(|tool| workspace::answers(tool, &["--version"])) {
        if !debian::is_root() {
            println!("skipped: it takes root to install {}", PACKAGES.join(", "));
            return Ok(());
        }
        debian::install(&PACKAGES)?;
    }
    let mut test = compiler.cargo();
    test.args(["test", "--locked", "--package", "forerunner-cpu", "--tests", "--target", EMULATED]);
    test.arg("--target-dir").arg(workspace::target_folder()?.join("neon"));
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    let runner = format!("{EMULATOR} -L /usr/aarch64-linux-gnu");
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    workspace::run(test.args(["--", "--skip", SKIPPED]))
}
