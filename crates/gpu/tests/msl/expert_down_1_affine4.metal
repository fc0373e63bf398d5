// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size3;
    uint size4;
    uint size9;
    uint size10;
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
typedef float type_8[1];
struct type_10 {
    metal::uint4 inner[4];
};
struct type_11 {
    metal::float4 inner[8];
};
struct Scales {
    metal::float4 scale;
    metal::float4 bias;
};
struct type_12 {
    metal::float4 inner[128];
};
struct type_13 {
    metal::uint4 inner[2];
};
struct Part {
    metal::uint4 a;
    metal::uint4 b;
    metal::uint4 c;
    metal::uint4 d;
    Scales scales;
};
struct type_14 {
    float inner[32];
};
typedef int type_16[1];
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
constant uint MOST_PICKS = 32u;
constant uint FORMAT = 1u;
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

uint added(
    uint residual,
    float first_1,
    float second_1
) {
    float _e3 = low(residual);
    float _e4 = rounded(first_1);
    float _e6 = high(residual);
    float _e7 = rounded(second_1);
    uint _e9 = narrow(_e3 + _e4, _e6 + _e7);
    return _e9;
}

metal::float2 scale_and_bias(
    uint index,
    uint half_scales,
    device type_6 const& scales,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint word = scales[index];
    if (half_scales != 0u) {
        return float2(as_type<half2>(word));
    }
    float _e8 = low(word);
    float _e9 = high(word);
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

type_10 across(
    metal::uint4 a,
    metal::uint4 b,
    metal::uint4 c,
    metal::uint4 d
) {
    return type_10 {{metal::uint4(a.x, b.x, c.x, d.x), metal::uint4(a.y, b.y, c.y, d.y), metal::uint4(a.z, b.z, c.z, d.z), metal::uint4(a.w, b.w, c.w, d.w)}};
}

type_11 of_bf16_(
    type_10 words_3
) {
    metal::float4 _e2 = low4_(words_3.inner[0]);
    metal::float4 _e4 = high4_(words_3.inner[0]);
    metal::float4 _e6 = low4_(words_3.inner[1]);
    metal::float4 _e8 = high4_(words_3.inner[1]);
    metal::float4 _e10 = low4_(words_3.inner[2]);
    metal::float4 _e12 = high4_(words_3.inner[2]);
    metal::float4 _e14 = low4_(words_3.inner[3]);
    metal::float4 _e16 = high4_(words_3.inner[3]);
    return type_11 {{_e2, _e4, _e6, _e8, _e10, _e12, _e14, _e16}};
}

type_11 of_affine4_(
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
    return type_11 {{_e9, _e13, _e17, _e21, _e25, _e29, _e33, _e37}};
}

type_11 of_affine8_(
    metal::uint4 first_2,
    metal::uint4 second_2,
    metal::float4 scale_2,
    metal::float4 bias_2
) {
    metal::uint4 last_of_first = first_2 >> metal::uint4(16u);
    metal::uint4 last_of_second = second_2 >> metal::uint4(16u);
    metal::float4 _e12 = codes4_(first_2, 255u, 1.0);
    metal::float4 _e13 = meaning4_(_e12, scale_2, bias_2);
    metal::float4 _e16 = codes4_(first_2, 65280u, 0.00390625);
    metal::float4 _e17 = meaning4_(_e16, scale_2, bias_2);
    metal::float4 _e20 = codes4_(last_of_first, 255u, 1.0);
    metal::float4 _e21 = meaning4_(_e20, scale_2, bias_2);
    metal::float4 _e24 = codes4_(last_of_first, 65280u, 0.00390625);
    metal::float4 _e25 = meaning4_(_e24, scale_2, bias_2);
    metal::float4 _e28 = codes4_(second_2, 255u, 1.0);
    metal::float4 _e29 = meaning4_(_e28, scale_2, bias_2);
    metal::float4 _e32 = codes4_(second_2, 65280u, 0.00390625);
    metal::float4 _e33 = meaning4_(_e32, scale_2, bias_2);
    metal::float4 _e36 = codes4_(last_of_second, 255u, 1.0);
    metal::float4 _e37 = meaning4_(_e36, scale_2, bias_2);
    metal::float4 _e40 = codes4_(last_of_second, 65280u, 0.00390625);
    metal::float4 _e41 = meaning4_(_e40, scale_2, bias_2);
    return type_11 {{_e13, _e17, _e21, _e25, _e29, _e33, _e37, _e41}};
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

metal::uint4 rows_of_slot(
    uint slot,
    constant LinearParams& p
) {
    uint _e3 = p.write;
    if (_e3 == WRITE_GATED) {
        metal::uint4 gate = metal::uint4(slot * 2u) + metal::uint4(0u, 1u, 0u, 1u);
        uint _e17 = p.gated_width;
        uint _e26 = p.gated_width;
        uint _e29 = p.gated_width;
        return metal::min(gate, metal::uint4(_e17 - 1u)) + metal::uint4(0u, 0u, _e26, _e29);
    }
    uint _e43 = p.outputs;
    return metal::min(metal::uint4(slot * 4u) + metal::uint4(0u, 1u, 2u, 3u), metal::uint4(_e43 - 1u));
}

metal::float4 with_row(
    metal::float4 sum_1,
    type_11 weights,
    metal::uint4 pairs
) {
    metal::float4 longer = {};
    float _e5 = low(pairs.x);
    longer = metal::fma(weights.inner[0], metal::float4(_e5), sum_1);
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

metal::uint4 input(
    uint at,
    device type_5 const& x,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 _e3 = x[at];
    return _e3;
}

void multiply(
    type_11 weights_1,
    uint at_1,
    device type_5 const& x,
    thread type_11& sums,
    thread type_13& inputs_at,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 _e6 = sums.inner[0];
    uint _e10 = inputs_at.inner[0].x;
    metal::uint4 _e12 = input(_e10 + at_1, x, _buffer_sizes);
    metal::float4 _e13 = with_row(_e6, weights_1, _e12);
    sums.inner[0] = _e13;
    if (false) {
        metal::float4 _e22 = sums.inner[1];
        uint _e26 = inputs_at.inner[0].y;
        metal::uint4 _e28 = input(_e26 + at_1, x, _buffer_sizes);
        metal::float4 _e29 = with_row(_e22, weights_1, _e28);
        sums.inner[1] = _e29;
        metal::float4 _e34 = sums.inner[2];
        uint _e38 = inputs_at.inner[0].z;
        metal::uint4 _e40 = input(_e38 + at_1, x, _buffer_sizes);
        metal::float4 _e41 = with_row(_e34, weights_1, _e40);
        sums.inner[2] = _e41;
        metal::float4 _e46 = sums.inner[3];
        uint _e50 = inputs_at.inner[0].w;
        metal::uint4 _e52 = input(_e50 + at_1, x, _buffer_sizes);
        metal::float4 _e53 = with_row(_e46, weights_1, _e52);
        sums.inner[3] = _e53;
    }
    if (false) {
        metal::float4 _e62 = sums.inner[4];
        uint _e66 = inputs_at.inner[1].x;
        metal::uint4 _e68 = input(_e66 + at_1, x, _buffer_sizes);
        metal::float4 _e69 = with_row(_e62, weights_1, _e68);
        sums.inner[4] = _e69;
        metal::float4 _e74 = sums.inner[5];
        uint _e78 = inputs_at.inner[1].y;
        metal::uint4 _e80 = input(_e78 + at_1, x, _buffer_sizes);
        metal::float4 _e81 = with_row(_e74, weights_1, _e80);
        sums.inner[5] = _e81;
        metal::float4 _e86 = sums.inner[6];
        uint _e90 = inputs_at.inner[1].z;
        metal::uint4 _e92 = input(_e90 + at_1, x, _buffer_sizes);
        metal::float4 _e93 = with_row(_e86, weights_1, _e92);
        sums.inner[6] = _e93;
        metal::float4 _e98 = sums.inner[7];
        uint _e102 = inputs_at.inner[1].w;
        metal::uint4 _e104 = input(_e102 + at_1, x, _buffer_sizes);
        metal::float4 _e105 = with_row(_e98, weights_1, _e104);
        sums.inner[7] = _e105;
        return;
    } else {
        return;
    }
}

uint parts_shift(
) {
    if (false) {
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
    metal::uint4 first_4 = (((output_1 * metal::uint4(chunks)) + metal::uint4(chunk_1)) << metal::uint4(_e25)) + metal::uint4(in_chunk);
    metal::uint4 _e35 = codes[first_4.x];
    part.a = _e35;
    metal::uint4 _e40 = codes[first_4.y];
    part.b = _e40;
    metal::uint4 _e45 = codes[first_4.z];
    part.c = _e45;
    metal::uint4 _e50 = codes[first_4.w];
    part.d = _e50;
    if (true) {
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
    device type_5 const& x,
    thread type_11& sums,
    thread type_13& inputs_at,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_10 words_5 = {};
    uint eight = {};
    uint _e3 = parts_shift();
    uint _e7 = p.lanes_shift;
    uint chunk_2 = lane_1 + ((step_1 >> _e3) << _e7);
    uint _e11 = parts_shift();
    uint in_chunk_1 = step_1 & ((1u << _e11) - 1u);
    uint _e19 = parts_shift();
    uint at_2 = (chunk_2 * 4u) + (in_chunk_1 << (2u - _e19));
    metal::float4 scale_3 = part_1.scales.scale;
    metal::float4 bias_3 = part_1.scales.bias;
    type_10 _e31 = across(part_1.a, part_1.b, part_1.c, part_1.d);
    words_5 = _e31;
    if (false) {
        type_10 _e37 = words_5;
        type_11 _e38 = of_bf16_(_e37);
        multiply(_e38, at_2, x, sums, inputs_at, _buffer_sizes);
        return;
    }
    uint _e40 = parts_shift();
    uint _e44 = p.inputs;
    uint end = at_2 + metal::min(4u >> _e40, _e44);
    eight = at_2;
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
            if (true) {
                metal::uint4 _e55 = words_5.inner[0];
                type_11 _e56 = of_affine4_(_e55, scale_3, bias_3);
                uint _e57 = eight;
                multiply(_e56, _e57, x, sums, inputs_at, _buffer_sizes);
                metal::uint4 _e60 = words_5.inner[1];
                words_5.inner[0] = _e60;
                metal::uint4 _e63 = words_5.inner[2];
                words_5.inner[1] = _e63;
                metal::uint4 _e66 = words_5.inner[3];
                words_5.inner[2] = _e66;
            } else {
                metal::uint4 _e68 = words_5.inner[0];
                metal::uint4 _e70 = words_5.inner[1];
                type_11 _e71 = of_affine8_(_e68, _e70, scale_3, bias_3);
                uint _e72 = eight;
                multiply(_e71, _e72, x, sums, inputs_at, _buffer_sizes);
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
    Part first_3,
    metal::uint4 output_2,
    uint lane_2,
    device type_5 const& codes,
    device type_6 const& scales,
    constant LinearParams& p,
    device type_5 const& x,
    thread type_11& sums,
    thread type_13& inputs_at,
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
    next = first_3;
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
            Part part_3 = next;
            uint _e29 = step_2;
            if ((_e29 + 1u) < steps) {
                uint _e33 = step_2;
                Part _e36 = load_part(output_2, lane_2, _e33 + 1u, codes, scales, p, _buffer_sizes);
                next = _e36;
            }
            uint _e37 = step_2;
            multiply_part(part_3, lane_2, _e37, p, x, sums, inputs_at, _buffer_sizes);
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
    threadgroup type_12& partials,
    thread type_11& sums
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
    threadgroup type_12& partials,
    thread type_11& sums
) {
    metal::float4 part_2 = {};
    uint lane_3 = 1u;
    share_sums(thread_4, partials, sums);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e4 = p.lanes_shift;
    if ((1u << _e4) > EIGHT) {
        uint first_5 = thread_4 * EIGHT;
        uint _e11 = tile_rows;
        if (first_5 < (_e11 * THREADS)) {
            metal::float4 _e17 = partials.inner[first_5];
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
                    metal::float4 _e29 = partials.inner[first_5 + _e26];
                    part_2 = _e24 + _e29;
                }
            }
            metal::float4 _e36 = part_2;
            partials.inner[first_5] = _e36;
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        return;
    } else {
        return;
    }
}

metal::float4 total_of(
    uint row,
    uint slot_1,
    constant LinearParams& p,
    threadgroup type_12& partials
) {
    metal::float4 total = {};
    uint lane_4 = {};
    uint _e5 = p.lanes_shift;
    uint lanes_1 = 1u << _e5;
    uint first_6 = (row * THREADS) + (slot_1 * lanes_1);
    uint step_3 = (lanes_1 > EIGHT) ? EIGHT : 1u;
    metal::float4 _e18 = partials.inner[first_6];
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
            metal::float4 _e28 = partials.inner[first_6 + _e25];
            total = _e23 + _e28;
        }
    }
    metal::float4 _e32 = total;
    return _e32;
}

metal::uint2 residual_of(
    uint output_3,
    constant LinearParams& p,
    device type_6 const& out,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e3 = p.outputs;
    uint last_1 = _e3 - 2u;
    uint _e11 = out[metal::min(output_3, last_1) / 2u];
    uint _e19 = out[metal::min(output_3 + 2u, last_1) / 2u];
    return metal::uint2(_e11, _e19);
}

void add_to(
    metal::uint2 residual_1,
    uint output_4,
    metal::float4 sum_2,
    constant LinearParams& p,
    device type_6& out,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e5 = p.outputs;
    if (output_4 < _e5) {
        uint _e14 = added(residual_1.x, sum_2.x, sum_2.y);
        out[output_4 / 2u] = _e14;
    }
    uint _e19 = p.outputs;
    if ((output_4 + 2u) < _e19) {
        uint _e30 = added(residual_1.y, sum_2.z, sum_2.w);
        out[(output_4 / 2u) + 1u] = _e30;
        return;
    } else {
        return;
    }
}

struct expert_downInput {
};
[[max_total_threads_per_threadgroup(128)]] kernel void expert_down(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_5 const& codes [[buffer(1)]]
, device type_6 const& scales [[buffer(2)]]
, constant LinearParams& p [[buffer(0)]]
, device type_5 const& x [[buffer(3)]]
, device type_6& out [[buffer(4)]]
, threadgroup type_12& partials
, device type_16 const& down_experts [[buffer(5)]]
, device type_8 const& down_weights [[buffer(6)]]
, threadgroup type_14& weights_of_picks
, constant _mslBufferSizes& _buffer_sizes [[buffer(7)]]
) {
    uint tile_rows = {};
    type_11 sums = {};
    type_13 inputs_at = {};
    metal::float4 sum = metal::float4 {};
    uint of_row = 0u;
    uint _e5 = p.lanes_shift;
    uint _e9 = p.picks;
    uint fours = (THREADS >> _e5) / _e9;
    uint _e11 = slot_of(thread_, p);
    uint _e14 = p.picks;
    uint pick = _e11 % _e14;
    uint _e16 = slot_of(thread_, p);
    uint _e19 = p.picks;
    uint four = _e16 / _e19;
    uint mine = ((workgroup.y * fours) + metal::min(thread_, fours - 1u)) * 4u;
    int first_expert = down_experts[0];
    int expert = down_experts[pick];
    uint _e38 = p.picks;
    float weight = down_weights[metal::min(thread_, _e38 - 1u)];
    metal::uint2 _e44 = residual_of(mine, p, out, _buffer_sizes);
    if (first_expert < 0) {
        return;
    }
    uint _e49 = p.picks;
    if (thread_ < _e49) {
        weights_of_picks.inner[thread_] = weight;
    }
    tile_rows = 1u;
    if (four < fours) {
        metal::uint4 _e59 = rows_of_slot((workgroup.y * fours) + four, p);
        uint _e63 = p.outputs;
        metal::uint4 output_5 = _e59 + metal::uint4(static_cast<uint>(expert) * _e63);
        uint _e71 = p.inputs;
        inputs_at.inner[0] = metal::uint4(pick * (_e71 / 8u));
        uint _e76 = lane_of(thread_, p);
        Part _e78 = load_part(output_5, _e76, 0u, codes, scales, p, _buffer_sizes);
        uint _e79 = lane_of(thread_, p);
        sum_lane(_e78, output_5, _e79, codes, scales, p, x, sums, inputs_at, _buffer_sizes);
    }
    share_lanes(thread_, p, tile_rows, partials, sums);
    if (thread_ < fours) {
        bool loop_init_4 = true;
        while(true) {
            if (!loop_init_4) {
                uint _e115 = of_row;
                of_row = _e115 + 1u;
            }
            loop_init_4 = false;
            uint _e85 = of_row;
            uint _e88 = p.picks;
            if (_e85 < _e88) {
            } else {
                break;
            }
            {
                uint _e93 = p.picks;
                uint _e95 = of_row;
                metal::float4 _e97 = total_of(0u, (thread_ * _e93) + _e95, p, partials);
                float _e99 = rounded(_e97.x);
                float _e101 = rounded(_e97.y);
                float _e103 = rounded(_e97.z);
                float _e105 = rounded(_e97.w);
                metal::float4 values = metal::float4(_e99, _e101, _e103, _e105);
                uint _e108 = of_row;
                float _e110 = weights_of_picks.inner[_e108];
                metal::float4 _e112 = sum;
                sum = metal::fma(metal::float4(_e110), values, _e112);
            }
        }
        metal::float4 _e117 = sum;
        add_to(_e44, mine, _e117, p, out, _buffer_sizes);
        return;
    } else {
        return;
    }
}
