//! `cargo xtask plots`: docs/benchmarks.md and its plots, out of the receipts that are committed.

mod chart;
mod figures;
mod page;
mod receipt;
mod tables;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace;

/// The page.
const PAGE: &str = "docs/benchmarks.md";

/// Where its plots are.
const PLOTS: &str = "docs/plots";

/// The program that draws SVG as PNG. It is asked for when plots are written: fonts and a rasteriser in this workspace
/// would be built by everyone, for files that change with the receipts alone.
const RASTERISER: &str = "rsvg-convert";

/// Writes the page and its plots, as SVG and, where the rasteriser is, as PNG.
pub(crate) fn run() -> Result<()> {
    let folder = workspace::root().join(PLOTS);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut without_png = Vec::new();
    for (path, text) in generated()? {
        let path = workspace::root().join(path);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        if path.extension().is_some_and(|extension| extension == "svg") && !rasterise(&path)? {
            without_png.push(path);
        }
    }
    println!("{PAGE} and the plots in {PLOTS} are written");
    if !without_png.is_empty() {
        println!("{} plots as SVG only: {RASTERISER} is missing (Debian: librsvg2-bin)", without_png.len());
    }
    Ok(())
}

/// Every file that receipts give, by its path, with its text.
fn generated() -> Result<Vec<(String, String)>> {
    let receipts = receipt::all()?;
    let charts = figures::charts(&receipts);
    let mut files = vec![(PAGE.to_owned(), page::page(&receipts, &charts))];
    for chart in &charts {
        files.push((format!("{PLOTS}/{}.svg", chart.name), chart.svg()?));
    }
    Ok(files)
}

/// Whether the PNG beside an SVG was written; not where there is no rasteriser.
fn rasterise(svg: &Path) -> Result<bool> {
    let png: PathBuf = svg.with_extension("png");
    match Command::new(RASTERISER).args(["--zoom", "2", "--output"]).arg(&png).arg(svg).status() {
        Ok(status) => {
            anyhow::ensure!(status.success(), "{RASTERISER} {}: {status}", svg.display());
            Ok(true)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context(RASTERISER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_and_plots_are_what_the_receipts_give() {
        for (path, expected) in generated().unwrap() {
            let committed = workspace::read(&path).unwrap();
            assert!(committed == expected, "{path} is not what the receipts give: run cargo xtask plots");
        }
    }
}
