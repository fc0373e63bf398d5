// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size4;
    uint size5;
    uint size6;
    uint size7;
};

typedef float type_5[1];
typedef int type_6[1];
typedef uint type_7[1];
struct type_8 {
    metal::uint2 inner[256];
};
struct type_9 {
    metal::uint2 inner[16];
};
struct LogParams {
    uint vocabulary;
    uint alternatives;
};
struct type_11 {
    float inner[256];
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint FLAG_COUNTS = 1u;
constant uint FLAG_LOGIT_BIAS = 2u;
constant uint PROMPT_SEEN = 2147483648u;
constant uint THREADS = 256u;
constant uint NEGATIVE_INFINITY = 4286578688u;

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
    float value_2 = mantissa * as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(naga_f2i32(exponent)) + as_type<uint>(127))) << 23u);
    return (x < -87.3) ? 0.0 : value_2;
}

float logarithm(
    float x_1
) {
    float series_1 = {};
    int offset = as_type<int>(as_type<uint>(as_type<int>(x_1)) - as_type<uint>(1060439283));
    float exponent_1 = static_cast<float>(offset >> 23u);
    float f = as_type<float>(as_type<int>(as_type<uint>(offset & 8388607) + as_type<uint>(1060439283))) - 1.0;
    float s = f / (2.0 + f);
    float square = s * s;
    series_1 = metal::fma(0.18181819, square, 0.22222222);
    float _e22 = series_1;
    series_1 = metal::fma(_e22, square, 0.2857143);
    float _e25 = series_1;
    series_1 = metal::fma(_e25, square, 0.4);
    float _e28 = series_1;
    series_1 = metal::fma(_e28, square, 0.6666667);
    float _e31 = series_1;
    float correction = s * metal::fma(_e31, square, -(f));
    return metal::fma(exponent_1, 0.69314575, metal::fma(exponent_1, 0.0000014286068, correction) + f);
}

uint ordered(
    float value
) {
    uint bits = (value == 0.0) ? 0u : as_type<uint>(value);
    return ((bits & 2147483648u) != 0u) ? ~(bits) : (bits | 2147483648u);
}

float value_of_order(
    uint order
) {
    return as_type<float>(((order & 2147483648u) != 0u) ? (order & 2147483647u) : ~(order));
}

bool is_less(
    metal::uint2 a,
    metal::uint2 b
) {
    bool local = {};
    bool local_1 = {};
    if (!((a.x < b.x))) {
        if (a.x == b.x) {
            local_1 = a.y < b.y;
        } else {
            local_1 = false;
        }
        bool _e17 = local_1;
        local = _e17;
    } else {
        local = true;
    }
    bool _e19 = local;
    return _e19;
}

metal::uint2 higher_key(
    metal::uint2 a_1,
    metal::uint2 b_1
) {
    bool _e2 = is_less(a_1, b_1);
    return _e2 ? b_1 : a_1;
}

metal::uint2 key_of(
    uint token_3,
    float value_1
) {
    uint _e2 = ordered(value_1);
    return metal::uint2(_e2, ~(token_3));
}

metal::uint2 highest_key(
    uint thread_1,
    metal::uint2 key,
    threadgroup type_8& keys,
    threadgroup type_9& keys_of_sixteen
) {
    metal::uint2 best_1 = {};
    uint i_2 = 1u;
    metal::uint2 best_2 = {};
    uint i_3 = 1u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    keys.inner[thread_1] = key;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_1 < 16u) {
        metal::uint2 _e10 = keys.inner[thread_1 * 16u];
        best_1 = _e10;
        bool loop_init = true;
        while(true) {
            if (!loop_init) {
                uint _e27 = i_2;
                i_2 = _e27 + 1u;
            }
            loop_init = false;
            uint _e14 = i_2;
            if (_e14 < 16u) {
            } else {
                break;
            }
            {
                metal::uint2 _e17 = best_1;
                uint _e21 = i_2;
                metal::uint2 _e24 = keys.inner[(thread_1 * 16u) + _e21];
                metal::uint2 _e25 = higher_key(_e17, _e24);
                best_1 = _e25;
            }
        }
        metal::uint2 _e31 = best_1;
        keys_of_sixteen.inner[thread_1] = _e31;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint2 _e34 = keys_of_sixteen.inner[0];
    best_2 = _e34;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e48 = i_3;
            i_3 = _e48 + 1u;
        }
        loop_init_1 = false;
        uint _e38 = i_3;
        if (_e38 < 16u) {
        } else {
            break;
        }
        {
            metal::uint2 _e41 = best_2;
            uint _e43 = i_3;
            metal::uint2 _e45 = keys_of_sixteen.inner[_e43];
            metal::uint2 _e46 = higher_key(_e41, _e45);
            best_2 = _e46;
        }
    }
    metal::uint2 _e50 = best_2;
    return _e50;
}

struct log_probabilitiesInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void log_probabilities(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_5 const& logits [[buffer(1)]]
, threadgroup type_8& keys
, threadgroup type_9& keys_of_sixteen
, constant LogParams& asked [[buffer(0)]]
, device type_6 const& log_drawn [[buffer(2)]]
, device type_6 const& log_index [[buffer(3)]]
, device type_6& log_tokens [[buffer(4)]]
, device type_7& log_values [[buffer(5)]]
, threadgroup type_11& log_sums
, constant _mslBufferSizes& _buffer_sizes [[buffer(6)]]
) {
    metal::uint2 best = metal::uint2 {};
    uint token = {};
    float sum = 0.0;
    uint token_1 = {};
    float total = {};
    uint i = 1u;
    uint i_1 = 1u;
    metal::uint2 next = {};
    uint token_2 = {};
    int row = log_index[workgroup.x];
    if (row < 0) {
        return;
    }
    uint _e11 = asked.vocabulary;
    uint first = static_cast<uint>(row) * _e11;
    token = thread_;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e30 = token;
            token = _e30 + THREADS;
        }
        loop_init_2 = false;
        uint _e16 = token;
        uint _e19 = asked.vocabulary;
        if (_e16 < _e19) {
        } else {
            break;
        }
        {
            metal::uint2 _e21 = best;
            uint _e22 = token;
            uint _e24 = token;
            float _e27 = logits[first + _e24];
            metal::uint2 _e28 = key_of(_e22, _e27);
            metal::uint2 _e29 = higher_key(_e21, _e28);
            best = _e29;
        }
    }
    metal::uint2 _e33 = best;
    metal::uint2 _e34 = highest_key(thread_, _e33, keys, keys_of_sixteen);
    best = _e34;
    uint _e36 = best.x;
    float _e37 = value_of_order(_e36);
    token_1 = thread_;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e55 = token_1;
            token_1 = _e55 + THREADS;
        }
        loop_init_3 = false;
        uint _e41 = token_1;
        uint _e44 = asked.vocabulary;
        if (_e41 < _e44) {
        } else {
            break;
        }
        {
            float _e46 = sum;
            uint _e48 = token_1;
            float _e51 = logits[first + _e48];
            float _e53 = exponential(_e51 - _e37);
            sum = _e46 + _e53;
        }
    }
    float _e60 = sum;
    log_sums.inner[thread_] = _e60;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e63 = log_sums.inner[0];
    total = _e63;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e77 = i;
            i = _e77 + 1u;
        }
        loop_init_4 = false;
        uint _e67 = i;
        if (_e67 < THREADS) {
        } else {
            break;
        }
        {
            float _e70 = total;
            uint _e72 = i;
            float _e74 = log_sums.inner[_e72];
            total = _e70 + _e74;
        }
    }
    float _e79 = total;
    float _e80 = logarithm(_e79);
    uint _e85 = asked.alternatives;
    uint out = workgroup.x * (1u + _e85);
    if (thread_ == 0u) {
        int token_4 = log_drawn[row];
        log_tokens[out] = token_4;
        float _e101 = logits[first + static_cast<uint>(token_4)];
        log_values[out] = as_type<uint>((_e101 - _e37) - _e80);
    }
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e165 = i_1;
            i_1 = _e165 + 1u;
        }
        loop_init_5 = false;
        uint _e107 = i_1;
        uint _e110 = asked.alternatives;
        if (_e107 <= _e110) {
        } else {
            break;
        }
        {
            if (thread_ == 0u) {
                uint _e115 = best.x;
                bool is_one = _e115 != 0u;
                uint _e119 = i_1;
                uint _e123 = best.y;
                log_tokens[out + _e119] = is_one ? static_cast<int>(~(_e123)) : -1;
                uint _e129 = best.x;
                float _e130 = value_of_order(_e129);
                uint value_3 = as_type<uint>((_e130 - _e37) - _e80);
                uint _e135 = i_1;
                log_values[out + _e135] = is_one ? value_3 : NEGATIVE_INFINITY;
            }
            next = metal::uint2 {};
            token_2 = thread_;
            bool loop_init_6 = true;
            while(true) {
                if (!loop_init_6) {
                    uint _e159 = token_2;
                    token_2 = _e159 + THREADS;
                }
                loop_init_6 = false;
                uint _e143 = token_2;
                uint _e146 = asked.vocabulary;
                if (_e143 < _e146) {
                } else {
                    break;
                }
                {
                    uint _e148 = token_2;
                    uint _e150 = token_2;
                    float _e153 = logits[first + _e150];
                    metal::uint2 _e154 = key_of(_e148, _e153);
                    metal::uint2 _e155 = best;
                    bool _e156 = is_less(_e154, _e155);
                    if (_e156) {
                        metal::uint2 _e157 = next;
                        metal::uint2 _e158 = higher_key(_e157, _e154);
                        next = _e158;
                    }
                }
            }
            metal::uint2 _e162 = next;
            metal::uint2 _e163 = highest_key(thread_, _e162, keys, keys_of_sixteen);
            best = _e163;
        }
    }
    return;
}
