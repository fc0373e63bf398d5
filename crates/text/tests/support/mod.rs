//! What the tests of this crate share: the demo model's folder and replayable random input.

#![expect(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use forerunner_text::Tokenizer;

/// `assets/demo/<name>` of the repository.
pub(crate) fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo").join(name)
}

/// The demo model's tokenizer.
pub(crate) fn tokenizer() -> Tokenizer {
    Tokenizer::open(&demo("target")).expect("the demo target has a tokenizer")
}

/// A folder that is removed when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new folder with these files, apart from every other test's of the same name.
    pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("forerunner-text-{process}-{number}-{name}"));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        for (file, text) in files {
            std::fs::write(path.join(file), text).expect("the temporary folder is writable");
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// SplitMix64: a seed in a failure's message replays it.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    /// A text of words, digits, blanks, CJK, emoji with joiners, accents and rare planes.
    pub(crate) fn text(&mut self, characters: usize) -> String {
        const PIECES: [&str; 24] = [
            "a",
            "the ",
            " Zebra",
            "ß",
            "é",
            "e\u{301}",
            "日",
            "本語",
            "한국",
            "🙂",
            "👩‍👩‍👧",
            "🇳🇴",
            "\n",
            "\r\n",
            "  ",
            "\t",
            "42",
            "3.14",
            "'s",
            "\u{10ffff}",
            "\u{0}",
            "�",
            "ق",
            "}\";",
        ];
        let mut text = String::new();
        for _ in 0..characters {
            match self.below(4) {
                0 => text.push(char::from_u32(self.below(0x11_0000) as u32).unwrap_or('x')),
                _ => text.push_str(PIECES[self.below(PIECES.len())]),
            }
        }
        text
    }
}
