// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size0;
    uint size1;
    uint size3;
    uint size4;
    uint size5;
    uint size6;
    uint size7;
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
    uint inner[1];
};
struct type_14 {
    metal::uint4 inner[2];
};
struct Part {
    metal::uint4 a;
    metal::uint4 b;
    metal::uint4 c;
    metal::uint4 d;
    Scales scales;
};
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
    float value_3 = mantissa * as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(naga_f2i32(exponent)) + as_type<uint>(127))) << 23u);
    return (x < -87.3) ? 0.0 : value_3;
}

float silu(
    float x_1
) {
    float _e2 = exponential(-(x_1));
    return x_1 / (1.0 + _e2);
}

uint activated(
    uint gate,
    uint up
) {
    float _e2 = low(gate);
    float _e3 = silu(_e2);
    float _e4 = low(up);
    float _e6 = high(gate);
    float _e7 = silu(_e6);
    float _e8 = high(up);
    uint _e10 = narrow(_e3 * _e4, _e7 * _e8);
    return _e10;
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

metal::uint4 there(
    metal::uint4 rows,
    thread uint& tile_rows
) {
    uint _e2 = tile_rows;
    return metal::min(rows, metal::uint4(_e2 - 1u));
}

metal::uint4 inputs_of(
    metal::uint4 at,
    constant LinearParams& p,
    device type_6 const& order,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e4 = order[at.x];
    uint _e8 = order[at.y];
    uint _e12 = order[at.z];
    uint _e16 = order[at.w];
    metal::uint4 entries = metal::uint4(_e4, _e8, _e12, _e16);
    uint _e20 = p.picks;
    uint _e25 = p.inputs;
    return (entries / metal::uint4(_e20)) * (_e25 / 8u);
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
    metal::float4 value_4 = metal::fma(scale, code, bias);
    metal::uint4 power = as_type<metal::uint4>(value_4) & metal::uint4(4286578688u);
    metal::uint4 ended = as_type<metal::uint4>(metal::fma(as_type<metal::float4>(power), metal::float4(65535.0), value_4));
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
        metal::uint4 gate_1 = metal::uint4(slot * 2u) + metal::uint4(0u, 1u, 0u, 1u);
        uint _e17 = p.gated_width;
        uint _e26 = p.gated_width;
        uint _e29 = p.gated_width;
        return metal::min(gate_1, metal::uint4(_e17 - 1u)) + metal::uint4(0u, 0u, _e26, _e29);
    }
    uint _e43 = p.outputs;
    return metal::min(metal::uint4(slot * 4u) + metal::uint4(0u, 1u, 2u, 3u), metal::uint4(_e43 - 1u));
}

void write_value(
    uint row,
    uint output_1,
    float sum,
    constant LinearParams& p,
    device type_6& out,
    device type_8 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    float value_2 = {};
    uint _e5 = p.outputs;
    if (output_1 >= _e5) {
        return;
    }
    value_2 = sum;
    uint _e10 = p.write;
    if (_e10 == WRITE_BIAS) {
        uint _e15 = p.bias_rows;
        uint _e19 = p.bias_row;
        uint bias_row = (row * _e15) + _e19;
        uint _e24 = p.out_width;
        uint _e28 = p.first_output;
        float _e32 = logits[((bias_row * _e24) + _e28) + output_1];
        value_2 = _e32 + sum;
    }
    uint _e37 = p.out_width;
    uint _e41 = p.first_output;
    float _e45 = value_2;
    out[((row * _e37) + _e41) + output_1] = as_type<uint>(_e45);
    return;
}

void write_pair(
    uint row_1,
    uint output_2,
    float first_3,
    float second_3,
    constant LinearParams& p,
    device type_6& out,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e6 = p.outputs;
    if (output_2 >= _e6) {
        return;
    }
    uint _e10 = p.out_width;
    uint _e14 = p.first_output;
    uint word_1 = (((row_1 * _e10) + _e14) + output_2) / 2u;
    uint _e21 = p.write;
    if (_e21 == WRITE_ADD) {
        uint _e28 = out[word_1];
        uint _e29 = added(_e28, first_3, second_3);
        out[word_1] = _e29;
        return;
    } else {
        uint _e32 = narrow(first_3, second_3);
        out[word_1] = _e32;
        return;
    }
}

void write_sums(
    uint row_2,
    uint slot_1,
    metal::float4 total,
    constant LinearParams& p,
    device type_6& out,
    device type_8 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local_1 = {};
    uint _e5 = p.write;
    if (_e5 == WRITE_GATED) {
        uint _e12 = p.gated_width;
        if ((slot_1 * 2u) < _e12) {
            uint _e16 = narrow(total.x, total.y);
            uint _e19 = narrow(total.z, total.w);
            uint _e20 = activated(_e16, _e19);
            uint _e24 = p.out_width;
            out[(row_2 * (_e24 / 2u)) + slot_1] = _e20;
            return;
        } else {
            return;
        }
    } else {
        uint _e32 = p.write;
        if (!((_e32 == WRITE_F32_))) {
            uint _e40 = p.write;
            local_1 = _e40 == WRITE_BIAS;
        } else {
            local_1 = true;
        }
        bool _e44 = local_1;
        if (_e44) {
            write_value(row_2, slot_1 * 4u, total.x, p, out, logits, _buffer_sizes);
            write_value(row_2, (slot_1 * 4u) + 1u, total.y, p, out, logits, _buffer_sizes);
            write_value(row_2, (slot_1 * 4u) + 2u, total.z, p, out, logits, _buffer_sizes);
            write_value(row_2, (slot_1 * 4u) + 3u, total.w, p, out, logits, _buffer_sizes);
            return;
        } else {
            write_pair(row_2, slot_1 * 4u, total.x, total.y, p, out, _buffer_sizes);
            write_pair(row_2, (slot_1 * 4u) + 2u, total.z, total.w, p, out, _buffer_sizes);
            return;
        }
    }
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
    uint at_1,
    device type_5 const& x_2,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 _e3 = x_2[at_1];
    return _e3;
}

void multiply(
    type_11 weights_1,
    uint at_2,
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_14& inputs_at,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::float4 _e6 = sums.inner[0];
    uint _e10 = inputs_at.inner[0].x;
    metal::uint4 _e12 = input(_e10 + at_2, x_2, _buffer_sizes);
    metal::float4 _e13 = with_row(_e6, weights_1, _e12);
    sums.inner[0] = _e13;
    if (false) {
        metal::float4 _e22 = sums.inner[1];
        uint _e26 = inputs_at.inner[0].y;
        metal::uint4 _e28 = input(_e26 + at_2, x_2, _buffer_sizes);
        metal::float4 _e29 = with_row(_e22, weights_1, _e28);
        sums.inner[1] = _e29;
        metal::float4 _e34 = sums.inner[2];
        uint _e38 = inputs_at.inner[0].z;
        metal::uint4 _e40 = input(_e38 + at_2, x_2, _buffer_sizes);
        metal::float4 _e41 = with_row(_e34, weights_1, _e40);
        sums.inner[2] = _e41;
        metal::float4 _e46 = sums.inner[3];
        uint _e50 = inputs_at.inner[0].w;
        metal::uint4 _e52 = input(_e50 + at_2, x_2, _buffer_sizes);
        metal::float4 _e53 = with_row(_e46, weights_1, _e52);
        sums.inner[3] = _e53;
    }
    if (false) {
        metal::float4 _e62 = sums.inner[4];
        uint _e66 = inputs_at.inner[1].x;
        metal::uint4 _e68 = input(_e66 + at_2, x_2, _buffer_sizes);
        metal::float4 _e69 = with_row(_e62, weights_1, _e68);
        sums.inner[4] = _e69;
        metal::float4 _e74 = sums.inner[5];
        uint _e78 = inputs_at.inner[1].y;
        metal::uint4 _e80 = input(_e78 + at_2, x_2, _buffer_sizes);
        metal::float4 _e81 = with_row(_e74, weights_1, _e80);
        sums.inner[5] = _e81;
        metal::float4 _e86 = sums.inner[6];
        uint _e90 = inputs_at.inner[1].z;
        metal::uint4 _e92 = input(_e90 + at_2, x_2, _buffer_sizes);
        metal::float4 _e93 = with_row(_e86, weights_1, _e92);
        sums.inner[6] = _e93;
        metal::float4 _e98 = sums.inner[7];
        uint _e102 = inputs_at.inner[1].w;
        metal::uint4 _e104 = input(_e102 + at_2, x_2, _buffer_sizes);
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
    metal::uint4 output_3,
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
    metal::uint4 first_5 = (((output_3 * metal::uint4(chunks)) + metal::uint4(chunk_1)) << metal::uint4(_e25)) + metal::uint4(in_chunk);
    metal::uint4 _e35 = codes[first_5.x];
    part.a = _e35;
    metal::uint4 _e40 = codes[first_5.y];
    part.b = _e40;
    metal::uint4 _e45 = codes[first_5.z];
    part.c = _e45;
    metal::uint4 _e50 = codes[first_5.w];
    part.d = _e50;
    if (false) {
        Scales _e56 = scales_of(output_3, chunk_1, scales, p, _buffer_sizes);
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
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_14& inputs_at,
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
    uint at_3 = (chunk_2 * 4u) + (in_chunk_1 << (2u - _e19));
    metal::float4 scale_3 = part_1.scales.scale;
    metal::float4 bias_3 = part_1.scales.bias;
    type_10 _e31 = across(part_1.a, part_1.b, part_1.c, part_1.d);
    words_5 = _e31;
    if (true) {
        type_10 _e37 = words_5;
        type_11 _e38 = of_bf16_(_e37);
        multiply(_e38, at_3, x_2, sums, inputs_at, _buffer_sizes);
        return;
    }
    uint _e40 = parts_shift();
    uint _e44 = p.inputs;
    uint end = at_3 + metal::min(4u >> _e40, _e44);
    eight = at_3;
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
                type_11 _e56 = of_affine4_(_e55, scale_3, bias_3);
                uint _e57 = eight;
                multiply(_e56, _e57, x_2, sums, inputs_at, _buffer_sizes);
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
                multiply(_e71, _e72, x_2, sums, inputs_at, _buffer_sizes);
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
    Part first_4,
    metal::uint4 output_4,
    uint lane_2,
    device type_5 const& codes,
    device type_6 const& scales,
    constant LinearParams& p,
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_14& inputs_at,
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
    next = first_4;
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
                Part _e36 = load_part(output_4, lane_2, _e33 + 1u, codes, scales, p, _buffer_sizes);
                next = _e36;
            }
            uint _e37 = step_2;
            multiply_part(part_3, lane_2, _e37, p, x_2, sums, inputs_at, _buffer_sizes);
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
        uint first_6 = thread_4 * EIGHT;
        uint _e11 = tile_rows;
        if (first_6 < (_e11 * THREADS)) {
            metal::float4 _e17 = partials.inner[first_6];
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
                    metal::float4 _e29 = partials.inner[first_6 + _e26];
                    part_2 = _e24 + _e29;
                }
            }
            metal::float4 _e36 = part_2;
            partials.inner[first_6] = _e36;
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        return;
    } else {
        return;
    }
}

metal::float4 total_of(
    uint row_3,
    uint slot_2,
    constant LinearParams& p,
    threadgroup type_12& partials
) {
    metal::float4 total_1 = {};
    uint lane_4 = {};
    uint _e5 = p.lanes_shift;
    uint lanes_1 = 1u << _e5;
    uint first_7 = (row_3 * THREADS) + (slot_2 * lanes_1);
    uint step_3 = (lanes_1 > EIGHT) ? EIGHT : 1u;
    metal::float4 _e18 = partials.inner[first_7];
    total_1 = _e18;
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
            metal::float4 _e23 = total_1;
            uint _e25 = lane_4;
            metal::float4 _e28 = partials.inner[first_7 + _e25];
            total_1 = _e23 + _e28;
        }
    }
    metal::float4 _e32 = total_1;
    return _e32;
}

void write_tile(
    uint thread_5,
    uint block,
    constant LinearParams& p,
    device type_6& out,
    device type_8 const& logits,
    thread uint& tile_rows,
    threadgroup type_12& partials,
    threadgroup type_13& rows_out,
    thread type_11& sums,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint unit_1 = {};
    share_lanes(thread_5, p, tile_rows, partials, sums);
    uint _e5 = p.lanes_shift;
    uint slots = THREADS >> _e5;
    unit_1 = thread_5;
    bool loop_init_4 = true;
    while(true) {
        if (!loop_init_4) {
            uint _e30 = unit_1;
            unit_1 = _e30 + THREADS;
        }
        loop_init_4 = false;
        uint _e8 = unit_1;
        uint _e10 = tile_rows;
        if (_e8 < (_e10 * slots)) {
        } else {
            break;
        }
        {
            uint _e13 = unit_1;
            uint slot_3 = _e13 & (slots - 1u);
            uint _e17 = unit_1;
            uint _e21 = p.lanes_shift;
            uint row_4 = _e17 >> (7u - _e21);
            uint _e26 = rows_out.inner[row_4];
            metal::float4 _e29 = total_of(row_4, slot_3, p, partials);
            write_sums(_e26, (block * slots) + slot_3, _e29, p, out, logits, _buffer_sizes);
        }
    }
    return;
}

void product(
    uint thread_6,
    uint block_1,
    uint first_row,
    device type_5 const& codes,
    device type_6 const& scales,
    constant LinearParams& p,
    device type_5 const& x_2,
    device type_6& out,
    device type_8 const& logits,
    thread uint& tile_rows,
    threadgroup type_12& partials,
    threadgroup type_13& rows_out,
    thread type_11& sums,
    thread type_14& inputs_at,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e6 = p.lanes_shift;
    uint slots_1 = THREADS >> _e6;
    uint _e9 = slot_of(thread_6, p);
    metal::uint4 _e11 = rows_of_slot((block_1 * slots_1) + _e9, p);
    metal::uint4 output_5 = _e11 + metal::uint4(first_row);
    uint _e14 = lane_of(thread_6, p);
    Part _e16 = load_part(output_5, _e14, 0u, codes, scales, p, _buffer_sizes);
    uint _e17 = lane_of(thread_6, p);
    sum_lane(_e16, output_5, _e17, codes, scales, p, x_2, sums, inputs_at, _buffer_sizes);
    write_tile(thread_6, block_1, p, out, logits, tile_rows, partials, rows_out, sums, _buffer_sizes);
    return;
}

struct expert_linearInput {
};
[[max_total_threads_per_threadgroup(128)]] kernel void expert_linear(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_5 const& codes [[buffer(1)]]
, device type_6 const& scales [[buffer(2)]]
, constant LinearParams& p [[buffer(0)]]
, device type_5 const& x_2 [[buffer(3)]]
, device type_6& out [[buffer(4)]]
, device type_8 const& logits [[buffer(5)]]
, device type_5 const& tiles [[buffer(6)]]
, device type_6 const& order [[buffer(7)]]
, threadgroup type_12& partials
, threadgroup type_13& rows_out
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint tile_rows = {};
    type_11 sums = {};
    type_14 inputs_at = {};
    bool local = {};
    metal::uint4 tile = tiles[workgroup.x];
    tile_rows = tile.z;
    uint _e11 = p.first_expert;
    uint expert = tile.x - _e11;
    uint _e14 = tile_rows;
    if (!((_e14 == 0u))) {
        uint _e22 = p.experts;
        local = expert >= _e22;
    } else {
        local = true;
    }
    bool _e25 = local;
    if (_e25) {
        return;
    }
    uint _e27 = tile_rows;
    if (thread_ < _e27) {
        uint _e35 = order[tile.y + thread_];
        rows_out.inner[thread_] = _e35;
    }
    metal::uint4 _e40 = there(FIRST_ROWS, tile_rows);
    metal::uint4 _e43 = inputs_of(metal::uint4(tile.y) + _e40, p, order, _buffer_sizes);
    inputs_at.inner[0] = _e43;
    metal::uint4 _e52 = there(metal::uint4(4u, 5u, 6u, 7u), tile_rows);
    metal::uint4 _e55 = inputs_of(metal::uint4(tile.y) + _e52, p, order, _buffer_sizes);
    inputs_at.inner[1] = _e55;
    uint _e59 = p.outputs;
    product(thread_, workgroup.y, expert * _e59, codes, scales, p, x_2, out, logits, tile_rows, partials, rows_out, sums, inputs_at, _buffer_sizes);
    return;
}
