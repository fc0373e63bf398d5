// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size4;
    uint size5;
    uint size6;
    uint size7;
    uint size8;
};

struct RouteRule {
    uint experts;
    uint picks;
    uint normalize;
    float scale;
};
struct Pick {
    uint pick;
    float score;
};
struct type_4 {
    uint inner[256];
};
struct type_6 {
    metal::atomic_uint inner[8];
};
struct type_7 {
    float inner[32];
};
struct RouteParams {
    RouteRule rule;
    uint rows;
    uint tile_shift;
    uint tiles;
    uint layer;
};
typedef float type_9[1];
typedef int type_10[1];
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint MOST_PICKS = 32u;
constant uint NO_EXPERT = 4294967295u;
constant uint BEGINS_TILE = 1u;
constant uint BEGINS_EXPERT = 2u;

int naga_f2i32(float value) {
    return static_cast<int>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

float exponential(
    float x
) {
    float series = {};
    float bounded = metal::clamp(x, -87.3, 88.0);
    float exponent = metal::floor(metal::fma(bounded, 1.442695, 0.5));
    float r = metal::fma(exponent, -0.0000014286068, metal::fma(exponent, -0.69314575, bounded));
    series = metal::fma(0.0001984127, r, 0.0013888889);
    float _e16 = series;
    series = metal::fma(_e16, r, 0.008333334);
    float _e19 = series;
    series = metal::fma(_e19, r, 0.041666668);
    float _e22 = series;
    series = metal::fma(_e22, r, 0.16666667);
    float _e25 = series;
    series = metal::fma(_e25, r, 0.5);
    float _e28 = series;
    float mantissa = 1.0 + metal::fma(_e28, r * r, r);
    float value_1 = mantissa * as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(naga_f2i32(exponent)) + as_type<uint>(127))) << 23u);
    return (x < -87.3) ? 0.0 : value_1;
}

uint ordered(
    float value
) {
    uint bits = (value == 0.0) ? 0u : as_type<uint>(value);
    return ((bits & 2147483648u) != 0u) ? ~(bits) : (bits | 2147483648u);
}

uint before_of_four(
    uint first,
    uint expert_1,
    uint order,
    threadgroup type_4& biased
) {
    metal::uint4 others = metal::uint4(first) + metal::uint4(0u, 1u, 2u, 3u);
    uint _e13 = biased.inner[others.x];
    uint _e17 = biased.inner[others.y];
    uint _e21 = biased.inner[others.z];
    uint _e25 = biased.inner[others.w];
    metal::uint4 orders = metal::uint4(_e13, _e17, _e21, _e25);
    metal::bool4 is_equal = orders == metal::uint4(order);
    metal::bool4 is_before = (orders > metal::uint4(order)) | (is_equal & (others < metal::uint4(expert_1)));
    metal::uint4 counted = metal::select(metal::uint4 {}, metal::uint4(1u), is_before);
    return ((counted.x + counted.y) + counted.z) + counted.w;
}

uint picked_before(
    uint expert_2,
    threadgroup type_6& picked
) {
    uint before = {};
    uint word = 0u;
    uint lower = (1u << (expert_2 % 32u)) - 1u;
    uint _e11 = metal::atomic_load_explicit(&picked.inner[expert_2 / 32u], metal::memory_order_relaxed);
    before = metal::popcount(_e11 & lower);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e29 = word;
            word = _e29 + 1u;
        }
        loop_init = false;
        uint _e17 = word;
        if (_e17 < (expert_2 / 32u)) {
        } else {
            break;
        }
        {
            uint _e21 = before;
            uint _e23 = word;
            uint _e25 = metal::atomic_load_explicit(&picked.inner[_e23], metal::memory_order_relaxed);
            before = _e21 + metal::popcount(_e25);
        }
    }
    uint _e31 = before;
    return _e31;
}

Pick pick_of(
    uint expert_3,
    bool is_expert,
    float logit,
    float bias,
    RouteRule rule,
    threadgroup type_4& biased,
    threadgroup type_6& picked,
    threadgroup type_7& picked_scores
) {
    bool is_picked = false;
    uint before_1 = 0u;
    uint first_1 = 0u;
    Pick mine = {};
    float _e6 = exponential(-(logit));
    float score_1 = 1.0 / (1.0 + _e6);
    uint _e13 = ordered(score_1 + bias);
    uint order_1 = is_expert ? _e13 : 0u;
    biased.inner[expert_3] = order_1;
    if (expert_3 < 8u) {
        metal::atomic_store_explicit(&picked.inner[expert_3], 0u, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_expert) {
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e35 = first_1;
                first_1 = _e35 + 4u;
            }
            loop_init_1 = false;
            uint _e28 = first_1;
            if (_e28 < rule.experts) {
            } else {
                break;
            }
            {
                uint _e31 = before_1;
                uint _e32 = first_1;
                uint _e33 = before_of_four(_e32, expert_3, order_1, biased);
                before_1 = _e31 + _e33;
            }
        }
        uint _e38 = before_1;
        is_picked = _e38 < rule.picks;
    }
    bool _e41 = is_picked;
    if (_e41) {
        uint _e50 = metal::atomic_fetch_or_explicit(&picked.inner[expert_3 / 32u], 1u << (expert_3 % 32u), metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    mine = Pick {MOST_PICKS, score_1};
    bool _e54 = is_picked;
    if (_e54) {
        uint _e56 = picked_before(expert_3, picked);
        mine.pick = _e56;
        uint _e59 = mine.pick;
        picked_scores.inner[_e59] = score_1;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    Pick _e61 = mine;
    return _e61;
}

float weight_of(
    float score,
    RouteRule rule_1,
    threadgroup type_7& picked_scores
) {
    float total = 1.0;
    uint i = 0u;
    if (rule_1.normalize != 0u) {
        total = 0.0;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e20 = i;
                i = _e20 + 1u;
            }
            loop_init_2 = false;
            uint _e10 = i;
            if (_e10 < rule_1.picks) {
            } else {
                break;
            }
            {
                float _e13 = total;
                uint _e15 = i;
                float _e17 = picked_scores.inner[_e15];
                total = _e13 + _e17;
            }
        }
        float _e22 = total;
        total = _e22 + 0.000001;
    }
    float _e25 = total;
    return (score / _e25) * rule_1.scale;
}

uint route_row(
    uint row,
    uint expert_4,
    threadgroup type_4& biased,
    threadgroup type_6& picked,
    threadgroup type_7& picked_scores,
    constant RouteParams& routed,
    device type_9 const& router_logits,
    device type_9 const& bias_1,
    device type_10 const& route_lane,
    device type_10& picked_experts,
    device type_9& picked_weights,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local = {};
    bool local_1 = {};
    int _e4 = route_lane[row];
    bool is_pad = _e4 == NO_LANE;
    uint _e10 = routed.rule.experts;
    if (expert_4 < _e10) {
        local = !(is_pad);
    } else {
        local = false;
    }
    bool is_expert_1 = local;
    uint _e20 = routed.rule.experts;
    uint at = metal::min(expert_4, _e20 - 1u);
    uint _e28 = routed.rule.experts;
    float logit_1 = router_logits[(row * _e28) + at];
    float _e35 = bias_1[at];
    RouteRule _e38 = routed.rule;
    Pick _e39 = pick_of(expert_4, is_expert_1, logit_1, _e35, _e38, biased, picked, picked_scores);
    if (_e39.pick < MOST_PICKS) {
        uint _e47 = routed.rule.picks;
        picked_experts[(row * _e47) + _e39.pick] = static_cast<int>(expert_4);
        uint _e57 = routed.rule.picks;
        RouteRule _e65 = routed.rule;
        float _e66 = weight_of(_e39.score, _e65, picked_scores);
        picked_weights[(row * _e57) + _e39.pick] = _e66;
    }
    if (is_pad) {
        uint _e72 = routed.rule.picks;
        local_1 = expert_4 < _e72;
    } else {
        local_1 = false;
    }
    bool _e75 = local_1;
    if (_e75) {
        uint _e80 = routed.rule.picks;
        picked_experts[(row * _e80) + expert_4] = -1;
    }
    return _e39.pick;
}

struct routeInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void route(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint expert [[thread_index_in_threadgroup]]
, threadgroup type_4& biased
, threadgroup type_6& picked
, threadgroup type_7& picked_scores
, constant RouteParams& routed [[buffer(0)]]
, device type_9 const& router_logits [[buffer(1)]]
, device type_9 const& bias_1 [[buffer(2)]]
, device type_10 const& route_lane [[buffer(3)]]
, device type_10& picked_experts [[buffer(4)]]
, device type_9& picked_weights [[buffer(5)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(6)]]
) {
    uint _e3 = route_row(workgroup.x, expert, biased, picked, picked_scores, routed, router_logits, bias_1, route_lane, picked_experts, picked_weights, _buffer_sizes);
    return;
}
