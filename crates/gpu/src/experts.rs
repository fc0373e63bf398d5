//! Feed-forwards: dense, and over the experts that rows pick.

use bytemuck::{Pod, Zeroable};
use forerunner_tensor::{DeviceError, RouteRule, Routing, Rows, bf16};

use crate::buffer::{Buffer, Memory};
use crate::device::GpuDevice;
use crate::driver::unsupported;
use crate::linear::{LinearParams, MANY_ROWS, Write};
use crate::rows::{row_grid, words_of};
use crate::scratch::Place;
use crate::shaders::Kernel;
use crate::weights::{ExpertMatrices, Experts, Format, Matrix, Stored};

/// Most experts and picks of a row, as in `experts.wgsl` and `route.wgsl`.
pub(crate) const MOST_EXPERTS: usize = 256;
pub(crate) const MOST_PICKS: usize = 32;
/// Entries an expert from which its tiles are for many.
const FROM_MANY: usize = 16;
/// Most rows whose picks are made and grouped by one workgroup: they have at most 256 entries.
const ROUTE_FEW: usize = 8;
/// Bytes of a tile's description.
const TILE_BYTES: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GateParams {
    words: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RouteParams {
    experts: u32,
    picks: u32,
    normalize: u32,
    scale: f32,
    rows: u32,
    tile_shift: u32,
    tiles: u32,
    layer: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GroupParams {
    entries: u32,
    experts: u32,
    tile_shift: u32,
    tiles: u32,
    layer: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineParams {
    picks: u32,
    words: u32,
}

/// Entries by expert, as `expert_linear` takes them.
struct Grouped {
    kernel: Kernel,
    tile: usize,
    tiles: std::sync::Arc<Memory>,
    order: std::sync::Arc<Memory>,
    count: usize,
}

/// The kernel for the tiles of so many rows' entries, and how many of them a tile has at most: about as many as an
/// expert is likely to have, for those that are not there cost as much as those that are.
fn expert_tiled(rows: usize, entries: usize, experts: usize) -> (Kernel, usize) {
    if rows <= 1 {
        (Kernel::ExpertLinear1, 1)
    } else if entries <= 2 * experts {
        (Kernel::ExpertLinear4, 4)
    } else if entries < FROM_MANY * experts {
        (Kernel::ExpertLinear8, 8)
    } else {
        (Kernel::ExpertLinearMany, MANY_ROWS)
    }
}

/// Whether there are kernels for so many picks.
pub(crate) fn check_rule(rule: RouteRule, experts: usize) -> Result<(), DeviceError> {
    if experts <= MOST_EXPERTS && rule.picks <= MOST_PICKS && rule.picks <= experts {
        return Ok(());
    }
    Err(unsupported(
        "the picks of a router",
        format!("{} of {experts}", rule.picks),
        format!("at most {MOST_PICKS} of at most {MOST_EXPERTS}"),
    ))
}

impl GpuDevice {
    pub(crate) fn dense_feed_forward(
        &self,
        gate_up: &Matrix,
        down: &Matrix,
        x: &Buffer<bf16>,
        count: usize,
        residual: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let width = down.inputs;
        assert_eq!(gate_up.outputs, 2 * width, "outputs of gate and up for {width} inputs of down");
        let active = self.scratch(Place::Active, count * width * size_of::<bf16>())?;
        let x = x.first(count * gate_up.inputs);
        if let [part] = &gate_up.parts[..] {
            let params = LinearParams {
                rows: count as u32,
                ..LinearParams::new(part.kind, part.outputs, gate_up.inputs, Write::Bf16).gated()
            };
            self.product_of_part(part, x, &active, &*self.nothing()?, params)?;
        } else {
            let both = self.scratch(Place::GateUp, count * 2 * width * size_of::<bf16>())?;
            self.product(gate_up, x, count, &both, Write::Bf16, None)?;
            self.activate(&both, &active, count, width)?;
        }
        self.product(down, &active, count, residual.first(count * down.outputs), Write::Add, None)
    }

    /// Gate and up side by side become the activation.
    fn activate(
        &self,
        both: &Memory,
        active: &Memory,
        count: usize,
        width: usize,
    ) -> Result<(), DeviceError> {
        let words = words_of("the width of a feed-forward", width)?;
        let params = GateParams { words: words as u32 };
        self.launch((Kernel::Gate, Format::Bf16), &[both, active], &params, row_grid(words, count))
    }

    pub(crate) fn route_rows(
        &self,
        router: &Matrix,
        bias: &Buffer<f32>,
        rule: RouteRule,
        x: &Buffer<bf16>,
        rows: &Rows<GpuDevice>,
        layer: usize,
        routing: &Routing<GpuDevice>,
    ) -> Result<(), DeviceError> {
        let experts = router.outputs;
        check_rule(rule, experts)?;
        assert!(layer < routing.distinct.len, "layer {layer} of {}", routing.distinct.len);
        let count = rows.count;
        let logits = self.scratch(Place::RouterLogits, count * experts * size_of::<f32>())?;
        self.product(router, x.first(count * router.inputs), count, &logits, Write::F32, None)?;
        let grouped = self.tiles_of((count, rule.picks), experts)?;
        let params = RouteParams {
            experts: experts as u32,
            picks: rule.picks as u32,
            normalize: u32::from(rule.normalize),
            scale: rule.scale,
            rows: count as u32,
            tile_shift: grouped.tile.ilog2(),
            tiles: grouped.count as u32,
            layer: layer as u32,
        };
        let picked = routing.experts.first(count * rule.picks);
        let weights = routing.weights.first(count * rule.picks);
        let buffers = [&*logits, bias.first(experts), rows.lane.first(count), picked, weights];
        if count <= ROUTE_FEW {
            let [logits, bias, lane, picked, weights] = buffers;
            let (tiles, order, distinct) = (&*grouped.tiles, &*grouped.order, &routing.distinct.memory);
            let buffers = [logits, bias, lane, picked, weights, tiles, order, distinct];
            self.grouped.set(Some((picked.id, count, rule.picks, experts)));
            return self.launch((Kernel::RouteFew, Format::Bf16), &buffers, &params, [1, 1, 1]);
        }
        self.launch((Kernel::Route, Format::Bf16), &buffers, &params, [count, 1, 1])?;
        self.group(picked, (count, rule.picks), experts, Some((&routing.distinct.memory, layer)))?;
        Ok(())
    }

    /// Where entries go that are grouped by expert.
    fn tiles_of(&self, (rows, picks): (usize, usize), experts: usize) -> Result<Grouped, DeviceError> {
        let entries = rows * picks;
        let (kernel, tile) = expert_tiled(rows, entries, experts);
        let count = entries.min(entries / tile + experts);
        let tiles = self.scratch(Place::Tiles, count * TILE_BYTES)?;
        let order = self.scratch(Place::Order, entries * size_of::<u32>())?;
        Ok(Grouped { kernel, tile, tiles, order, count })
    }

    /// Groups entries by expert, and tells how many experts there are, where that is asked for. Nothing is done for
    /// entries that were grouped last, when nothing was written since.
    fn group(
        &self,
        picked: &Memory,
        (rows, picks): (usize, usize),
        experts: usize,
        distinct: Option<(&Memory, usize)>,
    ) -> Result<Grouped, DeviceError> {
        let grouped = self.tiles_of((rows, picks), experts)?;
        let key = (picked.id, rows, picks, experts);
        if distinct.is_none() && self.grouped.get() == Some(key) {
            return Ok(grouped);
        }
        self.grouped.set(Some(key));
        let nothing = self.nothing()?;
        let (distinct, layer) = distinct.unwrap_or((&nothing, usize::MAX));
        let params = GroupParams {
            entries: (rows * picks) as u32,
            experts: experts as u32,
            tile_shift: grouped.tile.ilog2(),
            tiles: grouped.count as u32,
            layer: i32::try_from(layer).unwrap_or(-1),
        };
        let buffers = [picked, &*grouped.tiles, &*grouped.order, distinct];
        self.launch((Kernel::GroupEntries, Format::Bf16), &buffers, &params, [1, 1, 1])?;
        Ok(grouped)
    }

    pub(crate) fn picked_feed_forward(
        &self,
        experts: &Experts,
        routing: &Routing<GpuDevice>,
        picks: usize,
        x: &Buffer<bf16>,
        rows: &Rows<GpuDevice>,
        residual: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let entries = rows.count * picks;
        let (hidden, width) = (experts.down.outputs, experts.down.inputs);
        if entries == 0 {
            return Ok(());
        }
        let active = self.scratch(Place::Active, entries * width * size_of::<bf16>())?;
        let x = x.first(rows.count * hidden);
        let grouped = self.group(routing.experts.first(entries), (rows.count, picks), experts.count, None)?;
        if let [both] = &experts.gate_up[..] {
            let params = LinearParams::new(both.kind, both.outputs, hidden, Write::Bf16).gated();
            self.expert_product(both, &grouped, LinearParams { picks: picks as u32, ..params }, x, &active)?;
        } else {
            let both = self.scratch(Place::GateUp, entries * 2 * width * size_of::<bf16>())?;
            for (index, matrix) in experts.gate_up.iter().enumerate() {
                let params = LinearParams {
                    picks: picks as u32,
                    first_output: (index * width) as u32,
                    out_width: 2 * width as u32,
                    ..LinearParams::new(matrix.kind, width, hidden, Write::Bf16)
                };
                self.expert_product(matrix, &grouped, params, x, &both)?;
            }
            self.activate(&both, &active, entries, width)?;
        }
        self.down(experts, routing, picks, &active, rows, residual)
    }

    /// The second product of experts, and the weighted sums of rows' picks.
    pub(crate) fn down(
        &self,
        experts: &Experts,
        routing: &Routing<GpuDevice>,
        picks: usize,
        active: &Memory,
        rows: &Rows<GpuDevice>,
        residual: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let entries = rows.count * picks;
        let (hidden, width) = (experts.down.outputs, experts.down.inputs);
        let words = words_of("the hidden width of experts", hidden)?;
        if let Some(outcome) = self.down_of_one_row(experts, routing, picks, active, rows, residual) {
            return outcome;
        }
        let outputs = self.scratch(Place::ExpertOutputs, entries * hidden * size_of::<bf16>())?;
        let params = LinearParams::new(experts.down.kind, hidden, width, Write::Bf16);
        let grouped = self.group(routing.experts.first(entries), (rows.count, picks), experts.count, None)?;
        self.expert_product(&experts.down, &grouped, params, active, &outputs)?;
        let params = CombineParams { picks: picks as u32, words: words as u32 };
        let (weights, lane) = (routing.weights.first(entries), rows.lane.first(rows.count));
        let buffers = [&*outputs, weights, lane, residual.first(rows.count * hidden)];
        self.launch((Kernel::CombineExperts, Format::Bf16), &buffers, &params, row_grid(words, rows.count))
    }

    fn expert_product(
        &self,
        matrices: &ExpertMatrices,
        grouped: &Grouped,
        params: LinearParams,
        x: &Memory,
        out: &Memory,
    ) -> Result<(), DeviceError> {
        let nothing = self.nothing()?;
        for part in &matrices.parts {
            let params = LinearParams {
                first_expert: part.first_expert as u32,
                experts: part.experts as u32,
                ..params
            };
            let Stored { codes, scales } = &part.stored;
            let buffers = [codes, scales, x, out, &*nothing, &*grouped.tiles, &*grouped.order];
            let grid = [grouped.count, params.blocks(grouped.tile), 1];
            self.launch((grouped.kernel, matrices.kind.format), &buffers, &params, grid)?;
        }
        Ok(())
    }
}
