//! The crate's behaviour as its callers see it.

/// The demo pair.
mod demo;
/// Drafters, and targets they do not fit.
mod drafters;
/// Bytes that mean nothing.
mod garbage;
/// One model, every way files lay it out.
mod layouts;
/// One mistake at a time, and what the message says of it.
mod malformed;
/// Quantized tensors and the dequantized twin.
mod quantized;
/// Tensors that are made when they are read.
mod sources;
/// Checkpoints small enough to break by hand.
mod tiny;
