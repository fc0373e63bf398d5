//! What the operations of a small model cost on one thread, at the shapes of the demo pair.
//!
//!     cargo run --release -p forerunner-cpu --example shapes [MODE]

use std::time::Instant;

use forerunner_cpu::{Buffer, CpuDevice, CpuOptions, Matrix, Mode};
use forerunner_tensor::{
    AffineValues, ConvRing, Device, DrawRow, DrawTables, ExpertWeights, HeadNorms, HeadShape, HostMatrix,
    KeyValuePages, MarkovHead, MatrixValues, PageTable, RopeTable, Routing, Rows, Scales, bf16,
};

const HIDDEN: usize = 256;
const EXPERTS: usize = 16;
const PICKS: usize = 4;
const EXPERT_WIDTH: usize = 128;
const VOCABULARY: usize = 8192;
const RANK: usize = 64;
const BLOCK: usize = 9;
const POSITIONS: usize = 512;
const HEADS: HeadShape = HeadShape { query_heads: 4, key_value_heads: 1, head_dim: 64 };

fn main() {
    let mode: Option<Mode> =
        std::env::args().nth(1).map(|text| text.parse().unwrap_or_else(|error| panic!("{error}")));
    let device = CpuDevice::new(CpuOptions { mode, threads: Some(1) }).expect("the device starts");
    println!("mode {}: microseconds of an operation on one thread", device.mode());
    let mut bench = Bench { device, random: Random(1) };
    bench.products();
    bench.experts();
    bench.small_operations();
    bench.chain();
}

struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// Between -1 and 1.
    fn value(&mut self) -> f32 {
        (self.word() % 20_001) as f32 * 1e-4 - 1.0
    }

    fn matrix(&mut self, rows: usize, columns: usize, bits: u32) -> HostMatrix<'static> {
        let values = if bits == 16 {
            MatrixValues::Bf16((0..rows * columns).map(|_| bf16::from_f32(0.1 * self.value())).collect())
        } else {
            let words = (0..rows * columns * bits as usize / 32).map(|_| self.word() ^ self.word() << 16);
            let words = words.collect();
            let mut scales =
                || Scales::Bf16((0..rows * columns / 64).map(|_| bf16::from_f32(self.value())).collect());
            MatrixValues::Affine(AffineValues {
                bits,
                group_size: 64,
                words,
                scales: scales(),
                biases: scales(),
            })
        };
        HostMatrix { rows, columns, values }
    }
}

struct Bench {
    device: CpuDevice,
    random: Random,
}

impl Bench {
    fn values(&mut self, len: usize) -> Buffer<bf16> {
        let mut buffer = self.device.allocate(len).expect("values fit");
        buffer.iter_mut().for_each(|value| *value = bf16::from_f32(self.random.value()));
        buffer
    }

    fn matrix(&mut self, rows: usize, columns: usize, bits: u32) -> Matrix {
        self.device.load_matrix(&[self.random.matrix(rows, columns, bits)]).expect("the matrix fits")
    }

    /// `count` rows of lane 0 at the positions from 100 on.
    fn rows(&self, count: usize) -> Rows<CpuDevice> {
        let mut rows = Rows::new(&self.device, count).expect("rows fit");
        rows.count = count;
        for row in 0..count {
            rows.position[row] = 100 + row as i32;
            rows.key_end[row] = 101 + row as i32;
        }
        rows
    }

    /// Every shape of a product, in cycles of 3.66 GHz for 128 weights.
    fn products(&mut self) {
        let shapes = [
            (4, 768, 256),
            (4, 256, 768),
            (4, 256, 128),
            (4, VOCABULARY, 256),
            (16, 1024, 256),
            (16, 256, 512),
            (16, VOCABULARY, RANK),
        ];
        for (bits, outputs, columns) in shapes {
            let matrix = self.matrix(outputs, columns, bits);
            print!("{bits:2} bits {outputs:4} x {columns:3}, cycles of 128 weights, rows:");
            for count in [1, 2, 3, 4, 5, 6, 8, 9, 10, 256] {
                let x = self.values(count * columns);
                let mut out = self.device.allocate(count * outputs).expect("sums fit");
                let time = fastest(|| self.device.logits(&matrix, &x, count, &mut out));
                print!(" {count}: {:.1}", time * 3660.0 / (outputs * columns / 128) as f64);
            }
            println!();
        }
    }

    fn experts(&mut self) {
        let hosts: Vec<_> = (0..EXPERTS)
            .map(|_| ExpertWeights {
                gate: self.random.matrix(EXPERT_WIDTH, HIDDEN, 4),
                up: self.random.matrix(EXPERT_WIDTH, HIDDEN, 4),
                down: self.random.matrix(HIDDEN, EXPERT_WIDTH, 4),
            })
            .collect();
        let experts = self.device.load_experts(&mut hosts.into_iter()).expect("experts fit");
        let router = self.matrix(EXPERTS, HIDDEN, 8);
        let bias = self.device.allocate(EXPERTS).expect("a bias fits");
        let rule = forerunner_tensor::RouteRule { picks: PICKS, normalize: true, scale: 1.0 };
        for count in [1, 2, 5, 10, 256] {
            let (x, mut residual) = (self.values(count * HIDDEN), self.values(count * HIDDEN));
            let rows = self.rows(count);
            let device = &self.device;
            let mut routing = Routing::<CpuDevice> {
                experts: device.allocate(count * PICKS).expect("picks fit"),
                weights: device.allocate(count * PICKS).expect("picks fit"),
                distinct: device.allocate(1).expect("a count fits"),
            };
            let route = fastest(|| device.route(&router, &bias, rule, &x, &rows, 0, &mut routing));
            let forward = fastest(|| {
                device.expert_feed_forward(&experts, &routing, PICKS, &x, &rows, &mut residual);
            });
            println!(
                "{count:3} rows: route {route:.2}, experts {forward:.2} ({} distinct)",
                routing.distinct[0]
            );
        }
    }

    fn small_operations(&mut self) {
        let device = CpuDevice::new(CpuOptions { mode: self.device.mode().parse().ok(), threads: Some(1) })
            .expect("the device starts");
        let weight = self.values(3 * HIDDEN);
        let rope = RopeTable::new(&device, 1e6, HEADS.head_dim, POSITIONS).expect("angles fit");
        let norms = HeadNorms { query: self.values(64), key: self.values(64), epsilon: 1e-5 };
        let mut table =
            PageTable::<CpuDevice> { pages_per_lane: 2, pages: device.allocate(2).expect("a table fits") };
        table.pages[1] = 1;
        let mut pages = KeyValuePages::<CpuDevice> {
            keys: self.values(POSITIONS * 64),
            values: self.values(POSITIONS * 64),
        };
        let mut ring =
            ConvRing { gated: device.allocate(forerunner_tensor::CONV_RING * HIDDEN).expect("a ring fits") };
        for count in [1, 10] {
            let rows = self.rows(count);
            let x = self.values(count * 3 * HIDDEN);
            let mut stacked = self.values(count * HEADS.stacked_width());
            let mut out = device.allocate(count * HIDDEN).expect("rows fit");
            let embedding = self.matrix(VOCABULARY, HIDDEN, 4);
            let norm = fastest(|| device.rms_norm(&x, &weight, 1e-5, count, HIDDEN, &mut out));
            let conv = fastest(|| device.short_conv(&x, &weight, HIDDEN, &rows, &mut ring, &mut out));
            let append = fastest(|| {
                device.rope_append(&mut stacked, HEADS, &norms, &rope, &rows, &table, &mut pages);
            });
            let attention = fastest(|| device.attention(&stacked, HEADS, &rows, &table, &pages, &mut out));
            let embed = fastest(|| device.embed(&embedding, &rows, &mut out));
            println!(
                "{count:3} rows: norm {norm:.2}, conv {conv:.2}, rope {append:.2}, attention {attention:.2}, \
                 embed {embed:.2}"
            );
        }
    }

    fn chain(&mut self) {
        let head = MarkovHead::<CpuDevice> {
            previous: self.matrix(VOCABULARY, RANK, 16),
            next: self.matrix(VOCABULARY, RANK, 16),
            confidence: Some((self.values(HIDDEN + RANK), self.values(1))),
        };
        let hidden = self.values(BLOCK * HIDDEN);
        let rows = self.rows(BLOCK);
        let device = &self.device;
        let mut logits = device.allocate::<f32>(BLOCK * VOCABULARY).expect("logits fit");
        for logit in logits.iter_mut() {
            // A sum of uniform numbers with a long tail, as logits have.
            *logit = (0..4).map(|_| self.random.value()).sum::<f32>().powi(3);
        }
        let tables = DrawTables {
            vocabulary: VOCABULARY,
            counts: device.allocate(VOCABULARY).expect("counts fit"),
            logit_bias: device.allocate(VOCABULARY).expect("a bias fits"),
            masks: device.allocate(0).expect("no masks fit"),
        };
        let mut drafts = device.allocate(BLOCK).expect("drafts fit");
        let mut confidence = device.allocate(BLOCK).expect("chances fit");
        for temperature in [0.0, 0.3, 1.0] {
            let mut rules: Buffer<DrawRow> = device.allocate(1).expect("a rule fits");
            rules[0] = DrawRow { lane: 0, temperature, ..DrawRow::default() };
            let time = fastest(|| {
                device.draft_chain(
                    &head,
                    &hidden,
                    HIDDEN,
                    &logits,
                    &rules,
                    &rows,
                    &tables,
                    1,
                    BLOCK,
                    BLOCK,
                    &mut drafts,
                    &mut confidence,
                );
            });
            println!("a chain of {BLOCK} at temperature {temperature}: {time:.2}");
        }
    }
}

/// Microseconds of the fastest of many runs, which no other load of the machine has disturbed.
fn fastest(mut work: impl FnMut()) -> f64 {
    let (mut best, begin) = (f64::INFINITY, Instant::now());
    for run in 0..5000 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
        if run > 20 && begin.elapsed().as_millis() > 60 {
            break;
        }
    }
    best * 1e6
}
