// Operations on single rows: norms, convolutions, copies, activations.

struct NormParams {
    // Words of two values.
    words: u32,
    epsilon: f32,
}

var<immediate> norm: NormParams;

@group(0) @binding(0) var<storage, read> norm_x: array<u32>;
@group(0) @binding(1) var<storage, read> norm_weight: array<u32>;
@group(0) @binding(2) var<storage, read_write> norm_out: array<u32>;

// One workgroup a row.
@compute @workgroup_size(128)
fn rms_norm(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let start = workgroup.x * norm.words;
    var sum = 0.0;
    for (var word = thread; word < norm.words; word += NORM_THREADS) {
        sum = with_squares(sum, norm_x[start + word]);
    }
    let scale = scale_of_squares(thread, sum, norm.words, norm.epsilon);
    for (var word = thread; word < norm.words; word += NORM_THREADS) {
        norm_out[start + word] = normed(norm_x[start + word], norm_weight[word], scale);
    }
}

struct ConvParams {
    rows: u32,
    // Words of two channels.
    words: u32,
    // 1 to convolve, 2 to write the ring, 3 for both: a forward that could overwrite what it reads does one after the
    // other.
    parts: u32,
}

var<immediate> conv: ConvParams;

@group(0) @binding(0) var<storage, read> projected: array<u32>;
@group(0) @binding(1) var<storage, read> conv_weight: array<u32>;
@group(0) @binding(2) var<storage, read> conv_lane: array<i32>;
@group(0) @binding(3) var<storage, read> conv_position: array<i32>;
@group(0) @binding(4) var<storage, read_write> ring: array<u32>;
@group(0) @binding(5) var<storage, read_write> conv_out: array<u32>;

fn gated(row: u32, word: u32) -> u32 {
    return gated_pair(projected[row * 3u * conv.words + word], projected[(row * 3u + 2u) * conv.words + word]);
}

// The gated word `back` positions before a row's; zeros before position 0.
fn gated_before(row: u32, lane: i32, position: u32, back: u32, word: u32) -> u32 {
    if (position < back) {
        return 0u;
    }
    if (row >= back && conv_lane[row - back] == lane) {
        return gated(row - back, word);
    }
    return ring[ring_slot(lane, position - back, conv.words) + word];
}

// One invocation for two channels of a row.
@compute @workgroup_size(64)
fn short_conv(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let word = invocation.x;
    let row = invocation.y;
    let lane = conv_lane[row];
    if (word >= conv.words || lane == NO_LANE) {
        return;
    }
    let position = u32(conv_position[row]);
    let now = gated(row, word);
    if ((conv.parts & 1u) != 0u) {
        let weights = vec3<u32>(conv_weight[3u * word], conv_weight[3u * word + 1u], conv_weight[3u * word + 2u]);
        let two_back = gated_before(row, lane, position, 2u, word);
        let one_back = gated_before(row, lane, position, 1u, word);
        let by = projected[(row * 3u + 1u) * conv.words + word];
        conv_out[row * conv.words + word] = convolved(weights, vec3<u32>(two_back, one_back, now), by);
    }
    // A later row of the same forward may have the slot.
    let later = row + CONV_RING;
    let overwritten = later < conv.rows && conv_lane[min(later, conv.rows - 1u)] == lane;
    if ((conv.parts & 2u) != 0u && !overwritten) {
        ring[ring_slot(lane, position, conv.words) + word] = now;
    }
}

struct CopyParams {
    // Words of a row; values of a row for `copy_values`.
    width: u32,
    to_width: u32,
    to_offset: u32,
    rows: u32,
}

var<immediate> copied: CopyParams;

@group(0) @binding(0) var<storage, read> copy_from: array<u32>;
@group(0) @binding(1) var<storage, read_write> copy_to: array<u32>;

// A row into columns of a wider one.
@compute @workgroup_size(64)
fn copy_columns(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let word = invocation.x;
    if (word < copied.width) {
        let to = invocation.y * copied.to_width + copied.to_offset + word;
        copy_to[to] = copy_from[invocation.y * copied.width + word];
    }
}

@group(0) @binding(0) var<storage, read> from_row: array<i32>;
@group(0) @binding(1) var<storage, read> to_row: array<i32>;
@group(0) @binding(2) var<storage, read_write> within: array<u32>;

// Rows of one buffer to other rows of it.
@compute @workgroup_size(64)
fn copy_rows(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let word = invocation.x;
    if (word < copied.width) {
        let source = u32(from_row[invocation.y]) * copied.width + word;
        within[u32(to_row[invocation.y]) * copied.width + word] = within[source];
    }
}

fn half_at(index: u32) -> u32 {
    return (within[index / 2u] >> (index % 2u * 16u)) & 0xffffu;
}

// The same where rows have an odd number of values, so that two of them share a word: one invocation, one by one.
@compute @workgroup_size(1)
fn copy_values() {
    for (var row = 0u; row < copied.rows; row++) {
        for (var i = 0u; i < copied.width; i++) {
            let value = half_at(u32(from_row[row]) * copied.width + i);
            let to = u32(to_row[row]) * copied.width + i;
            let shift = to % 2u * 16u;
            within[to / 2u] = (within[to / 2u] & ~(0xffffu << shift)) | (value << shift);
        }
    }
}

@group(0) @binding(0) var<storage, read> gather_from: array<u32>;
@group(0) @binding(1) var<storage, read> gather_row: array<i32>;
@group(0) @binding(2) var<storage, read_write> gather_out: array<u32>;

// The value with number `index` among those that are gathered; `width` counts values.
fn gathered(index: u32) -> u32 {
    let row = gather_row[index / copied.width];
    if (row < 0) {
        return 0u;
    }
    let at = u32(row) * copied.width + index % copied.width;
    return (gather_from[at / 2u] >> (at % 2u * 16u)) & 0xffffu;
}

// One invocation for two values that are written; what lies behind an odd number of them stays.
@compute @workgroup_size(64)
fn gather_rows(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let values = copied.rows * copied.width;
    let word = invocation.y * copied.to_width + invocation.x;
    let first = 2u * word;
    if (invocation.x >= copied.to_width || first >= values) {
        return;
    }
    var second = gather_out[word] >> 16u;
    if (first + 1u < values) {
        second = gathered(first + 1u);
    }
    gather_out[word] = gathered(first) | (second << 16u);
}

struct GateParams {
    words: u32,
}

var<immediate> gate_params: GateParams;

@group(0) @binding(0) var<storage, read> gate_and_up: array<u32>;
@group(0) @binding(1) var<storage, read_write> activation: array<u32>;

// Gate and up side by side become the activation.
@compute @workgroup_size(64)
fn gate(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let word = invocation.x;
    if (word < gate_params.words) {
        let start = invocation.y * 2u * gate_params.words + word;
        activation[invocation.y * gate_params.words + word] =
            activated(gate_and_up[start], gate_and_up[start + gate_params.words]);
    }
}

struct NarrowParams {
    values: u32,
    // 1 to add to what is there.
    add: u32,
    words_of_row: u32,
}

var<immediate> narrowed: NarrowParams;

@group(0) @binding(0) var<storage, read> wide: array<f32>;
@group(0) @binding(1) var<storage, read_write> narrow_out: array<u32>;

// Sums to bf16, where rows have an odd number of values: one invocation for two values, of whatever rows.
@compute @workgroup_size(64)
fn narrow_values(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let word = invocation.y * narrowed.words_of_row + invocation.x;
    let first = 2u * word;
    if (invocation.x >= narrowed.words_of_row || first >= narrowed.values) {
        return;
    }
    let before = narrow_out[word];
    let is_pair = first + 1u < narrowed.values;
    let a = wide[first];
    let b = wide[select(first, first + 1u, is_pair)];
    let after = select(narrow(a, b), added(before, a, b), narrowed.add != 0u);
    narrow_out[word] = select((after & 0xffffu) | (before & 0xffff0000u), after, is_pair);
}

struct PatchParams {
    word: u32,
    mask: u32,
    value: u32,
}

var<immediate> patched: PatchParams;

@group(0) @binding(0) var<storage, read_write> patch_out: array<u32>;

// Half a word of an upload whose values do not fill words.
@compute @workgroup_size(1)
fn patch_word() {
    patch_out[patched.word] = (patch_out[patched.word] & ~patched.mask) | patched.value;
}
