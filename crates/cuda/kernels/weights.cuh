// Weights as the tensor cores read them.
//
// A matrix is cut into tiles of 16 outputs x 64 inputs. Lane (g, t) = (lane / 4, lane % 4) of a warp holds outputs g
// and g + 8 and inputs 16 t .. 16 t + 15 of a tile, in four steps of four inputs: a step is one matrix instruction.
// So a row of activations is read 32 bytes a lane, and affine codes keep their order. The tile's bytes:
//   bf16   2,048: for each step 16 bytes a lane: {g 0-1, g+8 0-1, g 2-3, g+8 2-3}
//   8-bit  1,024: 16 bytes a lane of output g, then of g + 8; code order in a word 0, 2, 1, 3
//   4-bit    512: 16 bytes a lane, two words of output g, two of g + 8; code order in a word 0, 2, 4, 6, 1, 3, 5, 7
// Scales of a group of inputs: for each g the words of outputs g and g + 8, a word {scale, bias} in bf16, the scale times
// 2^129 for 4 bits and 2^6 for 8.
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
    // 2 to this power inputs share a scale.
    i32 group_bits;
};

enum Format { BF16 = 0, AFFINE4 = 1, AFFINE8 = 2 };

// Kernels of every format, and of every format for 8 and for 16 rows.
#define EACH_FORMAT(MACRO) MACRO(BF16, bf16) MACRO(AFFINE4, affine4) MACRO(AFFINE8, affine8)
#define EACH_FORMAT_AND_COLUMNS(MACRO) \
    MACRO(BF16, bf16, 1) MACRO(BF16, bf16, 2) \
    MACRO(AFFINE4, affine4, 1) MACRO(AFFINE4, affine4, 2) \
    MACRO(AFFINE8, affine8, 1) MACRO(AFFINE8, affine8, 2)

const i32 TILES_OF_CHUNK = 4;

DEVICE i32 chunks_of(const Weights& w) { return ceil_div(w.tiles, TILES_OF_CHUNK); }

// 16 bytes from memory to shared memory, and nothing to wait for until the group they are in is; zeros where not present.
DEVICE void copy16(u32 to, const void* from, bool present = true) {
    i32 bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

DEVICE void commit_copies() { asm volatile("cp.async.commit_group;"); }

// Waits for all but the newest `newer` groups of this thread's copies.
template <int NEWER> DEVICE void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(NEWER) : "memory"); }

// Weights pass through shared memory: the tiles that were fetched together behind each other, each lane's own 16 bytes at a
// time, then the scales that they share, SCALE_BYTES for a tile's at most. `fetch` begins the copies of a tile's codes,
// `load` reads what has arrived.
template <int FORMAT> struct Fragment;

template <> struct Fragment<BF16> {
    static const i32 BYTES = 2048;
    static const i32 SCALE_BYTES = 0;
    uint4 steps[4];

    static __device__ __forceinline__ void fetch(u32 to, const u8* from) {
#pragma unroll
        for (int step = 0; step < 4; step++) copy16(to + step * 512, from + step * 512);
    }

    __device__ __forceinline__ void load(const u8* from, const u8*) {
#pragma unroll
        for (int step = 0; step < 4; step++) steps[step] = *(const uint4*)(from + step * 512);
    }

    __device__ __forceinline__ void step(int step, u32 (&a)[4]) const {
        a[0] = steps[step].x;
        a[1] = steps[step].y;
        a[2] = steps[step].z;
        a[3] = steps[step].w;
    }
};

// Codes stand in bf16 halves as small numbers: one of 4 bits in bits 4 to 7 is code * 2^-129, one of 8 bits code * 2^-133.
// So the weight is one fused product and sum, rounded once: for 4 bits with a scale that makes up for it, for 8 after an
// exact product that makes code / 64.
const u32 TIMES_2_127 = 0x7f007f00u;

DEVICE u32 scaled(u32 values, u32 scale) {
    return fma_pair(values, __byte_perm(scale, 0, 0x1010), __byte_perm(scale, 0, 0x3232));
}

DEVICE u32 dequantize4(u32 codes, u32 scale) { return scaled(codes & 0x00f000f0u, scale); }

DEVICE u32 dequantize8(u32 codes, u32 scale) { return scaled(fma_pair(codes & 0x00ff00ffu, TIMES_2_127, 0), scale); }

template <> struct Fragment<AFFINE4> {
    static const i32 BYTES = 512;
    static const i32 SCALE_BYTES = 128;
    uint4 codes;
    uint2 scales;

    static __device__ __forceinline__ void fetch(u32 to, const u8* from) { copy16(to, from); }

    __device__ __forceinline__ void load(const u8* from, const u8* scales_from) {
        codes = *(const uint4*)from;
        scales = *(const uint2*)scales_from;
    }

    __device__ __forceinline__ void step(int step, u32 (&a)[4]) const {
        u32 first = step < 2 ? codes.x : codes.y, second = step < 2 ? codes.z : codes.w;
        bool later = step % 2 == 1;
        a[0] = dequantize4(later ? first >> 4 : first << 4, scales.x);
        a[1] = dequantize4(later ? second >> 4 : second << 4, scales.y);
        a[2] = dequantize4(later ? first >> 8 : first, scales.x);
        a[3] = dequantize4(later ? second >> 8 : second, scales.y);
    }
};

template <> struct Fragment<AFFINE8> {
    static const i32 BYTES = 1024;
    static const i32 SCALE_BYTES = 128;
    uint4 codes[2];
    uint2 scales;

    static __device__ __forceinline__ void fetch(u32 to, const u8* from) {
        copy16(to, from);
        copy16(to + 512, from + 512);
    }

    __device__ __forceinline__ void load(const u8* from, const u8* scales_from) {
        codes[0] = *(const uint4*)from;
        codes[1] = *(const uint4*)(from + 512);
        scales = *(const uint2*)scales_from;
    }

    __device__ __forceinline__ void step(int step, u32 (&a)[4]) const {
        u32 first = word_of(codes[0], step), second = word_of(codes[1], step);
        a[0] = dequantize8(first, scales.x);
        a[1] = dequantize8(second, scales.y);
        a[2] = dequantize8(first >> 8, scales.x);
        a[3] = dequantize8(second >> 8, scales.y);
    }
};

// The 16 inputs of lane t of a tile, for one row.
struct Inputs {
    uint4 halves[2];

    __device__ __forceinline__ void load(const void* from) {
        halves[0] = ((const uint4*)from)[0];
        halves[1] = ((const uint4*)from)[1];
    }

    __device__ __forceinline__ u32 pair(int index) const { return word_of(halves[index / 4], index % 4); }
};

// Begins the copies of `count` tiles from `first` on of a strip (16 outputs), and of their scales. `first` is where a
// group begins, or in one that all of the tiles share.
template <int FORMAT, int COUNT>
DEVICE void fetch_tiles(u32 to, const Weights& w, i32 strip, i32 first, i32 count) {
    u32 lane = threadIdx.x % 32;
    // Matrices have fewer than 2^32 bytes.
    const u8* codes = w.codes + (((u32)strip * w.tiles + first) * Fragment<FORMAT>::BYTES + lane * 16);
    to += lane * 16;
    if (count >= COUNT) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            Fragment<FORMAT>::fetch(to + i * Fragment<FORMAT>::BYTES, codes + i * Fragment<FORMAT>::BYTES);
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < count; i++) {
            Fragment<FORMAT>::fetch(to + i * Fragment<FORMAT>::BYTES, codes + i * Fragment<FORMAT>::BYTES);
        }
    }
    if (FORMAT == BF16) return;
    u32 group = first * 64 >> w.group_bits, groups = max(count * 64 >> w.group_bits, 1);
    const u8* scales = w.scales + (((u32)strip * (w.inputs >> w.group_bits) + group) * 64 + lane * 16);
    if (lane < groups * 4) copy16(to + COUNT * Fragment<FORMAT>::BYTES, scales);
}

// Where lane (g, t) finds the scales of tile `i` of those that were fetched together.
template <int FORMAT, int COUNT> DEVICE const u8* scales_at(const u8* from, const Weights& w, int i) {
    i32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    return from + COUNT * Fragment<FORMAT>::BYTES + (i * 64 + t * 16 >> w.group_bits) * 64 + g * 8;
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
    u64 group = (u64)(output / 16) * (w.inputs >> w.group_bits) + (input >> w.group_bits);
    u32 scale = *(const u32*)(w.scales + (group * 8 + g) * 8 + upper * 4);
    if (format == AFFINE4) {
        u32 word = *(const u32*)(w.codes + tile * 512 + lane * 16 + upper * 8 + index / 8 * 4);
        i32 place = index % 8;
        u32 code = word >> (place / 2 * 4 + place % 2 * 16) & 15;
        return (u16)(dequantize4(code << 4, scale) & 0xffff);
    } else {
        u32 word = *(const u32*)(w.codes + tile * 1024 + upper * 512 + lane * 16 + index / 4 * 4);
        i32 place = index % 4;
        u32 code = word >> (place / 2 * 8 + place % 2 * 16) & 255;
        return (u16)(dequantize8(code, scale) & 0xffff);
    }
}
