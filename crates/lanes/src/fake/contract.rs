//! What the fake demands of a round before it runs it. Each message has both numbers.

use crate::target::{Limits, MAX_WINDOW, PendingSource, Round, RowMask, Window};

/// What the fake knows of an open lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub length: usize,
    pub prompt: usize,
    pub context: usize,
    pub drafted: bool,
    /// Rows that its drafter has taken up.
    pub absorbed: usize,
}

/// Panics unless the round keeps to the contract of `Target::round`.
pub(super) fn check_round(
    round: &Round<'_>,
    limits: &Limits,
    vocabulary: u32,
    known: impl Fn(usize) -> Option<Known>,
) {
    let rows: usize = round.windows.iter().map(Window::rows).sum();
    let tokens: usize = round.windows.iter().map(|window| window.tokens.len()).sum();
    assert!(!round.windows.is_empty(), "a round without windows");
    assert!(rows <= limits.rows, "{rows} rows where {} are the most", limits.rows);
    assert_eq!(tokens, round.tokens.len(), "windows and tokens differ in number");
    for (index, window) in round.windows.iter().enumerate() {
        let lane = window.lane;
        let again = round.windows[..index].iter().any(|other| other.lane == lane);
        assert!(!again, "lane {lane} has two windows");
        let known = known(lane).unwrap_or_else(|| panic!("lane {lane} is not open"));
        check_window(window, limits, known);
    }
    round.masks.iter().for_each(|mask| check_mask(mask, round, vocabulary));
    for &token in round.tokens {
        assert!(token < vocabulary, "token {token} where the vocabulary has {vocabulary}");
    }
}

/// A window with masks is cut at the first draft that one of them forbids.
fn check_mask(mask: &RowMask<'_>, round: &Round<'_>, vocabulary: u32) {
    let window = &round.windows[mask.window];
    let (lane, draw) = (window.lane, mask.draw);
    assert!(
        window.draws && draw <= window.drafts,
        "lane {lane}: a mask for draw {draw} of {}",
        window.drafts
    );
    assert_eq!(mask.allowed.len(), vocabulary.div_ceil(32) as usize, "lane {lane}: words of a mask");
    assert!(mask.allowed.iter().any(|&word| word != 0), "lane {lane}: a mask that allows nothing");
    let drafts = &round.tokens[window.tokens.end - window.drafts..window.tokens.end];
    let allowed = |token: &u32| mask.allowed[*token as usize / 32] >> (token % 32) & 1 == 1;
    assert!(drafts.get(draw).is_none_or(allowed), "lane {lane}: draft {draw} is one that its mask forbids");
    let alike = round.masks.iter().filter(|other| other.window == mask.window);
    assert_eq!(alike.count(), window.drafts + 1, "lane {lane}: a mask for each of its draws");
}

fn check_window(window: &Window, limits: &Limits, known: Known) {
    let (lane, rows) = (window.lane, window.rows());
    assert_eq!(window.position, known.length, "lane {lane} is at another position than its window");
    match window.pending {
        PendingSource::Host => {}
        PendingSource::Held => assert!(window.drafts > 0, "lane {lane}: no drafts, but held ones"),
        PendingSource::LastDraw => assert_eq!(rows, 1, "lane {lane}: rows behind a draw that is not read"),
    }
    assert!(rows > window.drafts, "lane {lane}: {rows} rows with {} drafts", window.drafts);
    let end = window.position + rows;
    assert!(end <= known.context, "lane {lane}: row {end} of a context of {}", known.context);
    if window.position < known.prompt {
        assert!(end <= known.prompt, "lane {lane}: a chunk to {end} of a prompt of {}", known.prompt);
        let page = limits.page;
        let ends_at_border = end.is_multiple_of(page) || end / page == window.position / page;
        assert!(ends_at_border, "lane {lane}: a chunk from {} to {end} in pages of {page}", window.position);
        assert_eq!(window.drafts, 0, "lane {lane}: drafts in a prompt chunk");
        assert_eq!(window.draws, end == known.prompt, "lane {lane}: only the last prompt row draws");
    } else {
        assert!(window.draws, "lane {lane}: a decode window that does not draw");
        assert!(rows <= MAX_WINDOW, "lane {lane}: a window of {rows} rows");
        assert_eq!(rows, window.drafts + 1, "lane {lane}: a decode window has one pending token");
    }
    assert!(
        window.hold <= limits.block,
        "lane {lane}: a hold of {} in a block of {}",
        window.hold,
        limits.block
    );
    if window.hold > 0 {
        assert!(known.drafted, "lane {lane}: a hold in a lane that is not drafted");
        assert!(window.draws, "lane {lane}: a hold after a round that draws nothing");
    }
}
