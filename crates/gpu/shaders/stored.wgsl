// Products for few rows that are read as they are stored.

fn input(at: u32) -> vec4<u32> {
    return x[at];
}

// All sums of the workgroup's slots and rows, from the matrix row `first_row` on.
fn product(thread: u32, block: u32, first_row: u32) {
    let slots = THREADS >> p.lanes_shift;
    let output = rows_of_slot(block * slots + slot_of(thread)) + vec4<u32>(first_row);
    sum_lane(load_part(output, lane_of(thread), 0u), output, lane_of(thread));
    write_tile(thread, block);
}

@compute @workgroup_size(128)
fn linear(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = workgroup.x * ROWS;
    tile_rows = min(ROWS, p.rows - first);
    if (thread < ROWS) {
        rows_out[thread] = first + thread;
    }
    inputs_at[0] = (first + there(FIRST_ROWS)) * (p.inputs / 8u);
    inputs_at[1] = (first + there(FIRST_ROWS + 4u)) * (p.inputs / 8u);
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
    if (thread < tile_rows) {
        rows_out[thread] = order[tile.y + thread];
    }
    inputs_at[0] = inputs_of(tile.y + there(FIRST_ROWS));
    inputs_at[1] = inputs_of(tile.y + there(FIRST_ROWS + 4u));
    product(thread, workgroup.y, expert * p.outputs);
}

@group(0) @binding(4) var<storage, read> down_experts: array<i32>;
@group(0) @binding(5) var<storage, read> down_weights: array<f32>;

var<workgroup> weights_of_picks: array<f32, MOST_PICKS>;

// Two words of the row that is added to, from `output` on; the last ones where there are no more.
fn residual_of(output: u32) -> vec2<u32> {
    let last = p.outputs - 2u;
    return vec2<u32>(out[min(output, last) / 2u], out[min(output + 2u, last) / 2u]);
}

fn add_to(residual: vec2<u32>, output: u32, sum: vec4<f32>) {
    if (output < p.outputs) {
        out[output / 2u] = added(residual.x, sum.x, sum.y);
    }
    if (output + 2u < p.outputs) {
        out[output / 2u + 1u] = added(residual.y, sum.z, sum.w);
    }
}

// The weighted sums of one row's picks, in ascending order of experts: for each four of outputs a slot a pick, so that
// none waits for another. Each pick's sums are rounded before they are weighted, as `combine_experts` finds them.
@compute @workgroup_size(128)
fn expert_down(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let fours = (THREADS >> p.lanes_shift) / p.picks;
    let pick = slot_of(thread) % p.picks;
    let four = slot_of(thread) / p.picks;
    let mine = (workgroup.y * fours + min(thread, fours - 1u)) * 4u;
    // All that does not wait for the experts is asked for with them.
    let first_expert = down_experts[0];
    let expert = down_experts[pick];
    let weight = down_weights[min(thread, p.picks - 1u)];
    let residual = residual_of(mine);
    if (first_expert < 0) {
        // A pad row has no experts.
        return;
    }
    if (thread < p.picks) {
        weights_of_picks[thread] = weight;
    }
    tile_rows = 1u;
    if (four < fours) {
        let output = rows_of_slot(workgroup.y * fours + four) + vec4<u32>(u32(expert) * p.outputs);
        inputs_at[0] = vec4<u32>(pick * (p.inputs / 8u));
        sum_lane(load_part(output, lane_of(thread), 0u), output, lane_of(thread));
    }
    share_lanes(thread);
    if (thread < fours) {
        var sum = vec4<f32>();
        for (var of_row = 0u; of_row < p.picks; of_row++) {
            let total = total_of(0u, thread * p.picks + of_row);
            let values = vec4<f32>(rounded(total.x), rounded(total.y), rounded(total.z), rounded(total.w));
            sum = fma(vec4<f32>(weights_of_picks[of_row]), values, sum);
        }
        add_to(residual, mine, sum);
    }
}
