// Products for one row that is normed on the way, by every workgroup for itself; one of them writes the normed row as well.

@group(0) @binding(5) var<storage, read> norm_weight: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> norm_out: array<vec4<u32>>;

// At most 2048 inputs. Every fifth place is free, so that lanes read different banks of the memory.
var<workgroup> row_values: array<vec4<u32>, 320>;

fn place(at: u32) -> u32 {
    return at + at / 4u;
}

fn input(at: u32) -> vec4<u32> {
    return row_values[place(at)];
}

fn norm_row(thread: u32, writes: bool) {
    let words = p.inputs / 2u;
    var sum = 0.0;
    for (var word = thread; word < words; word += NORM_THREADS) {
        sum = with_squares(sum, x[word / 4u][word % 4u]);
    }
    let scale = scale_of_squares(thread, sum, words, p.epsilon);
    for (var at = thread; at < words / 4u; at += NORM_THREADS) {
        let pairs = x[at];
        let weights = norm_weight[at];
        let row = vec4<u32>(
            normed(pairs.x, weights.x, scale),
            normed(pairs.y, weights.y, scale),
            normed(pairs.z, weights.z, scale),
            normed(pairs.w, weights.w, scale),
        );
        row_values[place(at)] = row;
        if (writes) {
            norm_out[at] = row;
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn linear_normed(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    tile_rows = 1u;
    if (thread == 0u) {
        rows_out[0] = 0u;
    }
    let slots = THREADS >> p.lanes_shift;
    let output = rows_of_slot(workgroup.y * slots + slot_of(thread));
    // On its way while the row is normed.
    let first = load_part(output, lane_of(thread), 0u);
    norm_row(thread, workgroup.y == 0u);
    sum_lane(first, output, lane_of(thread));
    write_tile(thread, workgroup.y);
}

@group(0) @binding(4) var<storage, read> conv_weight: array<u32>;
@group(0) @binding(7) var<storage, read> conv_lane: array<i32>;
@group(0) @binding(8) var<storage, read> conv_position: array<i32>;
@group(0) @binding(9) var<storage, read_write> ring: array<u32>;

// The gated word `back` positions before the row's; zeros before position 0.
fn gated_before(position: u32, back: u32, words: u32, word: u32) -> u32 {
    if (position < back) {
        return 0u;
    }
    return ring[ring_slot(conv_lane[0], position - back, words) + word];
}

// Two channels whose B, C and x are projected.
fn convolve(word: u32, words: u32, b: u32, c: u32, x: u32) {
    if (word >= words) {
        return;
    }
    let position = u32(conv_position[0]);
    let now = gated_pair(b, x);
    let weights = vec3<u32>(conv_weight[3u * word], conv_weight[3u * word + 1u], conv_weight[3u * word + 2u]);
    let two_back = gated_before(position, 2u, words, word);
    let one_back = gated_before(position, 1u, words, word);
    out[word] = convolved(weights, vec3<u32>(two_back, one_back, now), c);
    ring[ring_slot(conv_lane[0], position, words) + word] = now;
}

// The projection into B, C and x, and its convolution: for each four of channels three slots that follow each other.
@compute @workgroup_size(128)
fn project_conv(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    tile_rows = 1u;
    let channels = p.outputs / 3u;
    let fours = (THREADS >> p.lanes_shift) / 3u;
    let slot = slot_of(thread);
    let channel = (workgroup.y * fours + slot / 3u) * 4u + vec4<u32>(0u, 1u, 2u, 3u);
    let output = min(channel, vec4<u32>(channels - 1u)) + vec4<u32>(slot % 3u * channels);
    let first = load_part(output, lane_of(thread), 0u);
    norm_row(thread, workgroup.y == 0u);
    if (slot < fours * 3u) {
        sum_lane(first, output, lane_of(thread));
    }
    share_lanes(thread);
    if (thread < fours && conv_lane[0] != NO_LANE) {
        let b = total_of(0u, thread * 3u);
        let c = total_of(0u, thread * 3u + 1u);
        let x = total_of(0u, thread * 3u + 2u);
        let word = (workgroup.y * fours + thread) * 2u;
        convolve(word, channels / 2u, narrow(b.x, b.y), narrow(c.x, c.y), narrow(x.x, x.y));
        convolve(word + 1u, channels / 2u, narrow(b.z, b.w), narrow(c.z, c.w), narrow(x.z, x.w));
    }
}
