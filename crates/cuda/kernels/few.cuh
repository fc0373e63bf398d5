// What kernels for few rows (16 at most) share.
//
// A round runs through hundreds of such kernels, each once and mostly alone: what they cost is the time until the first
// weights and instructions are there, so weights are fetched before the inputs are ready, and code is kept short.
//
// A strip is 16 outputs of a matrix with at most 2,048 inputs; each of a block's warps multiplies one chunk of it. The
// warp has memory of its own: its chunk of the rows, then slots for its chunks of the strips that are on their way. Only
// sums go from warp to warp.

extern __shared__ __align__(128) u8 dynamic_memory[];

// Values from a row of a chunk to the next: 16 bytes more than it has, so that rows are in different banks.
const i32 CHUNK_ROW = 256 + 8;

// How a block's dynamic memory is shared out.
struct FewLayout {
    // Bytes of a warp.
    i32 warp_bytes;
    // Bytes of its rows, before its slots; 0 where rows are read from where they are.
    i32 row_bytes;
};

template <int FORMAT> struct Slots {
    static const i32 BYTES = TILES_OF_CHUNK * (Fragment<FORMAT>::BYTES + Fragment<FORMAT>::SCALE_BYTES);
    // As in crates/cuda/src/few.rs.
    static const i32 STAGES = FORMAT == BF16 && !ROOMY ? 1 : 2;
    // Strips of experts that a warp multiplies together, for each row that it reads and each barrier: more than one where
    // instructions are what takes the time, and memory has room.
    static const i32 TOGETHER = FORMAT == AFFINE4 ? 2 : 1;
    // Pieces of experts that are on their way: more blocks a multiprocessor do more than more of each block's.
    static const i32 EXPERT_STAGES = FORMAT == AFFINE4 ? 1 : STAGES;
};

// A warp's memory.
struct Own {
    u8* rows;
    u8* slots;

    __device__ __forceinline__ Own(const FewLayout& layout) {
        rows = dynamic_memory + threadIdx.x / 32 * layout.warp_bytes;
        slots = rows + layout.row_bytes;
    }

    // The same for groups of warps that share the first group's rows.
    __device__ __forceinline__ Own(const FewLayout& layout, i32 warp, i32 group) {
        i32 slot_bytes = layout.warp_bytes - layout.row_bytes;
        rows = dynamic_memory + warp * layout.row_bytes;
        slots = dynamic_memory + WARPS * layout.row_bytes + (group * WARPS + warp) * slot_bytes;
    }

    // The slot of a piece of STRIPS strips, of which each has its own behind the one before.
    template <int FORMAT, int STRIPS = 1> __device__ __forceinline__ u8* slot(i32 piece, int index = 0) const {
        const i32 stages = STRIPS == 1 ? Slots<FORMAT>::STAGES : Slots<FORMAT>::EXPERT_STAGES;
        return slots + (piece % stages * STRIPS + index) * Slots<FORMAT>::BYTES;
    }

    // Begins to copy the warp's chunk of a strip.
    template <int FORMAT, int STRIPS = 1>
    __device__ __forceinline__ void fetch(i32 piece, const Weights& w, i32 strip, i32 chunk, int index = 0) const {
        i32 first = chunk * TILES_OF_CHUNK;
        u32 to = shared_address(slot<FORMAT, STRIPS>(piece, index));
        fetch_tiles<FORMAT, TILES_OF_CHUNK>(to, w, strip, first, min(w.tiles - first, TILES_OF_CHUNK));
    }

    // Begins to copy a chunk of a row; zeros past its end.
    __device__ __forceinline__ void fetch_row(i32 row, const u16* from, i32 chunk, i32 width) const {
        i32 lane = threadIdx.x % 32, first = chunk * 256 + lane * 8;
        bool present = first < width;
        copy16(shared_address(rows) + row * CHUNK_ROW * 2 + lane * 16, from + (present ? first : 0), present);
    }

    __device__ __forceinline__ const u8* row(i32 row) const { return rows + row * CHUNK_ROW * 2; }
};

// Waits for all of the warp's copies but the newest groups.
template <int NEWER> DEVICE void wait_for_warp() {
    wait_for_copies<NEWER>();
    __syncwarp();
}

// Tile `i` of a chunk of STRIPS strips that have arrived at `from`, in slots behind each other.
template <int FORMAT, int COLUMNS, int STRIPS>
DEVICE void multiply_tile(
    float (&sums)[STRIPS * COLUMNS][4], const u8* from, const u8* const (&x)[COLUMNS], int i, const Weights& w) {
    Fragment<FORMAT> weights[STRIPS];
#pragma unroll
    for (int s = 0; s < STRIPS; s++) {
        const u8* slot = from + s * Slots<FORMAT>::BYTES;
        const u8* codes = slot + i * Fragment<FORMAT>::BYTES + threadIdx.x % 32 * 16;
        weights[s].load(codes, scales_at<FORMAT, TILES_OF_CHUNK>(slot, w, i));
    }
    Inputs inputs[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) inputs[j].load(x[j] + i * 128 + threadIdx.x % 4 * 32);
#pragma unroll
    for (int step = 0; step < 4; step++) {
#pragma unroll
        for (int s = 0; s < STRIPS; s++) {
            u32 a[4];
            weights[s].step(step, a);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                u32 first = inputs[j].pair(2 * step), second = inputs[j].pair(2 * step + 1);
                multiply_add(sums[s * COLUMNS + j], a[0], a[1], a[2], a[3], first, second);
            }
        }
    }
}

// A chunk of STRIPS strips that have arrived at `from` for 8 columns a sum, from 0; row g of column block j is at `x[j]`. A
// whole chunk has no branches, so that all loads are on their way together.
template <int FORMAT, int COLUMNS, int STRIPS = 1>
DEVICE void multiply_chunk(
    float (&sums)[STRIPS * COLUMNS][4], const u8* from, const u8* const (&x)[COLUMNS], i32 tiles, const Weights& w) {
#pragma unroll
    for (int j = 0; j < STRIPS * COLUMNS; j++) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
    if (tiles >= TILES_OF_CHUNK) {
#pragma unroll
        for (int i = 0; i < TILES_OF_CHUNK; i++) multiply_tile<FORMAT, COLUMNS, STRIPS>(sums, from, x, i, w);
    } else {
#pragma unroll 1
        for (int i = 0; i < tiles; i++) multiply_tile<FORMAT, COLUMNS, STRIPS>(sums, from, x, i, w);
    }
}

// Begins to copy the warp's chunk of the rows that its group has of all, as they are before a norm.
template <int GROUPS = 1>
DEVICE void fetch_rows(
    const Own& own, i32 warp, i32 group, const u16* x, const NormFirst& norm, i32 rows, i32 width) {
    const u16* from = norm.raw ? norm.raw : x;
#pragma unroll 1
    for (i32 row = group; row < rows; row += GROUPS) own.fetch_row(row, from + (u64)row * width, warp, width);
    commit_copies();
}

// Waits for those rows and for all copies that were begun before, and norms the rows where that is asked for. `sums` is
// shared. All threads call it.
template <int GROUPS = 1>
DEVICE void finish_rows(
    const Own& own, i32 warp, i32 group, const NormFirst& norm, i32 rows, i32 width, float (&sums)[16][WARPS]) {
    i32 lane = threadIdx.x % 32, first = warp * 256 + lane * 8;
    uint4 weight = make_uint4(0, 0, 0, 0);
    if (norm.raw && first < width) weight = *(const uint4*)(norm.weight + first);
    wait_for_warp<0>();
    if (!norm.raw) return;
#pragma unroll 4
    for (i32 row = group; row < rows; row += GROUPS) {
        float sum = squares_of(*(const uint4*)(own.row(row) + lane * 16));
        if (lane == 0) sums[row][warp] = sum;
    }
    __syncthreads();
#pragma unroll 4
    for (i32 row = group; row < rows; row += GROUPS) {
        uint4* at = (uint4*)(own.row(row) + lane * 16);
        uint4 normed = normalize(*at, weight, norm_factor(sums[row], norm.inverse_width, norm.epsilon));
        *at = normed;
        if (blockIdx.x == 0 && first < width) *(uint4*)(norm.out + (u64)row * width + first) = normed;
    }
    __syncwarp();
}

// The rows of the calling lane, a block of 8 columns each; the last one where there is none.
template <int COLUMNS> DEVICE void find_rows(const u8* (&x)[COLUMNS], const Own& own, i32 rows) {
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) x[j] = own.row(min(j * 8 + (i32)threadIdx.x % 32 / 4, rows - 1));
}

// Keeps what a warp has summed up of its chunk, for as many columns as it has: sums of 8 columns, and of 16 outputs after
// those of the 16 before.
template <int COUNT, int OUTPUTS, int WIDTH>
DEVICE void put_sums(float (&at)[OUTPUTS][WIDTH], const float (&sums)[COUNT][4]) {
    const int columns = COUNT / (OUTPUTS / 16);
    i32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            at[j / columns * 16 + g + i / 2 * 8][j % columns * 8 + 2 * t + i % 2] = sums[j][i];
        }
}

// Adds the chunks of output `m` and a column to `total`, in order.
template <int OUTPUTS, int WIDTH>
DEVICE float add_chunks(float total, const float (&at)[WARPS][OUTPUTS][WIDTH], i32 chunks, i32 m, i32 column) {
#pragma unroll
    for (int c = 0; c < WARPS; c++) {
        if (c < chunks) total += at[c][m][column];
    }
    return total;
}

// What the warps of a block have summed up, each of its chunk of STRIPS strips. In two buffers one barrier a piece is enough;
// where there is room for one only, `release` is the second.
template <int COLUMNS, int STRIPS = 1> struct WarpSums {
    static const i32 BUFFERS = COLUMNS * STRIPS <= 2 ? 2 : 1;
    float at[BUFFERS][WARPS][16 * STRIPS][8 * COLUMNS + 1];

    template <int COUNT> __device__ __forceinline__ void put(i32 piece, const float (&sums)[COUNT][4]) {
        put_sums(at[piece % BUFFERS][threadIdx.x / 32], sums);
    }

    // Multiplies a chunk for as many columns as there are, and keeps the sums.
    template <int FORMAT>
    __device__ __forceinline__ void multiply(
        i32 piece, i32 columns, const u8* from, const u8* const (&x)[COLUMNS], i32 tiles, const Weights& w) {
        if (COLUMNS == 1 || columns <= 8) {
            const u8* first[1] = {x[0]};
            float sum[STRIPS][4];
            multiply_chunk<FORMAT, 1, STRIPS>(sum, from, first, tiles, w);
            put(piece, sum);
        } else {
            float sum[STRIPS * COLUMNS][4];
            multiply_chunk<FORMAT, COLUMNS, STRIPS>(sum, from, x, tiles, w);
            put(piece, sum);
        }
    }

    __device__ __forceinline__ float add(float total, i32 piece, i32 chunks, i32 m, i32 column) const {
        return column < 8 * COLUMNS ? add_chunks(total, at[piece % BUFFERS], chunks, m, column) : 0;
    }

    // All threads call it after they have added.
    __device__ __forceinline__ void release() const {
        if (BUFFERS == 1) __syncthreads();
    }
};
