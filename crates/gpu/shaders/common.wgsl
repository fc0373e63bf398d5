// What every shader shares: bf16 in pairs, exponential and logarithm of known accuracy, numbers that order as floats do.
//
// Buffers of bf16 are words of two values, the lower half first. An invocation that writes bf16 owns whole words.
// Sums are written with fma where products are added, so that no compiler has a choice.

const NO_LANE: i32 = -1;
const PAGE: u32 = 256u;
const CONV_RING: u32 = 64u;
// Lower than any score; no infinity, for compilers may assume that there is none.
const LOWEST: f32 = -3.0e38;

fn low(pair: u32) -> f32 {
    return bitcast<f32>(pair << 16u);
}

fn high(pair: u32) -> f32 {
    return bitcast<f32>(pair & 0xffff0000u);
}

// The bits of the nearest bf16, ties to even, in the upper half. A NaN stays one.
fn rounded_bits(value: f32) -> u32 {
    let bits = bitcast<u32>(value);
    let nearest = bits + 0x7fffu + ((bits >> 16u) & 1u);
    return select(nearest, bits | 0x400000u, (bits & 0x7fffffffu) > 0x7f800000u) & 0xffff0000u;
}

fn rounded(value: f32) -> f32 {
    return bitcast<f32>(rounded_bits(value));
}

fn narrow(first: f32, second: f32) -> u32 {
    return (rounded_bits(first) >> 16u) | rounded_bits(second);
}

// Two residuals after sums have been added: rounded, added, rounded again.
fn added(residual: u32, first: f32, second: f32) -> u32 {
    return narrow(low(residual) + rounded(first), high(residual) + rounded(second));
}

// e^x within 2 units in the last place; 0 where the result is no normal number. The drivers' own may be far off.
fn exponential(x: f32) -> f32 {
    let bounded = clamp(x, -87.3, 88.0);
    let exponent = floor(fma(bounded, 1.44269504, 0.5));
    let r = fma(exponent, -1.4286068e-6, fma(exponent, -0.69314575, bounded));
    var series = fma(1.0 / 5040.0, r, 1.0 / 720.0);
    series = fma(series, r, 1.0 / 120.0);
    series = fma(series, r, 1.0 / 24.0);
    series = fma(series, r, 1.0 / 6.0);
    series = fma(series, r, 0.5);
    let mantissa = 1.0 + fma(series, r * r, r);
    let value = mantissa * bitcast<f32>(u32(i32(exponent) + 127) << 23u);
    return select(value, 0.0, x < -87.3);
}

// The natural logarithm of a positive normal number, within 2 units in the last place.
fn logarithm(x: f32) -> f32 {
    // The bits of sqrt(1/2): mantissas are taken from there to sqrt(2), so that a result near 0 stays exact.
    let offset = bitcast<i32>(x) - 0x3f3504f3;
    let exponent = f32(offset >> 23u);
    let f = bitcast<f32>((offset & 0x7fffff) + 0x3f3504f3) - 1.0;
    // ln(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = f / (2 + f), |s| < 0.172; 2 s = f - f s.
    let s = f / (2.0 + f);
    let square = s * s;
    var series = fma(2.0 / 11.0, square, 2.0 / 9.0);
    series = fma(series, square, 2.0 / 7.0);
    series = fma(series, square, 2.0 / 5.0);
    series = fma(series, square, 2.0 / 3.0);
    let correction = s * fma(series, square, -f);
    return fma(exponent, 0.69314575, fma(exponent, 1.4286068e-6, correction) + f);
}

fn silu(x: f32) -> f32 {
    return x / (1.0 + exponential(-x));
}

// Gate and up become the activation, word by word.
fn activated(gate: u32, up: u32) -> u32 {
    return narrow(silu(low(gate)) * low(up), silu(high(gate)) * high(up));
}

// A number that orders as the float does, with -0 as 0.
fn ordered(value: f32) -> u32 {
    let bits = select(bitcast<u32>(value), 0u, value == 0.0);
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn value_of_order(order: u32) -> f32 {
    return bitcast<f32>(select(~order, order & 0x7fffffffu, (order & 0x80000000u) != 0u));
}

// 64-bit numbers as (upper, lower) words.
fn is_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}

fn higher_key(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, is_less(a, b));
}

fn sum_of_words(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let lower = a.y + b.y;
    return vec2<u32>(a.x + b.x + select(0u, 1u, lower < a.y), lower);
}
