//! The binary at a terminal: a pseudo-terminal that this test types at.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::pty::{OpenptyResult, Winsize, openpty};

use crate::binary::{ANSWER, QUESTION, command};
use crate::chat::history;
use crate::scratch::Scratch;

/// How long the binary may take to show something.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A chat and the terminal it is at.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What came since the last text that was waited for.
    shown: String,
}

impl Terminal {
    fn chat(state: &Scratch) -> Terminal {
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(Some(&size), None).expect("a pseudo-terminal");
        let side = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let child = command(&["chat"])
            .env("XDG_STATE_HOME", state.path())
            .env("TERM", "xterm")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("the binary starts");
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().expect("a descriptor");
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // At the end of the last program there is an error on Linux, and an end elsewhere.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keyboard, screen, shown: String::new() }
    }

    /// Types keys; a line is sent by `\r`, as the key sends it.
    fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Waits until the screen has shown this, and forgets what came before.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        loop {
            if let Some(index) = self.shown.find(text) {
                self.shown.drain(..index + text.len());
                return;
            }
            let Ok(bytes) = self.screen.recv_timeout(TIME_LIMIT) else {
                panic!("{text:?} is not in {:?}", self.shown)
            };
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    #[track_caller]
    fn end(mut self) {
        self.type_keys("/quit\r");
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const UP: &str = "\x1b[A";
const LEFT: &str = "\x1b[D";

#[test]
fn lines_are_edited_and_recalled_in_this_conversation_and_the_next() {
    let (state, answer) = (Scratch::new("terminal"), ANSWER.trim_end());
    let mut first = Terminal::chat(&state);
    first.wait_for("/help lists the commands");
    first.wait_for("> ");
    // The question with its last letters the wrong way around, put right by going back.
    let (begun, end) = QUESTION.split_at(QUESTION.len() - 1);
    first.type_keys(&format!("{end}{LEFT}{begun}\r"));
    first.wait_for(answer);
    first.wait_for("> ");
    first.type_keys("/cle\t\r");
    first.wait_for("> ");
    first.type_keys(&format!("{UP}{UP}\r"));
    first.wait_for(answer);
    first.wait_for("> ");
    first.end();
    let kept = std::fs::read_to_string(history(&state)).expect("a history");
    assert!(kept.contains(QUESTION) && kept.contains("/clear"), "{kept}");
    let mut second = Terminal::chat(&state);
    second.wait_for("> ");
    // The last lines were /quit and the question.
    second.type_keys(&format!("{UP}{UP}\r"));
    second.wait_for(answer);
    second.wait_for("> ");
    second.end();
}

#[test]
fn ctrl_c_gives_up_the_line_and_ctrl_d_ends() {
    let state = Scratch::new("keys");
    let mut chat = Terminal::chat(&state);
    chat.wait_for("loading");
    chat.wait_for("> ");
    chat.type_keys("never asked\x03");
    chat.wait_for("> ");
    chat.type_keys("\x04");
    assert!(chat.child.wait().expect("it ends").success());
    assert!(
        !history(&state).exists() || !std::fs::read_to_string(history(&state)).unwrap().contains("never")
    );
}
