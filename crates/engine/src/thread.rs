//! The engine thread: takes commands, runs rounds, turns committed tokens into events.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use forerunner_lanes::{Lanes, NewSequence, SequenceId, SubmitError, Target, TokenId};
use forerunner_text::{StopStrings, Tokenizer};
use tokio::sync::mpsc::UnboundedSender;

use crate::active::{ActiveReply, Progress, failure};
use crate::constraint::GrammarConstraint;
use crate::counter::Counter;
use crate::handle::Shared;
use crate::request::{Event, Fault, FinishReason, Request};
use crate::teller::Teller;

/// What the engine thread is told.
pub(crate) enum Command {
    /// A validated request.
    Submit(Box<Submission>),
    /// The holder of this request's reply is gone.
    Cancel(u64),
    /// End after the current round.
    Stop,
}

/// A request with where its events go.
pub(crate) struct Submission {
    pub(crate) id: u64,
    pub(crate) request: Request,
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) submitted: Instant,
}

/// Tells the handles that the thread has ended, also when it panicked.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.alive.store(false, Ordering::SeqCst);
    }
}

/// The state of the engine thread.
pub(crate) struct EngineThread {
    lanes: Lanes<Box<dyn Target + Send>>,
    tokenizer: Arc<Tokenizer>,
    stop_tokens: Vec<TokenId>,
    shared: Arc<Shared>,
    active: HashMap<SequenceId, ActiveReply>,
    by_request: HashMap<u64, SequenceId>,
    /// Sequences whose prompt this round has read to its end.
    read: Vec<SequenceId>,
    counter: Counter,
}

impl EngineThread {
    pub(crate) fn new(
        lanes: Lanes<Box<dyn Target + Send>>,
        tokenizer: Arc<Tokenizer>,
        stop_tokens: Vec<TokenId>,
        shared: Arc<Shared>,
    ) -> Self {
        EngineThread {
            lanes,
            tokenizer,
            stop_tokens,
            shared,
            active: HashMap::new(),
            by_request: HashMap::new(),
            read: Vec::new(),
            counter: Counter::default(),
        }
    }

    /// Runs rounds until told to stop.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let _ending = Ending(self.shared.clone());
        while self.take_commands(commands) {
            self.round();
        }
        for (_, reply) in self.active.drain() {
            reply.send(failure(Fault::Engine, "the engine is stopping"));
        }
    }

    /// Takes all commands, waiting for one when there is nothing to run. False means stop.
    fn take_commands(&mut self, commands: &Receiver<Command>) -> bool {
        if self.lanes.is_idle() {
            let Ok(command) = commands.recv() else { return false };
            if !self.obey(command) {
                return false;
            }
        }
        loop {
            let proceed = match commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => false,
            };
            if !proceed {
                return false;
            }
        }
    }

    fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Submit(submission) => self.submit(*submission),
            Command::Cancel(request) => {
                if let Some(id) = self.by_request.get(&request).copied() {
                    self.lanes.cancel(id);
                    self.forget(id);
                }
            }
            Command::Stop => return false,
        }
        true
    }

    fn submit(&mut self, submission: Submission) {
        let Submission { id, request, events, submitted } = submission;
        let prompt_tokens = request.prompt.len();
        let reply = StopStrings::new(&request.stop.strings).map(|stops| {
            let detokenizer = self.tokenizer.detokenizer();
            let teller = request.tells_tokens.then(Teller::default);
            ActiveReply::new(id, events.clone(), submitted, detokenizer, stops, teller, prompt_tokens)
        });
        let refusal = match (reply, self.submit_sequence(request)) {
            (Ok(reply), Ok(sequence)) => {
                self.by_request.insert(id, sequence);
                self.active.insert(sequence, reply);
                self.counter.unread_tokens += prompt_tokens;
                return;
            }
            (Err(error), submitted) => {
                submitted.into_iter().for_each(|sequence| drop(self.lanes.cancel(sequence)));
                error.to_string()
            }
            (_, Err(error)) => error.to_string(),
        };
        self.shared.unfinished.fetch_sub(1, Ordering::SeqCst);
        let _ = events.send(failure(Fault::Engine, &refusal));
    }

    fn submit_sequence(&mut self, request: Request) -> Result<SequenceId, SubmitError> {
        let context = self.lanes.limits().context;
        let rest = context.saturating_sub(request.prompt.len());
        let sequence = NewSequence {
            prompt: request.prompt,
            max_tokens: request.max_tokens.unwrap_or(rest).min(rest),
            rule: request.rule,
            stop_tokens: if request.stop.ignore_end_of_sequence {
                Vec::new()
            } else {
                self.stop_tokens.clone()
            },
            draft: request.draft,
            logprobs: request.logprobs,
        };
        match request.constraint {
            Some(constraint) => {
                self.lanes.submit_constrained(sequence, Box::new(GrammarConstraint::new(constraint)))
            }
            None => self.lanes.submit(sequence),
        }
    }

    /// Runs a round and tells what came of it. A reply's last event is sent when its end can be read off the status:
    /// who has a whole reply finds its lane and its pages free.
    fn round(&mut self) {
        let mut ended = Vec::new();
        for delivery in self.lanes.step() {
            let Some(reply) = self.active.get_mut(&delivery.id) else { continue };
            if reply.unread_tokens > 0 && !delivery.tokens.is_empty() {
                self.counter.unread_tokens -= std::mem::take(&mut reply.unread_tokens);
                match &delivery.finished {
                    Some(finished) => self.counter.count_prompt(&finished.statistics),
                    None => self.read.push(delivery.id),
                }
            }
            match reply.take(delivery) {
                Progress::Running => {}
                Progress::Ended(last) => ended.push((delivery.id, Some(last))),
                Progress::Stopped => ended.push((delivery.id, None)),
            }
        }
        for id in self.read.drain(..) {
            self.lanes.statistics(id).into_iter().for_each(|taken| self.counter.count_prompt(taken));
        }
        let mut farewells = Vec::new();
        for (id, last) in ended {
            let last = last.unwrap_or_else(|| {
                let statistics = self.lanes.finish(id).unwrap_or_default();
                self.active[&id].end(FinishReason::Stop, &statistics)
            });
            farewells.extend(self.forget(id).map(|reply| (reply, last)));
        }
        self.publish();
        for (reply, last) in farewells {
            reply.send(last);
        }
    }

    fn forget(&mut self, id: SequenceId) -> Option<ActiveReply> {
        let reply = self.active.remove(&id)?;
        self.by_request.remove(&reply.request_id);
        self.counter.unread_tokens -= reply.unread_tokens;
        self.shared.unfinished.fetch_sub(1, Ordering::SeqCst);
        Some(reply)
    }

    fn publish(&mut self) {
        let mut counts = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        self.counter.publish(&self.lanes, &mut counts);
        drop(counts);
        self.shared.running.store(self.lanes.running(), Ordering::SeqCst);
        self.shared.pages_in_use.store(self.lanes.pages_in_use(), Ordering::SeqCst);
    }
}
