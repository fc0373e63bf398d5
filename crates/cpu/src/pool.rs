//! A small persistent thread pool: a parallel region costs about a microsecond, and work is claimed, not dealt.
//!
//! A region is a number of chunks. The caller and the workers claim chunks, each time their share of those that are
//! left, from an atomic word that carries the region's number, so a worker that was descheduled never holds back
//! work that it has not claimed and can never claim from a region it did not see begin. Shares keep the claims
//! few: each moves a cache line between cores, which costs as much as a small chunk.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a worker looks for the next region before it sleeps. Longer than the host's work between two
/// operations, shorter than the pause between two rounds of an idle server.
const SPIN: Duration = Duration::from_micros(80);

/// Low bits of the claim word: chunks left. The other bits number the region.
const LEFT_BITS: u32 = 24;
const LEFT_MASK: u64 = (1 << LEFT_BITS) - 1;

/// Most chunks of a region.
pub(crate) const MOST_CHUNKS: u64 = LEFT_MASK;

/// Runs the chunks of a region; the first pointer is the region's closure.
type Runner = unsafe fn(*const (), usize);

/// A cache line of its own, and the one that is fetched with it.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    /// The caller and its workers.
    threads: u64,
    /// Region number and chunks left.
    claim: Line<AtomicU64>,
    /// Chunks not finished yet.
    unfinished: Line<AtomicUsize>,
    /// The region's closure.
    work: AtomicPtr<()>,
    /// The region's [`Runner`].
    runner: AtomicPtr<()>,
    /// Workers asleep or about to be.
    sleepers: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
}

/// The caller and its workers.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    sleepers: Vec<Thread>,
}

impl Pool {
    /// `threads` in all, the caller included.
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            threads: threads as u64,
            claim: Line(AtomicU64::new(0)),
            unfinished: Line(AtomicUsize::new(0)),
            work: AtomicPtr::default(),
            runner: AtomicPtr::default(),
            sleepers: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let mut pool = Pool { shared, workers: Vec::new(), sleepers: Vec::new() };
        for number in 1..threads {
            let shared = pool.shared.clone();
            let builder = std::thread::Builder::new().name(format!("forerunner-cpu-{number}"));
            let worker = builder.spawn(move || shared.work_until_stopped())?;
            pool.sleepers.push(worker.thread().clone());
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Threads, the caller included.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `work` once for each of `0..chunks` and returns when all are done. Regions do not nest.
    ///
    /// # Panics
    /// When a chunk panicked, after all have ended.
    pub(crate) fn run<F: Fn(usize) + Sync>(&self, chunks: usize, work: F) {
        if chunks <= 1 || self.workers.is_empty() {
            return (0..chunks).for_each(work);
        }
        assert!(chunks as u64 <= MOST_CHUNKS, "{chunks} chunks in one region");
        self.shared.begin(chunks, (&raw const work).cast(), run_chunk::<F>);
        if self.shared.sleepers.load(Ordering::SeqCst) > 0 {
            self.sleepers.iter().for_each(Thread::unpark);
        }
        self.shared.help();
        self.shared.wait();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.sleepers.iter().for_each(Thread::unpark);
        for worker in self.workers.drain(..) {
            // A worker catches its chunks' panics, so there is nothing to hear from it.
            let _ = worker.join();
        }
    }
}

/// # Safety
/// `work` points to an `F` that outlives the call.
unsafe fn run_chunk<F: Fn(usize) + Sync>(work: *const (), chunk: usize) {
    // SAFETY: the caller's promise.
    unsafe { (*work.cast::<F>())(chunk) }
}

impl Shared {
    fn begin(&self, chunks: usize, work: *const (), runner: Runner) {
        self.unfinished.0.store(chunks, Ordering::Relaxed);
        self.work.store(work.cast_mut(), Ordering::Relaxed);
        self.runner.store(runner as *mut (), Ordering::Relaxed);
        let region = (self.claim.0.load(Ordering::Relaxed) >> LEFT_BITS).wrapping_add(1);
        // Publishes the region. Sequentially consistent with the sleepers' count: either the caller sees a
        // sleeper or the sleeper sees the region.
        self.claim.0.store(region << LEFT_BITS | chunks as u64, Ordering::SeqCst);
    }

    /// Claims and runs chunks of the region that is open now until none are left.
    fn help(&self) {
        let region = self.claim.0.load(Ordering::Acquire) >> LEFT_BITS;
        let work = self.work.load(Ordering::Relaxed);
        let runner = self.runner.load(Ordering::Relaxed);
        while let Some(chunks) = self.claim_from(region) {
            let count = chunks.len();
            let run = |chunk| {
                // SAFETY: the claim succeeded, so this region is open: its caller waits for the chunk, the
                // closure lives, and both pointers, read after the region's number, are this region's. A
                // region's pointers are only replaced once all its chunks have finished.
                unsafe {
                    let runner: Runner = std::mem::transmute::<*mut (), Runner>(runner);
                    runner(work, chunk);
                }
            };
            if catch_unwind(AssertUnwindSafe(|| chunks.for_each(run))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.unfinished.0.fetch_sub(count, Ordering::Release);
        }
    }

    /// This thread's share of the chunks that are left: as many as each thread would get, but at least one.
    fn claim_from(&self, region: u64) -> Option<Range<usize>> {
        let mut seen = self.claim.0.load(Ordering::Acquire);
        while seen >> LEFT_BITS == region && seen & LEFT_MASK > 0 {
            let left = seen & LEFT_MASK;
            let share = left.div_ceil(self.threads);
            match self.claim.0.compare_exchange_weak(seen, seen - share, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some((left - share) as usize..left as usize),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Waits for the chunks that others claimed.
    fn wait(&self) {
        let mut spins = 0u32;
        while self.unfinished.0.load(Ordering::Acquire) > 0 {
            spins += 1;
            // A worker that was descheduled inside a chunk needs the core more than this loop does.
            if spins.is_multiple_of(4096) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        if self.panicked.swap(false, Ordering::Relaxed) {
            panic!("a chunk of a parallel region panicked; its own message stands above");
        }
    }

    fn work_until_stopped(&self) {
        let mut seen = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let region = self.claim.0.load(Ordering::Acquire) >> LEFT_BITS;
            if region == seen {
                self.await_region(seen);
            } else {
                seen = region;
                self.help();
            }
        }
    }

    /// Spins, then sleeps, until there is a region after `seen` or the pool stops.
    fn await_region(&self, seen: u64) {
        let since = Instant::now();
        loop {
            for _ in 0..64 {
                if self.claim.0.load(Ordering::Acquire) >> LEFT_BITS != seen {
                    return;
                }
                std::hint::spin_loop();
            }
            if since.elapsed() > SPIN {
                break;
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.claim.0.load(Ordering::SeqCst) >> LEFT_BITS == seen && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(threads: usize, regions: usize, chunks: impl Fn(usize) -> usize) {
        let pool = Pool::new(threads).unwrap();
        for region in 0..regions {
            let runs: Vec<AtomicUsize> = (0..chunks(region)).map(|_| AtomicUsize::new(0)).collect();
            pool.run(runs.len(), |chunk| {
                runs[chunk].fetch_add(1, Ordering::Relaxed);
            });
            for (chunk, runs) in runs.iter().enumerate() {
                assert_eq!(runs.load(Ordering::Relaxed), 1, "chunk {chunk} of region {region}");
            }
        }
    }

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 5] {
            check(threads, 3000, |region| region % 37);
        }
    }

    #[test]
    fn sleeping_workers_wake() {
        let pool = Pool::new(3).unwrap();
        for _ in 0..20 {
            std::thread::sleep(SPIN * 3);
            let sum = AtomicUsize::new(0);
            pool.run(100, |chunk| {
                sum.fetch_add(chunk, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 4950);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| pool.run(8, |chunk| assert_ne!(chunk, 5, "planted"))));
        assert!(outcome.is_err());
        let count = AtomicUsize::new(0);
        pool.run(8, |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 8);
    }
}
