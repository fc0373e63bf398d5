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

typedef uint type_4[1];
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

uint gated(
    uint row,
    uint word,
    constant ConvParams& conv,
    device type_4 const& projected,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e7 = conv.words;
    uint b = projected[((row * 3u) * _e7) + word];
    uint _e19 = conv.words;
    uint x = projected[(((row * 3u) + 2u) * _e19) + word];
    float _e24 = low(b);
    float _e25 = low(x);
    float _e27 = high(b);
    float _e28 = high(x);
    uint _e30 = narrow(_e24 * _e25, _e27 * _e28);
    return _e30;
}

uint ring_slot(
    int lane,
    uint position,
    uint word_1,
    constant ConvParams& conv
) {
    uint _e11 = conv.words;
    return (((static_cast<uint>(lane) * CONV_RING) + (position % CONV_RING)) * _e11) + word_1;
}

uint gated_before(
    uint row_1,
    int lane_1,
    uint position_1,
    uint back,
    uint word_2,
    constant ConvParams& conv,
    device type_4 const& projected,
    device type_6 const& conv_lane,
    device type_4 const& ring,
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
        uint _e18 = gated(row_1 - back, word_2, conv, projected, _buffer_sizes);
        return _e18;
    }
    uint _e21 = ring_slot(lane_1, position_1 - back, word_2, conv);
    uint _e23 = ring[_e21];
    return _e23;
}

struct short_convInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void short_conv(
  metal::uint3 invocation [[thread_position_in_grid]]
, constant ConvParams& conv [[buffer(0)]]
, device type_4 const& projected [[buffer(1)]]
, device type_4 const& conv_weight [[buffer(2)]]
, device type_6 const& conv_lane [[buffer(3)]]
, device type_6 const& conv_position [[buffer(4)]]
, device type_4& ring [[buffer(5)]]
, device type_4& conv_out [[buffer(6)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(7)]]
) {
    bool local = {};
    bool local_1 = {};
    bool local_2 = {};
    uint word_3 = invocation.x;
    uint row_2 = invocation.y;
    int lane_2 = conv_lane[row_2];
    uint _e8 = conv.words;
    if (!((word_3 >= _e8))) {
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
    uint _e21 = gated(row_2, word_3, conv, projected, _buffer_sizes);
    uint _e24 = conv.parts;
    if ((_e24 & 1u) != 0u) {
        uint first_1 = conv_weight[3u * word_3];
        uint second_1 = conv_weight[(3u * word_3) + 1u];
        uint third = conv_weight[(3u * word_3) + 2u];
        uint _e49 = gated_before(row_2, lane_2, position_2, 2u, word_3, conv, projected, conv_lane, ring, _buffer_sizes);
        uint _e51 = gated_before(row_2, lane_2, position_2, 1u, word_3, conv, projected, conv_lane, ring, _buffer_sizes);
        float _e52 = low(second_1);
        float _e53 = low(_e21);
        float _e54 = high(first_1);
        float _e55 = low(_e51);
        float _e56 = low(first_1);
        float _e57 = low(_e49);
        float c = metal::fma(_e52, _e53, metal::fma(_e54, _e55, _e56 * _e57));
        float _e61 = high(third);
        float _e62 = high(_e21);
        float _e63 = low(third);
        float _e64 = high(_e51);
        float _e65 = high(second_1);
        float _e66 = high(_e49);
        float d = metal::fma(_e61, _e62, metal::fma(_e63, _e64, _e65 * _e66));
        uint _e77 = conv.words;
        uint by = projected[(((row_2 * 3u) + 1u) * _e77) + word_3];
        uint _e85 = conv.words;
        float _e89 = low(by);
        float _e90 = rounded(c);
        float _e92 = high(by);
        float _e93 = rounded(d);
        uint _e95 = narrow(_e89 * _e90, _e92 * _e93);
        conv_out[(row_2 * _e85) + word_3] = _e95;
    }
    uint later = row_2 + CONV_RING;
    uint _e100 = conv.rows;
    if (later < _e100) {
        uint _e107 = conv.rows;
        int _e112 = conv_lane[metal::min(later, _e107 - 1u)];
        local_1 = _e112 == lane_2;
    } else {
        local_1 = false;
    }
    bool overwritten = local_1;
    uint _e118 = conv.parts;
    if ((_e118 & 2u) != 0u) {
        local_2 = !(overwritten);
    } else {
        local_2 = false;
    }
    bool _e127 = local_2;
    if (_e127) {
        uint _e129 = ring_slot(lane_2, position_2, word_3, conv);
        ring[_e129] = _e21;
        return;
    } else {
        return;
    }
}
