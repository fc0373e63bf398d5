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
};

DEVICE void write_product(const LinearParams& p, i32 row, i32 output, float sum) {
    u64 index = (u64)row * p.weights.outputs + output;
    if (p.write == WRITE_F32) {
        ((float*)p.out)[index] = sum;
    } else if (p.write == WRITE_BF16) {
        ((u16*)p.out)[index] = narrow(sum);
    } else if (p.write == WRITE_ADD) {
        u16* out = (u16*)p.out + index;
        *out = narrow(widen(*out) + widen(narrow(sum)));
    } else {
        u64 logit = ((u64)row * p.bias_rows + p.bias_row) * p.weights.outputs + output;
        ((float*)p.out)[index] = p.logits[logit] + sum;
    }
}

// Few rows: 16 outputs and 8 * COLUMNS rows at a time, each of the 8 warps with chunks of its own. All loads of a chunk
// are on their way together, and the next weights' while sums are gathered.
template <int FORMAT, int COLUMNS>
DEVICE void linear_few(const LinearParams& p) {
    __shared__ float sums[WARPS][16][8 * COLUMNS + 1];
    __shared__ float parts[WARPS][8];
    const Weights& w = p.weights;
    let_next_start();
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i32 first_row = blockIdx.y * 8 * COLUMNS;
    i32 chunks = chunks_of(w), blocks = ceil_div(w.outputs, 16), rounds = ceil_div(chunks, WARPS);
    bool normed = COLUMNS <= 2 && p.norm.raw != nullptr;
    Fragment<FORMAT> weights[TILES_OF_CHUNK];
    i32 block = blockIdx.x, round = 0;
    if (warp < chunks) load_chunk(weights, w, block, warp);
    Inputs x[COLUMNS][TILES_OF_CHUNK];
    {
        Inputs by[TILES_OF_CHUNK];
        wait_for_inputs();
        if (normed) load_chunk(by, p.norm.weight, warp, w.inputs);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            i32 row = first_row + j * 8 + g;
            load_chunk(x[j], (normed ? p.norm.raw : p.x) + (u64)min(row, p.rows - 1) * w.inputs, warp, w.inputs);
        }
        if (normed) {
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                i32 row = first_row + j * 8 + g;
                bool writes = blockIdx.x == 0 && row < p.rows;
                u16* out = writes ? p.norm.out + (u64)row * w.inputs : nullptr;
                norm_chunk(x[j], by, parts, w.inputs, p.norm.epsilon, out);
            }
        }
    }
    float totals[(128 * COLUMNS + 255) / 256];
    while (block < blocks) {
        if (round == 0) {
#pragma unroll
            for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) totals[i] = 0;
        }
        i32 chunk = round * WARPS + warp;
        if (chunk < chunks) {
            // With one round the inputs of the first stay.
            if (rounds > 1) {
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    i32 row = first_row + j * 8 + g;
                    load_chunk(x[j], p.x + (u64)min(row, p.rows - 1) * w.inputs, chunk, w.inputs);
                }
            }
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                float sum[4];
                multiply_chunk(sum, weights, x[j], chunk, w.tiles);
#pragma unroll
                for (int i = 0; i < 4; i++) sums[warp][g + i / 2 * 8][j * 8 + 2 * t + i % 2] = sum[i];
            }
        }
        i32 done_block = block, done_round = round;
        if (++round == rounds) {
            round = 0;
            block += gridDim.x;
        }
        chunk = round * WARPS + warp;
        if (block < blocks && chunk < chunks) load_chunk(weights, w, block, chunk);
        __syncthreads();
        i32 present = min(WARPS, chunks - done_round * WARPS);
#pragma unroll
        for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) {
            i32 index = threadIdx.x + i * 256;
            if (index < 128 * COLUMNS) {
                i32 column = index / 16, m = index % 16;
                for (i32 c = 0; c < present; c++) totals[i] += sums[c][m][column];
                i32 row = first_row + column, output = done_block * 16 + m;
                if (done_round == rounds - 1 && row < p.rows && output < w.outputs) {
                    write_product(p, row, output, totals[i]);
                }
            }
        }
        __syncthreads();
    }
}

#define LINEAR_FEW(format, name, columns) \
    KERNEL __launch_bounds__(256) linear_##name##_##columns(const __grid_constant__ LinearParams p) { \
        linear_few<format, columns>(p); \
    }
LINEAR_FEW(BF16, bf16, 1)
LINEAR_FEW(BF16, bf16, 2)
LINEAR_FEW(AFFINE4, affine4, 1)
LINEAR_FEW(AFFINE4, affine4, 2)
LINEAR_FEW(AFFINE8, affine8, 1)
LINEAR_FEW(AFFINE8, affine8, 2)

// Many rows: a block has 64 rows, whose inputs pass through shared memory, and 16 * BLOCKS outputs a warp. Each warp
// runs the chunks of its outputs one after another, which is the order in which `linear_few` adds them.

const i32 MANY_ROWS = 64;
const i32 STAGES = 3;
// 128 bytes of a row and 16 that keep lanes in different banks.
const i32 STAGE_ROW = 144;
const i32 STAGE_BYTES = MANY_ROWS * STAGE_ROW;

DEVICE void copy16(u32 to, const void* from, bool present) {
    i32 bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

// The two rows of activations that a thread copies through shared memory, null where there is none.
struct CopiedRows {
    const u16* rows[2];

    template <class Row>
    __device__ __forceinline__ void find(Row row) {
        rows[0] = row(threadIdx.x / 8);
        rows[1] = row(threadIdx.x / 8 + MANY_ROWS / 2);
    }

    __device__ __forceinline__ void copy(u32 stage, i32 tile, i32 inputs) const {
        i32 first = tile * 64 + threadIdx.x % 8 * 8;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            bool present = rows[i] != nullptr && first < inputs;
            u32 to = stage + (threadIdx.x / 8 + i * (MANY_ROWS / 2)) * STAGE_ROW + threadIdx.x % 8 * 16;
            copy16(to, present ? rows[i] + first : nullptr, present);
        }
    }
};

DEVICE void commit_copies() { asm volatile("cp.async.commit_group;"); }

DEVICE void load_inputs(Inputs& inputs, const u8* stage, i32 column) {
    const uint4* from = (const uint4*)(stage + column * STAGE_ROW + threadIdx.x % 4 * 32);
    inputs.halves[0] = from[0];
    inputs.halves[1] = from[1];
}

// One tile for 8 * COUNT columns: independent products follow each other, so that none waits for the one before.
template <int FORMAT, int BLOCKS, int COUNT>
DEVICE void multiply_columns(
    float (&sums)[BLOCKS][8][4], const Fragment<FORMAT> (&weights)[BLOCKS], const u8* stage, int first) {
    Inputs x[COUNT];
#pragma unroll
    for (int j = 0; j < COUNT; j++) load_inputs(x[j], stage, (first + j) * 8 + threadIdx.x % 32 / 4);
#pragma unroll
    for (int step = 0; step < 4; step++) {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            u32 a[4];
            weights[b].step(step, a);
#pragma unroll
            for (int j = 0; j < COUNT; j++) {
                multiply_add(
                    sums[b][first + j], a[0], a[1], a[2], a[3], x[j].pair(2 * step), x[j].pair(2 * step + 1));
            }
        }
    }
}

// totals[b][j]: products of output block `b`, whose weights `matrix(fragment, b, tile)` loads, with columns
// 8 j .. 8 j + 7, over all inputs.
template <int FORMAT, int BLOCKS, class Matrix>
DEVICE void multiply_many(
    float (&totals)[BLOCKS][8][4], u8* stages, i32 tiles, i32 inputs, i32 columns, Matrix matrix,
    const CopiedRows& rows) {
    u32 base = (u32)__cvta_generic_to_shared(stages);
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int j = 0; j < 8; j++) totals[b][j][0] = totals[b][j][1] = totals[b][j][2] = totals[b][j][3] = 0;
#pragma unroll
    for (i32 tile = 0; tile < STAGES - 1; tile++) {
        if (tile < tiles) rows.copy(base + tile * STAGE_BYTES, tile, inputs);
        commit_copies();
    }
    float sums[BLOCKS][8][4];
    Fragment<FORMAT> weights[BLOCKS];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) matrix(weights[b], b, 0);
    for (i32 tile = 0; tile < tiles; tile++) {
        if (tile % TILES_OF_CHUNK == 0) {
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                for (int j = 0; j < 8; j++) sums[b][j][0] = sums[b][j][1] = sums[b][j][2] = sums[b][j][3] = 0;
        }
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        i32 ahead = tile + STAGES - 1;
        if (ahead < tiles) rows.copy(base + ahead % STAGES * STAGE_BYTES, ahead, inputs);
        commit_copies();
        const u8* stage = stages + tile % STAGES * STAGE_BYTES;
        Fragment<FORMAT> next[BLOCKS];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) matrix(next[b], b, min(tile + 1, tiles - 1));
        if (columns <= 8) {
            multiply_columns<FORMAT, BLOCKS, 1>(sums, weights, stage, 0);
        } else if (columns <= 16) {
            multiply_columns<FORMAT, BLOCKS, 2>(sums, weights, stage, 0);
        } else {
            multiply_columns<FORMAT, BLOCKS, 4>(sums, weights, stage, 0);
            if (columns > 32) multiply_columns<FORMAT, BLOCKS, 4>(sums, weights, stage, 4);
        }
        if (tile % TILES_OF_CHUNK == TILES_OF_CHUNK - 1 || tile == tiles - 1) {
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                for (int j = 0; j < 8; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) totals[b][j][i] += sums[b][j][i];
        }
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) weights[b] = next[b];
    }
    asm volatile("cp.async.wait_all;");
}

template <int FORMAT, int BLOCKS>
DEVICE void linear_many(const LinearParams& p) {
    __shared__ __align__(16) u8 stages[STAGES * STAGE_BYTES];
    const Weights& w = p.weights;
    let_next_start();
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i32 first_row = blockIdx.x * MANY_ROWS;
    i32 last_block = ceil_div(w.outputs, 16) - 1;
    i32 first_block = (blockIdx.y * WARPS + warp) * BLOCKS;
    wait_for_inputs();
    auto matrix = [&](Fragment<FORMAT>& fragment, int b, i32 tile) {
        fragment.load(w, min(first_block + b, last_block), tile);
    };
    auto row = [&](i32 column) {
        return first_row + column < p.rows ? p.x + (u64)(first_row + column) * w.inputs : nullptr;
    };
    CopiedRows rows;
    rows.find(row);
    float totals[BLOCKS][8][4];
    multiply_many<FORMAT, BLOCKS>(totals, stages, w.tiles, w.inputs, p.rows - first_row, matrix, rows);
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                i32 output = (first_block + b) * 16 + g + i / 2 * 8;
                i32 out_row = first_row + j * 8 + 2 * t + i % 2;
                if (output < w.outputs && out_row < p.rows) write_product(p, out_row, output, totals[b][j][i]);
            }
}

#define LINEAR_MANY(format, name) \
    KERNEL __launch_bounds__(256, 1) linear_##name##_many(const __grid_constant__ LinearParams p) { \
        linear_many<format, 1>(p); \
    }
LINEAR_MANY(BF16, bf16)
LINEAR_MANY(AFFINE4, affine4)
LINEAR_MANY(AFFINE8, affine8)
