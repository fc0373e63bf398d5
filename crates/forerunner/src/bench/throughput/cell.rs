//! One kind of prompt at one number of streams: alternated runs, and whether their replies are those that plain
//! requests get alone.

use std::ops::RangeInclusive;

use forerunner_engine::EngineHandle;
use serde_json::{Map, Value, json};

use crate::bench::equality::Equality;
use crate::bench::local::{self, LocalPrompt, LocalReply, LocalRun, ReplySettings};
use crate::bench::statistics::{Spread, percentile};
use crate::bench::timings::{self, Timing};

/// Width of a ratio's interval at which no more pairs are run: three hundredths tell whether drafts cost time.
const NARROW: f64 = 0.03;

/// Prompts with the replies that each gets plain and alone: what all others are compared with.
pub(super) struct Alone {
    prompts: Vec<LocalPrompt>,
    replies: Vec<LocalReply>,
}

impl Alone {
    /// Answers each prompt by itself.
    pub(super) fn run(
        engine: &EngineHandle,
        prompts: Vec<LocalPrompt>,
        settings: &ReplySettings,
    ) -> anyhow::Result<Self> {
        let mut replies = Vec::new();
        for prompt in &prompts {
            replies.extend(local::answer(engine, &[prompt], settings)?.replies);
        }
        Ok(Alone { prompts, replies })
    }

    /// The hash of every reply.
    pub(super) fn to_json(&self) -> Vec<Value> {
        let reply = |(prompt, reply): (&LocalPrompt, &LocalReply)| {
            json!({
                "kind": prompt.kind, "prompt": prompt.name, "prompt_tokens": reply.statistics.prompt_tokens,
                "reply_tokens": reply.statistics.reply_tokens, "sha256": reply.hash,
            })
        };
        self.prompts.iter().zip(&self.replies).map(reply).collect()
    }

    /// The prompts of a run, by index: distinct ones in turn, or each for all streams.
    fn order(&self, plan: &Plan) -> Vec<usize> {
        let of_request = |request: usize| if plan.same { request / plan.streams } else { request };
        (0..plan.requests).map(|request| of_request(request) % self.prompts.len()).collect()
    }
}

/// What a cell runs.
pub(super) struct Plan {
    pub(super) streams: usize,
    pub(super) requests: usize,
    /// Fewest pairs, and the most where their ratio's interval stays wide.
    pub(super) pairs: RangeInclusive<usize>,
    pub(super) same: bool,
}

/// What a cell has found.
pub(super) struct Cell {
    pub(super) kind: String,
    pub(super) streams: usize,
    pub(super) plain: Side,
    pub(super) drafted: Side,
    pub(super) drafted_is_plain: Equality,
    pub(super) shared_is_alone: Equality,
}

/// The runs of a cell that were plain, or those that were drafted.
#[derive(Default)]
pub(super) struct Side {
    runs: Vec<LocalRun>,
}

/// Runs plain and drafted in turn. A run that is not counted goes first, so that guards have found what they find.
pub(super) fn run(
    engine: &EngineHandle,
    kind: &str,
    alone: &Alone,
    plan: &Plan,
    settings: &ReplySettings,
) -> anyhow::Result<Cell> {
    let order = alone.order(plan);
    let once = |draft| once(engine, alone, &order, plan.streams, &ReplySettings { draft, ..*settings });
    once(true)?;
    let mut cell = Cell {
        kind: kind.to_owned(),
        streams: plan.streams,
        plain: Side::default(),
        drafted: Side::default(),
        drafted_is_plain: Equality::default(),
        shared_is_alone: Equality::default(),
    };
    while wants_more(cell.pairs(), cell.time_ratio(), &plan.pairs) {
        let (plain, drafted) = (once(false)?, once(true)?);
        for (index, (plain, drafted)) in order.iter().zip(plain.replies.iter().zip(&drafted.replies)) {
            let (name, expected) = (&alone.prompts[*index].name, &alone.replies[*index].hash);
            cell.drafted_is_plain.compare(name, &plain.hash, &drafted.hash);
            cell.shared_is_alone.compare(name, expected, &plain.hash);
            cell.shared_is_alone.compare(name, expected, &drafted.hash);
        }
        cell.plain.runs.push(plain);
        cell.drafted.runs.push(drafted);
    }
    Ok(cell)
}

/// Whether pairs go on: until there are the fewest, and then until their ratio's interval is narrow or there are the most.
fn wants_more(run: usize, ratio: Option<Spread>, pairs: &RangeInclusive<usize>) -> bool {
    let is_narrow = ratio.is_some_and(|ratio| ratio.width() < NARROW);
    run < *pairs.start() || (run < *pairs.end() && !is_narrow)
}

/// One run: groups of as many replies as there are streams, each when the one before it has ended.
fn once(
    engine: &EngineHandle,
    alone: &Alone,
    order: &[usize],
    streams: usize,
    settings: &ReplySettings,
) -> anyhow::Result<LocalRun> {
    let mut whole = LocalRun { seconds: 0.0, replies: Vec::new() };
    for group in order.chunks(streams) {
        let prompts: Vec<&LocalPrompt> = group.iter().map(|index| &alone.prompts[*index]).collect();
        let run = local::answer(engine, &prompts, settings)?;
        whole.seconds += run.seconds;
        whole.replies.extend(run.replies);
    }
    Ok(whole)
}

impl Cell {
    /// Pairs that were run.
    pub(super) fn pairs(&self) -> usize {
        self.plain.runs.len()
    }

    /// Time of a drafted run over that of the plain one before it.
    pub(super) fn time_ratio(&self) -> Option<Spread> {
        let pairs = self.plain.runs.iter().zip(&self.drafted.runs);
        let pairs: Vec<(f64, f64)> = pairs.map(|(plain, drafted)| (plain.seconds, drafted.seconds)).collect();
        Spread::of_ratios(&pairs)
    }

    /// As a receipt has it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "kind": self.kind,
            "streams": self.streams,
            "pairs": self.pairs(),
            "drafted_over_plain_time": self.time_ratio().map(Spread::to_json),
            "drafted_is_plain": self.drafted_is_plain.to_json(),
            "shared_is_alone": self.shared_is_alone.to_json(),
            "plain": self.plain.to_json(),
            "drafted": self.drafted.to_json(),
        })
    }
}

impl Side {
    /// Tokens a second of each run, all streams together.
    pub(super) fn aggregate(&self) -> Option<Spread> {
        let speed = |run: &LocalRun| tokens(run) as f64 / run.seconds;
        Spread::of(&self.runs.iter().map(speed).collect::<Vec<f64>>())
    }

    /// Tokens a second of the middle stream, while it decodes.
    pub(super) fn per_stream(&self) -> Option<f64> {
        let speeds: Vec<f64> =
            self.timings().iter().filter_map(Timing::seconds_per_token).map(f64::recip).collect();
        percentile(&speeds, 50.0)
    }

    /// Tokens that the average round of a reply has committed.
    pub(super) fn tokens_per_round(&self) -> f64 {
        let rounds: u64 = self.replies().map(|reply| reply.statistics.rounds).sum();
        self.runs.iter().map(tokens).sum::<usize>() as f64 / rounds.max(1) as f64
    }

    fn replies(&self) -> impl Iterator<Item = &LocalReply> {
        self.runs.iter().flat_map(|run| &run.replies)
    }

    fn timings(&self) -> Vec<Timing> {
        self.replies().map(LocalReply::timing).collect()
    }

    /// For each draft position, drafts verified and accepted.
    fn by_position(&self) -> Vec<(u64, u64)> {
        let mut sums: Vec<(u64, u64)> = Vec::new();
        for reply in self.replies() {
            let counts = &reply.statistics.by_position;
            sums.resize(sums.len().max(counts.len()), (0, 0));
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = (sum.0 + count.0, sum.1 + count.1);
            }
        }
        sums
    }

    fn to_json(&self) -> Value {
        let seconds: f64 = self.runs.iter().map(|run| run.seconds).sum();
        let timings = self.timings();
        let count = |count: fn(&LocalReply) -> u64| self.replies().map(count).sum::<u64>();
        let mut fields = timings::summary(&timings, 0, seconds);
        // Nobody watches each stream's events here: that would take time from the engine.
        fields.retain(|name, _| !name.ends_with("_itl_ms"));
        let ours: [(&str, Value); 10] = [
            ("aggregate_tokens_per_second", json!(self.aggregate().map(Spread::to_json))),
            ("stream_tokens_per_second", json!(self.per_stream())),
            ("tokens_per_round", json!(self.tokens_per_round())),
            ("rounds", json!(count(|reply| reply.statistics.rounds))),
            ("drafted_rounds", json!(count(|reply| reply.statistics.drafted_rounds))),
            ("draft_n", json!(count(|reply| reply.statistics.drafts))),
            ("draft_n_accepted", json!(count(|reply| reply.statistics.accepted_drafts))),
            ("copy_n_accepted", json!(count(|reply| reply.statistics.accepted_copies))),
            ("draft_by_position", json!(self.by_position())),
            ("runs", self.runs.iter().map(run_json).collect::<Vec<_>>().into()),
        ];
        fields.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        fields.into()
    }
}

fn tokens(run: &LocalRun) -> usize {
    run.replies.iter().map(|reply| reply.statistics.reply_tokens).sum()
}

fn run_json(run: &LocalRun) -> Value {
    let mut fields = Map::new();
    fields.insert("seconds".into(), json!(run.seconds));
    fields.extend(timings::raw(&run.replies.iter().map(LocalReply::timing).collect::<Vec<_>>()));
    fields.remove("itls");
    fields.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_go_on_until_their_ratio_is_narrow() {
        let ratio = |width| Spread::of_ratios(&[(1.0, 1.0), (1.0, 1.0 + width)]);
        let (narrow, wide) = (ratio(0.0), ratio(0.5));
        assert!(wants_more(0, None, &(3..=5)) && wants_more(2, narrow, &(3..=5)));
        assert!(wants_more(3, wide, &(3..=5)) && !wants_more(3, narrow, &(3..=5)));
        assert!(!wants_more(5, wide, &(3..=5)));
    }
}
