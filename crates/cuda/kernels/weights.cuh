// Weights as the tensor cores read them.
//
// A matrix is cut into tiles of 16 outputs x 64 inputs. Lane (g, t) = (lane / 4, lane % 4) of a warp holds outputs g
// and g + 8 and inputs 16 t .. 16 t + 15 of a tile, in four steps of four inputs: a step is one matrix instruction.
// So a row of activations is read 32 bytes a lane, and affine codes keep their order. The tile's bytes:
//   bf16   2,048: for each step 16 bytes a lane: {g 0-1, g+8 0-1, g 2-3, g+8 2-3}
//   8-bit  1,024: 16 bytes a lane of output g, then of g + 8; code order in a word 0, 2, 1, 3
//   4-bit    512: 16 bytes a lane, two words of output g, two of g + 8; code order in a word 0, 2, 4, 6, 1, 3, 5, 7
// Scales of a group of inputs: for each g the words of outputs g and g + 8, a word {64 * scale, bias} in bf16.
// Tiles of an output block follow each other, then those of the next 16 outputs. Missing outputs and inputs are 0.
//
// A sum over inputs is cut every 256 (a chunk): within a chunk one chain of matrix instructions from 0, then the
// chunks added in ascending order. That is the one order of every kernel, for every number of rows.

struct Weights {
    const u8* codes;
    const u8* scales;
    i32 outputs;
    i32 inputs;
    // Tiles of 64 inputs.
    i32 tiles;
    // Inputs that share a scale.
    i32 group;
};

enum Format { BF16 = 0, AFFINE4 = 1, AFFINE8 = 2 };

const i32 TILES_OF_CHUNK = 4;

DEVICE i32 chunks_of(const Weights& w) { return ceil_div(w.tiles, TILES_OF_CHUNK); }

template <int FORMAT> struct Fragment;

template <> struct Fragment<BF16> {
    uint4 steps[4];

    __device__ __forceinline__ void load(const Weights& w, i32 block, i32 tile) {
        const u8* base = w.codes + ((u64)block * w.tiles + tile) * 2048 + (threadIdx.x % 32) * 16;
#pragma unroll
        for (int step = 0; step < 4; step++) steps[step] = stream16(base + step * 512);
    }

    __device__ __forceinline__ void step(int step, u32 (&a)[4]) const {
        a[0] = steps[step].x;
        a[1] = steps[step].y;
        a[2] = steps[step].z;
        a[3] = steps[step].w;
    }
};

// Codes stand in bf16 halves as subnormal numbers, so that a product with a power of two makes them code / 64
// exactly; then one fused product and sum makes the weight, rounded once.
const u32 TIMES_2_127 = 0x7f007f00u;
const u32 TIMES_2_123 = 0x7d007d00u;

DEVICE u32 dequantize(u32 codes, u32 power, u32 scale) {
    return fma_pair(fma_pair(codes, power, 0), __byte_perm(scale, 0, 0x1010), __byte_perm(scale, 0, 0x3232));
}

DEVICE uint2 load_scales(const Weights& w, i32 block, i32 tile) {
    i32 lane = threadIdx.x % 32;
    i32 groups = w.inputs / w.group;
    i32 group = (tile * 64 + lane % 4 * 16) / w.group;
    return stream8(w.scales + ((u64)(block * groups + group) * 8 + lane / 4) * 8);
}

template <> struct Fragment<AFFINE4> {
    uint4 codes;
    uint2 scales;

    __device__ __forceinline__ void load(const Weights& w, i32 block, i32 tile) {
        codes = stream16(w.codes + ((u64)block * w.tiles + tile) * 512 + (threadIdx.x % 32) * 16);
        scales = load_scales(w, block, tile);
    }

    __device__ __forceinline__ void step(int step, u32 (&a)[4]) const {
        u32 first = (step < 2 ? codes.x : codes.y) >> (step % 2 * 8);
        u32 second = (step < 2 ? codes.z : codes.w) >> (step % 2 * 8);
        a[0] = dequantize(first & 0x000f000fu, TIMES_2_127, scales.x);
        a[1] = dequantize(second & 0x000f000fu, TIMES_2_127, scales.y);
        a[2] = dequantize(first & 0x00f000f0u, TIMES_2_123, scales.x);
        a[3] = dequantize(second & 0x00f000f0u, TIMES_2_123, scales.y);
    }
};

template <> struct Fragment<AFFINE8> {
    uint4 codes[2];
    uint2 scales;

    __device__ __forceinline__ void load(const Weights& w, i32 block, i32 tile) {
        const u8* base = w.codes + ((u64)block * w.tiles + tile) * 1024 + (threadIdx.x % 32) * 16;
        codes[0] = stream16(base);
        codes[1] = stream16(base + 512);
        scales = load_scales(w, block, tile);
    }

    static __device__ __forceinline__ u32 word(const uint4& words, int step) {
        return step == 0 ? words.x : step == 1 ? words.y : step == 2 ? words.z : words.w;
    }

    __device__ __forceinline__ void step(int step, u32 (&a)[4]) const {
        u32 first = word(codes[0], step), second = word(codes[1], step);
        a[0] = dequantize(first & 0x00ff00ffu, TIMES_2_127, scales.x);
        a[1] = dequantize(second & 0x00ff00ffu, TIMES_2_127, scales.y);
        a[2] = dequantize(first >> 8 & 0x00ff00ffu, TIMES_2_127, scales.x);
        a[3] = dequantize(second >> 8 & 0x00ff00ffu, TIMES_2_127, scales.y);
    }
};

// The 16 inputs of lane t of a tile, for one row: zeros past the row's end.
struct Inputs {
    uint4 halves[2];

    __device__ __forceinline__ void load(const u16* row, i32 tile, i32 inputs) {
        // Without a branch, so that many loads are on their way at once.
        i32 first = tile * 64 + threadIdx.x % 4 * 16;
        bool inside = first < inputs;
        const uint4* address = (const uint4*)(row + (inside ? first : 0));
        uint4 zeros = make_uint4(0, 0, 0, 0);
        halves[0] = address[0];
        halves[1] = address[1];
        if (!inside) halves[0] = halves[1] = zeros;
    }

    __device__ __forceinline__ u32 pair(int index) const {
        const uint4& half = halves[index / 4];
        int rest = index % 4;
        return rest == 0 ? half.x : rest == 1 ? half.y : rest == 2 ? half.z : half.w;
    }

    __device__ __forceinline__ void set(int index, u32 value) {
        uint4& half = halves[index / 4];
        int rest = index % 4;
        if (rest == 0) half.x = value;
        else if (rest == 1) half.y = value;
        else if (rest == 2) half.z = value;
        else half.w = value;
    }
};

// One tile of a chunk for 8 columns (rows of activations).
template <int FORMAT>
DEVICE void multiply_tile(float (&sum)[4], const Fragment<FORMAT>& weights, const Inputs& x) {
#pragma unroll
    for (int step = 0; step < 4; step++) {
        u32 a[4];
        weights.step(step, a);
        multiply_add(sum, a[0], a[1], a[2], a[3], x.pair(2 * step), x.pair(2 * step + 1));
    }
}

// The four tiles of a chunk; those past the end are the last one again, and are not used.
template <int FORMAT>
DEVICE void load_chunk(Fragment<FORMAT> (&weights)[TILES_OF_CHUNK], const Weights& w, i32 block, i32 chunk) {
#pragma unroll
    for (int i = 0; i < TILES_OF_CHUNK; i++) weights[i].load(w, block, min(chunk * TILES_OF_CHUNK + i, w.tiles - 1));
}

DEVICE void load_chunk(Inputs (&x)[TILES_OF_CHUNK], const u16* row, i32 chunk, i32 inputs) {
#pragma unroll
    for (int i = 0; i < TILES_OF_CHUNK; i++) x[i].load(row, chunk * TILES_OF_CHUNK + i, inputs);
}

// A chunk for 8 columns, from 0.
template <int FORMAT>
DEVICE void multiply_chunk(
    float (&sum)[4], const Fragment<FORMAT> (&weights)[TILES_OF_CHUNK], const Inputs (&x)[TILES_OF_CHUNK], i32 chunk,
    i32 tiles) {
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
#pragma unroll
    for (int i = 0; i < TILES_OF_CHUNK; i++) {
        if (chunk * TILES_OF_CHUNK + i < tiles) multiply_tile(sum, weights[i], x[i]);
    }
}

// A weight of a packed matrix, for copies of whole rows.
DEVICE u16 weight_at(const Weights& w, i32 format, i32 output, i32 input) {
    u64 tile = (u64)(output / 16) * w.tiles + input / 64;
    i32 g = output % 16 % 8, upper = output % 16 / 8;
    i32 t = input % 64 / 16, index = input % 16;
    i32 lane = g * 4 + t;
    if (format == BF16) {
        i32 step = index / 4, pair = index % 4 / 2;
        return *(const u16*)(w.codes + tile * 2048 + step * 512 + lane * 16 + (pair * 2 + upper) * 4 + index % 2 * 2);
    }
    u64 group = (u64)(output / 16) * (w.inputs / w.group) + input / w.group;
    u32 scale = *(const u32*)(w.scales + (group * 8 + g) * 8 + upper * 4);
    u32 code;
    if (format == AFFINE4) {
        u32 word = *(const u32*)(w.codes + tile * 512 + lane * 16 + upper * 8 + index / 8 * 4);
        i32 place = index % 8;
        code = word >> (place / 2 * 4 + place % 2 * 16) & 15;
    } else {
        u32 word = *(const u32*)(w.codes + tile * 1024 + upper * 512 + lane * 16 + index / 4 * 4);
        i32 place = index % 4;
        code = word >> (place / 2 * 8 + place % 2 * 16) & 255;
    }
    return (u16)(dequantize(code, TIMES_2_127, scale) & 0xffff);
}
