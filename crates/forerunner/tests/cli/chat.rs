//! Conversations: from a pipe, and at a terminal, where lines are edited and recalled.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::binary::{ANSWER, Finished, QUESTION, command, finished};
use crate::scratch::Scratch;

/// Where a chat keeps its lines, when this is the folder for state.
pub(crate) fn history(state: &Scratch) -> PathBuf {
    state.join("forerunner/history")
}

fn chat_from_pipe(state: &Path, input: &str) -> Finished {
    let mut child = command(&["chat"])
        .env("XDG_STATE_HOME", state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    finished(child)
}

#[test]
fn a_conversation_comes_from_a_pipe_too_and_leaves_no_history() {
    let state = Scratch::new("pipe");
    let input = format!("{QUESTION}\n/stats\n/reset\n{QUESTION}\n/quit\nnever said\n");
    let run = chat_from_pipe(state.path(), &input);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.stdout, format!("{ANSWER}{ANSWER}"));
    assert!(run.stderr.contains("tokens a round"), "{}", run.stderr);
    assert!(!history(&state).exists());
}

#[test]
fn commands_do_what_the_help_says() {
    let state = Scratch::new("commands");
    let saved = state.join("saved.json");
    let shown = saved.display();
    let input = format!(
        "/help\n/stats\n/retry\n/draft off\n{QUESTION}\n/stats\n/draft maybe\n/save {shown}\n/save {shown}\n\
         /system Be brief.\n/save\n/temperature warm\n/temperature 200\nHello\n/temperature 0\n/clear\n{QUESTION}\n\
         /retry\n/nonsense\n/drfat on\n"
    );
    let run = chat_from_pipe(state.path(), &input);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in [
        "/system [TEXT]",
        "no reply yet",
        "not drafted: ",
        "/draft is \"maybe\"; accepted: on, off",
        &format!("written to {shown}"),
        &format!("/save is \"{shown}\"; accepted: the name of a new file"),
        "/save is \"\"; accepted: the name of a new file",
        "/temperature is \"warm\"; accepted: a number from 0",
        "temperature is 200",
        "there is no /nonsense; /help lists the commands",
        "there is no /drfat; did you mean /draft?",
    ] {
        assert!(run.stderr.contains(part), "{part:?} is not in {}", run.stderr);
    }
    let kept: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    let expected = json!({"messages": [
        {"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER.trim_end()},
    ]});
    assert_eq!(kept, expected);
    let replies: Vec<&str> = run.stdout.lines().collect();
    assert_eq!((replies.len(), replies[0]), (3, ANSWER.trim_end()), "{}", run.stdout);
    assert_eq!(replies[1], replies[2], "the same question again");
}
