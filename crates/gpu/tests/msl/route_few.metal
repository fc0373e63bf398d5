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
    uint size9;
    uint size10;
    uint size11;
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
typedef metal::uint4 type_9[1];
typedef uint type_10[1];
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
    uint row_1,
    uint expert,
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
    bool local_3 = {};
    uint before_1 = 0u;
    uint other_2 = 0u;
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    uint pick = MOST_PICKS;
    uint other_3 = 0u;
    float total = 1.0;
    uint i = 0u;
    bool local_8 = {};
    int _e4 = route_lane[row_1];
    bool is_pad = _e4 == NO_LANE;
    uint _e9 = route_rule.experts;
    bool is_expert = expert < _e9;
    if (is_expert) {
        local_3 = !(is_pad);
    } else {
        local_3 = false;
    }
    bool _e19 = local_3;
    if (_e19) {
        uint _e23 = route_rule.experts;
        float _e27 = router_logits[(row_1 * _e23) + expert];
        float _e29 = exponential(-(_e27));
        score = 1.0 / (1.0 + _e29);
        float _e34 = score;
        float _e37 = bias[expert];
        uint _e39 = ordered(_e34 + _e37);
        order = _e39;
    }
    uint _e42 = order;
    biased.inner[expert] = _e42;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e81 = other_2;
            other_2 = _e81 + 1u;
        }
        loop_init = false;
        uint _e47 = other_2;
        uint _e50 = route_rule.experts;
        if (_e47 < _e50) {
        } else {
            break;
        }
        {
            uint _e53 = other_2;
            uint _e55 = biased.inner[_e53];
            uint _e56 = order;
            if (!((_e55 > _e56))) {
                uint _e62 = other_2;
                uint _e64 = biased.inner[_e62];
                uint _e65 = order;
                if (_e64 == _e65) {
                    uint _e69 = other_2;
                    local_5 = _e69 < expert;
                } else {
                    local_5 = false;
                }
                bool _e72 = local_5;
                local_4 = _e72;
            } else {
                local_4 = true;
            }
            bool is_before = local_4;
            uint _e75 = before_1;
            before_1 = _e75 + (is_before ? 1u : 0u);
        }
    }
    if (is_expert) {
        local_6 = !(is_pad);
    } else {
        local_6 = false;
    }
    bool _e87 = local_6;
    if (_e87) {
        uint _e90 = before_1;
        uint _e93 = route_rule.picks;
        local_7 = _e90 < _e93;
    } else {
        local_7 = false;
    }
    bool is_mine = local_7;
    is_picked.inner[expert] = is_mine ? 1u : 0u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (is_mine) {
        pick = 0u;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e116 = other_3;
                other_3 = _e116 + 1u;
            }
            loop_init_1 = false;
            uint _e107 = other_3;
            if (_e107 < expert) {
            } else {
                break;
            }
            {
                uint _e109 = pick;
                uint _e111 = other_3;
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
        picked_experts[(row_1 * _e152) + _e154] = static_cast<int>(expert);
        uint _e161 = route_rule.picks;
        uint _e163 = pick;
        float _e166 = score;
        float _e167 = total;
        float _e171 = route_rule.scale;
        picked_weights[(row_1 * _e161) + _e163] = (_e166 / _e167) * _e171;
    }
    if (is_pad) {
        uint _e177 = route_rule.picks;
        local_8 = expert < _e177;
    } else {
        local_8 = false;
    }
    bool _e180 = local_8;
    if (_e180) {
        uint _e184 = route_rule.picks;
        picked_experts[(row_1 * _e184) + expert] = -1;
    }
    uint _e189 = pick;
    return _e189;
}

struct route_fewInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void route_few(
  uint thread_ [[thread_index_in_threadgroup]]
, constant RouteParams& route_rule [[buffer(0)]]
, device type_4 const& router_logits [[buffer(1)]]
, device type_4 const& bias [[buffer(2)]]
, device type_5 const& route_lane [[buffer(3)]]
, device type_5& picked_experts [[buffer(4)]]
, device type_4& picked_weights [[buffer(5)]]
, threadgroup type_6& biased
, threadgroup type_6& is_picked
, threadgroup type_7& picked_scores
, device type_9& few_tiles [[buffer(6)]]
, device type_10& few_order [[buffer(7)]]
, device type_5& few_distinct [[buffer(8)]]
, threadgroup type_6& few_experts
, threadgroup type_6& beginnings
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
            uint _e27 = row;
            row = _e27 + 1u;
        }
        loop_init_3 = false;
        uint _e9 = row;
        uint _e12 = route_rule.rows;
        if (_e9 < _e12) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e14 = row;
            uint _e15 = route_row(_e14, thread_, route_rule, router_logits, bias, route_lane, picked_experts, picked_weights, biased, is_picked, picked_scores, _buffer_sizes);
            if (_e15 < MOST_PICKS) {
                uint _e19 = row;
                uint _e22 = route_rule.picks;
                few_experts.inner[(_e19 * _e22) + _e15] = thread_;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e31 = route_rule.rows;
    uint _e34 = route_rule.picks;
    uint entries = _e31 * _e34;
    uint _e39 = route_rule.tile_shift;
    uint most = 1u << _e39;
    uint expert_1 = few_experts.inner[thread_];
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e91 = other;
            other = _e91 + 1u;
        }
        loop_init_4 = false;
        uint _e52 = other;
        if (_e52 < entries) {
        } else {
            break;
        }
        {
            uint _e55 = other;
            uint _e57 = few_experts.inner[_e55];
            bool is_same = _e57 == expert_1;
            if (is_same) {
                uint _e61 = other;
                local = _e61 < thread_;
            } else {
                local = false;
            }
            bool is_before_1 = local;
            uint _e65 = place;
            uint _e69 = other;
            uint _e71 = few_experts.inner[_e69];
            if (!((_e71 < expert_1))) {
                local_1 = is_before_1;
            } else {
                local_1 = true;
            }
            bool _e77 = local_1;
            place = _e65 + (_e77 ? 1u : 0u);
            uint _e80 = before;
            before = _e80 + (is_before_1 ? 1u : 0u);
            uint _e85 = of_expert;
            of_expert = _e85 + (is_same ? 1u : 0u);
        }
    }
    if (expert_1 != NO_EXPERT) {
        uint _e97 = before;
        local_2 = (_e97 % most) == 0u;
    } else {
        local_2 = false;
    }
    bool begins_tile = local_2;
    if (begins_tile) {
        uint _e104 = place;
        uint _e109 = before;
        beginnings.inner[_e104] = BEGINS_TILE | ((_e109 == 0u) ? BEGINS_EXPERT : 0u);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e146 = other_1;
            other_1 = _e146 + 1u;
        }
        loop_init_5 = false;
        uint _e122 = other_1;
        if (_e122 < entries) {
        } else {
            break;
        }
        {
            uint _e125 = other_1;
            uint begins = beginnings.inner[_e125];
            uint _e128 = tile;
            uint _e132 = other_1;
            uint _e133 = place;
            tile = _e128 + ((_e132 < _e133) ? (begins & BEGINS_TILE) : 0u);
            uint _e137 = all_tiles;
            all_tiles = _e137 + (begins & BEGINS_TILE);
            uint _e141 = touched;
            touched = _e141 + (begins / BEGINS_EXPERT);
        }
    }
    if (begins_tile) {
        uint _e149 = tile;
        uint _e151 = place;
        uint _e152 = of_expert;
        uint _e153 = before;
        few_tiles[_e149] = metal::uint4(expert_1, _e151, metal::min(most, _e152 - _e153), 0u);
    }
    if (expert_1 != NO_EXPERT) {
        uint _e161 = place;
        few_order[_e161] = thread_;
    }
    uint _e163 = all_tiles;
    empty = _e163 + thread_;
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e175 = empty;
            empty = _e175 + 256u;
        }
        loop_init_6 = false;
        uint _e166 = empty;
        uint _e169 = route_rule.tiles;
        if (_e166 < _e169) {
        } else {
            break;
        }
        {
            uint _e172 = empty;
            few_tiles[_e172] = metal::uint4 {};
        }
    }
    if (thread_ == 0u) {
        uint _e183 = route_rule.layer;
        uint _e185 = touched;
        few_distinct[_e183] = static_cast<int>(_e185);
        return;
    } else {
        return;
    }
}
