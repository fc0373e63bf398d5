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
};
typedef float type_8[1];
struct type_10 {
    metal::float4 inner[1024];
};
struct type_11 {
    metal::float4 inner[8];
};
struct type_12 {
    uint inner[8];
};
struct type_13 {
    metal::uint4 inner[4];
};
constant int NO_LANE = -1;
constant uint PAGE = 256u;
constant uint CONV_RING = 64u;
constant float LOWEST = -300000000000000000000000000000000000000.0;
constant uint THREADS = 128u;
constant uint TILE = 8u;
constant uint EIGHT = 8u;
constant uint WRITE_BF16_ = 0u;
constant uint WRITE_ADD = 1u;
constant uint WRITE_F32_ = 2u;
constant uint WRITE_BIAS = 3u;
constant uint WRITE_GATED = 4u;
constant uint FORMAT = 2u;

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
    float exponent = metal::floor((bounded * 1.442695) + 0.5);
    float r = metal::fma(exponent, -0.0000014286068, metal::fma(exponent, -0.69314575, bounded));
    series = metal::fma(0.0001984127, r, 0.0013888889);
    float _e17 = series;
    series = metal::fma(_e17, r, 0.008333334);
    float _e20 = series;
    series = metal::fma(_e20, r, 0.041666668);
    float _e23 = series;
    series = metal::fma(_e23, r, 0.16666667);
    float _e26 = series;
    series = metal::fma(_e26, r, 0.5);
    float _e29 = series;
    float mantissa = 1.0 + metal::fma(_e29, r * r, r);
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

void multiply(
    type_11 weights,
    uint at,
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_12& inputs_at,
    thread uint& tile_rows,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint row_1 = 0u;
    metal::float4 sum = {};
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e76 = row_1;
            row_1 = _e76 + 1u;
        }
        loop_init = false;
        uint _e4 = row_1;
        if (_e4 < TILE) {
        } else {
            break;
        }
        {
            uint _e7 = row_1;
            uint _e9 = tile_rows;
            if (_e7 < _e9) {
                uint _e13 = row_1;
                uint _e15 = inputs_at.inner[_e13];
                metal::uint4 pairs = x_2[_e15 + at];
                uint _e20 = row_1;
                metal::float4 _e22 = sums.inner[_e20];
                sum = _e22;
                float _e26 = low(pairs.x);
                metal::float4 _e28 = sum;
                sum = metal::fma(weights.inner[0], metal::float4(_e26), _e28);
                float _e32 = high(pairs.x);
                metal::float4 _e34 = sum;
                sum = metal::fma(weights.inner[1], metal::float4(_e32), _e34);
                float _e38 = low(pairs.y);
                metal::float4 _e40 = sum;
                sum = metal::fma(weights.inner[2], metal::float4(_e38), _e40);
                float _e44 = high(pairs.y);
                metal::float4 _e46 = sum;
                sum = metal::fma(weights.inner[3], metal::float4(_e44), _e46);
                float _e50 = low(pairs.z);
                metal::float4 _e52 = sum;
                sum = metal::fma(weights.inner[4], metal::float4(_e50), _e52);
                float _e56 = high(pairs.z);
                metal::float4 _e58 = sum;
                sum = metal::fma(weights.inner[5], metal::float4(_e56), _e58);
                float _e62 = low(pairs.w);
                metal::float4 _e64 = sum;
                sum = metal::fma(weights.inner[6], metal::float4(_e62), _e64);
                uint _e67 = row_1;
                float _e71 = high(pairs.w);
                metal::float4 _e73 = sum;
                sums.inner[_e67] = metal::fma(weights.inner[7], metal::float4(_e71), _e73);
            }
        }
    }
    return;
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
    metal::uint4 codes,
    metal::float4 scale,
    metal::float4 bias
) {
    metal::uint4 bits_1 = as_type<metal::uint4>(metal::fma(scale, static_cast<metal::float4>(codes), bias));
    metal::uint4 nearest_1 = (bits_1 + metal::uint4(32767u)) + ((bits_1 >> metal::uint4(16u)) & metal::uint4(1u));
    return as_type<metal::float4>(nearest_1 & metal::uint4(4294901760u));
}

void multiply_bf16_(
    metal::uint4 a,
    metal::uint4 b,
    metal::uint4 c,
    metal::uint4 d,
    uint at_1,
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_12& inputs_at,
    thread uint& tile_rows,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_13 words_3 = type_13 {{metal::uint4(a.x, b.x, c.x, d.x), metal::uint4(a.y, b.y, c.y, d.y), metal::uint4(a.z, b.z, c.z, d.z), metal::uint4(a.w, b.w, c.w, d.w)}};
    metal::float4 _e27 = low4_(words_3.inner[0]);
    metal::float4 _e29 = high4_(words_3.inner[0]);
    metal::float4 _e31 = low4_(words_3.inner[1]);
    metal::float4 _e33 = high4_(words_3.inner[1]);
    metal::float4 _e35 = low4_(words_3.inner[2]);
    metal::float4 _e37 = high4_(words_3.inner[2]);
    metal::float4 _e39 = low4_(words_3.inner[3]);
    metal::float4 _e41 = high4_(words_3.inner[3]);
    multiply(type_11 {{_e27, _e29, _e31, _e33, _e35, _e37, _e39, _e41}}, at_1, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
    return;
}

void multiply_affine4_(
    metal::uint4 words_2,
    metal::float4 scale_1,
    metal::float4 bias_1,
    uint at_2,
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_12& inputs_at,
    thread uint& tile_rows,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 mask = metal::uint4(15u);
    metal::float4 _e7 = meaning4_(words_2 & mask, scale_1, bias_1);
    metal::float4 _e12 = meaning4_((words_2 >> metal::uint4(4u)) & mask, scale_1, bias_1);
    metal::float4 _e17 = meaning4_((words_2 >> metal::uint4(8u)) & mask, scale_1, bias_1);
    metal::float4 _e22 = meaning4_((words_2 >> metal::uint4(12u)) & mask, scale_1, bias_1);
    metal::float4 _e27 = meaning4_((words_2 >> metal::uint4(16u)) & mask, scale_1, bias_1);
    metal::float4 _e32 = meaning4_((words_2 >> metal::uint4(20u)) & mask, scale_1, bias_1);
    metal::float4 _e37 = meaning4_((words_2 >> metal::uint4(24u)) & mask, scale_1, bias_1);
    metal::float4 _e41 = meaning4_(words_2 >> metal::uint4(28u), scale_1, bias_1);
    multiply(type_11 {{_e7, _e12, _e17, _e22, _e27, _e32, _e37, _e41}}, at_2, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
    return;
}

void multiply_affine8_(
    metal::uint4 first_2,
    metal::uint4 second_2,
    metal::float4 scale_2,
    metal::float4 bias_2,
    uint at_3,
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_12& inputs_at,
    thread uint& tile_rows,
    constant _mslBufferSizes& _buffer_sizes
) {
    metal::uint4 mask_1 = metal::uint4(255u);
    metal::float4 _e8 = meaning4_(first_2 & mask_1, scale_2, bias_2);
    metal::float4 _e13 = meaning4_((first_2 >> metal::uint4(8u)) & mask_1, scale_2, bias_2);
    metal::float4 _e18 = meaning4_((first_2 >> metal::uint4(16u)) & mask_1, scale_2, bias_2);
    metal::float4 _e22 = meaning4_(first_2 >> metal::uint4(24u), scale_2, bias_2);
    metal::float4 _e24 = meaning4_(second_2 & mask_1, scale_2, bias_2);
    metal::float4 _e29 = meaning4_((second_2 >> metal::uint4(8u)) & mask_1, scale_2, bias_2);
    metal::float4 _e34 = meaning4_((second_2 >> metal::uint4(16u)) & mask_1, scale_2, bias_2);
    metal::float4 _e38 = meaning4_(second_2 >> metal::uint4(24u), scale_2, bias_2);
    multiply(type_11 {{_e8, _e13, _e18, _e22, _e24, _e29, _e34, _e38}}, at_3, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
    return;
}

void multiply_chunk(
    metal::uint4 output,
    uint chunk,
    device type_5 const& codes_1,
    device type_6 const& scales,
    constant LinearParams& p,
    device type_5 const& x_2,
    thread type_11& sums,
    thread type_12& inputs_at,
    thread uint& tile_rows,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint half_ = 0u;
    uint _e4 = p.inputs;
    uint chunks = _e4 / 32u;
    uint at_4 = chunk * 4u;
    if (false) {
        metal::uint4 first_4 = (output * metal::uint4(chunks * 4u)) + metal::uint4(at_4);
        metal::uint4 _e22 = codes_1[first_4.x];
        metal::uint4 _e26 = codes_1[first_4.y];
        metal::uint4 _e30 = codes_1[first_4.z];
        metal::uint4 _e34 = codes_1[first_4.w];
        multiply_bf16_(_e22, _e26, _e30, _e34, at_4, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        metal::uint4 _e40 = codes_1[first_4.x + 1u];
        metal::uint4 _e46 = codes_1[first_4.y + 1u];
        metal::uint4 _e52 = codes_1[first_4.z + 1u];
        metal::uint4 _e58 = codes_1[first_4.w + 1u];
        multiply_bf16_(_e40, _e46, _e52, _e58, at_4 + 1u, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        metal::uint4 _e66 = codes_1[first_4.x + 2u];
        metal::uint4 _e72 = codes_1[first_4.y + 2u];
        metal::uint4 _e78 = codes_1[first_4.z + 2u];
        metal::uint4 _e84 = codes_1[first_4.w + 2u];
        multiply_bf16_(_e66, _e72, _e78, _e84, at_4 + 2u, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        metal::uint4 _e92 = codes_1[first_4.x + 3u];
        metal::uint4 _e98 = codes_1[first_4.y + 3u];
        metal::uint4 _e104 = codes_1[first_4.z + 3u];
        metal::uint4 _e110 = codes_1[first_4.w + 3u];
        multiply_bf16_(_e92, _e98, _e104, _e110, at_4 + 3u, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        return;
    }
    uint _e115 = p.group_shift;
    uint _e121 = p.group_shift;
    metal::uint4 group = (output * metal::uint4(chunks >> _e115)) + metal::uint4(chunk >> _e121);
    uint _e128 = p.half_scales;
    metal::float2 _e129 = scale_and_bias(group.x, _e128, scales, _buffer_sizes);
    uint _e133 = p.half_scales;
    metal::float2 _e134 = scale_and_bias(group.y, _e133, scales, _buffer_sizes);
    uint _e138 = p.half_scales;
    metal::float2 _e139 = scale_and_bias(group.z, _e138, scales, _buffer_sizes);
    uint _e143 = p.half_scales;
    metal::float2 _e144 = scale_and_bias(group.w, _e143, scales, _buffer_sizes);
    metal::float4 scale_3 = metal::float4(_e129.x, _e134.x, _e139.x, _e144.x);
    metal::float4 bias_3 = metal::float4(_e129.y, _e134.y, _e139.y, _e144.y);
    if (false) {
        metal::uint4 first_5 = (output * metal::uint4(chunks)) + metal::uint4(chunk);
        metal::uint4 a_1 = codes_1[first_5.x];
        metal::uint4 b_1 = codes_1[first_5.y];
        metal::uint4 c_1 = codes_1[first_5.z];
        metal::uint4 d_1 = codes_1[first_5.w];
        multiply_affine4_(metal::uint4(a_1.x, b_1.x, c_1.x, d_1.x), scale_3, bias_3, at_4, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        multiply_affine4_(metal::uint4(a_1.y, b_1.y, c_1.y, d_1.y), scale_3, bias_3, at_4 + 1u, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        multiply_affine4_(metal::uint4(a_1.z, b_1.z, c_1.z, d_1.z), scale_3, bias_3, at_4 + 2u, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        multiply_affine4_(metal::uint4(a_1.w, b_1.w, c_1.w, d_1.w), scale_3, bias_3, at_4 + 3u, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        return;
    }
    metal::uint4 first_6 = (output * metal::uint4(chunks * 2u)) + metal::uint4(chunk * 2u);
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e269 = half_;
            half_ = _e269 + 1u;
        }
        loop_init_1 = false;
        uint _e215 = half_;
        if (_e215 < 2u) {
        } else {
            break;
        }
        {
            uint _e220 = half_;
            metal::uint4 a_2 = codes_1[first_6.x + _e220];
            uint _e226 = half_;
            metal::uint4 b_2 = codes_1[first_6.y + _e226];
            uint _e232 = half_;
            metal::uint4 c_2 = codes_1[first_6.z + _e232];
            uint _e238 = half_;
            metal::uint4 d_2 = codes_1[first_6.w + _e238];
            uint _e243 = half_;
            uint here = at_4 + (2u * _e243);
            multiply_affine8_(metal::uint4(a_2.x, b_2.x, c_2.x, d_2.x), metal::uint4(a_2.y, b_2.y, c_2.y, d_2.y), scale_3, bias_3, here, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
            multiply_affine8_(metal::uint4(a_2.z, b_2.z, c_2.z, d_2.z), metal::uint4(a_2.w, b_2.w, c_2.w, d_2.w), scale_3, bias_3, here + 1u, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        }
    }
    return;
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
    uint row_2,
    uint output_1,
    float sum_1,
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
    value_2 = sum_1;
    uint _e10 = p.write;
    if (_e10 == WRITE_BIAS) {
        uint _e15 = p.bias_rows;
        uint _e19 = p.bias_row;
        uint bias_row = (row_2 * _e15) + _e19;
        uint _e24 = p.out_width;
        uint _e28 = p.first_output;
        float _e32 = logits[((bias_row * _e24) + _e28) + output_1];
        value_2 = _e32 + sum_1;
    }
    uint _e37 = p.out_width;
    uint _e41 = p.first_output;
    float _e45 = value_2;
    out[((row_2 * _e37) + _e41) + output_1] = as_type<uint>(_e45);
    return;
}

void write_pair(
    uint row_3,
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
    uint word_1 = (((row_3 * _e10) + _e14) + output_2) / 2u;
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
    uint row_4,
    uint slot_1,
    metal::float4 total,
    constant LinearParams& p,
    device type_6& out,
    device type_8 const& logits,
    constant _mslBufferSizes& _buffer_sizes
) {
    bool local = {};
    uint _e5 = p.write;
    if (_e5 == WRITE_GATED) {
        uint _e12 = p.gated_width;
        if ((slot_1 * 2u) < _e12) {
            uint _e16 = narrow(total.x, total.y);
            uint _e19 = narrow(total.z, total.w);
            uint _e20 = activated(_e16, _e19);
            uint _e24 = p.out_width;
            out[(row_4 * (_e24 / 2u)) + slot_1] = _e20;
            return;
        } else {
            return;
        }
    } else {
        uint _e32 = p.write;
        if (!((_e32 == WRITE_F32_))) {
            uint _e40 = p.write;
            local = _e40 == WRITE_BIAS;
        } else {
            local = true;
        }
        bool _e44 = local;
        if (_e44) {
            write_value(row_4, slot_1 * 4u, total.x, p, out, logits, _buffer_sizes);
            write_value(row_4, (slot_1 * 4u) + 1u, total.y, p, out, logits, _buffer_sizes);
            write_value(row_4, (slot_1 * 4u) + 2u, total.z, p, out, logits, _buffer_sizes);
            write_value(row_4, (slot_1 * 4u) + 3u, total.w, p, out, logits, _buffer_sizes);
            return;
        } else {
            write_pair(row_4, slot_1 * 4u, total.x, total.y, p, out, _buffer_sizes);
            write_pair(row_4, (slot_1 * 4u) + 2u, total.z, total.w, p, out, _buffer_sizes);
            return;
        }
    }
}

void product(
    uint thread_1,
    uint block,
    uint first_row,
    device type_5 const& codes_1,
    device type_6 const& scales,
    constant LinearParams& p,
    device type_5 const& x_2,
    device type_6& out,
    device type_8 const& logits,
    threadgroup type_10& partials,
    thread type_11& sums,
    thread type_12& inputs_at,
    thread type_12& rows_out,
    thread uint& tile_rows,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint chunk_1 = {};
    uint row_5 = 0u;
    uint step = 1u;
    metal::float4 part = {};
    uint lane = 1u;
    uint unit = {};
    metal::float4 total_1 = {};
    uint lane_1 = {};
    uint _e6 = p.lanes_shift;
    uint lanes = 1u << _e6;
    uint _e11 = p.lanes_shift;
    uint slots = THREADS >> _e11;
    uint _e16 = p.lanes_shift;
    metal::uint4 _e19 = rows_of_slot((block * slots) + (thread_1 >> _e16), p);
    metal::uint4 output_3 = _e19 + metal::uint4(first_row);
    chunk_1 = thread_1 & (lanes - 1u);
    bool loop_init_2 = true;
    while(true) {
        if (!loop_init_2) {
            uint _e34 = chunk_1;
            chunk_1 = _e34 + lanes;
        }
        loop_init_2 = false;
        uint _e26 = chunk_1;
        uint _e29 = p.inputs;
        if (_e26 < (_e29 / 32u)) {
        } else {
            break;
        }
        {
            uint _e33 = chunk_1;
            multiply_chunk(output_3, _e33, codes_1, scales, p, x_2, sums, inputs_at, tile_rows, _buffer_sizes);
        }
    }
    bool loop_init_3 = true;
    while(true) {
        if (!loop_init_3) {
            uint _e56 = row_5;
            row_5 = _e56 + 1u;
        }
        loop_init_3 = false;
        uint _e38 = row_5;
        if (_e38 < TILE) {
        } else {
            break;
        }
        {
            uint _e41 = row_5;
            uint _e43 = tile_rows;
            if (_e41 < _e43) {
                uint _e46 = row_5;
                uint _e52 = row_5;
                metal::float4 _e54 = sums.inner[_e52];
                partials.inner[(_e46 * THREADS) + thread_1] = _e54;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (lanes > EIGHT) {
        step = EIGHT;
        uint first_7 = thread_1 * EIGHT;
        uint _e66 = tile_rows;
        if (first_7 < (_e66 * THREADS)) {
            metal::float4 _e72 = partials.inner[first_7];
            part = _e72;
            bool loop_init_4 = true;
            while(true) {
                if (!loop_init_4) {
                    uint _e87 = lane;
                    lane = _e87 + 1u;
                }
                loop_init_4 = false;
                uint _e76 = lane;
                if (_e76 < EIGHT) {
                } else {
                    break;
                }
                {
                    metal::float4 _e79 = part;
                    uint _e81 = lane;
                    metal::float4 _e84 = partials.inner[first_7 + _e81];
                    part = _e79 + _e84;
                }
            }
            metal::float4 _e91 = part;
            partials.inner[first_7] = _e91;
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
    unit = thread_1;
    bool loop_init_5 = true;
    while(true) {
        if (!loop_init_5) {
            uint _e137 = unit;
            unit = _e137 + THREADS;
        }
        loop_init_5 = false;
        uint _e93 = unit;
        uint _e95 = tile_rows;
        if (_e93 < (_e95 * slots)) {
        } else {
            break;
        }
        {
            uint _e98 = unit;
            uint slot_2 = _e98 & (slots - 1u);
            uint _e102 = unit;
            uint _e106 = p.lanes_shift;
            uint row_6 = _e102 >> (7u - _e106);
            uint first_8 = (row_6 * THREADS) + (slot_2 * lanes);
            metal::float4 _e115 = partials.inner[first_8];
            total_1 = _e115;
            uint _e117 = step;
            lane_1 = _e117;
            bool loop_init_6 = true;
            while(true) {
                if (!loop_init_6) {
                    uint _e128 = lane_1;
                    uint _e129 = step;
                    lane_1 = _e128 + _e129;
                }
                loop_init_6 = false;
                uint _e119 = lane_1;
                if (_e119 < lanes) {
                } else {
                    break;
                }
                {
                    metal::float4 _e121 = total_1;
                    uint _e123 = lane_1;
                    metal::float4 _e126 = partials.inner[first_8 + _e123];
                    total_1 = _e121 + _e126;
                }
            }
            uint _e133 = rows_out.inner[row_6];
            metal::float4 _e136 = total_1;
            write_sums(_e133, (block * slots) + slot_2, _e136, p, out, logits, _buffer_sizes);
        }
    }
    return;
}

struct linearInput {
};
[[max_total_threads_per_threadgroup(128)]] kernel void linear(
  metal::uint3 workgroup [[threadgroup_position_in_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_5 const& codes_1 [[buffer(1)]]
, device type_6 const& scales [[buffer(2)]]
, constant LinearParams& p [[buffer(0)]]
, device type_5 const& x_2 [[buffer(3)]]
, device type_6& out [[buffer(4)]]
, device type_8 const& logits [[buffer(5)]]
, threadgroup type_10& partials
, constant _mslBufferSizes& _buffer_sizes [[buffer(6)]]
) {
    type_11 sums = {};
    type_12 inputs_at = {};
    type_12 rows_out = {};
    uint tile_rows = {};
    uint row = 0u;
    uint first_9 = workgroup.x * TILE;
    uint _e9 = p.rows;
    tile_rows = metal::min(TILE, _e9 - first_9);
    bool loop_init_7 = true;
    while(true) {
        if (!loop_init_7) {
            uint _e38 = row;
            row = _e38 + 1u;
        }
        loop_init_7 = false;
        uint _e14 = row;
        if (_e14 < TILE) {
        } else {
            break;
        }
        {
            uint _e18 = row;
            uint _e20 = row;
            rows_out.inner[_e18] = first_9 + _e20;
            uint _e23 = row;
            uint _e25 = row;
            uint _e29 = p.inputs;
            inputs_at.inner[_e23] = (first_9 + _e25) * (_e29 / 8u);
            uint _e34 = row;
            sums.inner[_e34] = metal::float4 {};
        }
    }
    product(thread_, workgroup.y, 0u, codes_1, scales, p, x_2, out, logits, partials, sums, inputs_at, rows_out, tile_rows, _buffer_sizes);
    return;
}
