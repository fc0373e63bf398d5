// Products of a matrix with rows of activations: `linear`, `linear_add`, `logits`.

enum Write { WRITE_BF16 = 0, WRITE_ADD = 1, WRITE_F32 = 2, WRITE_BIAS = 3 };

struct LinearParams {
    Weights weights;
    const u16* x;
    void* out;
    // For WRITE_BIAS: logits that the products are added to, row `r` at `r * bias_rows + bias_row`.
    const float* logits;
    NormFirst norm;
    i32 rows;
    i32 write;
    i32 bias_rows;
    i32 bias_row;
    FewLayout layout;
    // Rows of a block of the kernels for many rows, at most MANY_ROWS.
    i32 block_rows;
    i32 reserved;
};

// What a product is added to, as bits: it can be asked for long before it is there.
DEVICE u32 read_before(const LinearParams& p, i32 row, i32 output) {
    if (p.write == WRITE_ADD) return ((const u16*)p.out)[(u64)row * p.weights.outputs + output];
    if (p.write != WRITE_BIAS) return 0;
    return ((const u32*)p.logits)[((u64)row * p.bias_rows + p.bias_row) * p.weights.outputs + output];
}

DEVICE void write_product(const LinearParams& p, i32 row, i32 output, float sum, u32 before) {
    u64 index = (u64)row * p.weights.outputs + output;
    if (p.write == WRITE_F32) ((float*)p.out)[index] = sum;
    else if (p.write == WRITE_BF16) ((u16*)p.out)[index] = narrow(sum);
    else if (p.write == WRITE_ADD) ((u16*)p.out)[index] = narrow(widen(before) + widen(narrow(sum)));
    else ((float*)p.out)[index] = __uint_as_float(before) + sum;
}

// Few rows at a time: a block has each strip that is a multiple of the grid further on, for its 8 * COLUMNS rows.
template <int FORMAT, int COLUMNS>
DEVICE void linear_few(const LinearParams& p) {
    __shared__ WarpSums<COLUMNS> sums;
    __shared__ float squares[16][WARPS];
    const Weights& w = p.weights;
    let_next_start();
    Own own(p.layout);
    i32 warp = threadIdx.x / 32, column = threadIdx.x / 16, m = threadIdx.x % 16;
    i32 first_row = blockIdx.y * 8 * COLUMNS, rows = min(p.rows - first_row, 8 * COLUMNS);
    i32 strips = ceil_div(w.outputs, 16), tiles = w.tiles - warp * TILES_OF_CHUNK;
    auto fetch = [&](i32 piece) {
        i32 strip = blockIdx.x + piece * gridDim.x;
        if (strip < strips && tiles > 0) own.fetch<FORMAT>(piece, w, strip, warp);
        commit_copies();
    };
#pragma unroll 1
    for (i32 i = 0; i < Slots<FORMAT>::STAGES; i++) fetch(i);
    wait_for_inputs();
    // Rows that are normed here are all in one block.
    fetch_rows(own, warp, p.x + (u64)first_row * w.inputs, p.norm, rows, w.inputs);
    finish_rows(own, warp, true, p.norm, rows, w.inputs, squares);
    const u8* x[COLUMNS];
    find_rows(x, own, rows);
    i32 strip = blockIdx.x;
#pragma unroll 1
    for (i32 piece = 0; strip < strips; piece++, strip += gridDim.x) {
        i32 output = strip * 16 + m;
        bool writes = column < rows && output < w.outputs;
        u32 before = writes ? read_before(p, first_row + column, output) : 0;
        wait_for_warp<Slots<FORMAT>::STAGES - 1>();
        if (tiles > 0) {
            float sum[COLUMNS][4];
            multiply_chunk<FORMAT, COLUMNS>(sum, own.slot<FORMAT>(piece), x, tiles, w);
            sums.put(piece, sum);
        }
        __syncwarp();
        fetch(piece + Slots<FORMAT>::STAGES);
        __syncthreads();
        float total = sums.add(0, piece, chunks_of(w), m, column);
        if (writes) write_product(p, first_row + column, output, total, before);
    }
}

// Few rows of more than 2,048 inputs: a block has a strip, whose chunks its warps take in turns. Rows are read from where
// they are.
template <int FORMAT, int COLUMNS>
DEVICE void linear_wide(const LinearParams& p) {
    __shared__ WarpSums<COLUMNS> sums;
    const Weights& w = p.weights;
    let_next_start();
    Own own(p.layout);
    i32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, column = threadIdx.x / 16, m = threadIdx.x % 16;
    i32 chunks = chunks_of(w), output = blockIdx.x * 16 + m;
    auto fetch = [&](i32 piece) {
        i32 chunk = piece * WARPS + warp;
        if (chunk < chunks) own.fetch<FORMAT>(piece, w, blockIdx.x, chunk);
        commit_copies();
    };
#pragma unroll 1
    for (i32 i = 0; i < Slots<FORMAT>::STAGES; i++) fetch(i);
    wait_for_inputs();
    bool writes = column < p.rows && output < w.outputs;
    u32 before = writes ? read_before(p, column, output) : 0;
    float total = 0;
#pragma unroll 1
    for (i32 piece = 0; piece * WARPS < chunks; piece++) {
        i32 chunk = piece * WARPS + warp;
        wait_for_warp<Slots<FORMAT>::STAGES - 1>();
        if (chunk < chunks) {
            const u8* x[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                x[j] = (const u8*)(p.x + (u64)min(j * 8 + g, p.rows - 1) * w.inputs + chunk * 256);
            }
            float sum[COLUMNS][4];
            multiply_chunk<FORMAT, COLUMNS>(sum, own.slot<FORMAT>(piece), x, w.tiles - chunk * TILES_OF_CHUNK, w);
            sums.put(piece, sum);
        }
        __syncwarp();
        fetch(piece + Slots<FORMAT>::STAGES);
        __syncthreads();
        total = sums.add(total, piece, chunks - piece * WARPS, m, column);
    }
    if (writes) write_product(p, column, output, total, before);
}

#define LINEAR_FEW(format, name, columns) \
    KERNEL __launch_bounds__(256, 3) linear_##name##_##columns(const __grid_constant__ LinearParams p) { \
        linear_few<format, columns>(p); \
    } \
    KERNEL __launch_bounds__(256, 3) linear_wide_##name##_##columns(const __grid_constant__ LinearParams p) { \
        linear_wide<format, columns>(p); \
    }
EACH_FORMAT_AND_COLUMNS(LINEAR_FEW)

// Many rows: a block has 64 rows at most, and each of its warps a strip. A warp runs the chunks of its strip one after another,
// which is the order in which `linear_few` adds them.

const i32 MANY_ROWS = 64;
// Tiles that are on their way together: between two barriers a warp has as much to multiply.
const i32 STAGE_TILES = 2;
// 256 bytes of a row and 16 that keep lanes in different banks.
const i32 STAGE_ROW = STAGE_TILES * 128 + 16;
// Columns of sums of a lane: 8 at a time, 4 sums each.
const i32 MANY_COLUMNS = MANY_ROWS / 8;

// Inputs on their way: rows of activations, then the weights of each warp.
template <int FORMAT> struct Stages {
    // As in crates/cuda/src/linear.rs.
    static const i32 COUNT = FORMAT == AFFINE4 || (FORMAT == AFFINE8 && ROOMY) ? 3 : 2;
    static const i32 STRIP = STAGE_TILES * (Fragment<FORMAT>::BYTES + Fragment<FORMAT>::SCALE_BYTES);
    static const i32 BYTES = MANY_ROWS * STAGE_ROW + WARPS * STRIP;

    static __device__ __forceinline__ u8* rows(i32 stage) { return dynamic_memory + stage * BYTES; }

    static __device__ __forceinline__ u8* weights(i32 stage) {
        return rows(stage) + MANY_ROWS * STAGE_ROW + threadIdx.x / 32 * STRIP;
    }

    static __device__ __forceinline__ i32 next(i32 stage) { return stage == COUNT - 1 ? 0 : stage + 1; }
};

// The rows of activations that a thread copies 16 bytes of through shared memory, null where there is none.
struct CopiedRows {
    static const i32 EACH = MANY_ROWS * STAGE_TILES * 8 / (WARPS * 32);
    const u16* rows[EACH];

    template <class Row>
    __device__ __forceinline__ void find(Row row) {
#pragma unroll
        for (int i = 0; i < EACH; i++) rows[i] = row(threadIdx.x / (STAGE_TILES * 8) + i * (MANY_ROWS / EACH));
    }

    // The first `columns` rows, as many as are multiplied together.
    __device__ __forceinline__ void copy(u32 stage, i32 tile, i32 inputs, i32 columns) const {
        i32 first = tile * 64 + threadIdx.x % (STAGE_TILES * 8) * 8;
        u32 to = stage + threadIdx.x / (STAGE_TILES * 8) * STAGE_ROW + threadIdx.x % (STAGE_TILES * 8) * 16;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (columns <= (i == 0 ? 0 : i == 1 ? 16 : 32)) continue;
            bool present = rows[i] != nullptr && first < inputs;
            copy16(to + i * (MANY_ROWS / EACH) * STAGE_ROW, present ? rows[i] + first : nullptr, present);
        }
    }
};

// One tile for 8 * COUNT columns: independent products follow each other, so that none waits for the one before.
template <int FORMAT, int COUNT>
DEVICE void multiply_columns(float (&sums)[MANY_COLUMNS][4], const Fragment<FORMAT>& weights, const u8* rows) {
    const u8* from = rows + threadIdx.x % 32 / 4 * STAGE_ROW + threadIdx.x % 4 * 32;
    // Half of the inputs at a time, to need fewer registers.
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint4 x[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; j++) x[j] = *(const uint4*)(from + j * 8 * STAGE_ROW + half * 16);
#pragma unroll
        for (int step = 0; step < 2; step++) {
            u32 a[4];
            weights.step(2 * half + step, a);
#pragma unroll
            for (int j = 0; j < COUNT; j++) {
                u32 low = word_of(x[j], 2 * step), high = word_of(x[j], 2 * step + 1);
                multiply_add(sums[j], a[0], a[1], a[2], a[3], low, high);
            }
        }
    }
}

DEVICE void clear(float (&sums)[MANY_COLUMNS][4]) {
#pragma unroll
    for (int j = 0; j < MANY_COLUMNS; j++) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
}

// totals[j]: products of a strip with columns 8 j .. 8 j + 7, over all inputs.
template <int FORMAT>
DEVICE void multiply_many(
    float (&totals)[MANY_COLUMNS][4], const Weights& w, i32 strip, i32 columns, const CopiedRows& rows) {
    typedef Stages<FORMAT> Ring;
    i32 fetched = 0, fetch_stage = 0;
    auto fetch = [&]() {
        if (fetched < w.tiles) {
            rows.copy(shared_address(Ring::rows(fetch_stage)), fetched, w.inputs, columns);
            u32 to = shared_address(Ring::weights(fetch_stage));
            fetch_tiles<FORMAT, STAGE_TILES>(to, w, strip, fetched, min(w.tiles - fetched, STAGE_TILES));
        }
        commit_copies();
        fetched += STAGE_TILES;
        fetch_stage = Ring::next(fetch_stage);
    };
#pragma unroll 1
    for (int i = 0; i < Ring::COUNT - 1; i++) fetch();
    clear(totals);
    float sums[MANY_COLUMNS][4];
    clear(sums);
    i32 stage = 0;
#pragma unroll 1
    for (i32 first = 0; first < w.tiles; first += STAGE_TILES) {
        wait_for_copies<Ring::COUNT - 2>();
        __syncthreads();
        fetch();
        const u8* from = Ring::weights(stage);
#pragma unroll 1
        for (int i = 0; i < STAGE_TILES && first + i < w.tiles; i++) {
            Fragment<FORMAT> weights;
            const u8* codes = from + i * Fragment<FORMAT>::BYTES + threadIdx.x % 32 * 16;
            weights.load(codes, scales_at<FORMAT, STAGE_TILES>(from, w, i));
            const u8* x = Ring::rows(stage) + i * 128;
            if (columns <= 16) multiply_columns<FORMAT, 2>(sums, weights, x);
            else if (columns <= 32) multiply_columns<FORMAT, 4>(sums, weights, x);
            else multiply_columns<FORMAT, MANY_COLUMNS>(sums, weights, x);
        }
        if (first % TILES_OF_CHUNK == TILES_OF_CHUNK - STAGE_TILES || first + STAGE_TILES >= w.tiles) {
#pragma unroll
            for (int j = 0; j < MANY_COLUMNS; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) totals[j][i] += sums[j][i];
            clear(sums);
        }
        stage = Ring::next(stage);
    }
    wait_for_copies<0>();
}

template <int FORMAT>
DEVICE void linear_many(const LinearParams& p) {
    const Weights& w = p.weights;
    let_next_start();
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i32 first_row = blockIdx.x * p.block_rows, rows_here = min(p.rows - first_row, p.block_rows);
    i32 strip = blockIdx.y * WARPS + warp, last = ceil_div(w.outputs, 16) - 1;
    wait_for_inputs();
    auto row = [&](i32 column) {
        return column < rows_here ? p.x + (u64)(first_row + column) * w.inputs : nullptr;
    };
    CopiedRows rows;
    rows.find(row);
    float totals[MANY_COLUMNS][4];
    multiply_many<FORMAT>(totals, w, min(strip, last), rows_here, rows);
#pragma unroll
    for (int j = 0; j < MANY_COLUMNS; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            i32 output = strip * 16 + g + i / 2 * 8, column = j * 8 + 2 * t + i % 2, out_row = first_row + column;
            if (output < w.outputs && column < rows_here) {
                write_product(p, out_row, output, totals[j][i], read_before(p, out_row, output));
            }
        }
}

#define LINEAR_MANY(format, name) \
    KERNEL __launch_bounds__(256, 2) linear_##name##_many(const __grid_constant__ LinearParams p) { \
        linear_many<format>(p); \
    }
EACH_FORMAT(LINEAR_MANY)
