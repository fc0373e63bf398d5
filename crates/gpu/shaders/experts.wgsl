// Mixture of experts: picks of a router, entries in order of their experts, and the picked experts' sum.
//
// An entry is a row and one of its picks: entry = row * picks + pick.

const MOST_EXPERTS: u32 = 256u;
const MOST_PICKS: u32 = 32u;

struct RouteParams {
    experts: u32,
    picks: u32,
    normalize: u32,
    scale: f32,
}

var<immediate> route_rule: RouteParams;

@group(0) @binding(0) var<storage, read> router_logits: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> route_lane: array<i32>;
@group(0) @binding(3) var<storage, read_write> picked_experts: array<i32>;
@group(0) @binding(4) var<storage, read_write> picked_weights: array<f32>;

var<workgroup> biased: array<u32, 256>;
var<workgroup> is_picked: array<u32, 256>;
var<workgroup> picked_scores: array<f32, 32>;

// One workgroup a row, one invocation an expert: it counts those before it, by score and by number.
@compute @workgroup_size(256)
fn route(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) expert: u32) {
    let row = workgroup.x;
    let is_pad = route_lane[row] == NO_LANE;
    let is_expert = expert < route_rule.experts;
    var score = 0.0;
    var order = 0u;
    if (is_expert && !is_pad) {
        score = 1.0 / (1.0 + exponential(-router_logits[row * route_rule.experts + expert]));
        order = ordered(score + bias[expert]);
    }
    biased[expert] = order;
    workgroupBarrier();
    var before = 0u;
    for (var other = 0u; other < route_rule.experts; other++) {
        let is_before = biased[other] > order || (biased[other] == order && other < expert);
        before += select(0u, 1u, is_before);
    }
    let is_mine = is_expert && !is_pad && before < route_rule.picks;
    is_picked[expert] = select(0u, 1u, is_mine);
    workgroupBarrier();
    var pick = 0u;
    if (is_mine) {
        for (var other = 0u; other < expert; other++) {
            pick += is_picked[other];
        }
        picked_scores[pick] = score;
    }
    workgroupBarrier();
    if (is_mine) {
        var total = 1.0;
        if (route_rule.normalize != 0u) {
            total = 0.0;
            for (var i = 0u; i < route_rule.picks; i++) {
                total += picked_scores[i];
            }
            total += 1e-6;
        }
        picked_experts[row * route_rule.picks + pick] = i32(expert);
        picked_weights[row * route_rule.picks + pick] = score / total * route_rule.scale;
    }
    if (is_pad && expert < route_rule.picks) {
        picked_experts[row * route_rule.picks + expert] = -1;
    }
}

struct GroupParams {
    entries: u32,
    experts: u32,
    // The logarithm of a tile's most entries.
    tile_shift: u32,
    // Tiles that there is room for.
    tiles: u32,
    // Where the number of distinct experts goes; none when it is -1.
    layer: i32,
}

var<immediate> grouping: GroupParams;

@group(0) @binding(0) var<storage, read> entry_experts: array<i32>;
@group(0) @binding(1) var<storage, read_write> tiles: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> order: array<u32>;
@group(0) @binding(3) var<storage, read_write> distinct: array<i32>;

var<workgroup> counts: array<atomic<u32>, 256>;
var<workgroup> places: array<atomic<u32>, 256>;
var<workgroup> entries_of: array<u32, 256>;

// Entries by expert, and tiles of entries of one expert. One workgroup.
@compute @workgroup_size(256)
fn group_entries(@builtin(local_invocation_index) thread: u32) {
    atomicStore(&counts[thread], 0u);
    workgroupBarrier();
    for (var entry = thread; entry < grouping.entries; entry += 256u) {
        let expert = entry_experts[entry];
        if (expert >= 0) {
            atomicAdd(&counts[expert], 1u);
        }
    }
    workgroupBarrier();
    let mine = atomicLoad(&counts[thread]);
    entries_of[thread] = mine;
    workgroupBarrier();
    let most = 1u << grouping.tile_shift;
    var first = 0u;
    var tile = 0u;
    var touched = 0u;
    for (var expert = 0u; expert < grouping.experts; expert++) {
        let entries = entries_of[expert];
        if (expert < thread) {
            first += entries;
            tile += (entries + most - 1u) >> grouping.tile_shift;
        }
        touched += select(0u, 1u, entries > 0u);
    }
    atomicStore(&places[thread], first);
    for (var done = 0u; done < mine; done += most) {
        tiles[tile] = vec4<u32>(thread, first + done, min(most, mine - done), 0u);
        tile++;
    }
    // The last invocation has seen all experts.
    if (thread == 255u) {
        for (; tile < grouping.tiles; tile++) {
            tiles[tile] = vec4<u32>();
        }
        if (grouping.layer >= 0) {
            distinct[grouping.layer] = i32(touched);
        }
    }
    workgroupBarrier();
    for (var entry = thread; entry < grouping.entries; entry += 256u) {
        let expert = entry_experts[entry];
        if (expert >= 0) {
            order[atomicAdd(&places[expert], 1u)] = entry;
        }
    }
}

struct CombineParams {
    picks: u32,
    // Words of a row.
    words: u32,
}

var<immediate> combined: CombineParams;

@group(0) @binding(0) var<storage, read> outputs: array<u32>;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read> combine_lane: array<i32>;
@group(0) @binding(3) var<storage, read_write> residual: array<u32>;

// The weighted outputs of a row's picks, in ascending order of experts. One invocation for two values.
@compute @workgroup_size(64)
fn combine_experts(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let word = invocation.x;
    let row = invocation.y;
    if (word >= combined.words || combine_lane[row] == NO_LANE) {
        return;
    }
    var first = 0.0;
    var second = 0.0;
    for (var entry = row * combined.picks; entry < (row + 1u) * combined.picks; entry++) {
        let pair = outputs[entry * combined.words + word];
        first = fma(weights[entry], low(pair), first);
        second = fma(weights[entry], high(pair), second);
    }
    let at = row * combined.words + word;
    residual[at] = added(residual[at], first, second);
}
