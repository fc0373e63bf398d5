//! `draft_chain`: drafts equal to the oracle's, confidences close to its.

use forerunner_tensor::{Device, DeviceError, DrawRow, DrawTables, MarkovHead, NO_LANE, bf16};

use super::host::{activations, activations_f32, download_as, place_random, rows, upload};
use super::rules::{lanes_of, rule, tables};
use super::{RowOp, Visitor};
use crate::suites::compare::{Bound, Key, Output};
use crate::suites::inputs::{Format, MatrixShape, Random};
use crate::suites::places::{Cut, LaneRows, Layout, Place, rows_of};

struct DraftChain {
    vocabulary: usize,
    rank: usize,
    hidden: usize,
    size: usize,
    depth: usize,
    format: Format,
    confidence: bool,
}

pub(super) fn visit<V: Visitor>(visitor: &mut V) {
    for (vocabulary, rank, hidden, size, depth, format, confidence) in [
        (97, 32, 64, 4, 4, Format::Bf16, true),
        (97, 64, 96, 9, 5, Format::Affine(8, 64), false),
        (1000, 32, 128, 3, 3, Format::Affine(8, 32), true),
        (97, 32, 64, 4, 1, Format::F32, true),
    ] {
        visitor.operation(&DraftChain { vocabulary, rank, hidden, size, depth, format, confidence });
    }
}

impl DraftChain {
    /// Whole blocks: where a lane stands in the layout its block, where a pad row stands a pad block.
    fn blocks(&self, layout: &Layout) -> Layout {
        let block = |lane: Option<usize>| match lane {
            Some(lane) => rows_of(&self.lanes(), lane, 0, self.size),
            None => vec![Place::Pad; self.size],
        };
        lanes_of(layout).into_iter().flat_map(block).collect()
    }

    /// The row's values of those drafts that were asked for.
    fn output(&self, name: &'static str, bound: Bound, blocks: &Layout, values: &[f64]) -> Output {
        let mut output = Output { name, bound, keys: vec![], width: 1, values: vec![] };
        for (row, place) in blocks.iter().enumerate() {
            let asked = row % self.size < self.depth;
            output.keys.push(if asked { Key::from(*place) } else { Key::Nothing });
            output.values.push(values[row]);
        }
        output
    }
}

impl RowOp for DraftChain {
    type State<D: Device> = (MarkovHead<D>, DrawTables<D>);

    fn name(&self) -> String {
        let DraftChain { vocabulary, rank, size, depth, format, .. } = self;
        format!("draft_chain of {vocabulary}, rank {rank} {format:?}, {depth} of {size}")
    }

    fn lanes(&self) -> Vec<LaneRows> {
        (0..9).map(|lane| LaneRows { start: lane * 41, count: self.size }).collect()
    }

    fn cut(&self) -> Cut {
        Cut::Whole
    }

    fn large(&self) -> bool {
        self.vocabulary > 97
    }

    fn prepare<D: Device>(&self, device: &D) -> Result<Self::State<D>, DeviceError> {
        let shape = MatrixShape::new(self.vocabulary, self.rank, self.format);
        let mut random = Random::new(&[40]);
        let confidence = if self.confidence {
            let weight = upload(device, &random.bf16s(self.hidden + self.rank, 0.5))?;
            Some((weight, upload(device, &[bf16::from_f32(-0.75)])?))
        } else {
            None
        };
        let head = MarkovHead {
            previous: device.load_matrix(&shape.host_scaled(41, 1.0))?,
            next: device.load_matrix(&shape.host_scaled(42, 1.0))?,
            confidence,
        };
        Ok((head, tables(device, self.lanes().len(), self.vocabulary)?))
    }

    fn forward<D: Device>(
        &self,
        device: &D,
        (head, tables): &mut Self::State<D>,
        layout: &Layout,
    ) -> Result<Vec<Output>, DeviceError> {
        let blocks = self.blocks(layout);
        let token = |lane, position| place_random(43, Place::Row { lane, position }).below(self.vocabulary);
        let block_rows = rows(device, &blocks, token, |_, position| position + 1)?;
        let rules: Vec<DrawRow> = lanes_of(layout)
            .into_iter()
            .map(|lane| lane.map_or(DrawRow { lane: NO_LANE, ..DrawRow::default() }, rule))
            .collect();
        let hidden = upload(device, &activations(44, &blocks, self.hidden, 1.0))?;
        let logits = upload(device, &activations_f32(45, &blocks, self.vocabulary, 8.0))?;
        let mut drafts = upload(device, &vec![-77i32; blocks.len()])?;
        let mut confidence = device.allocate::<f32>(blocks.len())?;
        let rules_buffer = upload(device, &rules)?;
        device.draft_chain(
            head,
            &hidden,
            self.hidden,
            &logits,
            &rules_buffer,
            &block_rows,
            tables,
            rules.len(),
            self.size,
            self.depth,
            &mut drafts,
            &mut confidence,
        );
        let drafts = download_as(device, &drafts, blocks.len())?;
        let mut outputs = vec![self.output("drafts", Bound::Exact, &blocks, &drafts)];
        if self.confidence {
            let confidence = download_as(device, &confidence, blocks.len())?;
            outputs.push(self.output("confidence", Bound::Fp32, &blocks, &confidence));
        }
        Ok(outputs)
    }
}
