//! One reply in progress: from committed tokens to text events.

use std::time::Instant;

use forerunner_lanes::{Delivery, Finish, SequenceStatistics};
use forerunner_text::{Detokenizer, StopStrings};
use tokio::sync::mpsc::UnboundedSender;

use crate::request::{Event, FinishReason, Statistics};

/// A reply whose sequence is in the lanes.
pub(crate) struct ActiveReply {
    pub(crate) request_id: u64,
    events: UnboundedSender<Event>,
    submitted: Instant,
    first_token: Option<Instant>,
    detokenizer: Detokenizer,
    stops: StopStrings,
    /// Tokens of the prompt while it is not read to its end, then none.
    pub(crate) unread_tokens: usize,
    reply_tokens: usize,
}

/// Whether a reply goes on.
pub(crate) enum Progress {
    /// It does.
    Running,
    /// Its sequence has ended, and so has it.
    Ended,
    /// Its text has met a stop string; its sequence may still run.
    Stopped,
}

impl ActiveReply {
    pub(crate) fn new(
        request_id: u64,
        events: UnboundedSender<Event>,
        submitted: Instant,
        detokenizer: Detokenizer,
        stops: StopStrings,
        unread_tokens: usize,
    ) -> Self {
        ActiveReply {
            request_id,
            events,
            submitted,
            first_token: None,
            detokenizer,
            stops,
            unread_tokens,
            reply_tokens: 0,
        }
    }

    /// Turns a delivery into events. Tokens past the one that completes a stop string are dropped, however many
    /// a round committed.
    pub(crate) fn take(&mut self, delivery: &Delivery) -> Progress {
        if !delivery.tokens.is_empty() {
            self.first_token.get_or_insert_with(Instant::now);
        }
        let mut text = String::new();
        for (index, token) in delivery.tokens.iter().enumerate() {
            let output = self.stops.push(&self.detokenizer.push(*token));
            text.push_str(&output.text);
            if output.stopped {
                self.send_text(text, delivery.tokens[..=index].to_vec());
                return Progress::Stopped;
            }
        }
        let Some(finished) = &delivery.finished else {
            self.send_text(text, delivery.tokens.to_vec());
            return Progress::Running;
        };
        let reason = match &finished.reason {
            Finish::Failed(message) => {
                self.fail(message);
                return Progress::Ended;
            }
            Finish::Stop => FinishReason::Stop,
            Finish::Length => FinishReason::Length,
        };
        self.release(&mut text);
        self.send_text(text, delivery.tokens.to_vec());
        self.finish(reason, &finished.statistics);
        Progress::Ended
    }

    /// Tells the holder that the reply will not be whole.
    pub(crate) fn fail(&self, message: &str) {
        self.send(Event::Failed { message: message.into() });
    }

    /// Appends what was held back to `text`. That may complete a stop string.
    fn release(&mut self, text: &mut String) {
        let output = self.stops.push(&self.detokenizer.finish());
        text.push_str(&output.text);
        text.push_str(&self.stops.finish());
    }

    fn send_text(&mut self, text: String, tokens: Vec<u32>) {
        self.reply_tokens += tokens.len();
        if !text.is_empty() || !tokens.is_empty() {
            self.send(Event::Text { text, tokens });
        }
    }

    /// Ends the reply, for `reason` unless it has met a stop string.
    pub(crate) fn finish(&self, reason: FinishReason, sequence: &SequenceStatistics) {
        let now = Instant::now();
        let first_token = self.first_token.unwrap_or(now);
        let statistics = Statistics {
            prompt_tokens: sequence.prompt_tokens,
            cached_tokens: sequence.cached_tokens,
            reply_tokens: self.reply_tokens,
            time_to_first_token: first_token - self.submitted,
            decode_time: now - first_token,
            rounds: sequence.rounds,
            drafted_rounds: sequence.drafted_rounds,
            drafts: sequence.drafts,
            accepted_drafts: sequence.accepted,
            by_position: sequence.by_position.clone(),
            draft_off_reason: sequence.draft_off.map(|reason| reason.to_string()),
        };
        let reason = self.stops.stopped_by().map_or(reason, FinishReason::StopString);
        self.send(Event::Finished { reason, statistics });
    }

    fn send(&self, event: Event) {
        // A holder that is gone has sent its cancel command; it comes with the next commands.
        let _ = self.events.send(event);
    }
}
