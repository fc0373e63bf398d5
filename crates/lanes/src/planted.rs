//! Defects planted in the scheduler, to prove that its tests notice them.

/// A defect. Those of masks change text; each of the others makes replies slower, a stored prefix impossible, or breaks
/// the target's contract.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Guards never keep a round plain.
    GuardAsleep,
    /// Guards forget what they found when there is nothing to do.
    GuardForgets,
    /// Guards compare rounds of several lane counts as they are.
    LaneCountsMixed,
    /// Probes cost guards nothing.
    ProbesForFree,
    /// What drafting costs in rounds that no guard counts is forgotten.
    DebtsForgotten,
    /// Rounds do not correct the cost table.
    LiveCostsForgotten,
    /// Distinct experts have no price.
    ExpertsForgotten,
    /// Copies begin one token late.
    CopiesShifted,
    /// Prompt chunks end where they like.
    ChunksPastBorders,
    /// A lane closes while a round of it is not read.
    EndsUnread,
    /// A window's masks are handed to the draws in the wrong order.
    MasksShifted,
    /// Windows of forced tokens have no masks.
    ForcedUnmasked,
}
