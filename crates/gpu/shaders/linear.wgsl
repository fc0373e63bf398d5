// Products of weight matrices with rows of activations, dense and over experts.
//
// 128 invocations are slots of some lanes each. A slot has 4 outputs; lane l of it sums chunks l, l + lanes, ... of 32
// inputs in ascending order, in one chain of fma an output and row; then the lanes are added in ascending order, more than
// 8 by eights. Lanes are a function of the inputs alone, so this is the one order of every sum, for every number of rows. A workgroup has
// at most 8 rows, so that weights are unpacked once for all of them; each row's sums are made by the same code.

const THREADS: u32 = 128u;
const TILE: u32 = 8u;
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
}

var<immediate> p: LinearParams;

@group(0) @binding(2) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
@group(0) @binding(4) var<storage, read> logits: array<f32>;
// Expert, first entry in `order`, entries; and entries by expert.
@group(0) @binding(5) var<storage, read> tiles: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> order: array<u32>;

var<workgroup> partials: array<vec4<f32>, 1024>;

// Sums of 4 outputs for each row of the tile, where each row's inputs begin, and which row is written.
var<private> sums: array<vec4<f32>, TILE>;
var<private> inputs_at: array<u32, TILE>;
var<private> rows_out: array<u32, TILE>;
var<private> tile_rows: u32;

// 8 inputs for all rows: `weights[i]` are those of the 4 outputs.
fn multiply(weights: array<vec4<f32>, 8>, at: u32) {
    for (var row = 0u; row < TILE; row++) {
        if (row < tile_rows) {
            let pairs = x[inputs_at[row] + at];
            var sum = sums[row];
            sum = fma(weights[0], vec4<f32>(low(pairs.x)), sum);
            sum = fma(weights[1], vec4<f32>(high(pairs.x)), sum);
            sum = fma(weights[2], vec4<f32>(low(pairs.y)), sum);
            sum = fma(weights[3], vec4<f32>(high(pairs.y)), sum);
            sum = fma(weights[4], vec4<f32>(low(pairs.z)), sum);
            sum = fma(weights[5], vec4<f32>(high(pairs.z)), sum);
            sum = fma(weights[6], vec4<f32>(low(pairs.w)), sum);
            sums[row] = fma(weights[7], vec4<f32>(high(pairs.w)), sum);
        }
    }
}

fn low4(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words << vec4<u32>(16u));
}

fn high4(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
}

fn meaning4(codes: vec4<u32>, scale: vec4<f32>, bias: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(fma(scale, vec4<f32>(codes), bias));
    let nearest = bits + vec4<u32>(0x7fffu) + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u));
    return bitcast<vec4<f32>>(nearest & vec4<u32>(0xffff0000u));
}

fn multiply_bf16(a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>, at: u32) {
    let words = array<vec4<u32>, 4>(
        vec4<u32>(a.x, b.x, c.x, d.x),
        vec4<u32>(a.y, b.y, c.y, d.y),
        vec4<u32>(a.z, b.z, c.z, d.z),
        vec4<u32>(a.w, b.w, c.w, d.w),
    );
    multiply(
        array<vec4<f32>, 8>(
            low4(words[0]), high4(words[0]), low4(words[1]), high4(words[1]),
            low4(words[2]), high4(words[2]), low4(words[3]), high4(words[3]),
        ),
        at,
    );
}

fn multiply_affine4(words: vec4<u32>, scale: vec4<f32>, bias: vec4<f32>, at: u32) {
    let mask = vec4<u32>(15u);
    multiply(
        array<vec4<f32>, 8>(
            meaning4(words & mask, scale, bias),
            meaning4((words >> vec4<u32>(4u)) & mask, scale, bias),
            meaning4((words >> vec4<u32>(8u)) & mask, scale, bias),
            meaning4((words >> vec4<u32>(12u)) & mask, scale, bias),
            meaning4((words >> vec4<u32>(16u)) & mask, scale, bias),
            meaning4((words >> vec4<u32>(20u)) & mask, scale, bias),
            meaning4((words >> vec4<u32>(24u)) & mask, scale, bias),
            meaning4(words >> vec4<u32>(28u), scale, bias),
        ),
        at,
    );
}

fn multiply_affine8(first: vec4<u32>, second: vec4<u32>, scale: vec4<f32>, bias: vec4<f32>, at: u32) {
    let mask = vec4<u32>(255u);
    multiply(
        array<vec4<f32>, 8>(
            meaning4(first & mask, scale, bias),
            meaning4((first >> vec4<u32>(8u)) & mask, scale, bias),
            meaning4((first >> vec4<u32>(16u)) & mask, scale, bias),
            meaning4(first >> vec4<u32>(24u), scale, bias),
            meaning4(second & mask, scale, bias),
            meaning4((second >> vec4<u32>(8u)) & mask, scale, bias),
            meaning4((second >> vec4<u32>(16u)) & mask, scale, bias),
            meaning4(second >> vec4<u32>(24u), scale, bias),
        ),
        at,
    );
}

// One chunk of 4 outputs, the matrix rows `output`.
fn multiply_chunk(output: vec4<u32>, chunk: u32) {
    let chunks = p.inputs / 32u;
    let at = chunk * 4u;
    if (FORMAT == 0u) {
        let first = output * vec4<u32>(chunks * 4u) + vec4<u32>(at);
        multiply_bf16(codes[first.x], codes[first.y], codes[first.z], codes[first.w], at);
        multiply_bf16(codes[first.x + 1u], codes[first.y + 1u], codes[first.z + 1u], codes[first.w + 1u], at + 1u);
        multiply_bf16(codes[first.x + 2u], codes[first.y + 2u], codes[first.z + 2u], codes[first.w + 2u], at + 2u);
        multiply_bf16(codes[first.x + 3u], codes[first.y + 3u], codes[first.z + 3u], codes[first.w + 3u], at + 3u);
        return;
    }
    let group = output * vec4<u32>(chunks >> p.group_shift) + vec4<u32>(chunk >> p.group_shift);
    let of_a = scale_and_bias(group.x, p.half_scales);
    let of_b = scale_and_bias(group.y, p.half_scales);
    let of_c = scale_and_bias(group.z, p.half_scales);
    let of_d = scale_and_bias(group.w, p.half_scales);
    let scale = vec4<f32>(of_a.x, of_b.x, of_c.x, of_d.x);
    let bias = vec4<f32>(of_a.y, of_b.y, of_c.y, of_d.y);
    if (FORMAT == 1u) {
        let first = output * vec4<u32>(chunks) + vec4<u32>(chunk);
        let a = codes[first.x];
        let b = codes[first.y];
        let c = codes[first.z];
        let d = codes[first.w];
        multiply_affine4(vec4<u32>(a.x, b.x, c.x, d.x), scale, bias, at);
        multiply_affine4(vec4<u32>(a.y, b.y, c.y, d.y), scale, bias, at + 1u);
        multiply_affine4(vec4<u32>(a.z, b.z, c.z, d.z), scale, bias, at + 2u);
        multiply_affine4(vec4<u32>(a.w, b.w, c.w, d.w), scale, bias, at + 3u);
        return;
    }
    let first = output * vec4<u32>(chunks * 2u) + vec4<u32>(chunk * 2u);
    for (var half = 0u; half < 2u; half++) {
        let a = codes[first.x + half];
        let b = codes[first.y + half];
        let c = codes[first.z + half];
        let d = codes[first.w + half];
        let here = at + 2u * half;
        multiply_affine8(vec4<u32>(a.x, b.x, c.x, d.x), vec4<u32>(a.y, b.y, c.y, d.y), scale, bias, here);
        multiply_affine8(vec4<u32>(a.z, b.z, c.z, d.z), vec4<u32>(a.w, b.w, c.w, d.w), scale, bias, here + 1u);
    }
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

// All sums of the workgroup's slots and rows, from the matrix row `first_row` on.
fn product(thread: u32, block: u32, first_row: u32) {
    let lanes = 1u << p.lanes_shift;
    let slots = THREADS >> p.lanes_shift;
    let output = rows_of_slot(block * slots + (thread >> p.lanes_shift)) + vec4<u32>(first_row);
    for (var chunk = thread & (lanes - 1u); chunk < p.inputs / 32u; chunk += lanes) {
        multiply_chunk(output, chunk);
    }
    for (var row = 0u; row < TILE; row++) {
        if (row < tile_rows) {
            partials[row * THREADS + thread] = sums[row];
        }
    }
    workgroupBarrier();
    var step = 1u;
    if (lanes > EIGHT) {
        // Eights of lanes first, one an invocation: the last sums are short then.
        step = EIGHT;
        let first = thread * EIGHT;
        if (first < tile_rows * THREADS) {
            var part = partials[first];
            for (var lane = 1u; lane < EIGHT; lane++) {
                part += partials[first + lane];
            }
            partials[first] = part;
        }
        workgroupBarrier();
    }
    for (var unit = thread; unit < tile_rows * slots; unit += THREADS) {
        let slot = unit & (slots - 1u);
        let row = unit >> (7u - p.lanes_shift);
        let first = row * THREADS + slot * lanes;
        var total = partials[first];
        for (var lane = step; lane < lanes; lane += step) {
            total += partials[first + lane];
        }
        write_sums(rows_out[row], block * slots + slot, total);
    }
}

@compute @workgroup_size(128)
fn linear(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = workgroup.x * TILE;
    tile_rows = min(TILE, p.rows - first);
    for (var row = 0u; row < TILE; row++) {
        rows_out[row] = first + row;
        inputs_at[row] = (first + row) * (p.inputs / 8u);
        sums[row] = vec4<f32>();
    }
    product(thread, workgroup.y, 0u);
}

// A tile's rows are entries of one expert: a row and one of its picks.
@compute @workgroup_size(128)
fn expert_linear(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let tile = tiles[workgroup.x];
    tile_rows = tile.z;
    let expert = tile.x - p.first_expert;
    if (tile_rows == 0u || expert >= p.experts) {
        return;
    }
    for (var row = 0u; row < TILE; row++) {
        let entry = order[tile.y + min(row, tile_rows - 1u)];
        rows_out[row] = entry;
        inputs_at[row] = (entry / p.picks) * (p.inputs / 8u);
        sums[row] = vec4<f32>();
    }
    product(thread, workgroup.y, expert * p.outputs);
}
