//! What drafting costs where no guard counts: when the drafter takes up a prompt, and in rounds that also read the prompts
//! of others.
//!
//! A guard compares steady rounds of decode. Replies of a dozen tokens spend much of their time elsewhere: with that left
//! out, drafting would look like a gain and be a loss.

/// Plain rounds' worth of time that rounds which nobody counts may lose before they stop drafting: as much as a guard
/// lets drafting lose.
const MOST: f64 = 10.0;

/// Share of the time that may be lost so for good.
const FORGIVEN: f64 = 0.005;

/// Milliseconds that drafting owes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Debt {
    /// For prompts that were taken up, until counted rounds have borne it.
    unborne_ms: f64,
    /// In rounds that nobody counts, until counted rounds have gained it.
    spent_ms: f64,
    /// Too much was spent, and is not forgiven yet: a little at a time would pay for beginnings alone.
    is_stopped: bool,
    /// Nothing stops drafting.
    is_ignored: bool,
}

impl Debt {
    /// One that stops nothing: for gates, which choose a side whatever it costs.
    pub(crate) fn ignored() -> Self {
        Debt { is_ignored: true, ..Debt::default() }
    }

    /// Rows were taken up in a round that is not counted.
    pub(crate) fn absorb(&mut self, ms: f64) {
        self.unborne_ms += ms;
    }

    /// What a counted drafted round of `took_ms` bears of that: at most its own time again, so that one round does not
    /// stand for many.
    pub(crate) fn bear(&mut self, took_ms: f64) -> f64 {
        let borne = self.unborne_ms.min(took_ms);
        self.unborne_ms -= borne;
        borne
    }

    /// What drafting cost in a round of `took_ms` that nobody counts; a plain one of its lanes takes `plain_ms`.
    pub(crate) fn spend(&mut self, ms: f64, took_ms: f64, plain_ms: f64) {
        self.recover(FORGIVEN * took_ms - ms);
        self.is_stopped |= self.spent_ms > MOST * plain_ms;
    }

    /// What counted rounds have gained.
    pub(crate) fn recover(&mut self, ms: f64) {
        self.spent_ms = (self.spent_ms - ms).max(0.0);
        self.is_stopped &= self.spent_ms > 0.0;
    }

    /// Whether a round that nobody counts may draft.
    pub(crate) fn allows(&self) -> bool {
        self.is_ignored || !self.is_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_absorbed_is_borne_in_parts() {
        let mut debt = Debt::default();
        debt.absorb(3.0);
        assert_eq!((debt.bear(2.0), debt.bear(2.0), debt.bear(2.0)), (2.0, 1.0, 0.0));
    }

    #[test]
    fn spending_stops_drafting_until_it_is_forgiven_or_gained() {
        let mut debt = Debt::default();
        debt.recover(5.0);
        debt.spend(9.5, 0.0, 1.0);
        assert!(debt.allows());
        debt.spend(1.0, 0.0, 1.0);
        (0..2000).for_each(|_| debt.spend(0.0, 1.0, 1.0));
        assert!(!debt.allows());
        (0..200).for_each(|_| debt.spend(0.0, 1.0, 1.0));
        assert!(debt.allows());
        debt.spend(10.5, 0.0, 1.0);
        assert!(!debt.allows());
        debt.recover(10.5);
        assert!(debt.allows());
    }

    #[test]
    fn an_ignored_debt_stops_nothing() {
        let mut debt = Debt::ignored();
        debt.spend(1e9, 0.0, 1.0);
        assert!(debt.allows());
    }
}
