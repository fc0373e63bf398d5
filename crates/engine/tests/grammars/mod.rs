//! The demo model's tokens, ready for grammars.

use forerunner_text::{Grammars, Tokenizer};

use crate::support::demo;

/// The demo model's tokens, ready for grammars.
pub(crate) fn grammars() -> Grammars {
    let tokenizer = Tokenizer::open(&demo("target")).expect("the demo target's tokenizer");
    Grammars::new(&tokenizer, 8192, &[2, 7]).expect("grammars of the demo target")
}
