//! Times each operation of a layer at the widths of the 24B-A2B shape, with random 4-bit weights:
//! `[small] [PART OF THE ADAPTER'S NAME]`. Copies of the weights are read in turn, so that no cache holds them; `small`
//! is for software, whose times are not the point.

use std::time::Instant;

use forerunner_gpu::{Buffer, Experts, GpuDevice, GpuOptions, Matrix};
use forerunner_tensor::{
    AffineValues, ConvRing, Device, DeviceError, ExpertWeights, HeadNorms, HeadShape, HostMatrix,
    KeyValuePages, MatrixValues, PAGE, PageTable, ReadBackPart, RopeTable, RouteRule, Routing, Rows, Scales,
    bf16,
};

/// What a run is of.
struct Sizes {
    hidden: usize,
    width: usize,
    experts: usize,
    vocabulary: usize,
    shape: HeadShape,
    /// Of a matrix, and of a layer's experts.
    copies: [usize; 2],
    /// Of an operation in one list.
    repeats: usize,
    rows: &'static [usize],
}

const FULL: Sizes = Sizes {
    hidden: 2048,
    width: 1536,
    experts: 64,
    vocabulary: 65_536,
    shape: HeadShape { query_heads: 32, key_value_heads: 8, head_dim: 64 },
    copies: [12, 4],
    repeats: 50,
    rows: &[1, 10, 64, 512],
};

const SMALL: Sizes = Sizes {
    hidden: 256,
    width: 192,
    experts: 8,
    vocabulary: 512,
    shape: HeadShape { query_heads: 4, key_value_heads: 1, head_dim: 64 },
    copies: [2, 2],
    repeats: 4,
    rows: &[1, 10, 64],
};

const PICKS: usize = 4;
const GROUP: usize = 64;
/// Keys before the first row's.
const CONTEXT: usize = 128;

struct Model {
    into_conv: Vec<Matrix>,
    stacked: Vec<Matrix>,
    out: Vec<Matrix>,
    router: Vec<Matrix>,
    experts: Vec<Experts>,
    head: Matrix,
    norm: Buffer<bf16>,
    conv: Buffer<bf16>,
    bias: Buffer<f32>,
    head_norms: HeadNorms<GpuDevice>,
    rope: RopeTable<GpuDevice>,
    table: PageTable<GpuDevice>,
}

struct State {
    rows: Rows<GpuDevice>,
    x: Buffer<bf16>,
    projected: Buffer<bf16>,
    mixed: Buffer<bf16>,
    residual: Buffer<bf16>,
    logits: Buffer<f32>,
    routing: Routing<GpuDevice>,
    pages: KeyValuePages<GpuDevice>,
    ring: ConvRing<GpuDevice>,
}

/// Queues an operation once, with the copy of its weights of this number.
type Queue = fn(&GpuDevice, &Sizes, &Model, &mut State, usize);
/// Weights that it reads, when so many experts are picked.
type Weights = fn(&Sizes, usize) -> usize;

const RULE: RouteRule = RouteRule { picks: PICKS, normalize: true, scale: 1.0 };

const OPERATIONS: &[(&str, Weights, Queue)] = &[
    (
        "rms_norm",
        |_, _| 0,
        |device, sizes, model, state, _| {
            let (count, width) = (state.rows.count, sizes.hidden);
            device.rms_norm(&state.x, &model.norm, 1e-5, count, width, &mut state.mixed);
        },
    ),
    (
        "linear into conv",
        |sizes, _| 3 * sizes.hidden * sizes.hidden,
        |device, _, model, state, copy| {
            let matrix = of(&model.into_conv, copy);
            device.linear(matrix, &state.x, state.rows.count, &mut state.projected);
        },
    ),
    (
        "short_conv",
        |_, _| 0,
        |device, sizes, model, state, _| {
            let State { rows, projected, ring, mixed, .. } = state;
            device.short_conv(projected, &model.conv, sizes.hidden, rows, ring, mixed);
        },
    ),
    (
        "norm, project_short_conv",
        |sizes, _| 3 * sizes.hidden * sizes.hidden,
        |device, sizes, model, state, copy| {
            norm_residual(device, sizes, model, state);
            let State { rows, x, projected, ring, mixed, .. } = state;
            let matrix = of(&model.into_conv, copy);
            device.project_short_conv(matrix, x, &model.conv, sizes.hidden, rows, ring, projected, mixed);
        },
    ),
    (
        "linear stacked",
        |sizes, _| sizes.shape.stacked_width() * sizes.hidden,
        |device, _, model, state, copy| {
            let matrix = of(&model.stacked, copy);
            device.linear(matrix, &state.x, state.rows.count, &mut state.projected);
        },
    ),
    (
        "rope_append",
        |_, _| 0,
        |device, sizes, model, state, _| {
            let State { rows, projected, pages, .. } = state;
            let Model { head_norms, rope, table, .. } = model;
            device.rope_append(projected, sizes.shape, head_norms, rope, rows, table, pages);
        },
    ),
    (
        "attention",
        |_, _| 0,
        |device, sizes, model, state, _| {
            let State { rows, projected, pages, mixed, .. } = state;
            device.attention(projected, sizes.shape, rows, &model.table, pages, mixed);
        },
    ),
    (
        "linear_add out",
        |sizes, _| sizes.hidden * sizes.hidden,
        |device, _, model, state, copy| {
            device.linear_add(of(&model.out, copy), &state.x, state.rows.count, &mut state.residual);
        },
    ),
    (
        "route",
        |sizes, _| sizes.experts * sizes.hidden,
        |device, _, model, state, copy| {
            let State { rows, x, routing, .. } = state;
            device.route(of(&model.router, copy), &model.bias, RULE, x, rows, 0, routing);
        },
    ),
    (
        "expert_feed_forward",
        |sizes, experts| experts * 3 * sizes.width * sizes.hidden,
        |device, _, model, state, copy| {
            let State { rows, x, routing, residual, .. } = state;
            device.expert_feed_forward(of(&model.experts, copy), routing, PICKS, x, rows, residual);
        },
    ),
    (
        "norm, mixture",
        |sizes, experts| (experts * 3 * sizes.width + sizes.experts) * sizes.hidden,
        |device, sizes, model, state, copy| {
            norm_residual(device, sizes, model, state);
            let State { rows, x, routing, residual, .. } = state;
            let (router, experts) = (of(&model.router, copy), of(&model.experts, copy));
            device.mixture(router, &model.bias, RULE, experts, x, rows, 0, routing, residual);
        },
    ),
    (
        "logits",
        |sizes, _| sizes.vocabulary * sizes.hidden,
        |device, _, model, state, _| {
            device.logits(&model.head, &state.x, state.rows.count, &mut state.logits);
        },
    ),
];

/// As a layer has it before what reads `x`, which may do it on the way.
fn norm_residual(device: &GpuDevice, sizes: &Sizes, model: &Model, state: &mut State) {
    let (count, width) = (state.rows.count, sizes.hidden);
    device.rms_norm(&state.residual, &model.norm, 1e-5, count, width, &mut state.x);
}

fn of<T>(copies: &[T], copy: usize) -> &T {
    &copies[copy % copies.len()]
}

fn main() -> Result<(), DeviceError> {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_small = arguments.next_if(|argument| argument == "small").is_some();
    let sizes = if is_small { SMALL } else { FULL };
    let device = GpuDevice::new(&GpuOptions { adapter: arguments.next(), ..GpuOptions::default() })?;
    println!("{}", device.adapter());
    let model = Model::new(&device, &sizes)?;
    for count in sizes.rows {
        let mut state = State::new(&device, &sizes, *count)?;
        let mut distinct = [0; 1];
        for (name, weights, queue) in OPERATIONS {
            let seconds = time(&device, &mut state, sizes.repeats, |state, copy| {
                queue(&device, &sizes, &model, state, copy);
            })?;
            device.download(&state.routing.distinct, 0, &mut distinct)?;
            // 4 bits a weight, 4 bytes a group.
            let bytes = weights(&sizes, distinct[0] as usize) as f64 * (0.5 + 4.0 / GROUP as f64);
            let rate =
                if bytes > 0.0 { format!("{:8.1} GB/s", bytes / seconds / 1e9) } else { String::new() };
            println!("{count:4} rows  {name:24} {:10.2} us {rate}", seconds * 1e6);
        }
    }
    Ok(())
}

/// Seconds of one of `repeats` operations in a list, when pipelines are there.
fn time(
    device: &GpuDevice,
    state: &mut State,
    repeats: usize,
    queue: impl Fn(&mut State, usize),
) -> Result<f64, DeviceError> {
    let mut run = |repeats: usize| {
        let start = Instant::now();
        (0..repeats).for_each(|copy| queue(state, copy));
        let read_back = device.queue_read_back(&[ReadBackPart::I32(&state.routing.distinct, 1)]);
        device.wait(read_back, &mut [0])?;
        Ok(start.elapsed().as_secs_f64() / repeats as f64)
    };
    run(repeats.min(3))?;
    run(repeats)
}

/// Numbers that repeat late.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 32) as u32
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> HostMatrix<'static> {
        let groups = rows * columns / GROUP;
        let words: Vec<u32> = (0..rows * columns / 8).map(|_| self.word()).collect();
        let all = |value| Scales::Bf16(vec![bf16::from_f32(value); groups].into());
        let values = AffineValues {
            bits: 4,
            group_size: GROUP,
            words: words.into(),
            scales: all(0.01),
            biases: all(-0.075),
        };
        HostMatrix { rows, columns, values: MatrixValues::Affine(values) }
    }

    fn activations(&mut self, device: &GpuDevice, len: usize) -> Result<Buffer<bf16>, DeviceError> {
        let value = |_| bf16::from_f32(self.word() as f32 / u32::MAX as f32 - 0.5);
        let values: Vec<bf16> = (0..len).map(value).collect();
        let mut buffer = device.allocate(len)?;
        device.upload(&mut buffer, 0, &values);
        Ok(buffer)
    }
}

impl Model {
    fn new(device: &GpuDevice, sizes: &Sizes) -> Result<Self, DeviceError> {
        let Sizes { hidden, width, shape, .. } = *sizes;
        let mut random = Random(1);
        let mut copies = |rows: usize| -> Result<Vec<Matrix>, DeviceError> {
            (0..sizes.copies[0]).map(|_| device.load_matrix(&[random.matrix(rows, hidden)])).collect()
        };
        let (into_conv, stacked) = (copies(3 * hidden)?, copies(shape.stacked_width())?);
        let (out, router) = (copies(hidden)?, copies(sizes.experts)?);
        let mut layer = || {
            device.load_experts(&mut (0..sizes.experts).map(|_| ExpertWeights {
                gate: random.matrix(width, hidden),
                up: random.matrix(width, hidden),
                down: random.matrix(hidden, width),
            }))
        };
        let experts = (0..sizes.copies[1]).map(|_| layer()).collect::<Result<_, _>>()?;
        Ok(Model {
            into_conv,
            stacked,
            out,
            router,
            experts,
            head: device.load_matrix(&[random.matrix(sizes.vocabulary, hidden)])?,
            norm: random.activations(device, hidden)?,
            conv: random.activations(device, 3 * hidden)?,
            bias: device.allocate(sizes.experts)?,
            head_norms: HeadNorms {
                query: random.activations(device, shape.head_dim)?,
                key: random.activations(device, shape.head_dim)?,
                epsilon: 1e-5,
            },
            rope: RopeTable::new(device, 1e6, shape.head_dim, pages(sizes) * PAGE)?,
            table: PageTable { pages_per_lane: pages(sizes), pages: page_numbers(device, pages(sizes))? },
        })
    }
}

/// Pages of the one lane that all rows are of.
fn pages(sizes: &Sizes) -> usize {
    (CONTEXT + sizes.rows.iter().max().unwrap_or(&1)).div_ceil(PAGE)
}

fn page_numbers(device: &GpuDevice, count: usize) -> Result<Buffer<i32>, DeviceError> {
    let mut numbers = device.allocate(count)?;
    device.upload(&mut numbers, 0, &(0..count as i32).collect::<Vec<_>>());
    Ok(numbers)
}

impl State {
    fn new(device: &GpuDevice, sizes: &Sizes, count: usize) -> Result<Self, DeviceError> {
        let Sizes { hidden, shape, .. } = *sizes;
        let mut random = Random(2);
        let mut rows = Rows::new(device, count)?;
        rows.count = count;
        let positions: Vec<i32> = (CONTEXT..CONTEXT + count).map(|position| position as i32).collect();
        device.upload(&mut rows.lane, 0, &vec![0; count]);
        device.upload(&mut rows.position, 0, &positions);
        device.upload(&mut rows.key_end, 0, &positions.iter().map(|at| at + 1).collect::<Vec<_>>());
        let keys = pages(sizes) * PAGE * shape.key_value_heads * shape.head_dim;
        Ok(State {
            rows,
            x: random.activations(device, count * hidden)?,
            projected: random.activations(device, count * (3 * hidden).max(shape.stacked_width()))?,
            mixed: device.allocate(count * hidden)?,
            residual: random.activations(device, count * hidden)?,
            logits: device.allocate(count * sizes.vocabulary)?,
            routing: Routing {
                experts: device.allocate(count * PICKS)?,
                weights: device.allocate(count * PICKS)?,
                distinct: device.allocate(1)?,
            },
            pages: KeyValuePages {
                keys: random.activations(device, keys)?,
                values: random.activations(device, keys)?,
            },
            ring: ConvRing { gated: device.allocate(64 * hidden)? },
        })
    }
}
