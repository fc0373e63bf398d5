// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
};

struct NormParams {
    uint words;
    float epsilon;
};
typedef uint type_3[1];
struct type_4 {
    float inner[128];
};
struct type_5 {
    float inner[8];
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

struct rms_normInput {
};
[[max_total_threads_per_threadgroup(128)]] kernel void rms_norm(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, constant NormParams& norm [[buffer(0)]]
, device type_3 const& norm_x [[buffer(1)]]
, device type_3 const& norm_weight [[buffer(2)]]
, device type_3& norm_out [[buffer(3)]]
, threadgroup type_4& squares
, threadgroup type_5& squares_of_eights
, constant _mslBufferSizes& _buffer_sizes [[buffer(4)]]
) {
    float sum = 0.0;
    uint word = {};
    float part = {};
    uint i = 1u;
    float total = {};
    uint i_1 = 1u;
    uint word_1 = {};
    uint _e5 = norm.words;
    uint start = workgroup.x * _e5;
    word = thread_;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e28 = word;
            word = _e28 + NORM_THREADS;
        }
        loop_init = false;
        uint _e10 = word;
        uint _e13 = norm.words;
        if (_e10 < _e13) {
        } else {
            break;
        }
        {
            uint _e16 = word;
            uint pair_2 = norm_x[start + _e16];
            float _e20 = low(pair_2);
            float _e21 = low(pair_2);
            float _e22 = sum;
            sum = metal::fma(_e20, _e21, _e22);
            float _e24 = high(pair_2);
            float _e25 = high(pair_2);
            float _e26 = sum;
            sum = metal::fma(_e24, _e25, _e26);
        }
    }
    float _e33 = sum;
    squares.inner[thread_] = _e33;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_ < 8u) {
        float _e40 = squares.inner[thread_ * 16u];
        part = _e40;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e57 = i;
                i = _e57 + 1u;
            }
            loop_init_1 = false;
            uint _e44 = i;
            if (_e44 < 16u) {
            } else {
                break;
            }
            {
                float _e47 = part;
                uint _e51 = i;
                float _e54 = squares.inner[(thread_ * 16u) + _e51];
                part = _e47 + _e54;
            }
        }
        float _e61 = part;
        squares_of_eights.inner[thread_] = _e61;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e64 = squares_of_eights.inner[0];
    total = _e64;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e78 = i_1;
            i_1 = _e78 + 1u;
        }
        loop_init_2 = false;
        uint _e68 = i_1;
        if (_e68 < 8u) {
        } else {
            break;
        }
        {
            float _e71 = total;
            uint _e73 = i_1;
            float _e75 = squares_of_eights.inner[_e73];
            total = _e71 + _e75;
        }
    }
    float _e80 = total;
    uint _e84 = norm.words;
    float _e90 = norm.epsilon;
    float scale = 1.0 / metal::sqrt((_e80 / static_cast<float>(2u * _e84)) + _e90);
    word_1 = thread_;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e125 = word_1;
            word_1 = _e125 + NORM_THREADS;
        }
        loop_init_3 = false;
        uint _e96 = word_1;
        uint _e99 = norm.words;
        if (_e96 < _e99) {
        } else {
            break;
        }
        {
            uint _e102 = word_1;
            uint pair_3 = norm_x[start + _e102];
            uint _e107 = word_1;
            uint weight = norm_weight[_e107];
            uint _e111 = word_1;
            float _e114 = low(weight);
            float _e115 = low(pair_3);
            float _e117 = rounded(_e115 * scale);
            float _e119 = high(weight);
            float _e120 = high(pair_3);
            float _e122 = rounded(_e120 * scale);
            uint _e124 = narrow(_e114 * _e117, _e119 * _e122);
            norm_out[start + _e111] = _e124;
        }
    }
    return;
}
