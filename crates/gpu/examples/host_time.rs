//! The host's time for a round with as many operations as one of the 24B shape, over small matrices:
//! `[PART OF THE ADAPTER'S NAME]`. What the adapter computes meanwhile is not the point.

use std::time::Instant;

use forerunner_gpu::{Buffer, Experts, GpuDevice, GpuOptions, Matrix};
use forerunner_tensor::{
    ConvRing, Device, DeviceError, DrawRow, DrawTables, ExpertWeights, HeadNorms, HeadShape, HostMatrix,
    KeyValuePages, MatrixValues, PageTable, ReadBackPart, RopeTable, RoundKey, RouteRule, Routing, Rows,
    bf16,
};

/// Layers of the 24B shape, and which of them attend; the first two are dense.
const LAYERS: usize = 40;
const DENSE: usize = 2;
const EXPERTS: usize = 4;
const PICKS: usize = 4;
const WIDTH: usize = 128;
const VOCABULARY: usize = 256;
const ROUNDS: usize = 60;
const SHAPE: HeadShape = HeadShape { query_heads: 2, key_value_heads: 1, head_dim: 64 };

fn attends(layer: usize) -> bool {
    layer % 4 == 2
}

/// Weights and buffers that all layers share.
struct Model {
    square: Matrix,
    wide: Matrix,
    stacked: Matrix,
    gate_up: Matrix,
    router: Matrix,
    head: Matrix,
    experts: Experts,
    norm: Buffer<bf16>,
    head_norms: HeadNorms<GpuDevice>,
    conv: Buffer<bf16>,
    bias: Buffer<f32>,
    rope: RopeTable<GpuDevice>,
    table: PageTable<GpuDevice>,
    tables: DrawTables<GpuDevice>,
    rules: Buffer<DrawRow>,
}

/// What a round writes.
struct State {
    rows: Rows<GpuDevice>,
    hidden: Buffer<bf16>,
    normed: Buffer<bf16>,
    mixed: Buffer<bf16>,
    projected: Buffer<bf16>,
    logits: Buffer<f32>,
    drawn: Buffer<i32>,
    routing: Routing<GpuDevice>,
    pages: KeyValuePages<GpuDevice>,
    ring: ConvRing<GpuDevice>,
}

fn main() -> Result<(), DeviceError> {
    let adapter = std::env::args().nth(1);
    let device = GpuDevice::new(&GpuOptions { adapter, ..GpuOptions::default() })?;
    println!("{}", device.adapter());
    let model = Model::new(&device)?;
    for count in [1, 9] {
        let mut state = State::new(&device, count)?;
        let mut host = Vec::with_capacity(ROUNDS);
        let mut whole = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let read_back = round(&device, &model, &mut state)?;
            host.push(start.elapsed().as_secs_f64() * 1e6);
            let mut words = vec![0; count];
            device.wait(read_back, &mut words)?;
            whole.push(start.elapsed().as_secs_f64() * 1e6);
        }
        host.sort_by(f64::total_cmp);
        whole.sort_by(f64::total_cmp);
        println!(
            "{count} rows, {} operations: {:.0} us of the host in the middle, {:.0} at best; {:.0} us a round",
            operations(),
            host[ROUNDS / 2],
            host[0],
            whole[ROUNDS / 2],
        );
    }
    Ok(())
}

/// Calls of the device in a round.
fn operations() -> usize {
    let attending = (0..LAYERS).filter(|layer| attends(*layer)).count();
    LAYERS * 5 + attending * 2 + 4
}

fn round(
    device: &GpuDevice,
    model: &Model,
    state: &mut State,
) -> Result<<GpuDevice as Device>::ReadBack, DeviceError> {
    let count = state.rows.count;
    let ids: Vec<i32> = (0..count as i32).collect();
    for _ in 0..3 {
        // As many uploads as the engine makes.
        device.upload(&mut state.rows.token, 0, &ids);
        device.upload(&mut state.rows.position, 0, &ids);
        device.upload(&mut state.rows.key_end, 0, &ids.iter().map(|id| id + 1).collect::<Vec<_>>());
    }
    let key = RoundKey { rows: count, draws: count, plain_greedy: true, ..RoundKey::default() };
    device.round(key, &mut || {
        device.embed(&model.square, &state.rows, &mut state.hidden);
        (0..LAYERS).for_each(|layer| run_layer(device, model, state, layer));
        device.rms_norm(&state.hidden, &model.norm, 1e-5, count, WIDTH, &mut state.normed);
        device.logits(&model.head, &state.normed, count, &mut state.logits);
        let State { rows, logits, drawn, .. } = state;
        device.draw(logits, &model.rules, rows, &model.tables, count, drawn);
        Ok(())
    })?;
    Ok(device.queue_read_back(&[ReadBackPart::I32(&state.drawn, count)]))
}

fn run_layer(device: &GpuDevice, model: &Model, state: &mut State, layer: usize) {
    let State { rows, hidden, normed, mixed, projected, routing, pages, ring, .. } = state;
    let count = rows.count;
    device.rms_norm(hidden, &model.norm, 1e-5, count, WIDTH, normed);
    if attends(layer) {
        device.linear(&model.stacked, normed, count, projected);
        device.rope_append(projected, SHAPE, &model.head_norms, &model.rope, rows, &model.table, pages);
        device.attention(projected, SHAPE, rows, &model.table, pages, mixed);
    } else {
        device.project_short_conv(&model.wide, normed, &model.conv, WIDTH, rows, ring, projected, mixed);
    }
    device.linear_add(&model.square, mixed, count, hidden);
    device.rms_norm(hidden, &model.norm, 1e-5, count, WIDTH, normed);
    if layer < DENSE {
        device.feed_forward(&model.gate_up, &model.square, normed, count, hidden);
        return;
    }
    let rule = RouteRule { picks: PICKS, normalize: true, scale: 1.0 };
    let Model { router, bias, experts, .. } = model;
    device.mixture(router, bias, rule, experts, normed, rows, layer, routing, hidden);
}

fn matrix(rows: usize) -> HostMatrix<'static> {
    let values = (0..rows * WIDTH).map(|index| bf16::from_f32((index % 13) as f32 * 0.01 - 0.06)).collect();
    HostMatrix { rows, columns: WIDTH, values: MatrixValues::Bf16(values) }
}

impl Model {
    fn new(device: &GpuDevice) -> Result<Self, DeviceError> {
        let load = |rows| device.load_matrix(&[matrix(rows)]);
        let ones = |len: usize| -> Result<Buffer<bf16>, DeviceError> {
            let mut buffer = device.allocate(len)?;
            device.upload(&mut buffer, 0, &vec![bf16::ONE; len]);
            Ok(buffer)
        };
        let mut rules = device.allocate(16)?;
        device.upload(&mut rules, 0, &[DrawRow { lane: 0, ..DrawRow::default() }; 16]);
        let expert = |_| ExpertWeights { gate: matrix(WIDTH), up: matrix(WIDTH), down: matrix(WIDTH) };
        Ok(Model {
            square: load(WIDTH)?,
            wide: load(3 * WIDTH)?,
            stacked: load(SHAPE.stacked_width())?,
            gate_up: load(2 * WIDTH)?,
            router: load(EXPERTS)?,
            head: load(VOCABULARY)?,
            experts: device.load_experts(&mut (0..EXPERTS).map(expert))?,
            norm: ones(WIDTH)?,
            head_norms: HeadNorms { query: ones(64)?, key: ones(64)?, epsilon: 1e-5 },
            conv: ones(3 * WIDTH)?,
            bias: device.allocate(EXPERTS)?,
            rope: RopeTable::new(device, 1e6, 64, 64)?,
            table: PageTable { pages_per_lane: 1, pages: device.allocate(1)? },
            tables: DrawTables {
                vocabulary: VOCABULARY,
                counts: device.allocate(VOCABULARY)?,
                logit_bias: device.allocate(VOCABULARY)?,
                masks: device.allocate(VOCABULARY / 32)?,
            },
            rules,
        })
    }
}

impl State {
    fn new(device: &GpuDevice, count: usize) -> Result<Self, DeviceError> {
        let mut rows = Rows::new(device, count)?;
        rows.count = count;
        Ok(State {
            rows,
            hidden: device.allocate(count * WIDTH)?,
            normed: device.allocate(count * WIDTH)?,
            mixed: device.allocate(count * WIDTH)?,
            projected: device.allocate(count * 3 * WIDTH)?,
            logits: device.allocate(count * VOCABULARY)?,
            drawn: device.allocate(count)?,
            routing: Routing {
                experts: device.allocate(count * PICKS)?,
                weights: device.allocate(count * PICKS)?,
                distinct: device.allocate(LAYERS)?,
            },
            pages: KeyValuePages { keys: device.allocate(256 * 64)?, values: device.allocate(256 * 64)? },
            ring: ConvRing { gated: device.allocate(64 * WIDTH)? },
        })
    }
}
