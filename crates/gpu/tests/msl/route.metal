// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
    uint size5;
};

struct RouteParams {
    uint experts;
    uint picks;
    uint normalize;
    float scale;
    uint rows;
    uint tile_shift;
    uint tiles;
    uint layer;
};
typedef float type_4[1];
typedef int type_5[1];
struct type_6 {
    uint inner[256];
};
struct type_7 {
    float inner[32];
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint MOST_EXPERTS = 256u;
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

uint route_row(
    uint row,
    uint expert_1,
    constant RouteParams& route_rule,
    device type_4 const& router_logits,
    device type_4 const& bias,
    device type_5 const& route_lane,
    device type_5& picked_experts,
    device type_4& picked_weights,
    threadgroup type_6& biased,
    threadgroup type_6& is_picked,
    threadgroup type_7& picked_scores,
    constant _mslBufferSizes& _buffer_sizes
) {
    float score = 0.0;
    uint order = 0u;
    bool local = {};
    uint before = 0u;
    uint other = 0u;
    bool local_1 = {};
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    uint pick = MOST_PICKS;
    uint other_1 = 0u;
    float total = 1.0;
    uint i = 0u;
    bool local_5 = {};
    int _e4 = route_lane[row];
    bool is_pad = _e4 == NO_LANE;
    uint _e9 = route_rule.experts;
    bool is_expert = expert_1 < _e9;
    if (is_expert) {
        local = !(is_pad);
    } else {
        local = false;
    }
    bool _e19 = local;
    if (_e19) {
        uint _e23 = route_rule.experts;
        float _e27 = router_logits[(row * _e23) + expert_1];
        float _e29 = exponential(-(_e27));
        score = 1.0 / (1.0 + _e29);
        float _e34 = score;
        float _e37 = bias[expert_1];
        uint _e39 = ordered(_e34 + _e37);
        order = _e39;
    }
    uint _e42 = order;
    biased.inner[expert_1] = _e42;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e81 = other;
            other = _e81 + 1u;
        }
        loop_init = false;
        uint _e47 = other;
        uint _e50 = route_rule.experts;
        if (_e47 < _e50) {
        } else {
            break;
        }
        {
            uint _e53 = other;
            uint _e55 = biased.inner[_e53];
            uint _e56 = order;
            if (!((_e55 > _e56))) {
                uint _e62 = other;
                uint _e64 = biased.inner[_e62];
                uint _e65 = order;
                if (_e64 == _e65) {
                    uint _e69 = other;
                    local_2 = _e69 < expert_1;
                } else {
                    local_2 = false;
                }
                bool _e72 = local_2;
                local_1 = _e72;
            } else {
                local_1 = true;
            }
            bool is_before = local_1;
            uint _e75 = before;
            before = _e75 + (is_before ? 1u : 0u);
        }
    }
    if (is_expert) {
        local_3 = !(is_pad);
    } else {
        local_3 = false;
    }
    bool _e87 = local_3;
    if (_e87) {
        uint _e90 = before;
        uint _e93 = route_rule.picks;
        local_4 = _e90 < _e93;
    } else {
        local_4 = false;
    }
    bool is_mine = local_4;
    is_picked.inner[expert_1] = is_mine ? 1u : 0u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_mine) {
        pick = 0u;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e116 = other_1;
                other_1 = _e116 + 1u;
            }
            loop_init_1 = false;
            uint _e107 = other_1;
            if (_e107 < expert_1) {
            } else {
                break;
            }
            {
                uint _e109 = pick;
                uint _e111 = other_1;
                uint _e113 = is_picked.inner[_e111];
                pick = _e109 + _e113;
            }
        }
        uint _e119 = pick;
        float _e121 = score;
        picked_scores.inner[_e119] = _e121;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_mine) {
        uint _e126 = route_rule.normalize;
        if (_e126 != 0u) {
            total = 0.0;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e144 = i;
                    i = _e144 + 1u;
                }
                loop_init_2 = false;
                uint _e132 = i;
                uint _e135 = route_rule.picks;
                if (_e132 < _e135) {
                } else {
                    break;
                }
                {
                    float _e137 = total;
                    uint _e139 = i;
                    float _e141 = picked_scores.inner[_e139];
                    total = _e137 + _e141;
                }
            }
            float _e146 = total;
            total = _e146 + 0.000001;
        }
        uint _e152 = route_rule.picks;
        uint _e154 = pick;
        picked_experts[(row * _e152) + _e154] = static_cast<int>(expert_1);
        uint _e161 = route_rule.picks;
        uint _e163 = pick;
        float _e166 = score;
        float _e167 = total;
        float _e171 = route_rule.scale;
        picked_weights[(row * _e161) + _e163] = (_e166 / _e167) * _e171;
    }
    if (is_pad) {
        uint _e177 = route_rule.picks;
        local_5 = expert_1 < _e177;
    } else {
        local_5 = false;
    }
    bool _e180 = local_5;
    if (_e180) {
        uint _e184 = route_rule.picks;
        picked_experts[(row * _e184) + expert_1] = -1;
    }
    uint _e189 = pick;
    return _e189;
}

struct routeInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void route(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint expert [[thread_index_in_threadgroup]]
, constant RouteParams& route_rule [[buffer(0)]]
, device type_4 const& router_logits [[buffer(1)]]
, device type_4 const& bias [[buffer(2)]]
, device type_5 const& route_lane [[buffer(3)]]
, device type_5& picked_experts [[buffer(4)]]
, device type_4& picked_weights [[buffer(5)]]
, threadgroup type_6& biased
, threadgroup type_6& is_picked
, threadgroup type_7& picked_scores
, constant _mslBufferSizes& _buffer_sizes [[buffer(6)]]
) {
    uint _e3 = route_row(workgroup.x, expert, route_rule, router_logits, bias, route_lane, picked_experts, picked_weights, biased, is_picked, picked_scores, _buffer_sizes);
    return;
}
