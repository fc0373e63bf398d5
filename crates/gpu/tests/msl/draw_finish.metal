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
    uint size8;
    uint size9;
    uint size10;
};

struct DrawRow {
    uint seed_low;
    uint seed_high;
    uint choice;
    uint position;
    float temperature;
    uint top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    int lane;
    uint flags;
    int mask;
    int first_draft_row;
    int draft_rows;
};
struct DrawParams {
    uint vocabulary;
    uint parts;
    int step;
    uint size;
};
typedef float type_5[1];
typedef DrawRow type_6[1];
typedef int type_7[1];
typedef uint type_8[1];
typedef metal::uint2 type_9[1];
struct type_10 {
    metal::uint2 inner[256];
};
struct type_11 {
    metal::uint2 inner[16];
};
struct type_14 {
    metal::atomic_uint inner[256];
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
    float value_4 = mantissa * as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(naga_f2i32(exponent)) + as_type<uint>(127))) << 23u);
    return (x < -87.3) ? 0.0 : value_4;
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
    bool local_1 = {};
    bool local_2 = {};
    if (!((a.x < b.x))) {
        if (a.x == b.x) {
            local_2 = a.y < b.y;
        } else {
            local_2 = false;
        }
        bool _e17 = local_2;
        local_1 = _e17;
    } else {
        local_1 = true;
    }
    bool _e19 = local_1;
    return _e19;
}

metal::uint2 higher_key(
    metal::uint2 a_1,
    metal::uint2 b_1
) {
    bool _e2 = is_less(a_1, b_1);
    return _e2 ? b_1 : a_1;
}

metal::uint2 sum_of_words(
    metal::uint2 a_2,
    metal::uint2 b_2
) {
    uint lower = a_2.y + b_2.y;
    return metal::uint2((a_2.x + b_2.x) + ((lower < a_2.y) ? 1u : 0u), lower);
}

uint upper_product(
    uint a_3,
    uint b_3
) {
    uint a_low = a_3 & 65535u;
    uint a_high = a_3 >> 16u;
    uint b_low = b_3 & 65535u;
    uint b_high = b_3 >> 16u;
    uint middle = (a_high * b_low) + ((a_low * b_low) >> 16u);
    uint lower_1 = (a_low * b_high) + (middle & 65535u);
    return ((a_high * b_high) + (middle >> 16u)) + (lower_1 >> 16u);
}

uint philox(
    uint token,
    thread DrawRow& rule
) {
    metal::uint2 key = {};
    uint a_4 = {};
    uint b_4 = {};
    uint c = {};
    uint d = 0u;
    uint round = 0u;
    uint _e3 = rule.seed_low;
    uint _e6 = rule.seed_high;
    key = metal::uint2(_e3, _e6);
    uint _e11 = rule.position;
    a_4 = _e11;
    b_4 = token;
    uint _e16 = rule.choice;
    c = _e16;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e53 = round;
            round = _e53 + 1u;
        }
        loop_init = false;
        uint _e22 = round;
        if (_e22 < 10u) {
        } else {
            break;
        }
        {
            uint _e26 = a_4;
            uint _e27 = upper_product(3528531795u, _e26);
            uint _e29 = a_4;
            uint first_low = 3528531795u * _e29;
            uint _e32 = c;
            uint _e33 = upper_product(3449720151u, _e32);
            uint _e35 = c;
            uint second_low = 3449720151u * _e35;
            uint _e37 = b_4;
            uint _e40 = key.x;
            a_4 = (_e33 ^ _e37) ^ _e40;
            b_4 = second_low;
            uint _e42 = d;
            uint _e45 = key.y;
            c = (_e27 ^ _e42) ^ _e45;
            d = first_low;
            metal::uint2 _e47 = key;
            key = _e47 + metal::uint2(2654435769u, 3144134277u);
        }
    }
    uint _e55 = a_4;
    return _e55;
}

float gumbel(
    uint token_1,
    thread DrawRow& rule
) {
    uint _e1 = philox(token_1, rule);
    float uniform_value = (static_cast<float>(_e1 >> 9u) + 0.5) * 0.00000011920929;
    float _e9 = logarithm(uniform_value);
    float _e11 = logarithm(-(_e9));
    return -(_e11);
}

bool is_allowed(
    uint token_2,
    constant DrawParams& p,
    device type_8 const& masks,
    thread DrawRow& rule,
    constant _mslBufferSizes& _buffer_sizes
) {
    int _e3 = rule.mask;
    if (_e3 < 0) {
        return true;
    }
    uint _e9 = p.vocabulary;
    uint words = (_e9 + 31u) / 32u;
    int _e17 = rule.mask;
    uint _e24 = masks[(static_cast<uint>(_e17) * words) + (token_2 / 32u)];
    return ((_e24 >> (token_2 % 32u)) & 1u) != 0u;
}

int draft(
    int index,
    constant DrawParams& p,
    device type_7 const& draft_tokens,
    device type_7 const& drawn,
    thread DrawRow& rule,
    constant _mslBufferSizes& _buffer_sizes
) {
    int _e3 = p.step;
    if (_e3 >= 0) {
        int _e9 = rule.first_draft_row;
        int _e12 = drawn[as_type<int>(as_type<uint>(_e9) + as_type<uint>(index))];
        return _e12;
    }
    int _e16 = rule.first_draft_row;
    int _e19 = draft_tokens[as_type<int>(as_type<uint>(_e16) + as_type<uint>(index))];
    return _e19;
}

float penalized(
    uint token_3,
    float logit,
    constant DrawParams& p,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_7 const& drawn,
    thread DrawRow& rule,
    constant _mslBufferSizes& _buffer_sizes
) {
    float value_1 = {};
    uint in_reply = {};
    int i = 0;
    bool local_3 = {};
    value_1 = logit;
    int _e6 = rule.lane;
    uint _e10 = p.vocabulary;
    uint count = counts[(static_cast<uint>(_e6) * _e10) + token_3];
    in_reply = count & 2147483647u;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            int _e35 = i;
            i = as_type<int>(as_type<uint>(_e35) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e20 = i;
        int _e23 = rule.draft_rows;
        if (_e20 < _e23) {
        } else {
            break;
        }
        {
            uint _e25 = in_reply;
            int _e28 = i;
            int _e29 = draft(_e28, p, draft_tokens, drawn, rule, _buffer_sizes);
            in_reply = _e25 + ((_e29 == static_cast<int>(token_3)) ? 1u : 0u);
        }
    }
    if (!(((count & PROMPT_SEEN) != 0u))) {
        uint _e44 = in_reply;
        local_3 = _e44 > 0u;
    } else {
        local_3 = true;
    }
    bool _e48 = local_3;
    if (_e48) {
        float _e49 = value_1;
        float _e52 = rule.repetition_penalty;
        float _e54 = value_1;
        float _e57 = rule.repetition_penalty;
        float _e59 = value_1;
        value_1 = (_e59 > 0.0) ? (_e54 / _e57) : (_e49 * _e52);
    }
    uint _e63 = in_reply;
    if (_e63 > 0u) {
        float _e66 = value_1;
        float _e69 = rule.presence_penalty;
        value_1 = _e66 - _e69;
        float _e71 = value_1;
        float _e74 = rule.frequency_penalty;
        uint _e75 = in_reply;
        value_1 = _e71 - (_e74 * static_cast<float>(_e75));
    }
    float _e79 = value_1;
    return _e79;
}

float value_of(
    uint token_4,
    constant DrawParams& p,
    device type_5 const& logits,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_5 const& logit_bias,
    device type_7 const& drawn,
    thread DrawRow& rule,
    thread uint& first_logit,
    constant _mslBufferSizes& _buffer_sizes
) {
    float value_2 = {};
    uint _e3 = first_logit;
    float _e6 = logits[_e3 + token_4];
    value_2 = _e6;
    uint _e10 = rule.flags;
    if ((_e10 & FLAG_LOGIT_BIAS) != 0u) {
        float _e15 = value_2;
        int _e19 = rule.lane;
        uint _e23 = p.vocabulary;
        float _e27 = logit_bias[(static_cast<uint>(_e19) * _e23) + token_4];
        value_2 = _e15 + _e27;
    }
    uint _e31 = rule.flags;
    if ((_e31 & FLAG_COUNTS) != 0u) {
        float _e36 = value_2;
        float _e37 = penalized(token_4, _e36, p, draft_tokens, counts, drawn, rule, _buffer_sizes);
        value_2 = _e37;
    }
    float _e40 = rule.temperature;
    if (_e40 != 0.0) {
        float _e43 = value_2;
        float _e46 = rule.temperature;
        value_2 = _e43 / _e46;
    }
    float _e48 = value_2;
    return _e48;
}

metal::uint2 key_of(
    uint token_5,
    float value_3
) {
    uint _e2 = ordered(value_3);
    return metal::uint2(_e2, ~(token_5));
}

metal::uint2 allowed_key(
    uint token_6,
    constant DrawParams& p,
    device type_5 const& logits,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_5 const& logit_bias,
    device type_8 const& masks,
    device type_7 const& drawn,
    thread DrawRow& rule,
    thread uint& first_logit,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool _e1 = is_allowed(token_6, p, masks, rule, _buffer_sizes);
    if (_e1) {
        float _e2 = value_of(token_6, p, logits, draft_tokens, counts, logit_bias, drawn, rule, first_logit, _buffer_sizes);
        metal::uint2 _e3 = key_of(token_6, _e2);
        return _e3;
    }
    return metal::uint2 {};
}

bool has_filters(
    thread DrawRow& rule
) {
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    float _e2 = rule.temperature;
    if (_e2 != 0.0) {
        uint _e9 = rule.top_k;
        if (!((_e9 > 0u))) {
            float _e17 = rule.top_p;
            local_5 = _e17 < 1.0;
        } else {
            local_5 = true;
        }
        bool _e21 = local_5;
        if (!(_e21)) {
            float _e27 = rule.min_p;
            local_6 = _e27 > 0.0;
        } else {
            local_6 = true;
        }
        bool _e31 = local_6;
        local_4 = _e31;
    } else {
        local_4 = false;
    }
    bool _e33 = local_4;
    return _e33;
}

bool begin(
    uint index_1,
    constant DrawParams& p,
    device type_6 const& rules,
    device type_7 const& block_lane,
    device type_7 const& block_position,
    thread DrawRow& rule,
    thread uint& first_logit,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_7 = {};
    DrawRow _e4 = rules[index_1];
    rule = _e4;
    uint _e8 = p.vocabulary;
    first_logit = index_1 * _e8;
    int _e12 = p.step;
    if (_e12 < 0) {
        int _e17 = rule.lane;
        return _e17 != NO_LANE;
    }
    uint _e22 = p.size;
    uint first = index_1 * _e22;
    int _e29 = p.step;
    int _e33 = block_position[first + static_cast<uint>(_e29)];
    rule.position = static_cast<uint>(_e33) + 1u;
    rule.first_draft_row = static_cast<int>(first);
    int _e44 = p.step;
    rule.draft_rows = _e44;
    int _e47 = rule.lane;
    if (_e47 != NO_LANE) {
        int _e54 = block_lane[first];
        local_7 = _e54 != NO_LANE;
    } else {
        local_7 = false;
    }
    bool _e58 = local_7;
    return _e58;
}

metal::uint2 highest_key(
    uint thread_1,
    metal::uint2 key_1,
    threadgroup type_10& keys,
    threadgroup type_11& keys_of_sixteen
) {
    metal::uint2 best_1 = {};
    uint i_1 = 1u;
    metal::uint2 best_2 = {};
    uint i_2 = 1u;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    keys.inner[thread_1] = key_1;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_1 < 16u) {
        metal::uint2 _e10 = keys.inner[thread_1 * 16u];
        best_1 = _e10;
        bool loop_init_2 = true;
        while(true) {
            if (!loop_init_2) {
                uint _e27 = i_1;
                i_1 = _e27 + 1u;
            }
            loop_init_2 = false;
            uint _e14 = i_1;
            if (_e14 < 16u) {
            } else {
                break;
            }
            {
                metal::uint2 _e17 = best_1;
                uint _e21 = i_1;
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
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e48 = i_2;
            i_2 = _e48 + 1u;
        }
        loop_init_3 = false;
        uint _e38 = i_2;
        if (_e38 < 16u) {
        } else {
            break;
        }
        {
            metal::uint2 _e41 = best_2;
            uint _e43 = i_2;
            metal::uint2 _e45 = keys_of_sixteen.inner[_e43];
            metal::uint2 _e46 = higher_key(_e41, _e45);
            best_2 = _e46;
        }
    }
    metal::uint2 _e50 = best_2;
    return _e50;
}

void add_to_bucket(
    uint bucket,
    metal::uint2 amount,
    threadgroup type_14& buckets_upper,
    threadgroup type_14& buckets_lower
) {
    uint _e5 = metal::atomic_fetch_add_explicit(&buckets_lower.inner[bucket], amount.y, metal::memory_order_relaxed);
    uint carry = ((_e5 + amount.y) < _e5) ? 1u : 0u;
    uint _e16 = metal::atomic_fetch_add_explicit(&buckets_upper.inner[bucket], amount.x + carry, metal::memory_order_relaxed);
    return;
}

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}

metal::uint2 mass_of(
    metal::uint2 key_2,
    float highest
) {
    float _e3 = value_of_order(key_2.x);
    float _e5 = exponential(_e3 - highest);
    float scaled = _e5 * 256.0;
    float upper = metal::floor(scaled);
    return metal::uint2(naga_f2u32(upper), naga_f2u32((scaled - upper) * 4294967300.0));
}

bool has_prefix(
    metal::uint2 key_3,
    metal::uint2 prefix,
    uint digit
) {
    bool local_8 = {};
    bool local_9 = {};
    if (digit == 0u) {
        return true;
    }
    if (digit < 4u) {
        return ((key_3.x ^ prefix.x) >> (32u - (8u * digit))) == 0u;
    }
    if (key_3.x == prefix.x) {
        if (!((digit == 4u))) {
            local_9 = ((key_3.y ^ prefix.y) >> (64u - (8u * digit))) == 0u;
        } else {
            local_9 = true;
        }
        bool _e39 = local_9;
        local_8 = _e39;
    } else {
        local_8 = false;
    }
    bool _e41 = local_8;
    return _e41;
}

uint byte_of(
    metal::uint2 key_4,
    uint digit_1
) {
    return (((digit_1 < 4u) ? key_4.x : key_4.y) >> (24u - ((digit_1 % 4u) * 8u))) & 255u;
}

void fill_buckets(
    uint thread_2,
    metal::uint2 lowest,
    metal::uint2 prefix_1,
    uint digit_2,
    float highest_1,
    bool by_mass,
    constant DrawParams& p,
    device type_5 const& logits,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_5 const& logit_bias,
    device type_8 const& masks,
    device type_7 const& drawn,
    thread DrawRow& rule,
    thread uint& first_logit,
    threadgroup type_14& buckets_upper,
    threadgroup type_14& buckets_lower,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint token_7 = {};
    bool local_10 = {};
    bool local_11 = {};
    metal::uint2 amount_1 = {};
    metal::atomic_store_explicit(&buckets_upper.inner[thread_2], 0u, metal::memory_order_relaxed);
    metal::atomic_store_explicit(&buckets_lower.inner[thread_2], 0u, metal::memory_order_relaxed);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    token_7 = thread_2;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e43 = token_7;
            token_7 = _e43 + THREADS;
        }
        loop_init_4 = false;
        uint _e13 = token_7;
        uint _e16 = p.vocabulary;
        if (_e13 < _e16) {
        } else {
            break;
        }
        {
            uint _e18 = token_7;
            metal::uint2 _e19 = allowed_key(_e18, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, _buffer_sizes);
            if (!((_e19.x == 0u))) {
                bool _e26 = is_less(_e19, lowest);
                local_10 = _e26;
            } else {
                local_10 = true;
            }
            bool _e28 = local_10;
            if (!(_e28)) {
                bool _e32 = has_prefix(_e19, prefix_1, digit_2);
                local_11 = !(_e32);
            } else {
                local_11 = true;
            }
            bool _e35 = local_11;
            if (_e35) {
                continue;
            }
            amount_1 = metal::uint2(0u, 1u);
            if (by_mass) {
                metal::uint2 _e40 = mass_of(_e19, highest_1);
                amount_1 = _e40;
            }
            uint _e41 = byte_of(_e19, digit_2);
            metal::uint2 _e42 = amount_1;
            add_to_bucket(_e41, _e42, buckets_upper, buckets_lower);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

metal::uint2 reach(
    uint thread_3,
    metal::uint2 lowest_1,
    float highest_2,
    metal::uint2 goal,
    bool by_mass_1,
    constant DrawParams& p,
    device type_5 const& logits,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_5 const& logit_bias,
    device type_8 const& masks,
    device type_7 const& drawn,
    thread DrawRow& rule,
    thread uint& first_logit,
    threadgroup type_14& buckets_upper,
    threadgroup type_14& buckets_lower,
    threadgroup uint& chosen_bucket,
    threadgroup metal::uint2& chosen_above,
    threadgroup uint& is_found,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint2 prefix_2 = metal::uint2 {};
    metal::uint2 above = metal::uint2 {};
    uint digit_3 = 0u;
    metal::uint2 sum = {};
    uint i_3 = {};
    bool local_12 = {};
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e88 = digit_3;
            digit_3 = _e88 + 1u;
        }
        loop_init_5 = false;
        uint _e11 = digit_3;
        if (_e11 < 8u) {
        } else {
            break;
        }
        {
            metal::uint2 _e14 = prefix_2;
            uint _e15 = digit_3;
            fill_buckets(thread_3, lowest_1, _e14, _e15, highest_2, by_mass_1, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, buckets_upper, buckets_lower, _buffer_sizes);
            if (thread_3 == 0u) {
                is_found = 0u;
                metal::uint2 _e20 = above;
                sum = _e20;
                i_3 = 0u;
                bool loop_init_6 = true;
                while(true) {
                    if (!loop_init_6) {
                        uint _e56 = i_3;
                        i_3 = _e56 + 1u;
                    }
                    loop_init_6 = false;
                    uint _e24 = i_3;
                    if (_e24 < 256u) {
                    } else {
                        break;
                    }
                    {
                        uint _e28 = i_3;
                        uint bucket_2 = 255u - _e28;
                        uint _e32 = metal::atomic_load_explicit(&buckets_upper.inner[bucket_2], metal::memory_order_relaxed);
                        uint _e35 = metal::atomic_load_explicit(&buckets_lower.inner[bucket_2], metal::memory_order_relaxed);
                        metal::uint2 here = metal::uint2(_e32, _e35);
                        metal::uint2 _e37 = sum;
                        metal::uint2 _e38 = sum_of_words(_e37, here);
                        if ((here.x | here.y) != 0u) {
                            bool _e46 = is_less(_e38, goal);
                            local_12 = !(_e46);
                        } else {
                            local_12 = false;
                        }
                        bool _e49 = local_12;
                        if (_e49) {
                            chosen_bucket = bucket_2;
                            metal::uint2 _e52 = sum;
                            chosen_above = _e52;
                            is_found = 1u;
                            break;
                        }
                        sum = _e38;
                    }
                }
            }
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            uint _e59 = is_found;
            if (_e59 == 0u) {
                return lowest_1;
            }
            uint _e63 = digit_3;
            uint shift = 24u - ((_e63 % 4u) * 8u);
            metal::uint2 _e69 = prefix_2;
            uint _e72 = chosen_bucket;
            uint _e76 = chosen_bucket;
            uint _e80 = digit_3;
            prefix_2 = _e69 | ((_e80 < 4u) ? metal::uint2(_e76 << shift, 0u) : metal::uint2(0u, _e72 << shift));
            metal::uint2 _e86 = chosen_above;
            above = _e86;
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    metal::uint2 _e90 = prefix_2;
    return _e90;
}

metal::uint2 total_mass(
    uint thread_4,
    metal::uint2 lowest_2,
    float highest_3,
    constant DrawParams& p,
    device type_5 const& logits,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_5 const& logit_bias,
    device type_8 const& masks,
    device type_7 const& drawn,
    thread DrawRow& rule,
    thread uint& first_logit,
    threadgroup type_14& buckets_upper,
    threadgroup type_14& buckets_lower,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint2 total = metal::uint2 {};
    uint bucket_1 = 0u;
    fill_buckets(thread_4, lowest_2, metal::uint2 {}, 0u, highest_3, true, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, buckets_upper, buckets_lower, _buffer_sizes);
    bool loop_init_7 = true;
    while(true) {
        if (!loop_init_7) {
            uint _e25 = bucket_1;
            bucket_1 = _e25 + 1u;
        }
        loop_init_7 = false;
        uint _e10 = bucket_1;
        if (_e10 < 256u) {
        } else {
            break;
        }
        {
            uint _e14 = bucket_1;
            uint _e16 = metal::atomic_load_explicit(&buckets_upper.inner[_e14], metal::memory_order_relaxed);
            uint _e18 = bucket_1;
            uint _e20 = metal::atomic_load_explicit(&buckets_lower.inner[_e18], metal::memory_order_relaxed);
            metal::uint2 here_1 = metal::uint2(_e16, _e20);
            metal::uint2 _e22 = total;
            metal::uint2 _e23 = sum_of_words(_e22, here_1);
            total = _e23;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::uint2 _e27 = total;
    return _e27;
}

metal::uint2 share_of(
    metal::uint2 total_1,
    float share
) {
    float goal_1 = metal::max(share * metal::fma(static_cast<float>(total_1.x), 4294967300.0, static_cast<float>(total_1.y)), 1.0);
    float upper_1 = metal::floor(goal_1 * 0.00000000023283064);
    return metal::uint2(naga_f2u32(upper_1), naga_f2u32(metal::fma(upper_1, -4294967300.0, goal_1)));
}

metal::uint2 draw_filtered(
    uint thread_5,
    constant DrawParams& p,
    device type_5 const& logits,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_5 const& logit_bias,
    device type_8 const& masks,
    device type_7 const& drawn,
    thread DrawRow& rule,
    thread uint& first_logit,
    threadgroup type_10& keys,
    threadgroup type_11& keys_of_sixteen,
    threadgroup type_14& buckets_upper,
    threadgroup type_14& buckets_lower,
    threadgroup uint& chosen_bucket,
    threadgroup metal::uint2& chosen_above,
    threadgroup uint& is_found,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint2 best_3 = metal::uint2 {};
    uint token_8 = {};
    metal::uint2 lowest_3 = metal::uint2(0u, 1u);
    uint token_9 = {};
    bool local_13 = {};
    token_8 = thread_5;
    bool loop_init_8 = true;
    while(true) {
        if (!loop_init_8) {
            uint _e13 = token_8;
            token_8 = _e13 + THREADS;
        }
        loop_init_8 = false;
        uint _e4 = token_8;
        uint _e7 = p.vocabulary;
        if (_e4 < _e7) {
        } else {
            break;
        }
        {
            metal::uint2 _e9 = best_3;
            uint _e10 = token_8;
            metal::uint2 _e11 = allowed_key(_e10, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, _buffer_sizes);
            metal::uint2 _e12 = higher_key(_e9, _e11);
            best_3 = _e12;
        }
    }
    metal::uint2 _e16 = best_3;
    metal::uint2 _e17 = highest_key(thread_5, _e16, keys, keys_of_sixteen);
    float _e19 = value_of_order(_e17.x);
    uint _e26 = rule.top_k;
    if (_e26 > 0u) {
        metal::uint2 _e29 = lowest_3;
        uint _e33 = rule.top_k;
        metal::uint2 _e36 = reach(thread_5, _e29, _e19, metal::uint2(0u, _e33), false, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, buckets_upper, buckets_lower, chosen_bucket, chosen_above, is_found, _buffer_sizes);
        lowest_3 = _e36;
    }
    float _e39 = rule.top_p;
    if (_e39 < 1.0) {
        metal::uint2 _e42 = lowest_3;
        metal::uint2 _e43 = total_mass(thread_5, _e42, _e19, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, buckets_upper, buckets_lower, _buffer_sizes);
        float _e46 = rule.top_p;
        metal::uint2 _e47 = share_of(_e43, _e46);
        metal::uint2 _e48 = lowest_3;
        metal::uint2 _e50 = reach(thread_5, _e48, _e19, _e47, true, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, buckets_upper, buckets_lower, chosen_bucket, chosen_above, is_found, _buffer_sizes);
        lowest_3 = _e50;
    }
    best_3 = metal::uint2 {};
    token_9 = thread_5;
    bool loop_init_9 = true;
    while(true) {
        if (!loop_init_9) {
            uint _e85 = token_9;
            token_9 = _e85 + THREADS;
        }
        loop_init_9 = false;
        uint _e53 = token_9;
        uint _e56 = p.vocabulary;
        if (_e53 < _e56) {
        } else {
            break;
        }
        {
            uint _e58 = token_9;
            metal::uint2 _e59 = allowed_key(_e58, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, _buffer_sizes);
            if (!((_e59.x == 0u))) {
                metal::uint2 _e66 = lowest_3;
                bool _e67 = is_less(_e59, _e66);
                local_13 = _e67;
            } else {
                local_13 = true;
            }
            bool _e69 = local_13;
            if (_e69) {
                continue;
            }
            float _e71 = value_of_order(_e59.x);
            float _e73 = exponential(_e71 - _e19);
            float _e76 = rule.min_p;
            if (_e73 >= _e76) {
                metal::uint2 _e78 = best_3;
                uint _e79 = token_9;
                uint _e80 = token_9;
                float _e81 = gumbel(_e80, rule);
                metal::uint2 _e83 = key_of(_e79, _e71 + _e81);
                metal::uint2 _e84 = higher_key(_e78, _e83);
                best_3 = _e84;
            }
        }
    }
    metal::uint2 _e88 = best_3;
    metal::uint2 _e89 = highest_key(thread_5, _e88, keys, keys_of_sixteen);
    return _e89;
}

struct draw_finishInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void draw_finish(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, constant DrawParams& p [[buffer(0)]]
, device type_5 const& logits [[buffer(1)]]
, device type_6 const& rules [[buffer(2)]]
, device type_7 const& draft_tokens [[buffer(3)]]
, device type_8 const& counts [[buffer(4)]]
, device type_5 const& logit_bias [[buffer(5)]]
, device type_8 const& masks [[buffer(6)]]
, device type_7 const& block_lane [[buffer(7)]]
, device type_7 const& block_position [[buffer(8)]]
, device type_9 const& parts [[buffer(9)]]
, device type_7& drawn [[buffer(10)]]
, threadgroup type_10& keys
, threadgroup type_11& keys_of_sixteen
, threadgroup type_14& buckets_upper
, threadgroup type_14& buckets_lower
, threadgroup uint& chosen_bucket
, threadgroup metal::uint2& chosen_above
, threadgroup uint& is_found
, constant _mslBufferSizes& _buffer_sizes [[buffer(11)]]
) {
    DrawRow rule = {};
    uint first_logit = {};
    bool local = {};
    metal::uint2 best = metal::uint2 {};
    uint part = {};
    uint index_2 = workgroup.x;
    bool _e3 = begin(index_2, p, rules, block_lane, block_position, rule, first_logit, _buffer_sizes);
    if (!(_e3)) {
        int _e7 = p.step;
        if (_e7 < 0) {
            local = thread_ == 0u;
        } else {
            local = false;
        }
        bool _e15 = local;
        if (_e15) {
            drawn[index_2] = -1;
        }
        return;
    }
    bool _e21 = has_filters(rule);
    if (_e21) {
        metal::uint2 _e22 = draw_filtered(thread_, p, logits, draft_tokens, counts, logit_bias, masks, drawn, rule, first_logit, keys, keys_of_sixteen, buckets_upper, buckets_lower, chosen_bucket, chosen_above, is_found, _buffer_sizes);
        best = _e22;
    } else {
        part = thread_;
        bool loop_init_10 = true;
        while(true) {
            if (!loop_init_10) {
                uint _e40 = part;
                part = _e40 + THREADS;
            }
            loop_init_10 = false;
            uint _e24 = part;
            uint _e27 = p.parts;
            if (_e24 < _e27) {
            } else {
                break;
            }
            {
                metal::uint2 _e29 = best;
                uint _e33 = p.parts;
                uint _e35 = part;
                metal::uint2 _e38 = parts[(index_2 * _e33) + _e35];
                metal::uint2 _e39 = higher_key(_e29, _e38);
                best = _e39;
            }
        }
        metal::uint2 _e43 = best;
        metal::uint2 _e44 = highest_key(thread_, _e43, keys, keys_of_sixteen);
        best = _e44;
    }
    if (thread_ == 0u) {
        uint _e50 = p.size;
        int _e54 = p.step;
        int _e59 = p.step;
        uint _e65 = best.y;
        drawn[(_e59 >= 0) ? ((index_2 * _e50) + static_cast<uint>(_e54)) : index_2] = static_cast<int>(~(_e65));
        return;
    } else {
        return;
    }
}
