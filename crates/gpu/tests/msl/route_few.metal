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
    float weight;
};
struct type_4 {
    uint inner[256];
};
struct type_5 {
    float inner[32];
};
struct RouteParams {
    RouteRule rule;
    uint rows;
    uint tile_shift;
    uint tiles;
    uint layer;
};
typedef float type_6[1];
typedef int type_7[1];
typedef metal::uint4 type_9[1];
typedef uint type_10[1];
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

Pick pick_of(
    uint expert,
    bool is_expert,
    float logit,
    float bias,
    RouteRule rule,
    threadgroup type_4& biased,
    threadgroup type_4& is_picked,
    threadgroup type_5& picked_scores
) {
    float score = 0.0;
    uint order = 0u;
    uint before_1 = 0u;
    uint other_2 = 0u;
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    Pick mine = Pick {32u, 0.0};
    uint other_3 = 0u;
    float total = 1.0;
    uint i = 0u;
    if (is_expert) {
        float _e10 = exponential(-(logit));
        score = 1.0 / (1.0 + _e10);
        float _e15 = score;
        uint _e17 = ordered(_e15 + bias);
        order = _e17;
    }
    uint _e20 = order;
    biased.inner[expert] = _e20;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e57 = other_2;
            other_2 = _e57 + 1u;
        }
        loop_init = false;
        uint _e25 = other_2;
        if (_e25 < rule.experts) {
        } else {
            break;
        }
        {
            uint _e29 = other_2;
            uint _e31 = biased.inner[_e29];
            uint _e32 = order;
            if (!((_e31 > _e32))) {
                uint _e38 = other_2;
                uint _e40 = biased.inner[_e38];
                uint _e41 = order;
                if (_e40 == _e41) {
                    uint _e45 = other_2;
                    local_4 = _e45 < expert;
                } else {
                    local_4 = false;
                }
                bool _e48 = local_4;
                local_3 = _e48;
            } else {
                local_3 = true;
            }
            bool is_before = local_3;
            uint _e51 = before_1;
            before_1 = _e51 + (is_before ? 1u : 0u);
        }
    }
    if (is_expert) {
        uint _e61 = before_1;
        local_5 = _e61 < rule.picks;
    } else {
        local_5 = false;
    }
    bool is_mine = local_5;
    is_picked.inner[expert] = is_mine ? 1u : 0u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_mine) {
        mine.pick = 0u;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e89 = other_3;
                other_3 = _e89 + 1u;
            }
            loop_init_1 = false;
            uint _e79 = other_3;
            if (_e79 < expert) {
            } else {
                break;
            }
            {
                uint _e82 = mine.pick;
                uint _e84 = other_3;
                uint _e86 = is_picked.inner[_e84];
                mine.pick = _e82 + _e86;
            }
        }
        uint _e93 = mine.pick;
        float _e95 = score;
        picked_scores.inner[_e93] = _e95;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_mine) {
        if (rule.normalize != 0u) {
            total = 0.0;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e114 = i;
                    i = _e114 + 1u;
                }
                loop_init_2 = false;
                uint _e104 = i;
                if (_e104 < rule.picks) {
                } else {
                    break;
                }
                {
                    float _e107 = total;
                    uint _e109 = i;
                    float _e111 = picked_scores.inner[_e109];
                    total = _e107 + _e111;
                }
            }
            float _e116 = total;
            total = _e116 + 0.000001;
        }
        float _e120 = score;
        float _e121 = total;
        mine.weight = (_e120 / _e121) * rule.scale;
    }
    Pick _e125 = mine;
    return _e125;
}

uint route_row(
    uint row_1,
    uint expert_1,
    threadgroup type_4& biased,
    threadgroup type_4& is_picked,
    threadgroup type_5& picked_scores,
    constant RouteParams& routed,
    device type_6 const& router_logits,
    device type_6 const& bias_1,
    device type_7 const& route_lane,
    device type_7& picked_experts,
    device type_6& picked_weights,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_6 = {};
    float logit_1 = 0.0;
    float of_expert_1 = 0.0;
    bool local_7 = {};
    int _e4 = route_lane[row_1];
    bool is_pad = _e4 == NO_LANE;
    uint _e10 = routed.rule.experts;
    if (expert_1 < _e10) {
        local_6 = !(is_pad);
    } else {
        local_6 = false;
    }
    bool is_expert_1 = local_6;
    if (is_expert_1) {
        uint _e25 = routed.rule.experts;
        float _e29 = router_logits[(row_1 * _e25) + expert_1];
        logit_1 = _e29;
        float _e32 = bias_1[expert_1];
        of_expert_1 = _e32;
    }
    float _e33 = logit_1;
    float _e34 = of_expert_1;
    RouteRule _e37 = routed.rule;
    Pick _e38 = pick_of(expert_1, is_expert_1, _e33, _e34, _e37, biased, is_picked, picked_scores);
    if (_e38.pick < MOST_PICKS) {
        uint _e46 = routed.rule.picks;
        picked_experts[(row_1 * _e46) + _e38.pick] = static_cast<int>(expert_1);
        uint _e56 = routed.rule.picks;
        picked_weights[(row_1 * _e56) + _e38.pick] = _e38.weight;
    }
    if (is_pad) {
        uint _e67 = routed.rule.picks;
        local_7 = expert_1 < _e67;
    } else {
        local_7 = false;
    }
    bool _e70 = local_7;
    if (_e70) {
        uint _e75 = routed.rule.picks;
        picked_experts[(row_1 * _e75) + expert_1] = -1;
    }
    return _e38.pick;
}

struct route_fewInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void route_few(
  uint thread_ [[thread_index_in_threadgroup]]
, threadgroup type_4& biased
, threadgroup type_4& is_picked
, threadgroup type_5& picked_scores
, constant RouteParams& routed [[buffer(0)]]
, device type_6 const& router_logits [[buffer(1)]]
, device type_6 const& bias_1 [[buffer(2)]]
, device type_7 const& route_lane [[buffer(3)]]
, device type_7& picked_experts [[buffer(4)]]
, device type_6& picked_weights [[buffer(5)]]
, device type_9& few_tiles [[buffer(6)]]
, device type_10& few_order [[buffer(7)]]
, device type_7& few_distinct [[buffer(8)]]
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
            uint _e15 = route_row(_e14, thread_, biased, is_picked, picked_scores, routed, router_logits, bias_1, route_lane, picked_experts, picked_weights, _buffer_sizes);
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
    uint expert_2 = few_experts.inner[thread_];
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
            bool is_same = _e59 == expert_2;
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
            if (!((_e73 < expert_2))) {
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
    if (expert_2 != NO_EXPERT) {
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
        few_tiles[_e151] = metal::uint4(expert_2, _e153, metal::min(most, _e154 - _e155), 0u);
    }
    if (expert_2 != NO_EXPERT) {
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
