// Mixture of experts: picks of a router, entries in order of their experts, and the picked experts' sum.
//
// An entry is a row and one of its picks: entry = row * picks + pick.

struct RouteParams {
    rule: RouteRule,
    // Where entries are grouped at once: rows, and the rest as in `GroupParams`.
    rows: u32,
    tile_shift: u32,
    tiles: u32,
    layer: u32,
}

var<immediate> routed: RouteParams;

@group(0) @binding(0) var<storage, read> router_logits: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read> route_lane: array<i32>;
@group(0) @binding(3) var<storage, read_write> picked_experts: array<i32>;
@group(0) @binding(4) var<storage, read_write> picked_weights: array<f32>;

// A row's picks, by one workgroup: an invocation an expert. Tells its pick; none is `MOST_PICKS`.
fn route_row(row: u32, expert: u32) -> u32 {
    let is_pad = route_lane[row] == NO_LANE;
    let is_expert = expert < routed.rule.experts && !is_pad;
    let at = min(expert, routed.rule.experts - 1u);
    let logit = router_logits[row * routed.rule.experts + at];
    let mine = pick_of(expert, is_expert, logit, bias[at], routed.rule);
    if (mine.pick < MOST_PICKS) {
        picked_experts[row * routed.rule.picks + mine.pick] = i32(expert);
        picked_weights[row * routed.rule.picks + mine.pick] = weight_of(mine.score, routed.rule);
    }
    if (is_pad && expert < routed.rule.picks) {
        picked_experts[row * routed.rule.picks + expert] = -1;
    }
    return mine.pick;
}

@compute @workgroup_size(256)
fn route(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) expert: u32) {
    route_row(workgroup.x, expert);
}

@group(0) @binding(5) var<storage, read_write> few_tiles: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> few_order: array<u32>;
@group(0) @binding(7) var<storage, read_write> few_distinct: array<i32>;

// The expert of an entry of a pad row.
const NO_EXPERT: u32 = 0xffffffffu;
const BEGINS_TILE: u32 = 1u;
const BEGINS_EXPERT: u32 = 2u;

// By entry; and by place in the order of experts.
var<workgroup> few_experts: array<u32, 256>;
var<workgroup> beginnings: array<u32, 256>;

// `route` and then `group_entries` for rows that have at most 256 entries, an invocation each. One workgroup.
@compute @workgroup_size(256)
fn route_few(@builtin(local_invocation_index) thread: u32) {
    few_experts[thread] = NO_EXPERT;
    beginnings[thread] = 0u;
    for (var row = 0u; row < routed.rows; row++) {
        workgroupBarrier();
        let pick = route_row(row, thread);
        if (pick < MOST_PICKS) {
            few_experts[row * routed.rule.picks + pick] = thread;
        }
    }
    workgroupBarrier();
    let entries = routed.rows * routed.rule.picks;
    let most = 1u << routed.tile_shift;
    let expert = few_experts[thread];
    var place = 0u;
    var before = 0u;
    var of_expert = 0u;
    for (var other = 0u; other < entries; other++) {
        let is_same = few_experts[other] == expert;
        let is_before = is_same && other < thread;
        place += select(0u, 1u, few_experts[other] < expert || is_before);
        before += select(0u, 1u, is_before);
        of_expert += select(0u, 1u, is_same);
    }
    let begins_tile = expert != NO_EXPERT && before % most == 0u;
    if (begins_tile) {
        beginnings[place] = BEGINS_TILE | select(0u, BEGINS_EXPERT, before == 0u);
    }
    workgroupBarrier();
    var tile = 0u;
    var all_tiles = 0u;
    var touched = 0u;
    for (var other = 0u; other < entries; other++) {
        let begins = beginnings[other];
        tile += select(0u, begins & BEGINS_TILE, other < place);
        all_tiles += begins & BEGINS_TILE;
        touched += begins / BEGINS_EXPERT;
    }
    if (begins_tile) {
        few_tiles[tile] = vec4<u32>(expert, place, min(most, of_expert - before), 0u);
    }
    if (expert != NO_EXPERT) {
        few_order[place] = thread;
    }
    for (var empty = all_tiles + thread; empty < routed.tiles; empty += 256u) {
        few_tiles[empty] = vec4<u32>();
    }
    if (thread == 0u) {
        few_distinct[routed.layer] = i32(touched);
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
