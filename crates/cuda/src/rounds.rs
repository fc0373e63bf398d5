//! Recorded rounds: a graph for each key, replayed with one launch.

use std::collections::HashMap;
use std::ptr;

use cudarc::driver::sys;
use forerunner_tensor::{DeviceError, RoundKey};

use crate::driver::{Driver, check};

/// Most graphs that are kept; the one used longest ago goes first.
const MOST_RECORDED: usize = 256;

/// What is known of a key.
enum Known {
    /// It was run once. Most keys of prompts and mixed rounds never come back, so the second time records.
    Met,
    /// Its graph.
    Recorded(sys::CUgraphExec),
}

struct Entry {
    known: Known,
    /// The driver's when it was met: later the addresses may be another's.
    generation: u64,
    last_use: u64,
}

/// Graphs by key.
#[derive(Default)]
pub(crate) struct Rounds {
    entries: HashMap<RoundKey, Entry>,
    uses: u64,
}

// SAFETY: handles of the driver belong to no thread.
unsafe impl Send for Rounds {}

/// What is to be done for a round.
pub(crate) enum Action {
    /// Run it.
    Run,
    /// Record it between [`begin`] and [`Rounds::end`].
    Record,
    /// Nothing: its graph has been queued.
    Done,
}

impl Rounds {
    /// Queues the key's graph when there is one.
    pub(crate) fn start(&mut self, driver: &Driver, key: RoundKey) -> Result<Action, DeviceError> {
        self.uses += 1;
        if let Some(entry) = self.entries.get_mut(&key)
            && entry.generation == driver.generation()
        {
            entry.last_use = self.uses;
            let Known::Recorded(graph) = entry.known else { return Ok(Action::Record) };
            // SAFETY: the graph's addresses are those of the buffers that are still there, by its generation.
            check(unsafe { sys::cuGraphLaunch(graph, driver.stream()) }, "replaying a round")?;
            return Ok(Action::Done);
        }
        self.put(driver, key, Known::Met);
        Ok(Action::Run)
    }

    /// Keeps and queues what was recorded since [`begin`].
    pub(crate) fn end(&mut self, driver: &Driver, key: RoundKey) -> Result<(), DeviceError> {
        let mut graph = ptr::null_mut();
        let mut executable = ptr::null_mut();
        // SAFETY: the stream is recording, and the out-pointers are valid. The graph itself is not needed once it
        // has been made executable.
        unsafe {
            check(sys::cuStreamEndCapture(driver.stream(), &mut graph), "recording a round")?;
            let made = sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0);
            sys::cuGraphDestroy(graph);
            check(made, "preparing a recorded round")?;
        }
        self.put(driver, key, Known::Recorded(executable));
        // SAFETY: as in `start`.
        check(unsafe { sys::cuGraphLaunch(executable, driver.stream()) }, "replaying a round")
    }

    fn put(&mut self, driver: &Driver, key: RoundKey, known: Known) {
        let (generation, last_use) = (driver.generation(), self.uses);
        if let Some(old) = self.entries.insert(key, Entry { known, generation, last_use }) {
            destroy(old);
        }
        if self.entries.len() > MOST_RECORDED {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| *key);
            if let Some(old) = oldest.and_then(|key| self.entries.remove(&key)) {
                destroy(old);
            }
        }
    }
}

/// Begins to record what is queued, without running it.
pub(crate) fn begin(driver: &Driver) -> Result<(), DeviceError> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the stream is ours and is not recording.
    check(unsafe { sys::cuStreamBeginCapture_v2(driver.stream(), mode) }, "recording a round")
}

/// Forgets what was recorded since [`begin`].
pub(crate) fn abandon(driver: &Driver) {
    let mut graph = ptr::null_mut();
    // SAFETY: ends the recording, whatever became of it; a graph that came of it is not used.
    unsafe {
        sys::cuStreamEndCapture(driver.stream(), &mut graph);
        if !graph.is_null() {
            sys::cuGraphDestroy(graph);
        }
    }
}

fn destroy(entry: Entry) {
    if let Known::Recorded(graph) = entry.known {
        // SAFETY: nobody else has it; the driver lets a running launch finish.
        unsafe { sys::cuGraphExecDestroy(graph) };
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.entries.drain().for_each(|(_, entry)| destroy(entry));
    }
}
