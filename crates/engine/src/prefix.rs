//! The prefix cache: which full pages of earlier sequences a new prompt begins with.
//!
//! A radix tree whose edges are pages of tokens. A node's page holds target keys and values and, where the node
//! says so, the drafter's context of its tokens; some nodes also hold the convolutions' rows at the page's end,
//! and only there can a prompt be resumed. One tree serves every lane: a page's bits do not depend on who
//! computed them.

use forerunner_lanes::TokenId;
use forerunner_tensor::PAGE;

use crate::pages::PagePool;

/// A node's index; 0 is the root, which holds no page.
type NodeIndex = usize;

/// A tree of pages, oldest use first to go.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    /// Freed entries are `None` and are used again.
    nodes: Vec<Option<Node>>,
    vacant: Vec<NodeIndex>,
    free_snapshots: Vec<usize>,
    /// Most pages the tree may hold.
    capacity: usize,
    pages: usize,
    clock: u64,
}

#[derive(Debug)]
struct Node {
    parent: NodeIndex,
    children: Vec<NodeIndex>,
    tokens: Vec<TokenId>,
    page: i32,
    snapshot: Option<usize>,
    has_drafter_context: bool,
    last_used: u64,
}

/// Where a prompt can be resumed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Match {
    /// Pages of the prefix, in order; one more holder each.
    pub(crate) pages: Vec<i32>,
    /// The convolutions' rows at its end; there unless it is empty.
    pub(crate) snapshot: Option<usize>,
}

/// A page of a lane, to be kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptPage {
    pub(crate) page: i32,
    pub(crate) snapshot: Option<usize>,
}

impl PrefixCache {
    /// An empty tree that may hold `capacity` pages and `snapshots` convolution states.
    pub(crate) fn new(capacity: usize, snapshots: usize) -> Self {
        let root = Node {
            parent: 0,
            children: Vec::new(),
            tokens: Vec::new(),
            page: -1,
            snapshot: None,
            has_drafter_context: true,
            last_used: 0,
        };
        PrefixCache {
            nodes: vec![Some(root)],
            vacant: Vec::new(),
            free_snapshots: (0..snapshots).rev().collect(),
            capacity,
            pages: 0,
            clock: 0,
        }
    }

    /// Whether it may hold anything.
    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// The longest resumable prefix of `prompt` that leaves at least one token to run, with drafter context all
    /// along where `drafted` asks for it. Its pages get a holder more.
    pub(crate) fn find(&mut self, prompt: &[TokenId], drafted: bool, pool: &mut PagePool) -> Match {
        self.clock += 1;
        let mut found = Match::default();
        let mut pages = Vec::new();
        let mut node = 0;
        let usable = prompt.len().saturating_sub(1);
        for tokens in prompt[..usable].chunks_exact(PAGE) {
            let Some(child) =
                self.child(node, tokens).filter(|child| !drafted || self.node(*child).has_drafter_context)
            else {
                break;
            };
            node = child;
            let clock = self.clock;
            let entry = self.node_mut(node);
            entry.last_used = clock;
            pages.push(entry.page);
            if entry.snapshot.is_some() {
                found = Match { pages: pages.clone(), snapshot: entry.snapshot };
            }
        }
        found.pages.iter().for_each(|page| pool.share(*page));
        found
    }

    /// Keeps the full pages of a lane, whose tokens are `tokens`. A page whose tokens the tree has already is
    /// not kept, but lends its snapshot or drafter context where the tree's own lacks it.
    pub(crate) fn keep(
        &mut self,
        tokens: &[TokenId],
        pages: &[KeptPage],
        has_drafter_context: bool,
        pool: &mut PagePool,
    ) {
        self.clock += 1;
        let mut parent = Some(0);
        for (tokens, kept) in tokens.chunks_exact(PAGE).zip(pages) {
            parent = match parent.map(|parent| (parent, self.child(parent, tokens))) {
                Some((_, Some(child))) => Some(self.refresh(child, *kept, has_drafter_context, pool)),
                Some((parent, None)) if self.make_room(parent, pool) => {
                    Some(self.add(parent, tokens, *kept, has_drafter_context, pool))
                }
                _ => {
                    self.drop_snapshot(kept.snapshot);
                    None
                }
            };
        }
    }

    /// A place for a convolution state, taken from the least recently used node when none is free.
    pub(crate) fn take_snapshot(&mut self) -> Option<usize> {
        if let Some(slot) = self.free_snapshots.pop() {
            return Some(slot);
        }
        let oldest = self.live().filter(|index| self.node(*index).snapshot.is_some());
        let oldest = oldest.min_by_key(|index| self.node(*index).last_used)?;
        self.node_mut(oldest).snapshot.take()
    }

    /// Gives back a place that no node holds.
    pub(crate) fn drop_snapshot(&mut self, slot: Option<usize>) {
        self.free_snapshots.extend(slot);
    }

    /// Lets go of the least recently used pages until `count` pages of the pool are free or nothing is left
    /// that only the tree holds.
    pub(crate) fn evict(&mut self, count: usize, pool: &mut PagePool) {
        while pool.free() < count {
            if !self.evict_one(None, pool) {
                return;
            }
        }
    }

    fn live(&self) -> impl Iterator<Item = NodeIndex> {
        (1..self.nodes.len()).filter(|index| self.nodes[*index].is_some())
    }

    fn node(&self, index: NodeIndex) -> &Node {
        self.nodes[index].as_ref().expect("a node in use")
    }

    fn node_mut(&mut self, index: NodeIndex) -> &mut Node {
        self.nodes[index].as_mut().expect("a node in use")
    }

    fn child(&self, parent: NodeIndex, tokens: &[TokenId]) -> Option<NodeIndex> {
        self.node(parent).children.iter().copied().find(|child| self.node(*child).tokens == tokens)
    }

    /// Marks a node as used, and takes over what the lane's copy has and it lacks.
    fn refresh(
        &mut self,
        index: NodeIndex,
        kept: KeptPage,
        has_drafter_context: bool,
        pool: &mut PagePool,
    ) -> NodeIndex {
        let clock = self.clock;
        let node = self.node_mut(index);
        node.last_used = clock;
        if has_drafter_context && !node.has_drafter_context {
            node.has_drafter_context = true;
            pool.share(kept.page);
            pool.release(std::mem::replace(&mut node.page, kept.page));
        }
        let spare = if node.snapshot.is_none() {
            node.snapshot = kept.snapshot;
            None
        } else {
            kept.snapshot
        };
        self.drop_snapshot(spare);
        index
    }

    fn add(
        &mut self,
        parent: NodeIndex,
        tokens: &[TokenId],
        kept: KeptPage,
        has_drafter_context: bool,
        pool: &mut PagePool,
    ) -> NodeIndex {
        pool.share(kept.page);
        self.pages += 1;
        let node = Node {
            parent,
            children: Vec::new(),
            tokens: tokens.to_vec(),
            page: kept.page,
            snapshot: kept.snapshot,
            has_drafter_context,
            last_used: self.clock,
        };
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() - 1
        });
        self.nodes[index] = Some(node);
        self.node_mut(parent).children.push(index);
        index
    }

    /// Whether one more page fits, after letting go of an old one if need be. `parent` stays.
    fn make_room(&mut self, parent: NodeIndex, pool: &mut PagePool) -> bool {
        self.pages < self.capacity || self.evict_one(Some(parent), pool)
    }

    /// Removes the least recently used leaf that is not `spared`; a page that a lane shares counts as used.
    fn evict_one(&mut self, spared: Option<NodeIndex>, pool: &mut PagePool) -> bool {
        let leaf = |index: &NodeIndex| {
            let node = self.node(*index);
            node.children.is_empty() && Some(*index) != spared && pool.holders(node.page) == 1
        };
        let Some(oldest) = self.live().filter(leaf).min_by_key(|index| self.node(*index).last_used) else {
            return false;
        };
        let node = self.nodes[oldest].take().expect("a node in use");
        self.node_mut(node.parent).children.retain(|child| *child != oldest);
        self.vacant.push(oldest);
        self.drop_snapshot(node.snapshot);
        self.pages -= 1;
        pool.release(node.page);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` pages of tokens, each page filled with one value of `values`.
    fn tokens(values: &[TokenId]) -> Vec<TokenId> {
        values.iter().flat_map(|value| [*value; PAGE]).collect()
    }

    /// Takes pages as a lane would and keeps them, with a state at each of `states`; the lane then closes.
    fn keep(
        cache: &mut PrefixCache,
        pool: &mut PagePool,
        values: &[TokenId],
        states: &[usize],
        drafted: bool,
    ) {
        let mut pages = Vec::new();
        pool.take(values.len(), &mut pages);
        let kept: Vec<KeptPage> = pages
            .iter()
            .enumerate()
            .map(|(index, page)| {
                let snapshot = states.contains(&index).then(|| cache.take_snapshot().expect("a place"));
                KeptPage { page: *page, snapshot }
            })
            .collect();
        cache.keep(&tokens(values), &kept, drafted, pool);
        pages.iter().for_each(|page| pool.release(*page));
    }

    fn found(cache: &mut PrefixCache, pool: &mut PagePool, values: &[TokenId], drafted: bool) -> usize {
        let mut prompt = tokens(values);
        prompt.push(0);
        let found = cache.find(&prompt, drafted, pool);
        found.pages.iter().for_each(|page| pool.release(*page));
        found.pages.len()
    }

    #[test]
    fn a_prompt_resumes_at_the_last_page_with_a_state() {
        let (mut cache, mut pool) = (PrefixCache::new(8, 8), PagePool::new(8));
        keep(&mut cache, &mut pool, &[1, 2, 3], &[1], true);
        assert_eq!(found(&mut cache, &mut pool, &[1, 2, 3], true), 2);
        assert_eq!(found(&mut cache, &mut pool, &[1, 2], true), 2);
        assert_eq!(found(&mut cache, &mut pool, &[1], true), 0);
        assert_eq!(found(&mut cache, &mut pool, &[2, 2], true), 0);
        let whole = tokens(&[1, 2]);
        let shorter = cache.find(&whole, true, &mut pool);
        assert!(shorter.pages.is_empty(), "a token has to be left to draw from");
    }

    #[test]
    fn a_drafted_prompt_wants_drafter_context_and_gets_it_from_the_next_lane() {
        let (mut cache, mut pool) = (PrefixCache::new(8, 8), PagePool::new(8));
        keep(&mut cache, &mut pool, &[1, 2], &[1], false);
        assert_eq!(found(&mut cache, &mut pool, &[1, 2], false), 2);
        assert_eq!(found(&mut cache, &mut pool, &[1, 2], true), 0);
        keep(&mut cache, &mut pool, &[1, 2], &[1], true);
        assert_eq!(found(&mut cache, &mut pool, &[1, 2], true), 2);
        assert_eq!(pool.total() - pool.free(), 2, "equal pages are held once");
    }

    #[test]
    fn the_least_recently_used_leaf_goes_first_and_its_state_with_it() {
        let (mut cache, mut pool) = (PrefixCache::new(3, 2), PagePool::new(8));
        keep(&mut cache, &mut pool, &[1, 2], &[1], true);
        keep(&mut cache, &mut pool, &[5], &[0], true);
        assert_eq!(found(&mut cache, &mut pool, &[1, 2], true), 2);
        keep(&mut cache, &mut pool, &[6], &[0], true);
        assert_eq!(found(&mut cache, &mut pool, &[5], true), 0);
        assert_eq!(found(&mut cache, &mut pool, &[6], true), 1);
        cache.evict(8, &mut pool);
        assert_eq!((pool.free(), cache.free_snapshots.len()), (8, 2), "nothing leaks");
    }

    #[test]
    fn pages_that_lanes_hold_are_not_evicted() {
        let (mut cache, mut pool) = (PrefixCache::new(4, 4), PagePool::new(4));
        keep(&mut cache, &mut pool, &[1, 2], &[1], true);
        let mut prompt = tokens(&[1, 2]);
        prompt.push(9);
        let held = cache.find(&prompt, true, &mut pool);
        cache.evict(4, &mut pool);
        assert_eq!(pool.free(), 2);
        held.pages.iter().for_each(|page| pool.release(*page));
        cache.evict(4, &mut pool);
        assert_eq!(pool.free(), 4);
    }
}
