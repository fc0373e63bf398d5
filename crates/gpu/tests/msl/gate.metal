// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
};

typedef uint type_4[1];
struct GateParams {
    uint words;
};
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

uint narrow(
    float first,
    float second
) {
    uint _e2 = rounded_bits(first);
    uint _e5 = rounded_bits(second);
    return (_e2 >> 16u) | _e5;
}

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

float silu(
    float x_1
) {
    float _e2 = exponential(-(x_1));
    return x_1 / (1.0 + _e2);
}

uint activated(
    uint gate_1,
    uint up
) {
    float _e2 = low(gate_1);
    float _e3 = silu(_e2);
    float _e4 = low(up);
    float _e6 = high(gate_1);
    float _e7 = silu(_e6);
    float _e8 = high(up);
    uint _e10 = narrow(_e3 * _e4, _e7 * _e8);
    return _e10;
}

struct gateInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void gate(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant GateParams& gate_params [[buffer(0)]]
, device type_4 const& gate_and_up [[buffer(1)]]
, device type_4& activation [[buffer(2)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(3)]]
) {
    uint word = invocation.x;
    uint _e4 = gate_params.words;
    if (word < _e4) {
        uint _e11 = gate_params.words;
        uint start = ((invocation.y * 2u) * _e11) + word;
        uint _e18 = gate_params.words;
        uint _e24 = gate_and_up[start];
        uint _e28 = gate_params.words;
        uint _e31 = gate_and_up[start + _e28];
        uint _e32 = activated(_e24, _e31);
        activation[(invocation.y * _e18) + word] = _e32;
        return;
    } else {
        return;
    }
}
