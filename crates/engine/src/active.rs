//! One reply in progress: from committed tokens to text events.

use std::time::Instant;

use forerunner_lanes::{Delivery, Finish, SequenceStatistics, TokenId};
use forerunner_text::{Detokenizer, StopStrings};
use tokio::sync::mpsc::UnboundedSender;

use crate::request::{Event, Fault, FinishReason, Statistics, ToldToken};
use crate::teller::Teller;

/// A reply whose sequence is in the lanes.
pub(crate) struct ActiveReply {
    pub(crate) request_id: u64,
    events: UnboundedSender<Event>,
    submitted: Instant,
    first_token: Option<Instant>,
    detokenizer: Detokenizer,
    stops: StopStrings,
    /// Holds what is told of tokens, if they are told.
    teller: Option<Teller>,
    /// Tokens of the prompt while it is not read to its end, then none.
    pub(crate) unread_tokens: usize,
    reply_tokens: usize,
}

/// The last event of a reply that will not be whole.
pub(crate) fn failure(fault: Fault, message: &str) -> Event {
    Event::Failed { fault, message: message.into() }
}

/// Whether a reply goes on.
pub(crate) enum Progress {
    /// It does.
    Running,
    /// Its sequence has ended, and so has it: this is its last event, not sent yet.
    Ended(Event),
    /// Its text has met a stop string; its sequence still runs.
    Stopped,
}

impl ActiveReply {
    pub(crate) fn new(
        request_id: u64,
        events: UnboundedSender<Event>,
        submitted: Instant,
        detokenizer: Detokenizer,
        stops: StopStrings,
        teller: Option<Teller>,
        unread_tokens: usize,
    ) -> Self {
        ActiveReply {
            request_id,
            events,
            submitted,
            first_token: None,
            detokenizer,
            stops,
            teller,
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
            let made = self.detokenizer.push(*token);
            let output = self.stops.push(&made);
            text.push_str(&output.text);
            self.tell(delivery, index, made);
            if output.stopped {
                self.send_text(text, &delivery.tokens[..=index], Teller::stop);
                return match &delivery.finished {
                    Some(finished) => Progress::Ended(self.end(FinishReason::Stop, &finished.statistics)),
                    None => Progress::Stopped,
                };
            }
        }
        let Some(finished) = &delivery.finished else {
            self.send_text(text, &delivery.tokens, |_| Vec::new());
            return Progress::Running;
        };
        let reason = match &finished.reason {
            Finish::Failed(message) => {
                return Progress::Ended(failure(Fault::Engine, message));
            }
            Finish::DeadEnd(message) => {
                return Progress::Ended(failure(Fault::Form, message));
            }
            Finish::Stop => FinishReason::Stop,
            Finish::Length => FinishReason::Length,
        };
        if let Some(teller) = self.teller.as_mut().filter(|_| reason == FinishReason::Stop) {
            teller.drop_last();
        }
        self.release(&mut text);
        let rest = if self.stops.stopped_by().is_some() { Teller::stop } else { Teller::finish };
        self.send_text(text, &delivery.tokens, rest);
        Progress::Ended(self.end(reason, &finished.statistics))
    }

    fn tell(&mut self, delivery: &Delivery, index: usize, text: String) {
        if let Some(teller) = &mut self.teller {
            teller.push(ToldToken {
                token: delivery.tokens[index],
                text,
                origin: delivery.tokens.origins()[index],
                logprobs: delivery.logprobs_of(index).to_vec(),
            });
        }
    }

    /// Appends what was held back to `text`. That may complete a stop string.
    fn release(&mut self, text: &mut String) {
        let made = self.detokenizer.finish();
        if let Some(teller) = &mut self.teller {
            teller.extend_last(&made);
        }
        let output = self.stops.push(&made);
        text.push_str(&output.text);
        text.push_str(&self.stops.finish());
    }

    /// Sends text with the tokens committed, and what is told of those that are out; `rest` takes what the reply's
    /// end leaves of the others.
    fn send_text(&mut self, text: String, tokens: &[TokenId], rest: impl Fn(&mut Teller) -> Vec<ToldToken>) {
        self.reply_tokens += tokens.len();
        let told = self.teller.as_mut().map_or(Vec::new(), |teller| {
            let mut told = teller.show(text.len());
            told.extend(rest(teller));
            told
        });
        if !text.is_empty() || !tokens.is_empty() {
            self.send(Event::Text { text, tokens: tokens.to_vec(), told });
        }
    }

    /// The last event of a reply that is whole: it ends for `reason` unless it has met a stop string.
    pub(crate) fn end(&self, reason: FinishReason, sequence: &SequenceStatistics) -> Event {
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
            copies: sequence.copies,
            accepted_copies: sequence.copies_accepted,
            by_position: sequence.by_position.clone(),
            draft_off_reason: sequence.draft_off.map(|reason| reason.to_string()),
        };
        let reason = self.stops.stopped_by().map_or(reason, FinishReason::StopString);
        Event::Finished { reason, statistics }
    }

    /// Tells the reply's holder.
    pub(crate) fn send(&self, event: Event) {
        // A holder that is gone has sent its cancel command; it comes with the next commands.
        let _ = self.events.send(event);
    }
}
