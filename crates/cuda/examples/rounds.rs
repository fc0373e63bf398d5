//! Rounds at the shape of LFM2.5-24B-A2B over random weights: their time beside the bytes that they touch.
//!
//! `rounds bf16|4bit [ROWS,...|all] [KERNELS.cubin] [--no-overlap] [--no-record]`: rounds of so many rows, or all of them,
//! with prompts. Every line is measured beside the bandwidth of the same run.

use std::time::Instant;

use forerunner_cuda::{CudaDevice, CudaOptions, Experts, Matrix};
use forerunner_tensor::{
    AffineValues, CONV_RING, ConvRing, Device, DeviceError, DrawRow, DrawTables, ExpertWeights, HeadNorms,
    HeadShape, HostMatrix, KeyValuePages, MatrixValues, PAGE, PageTable, ReadBackPart, RopeTable, RoundKey,
    RouteRule, Routing, Rows, Scales, bf16,
};

const HIDDEN: usize = 2048;
const VOCABULARY: usize = 128_000;
const LAYERS: usize = 40;
const DENSE_LAYERS: usize = 2;
const DENSE: usize = 11_776;
const EXPERTS: usize = 64;
const EXPERT: usize = 1536;
const PICKS: usize = 4;
const SHAPE: HeadShape = HeadShape { query_heads: 32, key_value_heads: 8, head_dim: 64 };
const LANES: usize = 256;
const CONTEXT: usize = 8192 + 512;
const MOST_ROWS: usize = 2048;

type Buf<T> = <CudaDevice as Device>::Buffer<T>;

/// Rounds that are timed: how many rows, of how many lanes, after how many tokens.
const ROUNDS: [(usize, usize, usize); 14] = [
    (1, 1, 512),
    (2, 1, 512),
    (4, 1, 512),
    (8, 1, 512),
    (10, 1, 512),
    (16, 1, 512),
    (4, 4, 512),
    (16, 16, 512),
    (64, 64, 640),
    (256, 256, 640),
    (256, 1, 4096),
    (512, 1, 4096),
    (1024, 1, 4096),
    (2048, 1, 4096),
];

fn main() -> Result<(), DeviceError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let format = match arguments.first().map(String::as_str) {
        Some("bf16") => Stored::Bf16,
        Some("4bit") => Stored::Affine4,
        _ => panic!("the first argument is bf16 or 4bit"),
    };
    let chosen: Vec<usize> = match arguments.get(1).map(String::as_str) {
        None | Some("all") => Vec::new(),
        Some(list) => list.split(',').map(|rows| rows.parse().expect("numbers of rows")).collect(),
    };
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let path = arguments.get(2).filter(|path| path.ends_with(".cubin"));
    let image = path.map(|path| &*std::fs::read(path).expect("kernels").leak());
    let (overlap, record) = (!flag("--no-overlap"), !flag("--no-record"));
    let device = CudaDevice::new(CudaOptions { image, overlap, record, ..CudaOptions::default() })?;
    let [read, copied] = device.bandwidth(4 << 30)?;
    println!("{}: reads {:.0} GB/s, copies {:.0} GB/s", device.chip(), read / 1e9, copied / 1e9);
    let mut model = Model::new(&device, format)?;
    println!(
        "{:.2} GiB allocated at most",
        device.memory().map_or(0, |memory| memory.most()) as f64 / f64::from(1 << 30)
    );
    for (rows, lanes, context) in ROUNDS {
        if chosen.is_empty() || chosen.contains(&rows) {
            model.time(&device, rows, lanes, context, read)?;
        }
    }
    if !chosen.is_empty() {
        return Ok(());
    }
    model.prompt(&device, 8192, 512)?;
    model.prompt(&device, 8192, 2048)
}

#[derive(Clone, Copy, PartialEq)]
enum Stored {
    Bf16,
    Affine4,
}

/// Random bits that every matrix takes its values from.
struct Pool {
    dense: Vec<bf16>,
    words: Vec<u32>,
    scales: Vec<bf16>,
    biases: Vec<bf16>,
    stored: Stored,
}

impl Pool {
    fn new(stored: Stored) -> Self {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let most = VOCABULARY * HIDDEN;
        let dense = (0..most).map(|_| bf16::from_f32((random() % 255) as f32 / 127.0 - 1.0)).collect();
        let words = (0..most / 8).map(|_| random() << 7 ^ random()).collect();
        let scale = |_| bf16::from_f32(2.0 / 15.0 / 32.0);
        Pool {
            dense,
            words,
            scales: (0..most / 64).map(scale).collect(),
            biases: (0..most / 64).map(|_| bf16::from_f32(-1.0 / 32.0)).collect(),
            stored,
        }
    }

    fn matrix(&self, rows: usize, columns: usize, offset: usize) -> HostMatrix<'_> {
        let start = offset * 4096 % (VOCABULARY * HIDDEN - rows * columns + 1) / 4096 * 4096;
        let span = |per: usize| start / per..(start + rows * columns) / per;
        let values = match self.stored {
            Stored::Bf16 => MatrixValues::Bf16((&self.dense[span(1)]).into()),
            Stored::Affine4 => MatrixValues::Affine(AffineValues {
                bits: 4,
                group_size: 64,
                words: (&self.words[span(8)]).into(),
                scales: Scales::Bf16((&self.scales[span(64)]).into()),
                biases: Scales::Bf16((&self.biases[span(64)]).into()),
            }),
        };
        HostMatrix { rows, columns, values }
    }
}

enum Operator {
    Attention { stacked: Matrix, norms: HeadNorms<CudaDevice>, pages: KeyValuePages<CudaDevice> },
    Conv { input: Matrix, kernel: Buf<bf16>, ring: ConvRing<CudaDevice> },
}

enum FeedForward {
    Dense { gate_up: Matrix, down: Matrix },
    Experts { router: Matrix, experts: Experts },
}

struct Layer {
    operator: Operator,
    output: Matrix,
    feed_forward: FeedForward,
}

/// One lane has the whole context, the others three pages each.
const PAGES_PER_LANE: usize = CONTEXT.div_ceil(PAGE);
const PAGES: usize = PAGES_PER_LANE + 3 * LANES;

fn page_table(device: &CudaDevice) -> Result<PageTable<CudaDevice>, DeviceError> {
    let mut table =
        PageTable { pages_per_lane: PAGES_PER_LANE, pages: device.allocate(LANES * PAGES_PER_LANE)? };
    for lane in 0..LANES {
        let page = |page| if lane == 0 { page } else { PAGES_PER_LANE + 3 * lane + page % 3 };
        let of_lane: Vec<i32> = (0..PAGES_PER_LANE).map(|index| page(index) as i32).collect();
        device.upload(&mut table.pages, lane * PAGES_PER_LANE, &of_lane);
    }
    Ok(table)
}

/// Weights that every row reads.
fn dense_weights() -> usize {
    let conv = LAYERS - LAYERS / 4;
    VOCABULARY * HIDDEN
        + LAYERS * HIDDEN * HIDDEN
        + conv * 3 * HIDDEN * HIDDEN
        + LAYERS / 4 * SHAPE.stacked_width() * HIDDEN
        + DENSE_LAYERS * 3 * DENSE * HIDDEN
        + (LAYERS - DENSE_LAYERS) * EXPERTS * HIDDEN
}

fn filled(device: &CudaDevice, len: usize, value: f32) -> Result<Buf<bf16>, DeviceError> {
    let mut buffer = device.allocate(len)?;
    device.upload(&mut buffer, 0, &vec![bf16::from_f32(value); len]);
    Ok(buffer)
}

impl Operator {
    fn new(device: &CudaDevice, pool: &Pool, index: usize) -> Result<Self, DeviceError> {
        let load = |rows, columns| device.load_matrix(&[pool.matrix(rows, columns, index * 97)]);
        if index % 4 != 2 {
            return Ok(Operator::Conv {
                input: load(3 * HIDDEN, HIDDEN)?,
                kernel: filled(device, 3 * HIDDEN, 0.5)?,
                ring: ConvRing { gated: device.allocate(LANES * CONV_RING * HIDDEN)? },
            });
        }
        let page = PAGES * SHAPE.key_value_heads * PAGE * SHAPE.head_dim;
        Ok(Operator::Attention {
            stacked: load(SHAPE.stacked_width(), HIDDEN)?,
            norms: HeadNorms {
                query: filled(device, 64, 1.0)?,
                key: filled(device, 64, 1.0)?,
                epsilon: 1e-5,
            },
            pages: KeyValuePages { keys: device.allocate(page)?, values: device.allocate(page)? },
        })
    }
}

impl Layer {
    fn new(device: &CudaDevice, pool: &Pool, index: usize) -> Result<Self, DeviceError> {
        let seed = index * 97;
        let load = |rows, columns, offset| device.load_matrix(&[pool.matrix(rows, columns, seed + offset)]);
        let feed_forward = if index < DENSE_LAYERS {
            let gate_up = [pool.matrix(DENSE, HIDDEN, seed + 1), pool.matrix(DENSE, HIDDEN, seed + 2)];
            FeedForward::Dense { gate_up: device.load_matrix(&gate_up)?, down: load(HIDDEN, DENSE, 3)? }
        } else {
            let mut experts = (0..EXPERTS).map(|expert| ExpertWeights {
                gate: pool.matrix(EXPERT, HIDDEN, seed + 3 * expert),
                up: pool.matrix(EXPERT, HIDDEN, seed + 3 * expert + 1),
                down: pool.matrix(HIDDEN, EXPERT, seed + 3 * expert + 2),
            });
            FeedForward::Experts {
                router: load(EXPERTS, HIDDEN, 5)?,
                experts: device.load_experts(&mut experts)?,
            }
        };
        let operator = Operator::new(device, pool, index)?;
        Ok(Layer { operator, output: load(HIDDEN, HIDDEN, 4)?, feed_forward })
    }
}

struct Model {
    embedding: Matrix,
    layers: Vec<Layer>,
    ones: Buf<bf16>,
    zeros: Buf<f32>,
    rope: RopeTable<CudaDevice>,
    table: PageTable<CudaDevice>,
    rows: Rows<CudaDevice>,
    hidden: Buf<bf16>,
    normed: Buf<bf16>,
    projected: Buf<bf16>,
    mixed: Buf<bf16>,
    routing: Routing<CudaDevice>,
    draw_index: Buf<i32>,
    gathered: Buf<bf16>,
    logits: Buf<f32>,
    rules: Buf<DrawRow>,
    tables: DrawTables<CudaDevice>,
    drawn: Buf<i32>,
    bytes_of_all: usize,
    bytes_of_expert: usize,
}

impl Model {
    fn new(device: &CudaDevice, stored: Stored) -> Result<Self, DeviceError> {
        let pool = Pool::new(stored);
        let start = Instant::now();
        let layers = (0..LAYERS).map(|index| Layer::new(device, &pool, index));
        let layers = layers.collect::<Result<_, DeviceError>>()?;
        println!("loaded in {:.1} s", start.elapsed().as_secs_f64());
        let per_weight = if stored == Stored::Bf16 { 2.0 } else { 0.5625 };
        Ok(Model {
            embedding: device.load_matrix(&[pool.matrix(VOCABULARY, HIDDEN, 0)])?,
            layers,
            ones: filled(device, HIDDEN, 1.0)?,
            zeros: device.allocate(EXPERTS)?,
            rope: RopeTable::new(device, 1e6, 64, CONTEXT)?,
            table: page_table(device)?,
            rows: Rows::new(device, MOST_ROWS)?,
            hidden: device.allocate(MOST_ROWS * HIDDEN)?,
            normed: device.allocate(MOST_ROWS * HIDDEN)?,
            projected: device.allocate(MOST_ROWS * 3 * HIDDEN)?,
            mixed: device.allocate(MOST_ROWS * HIDDEN)?,
            routing: Routing {
                experts: device.allocate(MOST_ROWS * PICKS)?,
                weights: device.allocate(MOST_ROWS * PICKS)?,
                distinct: device.allocate(LAYERS)?,
            },
            draw_index: device.allocate(LANES)?,
            gathered: device.allocate(LANES * HIDDEN)?,
            logits: device.allocate(LANES * VOCABULARY)?,
            rules: device.allocate(LANES)?,
            tables: DrawTables {
                vocabulary: VOCABULARY,
                counts: device.allocate(1)?,
                logit_bias: device.allocate(1)?,
                masks: device.allocate(1)?,
            },
            drawn: device.allocate(LANES)?,
            bytes_of_all: (dense_weights() as f64 * per_weight) as usize,
            bytes_of_expert: (3.0 * (EXPERT * HIDDEN) as f64 * per_weight) as usize,
        })
    }

    /// Queues one round and returns the distinct experts of all layers.
    fn round(&mut self, device: &CudaDevice, plan: &Plan) -> Result<usize, DeviceError> {
        let count = plan.tokens.len();
        self.rows.count = count;
        device.upload(&mut self.rows.token, 0, &plan.tokens);
        device.upload(&mut self.rows.lane, 0, &plan.lanes);
        device.upload(&mut self.rows.position, 0, &plan.positions);
        device.upload(&mut self.rows.key_end, 0, &plan.key_ends);
        let draws: Vec<i32> = (0..count.min(LANES)).map(|row| (count - 1 - row) as i32).collect();
        let draws = if plan.draws { draws } else { vec![] };
        device.upload(&mut self.draw_index, 0, &draws);
        device.upload(&mut self.rules, 0, &vec![DrawRow { lane: 0, ..DrawRow::default() }; draws.len()]);
        let key = RoundKey { rows: count, draws: draws.len(), ..RoundKey::default() };
        device.round(key, &mut || {
            self.forward(device);
            if !draws.is_empty() {
                self.head(device, draws.len());
            }
            Ok(())
        })?;
        let mut words = vec![0; draws.len() + LAYERS];
        let read_back = device.queue_read_back(&[
            ReadBackPart::I32(&self.drawn, draws.len()),
            ReadBackPart::I32(&self.routing.distinct, LAYERS),
        ]);
        device.wait(read_back, &mut words)?;
        Ok(words[draws.len()..].iter().map(|count| *count as usize).sum())
    }

    fn forward(&mut self, device: &CudaDevice) {
        let Model { rows, hidden, normed, projected, mixed, routing, ones, zeros, .. } = self;
        let count = rows.count;
        device.embed(&self.embedding, rows, hidden);
        for (index, layer) in self.layers.iter_mut().enumerate() {
            device.rms_norm(hidden, ones, 1e-5, count, HIDDEN, normed);
            match &mut layer.operator {
                Operator::Attention { stacked, norms, pages } => {
                    device.linear(stacked, normed, count, projected);
                    device.rope_append(projected, SHAPE, norms, &self.rope, rows, &self.table, pages);
                    device.attention(projected, SHAPE, rows, &self.table, pages, mixed);
                }
                Operator::Conv { input, kernel, ring } => {
                    device.project_short_conv(input, normed, kernel, HIDDEN, rows, ring, projected, mixed);
                }
            }
            device.linear_add(&layer.output, mixed, count, hidden);
            device.rms_norm(hidden, ones, 1e-5, count, HIDDEN, normed);
            match &layer.feed_forward {
                FeedForward::Dense { gate_up, down } => {
                    device.feed_forward(gate_up, down, normed, count, hidden);
                }
                FeedForward::Experts { router, experts } => {
                    let rule = RouteRule { picks: PICKS, normalize: true, scale: 1.0 };
                    device.mixture(router, zeros, rule, experts, normed, rows, index, routing, hidden);
                }
            }
        }
    }

    fn head(&mut self, device: &CudaDevice, draws: usize) {
        device.gather_rows(&self.hidden, &self.draw_index, draws, HIDDEN, &mut self.gathered);
        device.rms_norm(&self.gathered, &self.ones, 1e-5, draws, HIDDEN, &mut self.normed);
        device.logits(&self.embedding, &self.normed, draws, &mut self.logits);
        device.draw(&self.logits, &self.rules, &self.rows, &self.tables, draws, &mut self.drawn);
    }

    fn time(
        &mut self,
        device: &CudaDevice,
        rows: usize,
        lanes: usize,
        context: usize,
        read: f64,
    ) -> Result<(), DeviceError> {
        let (mut times, mut distinct) = (Vec::new(), 0);
        for round in 0..24 {
            let plan = Plan::new(rows, lanes, context, round, rows <= LANES);
            let start = Instant::now();
            let touched = self.round(device, &plan)?;
            if round >= 4 {
                times.push(start.elapsed().as_secs_f64());
                distinct += touched;
            }
        }
        times.sort_by(f64::total_cmp);
        let time = times[times.len() / 2];
        let distinct = distinct as f64 / times.len() as f64;
        let cache = lanes * context * 10 * 2 * SHAPE.key_value_heads * SHAPE.head_dim * 2;
        let bytes = self.bytes_of_all as f64 + distinct * self.bytes_of_expert as f64 + cache as f64;
        let floor = bytes / read;
        println!(
            "{rows} rows of {lanes} lanes at {context}: {:.3} ms, {:.0} rows/s, {:.1} experts a layer, floor {:.3} ms, {:.0}%",
            time * 1e3,
            rows as f64 / time,
            distinct / (LAYERS - DENSE_LAYERS) as f64,
            floor * 1e3,
            100.0 * floor / time
        );
        Ok(())
    }

    /// A cold prompt in chunks.
    fn prompt(&mut self, device: &CudaDevice, tokens: usize, chunk: usize) -> Result<(), DeviceError> {
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let start = Instant::now();
            for first in (0..tokens).step_by(chunk) {
                let plan = Plan::new(chunk, 1, first, first, false);
                self.round(device, &plan)?;
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "prompt of {tokens} in chunks of {chunk}: {:.0} ms, {:.0} rows/s",
            best * 1e3,
            tokens as f64 / best
        );
        Ok(())
    }
}

/// The rows of a round.
struct Plan {
    tokens: Vec<i32>,
    lanes: Vec<i32>,
    positions: Vec<i32>,
    key_ends: Vec<i32>,
    draws: bool,
}

impl Plan {
    fn new(rows: usize, lanes: usize, context: usize, round: usize, draws: bool) -> Self {
        let of_lane = rows / lanes;
        let position = |row: usize| (context + row % of_lane) as i32;
        Plan {
            tokens: (0..rows).map(|row| ((round * 7919 + row * 104_729) % VOCABULARY) as i32).collect(),
            lanes: (0..rows).map(|row| (row / of_lane) as i32).collect(),
            positions: (0..rows).map(position).collect(),
            key_ends: (0..rows).map(|row| position(row) + 1).collect(),
            draws,
        }
    }
}
