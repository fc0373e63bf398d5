// The norm of a row by 128 invocations: invocation t squares words t, t + 128, ...; then sixteen by sixteen, in order.

const NORM_THREADS: u32 = 128u;

var<workgroup> squares: array<f32, 128>;
var<workgroup> squares_of_eights: array<f32, 8>;

fn with_squares(sum: f32, pair: u32) -> f32 {
    return fma(high(pair), high(pair), fma(low(pair), low(pair), sum));
}

// What a row of so many words is multiplied by, in every invocation.
fn scale_of_squares(thread: u32, sum: f32, words: u32, epsilon: f32) -> f32 {
    squares[thread] = sum;
    workgroupBarrier();
    if (thread < 8u) {
        var part = squares[thread * 16u];
        for (var i = 1u; i < 16u; i++) {
            part += squares[thread * 16u + i];
        }
        squares_of_eights[thread] = part;
    }
    workgroupBarrier();
    var total = squares_of_eights[0];
    for (var i = 1u; i < 8u; i++) {
        total += squares_of_eights[i];
    }
    return 1.0 / sqrt(total / f32(2u * words) + epsilon);
}

// Two values: scaled, rounded, by the weight, rounded again.
fn normed(pair: u32, weight: u32, scale: f32) -> u32 {
    return narrow(low(weight) * rounded(low(pair) * scale), high(weight) * rounded(high(pair) * scale));
}
