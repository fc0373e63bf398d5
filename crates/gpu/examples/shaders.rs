//! Writes what Metal is given for each shader: `cargo xtask shaders`.

use std::io;
use std::path::Path;

use forerunner_gpu::{Translated, shader_variants};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/msl");
    // Files of kernels that are no more go as well.
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let variants = shader_variants();
    for variant in &variants {
        std::fs::write(folder.join(format!("{}.metal", variant.name)), Translated::new(variant).msl())?;
    }
    println!("{} files in {}", variants.len(), folder.display());
    Ok(())
}
