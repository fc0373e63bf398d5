// Root-mean-square norms, alone or on the way into a product. Rows are at most 2,048 wide: a chunk of 256 a warp, 8 values
// a lane. Squares are added lane by lane, in pairs of lanes, then chunk by chunk.

const i32 WARPS = 8;

// A norm that a product's kernel does on the way: its rows are those of `raw`, normed. One block also writes them to
// `out`. Null where there is nothing to be normed.
struct NormFirst {
    const u16* raw;
    const u16* weight;
    u16* out;
    float epsilon;
    float inverse_width;
};

// The sum of squares of a chunk, in all lanes.
DEVICE float squares_of(const uint4& x) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 pair = word_of(x, i);
        sum += low(pair) * low(pair);
        sum += high(pair) * high(pair);
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(ALL, sum, step);
    return sum;
}

// The factor of a row whose chunks have these sums; those past its end are 0.
DEVICE float norm_factor(const float (&sums)[WARPS], float inverse_width, float epsilon) {
    float total = 0;
#pragma unroll
    for (int chunk = 0; chunk < WARPS; chunk++) total += sums[chunk];
    return rsqrtf(total * inverse_width + epsilon);
}

DEVICE uint4 normalize(const uint4& x, const uint4& weight, float factor) {
    u32 out[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 pair = word_of(x, i), by = word_of(weight, i);
        u32 normed = narrow_pair(low(pair) * factor, high(pair) * factor);
        out[i] = narrow_pair(low(by) * low(normed), high(by) * high(normed));
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}
