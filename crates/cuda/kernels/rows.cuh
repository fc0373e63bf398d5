// Operations on single rows: embeddings, norms, convolutions, copies.

struct Rows {
    const i32* token;
    const i32* lane;
    const i32* position;
    const i32* key_end;
    i32 count;
    i32 reserved;
};

struct EmbedParams {
    Weights table;
    Rows rows;
    u16* out;
    i32 format;
    i32 reserved;
};

// One block a row.
KERNEL embed(const __grid_constant__ EmbedParams p) {
    let_next_start();
    wait_for_inputs();
    i32 row = blockIdx.x;
    if (p.rows.lane[row] == NO_LANE) return;
    i32 token = p.rows.token[row], width = p.table.inputs;
    for (i32 i = threadIdx.x; i < width; i += blockDim.x) {
        p.out[(u64)row * width + i] = weight_at(p.table, p.format, token, i);
    }
}

struct NormParams {
    const u16* x;
    const u16* weight;
    u16* out;
    float epsilon;
    float inverse_width;
    i32 width;
    i32 rows;
};

// One block a row.
KERNEL __launch_bounds__(256) rms_norm(const __grid_constant__ NormParams p) {
    __shared__ float sums[WARPS];
    let_next_start();
    wait_for_inputs();
    i32 first = threadIdx.x * 8;
    u64 at = (u64)blockIdx.x * p.width + first;
    uint4 x = make_uint4(0, 0, 0, 0), weight = x;
    if (first < p.width) {
        x = *(const uint4*)(p.x + at);
        weight = *(const uint4*)(p.weight + first);
    }
    float sum = squares_of(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    uint4 normed = normalize(x, weight, norm_factor(sums, p.inverse_width, p.epsilon));
    if (first < p.width) *(uint4*)(p.out + at) = normed;
}

struct ConvParams {
    const u16* projected;
    const u16* weight;
    u16* ring;
    u16* out;
    Rows rows;
    i32 channels;
    // 1 to convolve, 2 to write the ring, 3 for both: a forward that could overwrite what it reads does one after
    // the other.
    i32 parts;
};

DEVICE float gated(const ConvParams& p, i32 row, i32 channel) {
    const u16* projected = p.projected + (u64)row * 3 * p.channels;
    return widen(narrow(widen(projected[channel]) * widen(projected[2 * p.channels + channel])));
}

// One thread a channel and row.
KERNEL short_conv(const __grid_constant__ ConvParams p) {
    let_next_start();
    wait_for_inputs();
    i32 row = blockIdx.y, channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= p.channels) return;
    i32 lane = p.rows.lane[row];
    if (lane == NO_LANE) return;
    i32 position = p.rows.position[row];
    u16* ring = p.ring + (u64)lane * CONV_RING * p.channels + channel;
    float now = gated(p, row, channel);
    if (p.parts & 1) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 3; k++) {
            i32 back = 2 - k;
            if (position < back) continue;
            float value;
            if (back == 0) value = now;
            else if (row >= back && p.rows.lane[row - back] == lane) value = gated(p, row - back, channel);
            else value = widen(ring[(u64)((position - back) % CONV_RING) * p.channels]);
            sum += widen(p.weight[channel * 3 + k]) * value;
        }
        float by = widen(p.projected[(u64)row * 3 * p.channels + p.channels + channel]);
        p.out[(u64)row * p.channels + channel] = narrow(by * widen(narrow(sum)));
    }
    // A later row of the same forward has the slot.
    bool overwritten = row + CONV_RING < p.rows.count && p.rows.lane[row + CONV_RING] == lane;
    if (p.parts & 2 && !overwritten) ring[(u64)(position % CONV_RING) * p.channels] = narrow(now);
}

struct CopyParams {
    const u16* from;
    u16* to;
    // Rows to read and to write; the row's own number where null, nothing or zeros where -1.
    const i32* from_index;
    const i32* to_index;
    i32 from_width;
    i32 to_width;
    i32 to_offset;
    // Values of a row that are copied.
    i32 width;
};

// One block a row.
KERNEL copy(const __grid_constant__ CopyParams p) {
    let_next_start();
    wait_for_inputs();
    i32 from_row = p.from_index ? p.from_index[blockIdx.x] : blockIdx.x;
    i32 to_row = p.to_index ? p.to_index[blockIdx.x] : blockIdx.x;
    u16* to = p.to + (u64)to_row * p.to_width + p.to_offset;
    const u16* from = p.from + (u64)from_row * p.from_width;
    if (((u64)to | (u64)from | (u64)p.width * 2) % 16 == 0) {
        for (i32 i = threadIdx.x; i < p.width / 8; i += blockDim.x) {
            ((uint4*)to)[i] = from_row < 0 ? make_uint4(0, 0, 0, 0) : ((const uint4*)from)[i];
        }
        return;
    }
    for (i32 i = threadIdx.x; i < p.width; i += blockDim.x) to[i] = from_row < 0 ? 0 : from[i];
}

struct GateParams {
    const u16* both;
    u16* out;
    i32 rows;
    i32 width;
};

DEVICE u16 activate(u16 gate, u16 up) {
    return narrow(silu(widen(gate)) * widen(up));
}

// Gate and up side by side become the activation.
KERNEL gate(const __grid_constant__ GateParams p) {
    let_next_start();
    wait_for_inputs();
    i32 row = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.width) return;
    const u16* both = p.both + (u64)row * 2 * p.width;
    p.out[(u64)row * p.width + i] = activate(both[i], both[p.width + i]);
}
