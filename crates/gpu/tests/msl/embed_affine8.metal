// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size3;
    uint size4;
    uint size5;
};

typedef metal::uint4 type_5[1];
typedef uint type_6[1];
struct EmbedParams {
    uint inputs;
    uint group_shift;
    uint half_scales;
    uint first;
    uint count;
};
typedef int type_8[1];
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint CHAIN_THREADS = 64u;
constant uint FORMAT = 2u;

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

metal::float2 scale_and_bias(
    uint index,
    uint half_scales,
    device type_6 const& scales,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = scales[index];
    if (half_scales != 0u) {
        return float2(as_type<half2>(word));
    }
    float _e8 = low(word);
    float _e9 = high(word);
    return metal::float2(_e8, _e9);
}

float meaning(
    uint code,
    float scale,
    float bias
) {
    uint bits_1 = as_type<uint>(metal::fma(scale, static_cast<float>(code), bias));
    return as_type<float>(((bits_1 + 32767u) + ((bits_1 >> 16u) & 1u)) & 4294901760u);
}

uint code_word(
    uint index_1,
    device type_5 const& codes,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = codes[index_1 / 4u][index_1 % 4u];
    return _e8;
}

uint weight_pair(
    uint output,
    uint pair_2,
    uint inputs,
    uint group_shift,
    uint half_scales_1,
    device type_5 const& codes,
    device type_6 const& scales,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint first_1 = {};
    uint second_1 = {};
    if (false) {
        uint _e13 = code_word((output * (inputs / 2u)) + pair_2, codes, _buffer_sizes);
        return _e13;
    }
    uint chunks = inputs / 32u;
    uint group = (output * (chunks >> group_shift)) + ((pair_2 / 16u) >> group_shift);
    metal::float2 _e22 = scale_and_bias(group, half_scales_1, scales, _buffer_sizes);
    if (false) {
        uint _e35 = code_word((output * (inputs / 8u)) + (pair_2 / 4u), codes, _buffer_sizes);
        uint word_1 = _e35 >> ((pair_2 % 4u) * 8u);
        first_1 = word_1 & 15u;
        second_1 = (word_1 >> 4u) & 15u;
    } else {
        uint _e53 = code_word((output * (inputs / 4u)) + (pair_2 / 2u), codes, _buffer_sizes);
        uint word_2 = _e53 >> ((pair_2 % 2u) * 16u);
        first_1 = word_2 & 255u;
        second_1 = (word_2 >> 8u) & 255u;
    }
    uint _e65 = first_1;
    float _e68 = meaning(_e65, _e22.x, _e22.y);
    uint _e69 = second_1;
    float _e72 = meaning(_e69, _e22.x, _e22.y);
    uint _e73 = narrow(_e68, _e72);
    return _e73;
}

struct embedInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void embed(
  metal::uint3 invocation [[thread_position_in_grid]]
, device type_5 const& codes [[buffer(1)]]
, device type_6 const& scales [[buffer(2)]]
, constant EmbedParams& embedded [[buffer(0)]]
, device type_8 const& embed_lane [[buffer(3)]]
, device type_8 const& embed_token [[buffer(4)]]
, device type_6& embed_out [[buffer(5)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(6)]]
) {
    bool local = {};
    bool local_1 = {};
    uint row = invocation.y;
    uint _e4 = embedded.inputs;
    uint words = _e4 / 2u;
    int _e9 = embed_token[row];
    uint _e13 = embedded.first;
    uint output_1 = static_cast<uint>(_e9) - _e13;
    int _e17 = embed_lane[row];
    if (!((_e17 == NO_LANE))) {
        uint _e25 = embedded.count;
        local = output_1 >= _e25;
    } else {
        local = true;
    }
    bool _e28 = local;
    if (!(_e28)) {
        local_1 = invocation.x >= words;
    } else {
        local_1 = true;
    }
    bool _e35 = local_1;
    if (_e35) {
        return;
    }
    uint _e44 = embedded.inputs;
    uint _e47 = embedded.group_shift;
    uint _e50 = embedded.half_scales;
    uint _e51 = weight_pair(output_1, invocation.x, _e44, _e47, _e50, codes, scales, _buffer_sizes);
    embed_out[(row * words) + invocation.x] = _e51;
    return;
}
