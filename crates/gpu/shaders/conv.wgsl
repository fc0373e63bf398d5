// The short convolution of two channels, a word each: gated values, and where they are kept.

fn gated_pair(b: u32, x: u32) -> u32 {
    return narrow(low(b) * low(x), high(b) * high(x));
}

// Where a position's gated words begin.
fn ring_slot(lane: i32, position: u32, words: u32) -> u32 {
    return (u32(lane) * CONV_RING + position % CONV_RING) * words;
}

// The sum over two positions before, one before and now. Weights are three of each channel: (c0 c1) (c2 d0) (d1 d2).
fn convolved(weights: vec3<u32>, gated: vec3<u32>, by: u32) -> u32 {
    let c = fma(low(weights.y), low(gated.z), fma(high(weights.x), low(gated.y), low(weights.x) * low(gated.x)));
    let d = fma(high(weights.z), high(gated.z), fma(low(weights.z), high(gated.y), high(weights.y) * high(gated.x)));
    return narrow(low(by) * rounded(c), high(by) * rounded(d));
}
