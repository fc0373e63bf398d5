//! What stands in the rows of a forward, and the schedules that a suite runs.

use forerunner_tensor::PAGE;

use super::inputs::Random;

/// Most rows of the forwards that stand beside each other.
pub(super) const ROWS: usize = 40;

/// What stands in one row. The inputs of a row are a function of its lane and position alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The token of a lane at a position.
    Row { lane: usize, position: usize },
    /// A pad row.
    Pad,
}

/// The rows of one forward, in order.
pub(super) type Layout = Vec<Place>;

/// The positions of one lane that an operation is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneRows {
    /// Length of the history that exists before.
    pub(super) start: usize,
    /// Rows after it.
    pub(super) count: usize,
}

/// Which forwards may share a lane's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Rows have no history: any row in any forward.
    Free,
    /// Rows in order, cut into forwards anywhere.
    Chunks,
    /// All of a lane's rows in one forward.
    Whole,
}

/// Rows `from..to` (counted from the lane's start) of a lane.
pub(super) fn rows_of(lanes: &[LaneRows], lane: usize, from: usize, to: usize) -> Layout {
    (from..to).map(|row| Place::Row { lane, position: lanes[lane].start + row }).collect()
}

/// Every lane by itself, cut as fine as it may be.
pub(super) fn alone(lanes: &[LaneRows], cut: Cut) -> Vec<Layout> {
    let mut forwards = Vec::new();
    for (lane, rows) in lanes.iter().enumerate() {
        if cut == Cut::Whole {
            forwards.push(rows_of(lanes, lane, 0, rows.count));
        } else {
            forwards.extend((0..rows.count).map(|row| rows_of(lanes, lane, row, row + 1)));
        }
    }
    forwards
}

/// One forward of `count` rows: lanes in an order that turns with `count`, pad rows between some of them.
pub(super) fn beside(lanes: &[LaneRows], cut: Cut, count: usize) -> Layout {
    let mut random = Random::new(&[count as u64]);
    let mut layout = Layout::new();
    for step in 0..lanes.len() {
        let lane = (count * 7 + step) % lanes.len();
        if count > 1 && random.below(4) == 0 {
            layout.push(Place::Pad);
        }
        let room = count.saturating_sub(layout.len());
        if room >= lanes[lane].count || cut != Cut::Whole {
            layout.extend(rows_of(lanes, lane, 0, room.min(lanes[lane].count)));
        }
    }
    layout.resize(count, Place::Pad);
    layout
}

/// Two forwards: a lane cut after `at` rows, with the lanes before it beside the first part, those after it
/// beside the second, and pad rows around.
pub(super) fn cut_after(lanes: &[LaneRows], lane: usize, at: usize) -> Vec<Layout> {
    let mut first = vec![Place::Pad];
    for other in 0..lane {
        first.extend(rows_of(lanes, other, 0, lanes[other].count));
    }
    first.extend(rows_of(lanes, lane, 0, at));
    let mut second = rows_of(lanes, lane, at, lanes[lane].count);
    second.push(Place::Pad);
    for other in lane + 1..lanes.len() {
        second.extend(rows_of(lanes, other, 0, lanes[other].count));
    }
    vec![first, second]
}

/// One forward of all rows, with as many pad rows as there are lanes.
pub(super) fn all_rows(lanes: &[LaneRows], cut: Cut) -> Layout {
    let rows: usize = lanes.iter().map(|rows| rows.count).sum();
    beside(lanes, cut, rows + lanes.len())
}

/// Where to cut a lane's rows: everywhere, or in a large operation beside its ends, its middle and pages.
pub(super) fn cuts(rows: LaneRows, large: bool) -> Vec<usize> {
    let telling =
        |at: &usize| [1, rows.count / 2, rows.count - 1].contains(at) || (rows.start + at + 1) % PAGE <= 2;
    (1..rows.count).filter(|at| !large || telling(at)).collect()
}

/// The length each lane has reached after the forwards.
pub(super) fn lengths(lanes: &[LaneRows], forwards: &[Layout]) -> Vec<usize> {
    let mut lengths: Vec<usize> = lanes.iter().map(|rows| rows.start).collect();
    for place in forwards.iter().flatten() {
        if let Place::Row { lane, position } = place {
            lengths[*lane] = lengths[*lane].max(position + 1);
        }
    }
    lengths
}
