//! Feed-forwards: dense, and over the experts that rows pick.

use forerunner_tensor::{DeviceError, RouteRule, Routing, Rows, bf16};

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::driver::Address;
use crate::few::{CHUNK, Chip, FEW_INPUTS, FEW_ROWS, FewLayout, FewWork, STRIP, THREADS, WARPS};
use crate::linear::{MANY_BLOCK_STRIPS, MANY_THREADS, MANY_WARPS, Write, many_shared};
use crate::module::{Grid, Kernel, Params};
use crate::rows::RowsParam;
use crate::scratch::Place;
use crate::weights::{ExpertMatricesParam, Experts, Format, Layout, Matrix, unsupported};

/// Rows that a dense feed-forward has between its kernels at a time: its layers are wide and few, so that memory counts more
/// than reading their weights again.
const DENSE_ROWS: usize = 512;
/// Most experts and picks of a row.
pub(crate) const MOST_EXPERTS: usize = 256;
pub(crate) const MOST_PICKS: usize = 32;
/// Picks of few rows that a block sorts by itself, and chunks of one row's picks that a block sums.
const FEW_ENTRIES: usize = 256;
const FEW_TASKS: usize = 256;
/// Entries an expert, all experts alike, up to which a block has them all at once; more are cut into blocks of 64 rows.
const SOME_ENTRIES: usize = 8;
/// Entries an expert, all experts alike, up to which those are few that have more than the 8 of a pass.
const PASS_ENTRIES: usize = 5;
/// Rows that the blocks of few rows' gate and up keep at most; more are read from where they are.
const KEPT_ROWS: usize = 4;
/// Experts up to which kernels for few rows pick by themselves.
const FEW_EXPERTS: usize = 64;

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

/// From a router's logits to picks, as `PickRule` of `experts.cuh`; none where the picks are made already.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct PickRule {
    logits: Address,
    bias: Address,
    experts: i32,
    picks: i32,
    normalize: i32,
    scale: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RouteParams {
    rule: PickRule,
    rows: RowsParam,
    counter: Address,
    picked: Address,
    experts: Address,
    weights: Address,
    distinct: Address,
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
    distinct: Address,
    lanes: Address,
    active: Address,
    outputs: Address,
    residual: Address,
    order: Address,
    starts: Address,
    rule: PickRule,
    rows: i32,
    grouped: i32,
    layout: FewLayout,
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
        let most = count.min(DENSE_ROWS);
        let both = self.scratch(Place::GateUp, most * 2 * width * size_of::<bf16>())?;
        let active = self.scratch(Place::Active, most * width * size_of::<bf16>())?;
        let (inputs, outputs) = (gate_up.layout.inputs, down.layout.outputs);
        for first in (0..count).step_by(DENSE_ROWS) {
            let count = (count - first).min(DENSE_ROWS);
            let x = x.span(first * inputs, count * inputs);
            self.product(gate_up, x, count, both, Write::Bf16, Default::default())?;
            let params = GateParams { both, out: active, rows: count as i32, width: width as i32 };
            self.launch_rows(Kernel::Gate, Grid::new(width.div_ceil(THREADS), count, THREADS), &params)?;
            let out = residual.span(first * outputs, count * outputs);
            self.product(down, active, count, out, Write::Add, Default::default())?;
        }
        Ok(())
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
        let rule = self.router_logits(router, bias, rule, x, rows)?;
        let picks = rule.picks as usize;
        let params = RouteParams {
            rule,
            rows: RowsParam::new(rows),
            counter: self.scratch(Place::Counters, size_of::<u32>())?,
            picked: self.scratch(Place::Picked, MOST_EXPERTS / 8)?,
            experts: routing.experts.first(rows.count * picks),
            weights: routing.weights.first(rows.count * picks),
            distinct: routing.distinct.span(layer, 1),
        };
        self.launch_rows(Kernel::Route, Grid::new(rows.count.div_ceil(WARPS), 1, THREADS), &params)
    }

    /// A router's logits, and how picks come of them.
    fn router_logits(
        &self,
        router: &Matrix,
        bias: &Buffer<f32>,
        rule: RouteRule,
        x: &Buffer<bf16>,
        rows: &Rows<CudaDevice>,
    ) -> Result<PickRule, DeviceError> {
        let experts = router.layout.outputs;
        if experts > MOST_EXPERTS || rule.picks > MOST_PICKS || rule.picks > experts {
            return Err(unsupported(
                "the picks of a router",
                format!("{} of {experts}", rule.picks),
                format!("at most {MOST_PICKS} of at most {MOST_EXPERTS}"),
            ));
        }
        let logits = self.scratch(Place::RouterLogits, rows.count * experts * size_of::<f32>())?;
        self.dense_product(router, x, rows.count, logits, Write::F32)?;
        Ok(PickRule {
            logits,
            bias: bias.first(experts),
            experts: experts as i32,
            picks: rule.picks as i32,
            normalize: i32::from(rule.normalize),
            scale: rule.scale,
        })
    }

    /// Routes rows and runs their experts. Kernels for few rows pick by themselves.
    pub(crate) fn mixture_rows(
        &self,
        (router, bias, rule): (&Matrix, &Buffer<f32>, RouteRule),
        experts: &Experts,
        x: &Buffer<bf16>,
        rows: &Rows<CudaDevice>,
        layer: usize,
        routing: &Routing<CudaDevice>,
        residual: &Buffer<bf16>,
    ) -> Result<(), DeviceError> {
        let plan = self.some_plan(experts, rows.count, rule.picks);
        let picks_itself = is_few(rows.count, rule.picks) && experts.count <= FEW_EXPERTS;
        let Some(plan) = plan.filter(|_| picks_itself) else {
            self.route_rows(router, bias, rule, x, rows, layer, routing)?;
            return self.picked_feed_forward(experts, routing, rule.picks, x, rows, residual);
        };
        let picks = self.router_logits(router, bias, rule, x, rows)?;
        let mut params = self.expert_params(experts, routing, rule.picks, x, rows, residual)?;
        params.rule = picks;
        params.distinct = routing.distinct.span(layer, 1);
        self.some_experts(&plan, experts, params)
    }

    /// Runs the experts that rows have picked.
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
        let mut params = self.expert_params(experts, routing, picks, x, rows, residual)?;
        let plan = self.some_plan(experts, rows.count, picks);
        if let Some(plan) = plan.as_ref().filter(|_| is_few(rows.count, picks)) {
            return self.some_experts(plan, experts, params);
        }
        self.launch(Kernel::GroupEntries, Grid::new(1, 1, 1024), &params)?;
        params.grouped = 1;
        match plan.filter(|_| rows.count * picks <= SOME_ENTRIES * experts.count) {
            Some(plan) => self.some_experts(&plan, experts, params),
            None => self.many_experts(experts, &params),
        }
    }

    fn expert_params(
        &self,
        experts: &Experts,
        routing: &Routing<CudaDevice>,
        picks: usize,
        x: &Buffer<bf16>,
        rows: &Rows<CudaDevice>,
        residual: &Buffer<bf16>,
    ) -> Result<ExpertParams, DeviceError> {
        let entries = rows.count * picks;
        let Layout { inputs: hidden, outputs: width, .. } = experts.gate.layout;
        Ok(ExpertParams {
            gate: experts.gate.param(),
            up: experts.up.param(),
            down: experts.down.param(),
            x: x.first(rows.count * hidden),
            experts: routing.experts.first(entries),
            weights: routing.weights.first(entries),
            distinct: 0,
            lanes: rows.lane.first(rows.count),
            active: self.scratch(Place::Active, entries * width * size_of::<bf16>())?,
            outputs: self.scratch(Place::ExpertOutputs, entries * hidden * size_of::<bf16>())?,
            residual: residual.first(rows.count * hidden),
            order: self.scratch(Place::Order, entries * size_of::<i32>())?,
            starts: self.scratch(Place::Starts, (MOST_EXPERTS + 1) * size_of::<i32>())?,
            rule: PickRule {
                logits: 0,
                bias: 0,
                experts: experts.count as i32,
                picks: picks as i32,
                normalize: 0,
                scale: 1.0,
            },
            rows: rows.count as i32,
            grouped: 0,
            layout: FewLayout::default(),
        })
    }

    /// Kernels for some rows an expert; none where the shape is not one for them or a block has no room.
    fn some_plan(&self, experts: &Experts, rows: usize, picks: usize) -> Option<SomePlan> {
        let (gate, down) = (&experts.gate.layout, &experts.down.layout);
        let fits = |layout: &Layout| layout.inputs <= FEW_INPUTS && layout.inputs.is_multiple_of(64);
        if !(fits(gate) && fits(down)) {
            return None;
        }
        let chip = &self.driver.resources;
        let slots = (rows * picks).min(experts.count);
        let strips = |layout: &Layout| layout.outputs.div_ceil(STRIP);
        let together = Chip::strips_together(gate.format);
        let work = FewWork {
            format: gate.format,
            items: slots * strips(gate),
            at_most: rows > 1,
            pieces: 2 / together,
            together,
            stages: chip.expert_stages(gate.format),
            rows: 0,
            groups: 1,
        };
        let gate_up = few_rows_plan(chip, work, rows)?;
        let tasks = slots * down.inputs.div_ceil(CHUNK);
        if rows == 1 && tasks <= FEW_TASKS {
            let down = one_row_plan(chip, down.format, strips(down), tasks)?;
            return Some(SomePlan { gate_up, down, rows, by_eights: true, down_adds: true });
        }
        let down = chip.few_plan(FewWork {
            format: down.format,
            items: slots * strips(down).div_ceil(Chip::strips_together(down.format)),
            at_most: true,
            pieces: 1,
            together: Chip::strips_together(down.format),
            stages: chip.expert_stages(down.format),
            rows: 0,
            groups: 1,
        })?;
        let by_eights = rows <= 8 || rows * picks <= PASS_ENTRIES * experts.count;
        Some(SomePlan { gate_up, down, rows, by_eights, down_adds: false })
    }

    fn some_experts(
        &self,
        plan: &SomePlan,
        experts: &Experts,
        mut params: ExpertParams,
    ) -> Result<(), DeviceError> {
        let (gate, down) = (&experts.gate.layout, &experts.down.layout);
        let (grid, layout) = plan.gate_up;
        params.layout = layout;
        self.launch(some_gate_up(gate.format.index(), plan.by_eights), grid, &params)?;
        let (grid, layout) = plan.down;
        params.layout = layout;
        if plan.down_adds {
            let kernels = [Kernel::DownOneBf16, Kernel::DownOneAffine4, Kernel::DownOneAffine8];
            return self.launch(kernels[down.format.index()], grid, &params);
        }
        self.launch(some_down(down.format.index(), plan.by_eights), grid, &params)?;
        self.combine(down.outputs, plan.rows, &params)
    }

    fn many_experts(&self, experts: &Experts, params: &ExpertParams) -> Result<(), DeviceError> {
        let (gate, down) = (&experts.gate.layout, &experts.down.layout);
        let (gate_up_kernel, down_kernel) = many_kernels((gate.format.index(), down.format.index()));
        let strips = |layout: &Layout| layout.outputs.div_ceil(STRIP);
        let is_roomy = self.driver.resources.is_roomy;
        // A warp has a strip of gate and the same of up.
        let grid = Grid::new(strips(gate).div_ceil(MANY_WARPS), experts.count, MANY_THREADS);
        self.launch(gate_up_kernel, grid.with_shared(many_shared(gate.format, is_roomy)), params)?;
        let grid = Grid::new(strips(down).div_ceil(MANY_BLOCK_STRIPS), experts.count, MANY_THREADS);
        self.launch(down_kernel, grid.with_shared(many_shared(down.format, is_roomy)), params)?;
        self.combine(down.outputs, params.rows as usize, params)
    }

    fn combine(&self, hidden: usize, rows: usize, params: &ExpertParams) -> Result<(), DeviceError> {
        self.launch(Kernel::CombineExperts, Grid::new(hidden.div_ceil(THREADS), rows, THREADS), params)
    }
}

/// How kernels for some rows an expert are launched.
struct SomePlan {
    gate_up: (Grid, FewLayout),
    down: (Grid, FewLayout),
    rows: usize,
    /// Whether an expert's entries are multiplied 8 at a time rather than 16.
    by_eights: bool,
    /// Whether down's kernel adds the picks to the residual by itself.
    down_adds: bool,
}

/// Few rows' kernel for gate and up: its blocks keep the rows where no fewer of them fit then.
fn few_rows_plan(chip: &Chip, work: FewWork, rows: usize) -> Option<(Grid, FewLayout)> {
    let reading = chip.few_plan(work);
    let keeping = if rows <= KEPT_ROWS { chip.few_plan(FewWork { rows, ..work }) } else { None };
    let blocks = |plan: &Option<(Grid, FewLayout)>| plan.as_ref().map_or(0, |(grid, _)| grid.blocks[0]);
    if blocks(&keeping) >= blocks(&reading) { keeping } else { reading }
}

/// One row's kernel for down: as many warps as there are tasks and a block has room for.
fn one_row_plan(chip: &Chip, format: Format, strips: usize, tasks: usize) -> Option<(Grid, FewLayout)> {
    let work = FewWork {
        format,
        items: strips,
        at_most: false,
        pieces: 1,
        together: 1,
        stages: 1,
        rows: 1,
        groups: 1,
    };
    let (mut grid, layout) = chip.few_plan(work)?;
    // `TASK_WARPS` of `experts.cuh`.
    let groups = (tasks.div_ceil(WARPS).min(3)).min(chip.room_of_block() / grid.shared).max(1);
    grid.blocks[0] = strips;
    grid.threads *= groups;
    grid.shared *= groups;
    Some((grid, layout))
}

/// Whether kernels can pick and sort by themselves for so many rows and picks.
fn is_few(rows: usize, picks: usize) -> bool {
    (1..=FEW_ROWS).contains(&rows) && rows * picks <= FEW_ENTRIES
}

fn some_gate_up(format: usize, by_eights: bool) -> Kernel {
    let kernels = match by_eights {
        true => [Kernel::GateUpSome1Bf16, Kernel::GateUpSome1Affine4, Kernel::GateUpSome1Affine8],
        false => [Kernel::GateUpSome2Bf16, Kernel::GateUpSome2Affine4, Kernel::GateUpSome2Affine8],
    };
    kernels[format]
}

fn some_down(format: usize, by_eights: bool) -> Kernel {
    let kernels = match by_eights {
        true => [Kernel::DownSome1Bf16, Kernel::DownSome1Affine4, Kernel::DownSome1Affine8],
        false => [Kernel::DownSome2Bf16, Kernel::DownSome2Affine4, Kernel::DownSome2Affine8],
    };
    kernels[format]
}

fn many_kernels((gate_up, down): (usize, usize)) -> (Kernel, Kernel) {
    (
        [Kernel::GateUpManyBf16, Kernel::GateUpManyAffine4, Kernel::GateUpManyAffine8][gate_up],
        [Kernel::DownManyBf16, Kernel::DownManyAffine4, Kernel::DownManyAffine8][down],
    )
}
