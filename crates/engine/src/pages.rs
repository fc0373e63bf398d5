//! Which pages are free, and how many hold each of the others.

use std::ops::Range;

/// The pages of one engine, reference-counted. Free pages are handed out lowest first, so that a quiet engine
/// touches little memory.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// Lanes and cache nodes that hold each page.
    holders: Vec<u32>,
    /// Highest first: the next page is the last entry.
    free: Vec<i32>,
}

impl PagePool {
    /// All of `total` pages are free.
    pub(crate) fn new(total: usize) -> Self {
        PagePool { holders: vec![0; total], free: (0..total as i32).rev().collect() }
    }

    /// Moves `count` free pages to the end of `pages`, held once each.
    ///
    /// # Panics
    /// If fewer are free: the caller has looked.
    pub(crate) fn take(&mut self, count: usize, pages: &mut Vec<i32>) {
        let rest = self.free.len().checked_sub(count).expect("pages are free");
        for page in self.free.drain(rest..).rev() {
            self.holders[page as usize] = 1;
            pages.push(page);
        }
    }

    /// One more holder for a page that is held.
    pub(crate) fn share(&mut self, page: i32) {
        assert!(self.holders[page as usize] > 0, "page {page} is free and cannot be shared");
        self.holders[page as usize] += 1;
    }

    /// One holder less; the last one frees the page.
    pub(crate) fn release(&mut self, page: i32) {
        let holders = &mut self.holders[page as usize];
        *holders = holders.checked_sub(1).expect("a page is released by its holders only");
        if *holders == 0 {
            let place = self.free.partition_point(|other| *other > page);
            self.free.insert(place, page);
        }
    }

    /// How many hold `page`.
    pub(crate) fn holders(&self, page: i32) -> u32 {
        self.holders[page as usize]
    }

    /// Pages nobody holds.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Pages there are.
    pub(crate) fn total(&self) -> usize {
        self.holders.len()
    }
}

/// Which pages open lanes hold: those of a shared prefix count once, and those that only the prefix cache holds not
/// at all, as it gives them away when lanes need them.
#[derive(Debug)]
pub(crate) struct HeldPages {
    /// Open lanes that hold each page.
    lanes: Vec<u32>,
    in_use: usize,
}

impl HeldPages {
    /// No lane is open.
    pub(crate) fn new(total: usize) -> Self {
        HeldPages { lanes: vec![0; total], in_use: 0 }
    }

    /// A lane that holds `pages` has opened.
    pub(crate) fn open(&mut self, pages: &[i32]) {
        for page in pages {
            let lanes = &mut self.lanes[*page as usize];
            self.in_use += usize::from(*lanes == 0);
            *lanes += 1;
        }
    }

    /// It has closed.
    pub(crate) fn close(&mut self, pages: &[i32]) {
        for page in pages {
            let lanes = &mut self.lanes[*page as usize];
            *lanes = lanes.checked_sub(1).expect("a lane closes once");
            self.in_use -= usize::from(*lanes == 0);
        }
    }

    /// Pages that some lane holds.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }
}

/// Which pages take memory on a device that reserves their addresses first.
#[derive(Debug)]
pub(crate) struct CommittedPages(Vec<bool>);

impl CommittedPages {
    /// None of `total` pages does.
    pub(crate) fn new(total: usize) -> Self {
        CommittedPages(vec![false; total])
    }

    /// The first pages of `pages` without memory that follow each other.
    pub(crate) fn missing(&self, pages: &[i32]) -> Option<Range<usize>> {
        let first = pages.iter().position(|page| !self.0[*page as usize])?;
        let start = pages[first] as usize;
        let follows =
            |(index, page): &(usize, &i32)| **page as usize == start + index && !self.0[start + index];
        let count = pages[first..].iter().enumerate().take_while(follows).count();
        Some(start..start + count)
    }

    /// They take memory now.
    pub(crate) fn add(&mut self, pages: Range<usize>) {
        self.0[pages].fill(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_two_lanes_is_in_use_once_and_until_both_have_closed() {
        let mut held = HeldPages::new(5);
        held.open(&[0, 1, 2]);
        held.open(&[0, 3]);
        assert_eq!(held.in_use(), 4);
        held.close(&[0, 1, 2]);
        assert_eq!(held.in_use(), 2);
        held.close(&[0, 3]);
        assert_eq!(held.in_use(), 0);
    }

    #[test]
    fn pages_without_memory_are_told_run_by_run() {
        let mut committed = CommittedPages::new(9);
        committed.add(3..4);
        let pages = [1, 2, 3, 4, 5, 8, 7];
        let mut runs = Vec::new();
        while let Some(run) = committed.missing(&pages) {
            committed.add(run.clone());
            runs.push(run);
        }
        assert_eq!(runs, [1..3, 4..6, 8..9, 7..8]);
        assert_eq!(committed.missing(&[]), None);
    }

    #[test]
    fn pages_come_lowest_first_and_return_when_their_last_holder_lets_go() {
        let mut pool = PagePool::new(4);
        let mut pages = Vec::new();
        pool.take(2, &mut pages);
        pool.take(1, &mut pages);
        assert_eq!(pages, [0, 1, 2]);
        pool.share(1);
        pool.release(1);
        assert_eq!((pool.free(), pool.holders(1)), (1, 1));
        pool.release(1);
        pool.release(0);
        let mut again = Vec::new();
        pool.take(3, &mut again);
        assert_eq!(again, [0, 1, 3]);
        assert_eq!((pool.free(), pool.total()), (0, 4));
    }

    #[test]
    #[should_panic(expected = "released by its holders only")]
    fn a_page_cannot_be_released_twice() {
        let mut pool = PagePool::new(1);
        pool.take(1, &mut Vec::new());
        pool.release(0);
        pool.release(0);
    }
}
