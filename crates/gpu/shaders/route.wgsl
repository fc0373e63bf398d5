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
    weight: f32,
}

var<workgroup> biased: array<u32, 256>;
var<workgroup> is_picked: array<u32, 256>;
var<workgroup> picked_scores: array<f32, 32>;

// Whether an expert is picked: it counts those before it, by score and by number. All invocations of the workgroup call it.
fn pick_of(expert: u32, is_expert: bool, logit: f32, bias: f32, rule: RouteRule) -> Pick {
    var score = 0.0;
    var order = 0u;
    if (is_expert) {
        score = 1.0 / (1.0 + exponential(-logit));
        order = ordered(score + bias);
    }
    biased[expert] = order;
    workgroupBarrier();
    var before = 0u;
    for (var other = 0u; other < rule.experts; other++) {
        let is_before = biased[other] > order || (biased[other] == order && other < expert);
        before += select(0u, 1u, is_before);
    }
    let is_mine = is_expert && before < rule.picks;
    is_picked[expert] = select(0u, 1u, is_mine);
    workgroupBarrier();
    var mine = Pick(MOST_PICKS, 0.0);
    if (is_mine) {
        mine.pick = 0u;
        for (var other = 0u; other < expert; other++) {
            mine.pick += is_picked[other];
        }
        picked_scores[mine.pick] = score;
    }
    workgroupBarrier();
    if (is_mine) {
        var total = 1.0;
        if (rule.normalize != 0u) {
            total = 0.0;
            for (var i = 0u; i < rule.picks; i++) {
                total += picked_scores[i];
            }
            total += 1e-6;
        }
        mine.weight = score / total * rule.scale;
    }
    return mine;
}
