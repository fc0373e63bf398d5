//! A steady round allocates nothing on the host.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forerunner_lanes::fake::{FakeScript, FakeTarget, Repeats, ScriptedCosts};
use forerunner_lanes::{Lanes, Limits, NewSequence, Options, SamplingRule, Target};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting the calls of each thread.
struct Counting;

fn count() {
    // The count is gone while a thread ends; nothing is measured then.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System` through this allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer came from `System` through this allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of 200 rounds of decode, after 100 in which all prompts are done. Lanes are boxed as the engine has them.
fn steady_allocations(lanes: usize, has_confidence: bool, draft: bool, repeats: Repeats) -> u64 {
    let limits = Limits {
        lanes,
        context: 8192,
        rows: 32 * lanes,
        block: 7,
        has_confidence,
        page: 256,
        queues_ahead: true,
    };
    let costs = ScriptedCosts { round_ms: 2.0, row_ms: 0.1, hold_ms: 0.3, ..ScriptedCosts::default() };
    let options = Options { prompt_chunk: 16, costs: costs.table(&limits), ..Options::default() };
    let target = FakeTarget::new(limits, FakeScript { costs, repeats, ..FakeScript::default() });
    let clock = target.clock();
    let target: Box<dyn Target + Send> = Box::new(target);
    let mut scheduler = Lanes::with_clock(target, options, clock);
    for lane in 0..lanes {
        let prompt = (0..20 + lane as u32).collect();
        let rule = SamplingRule { temperature: 0.8, seed: lane as u64, ..SamplingRule::default() };
        let new = NewSequence {
            prompt,
            max_tokens: 4096,
            rule,
            stop_tokens: vec![1_000_000],
            draft,
            ..NewSequence::default()
        };
        scheduler.submit(new).unwrap();
    }
    for _ in 0..100 {
        scheduler.step();
    }

    let before = ALLOCATIONS.get();
    for _ in 0..200 {
        assert_eq!(scheduler.step().len(), lanes);
    }
    let allocations = ALLOCATIONS.get() - before;
    assert_eq!(scheduler.totals().drafts > 0, draft);
    assert_eq!(scheduler.totals().copies > 0, draft && repeats.period > 0);
    allocations
}

#[test]
fn a_steady_round_allocates_nothing() {
    for lanes in [1, 4, 16] {
        for (has_confidence, draft) in [(true, true), (false, true), (false, false)] {
            for repeats in [Repeats::default(), Repeats { period: 20, share: 0.97 }] {
                let allocations = steady_allocations(lanes, has_confidence, draft, repeats);
                assert_eq!(
                    allocations, 0,
                    "{lanes} lanes, confidence {has_confidence}, draft {draft}, {repeats:?}"
                );
            }
        }
    }
}
