//! A streamed reply equals the reply decoded at once, is never late by more than a character, and never stalls.

mod support;

use forerunner_text::{Detokenizer, Tokenizer};
use support::{Random, demo, tokenizer};

/// What the properties below ask of a streaming decoder, so that wrong ones can be tried too.
trait Decode {
    fn push(&mut self, token: u32) -> String;
    fn finish(&mut self) -> String;
}

impl Decode for Detokenizer {
    fn push(&mut self, token: u32) -> String {
        Detokenizer::push(self, token)
    }

    fn finish(&mut self) -> String {
        Detokenizer::finish(self)
    }
}

/// Both properties on one sequence: the pieces join to the whole, and at any time all but an incomplete character is out.
fn streams(decoder: &mut dyn Decode, tokenizer: &Tokenizer, tokens: &[u32]) -> Result<(), String> {
    let mut text = String::new();
    for count in 1..=tokens.len() {
        text += &decoder.push(tokens[count - 1]);
        let whole = tokenizer.decode(&tokens[..count], true);
        let late = whole.strip_prefix(&text).ok_or(format!("{text:?} does not open {whole:?}"))?;
        if !late.is_empty() && late != "\u{fffd}" {
            return Err(format!("{late:?} is held back after {count} tokens"));
        }
    }
    text += &decoder.finish();
    let whole = tokenizer.decode(tokens, true);
    if text == whole { Ok(()) } else { Err(format!("{text:?} instead of {whole:?}")) }
}

/// Random ids, random texts, and texts cut in the middle of their tokens.
fn streams_everything(decoder: impl Fn() -> Box<dyn Decode>, tokenizer: &Tokenizer) -> Result<(), String> {
    for seed in 0..300 {
        let mut random = Random(seed);
        let length = 1 + random.below(120);
        let ids: Vec<u32> =
            (0..length).map(|_| random.below(tokenizer.vocabulary_size() + 2) as u32).collect();
        let text = random.text(length);
        let mut encoded = tokenizer.encode(&text, false).map_err(|error| error.to_string())?;
        encoded.drain(..random.below(encoded.len().max(2) - 1).min(3));
        for tokens in [ids, encoded] {
            streams(&mut *decoder(), tokenizer, &tokens).map_err(|error| format!("seed {seed}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn pieces_join_to_the_whole_and_are_never_late() {
    let tokenizer = tokenizer();
    let hidden = || Box::new(tokenizer.detokenizer_showing(&[])) as Box<dyn Decode>;
    streams_everything(hidden, &tokenizer).unwrap();
}

#[test]
fn decoding_at_once_equals_that_of_the_tokenizers_crate() {
    let tokenizer = tokenizer();
    let theirs = tokenizers::Tokenizer::from_file(demo("target/tokenizer.json")).unwrap();
    for seed in 0..200 {
        let mut random = Random(seed);
        let ids: Vec<u32> =
            (0..1 + random.below(80)).map(|_| random.below(tokenizer.vocabulary_size() + 2) as u32).collect();
        for skip in [true, false] {
            assert_eq!(tokenizer.decode(&ids, skip), theirs.decode(&ids, skip).unwrap(), "seed {seed}");
        }
    }
}

#[test]
fn any_text_survives_encoding_and_decoding() {
    let tokenizer = tokenizer();
    for seed in 0..300 {
        let mut random = Random(seed);
        let length = random.below(200);
        let text = random.text(length);
        let tokens = tokenizer.encode(&text, false).unwrap();
        assert_eq!(tokenizer.decode(&tokens, true), text, "seed {seed}");
    }
}

#[test]
fn long_runs_of_one_character_survive() {
    let tokenizer = tokenizer();
    for piece in [" ", "\n", "a", "日", "🙂", "\u{301}", "7", "-"] {
        let text = piece.repeat(50_000);
        let tokens = tokenizer.encode(&text, false).unwrap();
        assert_eq!(tokenizer.decode(&tokens, true), text, "{piece:?}");
    }
}

#[test]
fn emoji_and_cjk_do_not_freeze_a_stream() {
    let tokenizer = tokenizer();
    let tokens = tokenizer.encode(&"日本語で返事🙂👩‍👩‍👧".repeat(60), false).unwrap();
    assert!(tokens.len() >= 600, "{} tokens", tokens.len());
    let mut decoder = tokenizer.detokenizer();
    let mut silent = 0;
    for token in tokens {
        silent = if decoder.push(token).is_empty() { silent + 1 } else { 0 };
        assert!(silent < 4, "{silent} tokens without text");
    }
}

#[test]
fn bytes_that_are_no_character_do_not_freeze_a_stream() {
    let tokenizer = tokenizer();
    let continuation = (0..tokenizer.vocabulary_size() as u32)
        .find(|&id| tokenizer.token_bytes(id) == b"\x99")
        .expect("a byte-level vocabulary has every byte");
    let mut decoder = tokenizer.detokenizer();
    for _ in 0..600 {
        assert_eq!(decoder.push(continuation), "\u{fffd}");
    }
    assert_eq!(decoder.push(tokenizer.encode("a", false).unwrap()[0]), "a");
}

#[test]
fn only_marks_of_calls_and_thoughts_are_shown() {
    let tokenizer = tokenizer();
    let reply = "<think>b</think><|tool_call_start|>[f()]<|tool_call_end|>";
    let text = format!("<|startoftext|><|im_start|>{reply}<|im_end|><|endoftext|><|pad|>");
    let mut decoder = tokenizer.detokenizer();
    let tokens = tokenizer.encode(&text, false).unwrap();
    let shown: String = tokens.iter().map(|&token| decoder.push(token)).collect();
    assert_eq!(shown, reply);
    let mut hidden = tokenizer.detokenizer_showing(&[]);
    let shown: String = tokens.iter().map(|&token| hidden.push(token)).collect();
    assert_eq!(shown, "b[f()]");
}

/// Decodes every token for itself: half characters come out as U+FFFD.
struct EachAlone(Tokenizer);

impl Decode for EachAlone {
    fn push(&mut self, token: u32) -> String {
        self.0.decode(&[token], true)
    }

    fn finish(&mut self) -> String {
        String::new()
    }
}

/// Waits while the decoded text ends with U+FFFD: a byte that never becomes a character holds all back.
struct WaitsForever {
    tokenizer: Tokenizer,
    tokens: Vec<u32>,
    shown: usize,
}

impl Decode for WaitsForever {
    fn push(&mut self, token: u32) -> String {
        self.tokens.push(token);
        let text = self.tokenizer.decode(&self.tokens, true);
        if text.ends_with('\u{fffd}') || text.len() < self.shown {
            return String::new();
        }
        let start = std::mem::replace(&mut self.shown, text.len());
        text.get(start..).unwrap_or_default().to_owned()
    }

    fn finish(&mut self) -> String {
        String::new()
    }
}

#[test]
fn planted_faults_are_found() {
    let tokenizer = tokenizer();
    let alone = || Box::new(EachAlone(tokenizer.clone())) as Box<dyn Decode>;
    streams_everything(alone, &tokenizer).expect_err("half characters were not noticed");
    let waits = || {
        Box::new(WaitsForever { tokenizer: tokenizer.clone(), tokens: Vec::new(), shown: 0 })
            as Box<dyn Decode>
    };
    streams_everything(waits, &tokenizer).expect_err("a stalled stream was not noticed");
}
