//! Turns: which lanes have rows in a round, and how many rows of a prompt.

use crate::sequence::Sequence;

/// A lane's turn: the rows of it that run whether or not drafts join them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub lane: usize,
    pub rows: usize,
}

/// Whose turn comes first in the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NextTurns {
    decode: usize,
    prefill: usize,
}

/// How many rows a round may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub rows: usize,
    /// Most prompt rows: what a running reply waits for at most.
    pub prompt_rows: usize,
    /// Most prompt rows where no reply runs.
    pub idle_rows: usize,
    pub round: u64,
    /// Tokens of a page.
    pub page: usize,
}

/// Fills `turns`: one row for every lane in decode, then prompt rows for one prompt after another, each round
/// beginning behind the lane that was served last. When there are more lanes than rows, one row is left to
/// prompts.
pub(crate) fn take_turns(
    lanes: &[Option<Sequence>],
    eligible: impl Fn(&Sequence) -> bool,
    first: NextTurns,
    room: Room,
    turns: &mut Vec<Turn>,
) -> NextTurns {
    turns.clear();
    let mut next = first;
    let is = |lane: usize, prefill: bool| {
        lanes[lane].as_ref().filter(|sequence| eligible(sequence) && sequence.in_prefill() == prefill)
    };
    let decoding = (0..lanes.len()).filter(|&lane| is(lane, false).is_some()).count();
    let prompts = (0..lanes.len()).any(|lane| is(lane, true).is_some());
    let windows = decode_rows(decoding, prompts, room);
    for lane in from(first.decode, lanes.len()) {
        if turns.len() < windows && is(lane, false).is_some() {
            turns.push(Turn { lane, rows: 1 });
            next.decode = lane + 1;
        }
    }

    let most = if decoding == 0 { room.idle_rows } else { room.prompt_rows };
    let mut left = most.min(room.rows - windows);
    for lane in from(first.prefill, lanes.len()) {
        if let Some(sequence) = is(lane, true).filter(|_| left > 0) {
            let rows = chunk_rows(sequence.cached, sequence.rows_due().min(left), room.page);
            turns.push(Turn { lane, rows });
            left -= rows;
            next.prefill = lane + 1;
        }
    }
    next
}

/// Lanes that decode in this round.
fn decode_rows(decoding: usize, prompts: bool, room: Room) -> usize {
    match (prompts, room.rows) {
        (false, rows) => decoding.min(rows),
        // One row in all: every other round is a prompt's.
        (true, 1) => decoding.min((room.round % 2) as usize),
        (true, rows) => decoding.min(rows - 1),
    }
}

/// Rows of a prompt chunk from `position` on: at most `most`, and up to a page border if that reaches past one,
/// so that the state there can be stored.
fn chunk_rows(position: usize, most: usize, page: usize) -> usize {
    let border = (position + most) / page * page;
    if border > position { border - position } else { most }
}

/// All lanes, beginning with `first`.
fn from(first: usize, lanes: usize) -> impl Iterator<Item = usize> {
    (0..lanes).map(move |step| (first + step) % lanes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::{NewSequence, SequenceId};
    use crate::target::{Limits, SamplingRule};

    /// Lanes with so many prompt rows left; 0 for a lane in decode.
    fn lanes(prompt_rows: &[usize]) -> Vec<Option<Sequence>> {
        let limits = Limits {
            lanes: 9,
            context: 99,
            rows: 9,
            block: 0,
            has_confidence: false,
            page: 64,
            queues_ahead: false,
        };
        let lane = |&left: &usize| {
            let prompt = vec![1; left.max(1)];
            let rule = SamplingRule::default();
            let new = NewSequence {
                prompt,
                max_tokens: 9,
                rule,
                stop_tokens: vec![],
                draft: false,
                ..NewSequence::default()
            };
            let mut sequence = Sequence::new(SequenceId(0), new, &limits);
            if left == 0 {
                sequence.cached = 1;
                sequence.tokens.push(2);
            }
            Some(sequence)
        };
        prompt_rows.iter().map(lane).collect()
    }

    /// (lane, rows) of so many rounds in which nothing moves on.
    fn rounds(
        lanes: &[Option<Sequence>],
        rows: usize,
        prompt_rows: usize,
        rounds: u64,
    ) -> Vec<Vec<(usize, usize)>> {
        let mut next = NextTurns::default();
        let mut turns = Vec::new();
        let round = |round| {
            let room = Room { rows, prompt_rows, idle_rows: prompt_rows, round, page: 64 };
            next = take_turns(lanes, |_| true, next, room, &mut turns);
            turns.iter().map(|turn| (turn.lane, turn.rows)).collect()
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn every_lane_in_decode_has_a_turn_beside_a_chunk_of_one_prompt_after_another() {
        let lanes = lanes(&[0, 100, 0, 100]);
        let expected = [[(0, 1), (2, 1), (1, 8)], [(0, 1), (2, 1), (3, 8)], [(0, 1), (2, 1), (1, 8)]];
        assert_eq!(rounds(&lanes, 64, 8, 3), expected);
    }

    #[test]
    fn a_chunk_that_reaches_past_a_page_border_ends_at_one() {
        let rows = [(0, 3), (0, 4), (0, 5), (0, 9), (3, 4), (4, 3), (5, 4), (7, 1)];
        let ends = rows.map(|(position, most)| position + chunk_rows(position, most, 4));
        assert_eq!(ends, [3, 4, 4, 8, 4, 7, 8, 8]);
    }

    #[test]
    fn short_prompts_share_a_chunk() {
        assert_eq!(rounds(&lanes(&[3, 4, 9]), 64, 8, 1), [[(0, 3), (1, 4), (2, 1)]]);
    }

    #[test]
    fn lanes_take_turns_when_rows_are_short() {
        let lanes = lanes(&[0, 0, 0, 5]);
        assert_eq!(
            rounds(&lanes, 3, 8, 3),
            [[(0, 1), (1, 1), (3, 1)], [(2, 1), (0, 1), (3, 1)], [(1, 1), (2, 1), (3, 1)]]
        );
    }

    #[test]
    fn a_single_row_alternates_between_prompts_and_replies() {
        assert_eq!(rounds(&lanes(&[0, 5]), 1, 8, 4), [[(1, 1)], [(0, 1)], [(1, 1)], [(0, 1)]]);
    }
}
