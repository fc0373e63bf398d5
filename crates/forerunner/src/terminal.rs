//! Replies in the terminal: text to standard output as it comes, statistics to standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::bail;
use forerunner_engine::{EngineHandle, EngineInfo, Event, Request, Statistics, StopRule};
use forerunner_lanes::{SamplingRule, TokenId};
use forerunner_server::random_seed;

use crate::flags::ReplyFlags;

/// A reply as far as it came.
pub(crate) struct TerminalReply {
    pub(crate) text: String,
    /// None when it was interrupted.
    pub(crate) statistics: Option<Statistics>,
}

/// A line to standard output; a reader that is gone is an error, not a panic.
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// The request that the flags describe.
pub(crate) fn request(flags: &ReplyFlags, prompt: Vec<TokenId>) -> Request {
    let seed = flags.seed.unwrap_or_else(random_seed);
    Request {
        prompt,
        max_tokens: flags.max_tokens,
        rule: SamplingRule { temperature: flags.temperature, seed, ..SamplingRule::default() },
        stop: StopRule::default(),
        draft: !flags.no_draft,
        constraint: None,
        tells_tokens: false,
        logprobs: None,
    }
}

/// Generates a reply, writing its text as it comes and a line end after it. Whether it is interrupted is asked after every
/// piece of text; an interrupted one frees its place at once.
pub(crate) fn reply(
    engine: &EngineHandle,
    request: Request,
    is_interrupted: impl Fn() -> bool,
    out: &mut impl Write,
) -> anyhow::Result<TerminalReply> {
    let mut reply = engine.submit(request)?;
    let mut whole = String::new();
    while let Some(event) = reply.next_blocking() {
        match event {
            Event::Text { text, .. } => {
                out.write_all(text.as_bytes())?;
                out.flush()?;
                whole.push_str(&text);
                if is_interrupted() {
                    writeln!(out)?;
                    return Ok(TerminalReply { text: whole, statistics: None });
                }
            }
            Event::Finished { statistics, .. } => {
                writeln!(out)?;
                return Ok(TerminalReply { text: whole, statistics: Some(statistics) });
            }
            Event::Failed { message, .. } => bail!("the engine failed: {message}"),
        }
    }
    bail!("the engine stopped before the reply was whole")
}

/// Tells the user something beside the reply, on standard error. Nobody need listen.
pub(crate) fn tell(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What runs and on what, in one line.
pub(crate) fn banner(info: &EngineInfo) -> String {
    let drafter = info.drafter.as_deref().unwrap_or("none");
    format!("model {}, drafter {drafter}, device {}, context {}", info.model, info.device, info.context)
}

/// How a reply went, in two lines.
pub(crate) fn summary(statistics: &Statistics) -> String {
    let Statistics { prompt_tokens, reply_tokens, time_to_first_token, decode_time, rounds, .. } = statistics;
    // The first token comes with the prompt: the others are what decoding took time for.
    let speed = reply_tokens.saturating_sub(1) as f64 / decode_time.as_secs_f64().max(1e-9);
    let each = *reply_tokens as f64 / (*rounds).max(1) as f64;
    format!(
        "prompt {prompt_tokens} tokens, first token after {}; reply {reply_tokens} tokens, {speed:.0} tok/s\n\
         {rounds} rounds, {each:.2} tokens a round; {}",
        milliseconds(*time_to_first_token),
        drafting(statistics),
    )
}

fn drafting(statistics: &Statistics) -> String {
    if let (0, Some(reason)) = (statistics.drafts, &statistics.draft_off_reason) {
        return format!("not drafted: {reason}");
    }
    let Statistics { drafted_rounds, drafts, accepted_drafts, .. } = statistics;
    let mut text = format!("{drafted_rounds} drafted, {accepted_drafts} of {drafts} drafts accepted");
    let positions: Vec<_> =
        statistics.by_position.iter().take_while(|(verified, _)| *verified > 0).map(percent).collect();
    if !positions.is_empty() {
        text.push_str(&format!(", by position {}", positions.join(" ")));
    }
    if let Some(reason) = &statistics.draft_off_reason {
        text.push_str(&format!("; then not drafted: {reason}"));
    }
    text
}

fn percent((verified, accepted): &(u64, u64)) -> String {
    format!("{:.0}%", 100.0 * *accepted as f64 / *verified as f64)
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> Statistics {
        Statistics {
            prompt_tokens: 20,
            reply_tokens: 11,
            time_to_first_token: Duration::from_micros(12_300),
            decode_time: Duration::from_millis(100),
            rounds: 4,
            drafted_rounds: 3,
            drafts: 12,
            accepted_drafts: 7,
            by_position: vec![(3, 3), (3, 2), (0, 0)],
            ..Statistics::default()
        }
    }

    #[test]
    fn a_drafted_reply_shows_acceptance_by_position() {
        let expected = "prompt 20 tokens, first token after 12.3 ms; reply 11 tokens, 100 tok/s\n\
                        4 rounds, 2.75 tokens a round; 3 drafted, 7 of 12 drafts accepted, by position 100% 67%";
        assert_eq!(summary(&statistics()), expected);
    }

    #[test]
    fn an_undrafted_reply_says_why() {
        let plain =
            Statistics { drafts: 0, draft_off_reason: Some("no drafter is loaded".into()), ..statistics() };
        assert!(summary(&plain).ends_with("not drafted: no drafter is loaded"), "{}", summary(&plain));
    }
}
