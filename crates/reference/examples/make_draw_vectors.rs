//! Writes `vectors/draws.json`, to be run when the meaning of a draw changes:
//! `cargo run -p forerunner-reference --example make_draw_vectors`.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/draws.json");
    let vectors = forerunner_reference::suites::draws::generate();
    std::fs::write(path, vectors.to_text())?;
    println!("{path}: {} draws", vectors.draws.len());
    Ok(())
}
