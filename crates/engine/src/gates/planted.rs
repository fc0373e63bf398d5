//! A target that breaks one promise on purpose, so that a gate can be seen to fail.

use std::collections::{HashSet, VecDeque};

use forerunner_lanes::{
    Limits, OpenLane, PendingSource, Round, RoundOut, RowMask, Target, TargetError, TokenId, Window,
};

/// Which promise is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// The last draw of a window with drafts is another token: drafts change text.
    Drafts,
    /// The last draw of a round with several lanes is another token: neighbours change text.
    Neighbours,
    /// A lane whose last tenant had reserved all its room draws another first token: state survives a cancel.
    Leftovers,
    /// A lane that opened with a stored prefix draws another token: what was stored is not what was computed.
    Prefixes,
    /// A lane that opens without a stored prefix where it once had one draws another token: what was evicted is used.
    Evictions,
    /// Drafts of a lane that opened with a stored prefix are other tokens: the drafter's context is not what it was.
    PrefixDrafts,
    /// A row that was queued before the one before it was read draws another token.
    Ahead,
    /// The last draw of a window with drafts tells another log-probability: drafts change what is told of a token.
    Logprobs,
    /// Every window's last draw is another token, now and then: wrong everywhere alike, as a broken kernel is.
    Arithmetic,
    /// A draw after a draft takes the mask of the draw before it.
    Masks,
    /// A draw that a draft follows takes any token.
    Unmasked,
}

impl PlantedFault {
    /// All of them, with their names on the command line.
    pub const ALL: [(&'static str, PlantedFault); 11] = [
        ("drafts", PlantedFault::Drafts),
        ("neighbours", PlantedFault::Neighbours),
        ("leftovers", PlantedFault::Leftovers),
        ("prefixes", PlantedFault::Prefixes),
        ("evictions", PlantedFault::Evictions),
        ("prefix-drafts", PlantedFault::PrefixDrafts),
        ("ahead", PlantedFault::Ahead),
        ("logprobs", PlantedFault::Logprobs),
        ("arithmetic", PlantedFault::Arithmetic),
        ("masks", PlantedFault::Masks),
        ("unmasked", PlantedFault::Unmasked),
    ];
}

/// `inner` with a fault.
pub struct Planted<T> {
    inner: T,
    fault: PlantedFault,
    /// Whether a lane's current tenant reserved all its room.
    roomy: Vec<bool>,
    /// Whether a lane's last tenant did.
    stale: Vec<bool>,
    /// Whether a lane's tenant began with a stored prefix.
    resumed: Vec<bool>,
    /// Prompts that were resumed.
    resumed_prompts: HashSet<Vec<TokenId>>,
    /// Whether a lane's tenant has such a prompt, but began without a stored prefix.
    evicted: Vec<bool>,
    /// For each round that is queued, which windows the fault changes.
    struck: VecDeque<Vec<bool>>,
}

impl<T: Target> Planted<T> {
    /// Plants `fault` in `inner`.
    pub fn new(inner: T, fault: PlantedFault) -> Self {
        let lanes = inner.limits().lanes;
        Planted {
            inner,
            fault,
            roomy: vec![false; lanes],
            stale: vec![false; lanes],
            resumed: vec![false; lanes],
            resumed_prompts: HashSet::new(),
            evicted: vec![false; lanes],
            struck: VecDeque::new(),
        }
    }

    /// The drafts that the target holds are not those that the host was told.
    fn queue_with_other_drafts(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        let from_host = |window: &Window| match window.pending {
            PendingSource::Held => Window { pending: PendingSource::Host, ..window.clone() },
            PendingSource::Host | PendingSource::LastDraw => window.clone(),
        };
        let windows: Vec<Window> = round.windows.iter().map(from_host).collect();
        self.inner.queue(&Round { windows: &windows, ..*round })
    }

    /// Whether the fault changes the last draw of the round's window `index`.
    fn strikes(&self, round: &Round<'_>, index: usize) -> bool {
        let window = &round.windows[index];
        match self.fault {
            PlantedFault::Drafts | PlantedFault::Logprobs => window.drafts > 0,
            PlantedFault::Neighbours => round.windows.len() > 1,
            PlantedFault::Leftovers => self.stale[window.lane],
            PlantedFault::Prefixes => self.resumed[window.lane],
            PlantedFault::Arithmetic => (window.position + window.rows()).is_multiple_of(5),
            PlantedFault::Evictions => self.evicted[window.lane],
            PlantedFault::PrefixDrafts => false,
            PlantedFault::Ahead => window.pending == PendingSource::LastDraw,
            PlantedFault::Masks | PlantedFault::Unmasked => false,
        }
    }

    /// The round's masks with the fault in them.
    fn masks<'a>(&self, round: &Round<'a>) -> Vec<RowMask<'a>> {
        let mut masks = round.masks.to_vec();
        match self.fault {
            // Masks are in the order of the draws.
            PlantedFault::Masks => {
                for index in (1..masks.len()).filter(|&index| round.masks[index].draw > 0) {
                    masks[index].allowed = round.masks[index - 1].allowed;
                }
            }
            PlantedFault::Unmasked => masks.retain(|mask| mask.draw == round.windows[mask.window].drafts),
            _ => {}
        }
        masks
    }
}

impl<T: Target> Target for Planted<T> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn open(&mut self, lane: usize, open: &OpenLane<'_>) -> Result<usize, TargetError> {
        let held = self.inner.open(lane, open)?;
        self.resumed[lane] = held > 0;
        self.evicted[lane] = held == 0 && self.resumed_prompts.contains(open.prompt);
        if held > 0 {
            self.resumed_prompts.insert(open.prompt.to_vec());
        }
        self.stale[lane] = self.roomy[lane];
        self.roomy[lane] = open.context == self.inner.limits().context;
        Ok(held)
    }

    fn queue(&mut self, round: &Round<'_>) -> Result<(), TargetError> {
        let struck = (0..round.windows.len()).map(|index| self.strikes(round, index)).collect();
        if self.fault == PlantedFault::PrefixDrafts {
            self.queue_with_other_drafts(round)?;
        } else {
            let masks = self.masks(round);
            self.inner.queue(&Round { masks: &masks, ..*round })?;
        }
        self.struck.push_back(struck);
        Ok(())
    }

    fn read(&mut self, out: &mut RoundOut) -> Result<(), TargetError> {
        let struck = self.struck.pop_front().expect("a round is queued before it is read");
        self.inner.read(out).inspect_err(|_| self.struck.clear())?;
        if self.fault == PlantedFault::PrefixDrafts && self.resumed.contains(&true) {
            out.held.iter_mut().for_each(|draft| draft.token ^= 1);
        }
        for (window, _) in out.windows.iter().zip(struck).filter(|(_, struck)| *struck) {
            if window.drawn.is_empty() {
                continue;
            }
            if self.fault != PlantedFault::Logprobs {
                let last: &mut TokenId = &mut out.drawn[window.drawn.end - 1];
                *last ^= 1;
            } else if let Some(last) = out.logprobs[window.logprobs.clone()].last_mut() {
                last.logprob = last.logprob.next_down();
            }
        }
        Ok(())
    }

    fn close(&mut self, lane: usize) {
        self.inner.close(lane);
    }

    fn pages_in_use(&self) -> usize {
        self.inner.pages_in_use()
    }

    fn pages_total(&self) -> usize {
        self.inner.pages_total()
    }
}
