// Root-mean-square norms, alone or on the way into a product. Rows are at most 2,048 wide, a chunk a warp.

const i32 WARPS = 8;

// A norm that a product's kernel does on the way: its rows are those of `raw`, normed. One block also writes them to
// `out`. Null where there is nothing to be normed.
struct NormFirst {
    const u16* raw;
    const u16* weight;
    u16* out;
    float epsilon;
    i32 reserved;
};

// What a lane adds to its row's sum of squares, for 16 inputs.
DEVICE float squares_of(const Inputs& x, float sum) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u32 pair = x.pair(i);
        sum += low(pair) * low(pair);
        sum += high(pair) * high(pair);
    }
    return sum;
}

DEVICE void normalize(Inputs& x, const Inputs& weight, float scale) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        u32 pair = x.pair(i), by = weight.pair(i);
        u32 normed = narrow_pair(low(pair) * scale, high(pair) * scale);
        x.set(i, narrow_pair(low(by) * low(normed), high(by) * high(normed)));
    }
}

// The squares of 8 rows, one for each g, by chunks of 256 inputs: lane by lane in a chunk, then chunk by chunk. `x` is
// the warp's chunk of row g, and becomes the normed one; it is also written to `out`, unless that is null. All threads
// call it.
DEVICE void norm_chunk(
    Inputs (&x)[TILES_OF_CHUNK], const Inputs (&weight)[TILES_OF_CHUNK], float (&parts)[WARPS][8], i32 width,
    float epsilon, u16* out) {
    i32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    i32 tiles = ceil_div(width, 64), chunks = ceil_div(tiles, TILES_OF_CHUNK);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < TILES_OF_CHUNK; i++) {
        if (warp * TILES_OF_CHUNK + i < tiles) sum = squares_of(x[i], sum);
    }
    sum += __shfl_xor_sync(ALL, sum, 1);
    sum += __shfl_xor_sync(ALL, sum, 2);
    if (t == 0) parts[warp][g] = sum;
    __syncthreads();
    float total = 0;
    for (i32 chunk = 0; chunk < chunks; chunk++) total += parts[chunk][g];
    float scale = 1.0f / sqrtf(total / (float)width + epsilon);
#pragma unroll
    for (int i = 0; i < TILES_OF_CHUNK; i++) {
        i32 first = (warp * TILES_OF_CHUNK + i) * 64 + t * 16;
        normalize(x[i], weight[i], scale);
        if (out != nullptr && first < width) {
            uint4* to = (uint4*)(out + first);
            to[0] = x[i].halves[0];
            to[1] = x[i].halves[1];
        }
    }
    __syncthreads();
}
