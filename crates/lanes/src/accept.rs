//! Acceptance: how many drafts a window's draws confirm, and where a reply ends.

use crate::target::TokenId;

/// Why a reply ends at a committed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Length,
}

/// Drafts that equal the draws before them, counted up to the first that does not. `drawn` has one more entry
/// than `drafts`; entry `accepted` of it is the bonus.
pub(crate) fn accepted(drafts: &[TokenId], drawn: &[TokenId]) -> usize {
    assert_eq!(
        drawn.len(),
        drafts.len() + 1,
        "a window of {} drafts drew {} tokens",
        drafts.len(),
        drawn.len()
    );
    drafts.iter().zip(drawn).take_while(|(draft, draw)| draft == draw).count()
}

/// How many of the confirmed tokens belong to the reply, which ends with a stop token or after `left` tokens.
pub(crate) fn cut(confirmed: &[TokenId], stop_tokens: &[TokenId], left: usize) -> (usize, Option<End>) {
    let allowed = confirmed.len().min(left);
    if let Some(stop) = confirmed[..allowed].iter().position(|token| stop_tokens.contains(token)) {
        return (stop + 1, Some(End::Stop));
    }
    (allowed, (allowed == left).then_some(End::Length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_ends_at_the_first_difference() {
        assert_eq!(accepted(&[], &[4]), 0);
        assert_eq!(accepted(&[4, 5], &[4, 5, 6]), 2);
        assert_eq!(accepted(&[4, 5, 6], &[4, 9, 6, 7]), 1);
        assert_eq!(accepted(&[1, 5], &[4, 5, 6]), 0);
    }

    #[test]
    fn a_reply_ends_with_its_stop_token_or_its_last_allowed_token() {
        assert_eq!(cut(&[4, 5], &[], 9), (2, None));
        assert_eq!(cut(&[4, 5], &[], 2), (2, Some(End::Length)));
        assert_eq!(cut(&[4, 5, 6], &[], 2), (2, Some(End::Length)));
        assert_eq!(cut(&[4, 5, 6], &[5], 9), (2, Some(End::Stop)));
        assert_eq!(cut(&[4, 5, 6], &[6], 2), (2, Some(End::Length)));
        assert_eq!(cut(&[4, 5], &[5], 2), (2, Some(End::Stop)), "a stop token is named before the length");
    }
}
