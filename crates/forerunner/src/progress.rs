//! How far something is that takes its time: a bar on a terminal, and a line now and then in a pipe or a log.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::tell;

/// Time between lines: what is done sooner says nothing.
const PAUSE: Duration = Duration::from_secs(5);

/// Bytes done of those to do, on standard error. Its clones show the same.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Arc<Shown>);

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines(Mutex<Lines>),
}

/// What is told without a terminal.
#[derive(Debug)]
struct Lines {
    label: String,
    total: u64,
    done: u64,
    told: Instant,
    is_over: bool,
}

impl Progress {
    /// None of `bytes` done yet.
    pub(crate) fn of_bytes(label: &str, bytes: u64) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(Arc::new(Shown::Lines(Mutex::new(Lines::new(label, bytes, Instant::now())))));
        }
        const TEMPLATE: &str = "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(TEMPLATE).expect("a template of indicatif's");
        Progress(Arc::new(Shown::Bar(
            ProgressBar::new(bytes).with_style(style).with_message(label.to_owned()),
        )))
    }

    /// So many bytes more. After [`Progress::end`] nothing is shown any more.
    pub(crate) fn advance(&self, bytes: u64) {
        match &*self.0 {
            Shown::Bar(bar) if !bar.is_finished() => bar.inc(bytes),
            Shown::Bar(_) => {}
            Shown::Lines(lines) => {
                let line = lines.lock().expect("nobody panics with it").advance(bytes, Instant::now());
                line.into_iter().for_each(tell);
            }
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        match &*self.0 {
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines(lines) => lines.lock().expect("nobody panics with it").is_over = true,
        }
    }
}

impl Lines {
    fn new(label: &str, total: u64, now: Instant) -> Lines {
        Lines { label: label.to_owned(), total, done: 0, told: now, is_over: false }
    }

    /// What to tell at this time, if it is time.
    fn advance(&mut self, bytes: u64, now: Instant) -> Option<String> {
        self.done += bytes;
        if self.is_over || now.duration_since(self.told) < PAUSE {
            return None;
        }
        self.told = now;
        let Lines { label, total, done, .. } = self;
        let percent = 100 * *done / (*total).max(1);
        Some(format!("{label}: {percent}%, {} of {} MB", *done / 1_000_000, *total / 1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_now_and_then_until_the_end() {
        let start = Instant::now();
        let mut lines = Lines::new("loading", 40_000_000, start);
        let mut after = |seconds| lines.advance(10_000_000, start + Duration::from_secs(seconds));
        assert_eq!(after(4), None);
        assert_eq!(after(5).as_deref(), Some("loading: 50%, 20 of 40 MB"));
        assert_eq!(after(9), None);
        assert_eq!(after(10).as_deref(), Some("loading: 100%, 40 of 40 MB"));
        lines.is_over = true;
        assert_eq!(lines.advance(1, start + Duration::from_secs(60)), None);
    }

    #[test]
    fn a_bar_that_was_taken_away_stays_away() {
        let bar = ProgressBar::hidden();
        bar.set_length(10);
        let progress = Progress(Arc::new(Shown::Bar(bar.clone())));
        progress.advance(4);
        assert_eq!(bar.position(), 4);
        progress.end();
        progress.advance(4);
        assert!(bar.is_finished() && bar.position() == 10);
    }
}
