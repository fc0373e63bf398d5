//! A reply ends at its stop string wherever the pieces are cut, and shows nothing of it.

mod support;

use forerunner_text::{StopStrings, TextError};
use support::Random;

/// A stopper under test: all pieces in, all shown text and whether it stopped out.
type Run = fn(stops: &[String], pieces: &[&str]) -> (String, bool);

fn run(stops: &[String], pieces: &[&str]) -> (String, bool) {
    let mut stopper = StopStrings::new(stops).expect("no stop string is empty");
    let (mut shown, mut stopped) = (String::new(), false);
    for piece in pieces {
        let output = stopper.push(piece);
        shown += &output.text;
        stopped = output.stopped;
    }
    shown += &stopper.finish();
    (shown, stopped)
}

/// What is to be shown, by definition: the text up to the longest stop string among those that are complete first.
fn expected(stops: &[String], text: &str) -> (String, bool) {
    let ends = (1..=text.len()).filter(|&end| text.is_char_boundary(end));
    for head in ends.map(|end| &text[..end]) {
        if let Some(stop) = stops.iter().filter(|stop| head.ends_with(*stop)).max_by_key(|stop| stop.len()) {
            return (head[..head.len() - stop.len()].to_owned(), true);
        }
    }
    (text.to_owned(), false)
}

/// Cuts a text before character `n + 1` for each set bit `n`.
fn cut(text: &str, cuts: u64) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (index, (position, _)) in text.char_indices().skip(1).enumerate() {
        if cuts >> (index % 64) & 1 == 1 {
            pieces.push(&text[start..position]);
            start = position;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

fn agrees(run: Run, stops: &[String], text: &str, cuts: u64) -> Result<(), String> {
    let pieces = cut(text, cuts);
    let (found, wanted) = (run(stops, &pieces), expected(stops, text));
    if found == wanted { Ok(()) } else { Err(format!("{stops:?} on {pieces:?}: {found:?}, not {wanted:?}")) }
}

/// All texts of up to six characters of two letters, all cuts, all pairs of stop strings of up to three characters.
fn agrees_in_a_small_world(run: Run) -> Result<(), String> {
    let words = |length_max: u32| -> Vec<String> {
        (1..=length_max)
            .flat_map(|length| {
                (0..1u32 << length).map(move |bits| {
                    (0..length).map(|index| if bits >> index & 1 == 1 { 'é' } else { 'b' }).collect()
                })
            })
            .collect()
    };
    let (texts, stops) = (words(6), words(3));
    for first in &stops {
        for second in &stops {
            let stops = [first.clone(), second.clone()];
            for text in &texts {
                for cuts in 0..1 << (text.chars().count() - 1) {
                    agrees(run, &stops, text, cuts)?;
                }
            }
        }
    }
    Ok(())
}

/// Random texts with pieces of themselves as stop strings.
fn agrees_at_random(run: Run) -> Result<(), String> {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let length = 1 + random.below(30);
        let text = random.text(length);
        let characters: Vec<char> = text.chars().collect();
        let mut stops = Vec::new();
        for _ in 0..1 + random.below(4) {
            let start = random.below(characters.len());
            let stop = characters[start..].iter().take(1 + random.below(5));
            stops.push(if random.below(3) == 0 { "<|never|>".to_owned() } else { stop.collect() });
        }
        agrees(run, &stops, &text, random.bits()).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

#[test]
fn the_cuts_do_not_matter() {
    agrees_in_a_small_world(run).unwrap();
    agrees_at_random(run).unwrap();
}

#[test]
fn a_stop_string_across_pieces_is_seen_and_not_shown() {
    let stops = ["own fox".to_owned()];
    let text = "The quick brown fox jumps";
    for cuts in [0, u64::MAX, 0b1000_0000_0000, 0b10_0100_0100_1000] {
        assert_eq!(run(&stops, &cut(text, cuts)), ("The quick br".to_owned(), true));
    }
}

#[test]
fn what_cannot_be_a_stop_string_is_shown_at_once() {
    let mut stopper = StopStrings::new(&["END"]).unwrap();
    assert_eq!(stopper.push("a E").text, "a ");
    assert_eq!(stopper.push("N").text, "");
    assert_eq!(stopper.push("x").text, "ENx");
    assert_eq!(stopper.push("EN").text, "");
    assert_eq!(stopper.finish(), "EN");
}

#[test]
fn nothing_comes_after_the_stop() {
    let mut stopper = StopStrings::new(&["."]).unwrap();
    let output = stopper.push("one. two");
    assert_eq!((output.text.as_str(), output.stopped), ("one", true));
    let output = stopper.push("three");
    assert_eq!((output.text.as_str(), output.stopped), ("", true));
    assert_eq!(stopper.finish(), "");
}

#[test]
fn without_stop_strings_all_passes() {
    let mut stopper = StopStrings::default();
    assert_eq!(stopper.push("日本").text, "日本");
    assert_eq!(stopper.finish(), "");
}

#[test]
fn an_empty_stop_string_is_refused_by_its_index() {
    let error = StopStrings::new(&["a", ""]).unwrap_err();
    assert!(matches!(error, TextError::EmptyStop { index: 1 }) && error.is_callers_fault());
}

/// Looks for stop strings within a piece only.
fn within_a_piece(stops: &[String], pieces: &[&str]) -> (String, bool) {
    let mut shown = String::new();
    for piece in pieces {
        let (text, stopped) = expected(stops, piece);
        shown += &text;
        if stopped {
            return (shown, true);
        }
    }
    (shown, false)
}

/// Sees stop strings across pieces, but has shown their start by then.
fn leaks_the_start(stops: &[String], pieces: &[&str]) -> (String, bool) {
    let mut seen = String::new();
    for piece in pieces {
        let before = seen.len();
        seen += piece;
        let (text, stopped) = expected(stops, &seen);
        if stopped {
            seen.truncate(text.len().max(before));
            return (seen, true);
        }
    }
    (seen, false)
}

#[test]
fn planted_faults_are_found() {
    for wrong in [within_a_piece as Run, leaks_the_start as Run] {
        agrees_in_a_small_world(wrong).expect_err("the small world has no failing case");
        agrees_at_random(wrong).expect_err("no random text fails");
    }
}
