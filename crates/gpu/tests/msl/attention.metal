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
    uint size7;
};

typedef uint type_3[1];
typedef float type_4[1];
typedef int type_5[1];
struct AttentionParams {
    uint first_row;
    uint query_heads;
    uint key_value_heads;
    uint pages_per_lane;
    uint shares;
};
typedef metal::uint4 type_8[1];
struct type_10 {
    metal::float4 inner[64];
};
struct type_11 {
    metal::float4 inner[256];
};
struct type_12 {
    metal::float4 inner[16];
};
struct type_13 {
    metal::float4 inner[512];
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint HEAD = 64u;
constant uint HEAD_WORDS = 32u;
constant uint PARTIAL = 66u;
constant uint HEADS = 4u;

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
    float value = mantissa * as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(naga_f2i32(exponent)) + as_type<uint>(127))) << 23u);
    return (x < -87.3) ? 0.0 : value;
}

metal::float4 score(
    uint key,
    device type_8 const& keys,
    threadgroup type_10& query,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 sum = metal::float4 {};
    uint i_5 = 0u;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e118 = i_5;
            i_5 = _e118 + 1u;
        }
        loop_init = false;
        uint _e5 = i_5;
        if (_e5 < 8u) {
        } else {
            break;
        }
        {
            uint _e11 = i_5;
            metal::uint4 words = keys[(key * 8u) + _e11];
            float _e16 = low(words.x);
            uint _e20 = i_5;
            metal::float4 _e23 = query.inner[8u * _e20];
            metal::float4 _e24 = sum;
            sum = metal::fma(metal::float4(_e16), _e23, _e24);
            float _e27 = high(words.x);
            uint _e31 = i_5;
            metal::float4 _e36 = query.inner[(8u * _e31) + 1u];
            metal::float4 _e37 = sum;
            sum = metal::fma(metal::float4(_e27), _e36, _e37);
            float _e40 = low(words.y);
            uint _e44 = i_5;
            metal::float4 _e49 = query.inner[(8u * _e44) + 2u];
            metal::float4 _e50 = sum;
            sum = metal::fma(metal::float4(_e40), _e49, _e50);
            float _e53 = high(words.y);
            uint _e57 = i_5;
            metal::float4 _e62 = query.inner[(8u * _e57) + 3u];
            metal::float4 _e63 = sum;
            sum = metal::fma(metal::float4(_e53), _e62, _e63);
            float _e66 = low(words.z);
            uint _e70 = i_5;
            metal::float4 _e75 = query.inner[(8u * _e70) + 4u];
            metal::float4 _e76 = sum;
            sum = metal::fma(metal::float4(_e66), _e75, _e76);
            float _e79 = high(words.z);
            uint _e83 = i_5;
            metal::float4 _e88 = query.inner[(8u * _e83) + 5u];
            metal::float4 _e89 = sum;
            sum = metal::fma(metal::float4(_e79), _e88, _e89);
            float _e92 = low(words.w);
            uint _e96 = i_5;
            metal::float4 _e101 = query.inner[(8u * _e96) + 6u];
            metal::float4 _e102 = sum;
            sum = metal::fma(metal::float4(_e92), _e101, _e102);
            float _e105 = high(words.w);
            uint _e109 = i_5;
            metal::float4 _e114 = query.inner[(8u * _e109) + 7u];
            metal::float4 _e115 = sum;
            sum = metal::fma(metal::float4(_e105), _e114, _e115);
        }
    }
    metal::float4 _e120 = sum;
    return _e120 * 0.125;
}

metal::float4 exponential4_(
    metal::float4 x_1
) {
    float _e2 = exponential(x_1.x);
    float _e4 = exponential(x_1.y);
    float _e6 = exponential(x_1.z);
    float _e8 = exponential(x_1.w);
    return metal::float4(_e2, _e4, _e6, _e8);
}

metal::float4 highest_score(
    uint thread_1,
    threadgroup type_11& scores,
    threadgroup type_12& of_sixteen
) {
    metal::float4 highest = {};
    uint i_6 = 1u;
    metal::float4 highest_1 = {};
    uint i_7 = 1u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_1 < 16u) {
        metal::float4 _e7 = scores.inner[thread_1 * 16u];
        highest = _e7;
        bool loop_init_1 = true;
        while(true) {
            if (!loop_init_1) {
                uint _e24 = i_6;
                i_6 = _e24 + 1u;
            }
            loop_init_1 = false;
            uint _e11 = i_6;
            if (_e11 < 16u) {
            } else {
                break;
            }
            {
                metal::float4 _e14 = highest;
                uint _e18 = i_6;
                metal::float4 _e21 = scores.inner[(thread_1 * 16u) + _e18];
                highest = metal::max(_e14, _e21);
            }
        }
        metal::float4 _e28 = highest;
        of_sixteen.inner[thread_1] = _e28;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::float4 _e31 = of_sixteen.inner[0];
    highest_1 = _e31;
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e45 = i_7;
            i_7 = _e45 + 1u;
        }
        loop_init_2 = false;
        uint _e35 = i_7;
        if (_e35 < 16u) {
        } else {
            break;
        }
        {
            metal::float4 _e38 = highest_1;
            uint _e40 = i_7;
            metal::float4 _e42 = of_sixteen.inner[_e40];
            highest_1 = metal::max(_e38, _e42);
        }
    }
    metal::float4 _e47 = highest_1;
    return _e47;
}

void weigh_values(
    uint thread_2,
    uint start,
    uint seen,
    device type_3 const& values,
    threadgroup type_11& scores,
    threadgroup type_13& value_parts,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 even = metal::float4 {};
    metal::float4 odd = metal::float4 {};
    uint key_1 = {};
    uint word = thread_2 % 32u;
    uint first = (thread_2 / 32u) * 32u;
    key_1 = first;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e44 = key_1;
            key_1 = _e44 + 1u;
        }
        loop_init_3 = false;
        uint _e14 = key_1;
        if (_e14 < metal::min(first + 32u, seen)) {
        } else {
            break;
        }
        {
            uint _e20 = key_1;
            uint pair_2 = values[(start + (_e20 * HEAD_WORDS)) + word];
            uint _e28 = key_1;
            metal::float4 _e30 = scores.inner[_e28];
            float _e31 = low(pair_2);
            metal::float4 _e33 = even;
            even = metal::fma(_e30, metal::float4(_e31), _e33);
            uint _e36 = key_1;
            metal::float4 _e38 = scores.inner[_e36];
            float _e39 = high(pair_2);
            metal::float4 _e41 = odd;
            odd = metal::fma(_e38, metal::float4(_e39), _e41);
        }
    }
    metal::float4 _e55 = even;
    value_parts.inner[((thread_2 / 32u) * HEAD) + (2u * word)] = _e55;
    metal::float4 _e67 = odd;
    value_parts.inner[(((thread_2 / 32u) * HEAD) + (2u * word)) + 1u] = _e67;
    return;
}

struct attentionInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void attention(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, constant AttentionParams& attended [[buffer(0)]]
, device type_3 const& queries [[buffer(1)]]
, device type_8 const& keys [[buffer(2)]]
, device type_3 const& values [[buffer(3)]]
, device type_5 const& pages [[buffer(4)]]
, device type_5 const& lanes [[buffer(5)]]
, device type_5 const& key_ends [[buffer(6)]]
, device type_4& partials [[buffer(7)]]
, threadgroup type_10& query
, threadgroup type_11& scores
, threadgroup type_12& of_sixteen
, threadgroup type_13& value_parts
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    metal::float4 dimension = metal::float4 {};
    uint i = 0u;
    uint page = {};
    metal::float4 mine = {};
    metal::float4 weight = {};
    uint i_1 = {};
    metal::float4 total = {};
    uint i_2 = {};
    metal::float4 weight_1 = {};
    uint i_3 = {};
    uint i_4 = {};
    uint _e4 = attended.first_row;
    uint row = _e4 + workgroup.x;
    uint _e9 = attended.query_heads;
    uint _e12 = attended.key_value_heads;
    uint group = _e9 / _e12;
    uint batches = ((group + HEADS) - 1u) / HEADS;
    uint key_head = workgroup.y / batches;
    uint in_group = (workgroup.y % batches) * HEADS;
    uint heads = metal::min(HEADS, group - in_group);
    uint first_head = (key_head * group) + in_group;
    int lane = lanes[row];
    if (lane == NO_LANE) {
        return;
    }
    int _e38 = key_ends[row];
    uint key_end = static_cast<uint>(_e38);
    uint _e42 = attended.query_heads;
    uint _e46 = attended.key_value_heads;
    uint width = (_e42 + (2u * _e46)) * HEAD_WORDS;
    if (thread_ < HEAD) {
        bool loop_init_4 = true;
        while(true) {
            if (!loop_init_4) {
                uint _e85 = i;
                i = _e85 + 1u;
            }
            loop_init_4 = false;
            uint _e57 = i;
            if (_e57 < HEADS) {
            } else {
                break;
            }
            {
                uint _e60 = i;
                uint head = first_head + metal::min(_e60, heads - 1u);
                uint pair_3 = queries[((row * width) + (head * HEAD_WORDS)) + (thread_ / 2u)];
                uint _e75 = i;
                float _e77 = low(pair_3);
                float _e78 = high(pair_3);
                dimension[_e75] = ((thread_ % 2u) == 1u) ? _e78 : _e77;
            }
        }
        metal::float4 _e89 = dimension;
        query.inner[thread_] = _e89;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    page = workgroup.z;
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e257 = page;
            uint _e260 = attended.shares;
            page = _e257 + _e260;
        }
        loop_init_5 = false;
        uint _e92 = page;
        if ((_e92 * PAGE) < key_end) {
        } else {
            break;
        }
        {
            uint _e100 = attended.pages_per_lane;
            uint _e102 = page;
            int _e105 = pages[(static_cast<uint>(lane) * _e100) + _e102];
            uint number = static_cast<uint>(_e105);
            uint _e109 = attended.key_value_heads;
            uint start_1 = ((number * _e109) + key_head) * PAGE;
            uint _e115 = page;
            uint seen_1 = metal::min(PAGE, key_end - (_e115 * PAGE));
            mine = metal::float4(-300000000000000000000000000000000000000.0);
            if (thread_ < seen_1) {
                metal::float4 _e125 = score(start_1 + thread_, keys, query, _buffer_sizes);
                mine = _e125;
            }
            metal::float4 _e128 = mine;
            scores.inner[thread_] = _e128;
            metal::float4 _e129 = highest_score(thread_, scores, of_sixteen);
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            metal::float4 _e133 = mine;
            metal::float4 _e135 = exponential4_(_e133 - _e129);
            scores.inner[thread_] = (thread_ < seen_1) ? _e135 : metal::float4 {};
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            weigh_values(thread_, start_1 * HEAD_WORDS, seen_1, values, scores, value_parts, _buffer_sizes);
            if (thread_ < 16u) {
                metal::float4 _e146 = scores.inner[thread_ * 16u];
                weight = _e146;
                i_1 = 1u;
                bool loop_init_6 = true;
                while(true) {
                    if (!loop_init_6) {
                        uint _e163 = i_1;
                        i_1 = _e163 + 1u;
                    }
                    loop_init_6 = false;
                    uint _e150 = i_1;
                    if (_e150 < 16u) {
                    } else {
                        break;
                    }
                    {
                        metal::float4 _e153 = weight;
                        uint _e157 = i_1;
                        metal::float4 _e160 = scores.inner[(thread_ * 16u) + _e157];
                        weight = _e153 + _e160;
                    }
                }
                metal::float4 _e167 = weight;
                of_sixteen.inner[thread_] = _e167;
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            if (thread_ < HEAD) {
                metal::float4 _e172 = value_parts.inner[thread_];
                total = _e172;
                i_2 = 1u;
                bool loop_init_7 = true;
                while(true) {
                    if (!loop_init_7) {
                        uint _e189 = i_2;
                        i_2 = _e189 + 1u;
                    }
                    loop_init_7 = false;
                    uint _e176 = i_2;
                    if (_e176 < 8u) {
                    } else {
                        break;
                    }
                    {
                        metal::float4 _e179 = total;
                        uint _e181 = i_2;
                        metal::float4 _e186 = value_parts.inner[(_e181 * HEAD) + thread_];
                        total = _e179 + _e186;
                    }
                }
                metal::float4 _e193 = of_sixteen.inner[0];
                weight_1 = _e193;
                i_3 = 1u;
                bool loop_init_8 = true;
                while(true) {
                    if (!loop_init_8) {
                        uint _e207 = i_3;
                        i_3 = _e207 + 1u;
                    }
                    loop_init_8 = false;
                    uint _e197 = i_3;
                    if (_e197 < 16u) {
                    } else {
                        break;
                    }
                    {
                        metal::float4 _e200 = weight_1;
                        uint _e202 = i_3;
                        metal::float4 _e204 = of_sixteen.inner[_e202];
                        weight_1 = _e200 + _e204;
                    }
                }
                i_4 = 0u;
                bool loop_init_9 = true;
                while(true) {
                    if (!loop_init_9) {
                        uint _e255 = i_4;
                        i_4 = _e255 + 1u;
                    }
                    loop_init_9 = false;
                    uint _e211 = i_4;
                    if (_e211 < heads) {
                    } else {
                        break;
                    }
                    {
                        uint _e216 = attended.query_heads;
                        uint _e219 = i_4;
                        uint _e223 = attended.pages_per_lane;
                        uint _e225 = page;
                        uint sums = ((((workgroup.x * _e216) + first_head) + _e219) * _e223) + _e225;
                        uint _e234 = i_4;
                        float _e236 = total[_e234];
                        partials[((sums * PARTIAL) + 2u) + thread_] = _e236;
                        if (thread_ == 0u) {
                            uint _e243 = i_4;
                            partials[sums * PARTIAL] = _e129[_e243];
                            uint _e251 = i_4;
                            float _e253 = weight_1[_e251];
                            partials[(sums * PARTIAL) + 1u] = _e253;
                        }
                    }
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    return;
}
