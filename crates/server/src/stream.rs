//! Writes a reply as server-sent events, in the words of whichever endpoint was asked.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;

use crate::session::{Session, Step};

/// How an endpoint writes the steps of a reply.
pub(crate) trait Writer: Send + 'static {
    /// Writes what happened to a choice. A failed one is the last: nothing is asked of the writer after it.
    fn step(&mut self, choice: usize, step: Step, frames: &mut Frames);

    /// Writes what follows the last choice's end.
    fn end(&mut self, frames: &mut Frames);
}

/// Events that are written and not yet sent.
#[derive(Default)]
pub(crate) struct Frames(VecDeque<sse::Event>);

impl Frames {
    /// An event without a name.
    pub(crate) fn data(&mut self, data: &impl Serialize) {
        self.0.push_back(sse::Event::default().data(json(data)));
    }

    /// An event that has its type as its name.
    pub(crate) fn typed(&mut self, data: &impl Serialize) {
        let data = serde_json::to_value(data).expect("these types have string keys only");
        let name = data["type"].as_str().unwrap_or_default();
        self.0.push_back(sse::Event::default().event(name).data(data.to_string()));
    }

    /// A word that is no JSON.
    pub(crate) fn word(&mut self, word: &str) {
        self.0.push_back(sse::Event::default().data(word));
    }
}

fn json(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("these types have string keys only")
}

/// The reply as a response. The client's leaving drops the stream, which cancels the reply.
pub(crate) fn response(session: Session, writer: impl Writer) -> Response {
    let streamed = Streamed { session, writer, frames: Frames::default(), ended: false };
    let events = stream::unfold(streamed, |mut streamed| async {
        let event = streamed.next().await?;
        Some((Ok::<_, Infallible>(event), streamed))
    });
    // Comments while a long prompt is read: they keep proxies from giving up, and show a client that has left.
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

struct Streamed<W> {
    session: Session,
    writer: W,
    frames: Frames,
    ended: bool,
}

impl<W: Writer> Streamed<W> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.frames.0.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            match self.session.next().await {
                Some((choice, step)) => {
                    self.ended = matches!(step, Step::Failed(_));
                    self.writer.step(choice, step, &mut self.frames);
                }
                None => {
                    self.ended = true;
                    self.writer.end(&mut self.frames);
                }
            }
        }
    }
}
