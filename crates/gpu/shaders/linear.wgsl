// Products of weight matrices with rows of activations, dense and over experts: what they are told, and what becomes of
// sums. `few.wgsl` and `many.wgsl` make the sums.
//
// Outputs are taken by fours, each four a slot. A sum has lanes: lane l of it sums chunks l, l + lanes, ... of 32 inputs in
// ascending order, in one chain of fma; then the lanes are added in ascending order, more than 8 by eights. Lanes are a
// function of the inputs alone, so this is the one order of every sum, for every number of rows.

const THREADS: u32 = 128u;
const EIGHT: u32 = 8u;

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
    // Of the norm, where a row is normed on the way.
    epsilon: f32,
    // Of the picks, where they are made on the way: as in `RouteRule`, and where their number goes.
    normalize: u32,
    scale: f32,
    layer: u32,
}

var<immediate> p: LinearParams;

@group(0) @binding(2) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
@group(0) @binding(4) var<storage, read> logits: array<f32>;
// Expert, first entry in `order`, entries; and entries by expert.
@group(0) @binding(5) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> order: array<u32>;

// Rows of the workgroup that are there.
var<private> tile_rows: u32;

const FIRST_ROWS: vec4<u32> = vec4<u32>(0u, 1u, 2u, 3u);

// Rows that are there instead of those that are not.
fn there(rows: vec4<u32>) -> vec4<u32> {
    return min(rows, vec4<u32>(tile_rows - 1u));
}

// Where the inputs of entries begin.
fn inputs_of(at: vec4<u32>) -> vec4<u32> {
    let entries = vec4<u32>(order[at.x], order[at.y], order[at.z], order[at.w]);
    return (entries / p.picks) * (p.inputs / 8u);
}

fn low4(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words << vec4<u32>(16u));
}

fn high4(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
}

// What codes mean: the bits of `meaning` in fewer integer operations, of which GPUs do half as many at a time. A value's power of
// two, taken 65535 times and added to the value, leaves room for 8 bits of mantissa alone: the addition rounds as bf16 does, and the
// result's last bits are bf16's mantissa. No value is between 0 and 2^-126 (`without_tiny` of `loader.rs`) or beyond 2^112.
fn meaning4(code: vec4<f32>, scale: vec4<f32>, bias: vec4<f32>) -> vec4<f32> {
    let value = fma(scale, code, bias);
    let power = bitcast<vec4<u32>>(value) & vec4<u32>(0xff800000u);
    let ended = bitcast<vec4<u32>>(fma(bitcast<vec4<f32>>(power), vec4<f32>(65535.0), value));
    return bitcast<vec4<f32>>((ended << vec4<u32>(16u)) + power);
}

// Codes as numbers: the bits of `mask`, none beyond bit 22, the first of them worth 1 / `unit`. They are set beside 2^23, which is
// taken away again.
fn codes4(words: vec4<u32>, mask: u32, unit: f32) -> vec4<f32> {
    let beside = bitcast<vec4<f32>>((words & vec4<u32>(mask)) | vec4<u32>(0x4b000000u));
    return fma(beside, vec4<f32>(unit), vec4<f32>(-8388608.0 * unit));
}

// The first words of 4 outputs, then their second ones, ...
fn across(a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>) -> array<vec4<u32>, 4> {
    return array<vec4<u32>, 4>(
        vec4<u32>(a.x, b.x, c.x, d.x),
        vec4<u32>(a.y, b.y, c.y, d.y),
        vec4<u32>(a.z, b.z, c.z, d.z),
        vec4<u32>(a.w, b.w, c.w, d.w),
    );
}

// 8 inputs of 4 outputs, input after input, of words as `across` has them.
fn of_bf16(words: array<vec4<u32>, 4>) -> array<vec4<f32>, 8> {
    return array<vec4<f32>, 8>(
        low4(words[0]), high4(words[0]), low4(words[1]), high4(words[1]),
        low4(words[2]), high4(words[2]), low4(words[3]), high4(words[3]),
    );
}

fn of_affine4(words: vec4<u32>, scale: vec4<f32>, bias: vec4<f32>) -> array<vec4<f32>, 8> {
    let last = words >> vec4<u32>(12u);
    return array<vec4<f32>, 8>(
        meaning4(codes4(words, 0xfu, 1.0), scale, bias),
        meaning4(codes4(words, 0xf0u, 0.0625), scale, bias),
        meaning4(codes4(words, 0xf00u, 0.00390625), scale, bias),
        meaning4(codes4(words, 0xf000u, 0.000244140625), scale, bias),
        meaning4(codes4(words, 0xf0000u, 0.0000152587890625), scale, bias),
        meaning4(codes4(last, 0xf00u, 0.00390625), scale, bias),
        meaning4(codes4(last, 0xf000u, 0.000244140625), scale, bias),
        meaning4(codes4(last, 0xf0000u, 0.0000152587890625), scale, bias),
    );
}

fn of_affine8(first: vec4<u32>, second: vec4<u32>, scale: vec4<f32>, bias: vec4<f32>) -> array<vec4<f32>, 8> {
    let last_of_first = first >> vec4<u32>(16u);
    let last_of_second = second >> vec4<u32>(16u);
    return array<vec4<f32>, 8>(
        meaning4(codes4(first, 0xffu, 1.0), scale, bias),
        meaning4(codes4(first, 0xff00u, 0.00390625), scale, bias),
        meaning4(codes4(last_of_first, 0xffu, 1.0), scale, bias),
        meaning4(codes4(last_of_first, 0xff00u, 0.00390625), scale, bias),
        meaning4(codes4(second, 0xffu, 1.0), scale, bias),
        meaning4(codes4(second, 0xff00u, 0.00390625), scale, bias),
        meaning4(codes4(last_of_second, 0xffu, 1.0), scale, bias),
        meaning4(codes4(last_of_second, 0xff00u, 0.00390625), scale, bias),
    );
}

// Scales and biases of 4 outputs, the matrix rows `output`, for a chunk.
struct Scales {
    scale: vec4<f32>,
    bias: vec4<f32>,
}

fn scales_of(output: vec4<u32>, chunk: u32) -> Scales {
    let groups = p.inputs / 32u >> p.group_shift;
    let group = output * vec4<u32>(groups) + vec4<u32>(chunk >> p.group_shift);
    let a = scale_and_bias(group.x, p.half_scales);
    let b = scale_and_bias(group.y, p.half_scales);
    let c = scale_and_bias(group.z, p.half_scales);
    let d = scale_and_bias(group.w, p.half_scales);
    return Scales(vec4<f32>(a.x, b.x, c.x, d.x), vec4<f32>(a.y, b.y, c.y, d.y));
}

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
