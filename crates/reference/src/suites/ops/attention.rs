//! `rope_append` and `attention`: contexts that cross pages, pages in no order, causal rows and blocks.

use forerunner_tensor::{
    Device, DeviceError, HeadNorms, HeadShape, KeyValuePages, PAGE, PageTable, RopeTable, bf16,
};

use super::host::{activations, download, rows, unwritten, upload};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::inputs::Random;
use crate::suites::places::{Cut, LaneRows, Layout};

/// Pages that a lane has room for at least.
const PAGES_PER_LANE: usize = 3;
/// Pages that no lane's table names; they must stay as they are.
const SPARE_PAGES: usize = 3;
/// Rounded norm, rotation and softmax, one after another.
const BOUND: Bound = Bound::Bf16 { steps: 3.0 };

struct Attention {
    shape: HeadShape,
    lanes: Vec<LaneRows>,
    /// Whether each row sees its lane's whole block, or only what is before it and itself.
    block: bool,
    pages_per_lane: usize,
    page_table: Vec<i32>,
    /// Keys and values of the histories, in pages; the rest holds an earlier sequence's.
    keys: Vec<bf16>,
    values: Vec<bf16>,
}

struct Weights<D: Device> {
    norms: HeadNorms<D>,
    rope: RopeTable<D>,
    table: PageTable<D>,
    pages: KeyValuePages<D>,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    // Contexts of 1, 255, 256, 257 and 600 keys among others.
    let causal = [(0, 4), (250, 12), (254, 1), (599, 3), (0, 20)];
    for (query_heads, key_value_heads) in [(4, 1), (4, 2), (8, 2)] {
        visitor.operation(&Attention::new(query_heads, key_value_heads, &causal, false));
    }
    visitor.operation(&Attention::new(4, 1, &[(0, 300), (500, 70), (31, 2)], false));
    // Devices share out and merge long contexts in other ways than short ones, and many rows in other ways than few.
    visitor.operation(&Attention::new(4, 1, &[(16_640, 6), (2_040, 20), (0, 3)], false));
    visitor.operation(&Attention::new(4, 1, &[(2_040, 40), (0, 230)], false));
    let blocks = [(0, 4), (251, 9), (255, 1), (256, 9), (596, 4), (40, 9)];
    visitor.operation(&Attention::new(4, 1, &blocks, true));
    // A drafter's context: keys and values only.
    visitor.operation(&Attention::new(0, 2, &causal, false));
}

impl Attention {
    fn new(query_heads: usize, key_value_heads: usize, lanes: &[(usize, usize)], block: bool) -> Self {
        let shape = HeadShape { query_heads, key_value_heads, head_dim: 64 };
        let longest = lanes.iter().map(|(start, count)| start + count).max().unwrap_or(0);
        let pages_per_lane = longest.div_ceil(PAGE).max(PAGES_PER_LANE);
        let pages = lanes.len() * pages_per_lane + SPARE_PAGES;
        let len = pages * key_value_heads * PAGE * shape.head_dim;
        let mut random = Random::new(&[17, key_value_heads as u64]);
        // Page 0 is spare: it is where a write without a lane would go.
        let mut page_table: Vec<i32> = (1..pages as i32).collect();
        random.shuffle(&mut page_table);
        page_table.truncate(lanes.len() * pages_per_lane);
        Attention {
            shape,
            lanes: lanes.iter().map(|(start, count)| LaneRows { start: *start, count: *count }).collect(),
            block,
            pages_per_lane,
            page_table,
            keys: random.bf16s(len, 2.0),
            values: random.bf16s(len, 2.0),
        }
    }

    fn key_end(&self, lane: usize, position: usize) -> usize {
        let rows = self.lanes[lane];
        if self.block { rows.start + rows.count } else { position + 1 }
    }

    /// Takes the rows' entries out of downloaded pages, and puts back what was there before.
    fn take_rows(
        &self,
        name: &'static str,
        bound: Bound,
        pages: &mut [f64],
        before: &[bf16],
        lengths: &[usize],
    ) -> Output {
        let HeadShape { key_value_heads, head_dim, .. } = self.shape;
        let mut output =
            Output { name, bound, keys: vec![], width: key_value_heads * head_dim, values: vec![] };
        for (lane, rows) in self.lanes.iter().enumerate() {
            for position in rows.start..lengths[lane] {
                output.keys.push(Key::Row { lane, position });
                let page = self.page_table[lane * self.pages_per_lane + position / PAGE] as usize;
                for head in 0..key_value_heads {
                    let start = ((page * key_value_heads + head) * PAGE + position % PAGE) * head_dim;
                    output.values.extend(&pages[start..start + head_dim]);
                    for index in start..start + head_dim {
                        pages[index] = before[index].into();
                    }
                }
            }
        }
        output
    }

    /// The queries after norm and rope.
    fn queries<D: Device>(
        &self,
        device: &D,
        stacked: &D::Buffer<bf16>,
        layout: &Layout,
    ) -> Result<Output, DeviceError> {
        let width = self.shape.stacked_width();
        let stacked = download(device, stacked, layout.len() * width)?;
        let queries = self.shape.query_heads * self.shape.head_dim;
        let values = stacked.chunks_exact(width).flat_map(|row| &row[..queries]).copied().collect();
        Ok(Output::of_rows("queries", BOUND, layout, values))
    }
}

impl RowOp for Attention {
    type State<D: Device> = Weights<D>;

    fn name(&self) -> String {
        let HeadShape { query_heads, key_value_heads, .. } = self.shape;
        let blocks = if self.block { " in blocks" } else { "" };
        let longest = self.pages_per_lane * PAGE;
        let lanes = self.lanes.len();
        format!("attention {query_heads}/{key_value_heads} of {lanes} lanes of {longest} tokens{blocks}")
    }

    fn lanes(&self) -> Vec<LaneRows> {
        self.lanes.clone()
    }

    fn cut(&self) -> Cut {
        if self.block { Cut::Whole } else { Cut::Chunks }
    }

    fn large(&self) -> bool {
        self.shape.query_heads == 8 || self.lanes.iter().any(|rows| rows.count > 100 || rows.start > 1000)
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<Weights<D>, DeviceError> {
        let mut random = Random::new(&[18]);
        Ok(Weights {
            norms: HeadNorms {
                query: upload(device, &random.bf16s(self.shape.head_dim, 2.0))?,
                key: upload(device, &random.bf16s(self.shape.head_dim, 2.0))?,
                epsilon: 1e-5,
            },
            rope: RopeTable::new(device, 1e6, self.shape.head_dim, self.pages_per_lane * PAGE)?,
            table: PageTable {
                pages_per_lane: self.pages_per_lane,
                pages: upload(device, &self.page_table)?,
            },
            pages: KeyValuePages { keys: upload(device, &self.keys)?, values: upload(device, &self.values)? },
        })
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        state: &mut Weights<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let Weights { norms, rope, table, pages } = state;
        let rows = rows(device, layout, |_, _| 0, |lane, position| self.key_end(lane, position))?;
        let mut stacked = upload(device, &activations(19, layout, self.shape.stacked_width(), 2.0))?;
        device.rope_append(&mut stacked, self.shape, norms, rope, &rows, table, pages);
        if self.shape.query_heads == 0 {
            return Ok(Vec::new());
        }
        let len = layout.len() * self.shape.query_heads * self.shape.head_dim;
        let mut out = unwritten(device, len)?;
        device.attention(&stacked, self.shape, &rows, table, pages, &mut out);
        let attended = Output::of_rows("attended", BOUND, layout, download(device, &out, len)?);
        Ok(vec![self.queries(device, &stacked, layout)?, attended])
    }

    /// The rows' keys and values, and that nothing else was written.
    fn finish<D: Device>(
        &self,
        device: &D,
        state: &Weights<D>,
        lengths: &[usize],
    ) -> Result<Vec<Output>, DeviceError> {
        let mut outputs = Vec::new();
        for (name, bound, buffer, before) in [
            ("keys", BOUND, &state.pages.keys, &self.keys),
            ("values", Bound::Exact, &state.pages.values, &self.values),
        ] {
            let mut after = download(device, buffer, before.len())?;
            outputs.push(self.take_rows(name, bound, &mut after, before, lengths));
            let strays = before.iter().zip(&after).filter(|(before, after)| f64::from(**before) != **after);
            outputs.push(Output::exact("stray page writes", Key::Always, vec![strays.count() as f64]));
        }
        Ok(outputs)
    }
}
