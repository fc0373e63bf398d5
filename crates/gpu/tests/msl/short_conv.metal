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
    uint size6;
};

typedef uint type_5[1];
struct ConvParams {
    uint rows;
    uint words;
    uint parts;
};
typedef int type_6[1];
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

uint gated_pair(
    uint b,
    uint x
) {
    float _e2 = low(b);
    float _e3 = low(x);
    float _e5 = high(b);
    float _e6 = high(x);
    uint _e8 = narrow(_e2 * _e3, _e5 * _e6);
    return _e8;
}

uint ring_slot(
    int lane,
    uint position,
    uint words
) {
    return ((static_cast<uint>(lane) * CONV_RING) + (position % CONV_RING)) * words;
}

uint convolved(
    metal::uint3 weights,
    metal::uint3 gated,
    uint by
) {
    float _e4 = low(weights.y);
    float _e6 = low(gated.z);
    float _e8 = high(weights.x);
    float _e10 = low(gated.y);
    float _e12 = low(weights.x);
    float _e14 = low(gated.x);
    float c = metal::fma(_e4, _e6, metal::fma(_e8, _e10, _e12 * _e14));
    float _e19 = high(weights.z);
    float _e21 = high(gated.z);
    float _e23 = low(weights.z);
    float _e25 = high(gated.y);
    float _e27 = high(weights.y);
    float _e29 = high(gated.x);
    float d = metal::fma(_e19, _e21, metal::fma(_e23, _e25, _e27 * _e29));
    float _e33 = low(by);
    float _e34 = rounded(c);
    float _e36 = high(by);
    float _e37 = rounded(d);
    uint _e39 = narrow(_e33 * _e34, _e36 * _e37);
    return _e39;
}

uint gated_1(
    uint row,
    uint word,
    constant ConvParams& conv,
    device type_5 const& projected,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e7 = conv.words;
    uint _e11 = projected[((row * 3u) * _e7) + word];
    uint _e19 = conv.words;
    uint _e23 = projected[(((row * 3u) + 2u) * _e19) + word];
    uint _e24 = gated_pair(_e11, _e23);
    return _e24;
}

uint gated_before(
    uint row_1,
    int lane_1,
    uint position_1,
    uint back,
    uint word_1,
    constant ConvParams& conv,
    device type_5 const& projected,
    device type_6 const& conv_lane,
    device type_5 const& ring,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_3 = {};
    if (position_1 < back) {
        return 0u;
    }
    if (row_1 >= back) {
        int _e13 = conv_lane[row_1 - back];
        local_3 = _e13 == lane_1;
    } else {
        local_3 = false;
    }
    bool _e16 = local_3;
    if (_e16) {
        uint _e18 = gated_1(row_1 - back, word_1, conv, projected, _buffer_sizes);
        return _e18;
    }
    uint _e23 = conv.words;
    uint _e24 = ring_slot(lane_1, position_1 - back, _e23);
    uint _e27 = ring[_e24 + word_1];
    return _e27;
}

struct short_convInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void short_conv(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant ConvParams& conv [[buffer(0)]]
, device type_5 const& projected [[buffer(1)]]
, device type_5 const& conv_weight [[buffer(2)]]
, device type_6 const& conv_lane [[buffer(3)]]
, device type_6 const& conv_position [[buffer(4)]]
, device type_5& ring [[buffer(5)]]
, device type_5& conv_out [[buffer(6)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(7)]]
) {
    bool local = {};
    bool local_1 = {};
    bool local_2 = {};
    uint word_2 = invocation.x;
    uint row_2 = invocation.y;
    int lane_2 = conv_lane[row_2];
    uint _e8 = conv.words;
    if (!((word_2 >= _e8))) {
        local = lane_2 == NO_LANE;
    } else {
        local = true;
    }
    bool _e16 = local;
    if (_e16) {
        return;
    }
    int _e19 = conv_position[row_2];
    uint position_2 = static_cast<uint>(_e19);
    uint _e21 = gated_1(row_2, word_2, conv, projected, _buffer_sizes);
    uint _e24 = conv.parts;
    if ((_e24 & 1u) != 0u) {
        uint _e33 = conv_weight[3u * word_2];
        uint _e40 = conv_weight[(3u * word_2) + 1u];
        uint _e47 = conv_weight[(3u * word_2) + 2u];
        metal::uint3 weights_1 = metal::uint3(_e33, _e40, _e47);
        uint _e50 = gated_before(row_2, lane_2, position_2, 2u, word_2, conv, projected, conv_lane, ring, _buffer_sizes);
        uint _e52 = gated_before(row_2, lane_2, position_2, 1u, word_2, conv, projected, conv_lane, ring, _buffer_sizes);
        uint _e60 = conv.words;
        uint by_1 = projected[(((row_2 * 3u) + 1u) * _e60) + word_2];
        uint _e68 = conv.words;
        uint _e73 = convolved(weights_1, metal::uint3(_e50, _e52, _e21), by_1);
        conv_out[(row_2 * _e68) + word_2] = _e73;
    }
    uint later = row_2 + CONV_RING;
    uint _e78 = conv.rows;
    if (later < _e78) {
        uint _e85 = conv.rows;
        int _e90 = conv_lane[metal::min(later, _e85 - 1u)];
        local_1 = _e90 == lane_2;
    } else {
        local_1 = false;
    }
    bool overwritten = local_1;
    uint _e96 = conv.parts;
    if ((_e96 & 2u) != 0u) {
        local_2 = !(overwritten);
    } else {
        local_2 = false;
    }
    bool _e105 = local_2;
    if (_e105) {
        uint _e109 = conv.words;
        uint _e110 = ring_slot(lane_2, position_2, _e109);
        ring[_e110 + word_2] = _e21;
        return;
    } else {
        return;
    }
}
