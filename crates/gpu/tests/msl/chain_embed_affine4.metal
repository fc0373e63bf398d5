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
    uint size6;
    uint size7;
    uint size8;
    uint size9;
    uint size10;
};

typedef metal::uint4 type_5[1];
typedef uint type_6[1];
typedef int type_8[1];
struct ChainParams {
    uint inputs;
    uint group_shift;
    uint half_scales;
    uint first;
    uint count;
    uint hidden_words;
    uint size;
    uint step;
};
typedef float type_10[1];
struct type_11 {
    float inner[64];
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint CHAIN_THREADS = 64u;
constant uint FORMAT = 1u;

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
    uint word_2 = scales[index];
    if (half_scales != 0u) {
        return float2(as_type<half2>(word_2));
    }
    float _e8 = low(word_2);
    float _e9 = high(word_2);
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
    if (true) {
        uint _e35 = code_word((output * (inputs / 8u)) + (pair_2 / 4u), codes, _buffer_sizes);
        uint word_3 = _e35 >> ((pair_2 % 4u) * 8u);
        first_1 = word_3 & 15u;
        second_1 = (word_3 >> 4u) & 15u;
    } else {
        uint _e53 = code_word((output * (inputs / 4u)) + (pair_2 / 2u), codes, _buffer_sizes);
        uint word_4 = _e53 >> ((pair_2 % 2u) * 16u);
        first_1 = word_4 & 255u;
        second_1 = (word_4 >> 8u) & 255u;
    }
    uint _e65 = first_1;
    float _e68 = meaning(_e65, _e22.x, _e22.y);
    uint _e69 = second_1;
    float _e72 = meaning(_e69, _e22.x, _e22.y);
    uint _e73 = narrow(_e68, _e72);
    return _e73;
}

struct chain_embedInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void chain_embed(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_5 const& codes [[buffer(1)]]
, device type_6 const& scales [[buffer(2)]]
, constant ChainParams& chain [[buffer(0)]]
, device type_8 const& block_lane [[buffer(3)]]
, device type_8 const& block_token [[buffer(4)]]
, device type_8 const& drafts [[buffer(5)]]
, device type_6 const& hidden [[buffer(6)]]
, device type_6 const& confidence_weight [[buffer(7)]]
, device type_6 const& confidence_bias [[buffer(8)]]
, device type_6& embeddings [[buffer(9)]]
, device type_10& confidence [[buffer(10)]]
, threadgroup type_11& confidence_parts
, constant _mslBufferSizes& _buffer_sizes [[buffer(11)]]
) {
    int token = {};
    bool local = {};
    float sum = 0.0;
    uint word = {};
    uint word_1 = {};
    bool local_1 = {};
    bool local_2 = {};
    float total = {};
    uint i = 1u;
    uint _e5 = chain.size;
    uint first_2 = workgroup.x * _e5;
    uint _e9 = chain.step;
    uint row = first_2 + _e9;
    int _e13 = block_token[first_2];
    token = _e13;
    uint _e17 = chain.step;
    if (_e17 > 0u) {
        int _e24 = drafts[row - 1u];
        token = _e24;
    }
    int _e25 = token;
    uint _e29 = chain.first;
    uint output_1 = static_cast<uint>(_e25) - _e29;
    int _e33 = block_lane[first_2];
    if (_e33 != NO_LANE) {
        uint _e40 = chain.count;
        local = output_1 < _e40;
    } else {
        local = false;
    }
    bool is_here = local;
    uint _e46 = chain.inputs;
    uint words = _e46 / 2u;
    if (is_here) {
        word = thread_;
        bool loop_init = true;
        while(true) {
            if (!loop_init) {
                uint _e77 = word;
                word = _e77 + CHAIN_THREADS;
            }
            loop_init = false;
            uint _e52 = word;
            uint _e55 = chain.hidden_words;
            if (_e52 < _e55) {
            } else {
                break;
            }
            {
                uint _e58 = word;
                uint weight = confidence_weight[_e58];
                uint _e64 = chain.hidden_words;
                uint _e66 = word;
                uint value_1 = hidden[(row * _e64) + _e66];
                float _e70 = high(weight);
                float _e71 = high(value_1);
                float _e72 = low(weight);
                float _e73 = low(value_1);
                float _e74 = sum;
                sum = metal::fma(_e70, _e71, metal::fma(_e72, _e73, _e74));
            }
        }
        word_1 = thread_;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e120 = word_1;
                word_1 = _e120 + CHAIN_THREADS;
            }
            loop_init_1 = false;
            uint _e81 = word_1;
            if (_e81 < words) {
            } else {
                break;
            }
            {
                uint _e83 = word_1;
                uint _e86 = chain.inputs;
                uint _e89 = chain.group_shift;
                uint _e92 = chain.half_scales;
                uint _e93 = weight_pair(output_1, _e83, _e86, _e89, _e92, codes, scales, _buffer_sizes);
                uint _e97 = word_1;
                embeddings[(workgroup.x * words) + _e97] = _e93;
                uint _e102 = chain.hidden_words;
                if (_e102 > 0u) {
                    uint _e108 = chain.hidden_words;
                    uint _e109 = word_1;
                    uint weight_1 = confidence_weight[_e108 + _e109];
                    float _e113 = high(weight_1);
                    float _e114 = high(_e93);
                    float _e115 = low(weight_1);
                    float _e116 = low(_e93);
                    float _e117 = sum;
                    sum = metal::fma(_e113, _e114, metal::fma(_e115, _e116, _e117));
                }
            }
        }
    }
    float _e125 = sum;
    confidence_parts.inner[thread_] = _e125;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_ == 0u) {
        local_1 = is_here;
    } else {
        local_1 = false;
    }
    bool _e131 = local_1;
    if (_e131) {
        uint _e136 = chain.hidden_words;
        local_2 = _e136 > 0u;
    } else {
        local_2 = false;
    }
    bool _e140 = local_2;
    if (_e140) {
        float _e143 = confidence_parts.inner[0];
        total = _e143;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e157 = i;
                i = _e157 + 1u;
            }
            loop_init_2 = false;
            uint _e147 = i;
            if (_e147 < CHAIN_THREADS) {
            } else {
                break;
            }
            {
                float _e150 = total;
                uint _e152 = i;
                float _e154 = confidence_parts.inner[_e152];
                total = _e150 + _e154;
            }
        }
        float _e161 = total;
        uint _e164 = confidence_bias[0];
        float _e165 = low(_e164);
        confidence[row] = _e161 + _e165;
        return;
    } else {
        return;
    }
}
