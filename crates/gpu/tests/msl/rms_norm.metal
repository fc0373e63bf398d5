// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size3;
    uint size4;
    uint size5;
};

struct type_3 {
    float inner[128];
};
struct type_4 {
    float inner[8];
};
struct NormParams {
    uint words;
    float epsilon;
};
typedef uint type_6[1];
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

float with_squares(
    float sum_1,
    uint pair_2
) {
    float _e2 = high(pair_2);
    float _e3 = high(pair_2);
    float _e4 = low(pair_2);
    float _e5 = low(pair_2);
    return metal::fma(_e2, _e3, metal::fma(_e4, _e5, sum_1));
}

float scale_of_squares(
    uint thread_1,
    float sum_2,
    uint words,
    float epsilon,
    threadgroup type_3& squares,
    threadgroup type_4& squares_of_eights
) {
    float part = {};
    uint i = 1u;
    float total = {};
    uint i_1 = 1u;
    squares.inner[thread_1] = sum_2;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_1 < 8u) {
        float _e12 = squares.inner[thread_1 * 16u];
        part = _e12;
        bool loop_init = true;
        while(true) {
            if (!loop_init) {
                uint _e29 = i;
                i = _e29 + 1u;
            }
            loop_init = false;
            uint _e16 = i;
            if (_e16 < 16u) {
            } else {
                break;
            }
            {
                float _e19 = part;
                uint _e23 = i;
                float _e26 = squares.inner[(thread_1 * 16u) + _e23];
                part = _e19 + _e26;
            }
        }
        float _e33 = part;
        squares_of_eights.inner[thread_1] = _e33;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e36 = squares_of_eights.inner[0];
    total = _e36;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e50 = i_1;
            i_1 = _e50 + 1u;
        }
        loop_init_1 = false;
        uint _e40 = i_1;
        if (_e40 < 8u) {
        } else {
            break;
        }
        {
            float _e43 = total;
            uint _e45 = i_1;
            float _e47 = squares_of_eights.inner[_e45];
            total = _e43 + _e47;
        }
    }
    float _e52 = total;
    return 1.0 / metal::sqrt((_e52 / static_cast<float>(2u * words)) + epsilon);
}

uint normed(
    uint pair_3,
    uint weight,
    float scale
) {
    float _e3 = low(weight);
    float _e4 = low(pair_3);
    float _e6 = rounded(_e4 * scale);
    float _e8 = high(weight);
    float _e9 = high(pair_3);
    float _e11 = rounded(_e9 * scale);
    uint _e13 = narrow(_e3 * _e6, _e8 * _e11);
    return _e13;
}

struct rms_normInput {
};
[[max_total_threads_per_threadgroup(128)]] kernel void rms_norm(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, threadgroup type_3& squares
, threadgroup type_4& squares_of_eights
, constant NormParams& norm [[buffer(0)]]
, device type_6 const& norm_x [[buffer(1)]]
, device type_6 const& norm_weight [[buffer(2)]]
, device type_6& norm_out [[buffer(3)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(4)]]
) {
    float sum = 0.0;
    uint word = {};
    uint word_1 = {};
    uint _e5 = norm.words;
    uint start = workgroup.x * _e5;
    word = thread_;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e22 = word;
            word = _e22 + NORM_THREADS;
        }
        loop_init_2 = false;
        uint _e10 = word;
        uint _e13 = norm.words;
        if (_e10 < _e13) {
        } else {
            break;
        }
        {
            float _e15 = sum;
            uint _e17 = word;
            uint _e20 = norm_x[start + _e17];
            float _e21 = with_squares(_e15, _e20);
            sum = _e21;
        }
    }
    float _e25 = sum;
    uint _e28 = norm.words;
    float _e31 = norm.epsilon;
    float _e32 = scale_of_squares(thread_, _e25, _e28, _e31, squares, squares_of_eights);
    word_1 = thread_;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e53 = word_1;
            word_1 = _e53 + NORM_THREADS;
        }
        loop_init_3 = false;
        uint _e34 = word_1;
        uint _e37 = norm.words;
        if (_e34 < _e37) {
        } else {
            break;
        }
        {
            uint _e40 = word_1;
            uint _e44 = word_1;
            uint _e47 = norm_x[start + _e44];
            uint _e49 = word_1;
            uint _e51 = norm_weight[_e49];
            uint _e52 = normed(_e47, _e51, _e32);
            norm_out[start + _e40] = _e52;
        }
    }
    return;
}
