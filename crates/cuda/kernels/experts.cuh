// Mixture of experts: `route`, and the experts' feed-forward over the experts that the rows picked.

struct RouteParams {
    Weights router;
    const u16* x;
    const float* bias;
    NormFirst norm;
    Rows rows;
    // [rows, experts]
    float* logits;
    // One counter a block of 8 rows, and one for those blocks; zeros between launches.
    u32* counters;
    // Bits of the experts that were picked; zeros between launches.
    u32* picked;
    i32* experts;
    float* weights;
    i32* distinct;
    i32 picks;
    i32 normalize;
    float scale;
    i32 reserved;
};

const i32 MOST_EXPERTS = 256;
const i32 MOST_PICKS = 32;

// A number that orders as the float does, with -0 as 0.
DEVICE u32 ordered(float value) {
    u32 bits = __float_as_uint(value + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEVICE u64 warp_highest(u64 key) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        u64 other = __shfl_xor_sync(ALL, key, step);
        key = other > key ? other : key;
    }
    return key;
}

// One warp picks the experts of one row.
DEVICE void pick_experts(const RouteParams& p, i32 row, float (&scores)[MOST_EXPERTS], i32 (&picked)[MOST_PICKS]) {
    i32 lane = threadIdx.x % 32, experts = p.router.outputs;
    if (p.rows.lane[row] == NO_LANE) {
        for (i32 i = lane; i < p.picks; i += 32) p.experts[(u64)row * p.picks + i] = -1;
        return;
    }
    u64 keys[MOST_EXPERTS / 32];
#pragma unroll
    for (int k = 0; k < MOST_EXPERTS / 32; k++) {
        i32 e = lane + 32 * k;
        keys[k] = 0;
        if (e < experts) {
            float score = 1.0f / (1.0f + expf(-__ldcg(p.logits + (u64)row * experts + e)));
            scores[e] = score;
            keys[k] = (u64)ordered(score + p.bias[e]) << 32 | (u32)~e;
        }
    }
    __syncwarp();
    for (i32 pick = 0; pick < p.picks; pick++) {
        u64 best = 0;
#pragma unroll
        for (int k = 0; k < MOST_EXPERTS / 32; k++) best = keys[k] > best ? keys[k] : best;
        i32 expert = (i32)~(u32)warp_highest(best);
#pragma unroll
        for (int k = 0; k < MOST_EXPERTS / 32; k++) {
            if (expert == lane + 32 * k) keys[k] = 0;
        }
        if (lane == 0) {
            i32 place = pick;
            for (; place > 0 && picked[place - 1] > expert; place--) picked[place] = picked[place - 1];
            picked[place] = expert;
            atomicOr(p.picked + expert / 32, 1u << (expert % 32));
        }
    }
    __syncwarp();
    float total = 1.0f;
    if (p.normalize) {
        total = 0;
        for (i32 i = 0; i < p.picks; i++) total += scores[picked[i]];
        total += 1e-6f;
    }
    for (i32 i = lane; i < p.picks; i += 32) {
        p.experts[(u64)row * p.picks + i] = picked[i];
        p.weights[(u64)row * p.picks + i] = scores[picked[i]] / total * p.scale;
    }
}

// A block for 16 experts and 8 rows; the last one of 8 rows picks, the last of all counts.
template <int FORMAT>
DEVICE void route(const RouteParams& p) {
    __shared__ float sums[WARPS][16][9];
    __shared__ float parts[WARPS][8];
    __shared__ float scores[WARPS][MOST_EXPERTS];
    __shared__ i32 picked[WARPS][MOST_PICKS];
    const Weights& w = p.router;
    let_next_start();
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i32 first_row = blockIdx.y * 8, block = blockIdx.x, chunks = chunks_of(w);
    bool normed = p.norm.raw != nullptr;
    Fragment<FORMAT> weights[TILES_OF_CHUNK];
    Inputs x[TILES_OF_CHUNK], by[TILES_OF_CHUNK];
    if (warp < chunks) load_chunk(weights, w, block, warp);
    wait_for_inputs();
    if (normed) load_chunk(by, p.norm.weight, warp, w.inputs);
    const u16* from = (normed ? p.norm.raw : p.x) + (u64)min(first_row + g, p.rows.count - 1) * w.inputs;
    load_chunk(x, from, warp, w.inputs);
    if (normed) {
        bool writes = blockIdx.x == 0 && first_row + g < p.rows.count;
        u16* out = writes ? p.norm.out + (u64)(first_row + g) * w.inputs : nullptr;
        norm_chunk(x, by, parts, w.inputs, p.norm.epsilon, out);
    }
    float total = 0;
    for (i32 first = 0; first < chunks; first += WARPS) {
        i32 chunk = first + warp;
        if (chunk < chunks) {
            if (first > 0) {
                load_chunk(weights, w, block, chunk);
                load_chunk(x, from, chunk, w.inputs);
            }
            float sum[4];
            multiply_chunk(sum, weights, x, chunk, w.tiles);
#pragma unroll
            for (int i = 0; i < 4; i++) sums[warp][g + i / 2 * 8][2 * t + i % 2] = sum[i];
        }
        __syncthreads();
        if (threadIdx.x < 128) {
            i32 present = min(WARPS, chunks - first);
            for (i32 c = 0; c < present; c++) total += sums[c][threadIdx.x % 16][threadIdx.x / 16];
        }
        __syncthreads();
    }
    i32 row = first_row + threadIdx.x / 16, expert = block * 16 + threadIdx.x % 16;
    if (threadIdx.x < 128 && row < p.rows.count && expert < w.outputs) {
        p.logits[(u64)row * w.outputs + expert] = total;
    }
    if (!is_last_block(p.counters + 1 + blockIdx.y, gridDim.x)) return;
    if (first_row + warp < p.rows.count) pick_experts(p, first_row + warp, scores[warp], picked[warp]);
    if (gridDim.y > 1) {
        if (!is_last_block(p.counters, gridDim.y)) return;
    } else {
        __syncthreads();
    }
    if (warp == 0) {
        i32 words = ceil_div(w.outputs, 32);
        i32 count = 0;
        if (lane < words) {
            count = __popc(__ldcg(p.picked + lane));
            p.picked[lane] = 0;
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) count += __shfl_xor_sync(ALL, count, step);
        if (lane == 0) *p.distinct = count;
    }
}

KERNEL __launch_bounds__(256, 1) route_bf16(const __grid_constant__ RouteParams p) { route<BF16>(p); }
KERNEL __launch_bounds__(256, 1) route_affine4(const __grid_constant__ RouteParams p) { route<AFFINE4>(p); }
KERNEL __launch_bounds__(256, 1) route_affine8(const __grid_constant__ RouteParams p) { route<AFFINE8>(p); }

// Matrices of all experts of a layer, one behind the other.
struct ExpertMatrices {
    Weights first;
    u64 code_bytes;
    u64 scale_bytes;
};

DEVICE Weights of_expert(const ExpertMatrices& all, i32 expert) {
    Weights w = all.first;
    w.codes += expert * all.code_bytes;
    w.scales += expert * all.scale_bytes;
    return w;
}

// An entry is a row and one of its picks: entry = row * picks + pick.
struct ExpertParams {
    ExpertMatrices gate;
    ExpertMatrices up;
    ExpertMatrices down;
    const u16* x;
    const i32* experts;
    const float* weights;
    const i32* lanes;
    // [entries, intermediate]
    u16* active;
    // [entries, hidden], for many rows
    u16* outputs;
    u16* residual;
    // Entries in order of their experts, and where each expert's begin, for many rows.
    i32* order;
    i32* starts;
    i32 rows;
    i32 picks;
    i32 expert_count;
    i32 reserved;
};

const i32 MOST_ENTRIES = 256;

// The entries of few rows in order of experts, in shared memory.
struct SortedEntries {
    i32 expert[MOST_ENTRIES];
    i32 order[MOST_ENTRIES];
    // Where each distinct expert begins, and the end.
    i32 starts[MOST_ENTRIES + 1];
    i32 counts[WARPS];
    i32 slots;
};

DEVICE void sort_entries(SortedEntries& s, const i32* experts, i32 rows, i32 picks) {
    i32 index = threadIdx.x, warp = index / 32, lane = index % 32, entries = rows * picks;
    if (rows == 1) {
        // In order as they are.
        i32 expert = index < picks ? __ldcg(experts + index) : -1;
        if (index <= picks) s.starts[index] = s.order[index] = index;
        if (index < picks) s.expert[index] = expert;
        if (index == 0) s.slots = expert < 0 ? 0 : picks;
        __syncthreads();
        return;
    }
    i32 mine = index < entries ? __ldcg(experts + index) : -1;
    s.order[index] = mine;
    __syncthreads();
    i32 rank = 0;
    for (i32 other = 0; other < entries; other++) {
        i32 expert = s.order[other];
        rank += expert >= 0 && (expert < mine || (expert == mine && other < index));
    }
    __syncthreads();
    s.expert[index] = -1;
    __syncthreads();
    if (mine >= 0) {
        s.expert[rank] = mine;
        s.order[rank] = index;
    }
    __syncthreads();
    i32 here = s.expert[index];
    bool begins = here >= 0 && (index == 0 || s.expert[index - 1] != here);
    u32 bits = __ballot_sync(ALL, begins);
    if (lane == 0) s.counts[warp] = __popc(bits);
    i32 valid = __syncthreads_count(here >= 0);
    i32 before = 0, all = 0;
    for (i32 w = 0; w < WARPS; w++) {
        before += w < warp ? s.counts[w] : 0;
        all += s.counts[w];
    }
    if (begins) s.starts[before + __popc(bits & ((1u << lane) - 1))] = index;
    if (index == 0) {
        s.starts[all] = valid;
        s.slots = all;
    }
    __syncthreads();
}

// Few rows: a block for 16 values of one distinct expert.
template <int FORMAT, int COLUMNS>
DEVICE void gate_up_few(const ExpertParams& p) {
    __shared__ SortedEntries entries;
    __shared__ float sums[2][WARPS][16][8 * COLUMNS + 1];
    wait_for_inputs();
    // Only now: when the kernel after this one starts, the picks are there, and it can read weights at once.
    let_next_start();
    sort_entries(entries, p.experts, p.rows, p.picks);
    i32 slot = blockIdx.y, block = blockIdx.x;
    if (slot >= entries.slots) return;
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i32 begin = entries.starts[slot], end = entries.starts[slot + 1];
    i32 expert = entries.expert[begin];
    Weights gate = of_expert(p.gate, expert), up = of_expert(p.up, expert);
    i32 chunks = chunks_of(gate);
    for (i32 first = begin; first < end; first += 8 * COLUMNS) {
        float totals[2][(128 * COLUMNS + 255) / 256];
#pragma unroll
        for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) totals[0][i] = totals[1][i] = 0;
        const u16* x[COLUMNS];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            i32 entry = entries.order[min(first + j * 8 + g, end - 1)];
            x[j] = p.x + (u64)(entry / p.picks) * gate.inputs;
        }
        for (i32 round = 0; round < chunks; round += WARPS) {
            i32 chunk = round + warp;
            if (chunk < chunks) {
                Fragment<FORMAT> weights[2][TILES_OF_CHUNK];
                load_chunk(weights[0], gate, block, chunk);
                load_chunk(weights[1], up, block, chunk);
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    if (first + j * 8 >= end) break;
                    Inputs inputs[TILES_OF_CHUNK];
                    load_chunk(inputs, x[j], chunk, gate.inputs);
#pragma unroll
                    for (int which = 0; which < 2; which++) {
                        float sum[4];
                        multiply_chunk(sum, weights[which], inputs, chunk, gate.tiles);
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            sums[which][warp][g + i / 2 * 8][j * 8 + 2 * t + i % 2] = sum[i];
                        }
                    }
                }
            }
            __syncthreads();
            i32 present = min(WARPS, chunks - round);
#pragma unroll
            for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) {
                i32 index = threadIdx.x + i * 256;
                if (index < 128 * COLUMNS) {
                    for (i32 c = 0; c < present; c++) {
                        totals[0][i] += sums[0][c][index % 16][index / 16];
                        totals[1][i] += sums[1][c][index % 16][index / 16];
                    }
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) {
            i32 index = threadIdx.x + i * 256;
            i32 place = first + index / 16, output = block * 16 + index % 16;
            if (index < 128 * COLUMNS && place < end && output < gate.outputs) {
                u64 at = (u64)entries.order[place] * gate.outputs + output;
                p.active[at] = activate(narrow(totals[0][i]), narrow(totals[1][i]));
            }
        }
    }
}

// Chunks of several distinct experts that the warps of a block take at a time.
// Three for each warp.
const i32 MOST_TASKS = 3 * WARPS;

// One row, or a few: a block for 16 outputs, over all distinct experts; it adds the picks of each row to the residual.
template <int FORMAT, int COLUMNS>
DEVICE void down_few(const ExpertParams& p) {
    __shared__ SortedEntries entries;
    __shared__ float sums[MOST_TASKS][16][8 * COLUMNS];
    __shared__ float outputs[MOST_ENTRIES][16];
    let_next_start();
    // The picks are there since the kernel before this one let it start; what that one writes is waited for later.
    bool waited = false;
    sort_entries(entries, p.experts, p.rows, p.picks);
    i32 block = blockIdx.x;
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const Weights& shape = p.down.first;
    i32 chunks = chunks_of(shape), inputs_width = shape.inputs;
    // Experts whose chunks fit into one batch; an expert with more chunks than that goes through in parts.
    i32 batch = max(MOST_TASKS / chunks, 1), part = min(chunks, MOST_TASKS);
    for (i32 slot0 = 0; slot0 < entries.slots; slot0 += batch) {
        i32 slots = min(batch, entries.slots - slot0);
        i32 most = 0;
        for (i32 s = slot0; s < slot0 + slots; s++) most = max(most, entries.starts[s + 1] - entries.starts[s]);
        for (i32 column0 = 0; column0 < most; column0 += 8 * COLUMNS) {
            for (i32 chunk0 = 0; chunk0 < chunks; chunk0 += part) {
                i32 present = min(part, chunks - chunk0);
                // The weights of the next task are on their way while this one is multiplied.
                Fragment<FORMAT> weights[2][TILES_OF_CHUNK];
                i32 tasks = slots * present;
                auto load = [&](int which, i32 task) {
                    if (task >= tasks) return;
                    Weights w = of_expert(p.down, entries.expert[entries.starts[slot0 + task / present]]);
                    load_chunk(weights[which], w, block, chunk0 + task % present);
                };
                auto multiply = [&](int which, i32 task) {
                    if (task >= tasks) return;
                    i32 slot = slot0 + task / present, chunk = chunk0 + task % present;
                    i32 begin = entries.starts[slot], end = entries.starts[slot + 1];
                    if (begin + column0 >= end) return;
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++) {
                        i32 entry = entries.order[min(begin + column0 + j * 8 + g, end - 1)];
                        Inputs inputs[TILES_OF_CHUNK];
                        load_chunk(inputs, p.active + (u64)entry * inputs_width, chunk, inputs_width);
                        float sum[4];
                        multiply_chunk(sum, weights[which], inputs, chunk, shape.tiles);
#pragma unroll
                        for (int i = 0; i < 4; i++) sums[task][g + i / 2 * 8][j * 8 + 2 * t + i % 2] = sum[i];
                    }
                };
                load(0, warp);
                load(1, warp + WARPS);
                if (!waited) wait_for_inputs();
                waited = true;
                multiply(0, warp);
                load(0, warp + 2 * WARPS);
                multiply(1, warp + WARPS);
                multiply(0, warp + 2 * WARPS);
                __syncthreads();
                for (i32 index = threadIdx.x; index < slots * 128 * COLUMNS; index += 256) {
                    i32 slot = index / (128 * COLUMNS), column = index / 16 % (8 * COLUMNS), m = index % 16;
                    i32 begin = entries.starts[slot0 + slot], end = entries.starts[slot0 + slot + 1];
                    if (begin + column0 + column >= end) continue;
                    float& total = outputs[entries.order[begin + column0 + column]][m];
                    float sum = chunk0 == 0 ? 0 : total;
                    for (i32 c = 0; c < present; c++) sum += sums[slot * present + c][m][column];
                    total = sum;
                }
                __syncthreads();
            }
        }
    }
    if (!waited) wait_for_inputs();
    for (i32 index = threadIdx.x; index < p.rows * 16; index += 256) {
        i32 row = index / 16, m = index % 16, output = block * 16 + m;
        if (p.lanes[row] == NO_LANE || output >= shape.outputs) continue;
        float sum = 0;
        for (i32 pick = 0; pick < p.picks; pick++) {
            i32 entry = row * p.picks + pick;
            sum += __ldcg(p.weights + entry) * widen(narrow(outputs[entry][m]));
        }
        u16* out = p.residual + (u64)row * shape.outputs + output;
        *out = narrow(widen(*out) + widen(narrow(sum)));
    }
}

// Few rows: a block for 16 outputs of one distinct expert; `combine_experts` adds the picks.
template <int FORMAT, int COLUMNS>
DEVICE void down_each(const ExpertParams& p) {
    __shared__ SortedEntries entries;
    __shared__ float sums[WARPS][16][8 * COLUMNS + 1];
    let_next_start();
    // The picks are there since the kernel before this one let it start.
    sort_entries(entries, p.experts, p.rows, p.picks);
    i32 slot = blockIdx.y, block = blockIdx.x;
    if (slot >= entries.slots) {
        wait_for_inputs();
        return;
    }
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    i32 begin = entries.starts[slot], end = entries.starts[slot + 1];
    Weights w = of_expert(p.down, entries.expert[begin]);
    i32 chunks = chunks_of(w);
    Fragment<FORMAT> weights[TILES_OF_CHUNK];
    if (warp < chunks) load_chunk(weights, w, block, warp);
    wait_for_inputs();
    for (i32 first = begin; first < end; first += 8 * COLUMNS) {
        float totals[(128 * COLUMNS + 255) / 256];
#pragma unroll
        for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) totals[i] = 0;
        for (i32 round = 0; round < chunks; round += WARPS) {
            i32 chunk = round + warp;
            if (chunk < chunks) {
                if (round > 0 || (first > begin && chunks > WARPS)) load_chunk(weights, w, block, chunk);
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    if (first + j * 8 >= end) break;
                    i32 entry = entries.order[min(first + j * 8 + g, end - 1)];
                    Inputs inputs[TILES_OF_CHUNK];
                    load_chunk(inputs, p.active + (u64)entry * w.inputs, chunk, w.inputs);
                    float sum[4];
                    multiply_chunk(sum, weights, inputs, chunk, w.tiles);
#pragma unroll
                    for (int i = 0; i < 4; i++) sums[warp][g + i / 2 * 8][j * 8 + 2 * t + i % 2] = sum[i];
                }
            }
            __syncthreads();
            i32 present = min(WARPS, chunks - round);
#pragma unroll
            for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) {
                i32 index = threadIdx.x + i * 256;
                if (index < 128 * COLUMNS) {
                    for (i32 c = 0; c < present; c++) totals[i] += sums[c][index % 16][index / 16];
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < (128 * COLUMNS + 255) / 256; i++) {
            i32 index = threadIdx.x + i * 256;
            i32 place = first + index / 16, output = block * 16 + index % 16;
            if (index < 128 * COLUMNS && place < end && output < w.outputs) {
                p.outputs[(u64)entries.order[place] * w.outputs + output] = narrow(totals[i]);
            }
        }
    }
}

#define EXPERTS_FEW(format, name, columns) \
    KERNEL __launch_bounds__(256) gate_up_##name##_##columns(const __grid_constant__ ExpertParams p) { \
        gate_up_few<format, columns>(p); \
    } \
    KERNEL __launch_bounds__(256) down_each_##name##_##columns(const __grid_constant__ ExpertParams p) { \
        down_each<format, columns>(p); \
    }
#define EXPERTS_ONE(format, name) \
    KERNEL __launch_bounds__(256, 1) down_##name##_1(const __grid_constant__ ExpertParams p) { \
        down_few<format, 1>(p); \
    }
EXPERTS_ONE(BF16, bf16)
EXPERTS_ONE(AFFINE4, affine4)
EXPERTS_ONE(AFFINE8, affine8)
EXPERTS_FEW(BF16, bf16, 1)
EXPERTS_FEW(BF16, bf16, 2)
EXPERTS_FEW(AFFINE4, affine4, 1)
EXPERTS_FEW(AFFINE4, affine4, 2)
EXPERTS_FEW(AFFINE8, affine8, 1)
EXPERTS_FEW(AFFINE8, affine8, 2)

// Many rows: the entries in order of experts, by one block.
KERNEL __launch_bounds__(1024) group_entries(const __grid_constant__ ExpertParams p) {
    __shared__ i32 counts[MOST_EXPERTS];
    let_next_start();
    wait_for_inputs();
    i32 entries = p.rows * p.picks;
    for (i32 e = threadIdx.x; e < p.expert_count; e += blockDim.x) counts[e] = 0;
    __syncthreads();
    for (i32 entry = threadIdx.x; entry < entries; entry += blockDim.x) {
        i32 expert = p.experts[entry];
        if (expert >= 0) atomicAdd(counts + expert, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        i32 start = 0;
        for (i32 e = 0; e < p.expert_count; e++) {
            i32 count = counts[e];
            p.starts[e] = counts[e] = start;
            start += count;
        }
        p.starts[p.expert_count] = start;
    }
    __syncthreads();
    for (i32 entry = threadIdx.x; entry < entries; entry += blockDim.x) {
        i32 expert = p.experts[entry];
        if (expert >= 0) p.order[atomicAdd(counts + expert, 1)] = entry;
    }
}

// Many rows: a block for 128 values of one expert, gate and up.
template <int FORMAT>
DEVICE void gate_up_many(const ExpertParams& p) {
    __shared__ __align__(16) u8 stages[STAGES * STAGE_BYTES];
    let_next_start();
    wait_for_inputs();
    i32 expert = blockIdx.y, begin = p.starts[expert], end = p.starts[expert + 1];
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    Weights gate = of_expert(p.gate, expert), up = of_expert(p.up, expert);
    i32 block = blockIdx.x * WARPS + warp, last_block = ceil_div(gate.outputs, 16) - 1;
    auto matrix = [&](Fragment<FORMAT>& fragment, int b, i32 tile) {
        fragment.load(b == 0 ? gate : up, min(block, last_block), tile);
    };
    for (i32 first = begin; first < end; first += MANY_ROWS) {
        auto row = [&](i32 column) {
            if (first + column >= end) return (const u16*)nullptr;
            return p.x + (u64)(p.order[first + column] / p.picks) * gate.inputs;
        };
        CopiedRows rows;
        rows.find(row);
        float totals[2][8][4];
        __syncthreads();
        multiply_many<FORMAT, 2>(totals, stages, gate.tiles, gate.inputs, end - first, matrix, rows);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                i32 output = block * 16 + g + i / 2 * 8, place = first + j * 8 + 2 * t + i % 2;
                if (place < end && output < gate.outputs) {
                    u64 at = (u64)p.order[place] * gate.outputs + output;
                    p.active[at] = activate(narrow(totals[0][j][i]), narrow(totals[1][j][i]));
                }
            }
    }
}

// Many rows: a block for 256 outputs of one expert.
template <int FORMAT>
DEVICE void down_many(const ExpertParams& p) {
    __shared__ __align__(16) u8 stages[STAGES * STAGE_BYTES];
    let_next_start();
    wait_for_inputs();
    i32 expert = blockIdx.y, begin = p.starts[expert], end = p.starts[expert + 1];
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    Weights w = of_expert(p.down, expert);
    i32 block = (blockIdx.x * WARPS + warp) * 2, last_block = ceil_div(w.outputs, 16) - 1;
    auto matrix = [&](Fragment<FORMAT>& fragment, int b, i32 tile) {
        fragment.load(w, min(block + b, last_block), tile);
    };
    for (i32 first = begin; first < end; first += MANY_ROWS) {
        auto row = [&](i32 column) {
            if (first + column >= end) return (const u16*)nullptr;
            return (const u16*)p.active + (u64)p.order[first + column] * w.inputs;
        };
        CopiedRows rows;
        rows.find(row);
        float totals[2][8][4];
        __syncthreads();
        multiply_many<FORMAT, 2>(totals, stages, w.tiles, w.inputs, end - first, matrix, rows);
#pragma unroll
        for (int b = 0; b < 2; b++)
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    i32 output = (block + b) * 16 + g + i / 2 * 8, place = first + j * 8 + 2 * t + i % 2;
                    if (place < end && output < w.outputs) {
                        p.outputs[(u64)p.order[place] * w.outputs + output] = narrow(totals[b][j][i]);
                    }
                }
    }
}

#define EXPERTS_MANY(format, name) \
    KERNEL __launch_bounds__(256, 1) gate_up_##name##_many(const __grid_constant__ ExpertParams p) { \
        gate_up_many<format>(p); \
    } \
    KERNEL __launch_bounds__(256, 1) down_##name##_many(const __grid_constant__ ExpertParams p) { \
        down_many<format>(p); \
    }
EXPERTS_MANY(BF16, bf16)
EXPERTS_MANY(AFFINE4, affine4)
EXPERTS_MANY(AFFINE8, affine8)

// Many rows: adds the picks of each row to the residual.
KERNEL combine_experts(const __grid_constant__ ExpertParams p) {
    let_next_start();
    wait_for_inputs();
    i32 row = blockIdx.y, width = p.down.first.outputs;
    i32 output = blockIdx.x * blockDim.x + threadIdx.x;
    if (p.lanes[row] == NO_LANE || output >= width) return;
    float sum = 0;
    for (i32 pick = 0; pick < p.picks; pick++) {
        i32 entry = row * p.picks + pick;
        sum += p.weights[entry] * widen(p.outputs[(u64)entry * width + output]);
    }
    u16* out = p.residual + (u64)row * width + output;
    *out = narrow(widen(*out) + widen(narrow(sum)));
}
