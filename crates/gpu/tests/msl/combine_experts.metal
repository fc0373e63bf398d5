// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
};

typedef float type_4[1];
typedef int type_5[1];
typedef uint type_7[1];
struct CombineParams {
    uint picks;
    uint words;
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint MOST_PICKS = 32u;
constant uint NO_EXPERT = 4294967295u;
constant uint BEGINS_TILE = 1u;
constant uint BEGINS_EXPERT = 2u;

float low(
    uint pair
) {
    return as_type<float>(pair << 16u);
}

float high(
    uint pair_1
) {
    return as_type<float>(pair_1 & 4294901760u);
}

uint rounded_bits(
    float value
) {
    uint bits = as_type<uint>(value);
    uint nearest = (bits + 32767u) + ((bits >> 16u) & 1u);
    return (((bits & 2147483647u) > 2139095040u) ? (bits | 4194304u) : nearest) & 4294901760u;
}

float rounded(
    float value_1
) {
    uint _e1 = rounded_bits(value_1);
    return as_type<float>(_e1);
}

uint narrow(
    float first_1,
    float second_1
) {
    uint _e2 = rounded_bits(first_1);
    uint _e5 = rounded_bits(second_1);
    return (_e2 >> 16u) | _e5;
}

uint added(
    uint residual,
    float first_2,
    float second_2
) {
    float _e3 = low(residual);
    float _e4 = rounded(first_2);
    float _e6 = high(residual);
    float _e7 = rounded(second_2);
    uint _e9 = narrow(_e3 + _e4, _e6 + _e7);
    return _e9;
}

struct combine_expertsInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void combine_experts(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant CombineParams& combined [[buffer(0)]]
, device type_7 const& outputs [[buffer(1)]]
, device type_4 const& weights [[buffer(2)]]
, device type_5 const& combine_lane [[buffer(3)]]
, device type_7& residual_1 [[buffer(4)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(5)]]
) {
    bool local = {};
    float first = 0.0;
    float second = 0.0;
    uint entry = {};
    uint word = invocation.x;
    uint row = invocation.y;
    uint _e5 = combined.words;
    if (!((word >= _e5))) {
        int _e12 = combine_lane[row];
        local = _e12 == NO_LANE;
    } else {
        local = true;
    }
    bool _e16 = local;
    if (_e16) {
        return;
    }
    uint _e23 = combined.picks;
    entry = row * _e23;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e58 = entry;
            entry = _e58 + 1u;
        }
        loop_init = false;
        uint _e26 = entry;
        uint _e31 = combined.picks;
        if (_e26 < ((row + 1u) * _e31)) {
        } else {
            break;
        }
        {
            uint _e35 = entry;
            uint _e38 = combined.words;
            uint pair_2 = outputs[(_e35 * _e38) + word];
            uint _e44 = entry;
            float _e46 = weights[_e44];
            float _e47 = low(pair_2);
            float _e48 = first;
            first = metal::fma(_e46, _e47, _e48);
            uint _e51 = entry;
            float _e53 = weights[_e51];
            float _e54 = high(pair_2);
            float _e55 = second;
            second = metal::fma(_e53, _e54, _e55);
        }
    }
    uint _e62 = combined.words;
    uint at = (row * _e62) + word;
    uint _e69 = residual_1[at];
    float _e70 = first;
    float _e71 = second;
    uint _e72 = added(_e69, _e70, _e71);
    residual_1[at] = _e72;
    return;
}
