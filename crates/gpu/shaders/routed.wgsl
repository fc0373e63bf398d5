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
    let is_pad = router_lane[0] == NO_LANE;
    let writes = workgroup.x + workgroup.y == 0u;
    let is_expert = thread < p.experts && !is_pad;
    var logit = 0.0;
    var bias = 0.0;
    if (is_expert) {
        logit = logits[thread];
        bias = router_bias[thread];
    }
    let mine = pick_of(thread, is_expert, logit, bias, RouteRule(p.experts, p.picks, p.normalize, p.scale));
    if (mine.pick < MOST_PICKS) {
        expert_of_pick[mine.pick] = thread;
        if (writes) {
            picked_experts[mine.pick] = i32(thread);
            picked_weights[mine.pick] = mine.weight;
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
