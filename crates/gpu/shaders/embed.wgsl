// Rows of weight matrices as activations: embeddings, and the first half of a chain's step.

struct EmbedParams {
    inputs: u32,
    group_shift: u32,
    half_scales: u32,
    // The matrix rows that are here.
    first: u32,
    count: u32,
}

var<immediate> embedded: EmbedParams;

@group(0) @binding(2) var<storage, read> embed_lane: array<i32>;
@group(0) @binding(3) var<storage, read> embed_token: array<i32>;
@group(0) @binding(4) var<storage, read_write> embed_out: array<u32>;

// One invocation for two values of a row.
@compute @workgroup_size(64)
fn embed(@builtin(global_invocation_id) invocation: vec3<u32>) {
    let row = invocation.y;
    let words = embedded.inputs / 2u;
    let output = u32(embed_token[row]) - embedded.first;
    if (embed_lane[row] == NO_LANE || output >= embedded.count || invocation.x >= words) {
        return;
    }
    embed_out[row * words + invocation.x] =
        weight_pair(output, invocation.x, embedded.inputs, embedded.group_shift, embedded.half_scales);
}

struct ChainParams {
    inputs: u32,
    group_shift: u32,
    half_scales: u32,
    first: u32,
    count: u32,
    // Words of a row of the hidden state; 0 where there is no confidence head.
    hidden_words: u32,
    size: u32,
    step: u32,
}

var<immediate> chain: ChainParams;

@group(0) @binding(2) var<storage, read> block_lane: array<i32>;
@group(0) @binding(3) var<storage, read> block_token: array<i32>;
@group(0) @binding(4) var<storage, read> drafts: array<i32>;
@group(0) @binding(5) var<storage, read> hidden: array<u32>;
@group(0) @binding(6) var<storage, read> confidence_weight: array<u32>;
@group(0) @binding(7) var<storage, read> confidence_bias: array<u32>;
@group(0) @binding(8) var<storage, read_write> embeddings: array<u32>;
@group(0) @binding(9) var<storage, read_write> confidence: array<f32>;

const CHAIN_THREADS: u32 = 64u;

var<workgroup> confidence_parts: array<f32, 64>;

// One workgroup for each draft block: the embedding of the token before a step, and the step's confidence.
@compute @workgroup_size(64)
fn chain_embed(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = workgroup.x * chain.size;
    let row = first + chain.step;
    var token = block_token[first];
    if (chain.step > 0u) {
        token = drafts[row - 1u];
    }
    let output = u32(token) - chain.first;
    let is_here = block_lane[first] != NO_LANE && output < chain.count;
    let words = chain.inputs / 2u;
    var sum = 0.0;
    if (is_here) {
        for (var word = thread; word < chain.hidden_words; word += CHAIN_THREADS) {
            let weight = confidence_weight[word];
            let value = hidden[row * chain.hidden_words + word];
            sum = fma(high(weight), high(value), fma(low(weight), low(value), sum));
        }
        for (var word = thread; word < words; word += CHAIN_THREADS) {
            let pair = weight_pair(output, word, chain.inputs, chain.group_shift, chain.half_scales);
            embeddings[workgroup.x * words + word] = pair;
            if (chain.hidden_words > 0u) {
                let weight = confidence_weight[chain.hidden_words + word];
                sum = fma(high(weight), high(pair), fma(low(weight), low(pair), sum));
            }
        }
    }
    confidence_parts[thread] = sum;
    workgroupBarrier();
    if (thread == 0u && is_here && chain.hidden_words > 0u) {
        var total = confidence_parts[0];
        for (var i = 1u; i < CHAIN_THREADS; i++) {
            total += confidence_parts[i];
        }
        confidence[row] = total + low(confidence_bias[0]);
    }
}
