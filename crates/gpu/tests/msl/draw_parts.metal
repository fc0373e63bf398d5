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
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint FLAG_COUNTS = 1u;
constant uint FLAG_LOGIT_BIAS = 2u;
constant uint PROMPT_SEEN = 2147483648u;
constant uint THREADS = 256u;
constant uint NEGATIVE_INFINITY = 4286578688u;

float logarithm(
    float x
) {
    float series = {};
    int offset = as_type<int>(as_type<uint>(as_type<int>(x)) - as_type<uint>(1060439283));
    float exponent = static_cast<float>(offset >> 23u);
    float f = as_type<float>(as_type<int>(as_type<uint>(offset & 8388607) + as_type<uint>(1060439283))) - 1.0;
    float s = f / (2.0 + f);
    float square = s * s;
    series = metal::fma(0.18181819, square, 0.22222222);
    float _e22 = series;
    series = metal::fma(_e22, square, 0.2857143);
    float _e25 = series;
    series = metal::fma(_e25, square, 0.4);
    float _e28 = series;
    series = metal::fma(_e28, square, 0.6666667);
    float _e31 = series;
    float correction = s * metal::fma(_e31, square, -(f));
    return metal::fma(exponent, 0.69314575, metal::fma(exponent, 0.0000014286068, correction) + f);
}

uint ordered(
    float value_1
) {
    uint bits = (value_1 == 0.0) ? 0u : as_type<uint>(value_1);
    return ((bits & 2147483648u) != 0u) ? ~(bits) : (bits | 2147483648u);
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

uint upper_product(
    uint a_2,
    uint b_2
) {
    uint a_low = a_2 & 65535u;
    uint a_high = a_2 >> 16u;
    uint b_low = b_2 & 65535u;
    uint b_high = b_2 >> 16u;
    uint middle = (a_high * b_low) + ((a_low * b_low) >> 16u);
    uint lower = (a_low * b_high) + (middle & 65535u);
    return ((a_high * b_high) + (middle >> 16u)) + (lower >> 16u);
}

uint philox(
    uint token_1,
    thread DrawRow& rule
) {
    metal::uint2 key = {};
    uint a_3 = {};
    uint b_3 = {};
    uint c = {};
    uint d = 0u;
    uint round = 0u;
    uint _e3 = rule.seed_low;
    uint _e6 = rule.seed_high;
    key = metal::uint2(_e3, _e6);
    uint _e11 = rule.position;
    a_3 = _e11;
    b_3 = token_1;
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
            uint _e26 = a_3;
            uint _e27 = upper_product(3528531795u, _e26);
            uint _e29 = a_3;
            uint first_low = 3528531795u * _e29;
            uint _e32 = c;
            uint _e33 = upper_product(3449720151u, _e32);
            uint _e35 = c;
            uint second_low = 3449720151u * _e35;
            uint _e37 = b_3;
            uint _e40 = key.x;
            a_3 = (_e33 ^ _e37) ^ _e40;
            b_3 = second_low;
            uint _e42 = d;
            uint _e45 = key.y;
            c = (_e27 ^ _e42) ^ _e45;
            d = first_low;
            metal::uint2 _e47 = key;
            key = _e47 + metal::uint2(2654435769u, 3144134277u);
        }
    }
    uint _e55 = a_3;
    return _e55;
}

float gumbel(
    uint token_2,
    thread DrawRow& rule
) {
    uint _e1 = philox(token_2, rule);
    float uniform_value = (static_cast<float>(_e1 >> 9u) + 0.5) * 0.00000011920929;
    float _e9 = logarithm(uniform_value);
    float _e11 = logarithm(-(_e9));
    return -(_e11);
}

bool is_allowed(
    uint token_3,
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
    uint _e24 = masks[(static_cast<uint>(_e17) * words) + (token_3 / 32u)];
    return ((_e24 >> (token_3 % 32u)) & 1u) != 0u;
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
    uint token_4,
    float logit,
    constant DrawParams& p,
    device type_7 const& draft_tokens,
    device type_8 const& counts,
    device type_7 const& drawn,
    thread DrawRow& rule,
    constant _mslBufferSizes& _buffer_sizes
) {
    float value_2 = {};
    uint in_reply = {};
    int i = 0;
    bool local_3 = {};
    value_2 = logit;
    int _e6 = rule.lane;
    uint _e10 = p.vocabulary;
    uint count = counts[(static_cast<uint>(_e6) * _e10) + token_4];
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
            in_reply = _e25 + ((_e29 == static_cast<int>(token_4)) ? 1u : 0u);
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
        float _e49 = value_2;
        float _e52 = rule.repetition_penalty;
        float _e54 = value_2;
        float _e57 = rule.repetition_penalty;
        float _e59 = value_2;
        value_2 = (_e59 > 0.0) ? (_e54 / _e57) : (_e49 * _e52);
    }
    uint _e63 = in_reply;
    if (_e63 > 0u) {
        float _e66 = value_2;
        float _e69 = rule.presence_penalty;
        value_2 = _e66 - _e69;
        float _e71 = value_2;
        float _e74 = rule.frequency_penalty;
        uint _e75 = in_reply;
        value_2 = _e71 - (_e74 * static_cast<float>(_e75));
    }
    float _e79 = value_2;
    return _e79;
}

float value_of(
    uint token_5,
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
    float value_3 = {};
    uint _e3 = first_logit;
    float _e6 = logits[_e3 + token_5];
    value_3 = _e6;
    uint _e10 = rule.flags;
    if ((_e10 & FLAG_LOGIT_BIAS) != 0u) {
        float _e15 = value_3;
        int _e19 = rule.lane;
        uint _e23 = p.vocabulary;
        float _e27 = logit_bias[(static_cast<uint>(_e19) * _e23) + token_5];
        value_3 = _e15 + _e27;
    }
    uint _e31 = rule.flags;
    if ((_e31 & FLAG_COUNTS) != 0u) {
        float _e36 = value_3;
        float _e37 = penalized(token_5, _e36, p, draft_tokens, counts, drawn, rule, _buffer_sizes);
        value_3 = _e37;
    }
    float _e40 = rule.temperature;
    if (_e40 != 0.0) {
        float _e43 = value_3;
        float _e46 = rule.temperature;
        value_3 = _e43 / _e46;
    }
    float _e48 = value_3;
    return _e48;
}

metal::uint2 key_of(
    uint token_6,
    float value_4
) {
    uint _e2 = ordered(value_4);
    return metal::uint2(_e2, ~(token_6));
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

struct draw_partsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void draw_parts(
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
, device type_9& parts [[buffer(9)]]
, device type_7 const& drawn [[buffer(10)]]
, threadgroup type_10& keys
, threadgroup type_11& keys_of_sixteen
, constant _mslBufferSizes& _buffer_sizes [[buffer(11)]]
) {
    DrawRow rule = {};
    uint first_logit = {};
    bool local = {};
    metal::uint2 best = metal::uint2 {};
    uint token = {};
    float value = {};
    bool _e3 = begin(workgroup.y, p, rules, block_lane, block_position, rule, first_logit, _buffer_sizes);
    if (!(!(_e3))) {
        bool _e8 = has_filters(rule);
        local = _e8;
    } else {
        local = true;
    }
    bool _e10 = local;
    if (_e10) {
        return;
    }
    token = (workgroup.x * THREADS) + thread_;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e42 = token;
            uint _e45 = p.parts;
            token = _e42 + (_e45 * THREADS);
        }
        loop_init_4 = false;
        uint _e18 = token;
        uint _e21 = p.vocabulary;
        if (_e18 < _e21) {
        } else {
            break;
        }
        {
            uint _e23 = token;
            bool _e24 = is_allowed(_e23, p, masks, rule, _buffer_sizes);
            if (_e24) {
                uint _e25 = token;
                float _e26 = value_of(_e25, p, logits, draft_tokens, counts, logit_bias, drawn, rule, first_logit, _buffer_sizes);
                value = _e26;
                float _e30 = rule.temperature;
                if (_e30 != 0.0) {
                    float _e33 = value;
                    uint _e34 = token;
                    float _e35 = gumbel(_e34, rule);
                    value = _e33 + _e35;
                }
                metal::uint2 _e37 = best;
                uint _e38 = token;
                float _e39 = value;
                metal::uint2 _e40 = key_of(_e38, _e39);
                metal::uint2 _e41 = higher_key(_e37, _e40);
                best = _e41;
            }
        }
    }
    metal::uint2 _e49 = best;
    metal::uint2 _e50 = highest_key(thread_, _e49, keys, keys_of_sixteen);
    best = _e50;
    if (thread_ == 0u) {
        uint _e57 = p.parts;
        metal::uint2 _e62 = best;
        parts[(workgroup.y * _e57) + workgroup.x] = _e62;
        return;
    } else {
        return;
    }
}
