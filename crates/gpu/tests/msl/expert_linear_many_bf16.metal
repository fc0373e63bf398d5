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
    metal::float4 inner[1024];
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
constant uint MANY_ROWS = 64u;
constant uint FOURS = 16u;
constant uint ROWS_AT = 512u;
constant uint FORMAT = 0u;

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

uint code_word(
    uint index_1,
    device type_5 const& codes,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = codes[index_1 / 4u][index_1 % 4u];
    return _e8;
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
    uint row_1,
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
        uint bias_row = (row_1 * _e15) + _e19;
        uint _e24 = p.out_width;
        uint _e28 = p.first_output;
        float _e32 = logits[((bias_row * _e24) + _e28) + output_1];
        value_2 = _e32 + sum;
    }
    uint _e37 = p.out_width;
    uint _e41 = p.first_output;
    float _e45 = value_2;
    out[((row_1 * _e37) + _e41) + output_1] = as_type<uint>(_e45);
    return;
}

void write_pair(
    uint row_2,
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
    uint word_1 = (((row_2 * _e10) + _e14) + output_2) / 2u;
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
    uint row_3,
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
            out[(row_3 * (_e24 / 2u)) + slot_1] = _e20;
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
            write_value(row_3, slot_1 * 4u, total.x, p, out, logits, _buffer_sizes);
            write_value(row_3, (slot_1 * 4u) + 1u, total.y, p, out, logits, _buffer_sizes);
            write_value(row_3, (slot_1 * 4u) + 2u, total.z, p, out, logits, _buffer_sizes);
            write_value(row_3, (slot_1 * 4u) + 3u, total.w, p, out, logits, _buffer_sizes);
            return;
        } else {
            write_pair(row_3, slot_1 * 4u, total.x, total.y, p, out, _buffer_sizes);
            write_pair(row_3, (slot_1 * 4u) + 2u, total.z, total.w, p, out, _buffer_sizes);
            return;
        }
    }
}

bool fetches_rows(
    uint thread_1
) {
    return thread_1 < 64u;
}

uint eight_of(
    uint thread_2
) {
    return (thread_2 % 64u) / FOURS;
}

void fetch(
    uint thread_3,
    uint chunk_1,
    device type_5 const& codes,
    device type_6 const& scales,
    constant LinearParams& p,
    device type_5 const& x_2,
    thread type_10& fetched,
    thread Scales& fetched_scales,
    thread metal::uint4& starts,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e2 = eight_of(thread_3);
    bool _e3 = fetches_rows(thread_3);
    if (_e3) {
        metal::uint4 _e5 = starts;
        metal::uint4 at_2 = _e5 + metal::uint4((chunk_1 * 4u) + _e2);
        metal::uint4 _e15 = x_2[at_2.x];
        metal::uint4 _e19 = x_2[at_2.y];
        metal::uint4 _e23 = x_2[at_2.z];
        metal::uint4 _e27 = x_2[at_2.w];
        type_10 _e28 = across(_e15, _e19, _e23, _e27);
        fetched = _e28;
        return;
    }
    uint _e31 = p.inputs;
    uint chunks = _e31 / 32u;
    metal::uint4 _e35 = starts;
    metal::uint4 at_3 = (((_e35 * metal::uint4(chunks)) + metal::uint4(chunk_1)) * metal::uint4(4u)) + metal::uint4(_e2);
    if (true) {
        metal::uint4 _e53 = codes[at_3.x];
        metal::uint4 _e57 = codes[at_3.y];
        metal::uint4 _e61 = codes[at_3.z];
        metal::uint4 _e65 = codes[at_3.w];
        type_10 _e66 = across(_e53, _e57, _e61, _e65);
        fetched = _e66;
        return;
    }
    if (false) {
        uint _e74 = code_word(at_3.x, codes, _buffer_sizes);
        uint _e76 = code_word(at_3.y, codes, _buffer_sizes);
        uint _e78 = code_word(at_3.z, codes, _buffer_sizes);
        uint _e80 = code_word(at_3.w, codes, _buffer_sizes);
        fetched.inner[0] = metal::uint4(_e74, _e76, _e78, _e80);
    } else {
        metal::uint4 first_4 = at_3 * metal::uint4(2u);
        metal::uint4 second_4 = first_4 + metal::uint4(1u);
        uint _e91 = code_word(first_4.x, codes, _buffer_sizes);
        uint _e93 = code_word(first_4.y, codes, _buffer_sizes);
        uint _e95 = code_word(first_4.z, codes, _buffer_sizes);
        uint _e97 = code_word(first_4.w, codes, _buffer_sizes);
        fetched.inner[0] = metal::uint4(_e91, _e93, _e95, _e97);
        uint _e102 = code_word(second_4.x, codes, _buffer_sizes);
        uint _e104 = code_word(second_4.y, codes, _buffer_sizes);
        uint _e106 = code_word(second_4.z, codes, _buffer_sizes);
        uint _e108 = code_word(second_4.w, codes, _buffer_sizes);
        fetched.inner[1] = metal::uint4(_e102, _e104, _e106, _e108);
    }
    metal::uint4 _e112 = starts;
    Scales _e113 = scales_of(_e112, chunk_1, scales, p, _buffer_sizes);
    fetched_scales = _e113;
    return;
}

void share_fetched(
    uint thread_4,
    threadgroup type_12& values,
    thread type_10& fetched,
    thread Scales& fetched_scales
) {
    uint at_1 = {};
    type_11 eight = {};
    uint _e1 = eight_of(thread_4);
    at_1 = ((_e1 * 8u) * FOURS) + (thread_4 % FOURS);
    bool _e11 = fetches_rows(thread_4);
    if (_e11) {
        uint _e12 = at_1;
        at_1 = _e12 + ROWS_AT;
        type_10 _e16 = fetched;
        type_11 _e17 = of_bf16_(_e16);
        eight = _e17;
    } else {
        if (true) {
            type_10 _e23 = fetched;
            type_11 _e24 = of_bf16_(_e23);
            eight = _e24;
        } else {
            if (false) {
                metal::uint4 _e31 = fetched.inner[0];
                metal::float4 _e34 = fetched_scales.scale;
                metal::float4 _e37 = fetched_scales.bias;
                type_11 _e38 = of_affine4_(_e31, _e34, _e37);
                eight = _e38;
            } else {
                metal::uint4 _e41 = fetched.inner[0];
                metal::uint4 _e44 = fetched.inner[1];
                metal::float4 _e47 = fetched_scales.scale;
                metal::float4 _e50 = fetched_scales.bias;
                type_11 _e51 = of_affine8_(_e41, _e44, _e47, _e50);
                eight = _e51;
            }
        }
    }
    uint _e53 = at_1;
    metal::float4 _e56 = eight.inner[0];
    values.inner[_e53] = _e56;
    uint _e58 = at_1;
    metal::float4 _e63 = eight.inner[1];
    values.inner[_e58 + FOURS] = _e63;
    uint _e65 = at_1;
    metal::float4 _e70 = eight.inner[2];
    values.inner[_e65 + 32u] = _e70;
    uint _e72 = at_1;
    metal::float4 _e77 = eight.inner[3];
    values.inner[_e72 + 48u] = _e77;
    uint _e79 = at_1;
    metal::float4 _e84 = eight.inner[4];
    values.inner[_e79 + 64u] = _e84;
    uint _e86 = at_1;
    metal::float4 _e91 = eight.inner[5];
    values.inner[_e86 + 80u] = _e91;
    uint _e93 = at_1;
    metal::float4 _e98 = eight.inner[6];
    values.inner[_e93 + 96u] = _e98;
    uint _e100 = at_1;
    metal::float4 _e105 = eight.inner[7];
    values.inner[_e100 + 112u] = _e105;
    return;
}

metal::float4x4 with_input(
    metal::float4x4 sums,
    metal::float4 weights,
    metal::float4 rows_1
) {
    return metal::float4x4(metal::fma(weights, metal::float4(rows_1.x), sums[0]), metal::fma(weights, metal::float4(rows_1.y), sums[1]), metal::fma(weights, metal::float4(rows_1.z), sums[2]), metal::fma(weights, metal::float4(rows_1.w), sums[3]));
}

void multiply_chunk(
    uint thread_5,
    thread uint& tile_rows,
    threadgroup type_12& values,
    thread metal::float4x4& near_chain,
    thread metal::float4x4& far_chain
) {
    uint input = 0u;
    uint output_3 = thread_5 % FOURS;
    uint row_4 = ROWS_AT + (thread_5 / FOURS);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e48 = input;
            input = _e48 + 1u;
        }
        loop_init = false;
        uint _e9 = input;
        if (_e9 < 32u) {
        } else {
            break;
        }
        {
            uint _e13 = input;
            metal::float4 weights_1 = values.inner[(_e13 * FOURS) + output_3];
            metal::float4x4 _e21 = near_chain;
            uint _e23 = input;
            metal::float4 _e28 = values.inner[(_e23 * FOURS) + row_4];
            metal::float4x4 _e29 = with_input(_e21, weights_1, _e28);
            near_chain = _e29;
            uint _e31 = tile_rows;
            if (_e31 > 32u) {
                metal::float4x4 _e36 = far_chain;
                uint _e38 = input;
                metal::float4 _e45 = values.inner[((_e38 * FOURS) + row_4) + 8u];
                metal::float4x4 _e46 = with_input(_e36, weights_1, _e45);
                far_chain = _e46;
            }
        }
    }
    return;
}

void add_lane(
    uint lane,
    uint lanes,
    thread metal::float4x4& near_chain,
    thread metal::float4x4& far_chain,
    thread metal::float4x4& near_part,
    thread metal::float4x4& far_part,
    thread metal::float4x4& near_total,
    thread metal::float4x4& far_total
) {
    if ((lane % EIGHT) == 0u) {
        metal::float4x4 _e8 = near_chain;
        near_part = _e8;
        metal::float4x4 _e11 = far_chain;
        far_part = _e11;
    } else {
        metal::float4x4 _e14 = near_part;
        metal::float4x4 _e16 = near_chain;
        near_part = _e14 + _e16;
        metal::float4x4 _e20 = far_part;
        metal::float4x4 _e22 = far_chain;
        far_part = _e20 + _e22;
    }
    if ((lane + 1u) == metal::min(lanes, EIGHT)) {
        metal::float4x4 _e31 = near_part;
        near_total = _e31;
        metal::float4x4 _e34 = far_part;
        far_total = _e34;
        return;
    } else {
        if ((lane % EIGHT) == 7u) {
            metal::float4x4 _e41 = near_total;
            metal::float4x4 _e43 = near_part;
            near_total = _e41 + _e43;
            metal::float4x4 _e47 = far_total;
            metal::float4x4 _e49 = far_part;
            far_total = _e47 + _e49;
            return;
        } else {
            return;
        }
    }
}

void many_product(
    uint thread_6,
    uint block,
    uint first_row,
    metal::uint4 rows_2,
    device type_5 const& codes,
    device type_6 const& scales,
    constant LinearParams& p,
    device type_5 const& x_2,
    thread uint& tile_rows,
    threadgroup type_12& values,
    thread metal::float4x4& near_chain,
    thread metal::float4x4& far_chain,
    thread metal::float4x4& near_part,
    thread metal::float4x4& far_part,
    thread metal::float4x4& near_total,
    thread metal::float4x4& far_total,
    thread type_10& fetched,
    thread Scales& fetched_scales,
    thread metal::uint4& starts,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint lane_1 = 0u;
    uint chunk_2 = {};
    starts = rows_2;
    bool _e5 = fetches_rows(thread_6);
    if (!(_e5)) {
        metal::uint4 _e13 = rows_of_slot((block * FOURS) + (thread_6 % FOURS), p);
        starts = _e13 + metal::uint4(first_row);
    }
    uint _e19 = p.lanes_shift;
    uint lanes_1 = 1u << _e19;
    uint _e23 = p.inputs;
    uint chunks_1 = _e23 / 32u;
    fetch(thread_6, 0u, codes, scales, p, x_2, fetched, fetched_scales, starts, _buffer_sizes);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e55 = lane_1;
            lane_1 = _e55 + 1u;
        }
        loop_init_1 = false;
        uint _e29 = lane_1;
        if (_e29 < lanes_1) {
        } else {
            break;
        }
        {
            near_chain = metal::float4x4 {};
            far_chain = metal::float4x4 {};
            uint _e35 = lane_1;
            chunk_2 = _e35;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e51 = chunk_2;
                    chunk_2 = _e51 + lanes_1;
                }
                loop_init_2 = false;
                uint _e37 = chunk_2;
                if (_e37 < chunks_1) {
                } else {
                    break;
                }
                {
                    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
                    share_fetched(thread_6, values, fetched, fetched_scales);
                    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
                    uint _e39 = lane_1;
                    uint _e42 = chunk_2;
                    uint _e44 = chunk_2;
                    fetch(thread_6, metal::min(((_e44 + lanes_1) < chunks_1) ? (_e42 + lanes_1) : (_e39 + 1u), chunks_1 - 1u), codes, scales, p, x_2, fetched, fetched_scales, starts, _buffer_sizes);
                    multiply_chunk(thread_6, tile_rows, values, near_chain, far_chain);
                }
            }
            uint _e53 = lane_1;
            add_lane(_e53, lanes_1, near_chain, far_chain, near_part, far_part, near_total, far_total);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint at_4 = (((thread_6 / FOURS) * 4u) * FOURS) + (thread_6 % FOURS);
    metal::float4 _e70 = near_total[0];
    values.inner[at_4] = _e70;
    metal::float4 _e77 = near_total[1];
    values.inner[at_4 + FOURS] = _e77;
    metal::float4 _e84 = near_total[2];
    values.inner[at_4 + 32u] = _e84;
    metal::float4 _e91 = near_total[3];
    values.inner[at_4 + 48u] = _e91;
    metal::float4 _e98 = far_total[0];
    values.inner[at_4 + 512u] = _e98;
    metal::float4 _e105 = far_total[1];
    values.inner[at_4 + 528u] = _e105;
    metal::float4 _e112 = far_total[2];
    values.inner[at_4 + 544u] = _e112;
    metal::float4 _e119 = far_total[3];
    values.inner[at_4 + 560u] = _e119;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

struct expert_linear_manyInput {
};
[[max_total_threads_per_threadgroup(128)]] kernel void expert_linear_many(
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
, threadgroup type_12& values
, constant _mslBufferSizes& _buffer_sizes [[buffer(8)]]
) {
    uint tile_rows = {};
    metal::float4x4 near_chain = {};
    metal::float4x4 far_chain = {};
    metal::float4x4 near_part = {};
    metal::float4x4 far_part = {};
    metal::float4x4 near_total = {};
    metal::float4x4 far_total = {};
    type_10 fetched = {};
    Scales fetched_scales = {};
    metal::uint4 starts = {};
    bool local = {};
    uint row = {};
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
    metal::uint4 _e34 = there(metal::uint4((thread_ % FOURS) * 4u) + FIRST_ROWS, tile_rows);
    metal::uint4 rows_3 = metal::uint4(tile.y) + _e34;
    uint _e40 = p.outputs;
    metal::uint4 _e42 = inputs_of(rows_3, p, order, _buffer_sizes);
    many_product(thread_, workgroup.y, expert * _e40, _e42, codes, scales, p, x_2, tile_rows, values, near_chain, far_chain, near_part, far_part, near_total, far_total, fetched, fetched_scales, starts, _buffer_sizes);
    row = thread_ / FOURS;
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e69 = row;
            row = _e69 + 8u;
        }
        loop_init_3 = false;
        uint _e46 = row;
        uint _e48 = tile_rows;
        if (_e46 < _e48) {
        } else {
            break;
        }
        {
            uint output_4 = thread_ % FOURS;
            uint _e54 = row;
            uint _e57 = order[tile.y + _e54];
            uint _e63 = row;
            metal::float4 _e68 = values.inner[(_e63 * FOURS) + output_4];
            write_sums(_e57, (workgroup.y * FOURS) + output_4, _e68, p, out, logits, _buffer_sizes);
        }
    }
    return;
}
