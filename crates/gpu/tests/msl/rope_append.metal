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
};

struct RopeParams {
    uint query_heads;
    uint key_value_heads;
    uint pages_per_lane;
    float epsilon;
};
typedef uint type_5[1];
typedef float type_6[1];
typedef int type_7[1];
struct type_8 {
    float inner[64];
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
    float first_1,
    float second_1
) {
    uint _e2 = rounded_bits(first_1);
    uint _e5 = rounded_bits(second_1);
    return (_e2 >> 16u) | _e5;
}

float normed(
    float value_2,
    float scale,
    float weight_1
) {
    float _e4 = rounded(value_2 * scale);
    float _e6 = rounded(weight_1 * _e4);
    return _e6;
}

struct rope_appendInput {
};
[[max_total_threads_per_threadgroup(64)]] kernel void rope_append(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, constant RopeParams& rope [[buffer(0)]]
, device type_5& stacked [[buffer(1)]]
, device type_5 const& query_norm [[buffer(2)]]
, device type_5 const& key_norm [[buffer(3)]]
, device type_6 const& cos_sin [[buffer(4)]]
, device type_7 const& rope_pages [[buffer(5)]]
, device type_7 const& rope_lane [[buffer(6)]]
, device type_7 const& rope_position [[buffer(7)]]
, device type_5& rope_keys [[buffer(8)]]
, device type_5& rope_values [[buffer(9)]]
, threadgroup type_8& head_squares
, constant _mslBufferSizes& _buffer_sizes [[buffer(10)]]
) {
    bool local = {};
    uint first = {};
    uint second = {};
    float part = {};
    float total = {};
    uint j = 1u;
    metal::uint2 weight = {};
    uint row = workgroup.y;
    uint _e5 = rope.query_heads;
    uint _e9 = rope.key_value_heads;
    uint heads = _e5 + (2u * _e9);
    uint head = (workgroup.x * 4u) + (thread_ / 16u);
    uint i = thread_ % 16u;
    int lane = rope_lane[row];
    if (head < heads) {
        local = lane != NO_LANE;
    } else {
        local = false;
    }
    bool is_there = local;
    uint at = (((row * heads) + metal::min(head, heads - 1u)) * HEAD_WORDS) + i;
    uint _e40 = stacked[at];
    first = _e40;
    uint _e46 = stacked[at + 16u];
    second = _e46;
    uint _e48 = first;
    float _e49 = high(_e48);
    uint _e50 = first;
    float _e51 = high(_e50);
    uint _e52 = first;
    float _e53 = low(_e52);
    uint _e54 = first;
    float _e55 = low(_e54);
    part = metal::fma(_e49, _e51, _e53 * _e55);
    uint _e59 = second;
    float _e60 = high(_e59);
    uint _e61 = second;
    float _e62 = high(_e61);
    uint _e63 = second;
    float _e64 = low(_e63);
    uint _e65 = second;
    float _e66 = low(_e65);
    float _e67 = part;
    part = metal::fma(_e60, _e62, metal::fma(_e64, _e66, _e67));
    float _e72 = part;
    head_squares.inner[thread_] = _e72;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (!(is_there)) {
        return;
    }
    int _e76 = rope_position[row];
    uint position = static_cast<uint>(_e76);
    uint _e80 = rope.query_heads;
    bool is_query = head < _e80;
    uint _e84 = rope.query_heads;
    uint _e87 = rope.key_value_heads;
    bool is_value = head >= (_e84 + _e87);
    if (!(is_value)) {
        float _e94 = head_squares.inner[thread_ - i];
        total = _e94;
        bool loop_init = true;
        while(true) {
            if (!loop_init) {
                uint _e110 = j;
                j = _e110 + 1u;
            }
            loop_init = false;
            uint _e98 = j;
            if (_e98 < 16u) {
            } else {
                break;
            }
            {
                float _e101 = total;
                uint _e104 = j;
                float _e107 = head_squares.inner[(thread_ - i) + _e104];
                total = _e101 + _e107;
            }
        }
        float _e112 = total;
        float _e117 = rope.epsilon;
        float scale_1 = 1.0 / metal::sqrt((_e112 / 64.0) + _e117);
        uint _e124 = key_norm[i];
        uint _e129 = key_norm[i + 16u];
        weight = metal::uint2(_e124, _e129);
        if (is_query) {
            uint _e134 = query_norm[i];
            uint _e139 = query_norm[i + 16u];
            weight = metal::uint2(_e134, _e139);
        }
        uint _e141 = first;
        float _e142 = low(_e141);
        uint _e144 = weight.x;
        float _e145 = low(_e144);
        float _e146 = normed(_e142, scale_1, _e145);
        uint _e147 = first;
        float _e148 = high(_e147);
        uint _e150 = weight.x;
        float _e151 = high(_e150);
        float _e152 = normed(_e148, scale_1, _e151);
        uint _e153 = second;
        float _e154 = low(_e153);
        uint _e156 = weight.y;
        float _e157 = low(_e156);
        float _e158 = normed(_e154, scale_1, _e157);
        uint _e159 = second;
        float _e160 = high(_e159);
        uint _e162 = weight.y;
        float _e163 = high(_e162);
        float _e164 = normed(_e160, scale_1, _e163);
        uint angle = (position * HEAD) + (2u * i);
        float _e172 = cos_sin[angle];
        float _e177 = cos_sin[angle + 1u];
        metal::float2 cosine = metal::float2(_e172, _e177);
        float _e183 = cos_sin[angle + 32u];
        float _e188 = cos_sin[angle + 33u];
        metal::float2 sine = metal::float2(_e183, _e188);
        uint _e200 = narrow(metal::fma(_e146, cosine.x, -((_e158 * sine.x))), metal::fma(_e152, cosine.y, -((_e164 * sine.y))));
        first = _e200;
        uint _e209 = narrow(metal::fma(_e158, cosine.x, _e146 * sine.x), metal::fma(_e164, cosine.y, _e152 * sine.y));
        second = _e209;
        uint _e212 = first;
        stacked[at] = _e212;
        uint _e217 = second;
        stacked[at + 16u] = _e217;
    }
    if (is_query) {
        return;
    }
    uint _e220 = rope.query_heads;
    uint _e224 = rope.key_value_heads;
    uint key_head = (head - _e220) % _e224;
    uint _e230 = rope.pages_per_lane;
    int _e236 = rope_pages[(static_cast<uint>(lane) * _e230) + (position / PAGE)];
    uint page = static_cast<uint>(_e236);
    uint _e240 = rope.key_value_heads;
    uint slot = (((((page * _e240) + key_head) * PAGE) + (position % PAGE)) * HEAD_WORDS) + i;
    if (is_value) {
        uint _e253 = first;
        rope_values[slot] = _e253;
        uint _e258 = second;
        rope_values[slot + 16u] = _e258;
        return;
    } else {
        uint _e261 = first;
        rope_keys[slot] = _e261;
        uint _e266 = second;
        rope_keys[slot + 16u] = _e266;
        return;
    }
}
