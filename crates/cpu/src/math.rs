//! Exponential, logarithm and fixed-order sums in fp32: the same bits in every mode, on every machine.
//!
//! All of it is branch-free multiply, add and integer work on one value or on 16 lanes, so that loops over it
//! become vector code in whatever instruction set the caller is compiled for.

use half::bf16;

/// Partial sums of every reduction.
pub(crate) const LANES: usize = 16;

/// Adds 16 partial sums as a tree: lane `i` and `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
#[inline(always)]
pub(crate) fn sum_lanes(lanes: &[f32; LANES]) -> f32 {
    let eights: [f32; 8] = std::array::from_fn(|lane| lanes[lane] + lanes[lane + 8]);
    let fours: [f32; 4] = std::array::from_fn(|lane| eights[lane] + eights[lane + 4]);
    (fours[0] + fours[2]) + (fours[1] + fours[3])
}

/// The higher of two numbers.
#[inline(always)]
pub(crate) fn higher(one: f32, other: f32) -> f32 {
    if one > other { one } else { other }
}

/// The highest of 16 lanes.
#[inline(always)]
pub(crate) fn highest_lane(lanes: &[f32; LANES]) -> f32 {
    let mut eights = [0.0; 8];
    for lane in 0..8 {
        eights[lane] = higher(lanes[lane], lanes[lane + 8]);
    }
    let mut fours = [0.0; 4];
    for lane in 0..4 {
        fours[lane] = higher(eights[lane], eights[lane + 4]);
    }
    higher(higher(fours[0], fours[2]), higher(fours[1], fours[3]))
}

/// The last values, which are fewer than a block, and `filler` after them: a block like the others, so that loops
/// have no second body.
#[inline(always)]
pub(crate) fn padded<T: Copy>(rest: &[T], filler: T) -> [T; LANES] {
    let mut block = [filler; LANES];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// `lanes[i] += terms[i]`.
#[inline(always)]
pub(crate) fn add_lanes(lanes: &mut [f32; LANES], terms: &[f32; LANES]) {
    for lane in 0..LANES {
        lanes[lane] += terms[lane];
    }
}

/// The sum of `values`, index `i` in lane `i % 16`.
#[inline(always)]
pub(crate) fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        add_lanes(&mut lanes, block);
    }
    add_lanes(&mut lanes, &padded(rest, 0.0));
    sum_lanes(&lanes)
}

/// The highest of `values`, negative infinity without any.
#[inline(always)]
pub(crate) fn highest(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = higher(block[lane], lanes[lane]);
        }
    }
    let rest = padded(rest, f32::NEG_INFINITY);
    highest_lane(&std::array::from_fn(|lane| higher(rest[lane], lanes[lane])))
}

/// `e^x`: within 2 units in the last place where the result is a normal number, 0 below, infinite above.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding it rounds to a whole number, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// The upper bits of ln 2, few enough that their product with a whole exponent is exact, and the rest.
    const LN_2_HIGH: f32 = 0.693_145_75;
    const LN_2_LOW: f32 = 1.428_606_8e-6;
    let bounded = x.clamp(-87.5, 88.8);
    let shifted = bounded * std::f32::consts::LOG2_E + ROUND;
    let exponent = shifted - ROUND;
    let r = bounded - exponent * LN_2_HIGH - exponent * LN_2_LOW;
    // The series of e^r - 1 - r up to r^7 / 7!, over r^2; |r| <= ln 2 / 2.
    let mut series = 1.0 / 5040.0;
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5] {
        series = series * r + term;
    }
    let mantissa = 1.0 + (r + series * (r * r));
    // Two factors, so that the largest results do not overflow on the way.
    let half = (shifted.to_bits() << 22).cast_signed() >> 23;
    let whole = (shifted.to_bits() << 22).cast_signed() >> 22;
    let (first, second) = (power_of_two(half), power_of_two(whole - half));
    let value = mantissa * first * second;
    let value = if x < -87.33 { 0.0 } else { value };
    let value = if x > 88.722_84 { f32::INFINITY } else { value };
    if x.is_nan() { x } else { value }
}

#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// The natural logarithm of a positive normal number, within 2 units in the last place.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_145_75;
    const LN_2_LOW: f32 = 1.428_606_8e-6;
    // The bits of sqrt(1/2): mantissas are taken from there to sqrt(2), so that a result near 0 stays exact.
    const SQRT_HALF: i32 = 0x3f35_04f3;
    let offset = x.to_bits().cast_signed() - SQRT_HALF;
    let exponent = (offset >> 23) as f32;
    let mantissa = f32::from_bits(((offset & 0x007f_ffff) + SQRT_HALF).cast_unsigned());
    let f = mantissa - 1.0;
    // ln(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = f / (2 + f), |s| < 0.172.
    let s = f / (2.0 + f);
    let square = s * s;
    let mut series = 2.0 / 11.0;
    for term in [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0] {
        series = series * square + term;
    }
    // 2 s = f - f s, which keeps the leading term exact.
    let correction = s * (series * square - f);
    (correction + exponent * LN_2_LOW + f) + exponent * LN_2_HIGH
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x / (1 + e^-x)`
#[inline(always)]
pub(crate) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `value` rounded to bf16, to nearest even; the same as [`bf16::from_f32`] without its branch for NaN's
/// payload, so that loops over it become vector code.
#[inline(always)]
pub(crate) fn round(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    bf16::from_bits(if value.is_nan() { quiet } else { rounded } as u16)
}

/// `value` in fp32, exactly.
#[inline(always)]
pub(crate) fn widen(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// `residual = bf16(residual + bf16(sum))`.
#[inline(always)]
pub(crate) fn add(residual: &mut bf16, sum: f32) {
    *residual = round(widen(*residual) + widen(round(sum)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units of the last place of the exact value.
    fn error(value: f32, exact: f64) -> f64 {
        let unit = 2f64.powi(exact.abs().log2().floor() as i32 - 23);
        (f64::from(value) - exact).abs() / unit
    }

    #[test]
    fn exp_is_within_two_units() {
        let mut worst = 0f64;
        for step in -870_000..=887_000 {
            let x = step as f32 * 1e-4;
            worst = worst.max(error(exp(x), f64::from(x).exp()));
        }
        assert!(worst < 2.0, "{worst} units");
        assert_eq!((exp(0.0), exp(-100.0), exp(f32::NEG_INFINITY)), (1.0, 0.0, 0.0));
        assert_eq!((exp(100.0), exp(f32::INFINITY)), (f32::INFINITY, f32::INFINITY));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn ln_is_within_two_units() {
        let mut worst = 0f64;
        let mut x = f32::MIN_POSITIVE;
        while x < 1e38 {
            worst = worst.max(error(ln(x), f64::from(x).ln()));
            x *= 1.000_13;
        }
        for word in 0..100_000u32 {
            let below_one = 1.0 - (word as f32 + 0.5) / 8_388_608.0;
            worst = worst.max(error(ln(below_one), f64::from(below_one).ln()));
        }
        assert!(worst < 2.0, "{worst} units");
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        for step in 0..2_000_000u32 {
            let value = f32::from_bits(step.wrapping_mul(2_654_435_761));
            let expected = bf16::from_f32(value);
            assert!(round(value) == expected || value.is_nan() && round(value).is_nan(), "{value}");
        }
    }

    #[test]
    fn sums_and_maxima_take_every_value() {
        let values: Vec<f32> = (1..=37).map(|value| value as f32).collect();
        assert_eq!(sum(&values), 703.0);
        assert_eq!(highest(&values), 37.0);
        assert_eq!(highest(&[]), f32::NEG_INFINITY);
    }
}
