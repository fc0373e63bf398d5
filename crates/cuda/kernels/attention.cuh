// Head norms with rotation and append, and attention over pages.
//
// Heads are 64 wide. A warp has 16 queries (the query heads of one key head, for one row or a few neighbours of one
// lane) and takes 64 keys at a time: a slice. Slices are merged in order into the sum of a page, pages in order into
// that of a chapter, chapters in order into that of the row, always by `merge`, whoever computes them. Weights of values
// are split into two bf16 parts, so that they keep 16 bits.

const i32 HEAD = 64;
const i32 SLICE = 64;
const i32 SLICES = PAGE / SLICE;
// Pages of a chapter: `CHAPTER` of attention.rs.
const i32 CHAPTER_BITS = 3;
const i32 CHAPTER = 1 << CHAPTER_BITS;
const i32 PAGE_BITS = 8;
static_assert(1 << PAGE_BITS == PAGE, "a page has 2 to this power positions");

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
    // [row, query head, page or chapter]: highest score, weight, two that are not used, 64 values
    float* partials;
    // One for each row and key head; zeros between launches.
    u32* counters;
    Rows rows;
    i32 query_heads;
    i32 key_value_heads;
    i32 pages_per_lane;
    // Pages or chapters that a row's partials have room for.
    i32 partial_units;
    // Rows of a block of `attention_many`, which takes those blocks whose rows are of one lane; 0 where it is not launched.
    i32 many_rows;
    // Whether the blocks of `attention_few` are shared out evenly among whatever parts the rows make.
    i32 is_shared;
    // Query heads of a key head, rows that 16 queries have room for, and what divides a query by the heads: a product and a
    // shift by 16.
    i32 group;
    i32 room;
    i32 group_inverse;
    i32 reserved;

    // The row of a query, of those that a warp takes, and its head among the key head's.
    __device__ __forceinline__ i32 row_of(i32 query) const { return query * group_inverse >> 16; }
    __device__ __forceinline__ i32 head_of(i32 query) const { return query - row_of(query) * group; }
};

// `PARTIAL` and `MOST_SHARED_ROWS` of attention.rs.
const i32 PARTIAL = HEAD + 4;
const i32 MOST_SHARED_ROWS = 64;

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

// From one key to the next in shared memory: a warp's reads meet in no bank.
const i32 PITCH = HEAD + 8;

// A slice in shared memory.
struct Stage {
    u16 keys[SLICE][PITCH];
    u16 values[SLICE][PITCH];
};

// What the 64 keys from `first_key` on, which lie at `keys`, weigh: score [j][2 q + i] becomes the weight of key
// 8 j + 2 t + i for query g + 8 q. HIDDEN when a query may not see all of them.
template <bool HIDDEN>
DEVICE void weigh_keys(float (&scores)[8][4], Sums& sums, const Queries& queries, const u16* keys, i32 first_key) {
    i32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
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
}

// Sums the slice's values up by those weights.
DEVICE void sum_values(Sums& sums, const float (&weights)[8][4], const u16* values) {
    i32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
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
            float a = weights[2 * step + i / 2][i % 2 * 2], b = weights[2 * step + i / 2][i % 2 * 2 + 1];
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

// A whole slice: one piece of code for each HIDDEN, or weights would pass through memory.
template <bool HIDDEN>
DEVICE void attend_slice(Sums& sums, const Queries& queries, const Stage& stage, i32 first_key) {
    float weights[8][4];
    weigh_keys<HIDDEN>(weights, sums, queries, stage.keys[0], first_key);
    sum_values(sums, weights, stage.values[0]);
}

// Whether a row is the first of those that one warp takes: rows of the same lane, up to the next multiple of the rows that
// 16 queries have room for.
DEVICE bool is_first(const Rows& rows, i32 row, i32 room) {
    i32 lane = rows.lane[row];
    return lane != NO_LANE && (row % room == 0 || rows.lane[row - 1] != lane);
}

// How many rows a warp takes from `row` on; 0 when an earlier row takes this one.
DEVICE i32 rows_from(const Rows& rows, i32 row, i32 room) {
    if (!is_first(rows, row, room)) return 0;
    i32 lane = rows.lane[row], count = 1;
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
    i32 g = threadIdx.x % 32 / 4;
    u64 width = (u64)(p.query_heads + 2 * p.key_value_heads) * HEAD;
    i32 last = count * p.group - 1;
    i32 first = min(g, last), second = min(g + 8, last);
    const u16* stacked = p.stacked + row * width + key_head * p.group * HEAD;
    stacked += threadIdx.x % 4 * 16;
    q.first.load(stacked + p.row_of(first) * width + p.head_of(first) * HEAD);
    q.second.load(stacked + p.row_of(second) * width + p.head_of(second) * HEAD);
    q.key_end[0] = p.rows.key_end[row + p.row_of(first)];
    q.key_end[1] = p.rows.key_end[row + p.row_of(second)];
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

    // As a partial, of which this thread has the values from `first` on.
    __device__ __forceinline__ void write(float* partial, i32 first) const {
        if (first == 0) *(float2*)partial = make_float2(highest, weight);
        float4* at = (float4*)(partial + 4 + first);
        at[0] = make_float4(values[0], values[1], values[2], values[3]);
        at[1] = make_float4(values[4], values[5], values[6], values[7]);
    }
};

// What a block of `attention_few` has: a few rows of a lane, a key head, and which of how many shares of their keys.
struct Part {
    // No rows where there is nothing to do.
    i32 row, count = 0, key_head, share = 0, shares = 1;

    // All threads of a warp call it.
    __device__ __forceinline__ Part(const AttentionParams& p) {
        row = blockIdx.x;
        key_head = blockIdx.y;
        if (p.is_shared && !find(p)) return;
        if (p.many_rows > 0 && is_of_one_lane(p, row / p.many_rows * p.many_rows)) return;
        count = rows_from(p.rows, row, p.room);
    }

    // Blocks in order of first rows, key heads and shares, as many shares as there are blocks for.
    __device__ __forceinline__ bool find(const AttentionParams& p) {
        u64 firsts = 0;
#pragma unroll
        for (i32 begin = 0; begin < MOST_SHARED_ROWS; begin += 32) {
            i32 candidate = begin + threadIdx.x % 32;
            bool first = candidate < p.rows.count && is_first(p.rows, candidate, p.room);
            firsts |= (u64)__ballot_sync(ALL, first) << begin;
        }
        u32 heads = p.key_value_heads, parts = __popcll(firsts) * heads;
        if (parts == 0) return false;
        u32 each = gridDim.x / parts, part = blockIdx.x / each, skipped = part / heads;
        if (part >= parts) return false;
        shares = each;
        share = blockIdx.x - part * each;
        key_head = part - skipped * heads;
#pragma unroll 1
        for (; skipped > 0; skipped--) firsts &= firsts - 1;
        row = __ffsll(firsts) - 1;
        return true;
    }
};

// How the keys of a part are shared out: by pages, or where there are many by whole chapters, which leaves fewer sums to
// merge. Units are shared in turns.
struct Units {
    i32 pages;
    // 2 to this power pages are a unit.
    i32 bits;
    // Among how many blocks they are shared, as many as there are units at most.
    i32 shares;

    __device__ __forceinline__ Units(const AttentionParams& p, i32 most_shares, i32 last_end) {
        pages = ceil_div(last_end, PAGE);
        i32 chapters = ceil_div(pages, CHAPTER);
        // Merging takes longer by about half a page's time a chapter where pages are shared.
        bool whole = most_shares == 1 || pages > p.partial_units
            || (pages > most_shares
                && ceil_div(chapters, most_shares) * CHAPTER <= ceil_div(pages, most_shares) + chapters / 2);
        bits = whole ? CHAPTER_BITS : 0;
        shares = min(most_shares, whole ? chapters : pages);
    }

    __device__ __forceinline__ bool are_chapters() const { return bits > 0; }

    // The unit of a page, and of keys how many there are.
    __device__ __forceinline__ i32 of_page(i32 page) const { return page >> bits; }
    __device__ __forceinline__ i32 of_keys(i32 keys) const { return keys + (PAGE << bits) - 1 >> PAGE_BITS + bits; }

    __device__ __forceinline__ i32 first_page(i32 unit) const { return unit << bits; }

    // The page that follows in the same share.
    __device__ __forceinline__ i32 next(i32 page) const {
        return page + 1 + (is_last(page) ? shares - 1 << bits : 0);
    }

    // Whether a unit ends with this page, and whether it does where the keys end.
    __device__ __forceinline__ bool is_last(i32 page) const { return (page + 1 & (1 << bits) - 1) == 0; }
    __device__ __forceinline__ bool ends(i32 page) const { return is_last(page) || page + 1 == pages; }
};

// `FEW_SHARED` of attention.rs.
struct FewShared {
    // A slice for each warp, and at the end the partials that are merged.
    Stage stages[SLICES];
    float values[SLICES][16][HEAD + 4];
    float highest[SLICES][16];
    float weights[SLICES][16];

    __device__ __forceinline__ void put(i32 slice, const Sums& sums) {
        i32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) values[slice][g + i / 2 * 8][16 * t + i % 2 * 8 + j] = sums.values[j][i];
        if (t != 0) return;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            highest[slice][g + 8 * i] = sums.highest[i];
            weights[slice][g + 8 * i] = sums.weight[i];
        }
    }
};

// Begins a warp's copies of 64 keys or values of a slice.
DEVICE void fetch_half(u16 (&to)[SLICE][PITCH], const u16* from) {
    i32 key = threadIdx.x % 32 / 8, first = threadIdx.x % 8 * 8;
    u32 at = shared_address(&to[key][first]);
    from += key * HEAD + first;
#pragma unroll
    for (int i = 0; i < SLICE / 4; i++) copy16(at + i * 4 * PITCH * 2, from + i * 4 * HEAD);
}

// Merges the partials of a part's rows, `units` of each, in their order. All threads call it.
struct Merging {
    const AttentionParams& p;
    FewShared& shared;
    i32 first_entry, queries;
    bool are_chapters;

    // Row and query head, in which order partials lie.
    __device__ __forceinline__ float* partial(i32 query, i32 unit) const {
        u64 entry = first_entry + p.row_of(query) * p.query_heads + p.head_of(query);
        return p.partials + (entry * p.partial_units + unit) * PARTIAL;
    }

    // The one query `mine` that the calling thread has 8 values of, from `first` on.
    __device__ __forceinline__ void run(Share& total, i32 mine, i32 first, i32 units, i32 seen) {
        const i32 pieces = PARTIAL / 4;
        i32 batch = (i32)sizeof(shared.stages) / (PARTIAL * 4) / queries;
        float* kept = (float*)shared.stages;
        Share chapter;
        chapter.clear();
#pragma unroll 1
        for (i32 begin = 0; begin < units; begin += batch) {
            i32 count = min(batch, units - begin);
#pragma unroll 1
            for (i32 query = 0; query < queries; query++) {
                u32 to = shared_address(kept + query * batch * PARTIAL);
                const float* from = partial(query, begin);
#pragma unroll 1
                for (i32 piece = threadIdx.x; piece < count * pieces; piece += blockDim.x) {
                    copy16(to + piece * 16, from + piece * 4);
                }
            }
            commit_copies();
            wait_for_copies<0>();
            __syncthreads();
            const float* from = kept + mine * batch * PARTIAL;
#pragma unroll 1
            for (i32 unit = begin; unit < min(begin + count, seen); unit++, from += PARTIAL) {
                if (are_chapters) {
                    total.merge(from[0], from[1], from + 4 + first);
                    continue;
                }
                chapter.merge(from[0], from[1], from + 4 + first);
                if ((unit + 1) % CHAPTER == 0 || unit + 1 == seen) {
                    total.merge(chapter.highest, chapter.weight, chapter.values);
                    chapter.clear();
                }
            }
            __syncthreads();
        }
    }
};

// A block of 4 warps for a few rows of a lane and one key head, a warp for each slice of a page. Blocks share the units; the
// last one merges them in order. A warp's next keys are on their way while it sums values up, its next values while it
// weighs keys.
KERNEL __launch_bounds__(128, 2) attention_few(const __grid_constant__ AttentionParams p) {
    FewShared& shared = *(FewShared*)dynamic_memory;
    let_next_start();
    wait_for_inputs();
    Part part(p);
    if (part.count == 0) return;
    i32 row = part.row, key_head = part.key_head, count = part.count;
    i32 last_end = 0;
    for (i32 i = 0; i < count; i++) last_end = max(last_end, p.rows.key_end[row + i]);
    Units units(p, part.shares, last_end);
    if (part.share >= units.shares) return;
    i32 lane = p.rows.lane[row], slice = threadIdx.x / 32;
    Stage& stage = shared.stages[slice];
    auto begins = [&](i32 page) { return page < units.pages && page * PAGE + slice * SLICE < last_end; };
    auto start_of = [&](i32 page) { return page_start(p, lane, page, key_head) + slice * SLICE * HEAD; };
    i32 page = units.first_page(part.share);
    if (begins(page)) fetch_half(stage.keys, p.keys + start_of(page));
    commit_copies();
    if (begins(page)) fetch_half(stage.values, p.values + start_of(page));
    commit_copies();
    Queries queries;
    load_queries(queries, p, row, count, key_head);
    // This thread's share of merging.
    i32 q = threadIdx.x / 8, first = threadIdx.x % 8 * 8;
    bool merges = q < count * p.group;
    i32 my_row = row + (merges ? p.row_of(q) : 0), head = key_head * p.group + p.head_of(q);
    i32 key_end = p.rows.key_end[my_row];
    Merging merging = {p, shared, row * p.query_heads + key_head * p.group, count * p.group, units.are_chapters()};
    Share total, of_unit;
    total.clear();
    of_unit.clear();
#pragma unroll 1
    while (page < units.pages) {
        i32 next = units.next(page);
        u64 next_start = begins(next) ? start_of(next) : 0;
        Sums sums;
        float weights[8][4];
        wait_for_warp<1>();
        if (begins(page)) weigh_keys<true>(weights, sums, queries, stage.keys[0], page * PAGE + slice * SLICE);
        __syncwarp();
        if (begins(next)) fetch_half(stage.keys, p.keys + next_start);
        commit_copies();
        wait_for_warp<1>();
        if (begins(page)) {
            sum_values(sums, weights, stage.values[0]);
            shared.put(slice, sums);
        }
        __syncwarp();
        if (begins(next)) fetch_half(stage.values, p.values + next_start);
        commit_copies();
        __syncthreads();
        if (merges && page * PAGE < key_end) {
            Share of_page;
            of_page.clear();
#pragma unroll 1
            for (i32 s = 0; s < SLICES && page * PAGE + s * SLICE < key_end; s++) {
                of_page.merge(shared.highest[s][q], shared.weights[s][q], shared.values[s][q] + first);
            }
            of_unit.merge(of_page.highest, of_page.weight, of_page.values);
        }
        if (units.ends(page)) {
            i32 unit = units.of_page(page);
            if (merges && units.first_page(unit) * PAGE < key_end) {
                if (units.shares == 1) total.merge(of_unit.highest, of_unit.weight, of_unit.values);
                else of_unit.write(merging.partial(q, unit), first);
            }
            of_unit.clear();
        }
        __syncthreads();
        page = next;
    }
    if (units.shares > 1) {
        if (!is_last_block(p.counters + row * p.key_value_heads + key_head, units.shares)) return;
        merging.run(total, q, first, units.of_keys(last_end), merges ? units.of_keys(key_end) : 0);
    }
    if (merges) write_values(p, my_row, head, first, total.values, total.weight);
}

// Many rows of one lane: a warp for a few of them and one key head, over all of their pages.
//
// `ATTENTION_WARPS` of attention.rs.
const i32 ATTENTION_WARPS = 4;
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

    // One of its words.
    __device__ __forceinline__ float& at(i32 i) { return ((float&)words[i][threadIdx.x % 32]); }
};

// `MANY_SHARED` of attention.rs.
struct ManyShared {
    Stage stages[2];
    Waiting<Queries> queries[ATTENTION_WARPS];
    Waiting<Sums> chapters[ATTENTION_WARPS];
};

const i32 SUMS = sizeof(Sums) / sizeof(float);

// A warp's rows, and the sums of their queries.
struct Group {
    i32 row, count, key_head;
    i32 key_end[2];
    // After the last key that any of the queries sees, and that all of them see.
    i32 last_end, common_end;
    Waiting<Queries>& waiting;
    Waiting<Sums>& chapter;
    Sums of_page;
    // The sums of whole chapters, of the same words: used once in a chapter, in memory of the thread, and by itself, for what
    // is indexed takes all that is in one piece with it there.
    float (&total)[SUMS];

    __device__ __forceinline__ Group(ManyShared& shared, float (&total)[SUMS], i32 row, i32 key_head)
        : row(row), key_head(key_head), waiting(shared.queries[threadIdx.x / 32]),
          chapter(shared.chapters[threadIdx.x / 32]), total(total) {}

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
        chapter.store(of_page);
#pragma unroll 1
        for (i32 i = 0; i < SUMS; i++) total[i] = chapter.at(i);
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
        if (first_key + SLICE <= common_end) attend_slice<false>(sums, queries, stage, first_key);
        else attend_slice<true>(sums, queries, stage, first_key);
        merge_seen(of_page, sums, first_key);
        i32 next = first_key + SLICE;
        if (next % PAGE != 0 && next < last_end) return;
        chapter.load(sums);
        merge_seen(sums, of_page, first_key / PAGE * PAGE);
        chapter.store(sums);
        of_page.clear();
        if (next % (CHAPTER * PAGE) != 0 && next < last_end) return;
        merge_chapter(first_key / (CHAPTER * PAGE) * (CHAPTER * PAGE));
        chapter.store(of_page);
    }

    // As `merge`, a word at a time.
    __device__ __forceinline__ void merge_chapter(i32 first_key) {
        float mine[2], theirs[2];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            bool seen = first_key < key_end[q];
            merge_factors(total[q], seen ? chapter.at(q) : LOWEST, mine[q], theirs[q]);
        }
#pragma unroll 1
        for (i32 i = 2; i < SUMS; i++) {
            i32 q = i < 4 ? i - 2 : i % 4 / 2;
            bool second = q > 0;
            total[i] = total[i] * (second ? mine[1] : mine[0]) + chapter.at(i) * (second ? theirs[1] : theirs[0]);
        }
    }

    __device__ __forceinline__ void write(const AttentionParams& p) {
        if (count <= 0) return;
        i32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll 1
        for (i32 i = 0; i < SUMS; i++) chapter.at(i) = total[i];
        Sums sums;
        chapter.load(sums);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            i32 q = g + 8 * i;
            if (q >= count * p.group) continue;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float values[8];
#pragma unroll
                for (int j = 0; j < 8; j++) values[j] = sums.values[j][2 * i + half];
                i32 head = key_head * p.group + p.head_of(q);
                write_values(p, row + p.row_of(q), head, 16 * t + 8 * half, values, sums.weight[i]);
            }
        }
    }
};

// Begins the copies of a slice by all threads of the block.
DEVICE void fetch_slice(Stage& stage, const AttentionParams& p, i32 lane, i32 slice, i32 key_head) {
    const i32 pieces = HEAD / 8;
    u64 start = page_start(p, lane, slice / SLICES, key_head) + slice % SLICES * SLICE * HEAD;
#pragma unroll
    for (int i = 0; i < SLICE * pieces / (ATTENTION_WARPS * 32); i++) {
        i32 piece = threadIdx.x + i * ATTENTION_WARPS * 32, key = piece / pieces, first = piece % pieces * 8;
        copy16(shared_address(&stage.keys[key][first]), p.keys + start + key * HEAD + first);
        copy16(shared_address(&stage.values[key][first]), p.values + start + key * HEAD + first);
    }
    commit_copies();
}

// A block whose rows are all of one lane: its warps share the slices. Warps without rows copy.
KERNEL __launch_bounds__(ATTENTION_WARPS * 32, 3) attention_many(const __grid_constant__ AttentionParams p) {
    ManyShared& shared = *(ManyShared*)dynamic_memory;
    let_next_start();
    wait_for_inputs();
    i32 block_row = blockIdx.x * p.many_rows, block_end = 0, room = p.many_rows / ATTENTION_WARPS;
    if (!is_of_one_lane(p, block_row)) return;
    for (i32 row = block_row; row < min(block_row + p.many_rows, p.rows.count); row++) {
        block_end = max(block_end, p.rows.key_end[row]);
    }
    i32 lane = p.rows.lane[block_row], slices = ceil_div(block_end, SLICE);
    float total[SUMS];
    Group group(shared, total, block_row + threadIdx.x / 32 * room, blockIdx.y);
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
