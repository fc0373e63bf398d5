//! Feed-forwards: dense, and over the experts that rows pick.

use forerunner_tensor::{DeviceError, RouteRule, Routing, Rows, bf16};

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::driver::Address;
use crate::linear::Write;
use crate::module::{Grid, Kernel, Params};
use crate::rows::{NormFirst, RowsParam};
use crate::scratch::Place;
use crate::weights::{ExpertMatricesParam, Experts, Matrix, WeightsParam, unsupported};

/// Most experts and picks of a row.
pub(crate) const MOST_EXPERTS: usize = 256;
pub(crate) const MOST_PICKS: usize = 32;
/// Rows, and rows times picks, up to which a block sorts the picks by itself.
const FEW_ROWS: usize = 16;
const FEW_ENTRIES: usize = 256;
const THREADS: usize = 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct GateParams {
    both: Address,
    out: Address,
    rows: i32,
    width: i32,
}

// SAFETY: `GateParams` of `rows.cuh`.
unsafe impl Params for GateParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct RouteParams {
    router: WeightsParam,
    x: Address,
    bias: Address,
    norm: NormFirst,
    rows: RowsParam,
    logits: Address,
    counters: Address,
    picked: Address,
    experts: Address,
    weights: Address,
    distinct: Address,
    picks: i32,
    normalize: i32,
    scale: f32,
    reserved: i32,
}

// SAFETY: `RouteParams` of `experts.cuh`.
unsafe impl Params for RouteParams {}

#[repr(C)]
#[derive(Clone, Copy)]
struct ExpertParams {
    gate: ExpertMatricesParam,
    up: ExpertMatricesParam,
    down: ExpertMatricesParam,
    x: Address,
    experts: Address,
    weights: Address,
    lanes: Address,
    active: Address,
    outputs: Address,
    residual: Address,
    order: Address,
    starts: Address,
    rows: i32,
    picks: i32,
    expert_count: i32,
    reserved: i32,
}

// SAFETY: `ExpertParams` of `experts.cuh`.
unsafe impl Params for ExpertParams {}

impl CudaDevice {
    pub(crate) fn dense_feed_forward(
        &self,
        gate_up: &Matrix,
        down: &Matrix,
        x: &Buffer<bf16>,
        count: usize,
        residual: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let width = down.layout.inputs;
        assert_eq!(gate_up.layout.outputs, 2 * width, "outputs of gate and up for {width} inputs of down");
        let both = self.scratch(Place::GateUp, count * 2 * width * size_of::<bf16>())?;
        let active = self.scratch(Place::Active, count * width * size_of::<bf16>())?;
        self.dense_product(gate_up, x, count, both, Write::Bf16)?;
        let params = GateParams { both, out: active, rows: count as i32, width: width as i32 };
        self.launch_rows(Kernel::Gate, Grid::new(width.div_ceil(THREADS), count, THREADS), &params)?;
        let out = residual.first(count * down.layout.outputs);
        self.product(down, active, count, out, Write::Add, Default::default())
    }

    pub(crate) fn route_rows(
        &self,
        router: &Matrix,
        bias: &Buffer<f32>,
        rule: RouteRule,
        x: &Buffer<bf16>,
        rows: &Rows<CudaDevice>,
        layer: usize,
        routing: &Routing<CudaDevice>,
    ) -> Result<(), DeviceError> {
        let experts = router.layout.outputs;
        if experts > MOST_EXPERTS || rule.picks > MOST_PICKS || rule.picks > experts {
            return Err(unsupported(
                "the picks of a router",
                format!("{} of {experts}", rule.picks),
                format!("at most {MOST_PICKS} of at most {MOST_EXPERTS}"),
            ));
        }
        let blocks = rows.count.div_ceil(8);
        let x = x.first(rows.count * router.layout.inputs);
        let params = RouteParams {
            router: router.param(),
            x,
            bias: bias.first(experts),
            norm: self.norm_first(x, rows.count, router.layout.inputs, 0),
            rows: RowsParam::new(rows),
            logits: self.scratch(Place::RouterLogits, rows.count * experts * size_of::<f32>())?,
            counters: self.scratch(Place::Counters, (1 + blocks) * size_of::<u32>())?,
            picked: self.scratch(Place::Picked, MOST_EXPERTS / 8)?,
            experts: routing.experts.first(rows.count * rule.picks),
            weights: routing.weights.first(rows.count * rule.picks),
            distinct: routing.distinct.span(layer, 1),
            picks: rule.picks as i32,
            normalize: i32::from(rule.normalize),
            scale: rule.scale,
            reserved: 0,
        };
        let kernels = [Kernel::RouteBf16, Kernel::RouteAffine4, Kernel::RouteAffine8];
        let grid = Grid::new(experts.div_ceil(16), blocks, THREADS);
        self.launch_rows(kernels[router.layout.format.index()], grid, &params)
    }

    pub(crate) fn picked_feed_forward(
        &self,
        experts: &Experts,
        routing: &Routing<CudaDevice>,
        picks: usize,
        x: &Buffer<bf16>,
        rows: &Rows<CudaDevice>,
        residual: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        if rows.count == 0 {
            return Ok(());
        }
        let entries = rows.count * picks;
        let (hidden, width) = (experts.gate.layout.inputs, experts.gate.layout.outputs);
        let few = rows.count <= FEW_ROWS && entries <= FEW_ENTRIES;
        let one = rows.count == 1 && few;
        let of_more = |bytes: usize| if one { 1 } else { bytes };
        let params = ExpertParams {
            gate: experts.gate.param(),
            up: experts.up.param(),
            down: experts.down.param(),
            x: x.first(rows.count * hidden),
            experts: routing.experts.first(entries),
            weights: routing.weights.first(entries),
            lanes: rows.lane.first(rows.count),
            active: self.scratch(Place::Active, entries * width * size_of::<bf16>())?,
            outputs: self.scratch(Place::ExpertOutputs, of_more(entries * hidden * size_of::<bf16>()))?,
            residual: residual.first(rows.count * hidden),
            order: self.scratch(Place::Order, of_more(entries * size_of::<i32>()))?,
            starts: self.scratch(Place::Starts, (MOST_EXPERTS + 1) * size_of::<i32>())?,
            rows: rows.count as i32,
            picks: picks as i32,
            expert_count: experts.count as i32,
            reserved: 0,
        };
        let formats = (experts.gate.layout.format.index(), experts.down.layout.format.index());
        let blocks = (width.div_ceil(16), hidden.div_ceil(16));
        let combine = Grid::new(hidden.div_ceil(THREADS), rows.count, THREADS);
        if few {
            let (gate_up, down) = few_kernels(formats, rows.count);
            let slots = entries.min(experts.count);
            self.launch(gate_up, Grid::new(blocks.0, slots, THREADS), &params)?;
            if one {
                return self.launch(down, Grid::new(blocks.1, 1, THREADS), &params);
            }
            self.launch(down, Grid::new(blocks.1, slots, THREADS), &params)?;
            return self.launch(Kernel::CombineExperts, combine, &params);
        }
        let (gate_up, down) = many_kernels(formats);
        self.launch(Kernel::GroupEntries, Grid::new(1, 1, 1024), &params)?;
        self.launch(gate_up, Grid::new(blocks.0.div_ceil(8), experts.count, THREADS), &params)?;
        self.launch(down, Grid::new(blocks.1.div_ceil(16), experts.count, THREADS), &params)?;
        self.launch(Kernel::CombineExperts, combine, &params)
    }
}

/// One row's kernel for down adds the picks as well.
fn few_kernels((gate_up, down): (usize, usize), rows: usize) -> (Kernel, Kernel) {
    let (gate_up_kernels, down_kernels) = match rows {
        1 => (
            [Kernel::GateUp1Bf16, Kernel::GateUp1Affine4, Kernel::GateUp1Affine8],
            [Kernel::Down1Bf16, Kernel::Down1Affine4, Kernel::Down1Affine8],
        ),
        2..=8 => (
            [Kernel::GateUp1Bf16, Kernel::GateUp1Affine4, Kernel::GateUp1Affine8],
            [Kernel::DownEach1Bf16, Kernel::DownEach1Affine4, Kernel::DownEach1Affine8],
        ),
        _ => (
            [Kernel::GateUp2Bf16, Kernel::GateUp2Affine4, Kernel::GateUp2Affine8],
            [Kernel::DownEach2Bf16, Kernel::DownEach2Affine4, Kernel::DownEach2Affine8],
        ),
    };
    (gate_up_kernels[gate_up], down_kernels[down])
}

fn many_kernels((gate_up, down): (usize, usize)) -> (Kernel, Kernel) {
    (
        [Kernel::GateUpManyBf16, Kernel::GateUpManyAffine4, Kernel::GateUpManyAffine8][gate_up],
        [Kernel::DownManyBf16, Kernel::DownManyAffine4, Kernel::DownManyAffine8][down],
    )
}
