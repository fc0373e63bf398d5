// Products for few rows: 128 invocations are slots of some lanes each, and add their lanes through workgroup memory. A workgroup
// has at most ROWS rows, whose sums stay in registers, so that weights are unpacked once for all of them. A row that is not there
// is summed as one that is, and written nowhere. `stored.wgsl` and `normed.wgsl` say what `input` is, and have the entries.

// Rows that the code is made for: 1, 4 or 8.
override ROWS: u32 = 8u;

var<workgroup> partials: array<vec4<f32>, ROWS * THREADS>;
var<workgroup> rows_out: array<u32, ROWS>;

// Sums of 4 outputs for each row, and where each row's inputs begin. Indices are constants: what is indexed by a number that only
// the run knows is not kept in registers.
var<private> sums: array<vec4<f32>, 8>;
var<private> inputs_at: array<vec4<u32>, 2>;

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
    sums[0] = with_row(sums[0], weights, input(inputs_at[0].x + at));
    if (ROWS > 1u) {
        sums[1] = with_row(sums[1], weights, input(inputs_at[0].y + at));
        sums[2] = with_row(sums[2], weights, input(inputs_at[0].z + at));
        sums[3] = with_row(sums[3], weights, input(inputs_at[0].w + at));
    }
    if (ROWS > 4u) {
        sums[4] = with_row(sums[4], weights, input(inputs_at[1].x + at));
        sums[5] = with_row(sums[5], weights, input(inputs_at[1].y + at));
        sums[6] = with_row(sums[6], weights, input(inputs_at[1].z + at));
        sums[7] = with_row(sums[7], weights, input(inputs_at[1].w + at));
    }
}

// 16 bytes of codes of each of 4 outputs: a quarter of a chunk of bf16, half of one of 8-bit codes, a chunk of 4-bit codes.
struct Part {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
    scales: Scales,
}

// The logarithm of a chunk's parts.
fn parts_shift() -> u32 {
    if (FORMAT == 0u) {
        return 2u;
    }
    return select(0u, 1u, FORMAT == 2u);
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
        part.scales = scales_of(output, chunk);
    }
    return part;
}

// Eights of codes one after another, in a loop whose end a compiler does not know. Unrolled, the kernels of a round have more
// instructions than a GPU keeps near its units: fetching them took 0.35 of a round's 3.3 ms at the 24B shape on an H200.
fn multiply_part(part: Part, lane: u32, step: u32) {
    let chunk = lane + ((step >> parts_shift()) << p.lanes_shift);
    let in_chunk = step & ((1u << parts_shift()) - 1u);
    let at = chunk * 4u + (in_chunk << (2u - parts_shift()));
    let scale = part.scales.scale;
    let bias = part.scales.bias;
    var words = across(part.a, part.b, part.c, part.d);
    if (FORMAT == 0u) {
        multiply(of_bf16(words), at);
        return;
    }
    let end = at + min(4u >> parts_shift(), p.inputs);
    for (var eight = at; eight < end; eight++) {
        if (FORMAT == 1u) {
            multiply(of_affine4(words[0], scale, bias), eight);
            words[0] = words[1];
            words[1] = words[2];
            words[2] = words[3];
        } else {
            multiply(of_affine8(words[0], words[1], scale, bias), eight);
            words[0] = words[2];
            words[1] = words[3];
        }
    }
}

// All sums of a lane from its first part on; each part is on its way while the one before it is multiplied.
fn sum_lane(first: Part, output: vec4<u32>, lane: u32) {
    let lanes = 1u << p.lanes_shift;
    let steps = ((p.inputs / 32u - lane + lanes - 1u) >> p.lanes_shift) << parts_shift();
    var next = first;
    for (var step = 0u; step < steps; step++) {
        let part = next;
        if (step + 1u < steps) {
            next = load_part(output, lane, step + 1u);
        }
        multiply_part(part, lane, step);
    }
}

// The lane of an invocation, and its slot among those of the workgroup.
fn lane_of(thread: u32) -> u32 {
    return thread & ((1u << p.lanes_shift) - 1u);
}

fn slot_of(thread: u32) -> u32 {
    return thread >> p.lanes_shift;
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

// Shares the sums; eights of lanes are added, one an invocation, so that the last sums are short.
fn share_lanes(thread: u32) {
    share_sums(thread);
    workgroupBarrier();
    if ((1u << p.lanes_shift) > EIGHT) {
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
}

// The sums of a slot for a row of the tile.
fn total_of(row: u32, slot: u32) -> vec4<f32> {
    let lanes = 1u << p.lanes_shift;
    let first = row * THREADS + slot * lanes;
    let step = select(1u, EIGHT, lanes > EIGHT);
    var total = partials[first];
    for (var lane = step; lane < lanes; lane += step) {
        total += partials[first + lane];
    }
    return total;
}

// Adds the lanes of all slots and rows, and writes what becomes of them.
fn write_tile(thread: u32, block: u32) {
    share_lanes(thread);
    let slots = THREADS >> p.lanes_shift;
    for (var unit = thread; unit < tile_rows * slots; unit += THREADS) {
        let slot = unit & (slots - 1u);
        let row = unit >> (7u - p.lanes_shift);
        write_sums(rows_out[row], block * slots + slot, total_of(row, slot));
    }
}
