//! Replies in the terminal: the demo model's, whatever the flags say about how they are computed.

use crate::binary::{ANSWER, QUESTION, demo, forerunner, reply};

#[test]
fn run_answers_and_says_how_it_went() {
    let run = forerunner(&["run", QUESTION]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ANSWER), "{}", run.stderr);
    for part in [
        "model demo, drafter demo-drafter, device cpu",
        "greedy, drafts in every round",
        "tok/s",
        "tokens a round",
        "drafts accepted, by position 100%",
    ] {
        assert!(run.stderr.contains(part), "{part:?} is not in {}", run.stderr);
    }
}

#[test]
fn how_it_is_computed_does_not_change_the_text() {
    assert_eq!(reply(&["--no-draft", QUESTION]), ANSWER);
    assert_eq!(reply(&["--no-drafter", QUESTION]), ANSWER);
    assert_eq!(reply(&["--measure-ms", "0", QUESTION]), ANSWER);
    assert_eq!(reply(&["--threads", "1", QUESTION]), ANSWER);
    assert_eq!(reply(&["--context", "300", QUESTION]), ANSWER);
    let target = demo("target");
    assert_eq!(reply(&["--model", target.to_str().unwrap(), QUESTION]), ANSWER);
    let sampled = ["--temperature", "0.8", "--seed", "7", QUESTION];
    assert_eq!(reply(&[&["--no-draft"], sampled.as_slice()].concat()), reply(&sampled));
}

#[test]
fn the_dequantized_twin_gives_the_same_text() {
    let twin = std::env::temp_dir().join(format!("forerunner-twin-{}", std::process::id()));
    let (source, twin_name) = (demo("target"), twin.to_str().unwrap().to_owned());
    let made = forerunner(&["synth", "--dequantize", source.to_str().unwrap(), &twin_name]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let drafter = demo("drafter");
    let model = ["--model", &twin_name, "--drafter", drafter.to_str().unwrap()];
    let sampled = ["--temperature", "0.8", "--seed", "3", QUESTION];
    assert_eq!(reply(&[model.as_slice(), &[QUESTION]].concat()), ANSWER);
    assert_eq!(reply(&[model.as_slice(), sampled.as_slice()].concat()), reply(&sampled));
    std::fs::remove_dir_all(twin).unwrap();
}

#[test]
fn a_grown_model_answers_as_the_demo_and_says_what_it_is() {
    let run = forerunner(&["run", "--synth", "mid", "--max-tokens", "8", QUESTION]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (Some(0), "Each box has 12 pears. There\n"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("model synthetic mid,4bit"), "{}", run.stderr);
}

#[test]
fn limits_systems_and_raw_prompts_are_obeyed() {
    let short = reply(&["--max-tokens", "3", QUESTION]);
    assert!(ANSWER.starts_with(short.trim_end()) && short.len() < ANSWER.len(), "{short}");
    assert!(!reply(&["--system", "Answer in one word.", QUESTION]).is_empty());
    let raw = "<|im_start|>user\nThere are 7 boxes with 12 pears each. How many pears are there in all?\
               <|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(reply(&["--raw", raw]), ANSWER);
}
