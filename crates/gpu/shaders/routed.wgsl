// The first product of one row's experts, with the row's picks: every workgroup makes them for itself, and one writes them.

@group(0) @binding(5) var<storage, read> router_bias: array<f32>;
@group(0) @binding(6) var<storage, read> router_lane: array<i32>;
@group(0) @binding(7) var<storage, read_write> picked_experts: array<i32>;
@group(0) @binding(8) var<storage, read_write> picked_weights: array<f32>;
@group(0) @binding(9) var<storage, read_write> distinct: array<i32>;

var<workgroup> expert_of_pick: array<u32, 32>;

// At most 128 experts, whose router's logits are `logits`.
@compute @workgroup_size(128)
fn expert_linear_routed(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    // All that is read first is asked for at once, for pad rows and places of no expert as well.
    let lane = router_lane[0];
    let expert = min(thread, p.experts - 1u);
    let logit = logits[expert];
    let bias = router_bias[expert];
    let is_pad = lane == NO_LANE;
    let writes = workgroup.x + workgroup.y == 0u;
    let rule = RouteRule(p.experts, p.picks, p.normalize, p.scale);
    let mine = pick_of(thread, thread < p.experts && !is_pad, logit, bias, rule);
    if (mine.pick < MOST_PICKS) {
        expert_of_pick[mine.pick] = thread;
        if (writes) {
            picked_experts[mine.pick] = i32(thread);
            picked_weights[mine.pick] = weight_of(mine.score, rule);
        }
    }
    if (writes && thread == 0u) {
        distinct[p.layer] = select(i32(p.picks), 0, is_pad);
    }
    if (is_pad) {
        if (writes && thread < p.picks) {
            picked_experts[thread] = -1;
        }
        return;
    }
    tile_rows = 1u;
    if (thread == 0u) {
        rows_out[0] = workgroup.x;
    }
    inputs_at[0] = vec4<u32>();
    workgroupBarrier();
    product(thread, workgroup.y, expert_of_pick[workgroup.x] * p.outputs);
}
