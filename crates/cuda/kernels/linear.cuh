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
    // Rows of a block: of the kernels for many rows at most MANY_ROWS, of those for few at most 8 * COLUMNS.
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

// Few rows at a time: a block has each strip that is a multiple of the grid further on, for its own rows.
template <int FORMAT, int COLUMNS>
DEVICE void linear_few(const LinearParams& p) {
    __shared__ WarpSums<COLUMNS> sums;
    __shared__ float squares[16][WARPS];
    const Weights& w = p.weights;
    let_next_start();
    Own own(p.layout);
    i32 warp = threadIdx.x / 32, column = threadIdx.x / 16, m = threadIdx.x % 16;
    i32 first_row = blockIdx.y * p.block_rows, rows = min(p.rows - first_row, p.block_rows);
    i32 strips = ceil_div(w.outputs, 16), tiles = w.tiles - warp * TILES_OF_CHUNK;
    auto fetch = [&](i32 piece) {
        i32 strip = blockIdx.x + piece * gridDim.x;
        if (strip < strips && tiles > 0) own.fetch<FORMAT>(piece, w, strip, warp);
        commit_copies();
    };
#pragma unroll 1
    for (i32 i = 0; i < Slots<FORMAT>::STAGES; i++) fetch(i);
    NormFirst norm = p.norm;
    u32 before_rows = first_row * w.inputs;
    if (norm.raw) {
        norm.raw += before_rows;
        norm.out += before_rows;
    }
    wait_for_inputs();
    fetch_rows(own, warp, 0, p.x + before_rows, norm, rows, w.inputs);
    finish_rows(own, warp, 0, norm, rows, w.inputs, squares);
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

// Many rows: a block has 64 rows at most, and each of its warps two strips, so that what it reads of the rows serves both. A
// warp runs the chunks of its strips one after another, which is the order in which `linear_few` adds them.

const i32 MANY_ROWS = 64;
const i32 MANY_WARPS = 4;
const i32 MANY_STRIPS = 2;
// Columns of sums of a lane: 8 at a time, 4 sums each.
const i32 MANY_COLUMNS = MANY_ROWS / 8;

// Inputs on their way: rows of activations, then the weights of each warp.
template <int FORMAT> struct Stages {
    // Tiles that are on their way together: between two barriers a warp has as much to multiply. As in
    // crates/cuda/src/linear.rs.
    static const i32 TILES = FORMAT == AFFINE4 && ROOMY ? 4 : 2;
    static const i32 COUNT = FORMAT == AFFINE4 ? (ROOMY ? 2 : 3) : (FORMAT == AFFINE8 && ROOMY ? 3 : 2);
    // A row's inputs, and 16 bytes that keep lanes in different banks.
    static const i32 ROW = TILES * 128 + 16;
    static const i32 STRIP = TILES * (Fragment<FORMAT>::BYTES + Fragment<FORMAT>::SCALE_BYTES);
    static const i32 WEIGHTS = MANY_ROWS * ROW;
    static const i32 BYTES = WEIGHTS + MANY_WARPS * MANY_STRIPS * STRIP;

    static __device__ __forceinline__ i32 next(i32 stage) { return stage == COUNT - 1 ? 0 : stage + 1; }
};

// The rows of activations that a thread copies 16 bytes of through shared memory. Who finds them names a row that is there for
// each: columns beyond the last are multiplied and written by nobody.
template <int FORMAT> struct CopiedRows {
    // Threads of a row, rows of a thread, and how far those are apart.
    static const i32 THREADS = Stages<FORMAT>::TILES * 8;
    static const i32 EACH = MANY_ROWS * THREADS / (MANY_WARPS * 32);
    static const i32 APART = MANY_ROWS / EACH;
    const u8* first;
    // Bytes from there, of which all rows together have fewer than 2^32.
    u32 offsets[EACH];

    // `row(column)` is the number of a row.
    template <class Row>
    __device__ __forceinline__ void find(const u16* x, i32 inputs, Row row) {
        first = (const u8*)x + threadIdx.x % THREADS * 16;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            offsets[i] = (u32)row(threadIdx.x / THREADS + i * APART) * (u32)inputs * 2;
        }
    }

    // The first `columns` rows, as many as are multiplied together: 16, 32 or all.
    __device__ __forceinline__ void copy(u32 stage, i32 tile, i32 inputs, i32 columns) const {
        u32 to = stage + threadIdx.x / THREADS * Stages<FORMAT>::ROW + threadIdx.x % THREADS * 16;
        bool present = tile * 64 + threadIdx.x % THREADS * 8 < inputs;
        const u8* from = first + tile * 128;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (columns <= (i * APART < 16 ? 0 : i * APART < 32 ? 16 : 32)) continue;
            copy16(to + i * APART * Stages<FORMAT>::ROW, from + offsets[i], present);
        }
    }
};

// A warp's two strips of one shape, which may be of two matrices: where the lane's next 16 bytes of them are.
template <int FORMAT> struct StripPair {
    const u8* codes[MANY_STRIPS];
    const u8* scales[MANY_STRIPS];

    // Beyond the last strip stands that again, which nobody writes.
    __device__ __forceinline__ void set(int k, const Weights& w, i32 strip) {
        u32 present = min(strip, ceil_div(w.outputs, 16) - 1), lane = threadIdx.x % 32;
        // Matrices have fewer than 2^32 bytes.
        codes[k] = w.codes + (present * w.tiles * Fragment<FORMAT>::BYTES + lane * 16);
        scales[k] = w.scales + (present * (w.inputs >> w.group_bits) * 64 + lane * 16);
    }

    // The next `count` tiles of each strip.
    __device__ __forceinline__ void fetch(u32 to, i32 count, i32 group_bits) {
        u32 lane = threadIdx.x % 32;
        const i32 TILES = Stages<FORMAT>::TILES;
        u32 groups = TILES * 64 >> group_bits, here = max(count * 64 >> group_bits, 1);
#pragma unroll
        for (int k = 0; k < MANY_STRIPS; k++, to += Stages<FORMAT>::STRIP) {
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                i32 at = i * Fragment<FORMAT>::BYTES;
                if (i < count) Fragment<FORMAT>::fetch(to + lane * 16 + at, codes[k] + at);
            }
            codes[k] += TILES * Fragment<FORMAT>::BYTES;
            if (FORMAT == BF16) continue;
            if (lane < here * 4) copy16(to + TILES * Fragment<FORMAT>::BYTES + lane * 16, scales[k]);
            scales[k] += groups * 64;
        }
    }
};

typedef float ManySums[MANY_STRIPS][MANY_COLUMNS][4];

// One tile for 8 * COUNT columns: independent products follow each other, so that none waits for the one before.
template <int FORMAT, int COUNT>
DEVICE void multiply_columns(ManySums& sums, const Fragment<FORMAT> (&weights)[MANY_STRIPS], const u8* from) {
    // Half of the inputs at a time, to need fewer registers.
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint4 x[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; j++) x[j] = *(const uint4*)(from + j * 8 * Stages<FORMAT>::ROW + half * 16);
#pragma unroll
        for (int step = 0; step < 2; step++) {
#pragma unroll
            for (int k = 0; k < MANY_STRIPS; k++) {
                u32 a[4];
                weights[k].step(2 * half + step, a);
#pragma unroll
                for (int j = 0; j < COUNT; j++) {
                    u32 low = word_of(x[j], 2 * step), high = word_of(x[j], 2 * step + 1);
                    multiply_add(sums[k][j], a[0], a[1], a[2], a[3], low, high);
                }
            }
        }
    }
}

// Calls `each(k, j, i)` for every sum of a lane: strip, eight columns, and which of four.
template <class Each> DEVICE void for_each_sum(Each each) {
#pragma unroll
    for (int k = 0; k < MANY_STRIPS; k++)
#pragma unroll
        for (int j = 0; j < MANY_COLUMNS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) each(k, j, i);
}

// totals[k][j]: products of strip k with columns 8 j .. 8 j + 7, over all inputs.
template <int FORMAT>
DEVICE void multiply_many(
    ManySums& totals, StripPair<FORMAT> pair, const Weights& shape, i32 columns, const CopiedRows<FORMAT>& rows) {
    typedef Stages<FORMAT> Ring;
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = shape.tiles;
    u32 memory = kept(shared_address(dynamic_memory));
    u32 own = memory + Ring::WEIGHTS + warp * MANY_STRIPS * Ring::STRIP;
    i32 fetched = 0, fetch_stage = 0;
    auto fetch = [&]() {
        if (fetched < tiles) {
            rows.copy(memory + fetch_stage * Ring::BYTES, fetched, shape.inputs, columns);
            pair.fetch(own + fetch_stage * Ring::BYTES, min(tiles - fetched, Ring::TILES), shape.group_bits);
        }
        commit_copies();
        fetched += Ring::TILES;
        fetch_stage = Ring::next(fetch_stage);
    };
#pragma unroll 1
    for (int i = 0; i < Ring::COUNT - 1; i++) fetch();
    ManySums sums;
    for_each_sum([&](int k, int j, int i) { totals[k][j][i] = sums[k][j][i] = 0; });
    // What the lane reads of a stage: rows of its columns, codes and scales.
    u32 row = memory + lane / 4 * Ring::ROW + lane % 4 * 32;
    i32 stage = 0;
#pragma unroll 1
    for (i32 first = 0; first < tiles; first += Ring::TILES) {
        wait_for_copies<Ring::COUNT - 2>();
        __syncthreads();
        fetch();
        u32 begin = stage * Ring::BYTES;
#pragma unroll 1
        for (int i = 0; i < Ring::TILES && first + i < tiles; i++) {
            Fragment<FORMAT> weights[MANY_STRIPS];
#pragma unroll
            for (int k = 0; k < MANY_STRIPS; k++) {
                const u8* strip = at_shared(own + begin) + k * Ring::STRIP;
                const u8* codes = strip + i * Fragment<FORMAT>::BYTES + lane * 16;
                weights[k].load(codes, scales_at<FORMAT, Ring::TILES>(strip, shape, i));
            }
            const u8* x = at_shared(row + begin) + i * 128;
            if (columns <= 16) multiply_columns<FORMAT, 2>(sums, weights, x);
            else if (columns <= 32) multiply_columns<FORMAT, 4>(sums, weights, x);
            else multiply_columns<FORMAT, MANY_COLUMNS>(sums, weights, x);
        }
        if ((first + Ring::TILES) % TILES_OF_CHUNK == 0 || first + Ring::TILES >= tiles) {
            for_each_sum([&](int k, int j, int i) {
                totals[k][j][i] += sums[k][j][i];
                sums[k][j][i] = 0;
            });
        }
        stage = Ring::next(stage);
    }
    wait_for_copies<0>();
}

// Neighbouring strips of a matrix.
template <int FORMAT> DEVICE StripPair<FORMAT> neighbours(const Weights& w, i32 first) {
    StripPair<FORMAT> pair;
#pragma unroll
    for (int k = 0; k < MANY_STRIPS; k++) pair.set(k, w, first + k);
    return pair;
}

template <int FORMAT>
DEVICE void linear_many(const LinearParams& p) {
    const Weights& w = p.weights;
    let_next_start();
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i32 first_row = blockIdx.x * p.block_rows, rows_here = min(p.rows - first_row, p.block_rows);
    i32 strip = (blockIdx.y * MANY_WARPS + warp) * MANY_STRIPS;
    wait_for_inputs();
    CopiedRows<FORMAT> rows;
    rows.find(p.x, w.inputs, [&](i32 column) { return first_row + min(column, rows_here - 1); });
    ManySums totals;
    multiply_many(totals, neighbours<FORMAT>(w, strip), w, rows_here, rows);
    for_each_sum([&](int k, int j, int i) {
        i32 output = (strip + k) * 16 + g + i / 2 * 8, column = j * 8 + 2 * t + i % 2, out_row = first_row + column;
        if (output < w.outputs && column < rows_here) {
            write_product(p, out_row, output, totals[k][j][i], read_before(p, out_row, output));
        }
    });
}

#define LINEAR_MANY(format, name) \
    KERNEL __launch_bounds__(MANY_WARPS * 32, 2) linear_##name##_many(const __grid_constant__ LinearParams p) { \
        linear_many<format>(p); \
    }
EACH_FORMAT(LINEAR_MANY)
