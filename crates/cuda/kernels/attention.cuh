// Head norms with rotation and append, and attention over pages.
//
// Heads are 64 wide. A warp has 16 queries (the query heads of one key head, for one row or a few neighbours of one
// lane) and takes 64 keys at a time: a slice. Slices are merged in order into the sum of a page, pages in order into
// the sum of the row, always by `merge`, whoever computes them. Weights of values are split into two bf16 parts, so
// that they keep 16 bits.

const i32 HEAD = 64;
const i32 SLICE = 64;
const i32 SLICES = PAGE / SLICE;

struct RopeParams {
    u16* stacked;
    const u16* query_norm;
    const u16* key_norm;
    const float* cos_sin;
    const i32* pages;
    u16* keys;
    u16* values;
    Rows rows;
    i32 query_heads;
    i32 key_value_heads;
    i32 pages_per_lane;
    float epsilon;
};

// One warp a head.
KERNEL rope_append(const __grid_constant__ RopeParams p) {
    let_next_start();
    wait_for_inputs();
    i32 row = blockIdx.y, heads = p.query_heads + 2 * p.key_value_heads;
    i32 head = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, i = threadIdx.x % 32;
    i32 lane = p.rows.lane[row];
    if (lane == NO_LANE || head >= heads) return;
    i32 position = p.rows.position[row];
    u16* at = p.stacked + ((u64)row * heads + head) * HEAD;
    u16 first = at[i], second = at[i + 32];
    bool is_query = head < p.query_heads, is_value = head >= p.query_heads + p.key_value_heads;
    if (!is_value) {
        float a = widen(first), b = widen(second);
        float sum = a * a + b * b;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
        float scale = 1.0f / sqrtf(sum / (float)HEAD + p.epsilon);
        const u16* weight = is_query ? p.query_norm : p.key_norm;
        a = widen(narrow(widen(weight[i]) * widen(narrow(a * scale))));
        b = widen(narrow(widen(weight[i + 32]) * widen(narrow(b * scale))));
        float cosine = p.cos_sin[(u64)position * HEAD + i], sine = p.cos_sin[(u64)position * HEAD + 32 + i];
        first = narrow(a * cosine - b * sine);
        second = narrow(b * cosine + a * sine);
        at[i] = first;
        at[i + 32] = second;
    }
    if (is_query) return;
    i32 key_head = (head - p.query_heads) % p.key_value_heads;
    i32 page = p.pages[(u64)lane * p.pages_per_lane + position / PAGE];
    u64 slot = (((u64)page * p.key_value_heads + key_head) * PAGE + position % PAGE) * HEAD;
    u16* to = (is_value ? p.values : p.keys) + slot;
    to[i] = first;
    to[i + 32] = second;
}

struct AttentionParams {
    const u16* stacked;
    const u16* keys;
    const u16* values;
    const i32* pages;
    u16* out;
    // [row, query head, page]: highest score, weight, 64 values
    float* partials;
    // One for each row and key head; zeros between launches.
    u32* counters;
    Rows rows;
    i32 query_heads;
    i32 key_value_heads;
    i32 pages_per_lane;
    // Pages that a partial has room for.
    i32 partial_pages;
    // Rows of a block of `attention_many`, which takes those blocks whose rows are of one lane; 0 where it is not launched.
    i32 many_rows;
    i32 reserved;
};

const i32 PARTIAL = HEAD + 2;
// Partials that are read at a time.
const i32 MERGED = 8;

// 16 queries: query q is head `q % group` of row `q / group`. Lane (g, t) holds queries g and g + 8.
struct Queries {
    Inputs first, second;
    i32 key_end[2];
};

// What a lane holds of the sums of queries g and g + 8: values 16 t + j in `values[j][0]` and `[2]`, 16 t + 8 + j in
// `values[j][1]` and `[3]`.
struct Sums {
    float highest[2];
    float weight[2];
    float values[8][4];

    __device__ __forceinline__ void clear() {
        highest[0] = highest[1] = LOWEST;
        weight[0] = weight[1] = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) values[j][0] = values[j][1] = values[j][2] = values[j][3] = 0;
    }
};

// How much each of two sums counts in their merged sum.
DEVICE void merge_factors(float& highest, float other, float& mine, float& theirs) {
    float both = fmaxf(highest, other);
    mine = expf(highest - both);
    theirs = expf(other - both);
    highest = both;
}

DEVICE void merge(Sums& sums, const Sums& other, const bool (&present)[2]) {
#pragma unroll
    for (int q = 0; q < 2; q++) {
        if (!present[q]) continue;
        float mine, theirs;
        merge_factors(sums.highest[q], other.highest[q], mine, theirs);
        sums.weight[q] = sums.weight[q] * mine + other.weight[q] * theirs;
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float& value = sums.values[j][2 * q + i];
                value = value * mine + other.values[j][2 * q + i] * theirs;
            }
    }
}

// 64 keys from `first_key` on, which lie at `keys` and `values`, PITCH values from one to the next. HIDDEN when a query
// may not see all of them.
template <i32 PITCH, bool HIDDEN>
DEVICE void attend_slice(Sums& sums, const Queries& queries, const u16* keys, const u16* values, i32 first_key) {
    i32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float scores[8][4];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        scores[j][0] = scores[j][1] = scores[j][2] = scores[j][3] = 0;
        Inputs key;
        key.load(keys + (j * 8 + g) * PITCH + t * 16);
#pragma unroll
        for (int step = 0; step < 4; step++) {
            multiply_add(
                scores[j], queries.first.pair(2 * step), queries.second.pair(2 * step),
                queries.first.pair(2 * step + 1), queries.second.pair(2 * step + 1), key.pair(2 * step),
                key.pair(2 * step + 1));
        }
    }
#pragma unroll
    for (int q = 0; q < 2; q++) {
        float highest = LOWEST;
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float& score = scores[j][2 * q + i];
                bool seen = !HIDDEN || first_key + j * 8 + 2 * t + i < queries.key_end[q];
                // 1 / sqrt(64)
                score = seen ? score * 0.125f : LOWEST;
                highest = fmaxf(highest, score);
            }
        highest = fmaxf(highest, __shfl_xor_sync(ALL, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(ALL, highest, 2));
        float weight = 0;
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float& score = scores[j][2 * q + i];
                score = HIDDEN && score == LOWEST ? 0 : expf(score - highest);
                weight += score;
            }
        weight += __shfl_xor_sync(ALL, weight, 1);
        weight += __shfl_xor_sync(ALL, weight, 2);
        sums.highest[q] = highest;
        sums.weight[q] = weight;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) sums.values[j][0] = sums.values[j][1] = sums.values[j][2] = sums.values[j][3] = 0;
#pragma unroll
    for (int step = 0; step < 4; step++) {
        uint4 value[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            i32 key = step * 16 + 2 * t + i % 2 + i / 2 * 8;
            value[i] = *(const uint4*)(values + key * PITCH + 8 * g);
        }
        u32 large[4], small[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float a = scores[2 * step + i / 2][i % 2 * 2], b = scores[2 * step + i / 2][i % 2 * 2 + 1];
            large[i] = narrow_pair(a, b);
            small[i] = narrow_pair(a - low(large[i]), b - high(large[i]));
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            u32 order = j % 2 ? 0x7632 : 0x5410;
            u32 b0 = __byte_perm(word_of(value[0], j / 2), word_of(value[1], j / 2), order);
            u32 b1 = __byte_perm(word_of(value[2], j / 2), word_of(value[3], j / 2), order);
            multiply_add(sums.values[j], large[0], large[1], large[2], large[3], b0, b1);
            multiply_add(sums.values[j], small[0], small[1], small[2], small[3], b0, b1);
        }
    }
}

// Rows from `row` on that one warp takes: those of the same lane, up to the next multiple of the rows that 16 queries
// have room for; 0 when an earlier row takes this one.
DEVICE i32 rows_from(const Rows& rows, i32 row, i32 room) {
    i32 lane = rows.lane[row];
    if (lane == NO_LANE || (row % room != 0 && rows.lane[row - 1] == lane)) return 0;
    i32 count = 1;
    while ((row + count) % room != 0 && row + count < rows.count && rows.lane[row + count] == lane) count++;
    return count;
}

// Whether the `many_rows` rows from `first` on are all of one lane, as far as there are rows. For all threads of a block,
// which are no fewer than the rows.
DEVICE bool is_of_one_lane(const AttentionParams& p, i32 first) {
    i32 row = first + (i32)threadIdx.x, lane = p.rows.lane[first];
    bool is_row = (i32)threadIdx.x < p.many_rows && row < p.rows.count;
    return __syncthreads_and(lane != NO_LANE && (!is_row || p.rows.lane[row] == lane));
}

DEVICE void load_queries(Queries& q, const AttentionParams& p, i32 row, i32 count, i32 key_head) {
    i32 g = threadIdx.x % 32 / 4, group = p.query_heads / p.key_value_heads;
    u64 width = (u64)(p.query_heads + 2 * p.key_value_heads) * HEAD;
    i32 last = count * group - 1;
    i32 first = min(g, last), second = min(g + 8, last);
    const u16* stacked = p.stacked + row * width + key_head * group * HEAD;
    stacked += threadIdx.x % 4 * 16;
    q.first.load(stacked + first / group * width + first % group * HEAD);
    q.second.load(stacked + second / group * width + second % group * HEAD);
    q.key_end[0] = p.rows.key_end[row + first / group];
    q.key_end[1] = p.rows.key_end[row + second / group];
}

DEVICE u64 page_start(const AttentionParams& p, i32 lane, i32 page, i32 key_head) {
    u64 number = p.pages[(u64)lane * p.pages_per_lane + page];
    return (number * p.key_value_heads + key_head) * PAGE * HEAD;
}

DEVICE void write_values(const AttentionParams& p, i32 row, i32 head, i32 first, const float* values, float weight) {
    uint4 out;
    out.x = narrow_pair(values[0] / weight, values[1] / weight);
    out.y = narrow_pair(values[2] / weight, values[3] / weight);
    out.z = narrow_pair(values[4] / weight, values[5] / weight);
    out.w = narrow_pair(values[6] / weight, values[7] / weight);
    *(uint4*)(p.out + ((u64)row * p.query_heads + head) * HEAD + first) = out;
}

// A query and 8 of its values, as the 128 threads of a block share them when slices and pages are merged.
struct Share {
    float highest, weight, values[8];

    __device__ __forceinline__ void clear() {
        highest = LOWEST;
        weight = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) values[i] = 0;
    }

    __device__ __forceinline__ void merge(float other_highest, float other_weight, const float* other) {
        float mine, theirs;
        merge_factors(highest, other_highest, mine, theirs);
        weight = weight * mine + other_weight * theirs;
#pragma unroll
        for (int i = 0; i < 8; i++) values[i] = values[i] * mine + other[i] * theirs;
    }
};

// A block of 4 warps for a few rows of a lane and one key head, a warp for each slice of a page. Blocks z share the
// pages; the last one merges them in page order.
KERNEL __launch_bounds__(128, 2) attention_few(const __grid_constant__ AttentionParams p) {
    __shared__ float slices[SLICES][16][HEAD + 4];
    __shared__ float highest[SLICES][16], weights[SLICES][16];
    let_next_start();
    wait_for_inputs();
    i32 group = p.query_heads / p.key_value_heads, room = 16 / group;
    i32 row = blockIdx.x, key_head = blockIdx.y;
    if (p.many_rows > 0 && is_of_one_lane(p, row / p.many_rows * p.many_rows)) return;
    i32 count = rows_from(p.rows, row, room);
    if (count == 0) return;
    i32 last_end = 0;
    for (i32 i = 0; i < count; i++) last_end = max(last_end, p.rows.key_end[row + i]);
    i32 pages = ceil_div(last_end, PAGE), blocks = min((i32)gridDim.z, pages);
    if ((i32)blockIdx.z >= blocks) return;
    Queries queries;
    load_queries(queries, p, row, count, key_head);
    i32 lane = p.rows.lane[row], slice = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    // This thread's share of merging.
    i32 q = threadIdx.x / 8, first = threadIdx.x % 8 * 8;
    bool merges = q < count * group;
    i32 my_row = row + (merges ? q / group : 0), head = key_head * group + q % group;
    i32 key_end = p.rows.key_end[my_row];
    Share total;
    total.clear();
    for (i32 page = blockIdx.z; page < pages; page += blocks) {
        i32 first_key = page * PAGE + slice * SLICE;
        if (first_key < last_end) {
            u64 start = page_start(p, lane, page, key_head) + slice * SLICE * HEAD;
            Sums sums;
            attend_slice<HEAD, true>(sums, queries, p.keys + start, p.values + start, first_key);
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) slices[slice][g + i / 2 * 8][16 * t + i % 2 * 8 + j] = sums.values[j][i];
            if (t == 0) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    highest[slice][g + 8 * i] = sums.highest[i];
                    weights[slice][g + 8 * i] = sums.weight[i];
                }
            }
        }
        __syncthreads();
        if (merges && page * PAGE < key_end) {
            Share of_page;
            of_page.clear();
            for (i32 s = 0; s < SLICES; s++) {
                if (page * PAGE + s * SLICE < key_end) {
                    of_page.merge(highest[s][q], weights[s][q], slices[s][q] + first);
                }
            }
            if (blocks == 1) {
                total.merge(of_page.highest, of_page.weight, of_page.values);
            } else {
                float* out = p.partials + (((u64)my_row * p.query_heads + head) * p.partial_pages + page) * PARTIAL;
                if (first == 0) {
                    out[0] = of_page.highest;
                    out[1] = of_page.weight;
                }
#pragma unroll
                for (int i = 0; i < 8; i++) out[2 + first + i] = of_page.values[i];
            }
        }
        __syncthreads();
    }
    if (blocks > 1) {
        if (!is_last_block(p.counters + row * p.key_value_heads + key_head, blocks)) return;
        if (merges) {
            const float* from = p.partials + ((u64)my_row * p.query_heads + head) * p.partial_pages * PARTIAL;
            i32 seen = ceil_div(key_end, PAGE);
            // A long context has hundreds: many are on their way at once, and merged in order.
            for (i32 page = 0; page < seen; page += MERGED, from += MERGED * PARTIAL) {
                float highests[MERGED], weights_of[MERGED], values[MERGED][8];
#pragma unroll
                for (int k = 0; k < MERGED; k++) {
                    const float* of_page = from + (page + k < seen ? k * PARTIAL : 0);
                    highests[k] = __ldcg(of_page);
                    weights_of[k] = __ldcg(of_page + 1);
#pragma unroll
                    for (int i = 0; i < 8; i++) values[k][i] = __ldcg(of_page + 2 + first + i);
                }
#pragma unroll
                for (int k = 0; k < MERGED; k++) {
                    if (page + k < seen) total.merge(highests[k], weights_of[k], values[k]);
                }
            }
        }
    }
    if (merges) write_values(p, my_row, head, first, total.values, total.weight);
}

// Many rows of one lane: a warp for a few of them and one key head, over all of their pages.
//
// `MANY_WARPS` of attention.rs.
const i32 MANY_WARPS = 4;
// From one key to the next in shared memory: a warp's reads meet in no bank.
const i32 PITCH = HEAD + 8;

// A slice in shared memory.
struct Stage {
    u16 keys[SLICE][PITCH];
    u16 values[SLICE][PITCH];
};

// What a warp's lanes have in shared memory while they need it not: registers are what limits how many warps there are.
template <class T> struct Waiting {
    u32 words[sizeof(T) / sizeof(u32)][32];

    __device__ __forceinline__ void store(const T& value) {
        const u32* from = (const u32*)&value;
#pragma unroll
        for (int i = 0; i < sizeof(T) / sizeof(u32); i++) words[i][threadIdx.x % 32] = from[i];
    }

    __device__ __forceinline__ void load(T& value) const {
        u32* to = (u32*)&value;
#pragma unroll
        for (int i = 0; i < sizeof(T) / sizeof(u32); i++) to[i] = words[i][threadIdx.x % 32];
    }
};

// `MANY_SHARED` of attention.rs.
struct ManyShared {
    Stage stages[2];
    Waiting<Queries> queries[MANY_WARPS];
    Waiting<Sums> totals[MANY_WARPS];
};

// A warp's rows, and the sums of their queries.
struct Group {
    i32 row, count, key_head;
    i32 key_end[2];
    // After the last key that any of the queries sees, and that all of them see.
    i32 last_end, common_end;
    Waiting<Queries>& waiting;
    Waiting<Sums>& total;
    Sums of_page;

    __device__ __forceinline__ Group(ManyShared& shared, i32 row, i32 key_head)
        : row(row), key_head(key_head), waiting(shared.queries[threadIdx.x / 32]),
          total(shared.totals[threadIdx.x / 32]) {}

    // Takes at most `room` rows, and none where there is none.
    __device__ __forceinline__ void begin(const AttentionParams& p, i32 room) {
        count = min(room, p.rows.count - row);
        last_end = 0;
        if (count <= 0) return;
        Queries queries;
        load_queries(queries, p, row, count, key_head);
        waiting.store(queries);
        key_end[0] = queries.key_end[0];
        key_end[1] = queries.key_end[1];
        last_end = max(key_end[0], key_end[1]);
        common_end = min(key_end[0], key_end[1]);
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
            last_end = max(last_end, __shfl_xor_sync(ALL, last_end, step));
            common_end = min(common_end, __shfl_xor_sync(ALL, common_end, step));
        }
        of_page.clear();
        total.store(of_page);
    }

    __device__ __forceinline__ void merge_seen(Sums& sums, const Sums& other, i32 first_key) {
        bool seen[2] = {first_key < key_end[0], first_key < key_end[1]};
        merge(sums, other, seen);
    }

    // The slice from `first_key` on, before `last_end`; slices come in order.
    __device__ __forceinline__ void attend(const Stage& stage, i32 first_key) {
        Queries queries;
        waiting.load(queries);
        Sums sums;
        if (first_key + SLICE <= common_end) {
            attend_slice<PITCH, false>(sums, queries, stage.keys[0], stage.values[0], first_key);
        } else {
            attend_slice<PITCH, true>(sums, queries, stage.keys[0], stage.values[0], first_key);
        }
        merge_seen(of_page, sums, first_key);
        i32 next = first_key + SLICE;
        if (next % PAGE == 0 || next >= last_end) {
            total.load(sums);
            merge_seen(sums, of_page, first_key / PAGE * PAGE);
            total.store(sums);
            of_page.clear();
        }
    }

    __device__ __forceinline__ void write(const AttentionParams& p) {
        if (count <= 0) return;
        i32 group = p.query_heads / p.key_value_heads, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        Sums sums;
        total.load(sums);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            i32 q = g + 8 * i;
            if (q >= count * group) continue;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float values[8];
#pragma unroll
                for (int j = 0; j < 8; j++) values[j] = sums.values[j][2 * i + half];
                i32 head = key_head * group + q % group;
                write_values(p, row + q / group, head, 16 * t + 8 * half, values, sums.weight[i]);
            }
        }
    }
};

// Begins the copies of a slice by all threads of the block.
DEVICE void fetch_slice(Stage& stage, const AttentionParams& p, i32 lane, i32 slice, i32 key_head) {
    const i32 pieces = HEAD / 8;
    u64 start = page_start(p, lane, slice / SLICES, key_head) + slice % SLICES * SLICE * HEAD;
#pragma unroll
    for (int i = 0; i < SLICE * pieces / (MANY_WARPS * 32); i++) {
        i32 piece = threadIdx.x + i * MANY_WARPS * 32, key = piece / pieces, first = piece % pieces * 8;
        copy16(shared_address(&stage.keys[key][first]), p.keys + start + key * HEAD + first);
        copy16(shared_address(&stage.values[key][first]), p.values + start + key * HEAD + first);
    }
    commit_copies();
}

// A block whose rows are all of one lane: its warps share the slices. Warps without rows copy.
KERNEL __launch_bounds__(MANY_WARPS * 32, 3) attention_many(const __grid_constant__ AttentionParams p) {
    ManyShared& shared = *(ManyShared*)dynamic_memory;
    let_next_start();
    wait_for_inputs();
    i32 block_row = blockIdx.x * p.many_rows, block_end = 0, room = p.many_rows / MANY_WARPS;
    if (!is_of_one_lane(p, block_row)) return;
    for (i32 row = block_row; row < min(block_row + p.many_rows, p.rows.count); row++) {
        block_end = max(block_end, p.rows.key_end[row]);
    }
    i32 lane = p.rows.lane[block_row], slices = ceil_div(block_end, SLICE);
    Group group(shared, block_row + threadIdx.x / 32 * room, blockIdx.y);
    group.begin(p, room);
    fetch_slice(shared.stages[0], p, lane, 0, group.key_head);
    for (i32 slice = 0; slice < slices; slice++) {
        wait_for_copies<0>();
        // Nobody reads the other stage any more.
        __syncthreads();
        if (slice + 1 < slices) fetch_slice(shared.stages[(slice + 1) % 2], p, lane, slice + 1, group.key_head);
        if (slice * SLICE < group.last_end) group.attend(shared.stages[slice % 2], slice * SLICE);
    }
    group.write(p);
}
