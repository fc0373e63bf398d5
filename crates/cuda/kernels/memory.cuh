// Packing of weights at load, and transfers of many small arrays at once.

struct PackParams {
    // As stored: values row after row, or affine words.
    const u8* source;
    const u16* scales;
    const u16* biases;
    u8* codes;
    u8* packed_scales;
    // Rows of the source, and the output that its first row becomes.
    i32 rows;
    i32 first_output;
    i32 inputs;
    i32 tiles;
    i32 group;
    i32 format;
};

DEVICE u64 tile_of(const PackParams& p, i32 output, i32 input) { return (u64)(output / 16) * p.tiles + input / 64; }

// One thread for two values.
KERNEL pack_bf16(const __grid_constant__ PackParams p) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)p.rows * (p.inputs / 2)) return;
    i32 row = index / (p.inputs / 2), input = index % (p.inputs / 2) * 2;
    i32 output = p.first_output + row, upper = output % 16 / 8;
    i32 lane = output % 8 * 4 + input % 64 / 16, step = input % 16 / 4, pair = input % 4 / 2;
    u64 at = tile_of(p, output, input) * 2048 + step * 512 + lane * 16 + (pair * 2 + upper) * 4;
    *(u32*)(p.codes + at) = ((const u32*)p.source)[index];
}

// One thread for a word of eight codes.
KERNEL pack_affine4(const __grid_constant__ PackParams p) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)p.rows * (p.inputs / 8)) return;
    i32 row = index / (p.inputs / 8), input = index % (p.inputs / 8) * 8;
    i32 output = p.first_output + row, upper = output % 16 / 8;
    i32 lane = output % 8 * 4 + input % 64 / 16;
    u32 from = ((const u32*)p.source)[index], word = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) word |= (from >> (4 * i) & 15) << (i / 2 * 4 + i % 2 * 16);
    u64 at = tile_of(p, output, input) * 512 + lane * 16 + upper * 8 + input % 16 / 8 * 4;
    *(u32*)(p.codes + at) = word;
}

// One thread for a word of four codes.
KERNEL pack_affine8(const __grid_constant__ PackParams p) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)p.rows * (p.inputs / 4)) return;
    i32 row = index / (p.inputs / 4), input = index % (p.inputs / 4) * 4;
    i32 output = p.first_output + row, upper = output % 16 / 8;
    i32 lane = output % 8 * 4 + input % 64 / 16;
    u32 word = __byte_perm(((const u32*)p.source)[index], 0, 0x3120);
    u64 at = tile_of(p, output, input) * 1024 + upper * 512 + lane * 16 + input % 16 / 4 * 4;
    *(u32*)(p.codes + at) = word;
}

// One thread for a group's scale and bias.
KERNEL pack_scales(const __grid_constant__ PackParams p) {
    i32 groups = p.inputs / p.group;
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)p.rows * groups) return;
    i32 output = p.first_output + index / groups, group = index % groups;
    u64 at = (((u64)(output / 16) * groups + group) * 8 + output % 8) * 8 + output % 16 / 8 * 4;
    // 2^123 is what the one has more than the other.
    float scale = widen(p.scales[index]) * 64.0f * (p.format == AFFINE4 ? __uint_as_float(250u << 23) : 1.0f);
    *(u32*)(p.packed_scales + at) = (u32)narrow(scale) | (u32)p.biases[index] << 16;
}

struct UnpackParams {
    Weights from;
    u8* to;
    i32 format;
    i32 reserved;
};

// Affine weights become the bf16 matrix that they mean. One block an output.
KERNEL widen_weights(const __grid_constant__ UnpackParams p) {
    i32 output = blockIdx.x, upper = output % 16 / 8;
    for (i32 input = threadIdx.x; input < p.from.inputs; input += blockDim.x) {
        i32 lane = output % 8 * 4 + input % 64 / 16, step = input % 16 / 4, pair = input % 4 / 2;
        u64 tile = (u64)(output / 16) * p.from.tiles + input / 64;
        u64 at = tile * 2048 + step * 512 + lane * 16 + (pair * 2 + upper) * 4 + input % 2 * 2;
        *(u16*)(p.to + at) = weight_at(p.from, p.format, output, input);
    }
}

// Where an upload goes, and where in the staging memory its bytes are.
struct Upload {
    u8* to;
    const u8* from;
    u64 bytes;
};

struct ScatterParams {
    const Upload* uploads;
};

// One block an upload. Buffers hold whole 16-bit words.
KERNEL scatter(const __grid_constant__ ScatterParams p) {
    let_next_start();
    wait_for_inputs();
    Upload upload = p.uploads[blockIdx.x];
    if (((u64)upload.to | (u64)upload.from | upload.bytes) % 4 == 0) {
        for (u64 i = threadIdx.x; i < upload.bytes / 4; i += blockDim.x) {
            ((u32*)upload.to)[i] = ((const volatile u32*)upload.from)[i];
        }
        return;
    }
    for (u64 i = threadIdx.x; i < upload.bytes / 2; i += blockDim.x) {
        ((u16*)upload.to)[i] = ((const volatile u16*)upload.from)[i];
    }
}

const i32 MOST_PARTS = 8;

struct GatherParams {
    const u8* from[MOST_PARTS];
    u64 bytes[MOST_PARTS];
    u64 offset[MOST_PARTS];
    u8* to;
};

// One block a part of a read-back, in 32-bit words.
KERNEL gather(const __grid_constant__ GatherParams p) {
    let_next_start();
    wait_for_inputs();
    i32 part = blockIdx.x;
    const u32* from = (const u32*)p.from[part];
    u32* to = (u32*)(p.to + p.offset[part]);
    for (u64 i = threadIdx.x; i < p.bytes[part] / 4; i += blockDim.x) to[i] = __ldcg(from + i);
    __threadfence_system();
}

struct BandwidthParams {
    const uint4* from;
    uint4* to;
    u64 count;
    i32 write;
    i32 reserved;
};

// Reads memory, and copies it when asked: the measure of what kernels can reach.
KERNEL __launch_bounds__(512) bandwidth(const __grid_constant__ BandwidthParams p) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    uint4 all = make_uint4(0, 0, 0, 0);
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < p.count; i += 4 * stride) {
        uint4 part[4];
#pragma unroll
        for (int k = 0; k < 4; k++) part[k] = stream16(p.from + i + k * stride);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (p.write) p.to[i + k * stride] = part[k];
            all.x ^= part[k].x ^ part[k].y ^ part[k].z ^ part[k].w;
        }
    }
    if (all.x == 0x12345678u) p.to[0] = all;
}
