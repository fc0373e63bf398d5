//! Runs the binary, to its end or as a server.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};

use serde_json::Value;

/// A question of the demo's kind, and what the demo model replies to it.
pub(crate) const QUESTION: &str = "There are 7 boxes with 12 pears each. How many pears are there in all?";
pub(crate) const ANSWER: &str = "Each box has 12 pears. There are 7 boxes. 7 * 12 = 84. The answer is 84.\n";

/// What a finished run wrote.
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs to the end with nothing to read.
pub(crate) fn forerunner(arguments: &[&str]) -> Finished {
    let mut command = command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finished(command.spawn().expect("the binary starts"))
}

/// Waits for the end of a run whose output is piped.
pub(crate) fn finished(child: Child) -> Finished {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("the binary ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Finished { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// A reply's text, from a run that must succeed.
#[track_caller]
pub(crate) fn reply(arguments: &[&str]) -> String {
    let run = forerunner(&[&["run"], arguments].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.stdout
}

/// The demo target's directory.
pub(crate) fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo").join(name)
}

/// The demo prompts.
pub(crate) fn demo_prompts() -> Vec<Value> {
    let text = std::fs::read_to_string(demo("prompts.jsonl")).expect("the demo prompts");
    text.lines().map(|line| serde_json::from_str(line).expect("a prompt")).collect()
}

/// A server on a free port, killed when dropped.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    child: Child,
    said: Said,
}

/// Lines of standard error as they come.
type Said = std::io::Lines<BufReader<ChildStderr>>;

impl Serving {
    /// Starts a server and waits until its model is loaded.
    pub(crate) fn start(arguments: &[&str]) -> Serving {
        let mut server = Serving::loading(arguments);
        server.wait_until_loaded();
        server
    }

    /// Starts a server and waits until its port is open.
    pub(crate) fn loading(arguments: &[&str]) -> Serving {
        let arguments = [&["serve", "--port", "0"], arguments].concat();
        let mut child = command(&arguments).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let told = said.by_ref().map_while(Result::ok).find(|line| line.starts_with("loading; "));
        let told = told.expect("the server says that it is loading");
        let address = told.split("://").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
        Serving { address: address.parse().expect("an address"), child, said }
    }

    /// Waits until the model is loaded.
    pub(crate) fn wait_until_loaded(&mut self) {
        let listening =
            self.said.by_ref().map_while(Result::ok).find(|line| line.starts_with("listening on "));
        assert!(listening.is_some(), "the server ended before its model was loaded");
    }

    /// Sends SIGTERM and waits for the end.
    #[cfg(unix)]
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
        self.child.wait().expect("the server ends")
    }

    /// Waits for a server that ends by itself: its exit code, and what it still said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let said: Vec<String> = self.said.by_ref().map_while(Result::ok).collect();
        (self.child.wait().expect("the server ends").code(), said.join("\n"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary with these arguments.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forerunner"));
    command.args(arguments);
    command
}
