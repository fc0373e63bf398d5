// Draws by rule, and log-probabilities.
//
// Tokens are ordered by keys of two words: the value as a number that orders as the float does, then the complement of
// the token, so that the highest key is the highest value with the lowest token. 0 is no key.

struct DrawRow {
    seed_low: u32,
    seed_high: u32,
    choice: u32,
    position: u32,
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    lane: i32,
    flags: u32,
    mask: i32,
    first_draft_row: i32,
    draft_rows: i32,
}

const FLAG_COUNTS: u32 = 1u;
const FLAG_LOGIT_BIAS: u32 = 2u;
const PROMPT_SEEN: u32 = 0x80000000u;

struct DrawParams {
    vocabulary: u32,
    // Workgroups that share a row.
    parts: u32,
    // For a chain: which step, and how many rows a block has; otherwise -1.
    step: i32,
    size: u32,
}

var<immediate> p: DrawParams;

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> rules: array<DrawRow>;
// Tokens of the rows that hold drafts; a chain's are in `drawn`.
@group(0) @binding(2) var<storage, read> draft_tokens: array<i32>;
@group(0) @binding(3) var<storage, read> counts: array<u32>;
@group(0) @binding(4) var<storage, read> logit_bias: array<f32>;
@group(0) @binding(5) var<storage, read> masks: array<u32>;
// For a chain: the block's rows.
@group(0) @binding(6) var<storage, read> block_lane: array<i32>;
@group(0) @binding(7) var<storage, read> block_position: array<i32>;
// The best of each part of a row.
@group(0) @binding(8) var<storage, read_write> parts: array<vec2<u32>>;
@group(0) @binding(9) var<storage, read_write> drawn: array<i32>;

const THREADS: u32 = 256u;

// The rule of the workgroup's row, and where the row's logits begin.
var<private> rule: DrawRow;
var<private> first_logit: u32;

// The upper word of a product, from halves.
fn upper_product(a: u32, b: u32) -> u32 {
    let a_low = a & 0xffffu;
    let a_high = a >> 16u;
    let b_low = b & 0xffffu;
    let b_high = b >> 16u;
    let middle = a_high * b_low + ((a_low * b_low) >> 16u);
    let lower = a_low * b_high + (middle & 0xffffu);
    return a_high * b_high + (middle >> 16u) + (lower >> 16u);
}

// The first word of Philox4x32-10.
fn philox(token: u32) -> u32 {
    var key = vec2<u32>(rule.seed_low, rule.seed_high);
    var a = rule.position;
    var b = token;
    var c = rule.choice;
    var d = 0u;
    for (var round = 0u; round < 10u; round++) {
        let first_high = upper_product(0xD2511F53u, a);
        let first_low = 0xD2511F53u * a;
        let second_high = upper_product(0xCD9E8D57u, c);
        let second_low = 0xCD9E8D57u * c;
        a = second_high ^ b ^ key.x;
        b = second_low;
        c = first_high ^ d ^ key.y;
        d = first_low;
        key += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
    }
    return a;
}

fn gumbel(token: u32) -> f32 {
    let uniform_value = (f32(philox(token) >> 9u) + 0.5) * (1.0 / 8388608.0);
    return -logarithm(-logarithm(uniform_value));
}

fn is_allowed(token: u32) -> bool {
    if (rule.mask < 0) {
        return true;
    }
    let words = (p.vocabulary + 31u) / 32u;
    return ((masks[u32(rule.mask) * words + token / 32u] >> (token % 32u)) & 1u) != 0u;
}

fn draft(index: i32) -> i32 {
    if (p.step >= 0) {
        return drawn[rule.first_draft_row + index];
    }
    return draft_tokens[rule.first_draft_row + index];
}

fn penalized(token: u32, logit: f32) -> f32 {
    var value = logit;
    let count = counts[u32(rule.lane) * p.vocabulary + token];
    var in_reply = count & ~PROMPT_SEEN;
    for (var i = 0; i < rule.draft_rows; i++) {
        in_reply += select(0u, 1u, draft(i) == i32(token));
    }
    if ((count & PROMPT_SEEN) != 0u || in_reply > 0u) {
        value = select(value * rule.repetition_penalty, value / rule.repetition_penalty, value > 0.0);
    }
    if (in_reply > 0u) {
        value -= rule.presence_penalty;
        value -= rule.frequency_penalty * f32(in_reply);
    }
    return value;
}

// After logit bias, penalties and temperature.
fn value_of(token: u32) -> f32 {
    var value = logits[first_logit + token];
    if ((rule.flags & FLAG_LOGIT_BIAS) != 0u) {
        value += logit_bias[u32(rule.lane) * p.vocabulary + token];
    }
    if ((rule.flags & FLAG_COUNTS) != 0u) {
        value = penalized(token, value);
    }
    if (rule.temperature != 0.0) {
        value /= rule.temperature;
    }
    return value;
}

fn key_of(token: u32, value: f32) -> vec2<u32> {
    return vec2<u32>(ordered(value), ~token);
}

// Orders what may be drawn; 0 for what the mask forbids.
fn allowed_key(token: u32) -> vec2<u32> {
    if (is_allowed(token)) {
        return key_of(token, value_of(token));
    }
    return vec2<u32>();
}

fn has_filters() -> bool {
    return rule.temperature != 0.0 && (rule.top_k > 0u || rule.top_p < 1.0 || rule.min_p > 0.0);
}

// Reads the rule of the draw with this index; whether there is one.
fn begin(index: u32) -> bool {
    rule = rules[index];
    first_logit = index * p.vocabulary;
    if (p.step < 0) {
        return rule.lane != NO_LANE;
    }
    let first = index * p.size;
    rule.position = u32(block_position[first + u32(p.step)]) + 1u;
    rule.first_draft_row = i32(first);
    rule.draft_rows = p.step;
    return rule.lane != NO_LANE && block_lane[first] != NO_LANE;
}

var<workgroup> keys: array<vec2<u32>, 256>;
var<workgroup> keys_of_sixteen: array<vec2<u32>, 16>;

// The highest of the invocations' keys, in all of them.
fn highest_key(thread: u32, key: vec2<u32>) -> vec2<u32> {
    workgroupBarrier();
    keys[thread] = key;
    workgroupBarrier();
    if (thread < 16u) {
        var best = keys[thread * 16u];
        for (var i = 1u; i < 16u; i++) {
            best = higher_key(best, keys[thread * 16u + i]);
        }
        keys_of_sixteen[thread] = best;
    }
    workgroupBarrier();
    var best = keys_of_sixteen[0];
    for (var i = 1u; i < 16u; i++) {
        best = higher_key(best, keys_of_sixteen[i]);
    }
    return best;
}

// A part of a row without filters: its highest value, with noise unless the draw is greedy.
@compute @workgroup_size(256)
fn draw_parts(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    if (!begin(workgroup.y) || has_filters()) {
        return;
    }
    var best = vec2<u32>();
    for (var token = workgroup.x * THREADS + thread; token < p.vocabulary; token += p.parts * THREADS) {
        if (is_allowed(token)) {
            var value = value_of(token);
            if (rule.temperature != 0.0) {
                value += gumbel(token);
            }
            best = higher_key(best, key_of(token, value));
        }
    }
    best = highest_key(thread, best);
    if (thread == 0u) {
        parts[workgroup.y * p.parts + workgroup.x] = best;
    }
}

// Tokens or masses by a byte of their key, as 64-bit numbers in two words.
var<workgroup> buckets_upper: array<atomic<u32>, 256>;
var<workgroup> buckets_lower: array<atomic<u32>, 256>;
var<workgroup> chosen_bucket: u32;
var<workgroup> chosen_above: vec2<u32>;
var<workgroup> is_found: u32;

fn add_to_bucket(bucket: u32, amount: vec2<u32>) {
    let before = atomicAdd(&buckets_lower[bucket], amount.y);
    let carry = select(0u, 1u, before + amount.y < before);
    atomicAdd(&buckets_upper[bucket], amount.x + carry);
}

// e^(value - highest) in parts of 2^-40, as a whole number, so that a sum has no order.
fn mass_of(key: vec2<u32>, highest: f32) -> vec2<u32> {
    let scaled = exponential(value_of_order(key.x) - highest) * 256.0;
    let upper = floor(scaled);
    return vec2<u32>(u32(upper), u32((scaled - upper) * 4294967296.0));
}

// Whether a key begins with the bytes of `prefix` before byte `digit`.
fn has_prefix(key: vec2<u32>, prefix: vec2<u32>, digit: u32) -> bool {
    if (digit == 0u) {
        return true;
    }
    if (digit < 4u) {
        return ((key.x ^ prefix.x) >> (32u - 8u * digit)) == 0u;
    }
    return key.x == prefix.x && (digit == 4u || ((key.y ^ prefix.y) >> (64u - 8u * digit)) == 0u);
}

fn byte_of(key: vec2<u32>, digit: u32) -> u32 {
    return (select(key.y, key.x, digit < 4u) >> (24u - digit % 4u * 8u)) & 255u;
}

// Fills the buckets of byte `digit` of the keys that are at least `lowest` and begin with `prefix`.
fn fill_buckets(thread: u32, lowest: vec2<u32>, prefix: vec2<u32>, digit: u32, highest: f32, by_mass: bool) {
    atomicStore(&buckets_upper[thread], 0u);
    atomicStore(&buckets_lower[thread], 0u);
    workgroupBarrier();
    for (var token = thread; token < p.vocabulary; token += THREADS) {
        let key = allowed_key(token);
        if (key.x == 0u || is_less(key, lowest) || !has_prefix(key, prefix, digit)) {
            continue;
        }
        var amount = vec2<u32>(0u, 1u);
        if (by_mass) {
            amount = mass_of(key, highest);
        }
        add_to_bucket(byte_of(key, digit), amount);
    }
    workgroupBarrier();
}

// The key at which what lies at or above it first comes to `goal`, in tokens or in mass, among keys of at least
// `lowest`; `lowest` when all of them do not come to it.
fn reach(thread: u32, lowest: vec2<u32>, highest: f32, goal: vec2<u32>, by_mass: bool) -> vec2<u32> {
    var prefix = vec2<u32>();
    var above = vec2<u32>();
    for (var digit = 0u; digit < 8u; digit++) {
        fill_buckets(thread, lowest, prefix, digit, highest, by_mass);
        if (thread == 0u) {
            is_found = 0u;
            var sum = above;
            for (var i = 0u; i < 256u; i++) {
                let bucket = 255u - i;
                let here = vec2<u32>(atomicLoad(&buckets_upper[bucket]), atomicLoad(&buckets_lower[bucket]));
                let next = sum_of_words(sum, here);
                if ((here.x | here.y) != 0u && !is_less(next, goal)) {
                    chosen_bucket = bucket;
                    chosen_above = sum;
                    is_found = 1u;
                    break;
                }
                sum = next;
            }
        }
        workgroupBarrier();
        if (is_found == 0u) {
            return lowest;
        }
        let shift = 24u - digit % 4u * 8u;
        prefix |= select(vec2<u32>(0u, chosen_bucket << shift), vec2<u32>(chosen_bucket << shift, 0u), digit < 4u);
        above = chosen_above;
        workgroupBarrier();
    }
    return prefix;
}

// The mass of all keys of at least `lowest`.
fn total_mass(thread: u32, lowest: vec2<u32>, highest: f32) -> vec2<u32> {
    fill_buckets(thread, lowest, vec2<u32>(), 0u, highest, true);
    var total = vec2<u32>();
    for (var bucket = 0u; bucket < 256u; bucket++) {
        let here = vec2<u32>(atomicLoad(&buckets_upper[bucket]), atomicLoad(&buckets_lower[bucket]));
        total = sum_of_words(total, here);
    }
    workgroupBarrier();
    return total;
}

// A share of a mass, at least 1.
fn share_of(total: vec2<u32>, share: f32) -> vec2<u32> {
    let goal = max(share * fma(f32(total.x), 4294967296.0, f32(total.y)), 1.0);
    let upper = floor(goal * (1.0 / 4294967296.0));
    return vec2<u32>(u32(upper), u32(fma(upper, -4294967296.0, goal)));
}

// A draw with top-k, top-p or min-p.
fn draw_filtered(thread: u32) -> vec2<u32> {
    var best = vec2<u32>();
    for (var token = thread; token < p.vocabulary; token += THREADS) {
        best = higher_key(best, allowed_key(token));
    }
    let highest = value_of_order(highest_key(thread, best).x);
    var lowest = vec2<u32>(0u, 1u);
    if (rule.top_k > 0u) {
        lowest = reach(thread, lowest, highest, vec2<u32>(0u, rule.top_k), false);
    }
    if (rule.top_p < 1.0) {
        let goal = share_of(total_mass(thread, lowest, highest), rule.top_p);
        lowest = reach(thread, lowest, highest, goal, true);
    }
    best = vec2<u32>();
    for (var token = thread; token < p.vocabulary; token += THREADS) {
        let key = allowed_key(token);
        if (key.x == 0u || is_less(key, lowest)) {
            continue;
        }
        let value = value_of_order(key.x);
        if (exponential(value - highest) >= rule.min_p) {
            best = higher_key(best, key_of(token, value + gumbel(token)));
        }
    }
    return highest_key(thread, best);
}

// The token of each row: the best of its parts, or a draw with filters.
@compute @workgroup_size(256)
fn draw_finish(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let index = workgroup.x;
    if (!begin(index)) {
        if (p.step < 0 && thread == 0u) {
            drawn[index] = -1;
        }
        return;
    }
    var best = vec2<u32>();
    if (has_filters()) {
        best = draw_filtered(thread);
    } else {
        for (var part = thread; part < p.parts; part += THREADS) {
            best = higher_key(best, parts[index * p.parts + part]);
        }
        best = highest_key(thread, best);
    }
    if (thread == 0u) {
        drawn[select(index, index * p.size + u32(p.step), p.step >= 0)] = i32(~best.y);
    }
}

struct LogParams {
    vocabulary: u32,
    alternatives: u32,
}

var<immediate> asked: LogParams;

@group(0) @binding(1) var<storage, read> log_drawn: array<i32>;
@group(0) @binding(2) var<storage, read> log_index: array<i32>;
@group(0) @binding(3) var<storage, read_write> log_tokens: array<i32>;
// Bits of floats: a compiler may assume that no float is infinite.
@group(0) @binding(4) var<storage, read_write> log_values: array<u32>;

const NEGATIVE_INFINITY: u32 = 0xff800000u;

var<workgroup> log_sums: array<f32, 256>;

// One workgroup for a row that is asked for.
@compute @workgroup_size(256)
fn log_probabilities(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = log_index[workgroup.x];
    if (row < 0) {
        return;
    }
    let first = u32(row) * asked.vocabulary;
    var best = vec2<u32>();
    for (var token = thread; token < asked.vocabulary; token += THREADS) {
        best = higher_key(best, key_of(token, logits[first + token]));
    }
    best = highest_key(thread, best);
    let highest = value_of_order(best.x);
    var sum = 0.0;
    for (var token = thread; token < asked.vocabulary; token += THREADS) {
        sum += exponential(logits[first + token] - highest);
    }
    log_sums[thread] = sum;
    workgroupBarrier();
    var total = log_sums[0];
    for (var i = 1u; i < THREADS; i++) {
        total += log_sums[i];
    }
    let log_total = logarithm(total);
    let out = workgroup.x * (1u + asked.alternatives);
    if (thread == 0u) {
        let token = log_drawn[row];
        log_tokens[out] = token;
        log_values[out] = bitcast<u32>((logits[first + u32(token)] - highest) - log_total);
    }
    for (var i = 1u; i <= asked.alternatives; i++) {
        if (thread == 0u) {
            let is_one = best.x != 0u;
            log_tokens[out + i] = select(-1, i32(~best.y), is_one);
            let value = bitcast<u32>((value_of_order(best.x) - highest) - log_total);
            log_values[out + i] = select(NEGATIVE_INFINITY, value, is_one);
        }
        var next = vec2<u32>();
        for (var token = thread; token < asked.vocabulary; token += THREADS) {
            let key = key_of(token, logits[first + token]);
            if (is_less(key, best)) {
                next = higher_key(next, key);
            }
        }
        best = highest_key(thread, next);
    }
}
