// The picks of a row, by a workgroup that has an invocation for each expert.

const MOST_PICKS: u32 = 32u;

struct RouteRule {
    experts: u32,
    picks: u32,
    normalize: u32,
    scale: f32,
}

struct Pick {
    // Its place among the row's picks; `MOST_PICKS` where the expert is not picked.
    pick: u32,
    // Its score, without the bias.
    score: f32,
}

var<workgroup> biased: array<u32, 256>;
// A bit an expert.
var<workgroup> picked: array<atomic<u32>, 8>;
var<workgroup> picked_scores: array<f32, 32>;

// How many of the four experts from `first` on come before one, by score and by number. Those that are not there do not.
fn before_of_four(first: u32, expert: u32, order: u32) -> u32 {
    let others = vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u);
    let orders = vec4<u32>(biased[others.x], biased[others.y], biased[others.z], biased[others.w]);
    let is_equal = orders == vec4<u32>(order);
    let is_before = (orders > vec4<u32>(order)) | (is_equal & (others < vec4<u32>(expert)));
    let counted = select(vec4<u32>(), vec4<u32>(1u), is_before);
    return counted.x + counted.y + counted.z + counted.w;
}

// Picked experts of lower numbers.
fn picked_before(expert: u32) -> u32 {
    let lower = (1u << (expert % 32u)) - 1u;
    var before = countOneBits(atomicLoad(&picked[expert / 32u]) & lower);
    for (var word = 0u; word < expert / 32u; word++) {
        before += countOneBits(atomicLoad(&picked[word]));
    }
    return before;
}

// Whether an expert is picked: it counts those before it, four at a time, for every workgroup of an expert's product waits for
// this. All invocations of the workgroup call it; when it returns, all see `picked_scores`.
fn pick_of(expert: u32, is_expert: bool, logit: f32, bias: f32, rule: RouteRule) -> Pick {
    let score = 1.0 / (1.0 + exponential(-logit));
    let order = select(0u, ordered(score + bias), is_expert);
    biased[expert] = order;
    if (expert < 8u) {
        atomicStore(&picked[expert], 0u);
    }
    workgroupBarrier();
    var is_picked = false;
    if (is_expert) {
        var before = 0u;
        for (var first = 0u; first < rule.experts; first += 4u) {
            before += before_of_four(first, expert, order);
        }
        is_picked = before < rule.picks;
    }
    if (is_picked) {
        atomicOr(&picked[expert / 32u], 1u << (expert % 32u));
    }
    workgroupBarrier();
    var mine = Pick(MOST_PICKS, score);
    if (is_picked) {
        mine.pick = picked_before(expert);
        picked_scores[mine.pick] = score;
    }
    workgroupBarrier();
    return mine;
}

// What a picked expert is weighted by.
fn weight_of(score: f32, rule: RouteRule) -> f32 {
    var total = 1.0;
    if (rule.normalize != 0u) {
        total = 0.0;
        for (var i = 0u; i < rule.picks; i++) {
            total += picked_scores[i];
        }
        total += 1e-6;
    }
    return score / total * rule.scale;
}
