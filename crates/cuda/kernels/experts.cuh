// Mixture of experts: picks of a router's logits, and the experts' feed-forward over what the rows picked.

const i32 MOST_EXPERTS = 256;
const i32 MOST_PICKS = 32;

// From logits to picks.
struct PickRule {
    const float* logits;
    const float* bias;
    i32 experts;
    i32 picks;
    i32 normalize;
    float scale;
};

// A number that orders as the float does, with -0 as 0.
DEVICE u32 ordered(float value) {
    u32 bits = __float_as_uint(value + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// One warp picks a row's experts, 32 * WORDS at most, in ascending order, with their weights.
template <int WORDS>
DEVICE void pick_row(const PickRule& rule, i32 row, i32 row_lane, i32* experts, float* weights) {
    i32 lane = threadIdx.x % 32;
    // Asked for before anything is looked at. Expert lane + 32 k has key k: at least 1 until it is picked, 0 where there is
    // none.
    u32 keys[WORDS];
    float scores[WORDS], bias[WORDS];
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        i32 expert = min(lane + 32 * k, rule.experts - 1);
        scores[k] = __ldcg(rule.logits + (u64)row * rule.experts + expert);
        bias[k] = rule.bias[expert];
    }
    if (row_lane == NO_LANE) {
        if (lane < rule.picks) experts[lane] = -1;
        return;
    }
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        scores[k] = 1.0f / (1.0f + expf(-scores[k]));
        keys[k] = lane + 32 * k < rule.experts ? max(ordered(scores[k] + bias[k]), 1u) : 0;
    }
    u32 picked = 0;
#pragma unroll 1
    for (i32 pick = 0; pick < rule.picks; pick++) {
        u32 best = 0;
#pragma unroll
        for (int k = 0; k < WORDS; k++) best = max(best, keys[k]);
        u32 highest = __reduce_max_sync(ALL, best);
        // The lowest number of those with the highest score.
        u32 first = 32 * WORDS;
#pragma unroll
        for (int k = WORDS - 1; k >= 0; k--) first = keys[k] == highest ? lane + 32 * k : first;
        u32 expert = __reduce_min_sync(ALL, first);
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            if (expert == lane + 32 * k) {
                keys[k] = 0;
                picked |= 1u << k;
            }
        }
    }
    i32 before = 0;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        u32 bits = __ballot_sync(ALL, picked >> k & 1);
        if (picked >> k & 1) {
            i32 place = before + __popc(bits & ((1u << lane) - 1));
            experts[place] = lane + 32 * k;
            weights[place] = scores[k];
        }
        before += __popc(bits);
    }
    __syncwarp();
    float total = 1.0f;
    if (rule.normalize) {
        total = 0;
#pragma unroll 1
        for (i32 i = 0; i < rule.picks; i++) total += weights[i];
        total += 1e-6f;
    }
    __syncwarp();
    if (lane < rule.picks) weights[lane] = weights[lane] / total * rule.scale;
}

struct RouteParams {
    PickRule rule;
    Rows rows;
    // Counts finished blocks; 0 between launches.
    u32* counter;
    // Bits of the experts that were picked; zeros between launches.
    u32* picked;
    i32* experts;
    float* weights;
    i32* distinct;
};

// A warp a row; the last block counts.
KERNEL __launch_bounds__(256) route(const __grid_constant__ RouteParams p) {
    __shared__ i32 experts[WARPS][MOST_PICKS];
    __shared__ float weights[WARPS][MOST_PICKS];
    let_next_start();
    wait_for_inputs();
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * WARPS + warp;
    if (row < p.rows.count) {
        pick_row<MOST_EXPERTS / 32>(p.rule, row, p.rows.lane[row], experts[warp], weights[warp]);
        __syncwarp();
        if (lane < p.rule.picks) {
            i32 expert = experts[warp][lane];
            p.experts[(u64)row * p.rule.picks + lane] = expert;
            p.weights[(u64)row * p.rule.picks + lane] = weights[warp][lane];
            if (expert >= 0) atomicOr(p.picked + expert / 32, 1u << (expert % 32));
        }
    }
    if (!is_last_block(p.counter, gridDim.x)) return;
    if (warp == 0) {
        i32 count = 0;
        if (lane < MOST_EXPERTS / 32) {
            count = __popc(__ldcg(p.picked + lane));
            p.picked[lane] = 0;
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) count += __shfl_xor_sync(ALL, count, step);
        if (lane == 0) *p.distinct = count;
    }
}

// Matrices of all experts of a layer, one behind the other.
struct ExpertMatrices {
    Weights first;
    u64 code_bytes;
    u64 scale_bytes;
};

DEVICE Weights of_expert(const ExpertMatrices& all, i32 expert) {
    Weights w = all.first;
    // One matrix has fewer than 2^32 bytes, all of them may have more.
    w.codes += (u64)(u32)expert * (u32)all.code_bytes;
    w.scales += (u64)(u32)expert * (u32)all.scale_bytes;
    return w;
}

// An entry is a row and one of its picks: entry = row * picks + pick.
struct ExpertParams {
    ExpertMatrices gate;
    ExpertMatrices up;
    ExpertMatrices down;
    const u16* x;
    // The picks. With logits in the rule, kernels for few rows pick by themselves, and the first writes these.
    i32* experts;
    float* weights;
    i32* distinct;
    const i32* lanes;
    // [entries, intermediate]
    u16* active;
    // [entries, hidden]
    u16* outputs;
    u16* residual;
    // Entries in order of their experts, and where each expert's begin, for many rows.
    i32* order;
    i32* starts;
    PickRule rule;
    i32 rows;
    // Whether `order` and `starts` are there.
    i32 grouped;
    FewLayout layout;

    // The row of an entry, without a division of whole numbers. It is exact: entries are far fewer than 2^20.
    __device__ __forceinline__ i32 row_of(i32 entry) const {
        return (i32)(((float)entry + 0.5f) * (1.0f / (float)rule.picks));
    }
};

const i32 MOST_ENTRIES = 256;

// Entries in order of experts, as a block of `gate_up_some` and `down_some` finds them: of few rows by itself, of more as
// `group_entries` left them.
struct Entries {
    i32 experts[MOST_ENTRIES];
    float weights[MOST_ENTRIES];
    i32 order[MOST_ENTRIES];
    // The distinct experts (slots), where each one's entries begin, and the end.
    i32 distinct[MOST_ENTRIES];
    i32 starts[MOST_ENTRIES + 1];
    i32 counts[WARPS];
    i32 slots;

    // All threads call it; when it returns, all see what was found.
    __device__ __forceinline__ void find(const ExpertParams& p) {
        i32 warp = threadIdx.x / 32, index = threadIdx.x, count = p.rows * p.rule.picks;
        if (p.grouped) {
            i32 begin = index < p.rule.experts ? p.starts[index] : 0;
            i32 end = index < p.rule.experts ? p.starts[index + 1] : 0;
            collect(begin < end, index, begin, p.starts[p.rule.experts]);
            return;
        }
        if (p.rule.logits) {
#pragma unroll 1
            for (i32 row = warp; row < p.rows; row += WARPS) {
                // As in crates/cuda/src/experts.rs.
                pick_row<2>(p.rule, row, p.lanes[row], experts + row * p.rule.picks, weights + row * p.rule.picks);
            }
        } else if (index < count) {
            experts[index] = __ldcg(p.experts + index);
            weights[index] = __ldcg(p.weights + index);
        }
        __syncthreads();
        if (p.rows > 1) {
            sort(count);
            return;
        }
        // In order as they are.
        if (index < count) distinct[index] = experts[index];
        if (index <= count) starts[index] = order[index] = index;
        if (index == 0) slots = experts[0] < 0 ? 0 : count;
        __syncthreads();
    }

    __device__ __forceinline__ i32 entry(const ExpertParams& p, i32 place) const {
        return p.grouped ? p.order[place] : order[place];
    }

    __device__ __forceinline__ void sort(i32 count) {
        i32 index = threadIdx.x, mine = index < count ? experts[index] : -1;
        i32 rank = 0, equal_before = 0, valid = 0;
#pragma unroll 4
        for (i32 other = 0; other < count; other++) {
            i32 expert = experts[other];
            rank += expert >= 0 && expert < mine;
            equal_before += expert == mine && other < index;
            valid += expert >= 0;
        }
        if (mine >= 0) order[rank + equal_before] = index;
        // The first entry of an expert counts for a slot, at the place where its entries begin.
        __syncthreads();
        i32 first = index < valid ? order[index] : -1;
        bool begins = first >= 0 && (index == 0 || experts[order[index - 1]] != experts[first]);
        collect(begins, first >= 0 ? experts[first] : 0, index, valid);
    }

    // Gives a slot to each thread that has one, in order of threads.
    __device__ __forceinline__ void collect(bool begins, i32 expert, i32 begin, i32 end) {
        i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        u32 bits = __ballot_sync(ALL, begins);
        if (lane == 0) counts[warp] = __popc(bits);
        __syncthreads();
        i32 before = __popc(bits & ((1u << lane) - 1)), all = 0;
#pragma unroll
        for (i32 w = 0; w < WARPS; w++) {
            before += w < warp ? counts[w] : 0;
            all += counts[w];
        }
        if (begins) {
            starts[before] = begin;
            distinct[before] = expert;
        }
        if (threadIdx.x == 0) {
            starts[all] = end;
            slots = all;
        }
        __syncthreads();
    }
};

// Writes what a router's operation leaves behind.
DEVICE void write_picks(const ExpertParams& p, const Entries& entries) {
    i32 i = threadIdx.x;
    if (i < p.rows * p.rule.picks) {
        p.experts[i] = entries.experts[i];
        p.weights[i] = entries.weights[i];
    }
    if (threadIdx.x == 0) *p.distinct = entries.slots;
}

// A strip of a slot's expert, as a block goes from one to the next that is a multiple of the grid further on.
struct SlotStrip {
    i32 slot;
    i32 strip;

    __device__ __forceinline__ SlotStrip(i32 strips) {
        slot = blockIdx.x / strips;
        strip = blockIdx.x % strips;
    }

    __device__ __forceinline__ void advance(i32 strips) {
        strip += gridDim.x;
        while (strip >= strips) {
            strip -= strips;
            slot++;
        }
    }
};

// Some rows an expert: a block has a strip of a slot at a time, of gate and up together or one after the other.
template <int FORMAT, int COLUMNS>
DEVICE void gate_up_some(const ExpertParams& p) {
    const int TOGETHER = Slots<FORMAT>::TOGETHER, PIECES = 2 / TOGETHER;
    __shared__ Entries entries;
    __shared__ WarpSums<COLUMNS, TOGETHER> sums;
    const Weights& shape = p.gate.first;
    wait_for_inputs();
    // Only now: when the kernel after this one starts, the logits or picks are there, and it can fetch weights at once.
    let_next_start();
    Own own(p.layout);
    i32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, column = threadIdx.x / 16, m = threadIdx.x % 16;
    i32 strips = ceil_div(shape.outputs, 16), tiles = shape.tiles - warp * TILES_OF_CHUNK;
    bool staged = p.layout.row_bytes > 0;
#pragma unroll 1
    for (i32 row = 0; row < p.rows && staged; row++) {
        own.fetch_row(row, p.x + (u64)row * shape.inputs, warp, shape.inputs);
    }
    entries.find(p);
    if (p.rule.logits && blockIdx.x == 0) write_picks(p, entries);
    SlotStrip next(strips), now(strips);
    i32 next_piece = 0;
    auto fetch = [&]() {
        if (next.slot < entries.slots && tiles > 0) {
            i32 expert = entries.distinct[next.slot];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                bool is_up = (next_piece * TOGETHER + k) % 2 == 1;
                own.fetch<FORMAT, TOGETHER>(next_piece, of_expert(is_up ? p.up : p.gate, expert), next.strip, warp, k);
            }
        }
        commit_copies();
        next_piece++;
        if (next_piece % PIECES == 0) next.advance(strips);
    };
#pragma unroll 1
    for (i32 i = 0; i < Slots<FORMAT>::EXPERT_STAGES; i++) fetch();
    i32 piece = 0, turn = 0;
#pragma unroll 1
    for (; now.slot < entries.slots; now.advance(strips)) {
        i32 begin = entries.starts[now.slot], end = entries.starts[now.slot + 1];
        i32 output = now.strip * 16 + m;
#pragma unroll 1
        for (int part = 0; part < PIECES; part++, piece++) {
            wait_for_warp<Slots<FORMAT>::EXPERT_STAGES - 1>();
#pragma unroll 1
            for (i32 first = begin; first < end; first += 8 * COLUMNS, turn++) {
                const u8* x[COLUMNS];
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    i32 row = p.row_of(entries.entry(p, min(first + j * 8 + g, end - 1)));
                    x[j] = staged ? own.row(row) : (const u8*)(p.x + (u64)row * shape.inputs + warp * 256);
                }
                if (tiles > 0) {
                    const u8* from = own.slot<FORMAT, TOGETHER>(piece);
                    sums.template multiply<FORMAT>(turn, end - first, from, x, tiles, shape);
                }
                __syncthreads();
                if (first + column < end && column < 8 * COLUMNS && output < shape.outputs) {
                    float total = sums.add(0, turn, chunks_of(shape), m, column);
                    u16* at = p.active + (u64)entries.entry(p, first + column) * shape.outputs + output;
                    if (TOGETHER == 2) {
                        float up = sums.add(0, turn, chunks_of(shape), 16 + m, column);
                        *at = activate(narrow(total), narrow(up));
                    } else {
                        // The same thread has put gate's there.
                        *at = part == 1 ? activate(*at, narrow(total)) : narrow(total);
                    }
                }
                sums.release();
            }
            __syncwarp();
            fetch();
        }
    }
}

// Some rows an expert: a block has a few strips of a slot at a time; `combine_experts` adds the picks.
template <int FORMAT, int COLUMNS>
DEVICE void down_some(const ExpertParams& p) {
    const int TOGETHER = Slots<FORMAT>::TOGETHER;
    __shared__ Entries entries;
    __shared__ WarpSums<COLUMNS, TOGETHER> sums;
    const Weights& shape = p.down.first;
    let_next_start();
    // The logits, picks or groups are there since the kernel before this one let it start.
    entries.find(p);
    Own own(p.layout);
    i32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, column = threadIdx.x / 16, m = threadIdx.x % 16;
    i32 strips = ceil_div(shape.outputs, 16), tiles = shape.tiles - warp * TILES_OF_CHUNK;
    i32 bundles = ceil_div(strips, TOGETHER);
    SlotStrip next(bundles), now(bundles);
    i32 next_piece = 0;
    auto fetch = [&]() {
        if (next.slot < entries.slots && tiles > 0) {
            const Weights w = of_expert(p.down, entries.distinct[next.slot]);
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                i32 strip = min(next.strip * TOGETHER + k, strips - 1);
                own.fetch<FORMAT, TOGETHER>(next_piece, w, strip, warp, k);
            }
        }
        commit_copies();
        next_piece++;
        next.advance(bundles);
    };
#pragma unroll 1
    for (i32 i = 0; i < Slots<FORMAT>::EXPERT_STAGES; i++) fetch();
    wait_for_inputs();
    i32 piece = 0, turn = 0;
#pragma unroll 1
    for (; now.slot < entries.slots; now.advance(bundles), piece++) {
        i32 begin = entries.starts[now.slot], end = entries.starts[now.slot + 1];
        wait_for_warp<Slots<FORMAT>::EXPERT_STAGES - 1>();
#pragma unroll 1
        for (i32 first = begin; first < end; first += 8 * COLUMNS, turn++) {
            const u8* x[COLUMNS];
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                i32 entry = entries.entry(p, min(first + j * 8 + g, end - 1));
                x[j] = (const u8*)(p.active + (u64)entry * shape.inputs + warp * 256);
            }
            if (tiles > 0) {
                const u8* from = own.slot<FORMAT, TOGETHER>(piece);
                sums.template multiply<FORMAT>(turn, end - first, from, x, tiles, shape);
            }
            __syncthreads();
            if (first + column < end && column < 8 * COLUMNS) {
                u16* at = p.outputs + (u64)entries.entry(p, first + column) * shape.outputs;
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                    i32 output = (now.strip * TOGETHER + k) * 16 + m;
                    float total = sums.add(0, turn, chunks_of(shape), k * 16 + m, column);
                    if (output < shape.outputs) at[output] = narrow(total);
                }
            }
            sums.release();
        }
        __syncwarp();
        fetch();
    }
}

// A chunk of a pick is a task; a block of `down_one` has this many at most, and this many warps.
const i32 MOST_TASKS = 256;
const i32 TASK_WARPS = 24;

// One row: a block for a strip of all picks, which it adds to the residual. Each warp has a task at a time.
template <int FORMAT>
DEVICE void down_one(const ExpertParams& p) {
    __shared__ Entries entries;
    __shared__ float sums[MOST_TASKS][16];
    __shared__ float outputs[MOST_PICKS][16];
    const Weights& shape = p.down.first;
    let_next_start();
    // The logits or picks are there since the kernel before this one let it start.
    entries.find(p);
    Own own(p.layout);
    i32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, warps = blockDim.x / 32;
    i32 chunks = chunks_of(shape), tasks = entries.slots * chunks;
    i32 output = blockIdx.x * 16 + threadIdx.x;
    bool writes = threadIdx.x < 16 && tasks > 0 && output < shape.outputs;
    u16 before = 0;
#pragma unroll 1
    for (i32 task = warp; task < tasks; task += warps) {
        i32 pick = task / chunks, chunk = task - pick * chunks;
        own.fetch<FORMAT>(0, of_expert(p.down, entries.experts[pick]), blockIdx.x, chunk);
        if (task == warp) {
            wait_for_inputs();
            if (writes) before = p.residual[output];
        }
        own.fetch_row(0, p.active + (u64)pick * shape.inputs, chunk, shape.inputs);
        commit_copies();
        wait_for_warp<0>();
        const u8* x[1] = {own.row(0)};
        float sum[1][4];
        multiply_chunk<FORMAT, 1>(sum, own.slot<FORMAT>(0), x, shape.tiles - chunk * TILES_OF_CHUNK, shape);
        if (t == 0) {
            sums[task][g] = sum[0][0];
            sums[task][g + 8] = sum[0][2];
        }
        __syncwarp();
    }
    if (warp >= tasks) wait_for_inputs();
    __syncthreads();
    for (i32 index = threadIdx.x; index < entries.slots * 16; index += blockDim.x) {
        float total = 0;
#pragma unroll 1
        for (i32 c = 0; c < chunks; c++) total += sums[index / 16 * chunks + c][index % 16];
        outputs[index / 16][index % 16] = total;
    }
    __syncthreads();
    if (!writes) return;
    float sum = 0;
#pragma unroll 1
    for (i32 pick = 0; pick < entries.slots; pick++) {
        sum += entries.weights[pick] * widen(narrow(outputs[pick][threadIdx.x]));
    }
    p.residual[output] = narrow(widen(before) + widen(narrow(sum)));
}

// Blocks that a multiprocessor has memory for at most.
const i32 SOME_BLOCKS = ROOMY ? 3 : 2;

#define EXPERTS_SOME(format, name, columns) \
    KERNEL __launch_bounds__(256, SOME_BLOCKS) gate_up_some_##name##_##columns(const __grid_constant__ ExpertParams p) { \
        gate_up_some<format, columns>(p); \
    } \
    KERNEL __launch_bounds__(256, SOME_BLOCKS) down_some_##name##_##columns(const __grid_constant__ ExpertParams p) { \
        down_some<format, columns>(p); \
    }
#define EXPERTS_ONE(format, name) \
    KERNEL __launch_bounds__(32 * TASK_WARPS, 1) down_one_##name(const __grid_constant__ ExpertParams p) { down_one<format>(p); }
EACH_FORMAT(EXPERTS_ONE)
EACH_FORMAT_AND_COLUMNS(EXPERTS_SOME)

// The entries in order of experts, by one block.
KERNEL __launch_bounds__(1024) group_entries(const __grid_constant__ ExpertParams p) {
    __shared__ i32 counts[MOST_EXPERTS];
    let_next_start();
    wait_for_inputs();
    i32 entries = p.rows * p.rule.picks;
    for (i32 e = threadIdx.x; e < p.rule.experts; e += blockDim.x) counts[e] = 0;
    __syncthreads();
    for (i32 entry = threadIdx.x; entry < entries; entry += blockDim.x) {
        i32 expert = p.experts[entry];
        if (expert >= 0) atomicAdd(counts + expert, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        i32 start = 0;
        for (i32 e = 0; e < p.rule.experts; e++) {
            i32 count = counts[e];
            p.starts[e] = counts[e] = start;
            start += count;
        }
        p.starts[p.rule.experts] = start;
    }
    __syncthreads();
    for (i32 entry = threadIdx.x; entry < entries; entry += blockDim.x) {
        i32 expert = p.experts[entry];
        if (expert >= 0) p.order[atomicAdd(counts + expert, 1)] = entry;
    }
}

// Many rows: a block for 64 values of one expert, whose gate and up a warp has as its two strips.
template <int FORMAT>
DEVICE void gate_up_many(const ExpertParams& p) {
    let_next_start();
    wait_for_inputs();
    i32 expert = blockIdx.y, begin = p.starts[expert], end = p.starts[expert + 1];
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const Weights& shape = p.gate.first;
    i32 strip = blockIdx.x * MANY_WARPS + warp, outputs = shape.outputs;
    StripPair<FORMAT> pair;
    pair.set(0, of_expert(p.gate, expert), strip);
    pair.set(1, of_expert(p.up, expert), strip);
    for (i32 first = begin; first < end; first += MANY_ROWS) {
        CopiedRows<FORMAT> rows;
        rows.find(p.x, shape.inputs, [&](i32 column) { return p.row_of(p.order[min(first + column, end - 1)]); });
        ManySums totals;
        __syncthreads();
        multiply_many(totals, pair, shape, end - first, rows);
        for_each_sum([&](int k, int j, int i) {
            i32 output = strip * 16 + g + i / 2 * 8, place = first + j * 8 + 2 * t + i % 2;
            if (k == 0 && place < end && output < outputs) {
                u64 at = (u64)p.order[place] * outputs + output;
                p.active[at] = activate(narrow(totals[0][j][i]), narrow(totals[1][j][i]));
            }
        });
    }
}

// Many rows: a block for 128 outputs of one expert.
template <int FORMAT>
DEVICE void down_many(const ExpertParams& p) {
    let_next_start();
    wait_for_inputs();
    i32 expert = blockIdx.y, begin = p.starts[expert], end = p.starts[expert + 1];
    i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const Weights w = of_expert(p.down, expert);
    i32 strip = (blockIdx.x * MANY_WARPS + warp) * MANY_STRIPS;
    for (i32 first = begin; first < end; first += MANY_ROWS) {
        CopiedRows<FORMAT> rows;
        rows.find(p.active, w.inputs, [&](i32 column) { return p.order[min(first + column, end - 1)]; });
        ManySums totals;
        __syncthreads();
        multiply_many(totals, neighbours<FORMAT>(w, strip), w, end - first, rows);
        for_each_sum([&](int k, int j, int i) {
            i32 output = (strip + k) * 16 + g + i / 2 * 8, place = first + j * 8 + 2 * t + i % 2;
            if (place < end && output < w.outputs) {
                p.outputs[(u64)p.order[place] * w.outputs + output] = narrow(totals[k][j][i]);
            }
        });
    }
}

#define EXPERTS_MANY(format, name) \
    KERNEL __launch_bounds__(MANY_WARPS * 32, 2) gate_up_##name##_many(const __grid_constant__ ExpertParams p) { \
        gate_up_many<format>(p); \
    } \
    KERNEL __launch_bounds__(MANY_WARPS * 32, 2) down_##name##_many(const __grid_constant__ ExpertParams p) { \
        down_many<format>(p); \
    }
EACH_FORMAT(EXPERTS_MANY)

// Many rows: adds the picks of each row to the residual.
KERNEL combine_experts(const __grid_constant__ ExpertParams p) {
    let_next_start();
    wait_for_inputs();
    i32 row = blockIdx.y, width = p.down.first.outputs;
    i32 output = blockIdx.x * blockDim.x + threadIdx.x;
    if (p.lanes[row] == NO_LANE || output >= width) return;
    float sum = 0;
    for (i32 pick = 0; pick < p.rule.picks; pick++) {
        i32 entry = row * p.rule.picks + pick;
        sum += p.weights[entry] * widen(p.outputs[(u64)entry * width + output]);
    }
    u16* out = p.residual + (u64)row * width + output;
    *out = narrow(widen(*out) + widen(narrow(sum)));
}
