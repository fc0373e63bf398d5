// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
};

typedef uint type_5[1];
struct NarrowParams {
    uint values;
    uint add;
    uint words_of_row;
};
typedef float type_6[1];
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint NORM_THREADS = 128u;

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
    float first,
    float second
) {
    uint _e2 = rounded_bits(first);
    uint _e5 = rounded_bits(second);
    return (_e2 >> 16u) | _e5;
}

uint added(
    uint residual,
    float first_1,
    float second_1
) {
    float _e3 = low(residual);
    float _e4 = rounded(first_1);
    float _e6 = high(residual);
    float _e7 = rounded(second_1);
    uint _e9 = narrow(_e3 + _e4, _e6 + _e7);
    return _e9;
}

struct narrow_valuesInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void narrow_values(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant NarrowParams& narrowed [[buffer(0)]]
, device type_6 const& wide [[buffer(1)]]
, device type_5& narrow_out [[buffer(2)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(3)]]
) {
    bool local = {};
    uint _e4 = narrowed.words_of_row;
    uint word = (invocation.y * _e4) + invocation.x;
    uint first_2 = 2u * word;
    uint _e13 = narrowed.words_of_row;
    if (!((invocation.x >= _e13))) {
        uint _e20 = narrowed.values;
        local = first_2 >= _e20;
    } else {
        local = true;
    }
    bool _e23 = local;
    if (_e23) {
        return;
    }
    uint before = narrow_out[word];
    uint _e31 = narrowed.values;
    bool is_pair = (first_2 + 1u) < _e31;
    float a = wide[first_2];
    float b = wide[is_pair ? (first_2 + 1u) : first_2];
    uint _e42 = narrow(a, b);
    uint _e43 = added(before, a, b);
    uint _e46 = narrowed.add;
    uint after = (_e46 != 0u) ? _e43 : _e42;
    narrow_out[word] = is_pair ? after : ((after & 65535u) | (before & 4294901760u));
    return;
}
