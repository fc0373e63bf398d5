// Products of weight matrices with rows of activations, dense and over experts: what they are told, and what becomes of
// sums. `few.wgsl` makes the sums.
//
// Outputs are taken by fours, each four a slot. A sum has lanes: lane l of it sums chunks l, l + lanes, ... of 32 inputs in
// ascending order, in one chain of fma; then the lanes are added in ascending order, more than 8 by eights. Lanes are a
// function of the inputs alone, so this is the one order of every sum, for every number of rows.

const THREADS: u32 = 128u;

const WRITE_BF16: u32 = 0u;
const WRITE_ADD: u32 = 1u;
const WRITE_F32: u32 = 2u;
const WRITE_BIAS: u32 = 3u;
const WRITE_GATED: u32 = 4u;

struct LinearParams {
    rows: u32,
    // Of this part of the matrix.
    outputs: u32,
    inputs: u32,
    // Logarithms: chunks that share a scale, lanes of a slot.
    group_shift: u32,
    lanes_shift: u32,
    half_scales: u32,
    write: u32,
    // Where this part's outputs begin in a row of what is written, and that row's width.
    first_output: u32,
    out_width: u32,
    // Logits that products are added to: those of row `r` are row `r * bias_rows + bias_row`.
    bias_rows: u32,
    bias_row: u32,
    // Outputs of gate, after which up's begin, when both become an activation.
    gated_width: u32,
    // For experts: those of this part, and picks by which an entry is divided to find its row, 1 for its own.
    first_expert: u32,
    experts: u32,
    picks: u32,
}

var<immediate> p: LinearParams;

@group(0) @binding(2) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
@group(0) @binding(4) var<storage, read> logits: array<f32>;
// Expert, first entry in `order`, entries; and entries by expert.
@group(0) @binding(5) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> order: array<u32>;

// The matrix rows of a slot: 4 that follow each other, or 2 of gate and the same 2 of up.
fn rows_of_slot(slot: u32) -> vec4<u32> {
    if (p.write == WRITE_GATED) {
        let gate = slot * 2u + vec4<u32>(0u, 1u, 0u, 1u);
        return min(gate, vec4<u32>(p.gated_width - 1u)) + vec4<u32>(0u, 0u, p.gated_width, p.gated_width);
    }
    return min(slot * 4u + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.outputs - 1u));
}

fn write_value(row: u32, output: u32, sum: f32) {
    if (output >= p.outputs) {
        return;
    }
    var value = sum;
    if (p.write == WRITE_BIAS) {
        let bias_row = row * p.bias_rows + p.bias_row;
        value = logits[bias_row * p.out_width + p.first_output + output] + sum;
    }
    out[row * p.out_width + p.first_output + output] = bitcast<u32>(value);
}

fn write_pair(row: u32, output: u32, first: f32, second: f32) {
    if (output >= p.outputs) {
        return;
    }
    let word = (row * p.out_width + p.first_output + output) / 2u;
    if (p.write == WRITE_ADD) {
        out[word] = added(out[word], first, second);
    } else {
        out[word] = narrow(first, second);
    }
}

// What becomes of the 4 sums of a slot, for one row.
fn write_sums(row: u32, slot: u32, total: vec4<f32>) {
    if (p.write == WRITE_GATED) {
        if (slot * 2u < p.gated_width) {
            let activation = activated(narrow(total.x, total.y), narrow(total.z, total.w));
            out[row * (p.out_width / 2u) + slot] = activation;
        }
    } else if (p.write == WRITE_F32 || p.write == WRITE_BIAS) {
        write_value(row, slot * 4u, total.x);
        write_value(row, slot * 4u + 1u, total.y);
        write_value(row, slot * 4u + 2u, total.z);
        write_value(row, slot * 4u + 3u, total.w);
    } else {
        write_pair(row, slot * 4u, total.x, total.y);
        write_pair(row, slot * 4u + 2u, total.z, total.w);
    }
}
