//! The page of benchmarks: for each receipt its command, its machine and its table, and the plots.

use super::chart::Chart;
use super::receipt::{FOLDER, Receipt};
use super::tables;

const HEAD: &str = "# Benchmarks

This page is written by `cargo xtask plots` from the receipts in [receipts/bench](receipts/bench): to change it, measure again with the
command of a section and its `--receipt FILE`, and keep the file there. A test holds the page and its plots to the receipts.

**How to read it.** Plain and drafted runs alternate within one process (A B A B), so a ratio is of one run on one machine and may
be compared with another ratio; a speed may not, unless it stands in the same table. Medians, with the least and the largest, or with a 95%
bootstrap interval of the median where an interval is given. Every row has its equalities: *drafted = plain* and *shared = alone* compare
hashes of all replies (tokens without HTTP, texts over HTTP), and a command whose replies differ ends with an error.
`forerunner bench --help` tells what each benchmark measures.
";

/// Sections in their order: a benchmark, its heading, and what there is to know of its table.
const SECTIONS: [(&str, &str, &str); 5] = [
    (
        "throughput",
        "Replies without HTTP, drafted against plain",
        "Whole replies, prompt and all, of so many streams at once; *time* is that of a drafted run over that of the plain run before it.",
    ),
    (
        "latency",
        "One reply at a time",
        "*Cold* is a prompt of which nothing was stored, *cached* the same prompt asked again: whole pages of 256 positions are kept.",
    ),
    (
        "serve",
        "A server under load",
        "One client process beside the server on the same machine. *Steady* is while all streams ran.",
    ),
    ("compare", "Two commands or servers in turn", "B over A."),
    (
        "peers",
        "Other engines on the same weights",
        "The demo target, or the model of the command; everyone asked the same in turn (`benches/peers/README.md`). Weights in MLX's 4 bits, their \
         Q4_1 and their bf16 twin mean the same; Q4_0 is as large as MLX's and means others. *Decode* is of a reply of 64 tokens to the prompt of 512, and in receipts of November to a short one.",
    ),
];

/// The whole page.
pub(super) fn page(receipts: &[Receipt], charts: &[Chart]) -> String {
    let mut page = HEAD.to_owned();
    for (bench, heading, note) in SECTIONS {
        let own: Vec<&Receipt> = receipts.iter().filter(|receipt| receipt.bench() == bench).collect();
        if own.is_empty() {
            continue;
        }
        page.push_str(&format!("\n## {heading}\n\n{note}\n"));
        for receipt in own {
            page.push_str(&section(receipt));
        }
    }
    if !charts.is_empty() {
        page.push_str("\n## Plots\n");
    }
    for chart in charts {
        let Chart { name, title, .. } = chart;
        page.push_str(&format!("\n![{title}](plots/{name}.svg)\n"));
    }
    page
}

fn section(receipt: &Receipt) -> String {
    let title = receipt.file.trim_end_matches(".json");
    let note = receipt.json["note"].as_str().map_or_else(String::new, |note| format!(" {note}."));
    format!(
        "\n### {title}\n\n    {}\n\n{}.{note} [Receipt]({}/{})\n\n{}\n",
        receipt.command(),
        receipt.machine(),
        FOLDER.trim_start_matches("docs/"),
        receipt.file,
        tables::table(receipt)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_receipt_has_its_command_its_machine_and_its_note() {
        let json = json!({
            "bench": "compare", "command": ["x", "bench", "compare", "a", "b"], "note": "noisy", "ratios": {},
        });
        let page = page(&[Receipt { file: "2026-a.json".into(), json }], &[]);
        for part in [
            "### 2026-a",
            "    forerunner bench compare a b",
            " noisy. [Receipt](receipts/bench/2026-a.json)",
        ] {
            assert!(page.contains(part), "{part:?} is not in {page}");
        }
        assert!(!page.contains("One reply at a time"));
    }
}
