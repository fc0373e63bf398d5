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
    uint size9;
    uint size10;
    uint size11;
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
typedef metal::uint4 type_11[1];
typedef uint type_12[1];
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
    uint expert,
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
    metal::bool4 is_before = (orders > metal::uint4(order)) | (is_equal & (others < metal::uint4(expert)));
    metal::uint4 counted = metal::select(metal::uint4 {}, metal::uint4(1u), is_before);
    return ((counted.x + counted.y) + counted.z) + counted.w;
}

uint picked_before(
    uint expert_1,
    threadgroup type_6& picked
) {
    uint before_1 = {};
    uint word = 0u;
    uint lower = (1u << (expert_1 % 32u)) - 1u;
    uint _e11 = metal::atomic_load_explicit(&picked.inner[expert_1 / 32u], metal::memory_order_relaxed);
    before_1 = metal::popcount(_e11 & lower);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e29 = word;
            word = _e29 + 1u;
        }
        loop_init = false;
        uint _e17 = word;
        if (_e17 < (expert_1 / 32u)) {
        } else {
            break;
        }
        {
            uint _e21 = before_1;
            uint _e23 = word;
            uint _e25 = metal::atomic_load_explicit(&picked.inner[_e23], metal::memory_order_relaxed);
            before_1 = _e21 + metal::popcount(_e25);
        }
    }
    uint _e31 = before_1;
    return _e31;
}

Pick pick_of(
    uint expert_2,
    bool is_expert,
    float logit,
    float bias,
    RouteRule rule,
    threadgroup type_4& biased,
    threadgroup type_6& picked,
    threadgroup type_7& picked_scores
) {
    bool is_picked = false;
    uint before_2 = 0u;
    uint first_1 = 0u;
    Pick mine = {};
    float _e6 = exponential(-(logit));
    float score_1 = 1.0 / (1.0 + _e6);
    uint _e13 = ordered(score_1 + bias);
    uint order_1 = is_expert ? _e13 : 0u;
    biased.inner[expert_2] = order_1;
    if (expert_2 < 8u) {
        metal::atomic_store_explicit(&picked.inner[expert_2], 0u, metal::memory_order_relaxed);
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
                uint _e31 = before_2;
                uint _e32 = first_1;
                uint _e33 = before_of_four(_e32, expert_2, order_1, biased);
                before_2 = _e31 + _e33;
            }
        }
        uint _e38 = before_2;
        is_picked = _e38 < rule.picks;
    }
    bool _e41 = is_picked;
    if (_e41) {
        uint _e50 = metal::atomic_fetch_or_explicit(&picked.inner[expert_2 / 32u], 1u << (expert_2 % 32u), metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    mine = Pick {MOST_PICKS, score_1};
    bool _e54 = is_picked;
    if (_e54) {
        uint _e56 = picked_before(expert_2, picked);
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
    uint row_1,
    uint expert_3,
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
    bool local_3 = {};
    bool local_4 = {};
    int _e4 = route_lane[row_1];
    bool is_pad = _e4 == NO_LANE;
    uint _e10 = routed.rule.experts;
    if (expert_3 < _e10) {
        local_3 = !(is_pad);
    } else {
        local_3 = false;
    }
    bool is_expert_1 = local_3;
    uint _e20 = routed.rule.experts;
    uint at = metal::min(expert_3, _e20 - 1u);
    uint _e28 = routed.rule.experts;
    float logit_1 = router_logits[(row_1 * _e28) + at];
    float _e35 = bias_1[at];
    RouteRule _e38 = routed.rule;
    Pick _e39 = pick_of(expert_3, is_expert_1, logit_1, _e35, _e38, biased, picked, picked_scores);
    if (_e39.pick < MOST_PICKS) {
        uint _e47 = routed.rule.picks;
        picked_experts[(row_1 * _e47) + _e39.pick] = static_cast<int>(expert_3);
        uint _e57 = routed.rule.picks;
        RouteRule _e65 = routed.rule;
        float _e66 = weight_of(_e39.score, _e65, picked_scores);
        picked_weights[(row_1 * _e57) + _e39.pick] = _e66;
    }
    if (is_pad) {
        uint _e72 = routed.rule.picks;
        local_4 = expert_3 < _e72;
    } else {
        local_4 = false;
    }
    bool _e75 = local_4;
    if (_e75) {
        uint _e80 = routed.rule.picks;
        picked_experts[(row_1 * _e80) + expert_3] = -1;
    }
    return _e39.pick;
}

struct route_fewInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void route_few(
  uint thread_ [[thread_index_in_threadgroup]]
, threadgroup type_4& biased
, threadgroup type_6& picked
, threadgroup type_7& picked_scores
, constant RouteParams& routed [[buffer(0)]]
, device type_9 const& router_logits [[buffer(1)]]
, device type_9 const& bias_1 [[buffer(2)]]
, device type_10 const& route_lane [[buffer(3)]]
, device type_10& picked_experts [[buffer(4)]]
, device type_9& picked_weights [[buffer(5)]]
, device type_11& few_tiles [[buffer(6)]]
, device type_12& few_order [[buffer(7)]]
, device type_10& few_distinct [[buffer(8)]]
, threadgroup type_4& few_experts
, threadgroup type_4& beginnings
, constant _mslBufferSizes& _buffer_sizes [[buffer(9)]]
) {
    uint row = 0u;
    uint place = 0u;
    uint before = 0u;
    uint of_expert = 0u;
    uint other = 0u;
    bool local = {};
    bool local_1 = {};
    bool local_2 = {};
    uint tile = 0u;
    uint all_tiles = 0u;
    uint touched = 0u;
    uint other_1 = 0u;
    uint empty = {};
    few_experts.inner[thread_] = NO_EXPERT;
    beginnings.inner[thread_] = 0u;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e28 = row;
            row = _e28 + 1u;
        }
        loop_init_3 = false;
        uint _e9 = row;
        uint _e12 = routed.rows;
        if (_e9 < _e12) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e14 = row;
            uint _e15 = route_row(_e14, thread_, biased, picked, picked_scores, routed, router_logits, bias_1, route_lane, picked_experts, picked_weights, _buffer_sizes);
            if (_e15 < MOST_PICKS) {
                uint _e19 = row;
                uint _e23 = routed.rule.picks;
                few_experts.inner[(_e19 * _e23) + _e15] = thread_;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e32 = routed.rows;
    uint _e36 = routed.rule.picks;
    uint entries = _e32 * _e36;
    uint _e41 = routed.tile_shift;
    uint most = 1u << _e41;
    uint expert_4 = few_experts.inner[thread_];
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e93 = other;
            other = _e93 + 1u;
        }
        loop_init_4 = false;
        uint _e54 = other;
        if (_e54 < entries) {
        } else {
            break;
        }
        {
            uint _e57 = other;
            uint _e59 = few_experts.inner[_e57];
            bool is_same = _e59 == expert_4;
            if (is_same) {
                uint _e63 = other;
                local = _e63 < thread_;
            } else {
                local = false;
            }
            bool is_before_1 = local;
            uint _e67 = place;
            uint _e71 = other;
            uint _e73 = few_experts.inner[_e71];
            if (!((_e73 < expert_4))) {
                local_1 = is_before_1;
            } else {
                local_1 = true;
            }
            bool _e79 = local_1;
            place = _e67 + (_e79 ? 1u : 0u);
            uint _e82 = before;
            before = _e82 + (is_before_1 ? 1u : 0u);
            uint _e87 = of_expert;
            of_expert = _e87 + (is_same ? 1u : 0u);
        }
    }
    if (expert_4 != NO_EXPERT) {
        uint _e99 = before;
        local_2 = (_e99 % most) == 0u;
    } else {
        local_2 = false;
    }
    bool begins_tile = local_2;
    if (begins_tile) {
        uint _e106 = place;
        uint _e111 = before;
        beginnings.inner[_e106] = BEGINS_TILE | ((_e111 == 0u) ? BEGINS_EXPERT : 0u);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e148 = other_1;
            other_1 = _e148 + 1u;
        }
        loop_init_5 = false;
        uint _e124 = other_1;
        if (_e124 < entries) {
        } else {
            break;
        }
        {
            uint _e127 = other_1;
            uint begins = beginnings.inner[_e127];
            uint _e130 = tile;
            uint _e134 = other_1;
            uint _e135 = place;
            tile = _e130 + ((_e134 < _e135) ? (begins & BEGINS_TILE) : 0u);
            uint _e139 = all_tiles;
            all_tiles = _e139 + (begins & BEGINS_TILE);
            uint _e143 = touched;
            touched = _e143 + (begins / BEGINS_EXPERT);
        }
    }
    if (begins_tile) {
        uint _e151 = tile;
        uint _e153 = place;
        uint _e154 = of_expert;
        uint _e155 = before;
        few_tiles[_e151] = metal::uint4(expert_4, _e153, metal::min(most, _e154 - _e155), 0u);
    }
    if (expert_4 != NO_EXPERT) {
        uint _e163 = place;
        few_order[_e163] = thread_;
    }
    uint _e165 = all_tiles;
    empty = _e165 + thread_;
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e177 = empty;
            empty = _e177 + 256u;
        }
        loop_init_6 = false;
        uint _e168 = empty;
        uint _e171 = routed.tiles;
        if (_e168 < _e171) {
        } else {
            break;
        }
        {
            uint _e174 = empty;
            few_tiles[_e174] = metal::uint4 {};
        }
    }
    if (thread_ == 0u) {
        uint _e185 = routed.layer;
        uint _e187 = touched;
        few_distinct[_e185] = static_cast<int>(_e187);
        return;
    } else {
        return;
    }
}
