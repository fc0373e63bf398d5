// Products for many rows: a workgroup has at most 64 rows and 64 outputs, and takes chunk after chunk of both through workgroup
// memory, so that weights are unpacked once for 64 rows. An invocation has 4 outputs of 8 rows and makes their sums alone: it
// goes through the lanes in ascending order and adds them as `few.wgsl` does.

const MANY_ROWS: u32 = 64u;
// Fours of rows, and of outputs.
const FOURS: u32 = 16u;

// A chunk's inputs one after another, each with 64 outputs and, from ROWS_AT on, with 64 rows; in the end sums, row after row.
var<workgroup> values: array<vec4<f32>, 1024>;
const ROWS_AT: u32 = 512u;

// Columns are rows, near ones and those 32 behind: of a lane, of eight lanes, of all.
var<private> near_chain: mat4x4<f32>;
var<private> far_chain: mat4x4<f32>;
var<private> near_part: mat4x4<f32>;
var<private> far_part: mat4x4<f32>;
var<private> near_total: mat4x4<f32>;
var<private> far_total: mat4x4<f32>;

// 8 inputs of 4 rows, or of 4 outputs, on their way to workgroup memory, and where those rows or outputs begin.
var<private> fetched: array<vec4<u32>, 4>;
var<private> fetched_scales: Scales;
var<private> starts: vec4<u32>;

// The first half of the invocations fetches rows, the second outputs.
fn fetches_rows(thread: u32) -> bool {
    return thread < 64u;
}

// Which of the four eights of a chunk's inputs.
fn eight_of(thread: u32) -> u32 {
    return thread % 64u / FOURS;
}

fn fetch(thread: u32, chunk: u32) {
    let eight = eight_of(thread);
    if (fetches_rows(thread)) {
        let at = starts + vec4<u32>(chunk * 4u + eight);
        fetched = across(x[at.x], x[at.y], x[at.z], x[at.w]);
        return;
    }
    let chunks = p.inputs / 32u;
    let at = (starts * vec4<u32>(chunks) + vec4<u32>(chunk)) * vec4<u32>(4u) + vec4<u32>(eight);
    if (FORMAT == 0u) {
        fetched = across(codes[at.x], codes[at.y], codes[at.z], codes[at.w]);
        return;
    }
    if (FORMAT == 1u) {
        fetched[0] = vec4<u32>(code_word(at.x), code_word(at.y), code_word(at.z), code_word(at.w));
    } else {
        let first = at * vec4<u32>(2u);
        let second = first + vec4<u32>(1u);
        fetched[0] = vec4<u32>(code_word(first.x), code_word(first.y), code_word(first.z), code_word(first.w));
        fetched[1] = vec4<u32>(code_word(second.x), code_word(second.y), code_word(second.z), code_word(second.w));
    }
    fetched_scales = scales_of(starts, chunk);
}

// What was fetched goes where all can read it.
fn share_fetched(thread: u32) {
    var at = eight_of(thread) * 8u * FOURS + thread % FOURS;
    var eight: array<vec4<f32>, 8>;
    if (fetches_rows(thread)) {
        at += ROWS_AT;
        eight = of_bf16(fetched);
    } else if (FORMAT == 0u) {
        eight = of_bf16(fetched);
    } else if (FORMAT == 1u) {
        eight = of_affine4(fetched[0], fetched_scales.scale, fetched_scales.bias);
    } else {
        eight = of_affine8(fetched[0], fetched[1], fetched_scales.scale, fetched_scales.bias);
    }
    values[at] = eight[0];
    values[at + FOURS] = eight[1];
    values[at + 2u * FOURS] = eight[2];
    values[at + 3u * FOURS] = eight[3];
    values[at + 4u * FOURS] = eight[4];
    values[at + 5u * FOURS] = eight[5];
    values[at + 6u * FOURS] = eight[6];
    values[at + 7u * FOURS] = eight[7];
}

// One input of 4 outputs and 4 rows.
fn with_input(sums: mat4x4<f32>, weights: vec4<f32>, rows: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        fma(weights, vec4<f32>(rows.x), sums[0]),
        fma(weights, vec4<f32>(rows.y), sums[1]),
        fma(weights, vec4<f32>(rows.z), sums[2]),
        fma(weights, vec4<f32>(rows.w), sums[3]),
    );
}

fn multiply_chunk(thread: u32) {
    let output = thread % FOURS;
    let row = ROWS_AT + thread / FOURS;
    for (var input = 0u; input < 32u; input++) {
        let weights = values[input * FOURS + output];
        near_chain = with_input(near_chain, weights, values[input * FOURS + row]);
        if (tile_rows > 32u) {
            far_chain = with_input(far_chain, weights, values[input * FOURS + row + 8u]);
        }
    }
}

// A lane is summed: it is added to the lanes of its eight, and the last of those to the sum.
fn add_lane(lane: u32, lanes: u32) {
    if (lane % EIGHT == 0u) {
        near_part = near_chain;
        far_part = far_chain;
    } else {
        near_part = near_part + near_chain;
        far_part = far_part + far_chain;
    }
    if (lane + 1u == min(lanes, EIGHT)) {
        near_total = near_part;
        far_total = far_part;
    } else if (lane % EIGHT == EIGHT - 1u) {
        near_total = near_total + near_part;
        far_total = far_total + far_part;
    }
}

// All sums of the tile's rows and the block's outputs, from the matrix row `first_row` on, left in `values`. `rows` is where four
// rows' inputs begin.
fn many_product(thread: u32, block: u32, first_row: u32, rows: vec4<u32>) {
    starts = rows;
    if (!fetches_rows(thread)) {
        starts = rows_of_slot(block * FOURS + thread % FOURS) + vec4<u32>(first_row);
    }
    let lanes = 1u << p.lanes_shift;
    let chunks = p.inputs / 32u;
    fetch(thread, 0u);
    for (var lane = 0u; lane < lanes; lane++) {
        near_chain = mat4x4<f32>();
        far_chain = mat4x4<f32>();
        for (var chunk = lane; chunk < chunks; chunk += lanes) {
            workgroupBarrier();
            share_fetched(thread);
            workgroupBarrier();
            // The next one is on its way while this one is multiplied.
            fetch(thread, min(select(lane + 1u, chunk + lanes, chunk + lanes < chunks), chunks - 1u));
            multiply_chunk(thread);
        }
        add_lane(lane, lanes);
    }
    workgroupBarrier();
    let at = thread / FOURS * 4u * FOURS + thread % FOURS;
    values[at] = near_total[0];
    values[at + FOURS] = near_total[1];
    values[at + 2u * FOURS] = near_total[2];
    values[at + 3u * FOURS] = near_total[3];
    values[at + 32u * FOURS] = far_total[0];
    values[at + 33u * FOURS] = far_total[1];
    values[at + 34u * FOURS] = far_total[2];
    values[at + 35u * FOURS] = far_total[3];
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn linear_many(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = workgroup.x * MANY_ROWS;
    tile_rows = min(MANY_ROWS, p.rows - first);
    let rows = there(thread % FOURS * 4u + FIRST_ROWS);
    many_product(thread, workgroup.y, 0u, (first + rows) * (p.inputs / 8u));
    for (var row = thread / FOURS; row < tile_rows; row += 8u) {
        let output = thread % FOURS;
        write_sums(first + row, workgroup.y * FOURS + output, values[row * FOURS + output]);
    }
}

@compute @workgroup_size(128)
fn expert_linear_many(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let tile = tiles[workgroup.x];
    tile_rows = tile.z;
    let expert = tile.x - p.first_expert;
    if (tile_rows == 0u || expert >= p.experts) {
        return;
    }
    let rows = tile.y + there(thread % FOURS * 4u + FIRST_ROWS);
    many_product(thread, workgroup.y, expert * p.outputs, inputs_of(rows));
    for (var row = thread / FOURS; row < tile_rows; row += 8u) {
        let output = thread % FOURS;
        write_sums(order[tile.y + row], workgroup.y * FOURS + output, values[row * FOURS + output]);
    }
}
