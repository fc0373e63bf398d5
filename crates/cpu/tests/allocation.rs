//! A steady round allocates nothing: once scratch has grown, operations leave the allocator alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forerunner_cpu::{Buffer, CpuDevice, CpuOptions, Mode};
use forerunner_tensor::{
    ALTERNATIVES, Device, DrawRow, DrawTables, ExpertWeights, HostMatrix, MatrixValues, RouteRule, Routing,
    Rows, bf16,
};

struct Counting;

thread_local! {
    /// A thread's own: the test harness allocates on others at any time.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WIDTH: usize = 128;
const EXPERTS: usize = 4;
const VOCABULARY: usize = 500;

fn dense(rows: usize, columns: usize) -> HostMatrix<'static> {
    let values = (0..rows * columns).map(|i| bf16::from_f32((i * 7 % 31) as f32 * 0.01 - 0.15)).collect();
    HostMatrix { rows, columns, values: MatrixValues::Bf16(values) }
}

/// Runs a mixed round of `count` rows as often as asked; the allocations of the last time.
fn allocations_of_last(device: &CpuDevice, count: usize, times: usize) -> usize {
    let square = device.load_matrix(&[dense(WIDTH, WIDTH)]).unwrap();
    let gate_up = device.load_matrix(&[dense(2 * WIDTH, WIDTH)]).unwrap();
    let head = device.load_matrix(&[dense(VOCABULARY, WIDTH)]).unwrap();
    let router = device.load_matrix(&[dense(EXPERTS, WIDTH)]).unwrap();
    let host = dense(WIDTH, WIDTH);
    let part = || ExpertWeights { gate: host.clone(), up: host.clone(), down: host.clone() };
    let experts =
        device.load_experts(&mut std::iter::repeat_with(part).take(EXPERTS).collect::<Vec<_>>().into_iter());
    let experts = experts.unwrap();
    let bias = device.allocate::<f32>(EXPERTS).unwrap();
    let rule = RouteRule { picks: 2, normalize: true, scale: 1.0 };
    let mut rows = Rows::new(device, count).unwrap();
    rows.count = count;
    let mut routing = Routing::<CpuDevice> {
        experts: device.allocate(count * 2).unwrap(),
        weights: device.allocate(count * 2).unwrap(),
        distinct: device.allocate(1).unwrap(),
    };
    let mut x: Buffer<bf16> = device.allocate(count * WIDTH).unwrap();
    let mut residual: Buffer<bf16> = device.allocate(count * WIDTH).unwrap();
    let mut logits = device.allocate::<f32>(count * VOCABULARY).unwrap();
    let mut rules: Buffer<DrawRow> = device.allocate(count).unwrap();
    rules.fill(DrawRow { lane: 0, temperature: 0.8, top_k: 40, top_p: 0.9, ..DrawRow::default() });
    let mut drawn = device.allocate::<i32>(count).unwrap();
    let index = device.allocate::<i32>(count).unwrap();
    let mut tokens = device.allocate::<i32>(count * (1 + ALTERNATIVES)).unwrap();
    let mut values = device.allocate::<f32>(count * (1 + ALTERNATIVES)).unwrap();
    let tables = DrawTables {
        vocabulary: VOCABULARY,
        counts: device.allocate(VOCABULARY).unwrap(),
        logit_bias: device.allocate(VOCABULARY).unwrap(),
        masks: device.allocate(0).unwrap(),
    };
    let mut before = 0;
    for _ in 0..times {
        before = ALLOCATIONS.get();
        device.embed(&head, &rows, &mut x);
        device.linear_add(&square, &x, count, &mut residual);
        device.feed_forward(&gate_up, &square, &x, count, &mut residual);
        device.route(&router, &bias, rule, &x, &rows, 0, &mut routing);
        device.expert_feed_forward(&experts, &routing, 2, &x, &rows, &mut residual);
        device.logits(&head, &residual, count, &mut logits);
        device.draw(&logits, &rules, &rows, &tables, count, &mut drawn);
        device.log_probabilities(&logits, VOCABULARY, &drawn, &index, count, &mut tokens, &mut values);
    }
    ALLOCATIONS.get() - before
}

#[test]
fn a_second_round_of_a_shape_allocates_nothing() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(before)));
    assert!(ALLOCATIONS.get() > before, "the count sees an allocation");
    for mode in Mode::supported() {
        // One thread: with more, a worker may meet its first chunk of a kind in any round.
        let device = CpuDevice::new(CpuOptions { mode: Some(mode), threads: Some(1) }).unwrap();
        for count in [1, 5, 14] {
            assert_eq!(allocations_of_last(&device, count, 2), 0, "{mode}, {count} rows");
        }
    }
}
