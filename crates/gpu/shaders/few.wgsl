// Products for few rows: 128 invocations are slots of some lanes each, and add their lanes through workgroup memory. A workgroup
// has at most ROWS rows, whose sums stay in registers, so that weights are unpacked once for all of them. A row that is not there
// is summed as one that is, and written nowhere.

// Rows that the code is made for: 1, 4 or 8.
override ROWS: u32 = 8u;

const EIGHT: u32 = 8u;

var<workgroup> partials: array<vec4<f32>, ROWS * THREADS>;
var<workgroup> rows_out: array<u32, ROWS>;

// Sums of 4 outputs for each row, where each row's inputs begin, and rows that are there. Indices are constants: what is indexed
// by a number that only the run knows is not kept in registers.
var<private> sums: array<vec4<f32>, 8>;
var<private> inputs_at: array<vec4<u32>, 2>;
var<private> tile_rows: u32;

// 8 inputs of a row: `weights[i]` are those of the 4 outputs.
fn with_row(sum: vec4<f32>, weights: array<vec4<f32>, 8>, pairs: vec4<u32>) -> vec4<f32> {
    var longer = fma(weights[0], vec4<f32>(low(pairs.x)), sum);
    longer = fma(weights[1], vec4<f32>(high(pairs.x)), longer);
    longer = fma(weights[2], vec4<f32>(low(pairs.y)), longer);
    longer = fma(weights[3], vec4<f32>(high(pairs.y)), longer);
    longer = fma(weights[4], vec4<f32>(low(pairs.z)), longer);
    longer = fma(weights[5], vec4<f32>(high(pairs.z)), longer);
    longer = fma(weights[6], vec4<f32>(low(pairs.w)), longer);
    return fma(weights[7], vec4<f32>(high(pairs.w)), longer);
}

// The same for all rows.
fn multiply(weights: array<vec4<f32>, 8>, at: u32) {
    sums[0] = with_row(sums[0], weights, x[inputs_at[0].x + at]);
    if (ROWS > 1u) {
        sums[1] = with_row(sums[1], weights, x[inputs_at[0].y + at]);
        sums[2] = with_row(sums[2], weights, x[inputs_at[0].z + at]);
        sums[3] = with_row(sums[3], weights, x[inputs_at[0].w + at]);
    }
    if (ROWS > 4u) {
        sums[4] = with_row(sums[4], weights, x[inputs_at[1].x + at]);
        sums[5] = with_row(sums[5], weights, x[inputs_at[1].y + at]);
        sums[6] = with_row(sums[6], weights, x[inputs_at[1].z + at]);
        sums[7] = with_row(sums[7], weights, x[inputs_at[1].w + at]);
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

// 16 bytes of codes of each of 4 outputs: a quarter of a chunk of bf16, half of one of 8-bit codes, a chunk of 4-bit codes.
struct Part {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
    scale: vec4<f32>,
    bias: vec4<f32>,
}

// The logarithm of a chunk's parts.
fn parts_shift() -> u32 {
    if (FORMAT == 0u) {
        return 2u;
    }
    return FORMAT - 1u;
}

// Part `step` of those that a lane has; `output` are matrix rows.
fn load_part(output: vec4<u32>, lane: u32, step: u32) -> Part {
    let chunks = p.inputs / 32u;
    let chunk = lane + ((step >> parts_shift()) << p.lanes_shift);
    let in_chunk = step & ((1u << parts_shift()) - 1u);
    let first = ((output * vec4<u32>(chunks) + vec4<u32>(chunk)) << vec4<u32>(parts_shift())) + vec4<u32>(in_chunk);
    var part: Part;
    part.a = codes[first.x];
    part.b = codes[first.y];
    part.c = codes[first.z];
    part.d = codes[first.w];
    if (FORMAT != 0u) {
        let group = output * vec4<u32>(chunks >> p.group_shift) + vec4<u32>(chunk >> p.group_shift);
        let of_a = scale_and_bias(group.x, p.half_scales);
        let of_b = scale_and_bias(group.y, p.half_scales);
        let of_c = scale_and_bias(group.z, p.half_scales);
        let of_d = scale_and_bias(group.w, p.half_scales);
        part.scale = vec4<f32>(of_a.x, of_b.x, of_c.x, of_d.x);
        part.bias = vec4<f32>(of_a.y, of_b.y, of_c.y, of_d.y);
    }
    return part;
}

fn multiply_part(part: Part, lane: u32, step: u32) {
    let chunk = lane + ((step >> parts_shift()) << p.lanes_shift);
    let in_chunk = step & ((1u << parts_shift()) - 1u);
    let at = chunk * 4u + (in_chunk << (2u - parts_shift()));
    let x4 = vec4<u32>(part.a.x, part.b.x, part.c.x, part.d.x);
    let y4 = vec4<u32>(part.a.y, part.b.y, part.c.y, part.d.y);
    let z4 = vec4<u32>(part.a.z, part.b.z, part.c.z, part.d.z);
    let w4 = vec4<u32>(part.a.w, part.b.w, part.c.w, part.d.w);
    if (FORMAT == 0u) {
        multiply(
            array<vec4<f32>, 8>(low4(x4), high4(x4), low4(y4), high4(y4), low4(z4), high4(z4), low4(w4), high4(w4)),
            at,
        );
    } else if (FORMAT == 1u) {
        multiply_affine4(x4, part.scale, part.bias, at);
        multiply_affine4(y4, part.scale, part.bias, at + 1u);
        multiply_affine4(z4, part.scale, part.bias, at + 2u);
        multiply_affine4(w4, part.scale, part.bias, at + 3u);
    } else {
        multiply_affine8(x4, y4, part.scale, part.bias, at);
        multiply_affine8(z4, w4, part.scale, part.bias, at + 1u);
    }
}

// All sums of a lane; each part is on its way while the one before it is multiplied.
fn sum_lane(output: vec4<u32>, lane: u32) {
    let lanes = 1u << p.lanes_shift;
    let steps = ((p.inputs / 32u - lane + lanes - 1u) >> p.lanes_shift) << parts_shift();
    var next = load_part(output, lane, 0u);
    for (var step = 0u; step < steps; step++) {
        let part = next;
        if (step + 1u < steps) {
            next = load_part(output, lane, step + 1u);
        }
        multiply_part(part, lane, step);
    }
}

// The sums of all rows where the lanes of the workgroup can add them.
fn share_sums(thread: u32) {
    partials[thread] = sums[0];
    if (ROWS > 1u) {
        partials[THREADS + thread] = sums[1];
        partials[2u * THREADS + thread] = sums[2];
        partials[3u * THREADS + thread] = sums[3];
    }
    if (ROWS > 4u) {
        partials[4u * THREADS + thread] = sums[4];
        partials[5u * THREADS + thread] = sums[5];
        partials[6u * THREADS + thread] = sums[6];
        partials[7u * THREADS + thread] = sums[7];
    }
}

// All sums of the workgroup's slots and rows, from the matrix row `first_row` on.
fn product(thread: u32, block: u32, first_row: u32) {
    let lanes = 1u << p.lanes_shift;
    let slots = THREADS >> p.lanes_shift;
    let output = rows_of_slot(block * slots + (thread >> p.lanes_shift)) + vec4<u32>(first_row);
    sum_lane(output, thread & (lanes - 1u));
    share_sums(thread);
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

const FIRST_ROWS: vec4<u32> = vec4<u32>(0u, 1u, 2u, 3u);
const LAST_ROWS: vec4<u32> = vec4<u32>(4u, 5u, 6u, 7u);

// Rows that are there instead of those that are not.
fn there(rows: vec4<u32>) -> vec4<u32> {
    return min(rows, vec4<u32>(tile_rows - 1u));
}

@compute @workgroup_size(128)
fn linear(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = workgroup.x * ROWS;
    tile_rows = min(ROWS, p.rows - first);
    if (thread < ROWS) {
        rows_out[thread] = first + thread;
    }
    inputs_at[0] = (first + there(FIRST_ROWS)) * (p.inputs / 8u);
    inputs_at[1] = (first + there(LAST_ROWS)) * (p.inputs / 8u);
    product(thread, workgroup.y, 0u);
}

// Where the inputs of entries begin.
fn inputs_of(at: vec4<u32>) -> vec4<u32> {
    let entries = vec4<u32>(order[at.x], order[at.y], order[at.z], order[at.w]);
    return (entries / p.picks) * (p.inputs / 8u);
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
    if (thread < tile_rows) {
        rows_out[thread] = order[tile.y + thread];
    }
    inputs_at[0] = inputs_of(tile.y + there(FIRST_ROWS));
    inputs_at[1] = inputs_of(tile.y + there(LAST_ROWS));
    product(thread, workgroup.y, expert * p.outputs);
}
