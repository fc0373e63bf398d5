// Draws, acceptance, and the drafter's rows and chain.

struct DrawRow {
    u32 seed_low;
    u32 seed_high;
    u32 choice;
    u32 position;
    float temperature;
    u32 top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    i32 lane;
    u32 flags;
    i32 mask;
    i32 first_draft_row;
    i32 draft_rows;
};

const u32 FLAG_COUNTS = 1;
const u32 FLAG_LOGIT_BIAS = 2;
const u32 PROMPT_SEEN = 1u << 31;

struct DrawParams {
    const float* logits;
    const DrawRow* rules;
    // Tokens of the rows that hold drafts; for a chain, the drafts so far.
    const i32* draft_tokens;
    const u32* counts;
    const float* logit_bias;
    const u32* masks;
    i32* drawn;
    // The best of each part of a row.
    u64* parts;
    u32* counters;
    // For a chain: the block's rows.
    const i32* block_lane;
    const i32* block_position;
    i32 vocabulary;
    // For a chain: which step, and how many rows a block has; otherwise -1.
    i32 step;
    i32 size;
    i32 reserved;
};

DEVICE u32 philox(const DrawRow& rule, u32 token) {
    u32 key0 = rule.seed_low, key1 = rule.seed_high;
    u32 a = rule.position, b = token, c = rule.choice, d = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 first_high = __umulhi(0xD2511F53u, a), first_low = 0xD2511F53u * a;
        u32 second_high = __umulhi(0xCD9E8D57u, c), second_low = 0xCD9E8D57u * c;
        a = second_high ^ b ^ key0;
        b = second_low;
        c = first_high ^ d ^ key1;
        d = first_low;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return a;
}

DEVICE float gumbel(const DrawRow& rule, u32 token) {
    float uniform = ((float)(philox(rule, token) >> 9) + 0.5f) * (1.0f / 8388608.0f);
    return -logf(-logf(uniform));
}

// What a draw of one row reads.
struct Draw {
    const float* logits;
    const i32* drafts;
    const u32* counts;
    const float* bias;
    const u32* mask;
    DrawRow rule;

    __device__ __forceinline__ bool allows(i32 token) const {
        return mask == nullptr || (mask[token / 32] >> (token % 32) & 1);
    }

    // After logit bias, penalties and temperature.
    __device__ __forceinline__ float value(i32 token) const {
        float value = __ldcg(logits + token);
        if (rule.flags & FLAG_LOGIT_BIAS) value += bias[token];
        if (rule.flags & FLAG_COUNTS) {
            u32 count = counts[token];
            u32 in_reply = count & ~PROMPT_SEEN;
            for (i32 i = 0; i < rule.draft_rows; i++) in_reply += drafts[i] == token;
            if (count & PROMPT_SEEN || in_reply > 0) {
                value = value > 0 ? value / rule.repetition_penalty : value * rule.repetition_penalty;
            }
            if (in_reply > 0) {
                value -= rule.presence_penalty;
                value -= rule.frequency_penalty * (float)in_reply;
            }
        }
        return rule.temperature == 0 ? value : value / rule.temperature;
    }

    // Orders by value (descending) and token (ascending); 0 for what the mask forbids.
    __device__ __forceinline__ u64 key(i32 token) const {
        return allows(token) ? (u64)ordered(value(token)) << 32 | (u32)~token : 0;
    }

    __device__ __forceinline__ u64 noisy_key(i32 token, float value) const {
        return (u64)ordered(value + gumbel(rule, token)) << 32 | (u32)~token;
    }

    __device__ __forceinline__ bool filters() const {
        return rule.temperature != 0 && (rule.top_k > 0 || rule.top_p < 1.0f || rule.min_p > 0);
    }
};

DEVICE float value_of_key(u64 key) {
    u32 bits = (u32)(key >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

const i32 DRAW_THREADS = 512;

DEVICE u64 block_highest(u64 key) {
    __shared__ u64 of_warps[DRAW_THREADS / 32];
    key = warp_highest(key);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = key;
    __syncthreads();
    u64 best = 0;
    for (i32 i = 0; i < DRAW_THREADS / 32; i++) best = of_warps[i] > best ? of_warps[i] : best;
    return best;
}

// Parts of the whole, as whole numbers, so that their sum has no order.
DEVICE u64 mass_of(u64 key, float highest) {
    return (u64)((double)expf(value_of_key(key) - highest) * 1099511627776.0);
}

// The key at which what lies at or above it first comes to `target`, in tokens or in mass, among keys of at least
// `floor`; `floor` when all of them do not come to it.
template <bool MASS>
DEVICE u64 reach(const Draw& draw, i32 vocabulary, u64 floor, float highest, u64 target) {
    __shared__ u64 buckets[256];
    __shared__ u64 chosen_prefix, chosen_above;
    __shared__ i32 found;
    u64 prefix = 0, above = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        __syncthreads();
        if (threadIdx.x < 256) buckets[threadIdx.x] = 0;
        __syncthreads();
        for (i32 token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) {
            u64 key = draw.key(token);
            if (key == 0 || key < floor) continue;
            if (shift < 56 && key >> (shift + 8) != prefix) continue;
            atomicAdd(buckets + (key >> shift & 255), MASS ? mass_of(key, highest) : 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            found = 0;
            u64 sum = above;
            for (int bucket = 255; bucket >= 0; bucket--) {
                if (buckets[bucket] > 0 && sum + buckets[bucket] >= target) {
                    chosen_prefix = prefix << 8 | bucket;
                    chosen_above = sum;
                    found = 1;
                    break;
                }
                sum += buckets[bucket];
            }
        }
        __syncthreads();
        if (!found) return floor;
        prefix = chosen_prefix;
        above = chosen_above;
    }
    return prefix;
}

DEVICE u64 total_mass(const Draw& draw, i32 vocabulary, u64 floor, float highest) {
    __shared__ u64 total;
    __syncthreads();
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    u64 mine = 0;
    for (i32 token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) {
        u64 key = draw.key(token);
        if (key != 0 && key >= floor) mine += mass_of(key, highest);
    }
    atomicAdd(&total, mine);
    __syncthreads();
    return total;
}

// A draw with top-k, top-p or min-p, by one block.
DEVICE u64 draw_filtered(const Draw& draw, i32 vocabulary) {
    u64 best = 0;
    for (i32 token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) {
        u64 key = draw.key(token);
        best = key > best ? key : best;
    }
    float highest = value_of_key(block_highest(best));
    u64 floor = 1;
    if (draw.rule.top_k > 0) floor = reach<false>(draw, vocabulary, floor, highest, draw.rule.top_k);
    if (draw.rule.top_p < 1.0f) {
        double total = (double)total_mass(draw, vocabulary, floor, highest);
        double target = ceil((double)draw.rule.top_p * total);
        floor = reach<true>(draw, vocabulary, floor, highest, target < 1.0 ? 1 : (u64)target);
    }
    best = 0;
    for (i32 token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) {
        u64 key = draw.key(token);
        if (key == 0 || key < floor) continue;
        float value = value_of_key(key);
        if (!(expf(value - highest) >= draw.rule.min_p)) continue;
        u64 noisy = draw.noisy_key(token, value);
        best = noisy > best ? noisy : best;
    }
    return block_highest(best);
}

// Blocks x share a row's vocabulary; the last one finishes.
KERNEL __launch_bounds__(DRAW_THREADS) draw(const __grid_constant__ DrawParams p) {
    let_next_start();
    wait_for_inputs();
    i32 index = blockIdx.y;
    bool chain = p.step >= 0;
    i32 row = chain ? index * p.size + p.step : index;
    Draw draw;
    draw.rule = p.rules[index];
    if (draw.rule.lane == NO_LANE || (chain && p.block_lane[index * p.size] == NO_LANE)) {
        if (!chain && blockIdx.x == 0 && threadIdx.x == 0) p.drawn[row] = -1;
        return;
    }
    if (chain) {
        draw.rule.position = p.block_position[row] + 1;
        draw.rule.first_draft_row = index * p.size;
        draw.rule.draft_rows = p.step;
    }
    draw.drafts = p.draft_tokens + draw.rule.first_draft_row;
    draw.logits = p.logits + (u64)index * p.vocabulary;
    draw.counts = p.counts + (u64)draw.rule.lane * p.vocabulary;
    draw.bias = p.logit_bias + (u64)draw.rule.lane * p.vocabulary;
    draw.mask = draw.rule.mask < 0 ? nullptr : p.masks + (u64)draw.rule.mask * ceil_div(p.vocabulary, 32);
    bool filters = draw.filters();
    if (!filters) {
        u64 best = 0;
        i32 stride = gridDim.x * DRAW_THREADS;
        for (i32 token = blockIdx.x * DRAW_THREADS + threadIdx.x; token < p.vocabulary; token += stride) {
            if (!draw.allows(token)) continue;
            float value = draw.value(token);
            u64 key = draw.rule.temperature == 0 ? (u64)ordered(value) << 32 | (u32)~token
                                                 : draw.noisy_key(token, value);
            best = key > best ? key : best;
        }
        best = block_highest(best);
        if (threadIdx.x == 0) p.parts[(u64)index * gridDim.x + blockIdx.x] = best;
    }
    if (!is_last_block(p.counters + index, gridDim.x)) return;
    u64 best = 0;
    if (filters) best = draw_filtered(draw, p.vocabulary);
    else
        for (i32 i = 0; i < gridDim.x; i++) {
            u64 key = __ldcg(p.parts + (u64)index * gridDim.x + i);
            best = key > best ? key : best;
        }
    if (threadIdx.x == 0) p.drawn[row] = (i32)~(u32)best;
}

struct LogProbabilityParams {
    const float* logits;
    const i32* drawn;
    const i32* index;
    // [entries, 1 + ALTERNATIVES]
    i32* tokens;
    float* values;
    i32 vocabulary;
    i32 reserved;
};

const i32 ALTERNATIVES = 20;

// The highest key below `limit` of the tokens that belong to this thread; 0 when there is none.
DEVICE u64 next_of_thread(const float* logits, i32 vocabulary, u64 limit) {
    u64 best = 0;
    for (i32 token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) {
        float value = __ldcg(logits + token);
        u64 key = value == LOWEST ? 0 : (u64)ordered(value) << 32 | (u32)~token;
        if (key < limit && key > best) best = key;
    }
    return best;
}

// The sum of e^(x - highest): each thread its tokens, then the threads in their order.
DEVICE double total_weight(const float* logits, i32 vocabulary, float highest) {
    __shared__ double of_threads[DRAW_THREADS];
    double mine = 0;
    for (i32 token = threadIdx.x; token < vocabulary; token += DRAW_THREADS) {
        mine += (double)expf(__ldcg(logits + token) - highest);
    }
    of_threads[threadIdx.x] = mine;
    for (i32 half = DRAW_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) of_threads[threadIdx.x] += of_threads[threadIdx.x + half];
    }
    __syncthreads();
    return of_threads[0];
}

// A block an entry. Each thread keeps the best of its tokens that is not listed yet, so that only the thread whose
// token was taken looks again.
KERNEL __launch_bounds__(DRAW_THREADS) log_probabilities(const __grid_constant__ LogProbabilityParams p) {
    let_next_start();
    wait_for_inputs();
    i32 entry = blockIdx.x, row = p.index[entry];
    if (row < 0) return;
    const float* logits = p.logits + (u64)row * p.vocabulary;
    i32* tokens = p.tokens + (u64)entry * (1 + ALTERNATIVES);
    float* values = p.values + (u64)entry * (1 + ALTERNATIVES);
    u64 mine = next_of_thread(logits, p.vocabulary, ~0ull);
    u64 best = block_highest(mine);
    float highest = value_of_key(best);
    float ln_sum = logf((float)total_weight(logits, p.vocabulary, highest));
    if (threadIdx.x == 0) {
        i32 token = p.drawn[row];
        tokens[0] = token;
        values[0] = token < 0 ? LOWEST : (logits[token] - highest) - ln_sum;
    }
    for (i32 place = 1; place <= ALTERNATIVES; place++) {
        if (threadIdx.x == 0) {
            i32 token = (i32)~(u32)best;
            tokens[place] = best == 0 ? -1 : token;
            values[place] = best == 0 ? LOWEST : (logits[token] - highest) - ln_sum;
        }
        if (best != 0 && mine == best) mine = next_of_thread(logits, p.vocabulary, best);
        best = block_highest(mine);
    }
}

struct DeviceWindow {
    i32 lane;
    i32 first_row;
    i32 row_count;
    i32 draft_count;
    i32 first_draw;
    i32 block;
    i32 counted;
    i32 previous;
};

struct Accepted {
    i32 drafts;
    i32 anchor;
    i32 length;
    i32 block;
};

struct HeldParams {
    const DeviceWindow* windows;
    const Accepted* accepted;
    const i32* drafts;
    i32* token;
    i32 windows_count;
    i32 size;
};

// One block a window.
KERNEL held_tokens(const __grid_constant__ HeldParams p) {
    let_next_start();
    wait_for_inputs();
    DeviceWindow window = p.windows[blockIdx.x];
    if (window.lane == NO_LANE || window.previous < 0) return;
    Accepted before = p.accepted[window.previous];
    for (i32 i = threadIdx.x; i <= window.draft_count; i += blockDim.x) {
        p.token[window.first_row + i] = i == 0 ? before.anchor : p.drafts[before.block * p.size + i - 1];
    }
}

struct AcceptParams {
    const DeviceWindow* windows;
    const i32* drawn;
    u32* counts;
    Accepted* accepted;
    Rows rows;
    i32 windows_count;
    i32 vocabulary;
};

// One thread a window.
KERNEL accept(const __grid_constant__ AcceptParams p) {
    let_next_start();
    wait_for_inputs();
    i32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= p.windows_count) return;
    DeviceWindow window = p.windows[index];
    Accepted out = {0, -1, 0, -1};
    if (window.lane != NO_LANE) {
        i32 given = window.row_count - window.draft_count;
        out.length = p.rows.position[window.first_row] + given;
        if (window.first_draw >= 0) {
            const i32* draws = p.drawn + window.first_draw;
            const i32* drafts = p.rows.token + window.first_row + given;
            i32 equal = 0;
            while (equal < window.draft_count && drafts[equal] == draws[equal]) equal++;
            out.drafts = equal;
            out.anchor = draws[equal];
            out.block = window.block;
            out.length += equal;
            if (window.counted == 1) {
                for (i32 i = 0; i <= equal; i++) p.counts[(u64)window.lane * p.vocabulary + draws[i]]++;
            }
        }
    }
    p.accepted[index] = out;
}

struct DraftRowsParams {
    const DeviceWindow* windows;
    const Accepted* accepted;
    i32* token;
    i32* lane;
    i32* position;
    i32* key_end;
    i32 windows_count;
    i32 rows;
    i32 size;
    i32 mask_token;
};

// One block for all.
KERNEL draft_rows(const __grid_constant__ DraftRowsParams p) {
    let_next_start();
    wait_for_inputs();
    for (i32 row = threadIdx.x; row < p.rows; row += blockDim.x) p.lane[row] = NO_LANE;
    __syncthreads();
    for (i32 index = threadIdx.x; index < p.windows_count * p.size; index += blockDim.x) {
        DeviceWindow window = p.windows[index / p.size];
        if (window.lane == NO_LANE || window.block < 0) continue;
        Accepted accepted = p.accepted[index / p.size];
        i32 offset = index % p.size, row = window.block * p.size + offset;
        p.lane[row] = window.lane;
        p.token[row] = offset == 0 ? accepted.anchor : p.mask_token;
        p.position[row] = accepted.length + offset;
        p.key_end[row] = accepted.length + p.size;
    }
}

struct ChainParams {
    Weights previous;
    const u16* hidden;
    const u16* confidence_weight;
    const u16* confidence_bias;
    const i32* block_lane;
    const i32* block_token;
    const i32* drafts;
    u16* embeddings;
    float* confidence;
    i32 format;
    i32 hidden_width;
    i32 size;
    i32 step;
};

// One block for each draft block: the embedding of the token before a step, and the step's confidence.
KERNEL __launch_bounds__(256) chain_embed(const __grid_constant__ ChainParams p) {
    __shared__ float sums[WARPS];
    let_next_start();
    wait_for_inputs();
    i32 block = blockIdx.x, first = block * p.size, row = first + p.step, rank = p.previous.inputs;
    u16* embedding = p.embeddings + (u64)block * rank;
    if (p.block_lane[first] == NO_LANE) {
        for (i32 i = threadIdx.x; i < rank; i += blockDim.x) embedding[i] = 0;
        return;
    }
    i32 token = p.step == 0 ? p.block_token[first] : p.drafts[row - 1];
    float sum = 0;
    for (i32 i = threadIdx.x; i < p.hidden_width && p.confidence_weight; i += blockDim.x) {
        sum += widen(p.confidence_weight[i]) * widen(p.hidden[(u64)row * p.hidden_width + i]);
    }
    for (i32 i = threadIdx.x; i < rank; i += blockDim.x) {
        u16 value = weight_at(p.previous, p.format, token, i);
        embedding[i] = value;
        if (p.confidence_weight) sum += widen(p.confidence_weight[p.hidden_width + i]) * widen(value);
    }
    if (!p.confidence_weight) return;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0;
        for (i32 i = 0; i < WARPS; i++) total += sums[i];
        p.confidence[row] = total + widen(*p.confidence_bias);
    }
}
