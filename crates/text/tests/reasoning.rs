//! Thoughts are told from answers at every cut, for models that open them and templates that do.

use forerunner_text::ThoughtPiece::{Answer, Thought};
use forerunner_text::{ReasoningSplitter, ReplyEvent, ReplyParser, ThoughtStart, ToolEvent};

/// A splitter under test: all pieces in, thought and answer out.
type Run = fn(ThoughtStart, &[&str]) -> (String, String);

fn run(start: ThoughtStart, pieces: &[&str]) -> (String, String) {
    let mut splitter = ReasoningSplitter::new(start);
    let mut found: Vec<_> = pieces.iter().flat_map(|piece| splitter.push(piece)).collect();
    found.extend(splitter.finish());
    let (mut thought, mut answer) = (String::new(), String::new());
    for piece in found {
        match piece {
            Thought(text) => thought += &text,
            Answer(text) => answer += &text,
        }
    }
    (thought, answer)
}

/// The reply at every two cuts, and one character at a time.
fn check(run: Run, start: ThoughtStart, reply: &str, thought: &str, answer: &str) -> Result<(), String> {
    let places: Vec<usize> = reply.char_indices().map(|(at, _)| at).collect();
    let mut cuts: Vec<Vec<&str>> = vec![reply.split_inclusive(|_: char| true).collect()];
    for (index, &first) in places.iter().enumerate() {
        for &second in &places[index..] {
            cuts.push(vec![&reply[..first], &reply[first..second], &reply[second..]]);
        }
    }
    for pieces in cuts {
        let (found, wanted) = (run(start, &pieces), (thought.to_owned(), answer.to_owned()));
        if found != wanted {
            return Err(format!("{pieces:?}: {found:?}, not {wanted:?}"));
        }
    }
    Ok(())
}

const CASES: [(ThoughtStart, &str, &str, &str); 14] = [
    // LFM2.5 thinks without being asked to.
    (ThoughtStart::Closed, "<think>é? <b></think>Yes.", "é? <b>", "Yes."),
    (ThoughtStart::Closed, "\n <think>\na\n</think>\n\nYes.\n", "\na\n", "Yes.\n"),
    (ThoughtStart::Closed, "<think></think>Yes", "", "Yes"),
    (ThoughtStart::Closed, "<think>a", "a", ""),
    (ThoughtStart::Closed, "<think>a</thi", "a</thi", ""),
    (ThoughtStart::Closed, "<think>a<think>b</think>c", "a<think>b", "c"),
    // LFM2 does not think; it may speak of it.
    (ThoughtStart::Closed, " Yes.", "", " Yes."),
    (
        ThoughtStart::Closed,
        "The tag <think> opens, </think> closes.",
        "",
        "The tag <think> opens, </think> closes.",
    ),
    (ThoughtStart::Closed, "\n", "", "\n"),
    (ThoughtStart::Closed, "<think>a</think>b</think>c", "a", "b</think>c"),
    // A template has opened the thought.
    (ThoughtStart::Open, "a</think> b", "a", "b"),
    (ThoughtStart::Open, "<think>a</think>b", "a", "b"),
    (ThoughtStart::Open, "\na", "\na", ""),
    (ThoughtStart::Open, "</think>\nb", "", "b"),
];

#[test]
fn thoughts_are_split_off() {
    for (start, reply, thought, answer) in CASES {
        check(run, start, reply, thought, answer).unwrap();
    }
}

#[test]
fn nothing_is_held_back_but_what_may_be_a_mark() {
    let mut splitter = ReasoningSplitter::new(ThoughtStart::Closed);
    assert_eq!(splitter.push("<think>a b</"), [Thought("a b".into())]);
    assert!(splitter.is_thinking());
    assert_eq!(splitter.push("thing></think>c"), [Thought("</thing>".into()), Answer("c".into())]);
    assert!(!splitter.is_thinking());
    assert_eq!(splitter.push(" "), [Answer(" ".into())]);
}

#[test]
fn a_prompt_tells_whether_a_thought_is_open() {
    let open = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n";
    assert_eq!(ThoughtStart::of_prompt(open), ThoughtStart::Open);
    for closed in [
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>assistant\n<think>a</think>b<|im_end|>\n<|im_start|>user\nWhat is <think>?<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        "<|im_start|>user\n<think>",
        "<|im_start|>assistant\n<think>a<|im_end|>\n",
        "",
    ] {
        assert_eq!(ThoughtStart::of_prompt(closed), ThoughtStart::Closed, "{closed}");
    }
}

#[test]
fn calls_within_a_thought_are_text() {
    let reply = "<think>I could <|tool_call_start|>[f()]<|tool_call_end|></think><|tool_call_start|>[g()]<|tool_call_end|>";
    for cut in 0..reply.len() {
        let mut parser = ReplyParser::with_tools(ThoughtStart::Closed);
        let mut events = parser.push(&reply[..cut]);
        events.extend(parser.push(&reply[cut..]));
        events.extend(parser.finish());
        let thought: String = events
            .iter()
            .filter_map(|event| match event {
                ReplyEvent::Thought(text) => Some(text.as_str()),
                ReplyEvent::Tool(_) => None,
            })
            .collect();
        assert_eq!(thought, "I could <|tool_call_start|>[f()]<|tool_call_end|>");
        let calls: Vec<&ReplyEvent> =
            events.iter().filter(|event| !matches!(event, ReplyEvent::Thought(_))).collect();
        let begin = ToolEvent::CallBegin { index: 0, name: "g".to_owned() };
        assert_eq!((calls.len(), calls[0]), (3, &ReplyEvent::Tool(begin)));
        assert_eq!(parser.calls_begun(), 1);
    }
    let mut plain = ReplyParser::new(ThoughtStart::Closed);
    let marks = "<|tool_call_start|>[g()]";
    assert_eq!(plain.push(marks), [ReplyEvent::Tool(ToolEvent::Content(marks.to_owned()))]);
}

/// Looks for whole marks within each piece.
fn within_a_piece(start: ThoughtStart, pieces: &[&str]) -> (String, String) {
    let (mut thought, mut answer) = (String::new(), String::new());
    let mut is_thinking = start == ThoughtStart::Open;
    for piece in pieces {
        let piece = if piece.contains("<think>") {
            is_thinking = true;
            piece.replace("<think>", "")
        } else {
            (*piece).to_owned()
        };
        match piece.split_once("</think>") {
            Some((before, after)) => {
                thought += before;
                answer += after.trim_start();
                is_thinking = false;
            }
            None if is_thinking => thought += &piece,
            None => answer += &piece,
        }
    }
    (thought, answer)
}

/// Takes what the prompt opened for the model's own choice.
fn ignores_the_prompt(_: ThoughtStart, pieces: &[&str]) -> (String, String) {
    run(ThoughtStart::Closed, pieces)
}

#[test]
fn planted_faults_are_found() {
    for wrong in [within_a_piece as Run, ignores_the_prompt as Run] {
        let fails = CASES
            .iter()
            .any(|&(start, reply, thought, answer)| check(wrong, start, reply, thought, answer).is_err());
        assert!(fails, "no case fails");
    }
}
