//! The oracle against answers worked out by hand, and its draws against the softmax.

use forerunner_reference::oracle::{OracleDevice, RowTables, draw_token};
use forerunner_tensor::{
    Accepted, CONV_RING, ConvRing, Device, DeviceWindow, DrawRow, DrawTables, HeadShape, HostMatrix,
    KeyValuePages, MatrixValues, NO_LANE, PAGE, PageTable, RouteRule, Routing, Rows, bf16,
};

const DEVICE: OracleDevice = OracleDevice;

fn bf16s(values: &[f32]) -> Vec<bf16> {
    values.iter().copied().map(bf16::from_f32).collect()
}

fn f32s(values: &[bf16]) -> Vec<f32> {
    values.iter().map(|value| value.to_f32()).collect()
}

fn matrix(rows: usize, values: &[f32]) -> HostMatrix<'static> {
    let columns = values.len() / rows;
    HostMatrix { rows, columns, values: MatrixValues::F32(values.to_vec().into()) }
}

/// Rows of `(lane, position)`, causal, with the row's index as token.
fn rows(places: &[(i32, i32)]) -> Rows<OracleDevice> {
    Rows {
        count: places.len(),
        token: (0..places.len() as i32).collect(),
        lane: places.iter().map(|place| place.0).collect(),
        position: places.iter().map(|place| place.1).collect(),
        key_end: places.iter().map(|place| place.1 + 1).collect(),
    }
}

#[test]
fn a_norm_divides_by_the_root_mean_square() {
    let mut out = bf16s(&[0.0; 2]);
    DEVICE.rms_norm(&bf16s(&[3.0, 4.0]), &bf16s(&[1.0, -2.0]), 0.0, 1, 2, &mut out);
    // The root of 12.5 is 3.5355; 0.8485 and 1.1314 are rounded before the weights come.
    assert_eq!(f32s(&out), [0.84765625, -2.265625]);
}

#[test]
fn a_convolution_reaches_two_rows_back_and_not_before_the_start() {
    let (lane, other) = (0, 1);
    let mut ring = ConvRing { gated: bf16s(&vec![9.0; 2 * CONV_RING]) };
    // B, C and x of three rows; u is 2, 6 and 20.
    let projected = bf16s(&[1.0, 1.0, 2.0, 2.0, 1.0, 3.0, 100.0, 1.0, 100.0, 4.0, 10.0, 5.0]);
    let rows = rows(&[(lane, 0), (lane, 1), (NO_LANE, 0), (lane, 2)]);
    let mut out = bf16s(&[-7.0; 4]);
    DEVICE.short_conv(&projected, &bf16s(&[100.0, 10.0, 1.0]), 1, &rows, &mut ring, &mut out);
    assert_eq!(f32s(&out), [2.0, 26.0, -7.0, 2800.0]);
    assert_eq!(f32s(&ring.gated[..4]), [2.0, 6.0, 20.0, 9.0]);
    assert!(f32s(&ring.gated[other * CONV_RING..]).iter().all(|value| *value == 9.0));
}

#[test]
fn attention_weighs_values_by_the_softmax_over_pages() {
    // One head of width 1; scores are the keys, and only two keys in different pages matter.
    let shape = HeadShape { query_heads: 1, key_value_heads: 1, head_dim: 1 };
    let mut keys = vec![-100.0; 3 * PAGE];
    let mut values = vec![50.0; 3 * PAGE];
    (keys[2 * PAGE + 7], values[2 * PAGE + 7]) = (0.0, 4.0);
    (keys[PAGE], values[PAGE]) = (3f32.ln(), 8.0);
    let table = PageTable { pages_per_lane: 2, pages: vec![2, 1] };
    let pages = KeyValuePages { keys: bf16s(&keys), values: bf16s(&values) };
    let mut out = bf16s(&[0.0]);
    let rows = rows(&[(0, PAGE as i32)]);
    DEVICE.attention(&bf16s(&[1.0, 0.0, 0.0]), shape, &rows, &table, &pages, &mut out);
    // A quarter of 4 and three quarters of 8, but for the rounding of the key.
    assert!((out[0].to_f32() - 7.0).abs() < 0.04, "{}", out[0]);
}

#[test]
fn a_router_breaks_ties_by_number_and_weighs_without_bias() {
    let router = DEVICE.load_matrix(&[matrix(4, &[0.0, 0.0, 0.0, 1.0])]).expect("it fits");
    let mut routing = Routing { experts: vec![0; 4], weights: vec![0.0; 4], distinct: vec![9; 2] };
    let rule = RouteRule { picks: 2, normalize: true, scale: 2.0 };
    let rows = rows(&[(0, 5), (NO_LANE, 0)]);
    // Scores 1/2, 1/2, 1/2 and 3/4; the bias puts expert 0 last and 1 level with 2.
    let bias = vec![-1.0, 0.0, 0.0, 0.0];
    DEVICE.route(&router, &bias, rule, &bf16s(&[3f32.ln(), 0.0]), &rows, 1, &mut routing);
    assert_eq!(routing.experts, [1, 3, -1, -1]);
    assert!((routing.weights[0] - 0.8).abs() < 1e-3 && (routing.weights[1] - 1.2).abs() < 1e-3);
    assert_eq!(routing.distinct, [9, 2]);
}

#[test]
fn a_window_keeps_the_drafts_that_were_drawn() {
    // Lane 1 has three drafts after its pending token; lane 0 ends a prompt.
    let rows = rows(&[(1, 10), (1, 11), (1, 12), (1, 13), (0, 0), (0, 1)]);
    let windows = [
        DeviceWindow { lane: 1, first_row: 0, row_count: 4, draft_count: 3, counted: 1, ..window() },
        DeviceWindow { lane: 0, first_row: 4, row_count: 2, first_draw: 4, ..window() },
        DeviceWindow { lane: 0, first_row: 4, row_count: 2, first_draw: -1, counted: 1, ..window() },
    ];
    // The drafts are the tokens 1, 2 and 3.
    let drawn = vec![1, 2, 9, 8, 7];
    let mut tables = DrawTables { vocabulary: 10, counts: vec![0; 20], logit_bias: vec![], masks: vec![] };
    let mut accepted = vec![Accepted::default(); 3];
    DEVICE.accept(&windows.to_vec(), 3, &rows, &drawn, &mut tables, &mut accepted);
    let outcome = |drafts, anchor, length| Accepted { drafts, anchor, length, block: -1 };
    assert_eq!(accepted, [outcome(2, 9, 13), outcome(0, 7, 2), outcome(0, -1, 2)]);
    let counted: Vec<usize> = (0..20).filter(|token| tables.counts[*token] == 1).collect();
    assert_eq!(counted, [11, 12, 19]);
}

#[test]
fn a_block_begins_at_the_accepted_length() {
    let windows = vec![DeviceWindow { lane: 3, block: 1, ..window() }];
    let accepted = vec![Accepted { anchor: 42, length: 7, ..Accepted::default() }];
    let mut rows = rows(&[(5, 0); 4]);
    DEVICE.draft_rows(&windows, 1, &accepted, 2, 99, &mut rows);
    assert_eq!(rows.lane, [NO_LANE, NO_LANE, 3, 3]);
    assert_eq!(rows.token[2..], [42, 99]);
    assert_eq!(rows.position[2..], [7, 8]);
    assert_eq!(rows.key_end[2..], [9, 9]);
}

#[test]
fn noise_draws_from_the_softmax() {
    let logits = [1.0, 2.0, 0.0, 3.0, -1.0f32];
    let total: f32 = logits.iter().map(|logit| (logit / 1.5).exp()).sum();
    let draws = 20_000;
    let mut drawn = [0usize; 5];
    for position in 0..draws {
        let rule = DrawRow { temperature: 1.5, position, seed_low: 11, lane: 0, ..DrawRow::default() };
        let tables = RowTables { counts: &[], logit_bias: &[], mask: None, drafts: &[] };
        drawn[draw_token(&logits, &rule, tables)] += 1;
    }
    for (drawn, logit) in drawn.iter().zip(logits) {
        let expected = (logit / 1.5).exp() / total;
        let found = *drawn as f32 / draws as f32;
        // Four standard deviations.
        let bound = 4.0 * (expected * (1.0 - expected) / draws as f32).sqrt();
        assert!((found - expected).abs() < bound, "{found} for {expected}");
    }
}

fn window() -> DeviceWindow {
    DeviceWindow { block: -1, ..DeviceWindow::default() }
}
