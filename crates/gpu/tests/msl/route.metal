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
    uint expert_1,
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
    uint before = 0u;
    uint other = 0u;
    bool local = {};
    bool local_1 = {};
    bool local_2 = {};
    Pick mine = Pick {32u, 0.0};
    uint other_1 = 0u;
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
    biased.inner[expert_1] = _e20;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e57 = other;
            other = _e57 + 1u;
        }
        loop_init = false;
        uint _e25 = other;
        if (_e25 < rule.experts) {
        } else {
            break;
        }
        {
            uint _e29 = other;
            uint _e31 = biased.inner[_e29];
            uint _e32 = order;
            if (!((_e31 > _e32))) {
                uint _e38 = other;
                uint _e40 = biased.inner[_e38];
                uint _e41 = order;
                if (_e40 == _e41) {
                    uint _e45 = other;
                    local_1 = _e45 < expert_1;
                } else {
                    local_1 = false;
                }
                bool _e48 = local_1;
                local = _e48;
            } else {
                local = true;
            }
            bool is_before = local;
            uint _e51 = before;
            before = _e51 + (is_before ? 1u : 0u);
        }
    }
    if (is_expert) {
        uint _e61 = before;
        local_2 = _e61 < rule.picks;
    } else {
        local_2 = false;
    }
    bool is_mine = local_2;
    is_picked.inner[expert_1] = is_mine ? 1u : 0u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_mine) {
        mine.pick = 0u;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e89 = other_1;
                other_1 = _e89 + 1u;
            }
            loop_init_1 = false;
            uint _e79 = other_1;
            if (_e79 < expert_1) {
            } else {
                break;
            }
            {
                uint _e82 = mine.pick;
                uint _e84 = other_1;
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
    uint row,
    uint expert_2,
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
    bool local_3 = {};
    float logit_1 = 0.0;
    float of_expert = 0.0;
    bool local_4 = {};
    int _e4 = route_lane[row];
    bool is_pad = _e4 == NO_LANE;
    uint _e10 = routed.rule.experts;
    if (expert_2 < _e10) {
        local_3 = !(is_pad);
    } else {
        local_3 = false;
    }
    bool is_expert_1 = local_3;
    if (is_expert_1) {
        uint _e25 = routed.rule.experts;
        float _e29 = router_logits[(row * _e25) + expert_2];
        logit_1 = _e29;
        float _e32 = bias_1[expert_2];
        of_expert = _e32;
    }
    float _e33 = logit_1;
    float _e34 = of_expert;
    RouteRule _e37 = routed.rule;
    Pick _e38 = pick_of(expert_2, is_expert_1, _e33, _e34, _e37, biased, is_picked, picked_scores);
    if (_e38.pick < MOST_PICKS) {
        uint _e46 = routed.rule.picks;
        picked_experts[(row * _e46) + _e38.pick] = static_cast<int>(expert_2);
        uint _e56 = routed.rule.picks;
        picked_weights[(row * _e56) + _e38.pick] = _e38.weight;
    }
    if (is_pad) {
        uint _e67 = routed.rule.picks;
        local_4 = expert_2 < _e67;
    } else {
        local_4 = false;
    }
    bool _e70 = local_4;
    if (_e70) {
        uint _e75 = routed.rule.picks;
        picked_experts[(row * _e75) + expert_2] = -1;
    }
    return _e38.pick;
}

struct routeInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void route(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint expert [[thread_index_in_threadgroup]]
, threadgroup type_4& biased
, threadgroup type_4& is_picked
, threadgroup type_5& picked_scores
, constant RouteParams& routed [[buffer(0)]]
, device type_6 const& router_logits [[buffer(1)]]
, device type_6 const& bias_1 [[buffer(2)]]
, device type_7 const& route_lane [[buffer(3)]]
, device type_7& picked_experts [[buffer(4)]]
, device type_6& picked_weights [[buffer(5)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(6)]]
) {
    uint _e3 = route_row(workgroup.x, expert, biased, is_picked, picked_scores, routed, router_logits, bias_1, route_lane, picked_experts, picked_weights, _buffer_sizes);
    return;
}
