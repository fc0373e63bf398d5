// Head norms with rotation and append, and attention over pages. Heads are 64 wide.
//
// A page's keys are summed by one workgroup, for one row and up to 4 query heads of one key head, always by the same
// code; pages are merged in their order.

const HEAD: u32 = 64u;
const HEAD_WORDS: u32 = 32u;

struct RopeParams {
    query_heads: u32,
    key_value_heads: u32,
    pages_per_lane: u32,
    epsilon: f32,
}

var<immediate> rope: RopeParams;

@group(0) @binding(0) var<storage, read_write> stacked: array<u32>;
@group(0) @binding(1) var<storage, read> query_norm: array<u32>;
@group(0) @binding(2) var<storage, read> key_norm: array<u32>;
@group(0) @binding(3) var<storage, read> cos_sin: array<f32>;
@group(0) @binding(4) var<storage, read> rope_pages: array<i32>;
@group(0) @binding(5) var<storage, read> rope_lane: array<i32>;
@group(0) @binding(6) var<storage, read> rope_position: array<i32>;
@group(0) @binding(7) var<storage, read_write> rope_keys: array<u32>;
@group(0) @binding(8) var<storage, read_write> rope_values: array<u32>;

var<workgroup> head_squares: array<f32, 64>;

// A normed value: rounded, by the weight, rounded again.
fn normed(value: f32, scale: f32, weight: f32) -> f32 {
    return rounded(weight * rounded(value * scale));
}

// 16 invocations a head, 4 heads a workgroup. Each has words i and i + 16: both values of two pairs.
@compute @workgroup_size(64)
fn rope_append(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = workgroup.y;
    let heads = rope.query_heads + 2u * rope.key_value_heads;
    let head = workgroup.x * 4u + thread / 16u;
    let i = thread % 16u;
    let lane = rope_lane[row];
    let is_there = head < heads && lane != NO_LANE;
    let at = (row * heads + min(head, heads - 1u)) * HEAD_WORDS + i;
    var first = stacked[at];
    var second = stacked[at + 16u];
    var part = fma(high(first), high(first), low(first) * low(first));
    part = fma(high(second), high(second), fma(low(second), low(second), part));
    head_squares[thread] = part;
    workgroupBarrier();
    if (!is_there) {
        return;
    }
    let position = u32(rope_position[row]);
    let is_query = head < rope.query_heads;
    let is_value = head >= rope.query_heads + rope.key_value_heads;
    if (!is_value) {
        var total = head_squares[thread - i];
        for (var j = 1u; j < 16u; j++) {
            total += head_squares[thread - i + j];
        }
        let scale = 1.0 / sqrt(total / f32(HEAD) + rope.epsilon);
        var weight = vec2<u32>(key_norm[i], key_norm[i + 16u]);
        if (is_query) {
            weight = vec2<u32>(query_norm[i], query_norm[i + 16u]);
        }
        let a = normed(low(first), scale, low(weight.x));
        let b = normed(high(first), scale, high(weight.x));
        let c = normed(low(second), scale, low(weight.y));
        let d = normed(high(second), scale, high(weight.y));
        let angle = position * HEAD + 2u * i;
        let cosine = vec2<f32>(cos_sin[angle], cos_sin[angle + 1u]);
        let sine = vec2<f32>(cos_sin[angle + 32u], cos_sin[angle + 33u]);
        first = narrow(fma(a, cosine.x, -(c * sine.x)), fma(b, cosine.y, -(d * sine.y)));
        second = narrow(fma(c, cosine.x, a * sine.x), fma(d, cosine.y, b * sine.y));
        stacked[at] = first;
        stacked[at + 16u] = second;
    }
    if (is_query) {
        return;
    }
    let key_head = (head - rope.query_heads) % rope.key_value_heads;
    let page = u32(rope_pages[u32(lane) * rope.pages_per_lane + position / PAGE]);
    let slot = ((page * rope.key_value_heads + key_head) * PAGE + position % PAGE) * HEAD_WORDS + i;
    if (is_value) {
        rope_values[slot] = first;
        rope_values[slot + 16u] = second;
    } else {
        rope_keys[slot] = first;
        rope_keys[slot + 16u] = second;
    }
}

struct AttentionParams {
    first_row: u32,
    query_heads: u32,
    key_value_heads: u32,
    pages_per_lane: u32,
    // Workgroups that share the pages of a row.
    shares: u32,
}

var<immediate> attended: AttentionParams;

@group(0) @binding(0) var<storage, read> queries: array<u32>;
@group(0) @binding(1) var<storage, read> keys: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> values: array<u32>;
@group(0) @binding(3) var<storage, read> pages: array<i32>;
@group(0) @binding(4) var<storage, read> lanes: array<i32>;
@group(0) @binding(5) var<storage, read> key_ends: array<i32>;
// [row from first_row, query head, page]: highest score, weight, 64 values
@group(0) @binding(6) var<storage, read_write> partials: array<f32>;

const PARTIAL: u32 = 66u;
// Query heads that share a workgroup.
const HEADS: u32 = 4u;

// Values of 4 heads side by side.
var<workgroup> query: array<vec4<f32>, 64>;
var<workgroup> scores: array<vec4<f32>, 256>;
var<workgroup> of_sixteen: array<vec4<f32>, 16>;
var<workgroup> value_parts: array<vec4<f32>, 512>;

fn score(key: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var i = 0u; i < 8u; i++) {
        let words = keys[key * 8u + i];
        sum = fma(vec4<f32>(low(words.x)), query[8u * i], sum);
        sum = fma(vec4<f32>(high(words.x)), query[8u * i + 1u], sum);
        sum = fma(vec4<f32>(low(words.y)), query[8u * i + 2u], sum);
        sum = fma(vec4<f32>(high(words.y)), query[8u * i + 3u], sum);
        sum = fma(vec4<f32>(low(words.z)), query[8u * i + 4u], sum);
        sum = fma(vec4<f32>(high(words.z)), query[8u * i + 5u], sum);
        sum = fma(vec4<f32>(low(words.w)), query[8u * i + 6u], sum);
        sum = fma(vec4<f32>(high(words.w)), query[8u * i + 7u], sum);
    }
    // 1 / sqrt(64)
    return sum * 0.125;
}

fn exponential4(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(exponential(x.x), exponential(x.y), exponential(x.z), exponential(x.w));
}

// The highest of all 256 entries of `scores`, in every invocation.
fn highest_score(thread: u32) -> vec4<f32> {
    workgroupBarrier();
    if (thread < 16u) {
        var highest = scores[thread * 16u];
        for (var i = 1u; i < 16u; i++) {
            highest = max(highest, scores[thread * 16u + i]);
        }
        of_sixteen[thread] = highest;
    }
    workgroupBarrier();
    var highest = of_sixteen[0];
    for (var i = 1u; i < 16u; i++) {
        highest = max(highest, of_sixteen[i]);
    }
    return highest;
}

// The values of `seen` keys from word `start` on, weighted by `scores`; invocation t gets a part of dimensions 2 (t %
// 32) and the next, over keys 32 (t / 32) and the 31 after it.
fn weigh_values(thread: u32, start: u32, seen: u32) {
    let word = thread % 32u;
    let first = thread / 32u * 32u;
    var even = vec4<f32>();
    var odd = vec4<f32>();
    for (var key = first; key < min(first + 32u, seen); key++) {
        let pair = values[start + key * HEAD_WORDS + word];
        even = fma(scores[key], vec4<f32>(low(pair)), even);
        odd = fma(scores[key], vec4<f32>(high(pair)), odd);
    }
    value_parts[thread / 32u * HEAD + 2u * word] = even;
    value_parts[thread / 32u * HEAD + 2u * word + 1u] = odd;
}

// One workgroup for a row, up to 4 query heads of a key head, and a share of the pages.
@compute @workgroup_size(256)
fn attention(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = attended.first_row + workgroup.x;
    let group = attended.query_heads / attended.key_value_heads;
    let batches = (group + HEADS - 1u) / HEADS;
    let key_head = workgroup.y / batches;
    let in_group = workgroup.y % batches * HEADS;
    let heads = min(HEADS, group - in_group);
    let first_head = key_head * group + in_group;
    let lane = lanes[row];
    if (lane == NO_LANE) {
        return;
    }
    let key_end = u32(key_ends[row]);
    let width = (attended.query_heads + 2u * attended.key_value_heads) * HEAD_WORDS;
    if (thread < HEAD) {
        var dimension = vec4<f32>();
        for (var i = 0u; i < HEADS; i++) {
            let head = first_head + min(i, heads - 1u);
            let pair = queries[row * width + head * HEAD_WORDS + thread / 2u];
            dimension[i] = select(low(pair), high(pair), thread % 2u == 1u);
        }
        query[thread] = dimension;
    }
    workgroupBarrier();
    for (var page = workgroup.z; page * PAGE < key_end; page += attended.shares) {
        let number = u32(pages[u32(lane) * attended.pages_per_lane + page]);
        let start = (number * attended.key_value_heads + key_head) * PAGE;
        let seen = min(PAGE, key_end - page * PAGE);
        var mine = vec4<f32>(LOWEST);
        if (thread < seen) {
            mine = score(start + thread);
        }
        scores[thread] = mine;
        let highest = highest_score(thread);
        workgroupBarrier();
        scores[thread] = select(vec4<f32>(), exponential4(mine - highest), thread < seen);
        workgroupBarrier();
        weigh_values(thread, start * HEAD_WORDS, seen);
        if (thread < 16u) {
            var weight = scores[thread * 16u];
            for (var i = 1u; i < 16u; i++) {
                weight += scores[thread * 16u + i];
            }
            of_sixteen[thread] = weight;
        }
        workgroupBarrier();
        if (thread < HEAD) {
            var total = value_parts[thread];
            for (var i = 1u; i < 8u; i++) {
                total += value_parts[i * HEAD + thread];
            }
            var weight = of_sixteen[0];
            for (var i = 1u; i < 16u; i++) {
                weight += of_sixteen[i];
            }
            for (var i = 0u; i < heads; i++) {
                let sums = (workgroup.x * attended.query_heads + first_head + i) * attended.pages_per_lane + page;
                partials[sums * PARTIAL + 2u + thread] = total[i];
                if (thread == 0u) {
                    partials[sums * PARTIAL] = highest[i];
                    partials[sums * PARTIAL + 1u] = weight[i];
                }
            }
        }
        workgroupBarrier();
    }
}

@group(0) @binding(0) var<storage, read> page_sums: array<f32>;
@group(0) @binding(1) var<storage, read> merge_lane: array<i32>;
@group(0) @binding(2) var<storage, read> merge_key_end: array<i32>;
@group(0) @binding(3) var<storage, read_write> attention_out: array<u32>;

// The pages of a row and head, in order. One invocation for two of the 64 values.
@compute @workgroup_size(32)
fn attention_merge(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = attended.first_row + workgroup.x;
    if (merge_lane[row] == NO_LANE) {
        return;
    }
    let key_end = u32(merge_key_end[row]);
    let first = (workgroup.x * attended.query_heads + workgroup.y) * attended.pages_per_lane;
    var highest = LOWEST;
    var weight = 0.0;
    var even = 0.0;
    var odd = 0.0;
    for (var page = 0u; page * PAGE < key_end; page++) {
        let sums = (first + page) * PARTIAL;
        let both = max(highest, page_sums[sums]);
        let mine = exponential(highest - both);
        let theirs = exponential(page_sums[sums] - both);
        highest = both;
        weight = fma(weight, mine, page_sums[sums + 1u] * theirs);
        even = fma(even, mine, page_sums[sums + 2u + 2u * thread] * theirs);
        odd = fma(odd, mine, page_sums[sums + 3u + 2u * thread] * theirs);
    }
    attention_out[(row * attended.query_heads + workgroup.y) * HEAD_WORDS + thread] =
        narrow(even / weight, odd / weight);
}
