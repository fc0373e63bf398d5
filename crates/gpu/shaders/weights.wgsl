// Weight matrices as they are stored: row after row, bf16 pairs or affine codes, with a word of scale and bias a group.
//
// A chunk is 32 inputs of an output: 16 words of bf16, 8 of 8-bit codes, 4 of 4-bit codes. It lies in one group.

// 0 bf16, 1 4-bit codes, 2 8-bit codes.
override FORMAT: u32 = 0u;

@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> scales: array<u32>;

// Scale and bias of a group; fp16 where the checkpoint has them so.
fn scale_and_bias(index: u32, half_scales: u32) -> vec2<f32> {
    let word = scales[index];
    if (half_scales != 0u) {
        return unpack2x16float(word);
    }
    return vec2<f32>(low(word), high(word));
}

// What a code means: bf16(scale * code + bias). The product is exact in fp32.
fn meaning(code: u32, scale: f32, bias: f32) -> f32 {
    let bits = bitcast<u32>(fma(scale, f32(code), bias));
    return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}

fn code_word(index: u32) -> u32 {
    return codes[index / 4u][index % 4u];
}

// Inputs 2 `pair` and 2 `pair` + 1 of an output, as a word of bf16: for copies of whole rows.
fn weight_pair(output: u32, pair: u32, inputs: u32, group_shift: u32, half_scales: u32) -> u32 {
    if (FORMAT == 0u) {
        return code_word(output * (inputs / 2u) + pair);
    }
    let chunks = inputs / 32u;
    let group = output * (chunks >> group_shift) + ((pair / 16u) >> group_shift);
    let scale = scale_and_bias(group, half_scales);
    var first: u32;
    var second: u32;
    if (FORMAT == 1u) {
        let word = code_word(output * (inputs / 8u) + pair / 4u) >> (pair % 4u * 8u);
        first = word & 15u;
        second = (word >> 4u) & 15u;
    } else {
        let word = code_word(output * (inputs / 4u) + pair / 2u) >> (pair % 2u * 16u);
        first = word & 255u;
        second = (word >> 8u) & 255u;
    }
    return narrow(meaning(first, scale.x, scale.y), meaning(second, scale.x, scale.y));
}
