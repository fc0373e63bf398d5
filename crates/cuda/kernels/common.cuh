// What every kernel shares: bf16, the tensor cores' product, programmatic launches, small reductions.
//
// Built with --fmad=false: a product and a sum are fused only where fmaf or a matrix instruction says so.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void

// Chips whose blocks may have more than 99 KiB of shared memory, all of an image's chips.
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
const bool ROOMY = true;
#else
const bool ROOMY = false;
#endif

const i32 NO_LANE = -1;
const i32 PAGE = 256;
const i32 CONV_RING = 64;
const u32 ALL = 0xffffffffu;
#define LOWEST __int_as_float(0xff800000)

DEVICE float widen(u16 value) { return __uint_as_float((u32)value << 16); }
DEVICE float low(u32 pair) { return __uint_as_float(pair << 16); }
DEVICE float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// Nearest bf16, ties to even.
DEVICE u16 narrow(float value) {
    u16 out;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(value));
    return out;
}

DEVICE u32 narrow_pair(float first, float second) {
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(second), "f"(first));
    return out;
}

// Two products and sums in bf16, each rounded once.
DEVICE u32 fma_pair(u32 a, u32 b, u32 c) {
    u32 out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}

// sum[16 x 8] += a[16 x 16] * b[16 x 8]. A column of the sum depends on that column of b alone, which is what
// row-invariance stands on.
DEVICE void multiply_add(float (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Waits until the kernels before this one have finished and their writes are visible. Every block of every
// kernel calls it before it touches what another kernel writes or reads, so order is that of the queue.
DEVICE void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's blocks take the places that this kernel leaves free.
DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// What is read once, past the nearest cache.
DEVICE uint4 stream16(const void* address) {
    uint4 out;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
                 : "l"(address));
    return out;
}

DEVICE u32 word_of(const uint4& words, int index) {
    return index == 0 ? words.x : index == 1 ? words.y : index == 2 ? words.z : words.w;
}

DEVICE i32 ceil_div(i32 a, i32 b) { return (a + b - 1) / b; }

// Where shared memory is, as instructions that copy into it want it.
DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

DEVICE const u8* at_shared(u32 address) { return (const u8*)__cvta_shared_to_generic(address); }

// The value, which the compiler now keeps in a register instead of making it anew wherever it is used.
DEVICE u32 kept(u32 value) {
    asm volatile("" : "+r"(value));
    return value;
}

DEVICE float silu(float x) { return x / (1.0f + expf(-x)); }

DEVICE u64 warp_highest(u64 key) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        u64 other = __shfl_xor_sync(ALL, key, step);
        key = other > key ? other : key;
    }
    return key;
}

// The block that calls this last among `blocks` callers gets true in all its threads, and sees what the others
// wrote before. The counter is 0 again afterwards.
DEVICE bool is_last_block(u32* counter, u32 blocks) {
    __shared__ u32 arrived;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        arrived = atomicAdd(counter, 1);
        if (arrived == blocks - 1) *counter = 0;
    }
    __syncthreads();
    bool last = arrived == blocks - 1;
    if (last) __threadfence();
    return last;
}
