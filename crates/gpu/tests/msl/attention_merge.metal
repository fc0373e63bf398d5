// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size1;
    uint size2;
    uint size3;
    uint size4;
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
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint HEAD = 64u;
constant uint HEAD_WORDS = 32u;
constant uint PARTIAL = 66u;
constant uint HEADS = 4u;

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
    float value_1 = mantissa * as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(naga_f2i32(exponent)) + as_type<uint>(127))) << 23u);
    return (x < -87.3) ? 0.0 : value_1;
}

struct attention_mergeInput {
};
[[max_total_threads_per_threadgroup(32)]] kernel void attention_merge(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, constant AttentionParams& attended [[buffer(0)]]
, device type_4 const& page_sums [[buffer(1)]]
, device type_5 const& merge_lane [[buffer(2)]]
, device type_5 const& merge_key_end [[buffer(3)]]
, device type_3& attention_out [[buffer(4)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(5)]]
) {
    float highest = LOWEST;
    float weight = 0.0;
    float even = 0.0;
    float odd = 0.0;
    uint page = 0u;
    uint _e4 = attended.first_row;
    uint row = _e4 + workgroup.x;
    int _e9 = merge_lane[row];
    if (_e9 == NO_LANE) {
        return;
    }
    int _e14 = merge_key_end[row];
    uint key_end = static_cast<uint>(_e14);
    uint _e19 = attended.query_heads;
    uint _e25 = attended.pages_per_lane;
    uint first_1 = ((workgroup.x * _e19) + workgroup.y) * _e25;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e89 = page;
            page = _e89 + 1u;
        }
        loop_init = false;
        uint _e37 = page;
        if ((_e37 * PAGE) < key_end) {
        } else {
            break;
        }
        {
            uint _e41 = page;
            uint sums = (first_1 + _e41) * PARTIAL;
            float _e45 = highest;
            float _e48 = page_sums[sums];
            float both = metal::max(_e45, _e48);
            float _e50 = highest;
            float _e52 = exponential(_e50 - both);
            float _e55 = page_sums[sums];
            float _e57 = exponential(_e55 - both);
            highest = both;
            float _e58 = weight;
            float _e63 = page_sums[sums + 1u];
            weight = metal::fma(_e58, _e52, _e63 * _e57);
            float _e66 = even;
            float _e74 = page_sums[(sums + 2u) + (2u * thread_)];
            even = metal::fma(_e66, _e52, _e74 * _e57);
            float _e77 = odd;
            float _e85 = page_sums[(sums + 3u) + (2u * thread_)];
            odd = metal::fma(_e77, _e52, _e85 * _e57);
        }
    }
    uint _e94 = attended.query_heads;
    float _e102 = even;
    float _e103 = weight;
    float _e105 = odd;
    float _e106 = weight;
    uint _e108 = narrow(_e102 / _e103, _e105 / _e106);
    attention_out[(((row * _e94) + workgroup.y) * HEAD_WORDS) + thread_] = _e108;
    return;
}
