// A convolution layer's input projection and its convolution at once, for few rows: `project_short_conv`.

struct ConvProductParams {
    // [3 * channels, inputs]: B, C, x.
    Weights weights;
    const u16* x;
    NormFirst norm;
    FewLayout layout;
    // `projected` is not used.
    ConvParams conv;
};

// A block has each 16 channels that are a multiple of the grid further on: their strips of B, C and x. With three groups
// of 8 warps each has one of the three; all read the rows of the first.
template <int FORMAT, int COLUMNS, int GROUPS>
DEVICE void conv_few(const ConvProductParams& p) {
    __shared__ float sums[3][WARPS][16][8 * COLUMNS + 1];
    __shared__ float squares[16][WARPS];
    __shared__ float gated_rows[8 * COLUMNS][17];
    const i32 STAGES = GROUPS == 3 ? 1 : Slots<FORMAT>::STAGES;
    const Weights& w = p.weights;
    const ConvParams& c = p.conv;
    let_next_start();
    i32 warp = threadIdx.x / 32 % WARPS, group = threadIdx.x / 32 / WARPS;
    Own own(p.layout, warp, group);
    i32 column = threadIdx.x / 16, m = threadIdx.x % 16;
    i32 strips = c.channels / 16, tiles = w.tiles - warp * TILES_OF_CHUNK;
    // What is fetched next: a strip of one of the three parts.
    i32 next_piece = 0, next_strip = blockIdx.x, next_part = group;
    auto fetch = [&]() {
        if (next_strip < strips && tiles > 0) own.fetch<FORMAT>(next_piece, w, next_part * strips + next_strip, warp);
        commit_copies();
        if (STAGES > 1) next_piece++;
        next_part += GROUPS;
        if (next_part >= 3) {
            next_part = group;
            next_strip += gridDim.x;
        }
    };
#pragma unroll 1
    for (i32 i = 0; i < STAGES; i++) fetch();
    wait_for_inputs();
    fetch_rows<GROUPS>(own, warp, group, p.x, p.norm, c.rows.count, w.inputs);
    // Which of the two rows before this one are in the same forward, and which are in the ring. All are asked for at once.
    i32 row = min(column, c.rows.count - 1);
    i32 lane = c.rows.lane[row], position = c.rows.position[row];
    i32 lanes_before[3] = {0, c.rows.lane[max(row - 1, 0)], c.rows.lane[max(row - 2, 0)]};
    if (column >= c.rows.count) lane = NO_LANE;
    bool beside[3], stored[3];
#pragma unroll
    for (int back = 1; back < 3; back++) {
        bool seen = lane != NO_LANE && position >= back;
        beside[back] = seen && column >= back && lanes_before[back] == lane;
        stored[back] = seen && !beside[back];
    }
    finish_rows<GROUPS>(own, warp, group, p.norm, c.rows.count, w.inputs, squares);
    if (GROUPS > 1) __syncthreads();
    const u8* x[COLUMNS];
    find_rows(x, own, c.rows.count);
    i32 piece = 0;
#pragma unroll 1
    for (i32 strip = blockIdx.x; strip < strips; strip += gridDim.x) {
        i32 channel = strip * 16 + m;
        u16* ring = c.ring + (u64)max(lane, 0) * CONV_RING * c.channels + channel;
        u16 before[3];
#pragma unroll
        for (int back = 1; back < 3; back++) {
            before[back] = stored[back] ? ring[(u64)((position - back) % CONV_RING) * c.channels] : 0;
        }
#pragma unroll 1
        for (int part = group; part < 3; part += GROUPS) {
            wait_for_warp<STAGES - 1>();
            if (tiles > 0) {
                float sum[COLUMNS][4];
                multiply_chunk<FORMAT, COLUMNS>(sum, own.slot<FORMAT>(piece), x, tiles, w);
                put_sums(sums[part][warp], sum);
            }
            __syncwarp();
            fetch();
            if (STAGES > 1) piece++;
        }
        __syncthreads();
        float parts[3], now = 0;
        if (column < 8 * COLUMNS) {
#pragma unroll
            for (int part = 0; part < 3; part++) parts[part] = add_chunks(0, sums[part], chunks_of(w), m, column);
            now = widen(narrow(widen(narrow(parts[0])) * widen(narrow(parts[2]))));
            gated_rows[column][m] = now;
        }
        __syncthreads();
        if (lane == NO_LANE) continue;
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 3; k++) {
            int back = 2 - k;
            if (position < back) continue;
            float value = back == 0 ? now : beside[back] ? gated_rows[column - back][m] : widen(before[back]);
            sum += widen(c.weight[channel * 3 + k]) * value;
        }
        c.out[(u64)column * c.channels + channel] = narrow(widen(narrow(parts[1])) * widen(narrow(sum)));
        ring[(u64)(position % CONV_RING) * c.channels] = narrow(now);
    }
}

// Three where the weights that are on their way then leave room for other blocks. As in crates/cuda/src/rows.rs.
#define CONV_GROUPS(format) (format == BF16 ? 1 : 3)
#define CONV_FEW(format, name, columns) \
    KERNEL __launch_bounds__(256 * CONV_GROUPS(format), CONV_GROUPS(format) == 1 ? 3 : 1) \
    conv_##name##_##columns(const __grid_constant__ ConvProductParams p) { \
        conv_few<format, columns, CONV_GROUPS(format)>(p); \
    }
EACH_FORMAT_AND_COLUMNS(CONV_FEW)
