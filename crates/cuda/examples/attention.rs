//! Attention at the heads of LFM2.5-24B-A2B over random keys and values: `attention [KERNELS.cubin ...]`, the built kernels
//! first. A line for each number of rows and context: microseconds a layer, and a digest of what came out, which must be the same
//! for all kernels.

use std::time::Instant;

use forerunner_cuda::{CudaDevice, CudaOptions};
use forerunner_tensor::{
    Device, DeviceError, HeadShape, KeyValuePages, PAGE, PageTable, ReadBackPart, RoundKey, Rows, bf16,
};

const SHAPE: HeadShape = HeadShape { query_heads: 32, key_value_heads: 8, head_dim: 64 };
const LAYERS: usize = 10;
const PAGES: usize = 512;
/// Rows, and keys that the last of them sees.
const CASES: [(usize, usize); 9] = [
    (1, 512),
    (1, 8192),
    (1, 65_536),
    (1, 131_072),
    (10, 8192),
    (10, 131_072),
    (2048, 2048),
    (2048, 16_384),
    (2048, 131_072),
];
const MOST_ROWS: usize = 2048;
const TIMES: usize = 12;

type Buf<T> = <CudaDevice as Device>::Buffer<T>;

struct Attention {
    layers: Vec<KeyValuePages<CudaDevice>>,
    table: PageTable<CudaDevice>,
    rows: Rows<CudaDevice>,
    stacked: Buf<bf16>,
    out: Buf<bf16>,
    done: Buf<i32>,
}

fn main() -> Result<(), DeviceError> {
    run(None)?;
    for path in std::env::args().skip(1) {
        println!("{path}");
        run(Some(&*std::fs::read(path).expect("kernels").leak()))?;
    }
    Ok(())
}

fn run(image: Option<&'static [u8]>) -> Result<(), DeviceError> {
    let device = CudaDevice::new(CudaOptions { image, ..CudaOptions::default() })?;
    let mut attention = Attention::new(&device)?;
    for (rows, keys) in CASES {
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            times.push(attention.time(&device, rows, keys)?);
        }
        times.sort_by(f64::total_cmp);
        let layer = times[TIMES / 2] / LAYERS as f64;
        let bytes = (keys * 2 * SHAPE.key_value_heads * SHAPE.head_dim * 2) as f64;
        println!(
            "{rows:5} rows {keys:7} keys {:10.1} us a layer {:6.0} GB/s  {:016x}",
            layer * 1e6,
            bytes / layer / 1e9,
            attention.digest(&device, rows)?
        );
    }
    Ok(())
}

impl Attention {
    fn new(device: &CudaDevice) -> Result<Self, DeviceError> {
        let page = SHAPE.key_value_heads * PAGE * SHAPE.head_dim;
        let values = random(PAGES * page);
        let mut table = PageTable { pages_per_lane: PAGES, pages: device.allocate(PAGES)? };
        device.upload(&mut table.pages, 0, &(0..PAGES as i32).rev().collect::<Vec<_>>());
        let layers = (0..LAYERS).map(|_| {
            let mut pages = KeyValuePages {
                keys: device.allocate(PAGES * page)?,
                values: device.allocate(PAGES * page)?,
            };
            device.upload(&mut pages.keys, 0, &values);
            device.upload(&mut pages.values, 0, &values);
            Ok(pages)
        });
        let layers = layers.collect::<Result<_, DeviceError>>()?;
        let mut stacked = device.allocate(MOST_ROWS * SHAPE.stacked_width())?;
        device.upload(&mut stacked, 0, &random(MOST_ROWS * SHAPE.stacked_width()));
        Ok(Attention {
            layers,
            table,
            rows: Rows::new(device, MOST_ROWS)?,
            stacked,
            out: device.allocate(MOST_ROWS * SHAPE.query_heads * SHAPE.head_dim)?,
            done: device.allocate(1)?,
        })
    }

    /// Seconds for all layers.
    fn time(&mut self, device: &CudaDevice, count: usize, keys: usize) -> Result<f64, DeviceError> {
        let Attention { layers, table, rows, stacked, out, done } = self;
        let first = keys - count;
        let positions: Vec<i32> = (first..keys).map(|position| position as i32).collect();
        rows.count = count;
        device.upload(&mut rows.lane, 0, &vec![0; count]);
        device.upload(&mut rows.position, 0, &positions);
        device.upload(
            &mut rows.key_end,
            0,
            &positions.iter().map(|position| position + 1).collect::<Vec<_>>(),
        );
        let mut word = [0];
        device.wait(device.queue_read_back(&[ReadBackPart::I32(done, 1)]), &mut word)?;
        let start = Instant::now();
        device.round(RoundKey { rows: count, ..RoundKey::default() }, &mut || {
            for pages in layers.iter() {
                device.attention(stacked, SHAPE, rows, table, pages, out);
            }
            Ok(())
        })?;
        device.wait(device.queue_read_back(&[ReadBackPart::I32(done, 1)]), &mut word)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// FNV-1a of the last layer's rows.
    fn digest(&self, device: &CudaDevice, count: usize) -> Result<u64, DeviceError> {
        let mut out = vec![bf16::ZERO; count * SHAPE.query_heads * SHAPE.head_dim];
        device.download(&self.out, 0, &mut out)?;
        let mix =
            |digest: u64, value: &bf16| (digest ^ u64::from(value.to_bits())).wrapping_mul(0x100_0000_01b3);
        Ok(out.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }
}

fn random(len: usize) -> Vec<bf16> {
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bf16::from_f32((state >> 40) as f32 / (1u64 << 24) as f32 * 4.0 - 2.0)
    };
    (0..len).map(|_| next()).collect()
}
