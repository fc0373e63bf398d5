// Windows of a round: tokens that only the device knows, acceptance, and the drafter's rows.

struct DeviceWindow {
    lane: i32,
    first_row: i32,
    row_count: i32,
    draft_count: i32,
    first_draw: i32,
    block: i32,
    counted: i32,
    previous: i32,
}

struct Accepted {
    drafts: i32,
    anchor: i32,
    length: i32,
    block: i32,
}

struct WindowParams {
    windows: u32,
    size: u32,
    vocabulary: u32,
    rows: u32,
    mask_token: i32,
}

var<immediate> w: WindowParams;

@group(0) @binding(0) var<storage, read> windows: array<DeviceWindow>;
@group(0) @binding(1) var<storage, read> before: array<Accepted>;
@group(0) @binding(2) var<storage, read> held: array<i32>;
@group(0) @binding(3) var<storage, read_write> held_token: array<i32>;

// One invocation a window.
@compute @workgroup_size(32)
fn held_tokens(@builtin(global_invocation_id) invocation: vec3<u32>) {
    if (invocation.x >= w.windows) {
        return;
    }
    let window = windows[invocation.x];
    if (window.lane == NO_LANE || window.previous < 0) {
        return;
    }
    let outcome = before[window.previous];
    held_token[window.first_row] = outcome.anchor;
    for (var i = 0; i < window.draft_count; i++) {
        held_token[window.first_row + 1 + i] = held[outcome.block * i32(w.size) + i];
    }
}

@group(0) @binding(1) var<storage, read> accept_token: array<i32>;
@group(0) @binding(2) var<storage, read> accept_position: array<i32>;
@group(0) @binding(3) var<storage, read> drawn: array<i32>;
@group(0) @binding(4) var<storage, read_write> counts: array<u32>;
@group(0) @binding(5) var<storage, read_write> accepted: array<Accepted>;

// One invocation a window. A lane has one window, so no two count in one table.
@compute @workgroup_size(32)
fn accept(@builtin(global_invocation_id) invocation: vec3<u32>) {
    if (invocation.x >= w.windows) {
        return;
    }
    let window = windows[invocation.x];
    var outcome = Accepted(0, -1, 0, -1);
    if (window.lane != NO_LANE) {
        let given = window.row_count - window.draft_count;
        outcome.length = accept_position[window.first_row] + given;
        if (window.first_draw >= 0) {
            let first_draft = window.first_row + given;
            var equal = 0;
            while (equal < window.draft_count && accept_token[first_draft + equal] == drawn[window.first_draw + equal]) {
                equal++;
            }
            outcome.drafts = equal;
            outcome.anchor = drawn[window.first_draw + equal];
            outcome.block = window.block;
            outcome.length += equal;
            if (window.counted == 1) {
                for (var i = 0; i <= equal; i++) {
                    counts[u32(window.lane) * w.vocabulary + u32(drawn[window.first_draw + i])] += 1u;
                }
            }
        }
    }
    accepted[invocation.x] = outcome;
}

@group(0) @binding(2) var<storage, read_write> block_token: array<i32>;
@group(0) @binding(3) var<storage, read_write> block_lane: array<i32>;
@group(0) @binding(4) var<storage, read_write> block_position: array<i32>;
@group(0) @binding(5) var<storage, read_write> block_key_end: array<i32>;

// One workgroup: pad rows first, then those of the windows' blocks.
@compute @workgroup_size(64)
fn draft_rows(@builtin(local_invocation_index) thread: u32) {
    for (var row = thread; row < w.rows; row += 64u) {
        block_lane[row] = NO_LANE;
    }
    storageBarrier();
    for (var i = thread; i < w.windows * w.size; i += 64u) {
        let window = windows[i / w.size];
        if (window.lane == NO_LANE || window.block < 0) {
            continue;
        }
        let outcome = before[i / w.size];
        let in_block = i32(i % w.size);
        let row = window.block * i32(w.size) + in_block;
        block_lane[row] = window.lane;
        block_token[row] = select(w.mask_token, outcome.anchor, in_block == 0);
        block_position[row] = outcome.length + in_block;
        block_key_end[row] = outcome.length + i32(w.size);
    }
}
