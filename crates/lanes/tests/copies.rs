//! Copies: replies that repeat themselves are faster without a drafter, and no others are touched.

use forerunner_lanes::fake::{FakeScript, FakeTarget, Repeats, ScriptedCosts};
use forerunner_lanes::{
    Clock, DraftOff, Lanes, Limits, NewSequence, Options, Planted, SamplingRule, SequenceStatistics,
};

const REPLY: usize = 1000;

struct Setting {
    lanes: usize,
    share: f64,
    draft: bool,
    planted: Option<Planted>,
}

impl Setting {
    /// Milliseconds of a reply in every lane of a target without a drafter, and what the last of them took.
    fn run(&self) -> (f64, SequenceStatistics) {
        let limits = Limits {
            lanes: self.lanes,
            context: 2 * REPLY,
            rows: 256,
            block: 0,
            has_confidence: false,
            page: 256,
            queues_ahead: false,
        };
        let costs = ScriptedCosts { round_ms: 1.0, row_ms: 0.05, ..ScriptedCosts::NONE };
        let options = Options { costs: costs.table(&limits), planted: self.planted, ..Options::default() };
        let repeats = Repeats { period: 40, share: self.share };
        let script = FakeScript { costs, repeats, ..FakeScript::default() };
        let target = FakeTarget::new(limits, script.clone());
        let clock = target.clock();
        let mut lanes = Lanes::with_clock(target, options, clock.clone());
        for lane in 0..self.lanes as u64 {
            let rule = SamplingRule { temperature: 1.0, seed: lane, ..SamplingRule::default() };
            let draft = self.draft;
            let new = NewSequence {
                prompt: vec![1],
                max_tokens: REPLY,
                rule,
                stop_tokens: vec![],
                draft,
                ..NewSequence::default()
            };
            lanes.submit(new).unwrap();
        }
        let mut replies = vec![Vec::new(); self.lanes];
        let mut statistics = SequenceStatistics::default();
        while !lanes.is_idle() {
            for delivery in lanes.step() {
                let lane: usize = delivery.id.to_string().parse().unwrap();
                replies[lane].extend_from_slice(&delivery.tokens);
                if let Some(finished) = &delivery.finished {
                    statistics = finished.statistics.clone();
                }
            }
        }
        for (lane, reply) in replies.iter().enumerate() {
            let rule = SamplingRule { temperature: 1.0, seed: lane as u64, ..SamplingRule::default() };
            assert_eq!(*reply, script.reply(&[1], &rule, REPLY, &[]), "lane {lane}");
        }
        (clock.now().as_secs_f64() * 1e3, statistics)
    }

    fn ratio(&self) -> f64 {
        self.run().0 / Setting { draft: false, planted: None, ..*self }.run().0
    }
}

#[test]
fn a_reply_that_repeats_itself_is_faster_without_a_drafter() {
    for lanes in [1, 4] {
        let setting = Setting { lanes, share: 0.97, draft: true, planted: None };
        let ratio = setting.ratio();
        assert!(ratio < 0.6, "{lanes} lanes: {ratio}");
        let statistics = setting.run().1;
        assert!(statistics.copies_accepted * 10 > statistics.copies * 7, "{statistics:?}");
        assert_eq!((statistics.drafts, statistics.draft_off), (statistics.copies, None));
    }
}

#[test]
fn copies_that_begin_at_the_wrong_token_are_caught() {
    let setting = Setting { lanes: 1, share: 0.97, draft: true, planted: Some(Planted::CopiesShifted) };
    let ratio = setting.ratio();
    assert!(ratio > 0.95, "shifted copies pass: {ratio}");
    assert!(ratio < 1.03, "copies that are all wrong cost too much: {ratio}");
}

#[test]
fn text_that_does_not_repeat_itself_and_requests_for_no_drafts_have_no_copies() {
    let fresh = Setting { lanes: 1, share: 0.0, draft: true, planted: None };
    assert_eq!((fresh.ratio(), fresh.run().1.copies), (1.0, 0));
    assert_eq!(fresh.run().1.draft_off, Some(DraftOff::NoDrafter));
    let plain = Setting { lanes: 1, share: 1.0, draft: false, planted: None };
    assert_eq!(plain.run().1.copies, 0);
}

#[test]
fn copies_that_often_fail_do_not_cost_more_than_3_percent() {
    for share in [0.2, 0.4, 0.6, 0.8, 0.9] {
        let ratio = Setting { lanes: 1, share, draft: true, planted: None }.ratio();
        assert!(ratio < 1.03, "{share} of the text repeats: {ratio}");
    }
}
