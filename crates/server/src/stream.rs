//! Writes a reply as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use forerunner_engine::{Event, FinishReason, Statistics};
use futures_util::stream;
use serde::Serialize;

use crate::error::{ApiError, ErrorBody};
use crate::reply::Running;
use crate::types::{Choice, Completion, Content, StatisticsBlock, Usage, finish_reason};

/// The reply as a response. The client's leaving drops the stream, which cancels the reply.
pub(crate) fn response(running: Running) -> Response {
    let writer = Writer { running, ready: VecDeque::new(), state: State::Unopened };
    let events = stream::unfold(writer, |mut writer| async {
        let event = writer.next().await?;
        Some((Ok::<_, Infallible>(event), writer))
    });
    // Comments while a long prompt is read: they keep proxies from giving up, and show a client that has left.
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Turns engine events into server-sent ones.
struct Writer {
    running: Running,
    /// Written by the last engine event and not yet sent.
    ready: VecDeque<sse::Event>,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    /// Nothing is written. The opening chunk goes out with the first token, so that clients that time their first
    /// chunk time the first token.
    Unopened,
    Open,
    /// `[DONE]` is written.
    Done,
}

impl Writer {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.state == State::Done {
                return None;
            }
            let event = self.running.reply.next().await;
            self.take(event);
        }
    }

    fn take(&mut self, event: Option<Event>) {
        match event {
            Some(Event::Text { text, tokens }) => {
                self.open();
                if !text.is_empty() || self.running.format.token_ids {
                    let token_ids = self.running.format.token_ids.then_some(tokens);
                    let choice = Choice { token_ids, ..Choice::new(self.running.endpoint.piece(text)) };
                    self.push_choice(choice);
                }
            }
            Some(Event::Finished { reason, statistics }) => {
                self.open();
                self.finish(reason, &statistics);
            }
            Some(Event::Failed { message }) => self.fail(&ApiError::internal(message)),
            None => self.fail(&ApiError::stopping()),
        }
    }

    fn open(&mut self) {
        if self.state == State::Unopened {
            self.state = State::Open;
            if let Some(content) = self.running.endpoint.opening() {
                self.push_content(content);
            }
        }
    }

    /// The last chunk with a choice, then the usage chunk if it was asked for.
    fn finish(&mut self, reason: FinishReason, statistics: &Statistics) {
        let running = &self.running;
        let choice =
            Choice { finish_reason: Some(finish_reason(reason)), ..Choice::new(running.endpoint.closing()) };
        let last = Completion {
            seed: Some(running.seed()),
            forerunner: Some(StatisticsBlock::from(statistics)),
            ..running.completion(vec![choice])
        };
        let usage = running
            .format
            .include_usage
            .then(|| Completion { usage: Some(Usage::from(statistics)), ..running.completion(Vec::new()) });
        self.push(&last);
        if let Some(usage) = usage {
            self.push(&usage);
        }
        self.done();
    }

    fn fail(&mut self, error: &ApiError) {
        self.push(&ErrorBody { error });
        self.done();
    }

    fn done(&mut self) {
        self.ready.push_back(sse::Event::default().data("[DONE]"));
        self.state = State::Done;
    }

    fn push_content(&mut self, content: Content) {
        self.push_choice(Choice::new(content));
    }

    fn push_choice(&mut self, choice: Choice) {
        let chunk = self.running.completion(vec![choice]);
        self.push(&chunk);
    }

    fn push(&mut self, chunk: &impl Serialize) {
        let json = serde_json::to_string(chunk).expect("these types have string keys only");
        self.ready.push_back(sse::Event::default().data(json));
    }
}
