//! A request's replies while they are in progress, whatever shape they are answered in.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use forerunner_engine::{Event, Fault, Reply, Request, Statistics, TokenId, ToldToken};
use forerunner_text::ReplyEvent;

use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::parts::{Ending, Parts, Reader, Reading, WholeReply};
use crate::service::{Admission, Service};

/// The choices of one request. Dropped before they have ended, as when the client leaves, they are cancelled.
pub(crate) struct Session {
    choices: Vec<Choice>,
    /// The choice that is asked first for its next step, so that none waits for another.
    turn: usize,
    metrics: Arc<Metrics>,
    _admission: Admission,
}

struct Choice {
    reply: Reply,
    reader: Reader,
    ended: bool,
}

/// What happens next to a choice.
#[derive(Debug)]
pub(crate) enum Step {
    /// More of it has arrived.
    More {
        events: Vec<ReplyEvent>,
        /// The tokens that were committed; their text may come later.
        token_ids: Vec<TokenId>,
        /// Tokens whose text is out, if they are told.
        told: Vec<ToldToken>,
    },
    /// It is whole.
    Finished {
        /// What was held back.
        events: Vec<ReplyEvent>,
        ending: Ending,
        statistics: Statistics,
    },
    /// It will not be whole.
    Failed(ApiError),
}

impl Session {
    /// Submits a request for so many choices. All are refused when one is.
    pub(crate) fn start(
        service: &Service,
        admission: Admission,
        request: Request,
        choices: usize,
        reading: Reading,
    ) -> Result<Self, ApiError> {
        let submit = |choice: usize| {
            let mut request = request.clone();
            request.rule.choice = choice as u32;
            let reply = service.engine.submit(request)?;
            Ok(Choice { reply, reader: Reader::new(reading), ended: false })
        };
        let choices = (0..choices).map(submit).collect::<Result<_, ApiError>>()?;
        Ok(Session { choices, turn: 0, metrics: service.metrics.clone(), _admission: admission })
    }

    /// The next step of any choice; `None` when all have ended.
    pub(crate) async fn next(&mut self) -> Option<(usize, Step)> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Step)>> {
        let count = self.choices.len();
        for index in (self.turn..self.turn + count).map(|index| index % count) {
            let choice = &mut self.choices[index];
            if choice.ended {
                continue;
            }
            if let Poll::Ready(event) = choice.reply.poll_next(context) {
                self.turn = index + 1;
                let step = choice.step(event);
                if let Step::Finished { ending, statistics, .. } = &step {
                    self.metrics.count(*ending, statistics);
                }
                return Poll::Ready(Some((index, step)));
            }
        }
        if self.choices.iter().all(|choice| choice.ended) { Poll::Ready(None) } else { Poll::Pending }
    }

    /// All choices, when they are whole.
    pub(crate) async fn whole(mut self) -> Result<Vec<WholeReply>, ApiError> {
        let mut unfinished = vec![(Parts::default(), Vec::new(), Vec::new()); self.choices.len()];
        let mut whole: Vec<Option<WholeReply>> = unfinished.iter().map(|_| None).collect();
        while let Some((index, step)) = self.next().await {
            let (parts, token_ids, told) = &mut unfinished[index];
            match step {
                Step::More { events, token_ids: more_ids, told: more } => {
                    parts.add(events);
                    token_ids.extend(more_ids);
                    told.extend(more);
                }
                Step::Finished { events, ending, statistics } => {
                    parts.add(events);
                    let (parts, token_ids, told) = std::mem::take(&mut unfinished[index]);
                    whole[index] = Some(WholeReply { parts, token_ids, told, ending, statistics });
                }
                Step::Failed(error) => return Err(error),
            }
        }
        Ok(whole.into_iter().flatten().collect())
    }
}

impl Choice {
    fn step(&mut self, event: Option<Event>) -> Step {
        self.ended = !matches!(event, Some(Event::Text { .. }));
        match event {
            Some(Event::Text { text, tokens, told }) => {
                Step::More { events: self.reader.push(text), token_ids: tokens, told }
            }
            Some(Event::Finished { reason, statistics }) => {
                let events = self.reader.finish();
                Step::Finished { events, ending: self.reader.ending(reason), statistics }
            }
            Some(Event::Failed { fault: Fault::Engine, message }) => {
                Step::Failed(ApiError::internal(message))
            }
            Some(Event::Failed { fault: Fault::Form, message }) => Step::Failed(ApiError::dead_end(message)),
            None => Step::Failed(ApiError::stopping()),
        }
    }
}
