// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size3;
    uint size4;
    uint size12;
    uint size13;
    uint size14;
    uint size15;
    uint size16;
    uint size17;
};

typedef metal::uint4 type_5[1];
typedef uint type_6[1];
struct LinearParams {
    uint rows;
    uint outputs;
    uint inputs;
    uint group_shift;
    uint lanes_shift;
    uint half_scales;
    uint write;
    uint first_output;
    uint out_width;
    uint bias_rows;
    uint bias_row;
    uint gated_width;
    uint first_expert;
    uint experts;
    uint picks;
    float epsilon;
    uint normalize;
    float scale;
    uint layer;
};
struct type_9 {
    metal::uint4 inner[4];
};
struct type_10 {
    metal::float4 inner[8];
};
struct Scales {
    metal::float4 scale;
    metal::float4 bias;
};
struct type_11 {
    metal::float4 inner[128];
};
struct type_12 {
    metal::uint4 inner[2];
};
struct type_13 {
    metal::uint4 inner[320];
};
struct Part {
    metal::uint4 a;
    metal::uint4 b;
    metal::uint4 c;
    metal::uint4 d;
    Scales scales;
};
struct type_14 {
    float inner[128];
};
struct type_15 {
    float inner[8];
};
typedef int type_17[1];
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint THREADS = 128u;
constant uint EIGHT = 8u;
constant uint WRITE_BF16_ = 0u;
constant uint WRITE_ADD = 1u;
constant uint WRITE_F32_ = 2u;
constant uint WRITE_BIAS = 3u;
constant uint WRITE_GATED = 4u;
constant metal::uint4 FIRST_ROWS = metal::uint4(0u, 1u, 2u, 3u);
constant uint NORM_THREADS = 128u;
constant uint FORMAT = 0u;
constant uint ROWS = 1u;

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

metal::float2 scale_and_bias(
    uint index,
    uint half_scales,
    device type_6 const& scales,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word_3 = scales[index];
    if (half_scales != 0u) {
        return float2(as_type<half2>(word_3));
    }
    float _e8 = low(word_3);
    float _e9 = high(word_3);
    return metal::float2(_e8, _e9);
}

metal::float4 low4_(
    metal::uint4 words
) {
    return as_type<metal::float4>(words << metal::uint4(16u));
}

metal::float4 high4_(
    metal::uint4 words_1
) {
    return as_type<metal::float4>(words_1 & metal::uint4(4294901760u));
}

metal::float4 meaning4_(
    metal::float4 code,
    metal::float4 scale,
    metal::float4 bias
) {
    metal::float4 value_2 = metal::fma(scale, code, bias);
    metal::uint4 power = as_type<metal::uint4>(value_2) & metal::uint4(4286578688u);
    metal::uint4 ended = as_type<metal::uint4>(metal::fma(as_type<metal::float4>(power), metal::float4(65535.0), value_2));
    return as_type<metal::float4>((ended << metal::uint4(16u)) + power);
}

metal::float4 codes4_(
    metal::uint4 words_2,
    uint mask,
    float unit
) {
    metal::float4 beside = as_type<metal::float4>((words_2 & metal::uint4(mask)) | metal::uint4(1258291200u));
    return metal::fma(beside, metal::float4(unit), metal::float4(-8388608.0 * unit));
}

type_9 across(
    metal::uint4 a,
    metal::uint4 b,
    metal::uint4 c,
    metal::uint4 d
) {
    return type_9 {{metal::uint4(a.x, b.x, c.x, d.x), metal::uint4(a.y, b.y, c.y, d.y), metal::uint4(a.z, b.z, c.z, d.z), metal::uint4(a.w, b.w, c.w, d.w)}};
}

type_10 of_bf16_(
    type_9 words_3
) {
    metal::float4 _e2 = low4_(words_3.inner[0]);
    metal::float4 _e4 = high4_(words_3.inner[0]);
    metal::float4 _e6 = low4_(words_3.inner[1]);
    metal::float4 _e8 = high4_(words_3.inner[1]);
    metal::float4 _e10 = low4_(words_3.inner[2]);
    metal::float4 _e12 = high4_(words_3.inner[2]);
    metal::float4 _e14 = low4_(words_3.inner[3]);
    metal::float4 _e16 = high4_(words_3.inner[3]);
    return type_10 {{_e2, _e4, _e6, _e8, _e10, _e12, _e14, _e16}};
}

type_10 of_affine4_(
    metal::uint4 words_4,
    metal::float4 scale_1,
    metal::float4 bias_1
) {
    metal::uint4 last = words_4 >> metal::uint4(12u);
    metal::float4 _e8 = codes4_(words_4, 15u, 1.0);
    metal::float4 _e9 = meaning4_(_e8, scale_1, bias_1);
    metal::float4 _e12 = codes4_(words_4, 240u, 0.0625);
    metal::float4 _e13 = meaning4_(_e12, scale_1, bias_1);
    metal::float4 _e16 = codes4_(words_4, 3840u, 0.00390625);
    metal::float4 _e17 = meaning4_(_e16, scale_1, bias_1);
    metal::float4 _e20 = codes4_(words_4, 61440u, 0.00024414063);
    metal::float4 _e21 = meaning4_(_e20, scale_1, bias_1);
    metal::float4 _e24 = codes4_(words_4, 983040u, 0.000015258789);
    metal::float4 _e25 = meaning4_(_e24, scale_1, bias_1);
    metal::float4 _e28 = codes4_(last, 3840u, 0.00390625);
    metal::float4 _e29 = meaning4_(_e28, scale_1, bias_1);
    metal::float4 _e32 = codes4_(last, 61440u, 0.00024414063);
    metal::float4 _e33 = meaning4_(_e32, scale_1, bias_1);
    metal::float4 _e36 = codes4_(last, 983040u, 0.000015258789);
    metal::float4 _e37 = meaning4_(_e36, scale_1, bias_1);
    return type_10 {{_e9, _e13, _e17, _e21, _e25, _e29, _e33, _e37}};
}

type_10 of_affine8_(
    metal::uint4 first_1,
    metal::uint4 second_1,
    metal::float4 scale_2,
    metal::float4 bias_2
) {
    metal::uint4 last_of_first = first_1 >> metal::uint4(16u);
    metal::uint4 last_of_second = second_1 >> metal::uint4(16u);
    metal::float4 _e12 = codes4_(first_1, 255u, 1.0);
    metal::float4 _e13 = meaning4_(_e12, scale_2, bias_2);
    metal::float4 _e16 = codes4_(first_1, 65280u, 0.00390625);
    metal::float4 _e17 = meaning4_(_e16, scale_2, bias_2);
    metal::float4 _e20 = codes4_(last_of_first, 255u, 1.0);
    metal::float4 _e21 = meaning4_(_e20, scale_2, bias_2);
    metal::float4 _e24 = codes4_(last_of_first, 65280u, 0.00390625);
    metal::float4 _e25 = meaning4_(_e24, scale_2, bias_2);
    metal::float4 _e28 = codes4_(second_1, 255u, 1.0);
    metal::float4 _e29 = meaning4_(_e28, scale_2, bias_2);
    metal::float4 _e32 = codes4_(second_1, 65280u, 0.00390625);
    metal::float4 _e33 = meaning4_(_e32, scale_2, bias_2);
    metal::float4 _e36 = codes4_(last_of_second, 255u, 1.0);
    metal::float4 _e37 = meaning4_(_e36, scale_2, bias_2);
    metal::float4 _e40 = codes4_(last_of_second, 65280u, 0.00390625);
    metal::float4 _e41 = meaning4_(_e40, scale_2, bias_2);
    return type_10 {{_e13, _e17, _e21, _e25, _e29, _e33, _e37, _e41}};
}

Scales scales_of(
    metal::uint4 output,
    uint chunk,
    device type_6 const& scales,
    constant LinearParams& p,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = p.inputs;
    uint _e9 = p.group_shift;
    uint groups = (_e4 / 32u) >> _e9;
    uint _e15 = p.group_shift;
    metal::uint4 group = (output * metal::uint4(groups)) + metal::uint4(chunk >> _e15);
    uint _e22 = p.half_scales;
    metal::float2 _e23 = scale_and_bias(group.x, _e22, scales, _buffer_sizes);
    uint _e27 = p.half_scales;
    metal::float2 _e28 = scale_and_bias(group.y, _e27, scales, _buffer_sizes);
    uint _e32 = p.half_scales;
    metal::float2 _e33 = scale_and_bias(group.z, _e32, scales, _buffer_sizes);
    uint _e37 = p.half_scales;
    metal::float2 _e38 = scale_and_bias(group.w, _e37, scales, _buffer_sizes);
    return Scales {metal::float4(_e23.x, _e28.x, _e33.x, _e38.x), metal::float4(_e23.y, _e28.y, _e33.y, _e38.y)};
}

metal::float4 with_row(
    metal::float4 sum,
    type_10 weights,
    metal::uint4 pairs
) {
    metal::float4 longer = {};
    float _e5 = low(pairs.x);
    longer = metal::fma(weights.inner[0], metal::float4(_e5), sum);
    float _e11 = high(pairs.x);
    metal::float4 _e13 = longer;
    longer = metal::fma(weights.inner[1], metal::float4(_e11), _e13);
    float _e17 = low(pairs.y);
    metal::float4 _e19 = longer;
    longer = metal::fma(weights.inner[2], metal::float4(_e17), _e19);
    float _e23 = high(pairs.y);
    metal::float4 _e25 = longer;
    longer = metal::fma(weights.inner[3], metal::float4(_e23), _e25);
    float _e29 = low(pairs.z);
    metal::float4 _e31 = longer;
    longer = metal::fma(weights.inner[4], metal::float4(_e29), _e31);
    float _e35 = high(pairs.z);
    metal::float4 _e37 = longer;
    longer = metal::fma(weights.inner[5], metal::float4(_e35), _e37);
    float _e41 = low(pairs.w);
    metal::float4 _e43 = longer;
    longer = metal::fma(weights.inner[6], metal::float4(_e41), _e43);
    float _e47 = high(pairs.w);
    metal::float4 _e49 = longer;
    return metal::fma(weights.inner[7], metal::float4(_e47), _e49);
}

uint place(
    uint at
) {
    return at + (at / 4u);
}

metal::uint4 input(
    uint at_1,
    threadgroup type_13& row_values
) {
    uint _e2 = place(at_1);
    metal::uint4 _e4 = row_values.inner[_e2];
    return _e4;
}

void multiply(
    type_10 weights_1,
    uint at_2,
    thread type_10& sums,
    thread type_12& inputs_at,
    threadgroup type_13& row_values
) {
    metal::float4 _e6 = sums.inner[0];
    uint _e10 = inputs_at.inner[0].x;
    metal::uint4 _e12 = input(_e10 + at_2, row_values);
    metal::float4 _e13 = with_row(_e6, weights_1, _e12);
    sums.inner[0] = _e13;
    if (false) {
        metal::float4 _e22 = sums.inner[1];
        uint _e26 = inputs_at.inner[0].y;
        metal::uint4 _e28 = input(_e26 + at_2, row_values);
        metal::float4 _e29 = with_row(_e22, weights_1, _e28);
        sums.inner[1] = _e29;
        metal::float4 _e34 = sums.inner[2];
        uint _e38 = inputs_at.inner[0].z;
        metal::uint4 _e40 = input(_e38 + at_2, row_values);
        metal::float4 _e41 = with_row(_e34, weights_1, _e40);
        sums.inner[2] = _e41;
        metal::float4 _e46 = sums.inner[3];
        uint _e50 = inputs_at.inner[0].w;
        metal::uint4 _e52 = input(_e50 + at_2, row_values);
        metal::float4 _e53 = with_row(_e46, weights_1, _e52);
        sums.inner[3] = _e53;
    }
    if (false) {
        metal::float4 _e62 = sums.inner[4];
        uint _e66 = inputs_at.inner[1].x;
        metal::uint4 _e68 = input(_e66 + at_2, row_values);
        metal::float4 _e69 = with_row(_e62, weights_1, _e68);
        sums.inner[4] = _e69;
        metal::float4 _e74 = sums.inner[5];
        uint _e78 = inputs_at.inner[1].y;
        metal::uint4 _e80 = input(_e78 + at_2, row_values);
        metal::float4 _e81 = with_row(_e74, weights_1, _e80);
        sums.inner[5] = _e81;
        metal::float4 _e86 = sums.inner[6];
        uint _e90 = inputs_at.inner[1].z;
        metal::uint4 _e92 = input(_e90 + at_2, row_values);
        metal::float4 _e93 = with_row(_e86, weights_1, _e92);
        sums.inner[6] = _e93;
        metal::float4 _e98 = sums.inner[7];
        uint _e102 = inputs_at.inner[1].w;
        metal::uint4 _e104 = input(_e102 + at_2, row_values);
        metal::float4 _e105 = with_row(_e98, weights_1, _e104);
        sums.inner[7] = _e105;
        return;
    } else {
        return;
    }
}

uint parts_shift(
) {
    if (true) {
        return 2u;
    }
    return 0u;
}

Part load_part(
    metal::uint4 output_1,
    uint lane,
    uint step,
    device type_5 const& codes,
    device type_6 const& scales,
    constant LinearParams& p,
    constant _mslBufferSizes& _buffer_sizes
) {
    Part part = {};
    uint _e5 = p.inputs;
    uint chunks = _e5 / 32u;
    uint _e8 = parts_shift();
    uint _e12 = p.lanes_shift;
    uint chunk_1 = lane + ((step >> _e8) << _e12);
    uint _e16 = parts_shift();
    uint in_chunk = step & ((1u << _e16) - 1u);
    uint _e25 = parts_shift();
    metal::uint4 first_3 = (((output_1 * metal::uint4(chunks)) + metal::uint4(chunk_1)) << metal::uint4(_e25)) + metal::uint4(in_chunk);
    metal::uint4 _e35 = codes[first_3.x];
    part.a = _e35;
    metal::uint4 _e40 = codes[first_3.y];
    part.b = _e40;
    metal::uint4 _e45 = codes[first_3.z];
    part.c = _e45;
    metal::uint4 _e50 = codes[first_3.w];
    part.d = _e50;
    if (false) {
        Scales _e56 = scales_of(output_1, chunk_1, scales, p, _buffer_sizes);
        part.scales = _e56;
    }
    Part _e57 = part;
    return _e57;
}

void multiply_part(
    Part part_1,
    uint lane_1,
    uint step_1,
    constant LinearParams& p,
    thread type_10& sums,
    thread type_12& inputs_at,
    threadgroup type_13& row_values
) {
    type_9 words_5 = {};
    uint eight = {};
    uint _e3 = parts_shift();
    uint _e7 = p.lanes_shift;
    uint chunk_2 = lane_1 + ((step_1 >> _e3) << _e7);
    uint _e11 = parts_shift();
    uint in_chunk_1 = step_1 & ((1u << _e11) - 1u);
    uint _e19 = parts_shift();
    uint at_4 = (chunk_2 * 4u) + (in_chunk_1 << (2u - _e19));
    metal::float4 scale_4 = part_1.scales.scale;
    metal::float4 bias_3 = part_1.scales.bias;
    type_9 _e31 = across(part_1.a, part_1.b, part_1.c, part_1.d);
    words_5 = _e31;
    if (true) {
        type_9 _e37 = words_5;
        type_10 _e38 = of_bf16_(_e37);
        multiply(_e38, at_4, sums, inputs_at, row_values);
        return;
    }
    uint _e40 = parts_shift();
    uint _e44 = p.inputs;
    uint end = at_4 + metal::min(4u >> _e40, _e44);
    eight = at_4;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e80 = eight;
            eight = _e80 + 1u;
        }
        loop_init = false;
        uint _e48 = eight;
        if (_e48 < end) {
        } else {
            break;
        }
        {
            if (false) {
                metal::uint4 _e55 = words_5.inner[0];
                type_10 _e56 = of_affine4_(_e55, scale_4, bias_3);
                uint _e57 = eight;
                multiply(_e56, _e57, sums, inputs_at, row_values);
                metal::uint4 _e60 = words_5.inner[1];
                words_5.inner[0] = _e60;
                metal::uint4 _e63 = words_5.inner[2];
                words_5.inner[1] = _e63;
                metal::uint4 _e66 = words_5.inner[3];
                words_5.inner[2] = _e66;
            } else {
                metal::uint4 _e68 = words_5.inner[0];
                metal::uint4 _e70 = words_5.inner[1];
                type_10 _e71 = of_affine8_(_e68, _e70, scale_4, bias_3);
                uint _e72 = eight;
                multiply(_e71, _e72, sums, inputs_at, row_values);
                metal::uint4 _e75 = words_5.inner[2];
                words_5.inner[0] = _e75;
                metal::uint4 _e78 = words_5.inner[3];
                words_5.inner[1] = _e78;
            }
        }
    }
    return;
}

void sum_lane(
    Part first_2,
    metal::uint4 output_2,
    uint lane_2,
    device type_5 const& codes,
    device type_6 const& scales,
    constant LinearParams& p,
    thread type_10& sums,
    thread type_12& inputs_at,
    threadgroup type_13& row_values,
    constant _mslBufferSizes& _buffer_sizes
) {
    Part next = {};
    uint step_2 = 0u;
    uint _e6 = p.lanes_shift;
    uint lanes = 1u << _e6;
    uint _e10 = p.inputs;
    uint _e19 = p.lanes_shift;
    uint _e21 = parts_shift();
    uint steps = (((((_e10 / 32u) - lane_2) + lanes) - 1u) >> _e19) << _e21;
    next = first_2;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e39 = step_2;
            step_2 = _e39 + 1u;
        }
        loop_init_1 = false;
        uint _e26 = step_2;
        if (_e26 < steps) {
        } else {
            break;
        }
        {
            Part part_4 = next;
            uint _e29 = step_2;
            if ((_e29 + 1u) < steps) {
                uint _e33 = step_2;
                Part _e36 = load_part(output_2, lane_2, _e33 + 1u, codes, scales, p, _buffer_sizes);
                next = _e36;
            }
            uint _e37 = step_2;
            multiply_part(part_4, lane_2, _e37, p, sums, inputs_at, row_values);
        }
    }
    return;
}

uint lane_of(
    uint thread_1,
    constant LinearParams& p
) {
    uint _e4 = p.lanes_shift;
    return thread_1 & ((1u << _e4) - 1u);
}

uint slot_of(
    uint thread_2,
    constant LinearParams& p
) {
    uint _e3 = p.lanes_shift;
    return thread_2 >> _e3;
}

void share_sums(
    uint thread_3,
    threadgroup type_11& partials,
    thread type_10& sums
) {
    metal::float4 _e5 = sums.inner[0];
    partials.inner[thread_3] = _e5;
    if (false) {
        metal::float4 _e16 = sums.inner[1];
        partials.inner[THREADS + thread_3] = _e16;
        metal::float4 _e23 = sums.inner[2];
        partials.inner[256u + thread_3] = _e23;
        metal::float4 _e30 = sums.inner[3];
        partials.inner[384u + thread_3] = _e30;
    }
    if (false) {
        metal::float4 _e41 = sums.inner[4];
        partials.inner[512u + thread_3] = _e41;
        metal::float4 _e48 = sums.inner[5];
        partials.inner[640u + thread_3] = _e48;
        metal::float4 _e55 = sums.inner[6];
        partials.inner[768u + thread_3] = _e55;
        metal::float4 _e62 = sums.inner[7];
        partials.inner[896u + thread_3] = _e62;
        return;
    } else {
        return;
    }
}

void share_lanes(
    uint thread_4,
    constant LinearParams& p,
    thread uint& tile_rows,
    threadgroup type_11& partials,
    thread type_10& sums
) {
    metal::float4 part_2 = {};
    uint lane_3 = 1u;
    share_sums(thread_4, partials, sums);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e4 = p.lanes_shift;
    if ((1u << _e4) > EIGHT) {
        uint first_4 = thread_4 * EIGHT;
        uint _e11 = tile_rows;
        if (first_4 < (_e11 * THREADS)) {
            metal::float4 _e17 = partials.inner[first_4];
            part_2 = _e17;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e32 = lane_3;
                    lane_3 = _e32 + 1u;
                }
                loop_init_2 = false;
                uint _e21 = lane_3;
                if (_e21 < EIGHT) {
                } else {
                    break;
                }
                {
                    metal::float4 _e24 = part_2;
                    uint _e26 = lane_3;
                    metal::float4 _e29 = partials.inner[first_4 + _e26];
                    part_2 = _e24 + _e29;
                }
            }
            metal::float4 _e36 = part_2;
            partials.inner[first_4] = _e36;
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        return;
    } else {
        return;
    }
}

metal::float4 total_of(
    uint row,
    uint slot,
    constant LinearParams& p,
    threadgroup type_11& partials
) {
    metal::float4 total = {};
    uint lane_4 = {};
    uint _e5 = p.lanes_shift;
    uint lanes_1 = 1u << _e5;
    uint first_5 = (row * THREADS) + (slot * lanes_1);
    uint step_3 = (lanes_1 > EIGHT) ? EIGHT : 1u;
    metal::float4 _e18 = partials.inner[first_5];
    total = _e18;
    lane_4 = step_3;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e30 = lane_4;
            lane_4 = _e30 + step_3;
        }
        loop_init_3 = false;
        uint _e21 = lane_4;
        if (_e21 < lanes_1) {
        } else {
            break;
        }
        {
            metal::float4 _e23 = total;
            uint _e25 = lane_4;
            metal::float4 _e28 = partials.inner[first_5 + _e25];
            total = _e23 + _e28;
        }
    }
    metal::float4 _e32 = total;
    return _e32;
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
    uint thread_5,
    float sum_2,
    uint words_6,
    float epsilon,
    threadgroup type_14& squares,
    threadgroup type_15& squares_of_eights
) {
    float part_3 = {};
    uint i = 1u;
    float total_1 = {};
    uint i_1 = 1u;
    squares.inner[thread_5] = sum_2;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (thread_5 < 8u) {
        float _e12 = squares.inner[thread_5 * 16u];
        part_3 = _e12;
        bool loop_init_4 = true;
        while(true) {
            if (!loop_init_4) {
                uint _e29 = i;
                i = _e29 + 1u;
            }
            loop_init_4 = false;
            uint _e16 = i;
            if (_e16 < 16u) {
            } else {
                break;
            }
            {
                float _e19 = part_3;
                uint _e23 = i;
                float _e26 = squares.inner[(thread_5 * 16u) + _e23];
                part_3 = _e19 + _e26;
            }
        }
        float _e33 = part_3;
        squares_of_eights.inner[thread_5] = _e33;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    float _e36 = squares_of_eights.inner[0];
    total_1 = _e36;
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e50 = i_1;
            i_1 = _e50 + 1u;
        }
        loop_init_5 = false;
        uint _e40 = i_1;
        if (_e40 < 8u) {
        } else {
            break;
        }
        {
            float _e43 = total_1;
            uint _e45 = i_1;
            float _e47 = squares_of_eights.inner[_e45];
            total_1 = _e43 + _e47;
        }
    }
    float _e52 = total_1;
    return 1.0 / metal::sqrt((_e52 / static_cast<float>(2u * words_6)) + epsilon);
}

uint normed(
    uint pair_3,
    uint weight,
    float scale_3
) {
    float _e3 = low(weight);
    float _e4 = low(pair_3);
    float _e6 = rounded(_e4 * scale_3);
    float _e8 = high(weight);
    float _e9 = high(pair_3);
    float _e11 = rounded(_e9 * scale_3);
    uint _e13 = narrow(_e3 * _e6, _e8 * _e11);
    return _e13;
}

uint gated_pair(
    uint b_1,
    uint x
) {
    float _e2 = low(b_1);
    float _e3 = low(x);
    float _e5 = high(b_1);
    float _e6 = high(x);
    uint _e8 = narrow(_e2 * _e3, _e5 * _e6);
    return _e8;
}

uint ring_slot(
    int lane_5,
    uint position,
    uint words_7
) {
    return ((static_cast<uint>(lane_5) * CONV_RING) + (position % CONV_RING)) * words_7;
}

uint convolved(
    metal::uint3 weights_2,
    metal::uint3 gated,
    uint by
) {
    float _e4 = low(weights_2.y);
    float _e6 = low(gated.z);
    float _e8 = high(weights_2.x);
    float _e10 = low(gated.y);
    float _e12 = low(weights_2.x);
    float _e14 = low(gated.x);
    float c_2 = metal::fma(_e4, _e6, metal::fma(_e8, _e10, _e12 * _e14));
    float _e19 = high(weights_2.z);
    float _e21 = high(gated.z);
    float _e23 = low(weights_2.z);
    float _e25 = high(gated.y);
    float _e27 = high(weights_2.y);
    float _e29 = high(gated.x);
    float d_1 = metal::fma(_e19, _e21, metal::fma(_e23, _e25, _e27 * _e29));
    float _e33 = low(by);
    float _e34 = rounded(c_2);
    float _e36 = high(by);
    float _e37 = rounded(d_1);
    uint _e39 = narrow(_e33 * _e34, _e36 * _e37);
    return _e39;
}

void norm_row(
    uint thread_6,
    bool writes,
    constant LinearParams& p,
    device type_5 const& x_2,
    threadgroup type_13& row_values,
    threadgroup type_14& squares,
    threadgroup type_15& squares_of_eights,
    device type_5 const& norm_weight,
    device type_5& norm_out,
    constant _mslBufferSizes& _buffer_sizes
) {
    float sum_3 = 0.0;
    uint word = {};
    uint at_3 = {};
    uint _e4 = p.inputs;
    uint words_10 = _e4 / 2u;
    word = thread_6;
    bool loop_init_6 = true;
    while(true) {
        if (!loop_init_6) {
            uint _e24 = word;
            word = _e24 + NORM_THREADS;
        }
        loop_init_6 = false;
        uint _e10 = word;
        if (_e10 < words_10) {
        } else {
            break;
        }
        {
            float _e12 = sum_3;
            uint _e14 = word;
            uint _e18 = word;
            uint _e22 = x_2[_e14 / 4u][_e18 % 4u];
            float _e23 = with_squares(_e12, _e22);
            sum_3 = _e23;
        }
    }
    float _e27 = sum_3;
    float _e30 = p.epsilon;
    float _e31 = scale_of_squares(thread_6, _e27, words_10, _e30, squares, squares_of_eights);
    at_3 = thread_6;
    bool loop_init_7 = true;
    while(true) {
        if (!loop_init_7) {
            uint _e65 = at_3;
            at_3 = _e65 + NORM_THREADS;
        }
        loop_init_7 = false;
        uint _e33 = at_3;
        if (_e33 < (words_10 / 4u)) {
        } else {
            break;
        }
        {
            uint _e38 = at_3;
            metal::uint4 pairs_1 = x_2[_e38];
            uint _e42 = at_3;
            metal::uint4 weights_3 = norm_weight[_e42];
            uint _e47 = normed(pairs_1.x, weights_3.x, _e31);
            uint _e50 = normed(pairs_1.y, weights_3.y, _e31);
            uint _e53 = normed(pairs_1.z, weights_3.z, _e31);
            uint _e56 = normed(pairs_1.w, weights_3.w, _e31);
            metal::uint4 row_1 = metal::uint4(_e47, _e50, _e53, _e56);
            uint _e59 = at_3;
            uint _e60 = place(_e59);
            row_values.inner[_e60] = row_1;
            if (writes) {
                uint _e63 = at_3;
                norm_out[_e63] = row_1;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

uint gated_before(
    uint position_1,
    uint back,
    uint words_8,
    uint word_1,
    device type_17 const& conv_lane,
    device type_6 const& ring,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (position_1 < back) {
        return 0u;
    }
    int _e9 = conv_lane[0];
    uint _e11 = ring_slot(_e9, position_1 - back, words_8);
    uint _e14 = ring[_e11 + word_1];
    return _e14;
}

void convolve(
    uint word_2,
    uint words_9,
    uint b_2,
    uint c_1,
    uint x_1,
    device type_6& out,
    device type_6 const& conv_weight,
    device type_17 const& conv_lane,
    device type_17 const& conv_position,
    device type_6& ring,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (word_2 >= words_9) {
        return;
    }
    int _e8 = conv_position[0];
    uint position_2 = static_cast<uint>(_e8);
    uint _e10 = gated_pair(b_2, x_1);
    uint _e15 = conv_weight[3u * word_2];
    uint _e22 = conv_weight[(3u * word_2) + 1u];
    uint _e29 = conv_weight[(3u * word_2) + 2u];
    metal::uint3 weights_4 = metal::uint3(_e15, _e22, _e29);
    uint _e32 = gated_before(position_2, 2u, words_9, word_2, conv_lane, ring, _buffer_sizes);
    uint _e34 = gated_before(position_2, 1u, words_9, word_2, conv_lane, ring, _buffer_sizes);
    uint _e38 = convolved(weights_4, metal::uint3(_e32, _e34, _e10), c_1);
    out[word_2] = _e38;
    int _e42 = conv_lane[0];
    uint _e43 = ring_slot(_e42, position_2, words_9);
    ring[_e43 + word_2] = _e10;
    return;
}

struct project_convInput {
};
[[max_total_threads_per_threadgroup(128)]] kernel void project_conv(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_5 const& codes [[buffer(1)]]
, device type_6 const& scales [[buffer(2)]]
, constant LinearParams& p [[buffer(0)]]
, device type_5 const& x_2 [[buffer(3)]]
, device type_6& out [[buffer(4)]]
, threadgroup type_11& partials
, threadgroup type_13& row_values
, threadgroup type_14& squares
, threadgroup type_15& squares_of_eights
, device type_5 const& norm_weight [[buffer(6)]]
, device type_5& norm_out [[buffer(7)]]
, device type_6 const& conv_weight [[buffer(5)]]
, device type_17 const& conv_lane [[buffer(8)]]
, device type_17 const& conv_position [[buffer(9)]]
, device type_6& ring [[buffer(10)]]
, constant _mslBufferSizes& _buffer_sizes [[buffer(11)]]
) {
    uint tile_rows = {};
    type_10 sums = {};
    type_12 inputs_at = {};
    bool local = {};
    tile_rows = 1u;
    uint _e6 = p.outputs;
    uint channels = _e6 / 3u;
    uint _e12 = p.lanes_shift;
    uint fours = (THREADS >> _e12) / 3u;
    uint _e16 = slot_of(thread_, p);
    metal::uint4 channel = metal::uint4(((workgroup.y * fours) + (_e16 / 3u)) * 4u) + metal::uint4(0u, 1u, 2u, 3u);
    metal::uint4 output_3 = metal::min(channel, metal::uint4(channels - 1u)) + metal::uint4((_e16 % 3u) * channels);
    uint _e40 = lane_of(thread_, p);
    Part _e42 = load_part(output_3, _e40, 0u, codes, scales, p, _buffer_sizes);
    norm_row(thread_, workgroup.y == 0u, p, x_2, row_values, squares, squares_of_eights, norm_weight, norm_out, _buffer_sizes);
    if (_e16 < (fours * 3u)) {
        uint _e49 = lane_of(thread_, p);
        sum_lane(_e42, output_3, _e49, codes, scales, p, sums, inputs_at, row_values, _buffer_sizes);
    }
    share_lanes(thread_, p, tile_rows, partials, sums);
    if (thread_ < fours) {
        int _e55 = conv_lane[0];
        local = _e55 != NO_LANE;
    } else {
        local = false;
    }
    bool _e59 = local;
    if (_e59) {
        metal::float4 _e63 = total_of(0u, thread_ * 3u, p, partials);
        metal::float4 _e69 = total_of(0u, (thread_ * 3u) + 1u, p, partials);
        metal::float4 _e75 = total_of(0u, (thread_ * 3u) + 2u, p, partials);
        uint word_4 = ((workgroup.y * fours) + thread_) * 2u;
        uint _e85 = narrow(_e63.x, _e63.y);
        uint _e88 = narrow(_e69.x, _e69.y);
        uint _e91 = narrow(_e75.x, _e75.y);
        convolve(word_4, channels / 2u, _e85, _e88, _e91, out, conv_weight, conv_lane, conv_position, ring, _buffer_sizes);
        uint _e98 = narrow(_e63.z, _e63.w);
        uint _e101 = narrow(_e69.z, _e69.w);
        uint _e104 = narrow(_e75.z, _e75.w);
        convolve(word_4 + 1u, channels / 2u, _e98, _e101, _e104, out, conv_weight, conv_lane, conv_position, ring, _buffer_sizes);
        return;
    } else {
        return;
    }
}
