//! What files call each role. Names are canonical: without `model.` and `language_model.` prefixes.

/// The embedding table, which is also the head.
pub(crate) const EMBEDDING: &str = "embed_tokens";

/// Names of the norm before the head; the first is the usual one, the others are other exporters'.
pub(crate) const FINAL_NORM: [&str; 4] =
    ["embedding_norm.weight", "norm.weight", "output_norm.weight", "token_embd_norm.weight"];

/// A feed-forward's gate, up and down: Hugging Face's names and MLX's.
pub(crate) const GATE: [&str; 2] = ["w1", "gate_proj"];
/// See [`GATE`].
pub(crate) const UP: [&str; 2] = ["w3", "up_proj"];
/// See [`GATE`].
pub(crate) const DOWN: [&str; 2] = ["w2", "down_proj"];

/// Names under a target's layer.
pub(crate) fn in_layer(layer: usize, name: &str) -> String {
    format!("layers.{layer}.{name}")
}

/// Paths of a dense feed-forward's matrix in a target's layer.
pub(crate) fn dense(layer: usize, matrix: [&str; 2]) -> Vec<String> {
    matrix.iter().map(|name| in_layer(layer, &format!("feed_forward.{name}"))).collect()
}

/// Paths of one expert's matrix in a target's layer.
pub(crate) fn expert(layer: usize, expert: usize, matrix: [&str; 2]) -> Vec<String> {
    matrix.iter().map(|name| in_layer(layer, &format!("feed_forward.experts.{expert}.{name}"))).collect()
}

/// Tensors of a target that are recomputed or tied, whatever they hold.
pub(crate) fn ignored_in_target(name: &str) -> bool {
    name.starts_with("lm_head.") || name.contains("rotary_emb.")
}

/// Tensors of a drafter that are the target's, or recomputed.
pub(crate) fn ignored_in_drafter(name: &str) -> bool {
    name.starts_with("lm_head.") || name.starts_with("embed_tokens.") || name.contains("rotary_emb.")
}
