//! The device seam: buffers, about twenty row-wise operations, and rounds that can be recorded.

use half::bf16;

use crate::{
    Accepted, ConvRing, DeviceWindow, DrawRow, DrawTables, Element, HostMatrix, KeyValuePages, MemoryMeter,
    PageTable, RopeTable, Rows,
};

/// What can go wrong on a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// An allocation did not fit.
    #[error("{device}: {bytes} bytes could not be allocated ({reason})")]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// Bytes asked for.
        bytes: usize,
        /// What the allocator said.
        reason: String,
    },
    /// The device cannot run this shape or format.
    #[error("{device}: {what} is {found}; accepted: {accepted}")]
    Unsupported {
        /// The device's name.
        device: String,
        /// The thing that is not accepted.
        what: String,
        /// Its value.
        found: String,
        /// What is accepted.
        accepted: String,
    },
    /// The device failed; its state is lost.
    #[error("{device}: {reason}")]
    Failed {
        /// The device's name.
        device: String,
        /// What it said.
        reason: String,
    },
}

/// Widths of an attention layer's projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads; 0 when only keys and values are made (a drafter's context).
    pub query_heads: usize,
    /// Key and value heads; query head `n` reads head `n / (query_heads / key_value_heads)`.
    pub key_value_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

impl HeadShape {
    /// Width of a row of stacked queries, keys and values.
    pub fn stacked_width(&self) -> usize {
        (self.query_heads + 2 * self.key_value_heads) * self.head_dim
    }
}

/// Weights `[head_dim]` of the norms on each query head and each key head.
pub struct HeadNorms<D: Device> {
    /// On queries; unread when the shape has no query heads.
    pub query: D::Buffer<bf16>,
    /// On keys.
    pub key: D::Buffer<bf16>,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// How a router turns logits into picks (docs/lfm2.md section 2.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteRule {
    /// Experts picked a row.
    pub picks: usize,
    /// Divide the picked weights by their sum plus 1e-6.
    pub normalize: bool,
    /// Multiplies the weights.
    pub scale: f32,
}

/// The picks of one mixture-of-experts layer, and how many distinct experts each layer touched.
pub struct Routing<D: Device> {
    /// `[rows, picks]` expert numbers, ascending within a row; -1 for pad rows.
    pub experts: D::Buffer<i32>,
    /// `[rows, picks]` mixing weights.
    pub weights: D::Buffer<f32>,
    /// `[layers]` distinct experts over all rows of the forward.
    pub distinct: D::Buffer<i32>,
}

/// One expert's matrices on the host.
pub struct ExpertWeights<'a> {
    /// `[intermediate, hidden]`
    pub gate: HostMatrix<'a>,
    /// `[intermediate, hidden]`
    pub up: HostMatrix<'a>,
    /// `[hidden, intermediate]`
    pub down: HostMatrix<'a>,
}

/// A drafter's sequential head (docs/dspark.md sections 4 and 5).
pub struct MarkovHead<D: Device> {
    /// `[vocabulary, rank]`: embeds the previous token.
    pub previous: D::Matrix,
    /// `[vocabulary, rank]`: turns it into a bias on the logits.
    pub next: D::Matrix,
    /// `[hidden + rank]` weights and `[1]` bias of the confidence head, when there is one.
    pub confidence: Option<(D::Buffer<bf16>, D::Buffer<bf16>)>,
}

/// Identifies what a recorded round may not vary: two rounds with one key differ in device arrays only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RoundKey {
    /// Rows of the target's forward, as bucketed.
    pub rows: usize,
    /// Whether a window continues with tokens of the round before ([`Device::held_tokens`]).
    pub continued: bool,
    /// Draws.
    pub draws: usize,
    /// Windows.
    pub windows: usize,
    /// Draft blocks filled after it.
    pub blocks: usize,
    /// Drafts made a block.
    pub depth: usize,
    /// Whether the layers that the drafter reads are tapped.
    pub tapped: bool,
    /// Tapped rows kept for a later round.
    pub kept: usize,
    /// Tapped rows projected into the drafter's context.
    pub absorbed: usize,
    /// Whether every draw is greedy and without penalties, bias or mask.
    pub plain_greedy: bool,
    /// Draws whose log-probabilities are asked for.
    pub log_probabilities: usize,
}

/// Alternatives that [`Device::log_probabilities`] finds for a row.
pub const ALTERNATIVES: usize = 20;

/// One part of a round's read-back: the first so many values of a buffer.
pub enum ReadBackPart<'a, D: Device> {
    /// Ids or counts.
    I32(&'a D::Buffer<i32>, usize),
    /// Floats.
    F32(&'a D::Buffer<f32>, usize),
    /// Windows' outcomes.
    Accepted(&'a D::Buffer<Accepted>, usize),
}

impl<D: Device> ReadBackPart<'_, D> {
    /// 32-bit words that it reads.
    pub fn words(&self) -> usize {
        match self {
            ReadBackPart::I32(_, len) | ReadBackPart::F32(_, len) => *len,
            ReadBackPart::Accepted(_, len) => len * (size_of::<Accepted>() / size_of::<u32>()),
        }
    }
}

/// A machine that computes rows.
///
/// # Contract
/// - **Row-invariance.** What an operation writes for a row depends on that row's inputs and history alone: not
///   on `rows.count`, the row's index, or the other rows. Every reduction order is fixed by weight shape and by
///   absolute key position.
/// - **Arithmetic.** bf16 between operations, fp32 accumulation; each operation says where it rounds.
/// - Operations are queued and cannot fail visibly; a failure surfaces at the next [`Device::wait`].
/// - Pad rows ([`NO_LANE`](crate::NO_LANE)) write no state; what they leave in outputs is unspecified.
/// - Buffers may be longer than an operation needs; it uses the first entries.
pub trait Device: Sized + Send + 'static {
    /// Memory for `T`s on the device.
    type Buffer<T: Element>: Send;
    /// A weight matrix `[outputs, inputs]`, dense bf16 or affine.
    type Matrix: Send;
    /// The experts of one layer.
    type Experts: Send;
    /// A read-back that is queued.
    type ReadBack: Send;

    /// Name, for messages and receipts, such as `cpu`.
    fn name(&self) -> &str;

    /// The arithmetic chosen at start, such as `avx512`. Bit equality is promised within one mode.
    fn mode(&self) -> &str;

    /// Whether queued work runs while the caller goes on, so that a second round may be queued behind the first.
    fn is_asynchronous(&self) -> bool;

    /// Counts what is allocated, on devices with memory of their own to count.
    fn memory(&self) -> Option<MemoryMeter> {
        None
    }

    // ── memory ──

    /// `len` zeros.
    fn allocate<T: Element>(&self, len: usize) -> Result<Self::Buffer<T>, DeviceError>;

    /// `len` values, all zeros once they are there: what [`Device::commit`] was not asked for yet may not be touched.
    /// A device that cannot reserve addresses alone allocates all of them.
    fn reserve<T: Element>(&self, len: usize) -> Result<Self::Buffer<T>, DeviceError> {
        self.allocate(len)
    }

    /// Has a range of a reserved buffer's values take memory. Nothing happens where it has.
    fn commit<T: Element>(
        &self,
        _buffer: &mut Self::Buffer<T>,
        _values: std::ops::Range<usize>,
    ) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Bytes that could still be committed; `None` of a device that allocates all that is reserved.
    fn memory_left(&self) -> Result<Option<u64>, DeviceError> {
        Ok(None)
    }

    /// Writes `values` from index `offset` on, after all that is queued already and before what follows.
    fn upload<T: Element>(&self, buffer: &mut Self::Buffer<T>, offset: usize, values: &[T]);

    /// Queues copies of the parts as they are after all work queued until now: the one read-back of a round. What
    /// is queued later does not change what they read.
    fn queue_read_back(&self, parts: &[ReadBackPart<'_, Self>]) -> Self::ReadBack;

    /// Waits for a read-back, and for nothing queued after it, and copies its parts, one behind the other, to
    /// `words` (as many as [`ReadBackPart::words`] says of all parts).
    fn wait(&self, read_back: Self::ReadBack, words: &mut [u32]) -> Result<(), DeviceError>;

    /// Waits and copies `out.len()` values from index `offset` on. For tests and tools, not for rounds.
    fn download<T: Element>(
        &self,
        buffer: &Self::Buffer<T>,
        offset: usize,
        out: &mut [T],
    ) -> Result<(), DeviceError>;

    /// One matrix whose rows are the parts' rows, part after part. Parts have equal `columns`, not always equal
    /// formats. Dense fp16 and fp32 parts are rounded to bf16.
    fn load_matrix(&self, parts: &[HostMatrix<'_>]) -> Result<Self::Matrix, DeviceError>;

    /// The experts of one layer, taken one at a time so that host memory stays at one expert.
    fn load_experts<'a>(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Self::Experts, DeviceError>;

    /// Runs `forward` the first time `key` is met and records its operations; replays them afterwards. A device
    /// that cannot record runs `forward` every time.
    fn round(
        &self,
        key: RoundKey,
        forward: &mut dyn FnMut() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError>;

    // ── operations; `R` is `rows.count`, `H` the width of the residual stream ──

    /// `out[R, H]`: the table's rows of the tokens.
    fn embed(&self, table: &Self::Matrix, rows: &Rows<Self>, out: &mut Self::Buffer<bf16>);

    /// `out[count, width]` = `weight * bf16(x * rsqrt(mean(x^2) + epsilon))`, the product rounded again.
    fn rms_norm(
        &self,
        x: &Self::Buffer<bf16>,
        weight: &Self::Buffer<bf16>,
        epsilon: f32,
        count: usize,
        width: usize,
        out: &mut Self::Buffer<bf16>,
    );

    /// `out[count, outputs]` = `bf16(matrix · x)`.
    fn linear(
        &self,
        matrix: &Self::Matrix,
        x: &Self::Buffer<bf16>,
        count: usize,
        out: &mut Self::Buffer<bf16>,
    );

    /// `residual[count, outputs]` = `bf16(residual + bf16(matrix · x))`.
    fn linear_add(
        &self,
        matrix: &Self::Matrix,
        x: &Self::Buffer<bf16>,
        count: usize,
        residual: &mut Self::Buffer<bf16>,
    );

    /// `out[count, outputs]` = `matrix · x` in fp32: the logits.
    fn logits(
        &self,
        matrix: &Self::Matrix,
        x: &Self::Buffer<bf16>,
        count: usize,
        out: &mut Self::Buffer<f32>,
    );

    /// Norms and rotates the query and key heads of `stacked[R, shape.stacked_width()]` (queries, then keys,
    /// then values), leaves the queries in place and appends keys and values to the rows' pages. The norm
    /// rounds as [`Device::rms_norm`]; the rotation is fp32 with one rounding; pairs are half-split.
    fn rope_append(
        &self,
        stacked: &mut Self::Buffer<bf16>,
        shape: HeadShape,
        norms: &HeadNorms<Self>,
        rope: &RopeTable<Self>,
        rows: &Rows<Self>,
        table: &PageTable<Self>,
        pages: &mut KeyValuePages<Self>,
    );

    /// `out[R, query_heads * head_dim]`: softmax(q·k / sqrt(head_dim))·v over keys `0..key_end` of the row's
    /// lane, in fp32, rounded once. Partitions are pages, merged in page order.
    fn attention(
        &self,
        stacked: &Self::Buffer<bf16>,
        shape: HeadShape,
        rows: &Rows<Self>,
        table: &PageTable<Self>,
        pages: &KeyValuePages<Self>,
        out: &mut Self::Buffer<bf16>,
    );

    /// `projected[R, 3C]` holds B, C and x. `u = bf16(B * x)` goes into the ring; `out[R, C]` =
    /// `bf16(C * bf16(sum over k of weight[c, k] * u at position - 2 + k))`, fp32 in the order k = 0, 1, 2.
    /// `weight` is `[channels, 3]`; `u` before position 0 is 0.
    fn short_conv(
        &self,
        projected: &Self::Buffer<bf16>,
        weight: &Self::Buffer<bf16>,
        channels: usize,
        rows: &Rows<Self>,
        ring: &mut ConvRing<Self>,
        out: &mut Self::Buffer<bf16>,
    );

    /// [`Device::linear`] into `projected` and [`Device::short_conv`] of it: the same bits in `ring` and `out`. A
    /// device that does both at once leaves nothing in `projected`.
    fn project_short_conv(
        &self,
        matrix: &Self::Matrix,
        x: &Self::Buffer<bf16>,
        weight: &Self::Buffer<bf16>,
        channels: usize,
        rows: &Rows<Self>,
        ring: &mut ConvRing<Self>,
        projected: &mut Self::Buffer<bf16>,
        out: &mut Self::Buffer<bf16>,
    ) {
        self.linear(matrix, x, rows.count, projected);
        self.short_conv(projected, weight, channels, rows, ring, out);
    }

    /// `residual[count, H]` = `bf16(residual + bf16(down · bf16(silu(g) * u)))` with `g` and `u` the halves of
    /// `bf16(gate_up · x)`; silu and its product are fp32, rounded once.
    fn feed_forward(
        &self,
        gate_up: &Self::Matrix,
        down: &Self::Matrix,
        x: &Self::Buffer<bf16>,
        count: usize,
        residual: &mut Self::Buffer<bf16>,
    );

    /// Picks experts: logits, sigmoid, bias and selection in fp32, the highest biased scores with ties to the
    /// lower number; weights from the unbiased scores. Writes `distinct[layer]`.
    fn route(
        &self,
        router: &Self::Matrix,
        bias: &Self::Buffer<f32>,
        rule: RouteRule,
        x: &Self::Buffer<bf16>,
        rows: &Rows<Self>,
        layer: usize,
        routing: &mut Routing<Self>,
    );

    /// `residual[R, H]` = `bf16(residual + bf16(sum over picks of weight * bf16(down_e · act_e)))`, the sum in
    /// fp32 by ascending expert; `act_e` as in [`Device::feed_forward`].
    fn expert_feed_forward(
        &self,
        experts: &Self::Experts,
        routing: &Routing<Self>,
        picks: usize,
        x: &Self::Buffer<bf16>,
        rows: &Rows<Self>,
        residual: &mut Self::Buffer<bf16>,
    );

    /// [`Device::route`] and then [`Device::expert_feed_forward`]: the same bits, for devices that do both at once.
    fn mixture(
        &self,
        router: &Self::Matrix,
        bias: &Self::Buffer<f32>,
        rule: RouteRule,
        experts: &Self::Experts,
        x: &Self::Buffer<bf16>,
        rows: &Rows<Self>,
        layer: usize,
        routing: &mut Routing<Self>,
        residual: &mut Self::Buffer<bf16>,
    ) {
        self.route(router, bias, rule, x, rows, layer, routing);
        self.expert_feed_forward(experts, routing, rule.picks, x, rows, residual);
    }

    /// Copies `x[R, width]` into columns `offset..offset + width` of `out[R, out_width]`: a tap.
    fn copy_columns(
        &self,
        x: &Self::Buffer<bf16>,
        count: usize,
        width: usize,
        out: &mut Self::Buffer<bf16>,
        out_width: usize,
        offset: usize,
    );

    /// Copies row `from[i]` of `buffer[.., width]` to row `to[i]`, for `i` in `0..count`. No row is both a source
    /// and a destination.
    fn copy_rows(
        &self,
        buffer: &mut Self::Buffer<bf16>,
        from: &Self::Buffer<i32>,
        to: &Self::Buffer<i32>,
        count: usize,
        width: usize,
    );

    /// `out[count, width]`: row `index[i]` of `x`; zeros where the index is -1.
    fn gather_rows(
        &self,
        x: &Self::Buffer<bf16>,
        index: &Self::Buffer<i32>,
        count: usize,
        width: usize,
        out: &mut Self::Buffer<bf16>,
    );

    /// `drawn[count]`: each row's token by its rule ([`DrawRow`]).
    fn draw(
        &self,
        logits: &Self::Buffer<f32>,
        rules: &Self::Buffer<DrawRow>,
        rows: &Rows<Self>,
        tables: &DrawTables<Self>,
        count: usize,
        drawn: &mut Self::Buffer<i32>,
    );

    /// Tokens that only the device need know: where [`DeviceWindow::previous`] names a window of the round before,
    /// the first row's token becomes that window's anchor and the rows after it its held drafts,
    /// `drafts[accepted[previous].block, size]`. `accepted` and `drafts` are as the round before left them.
    fn held_tokens(
        &self,
        windows: &Self::Buffer<DeviceWindow>,
        count: usize,
        accepted: &Self::Buffer<Accepted>,
        drafts: &Self::Buffer<i32>,
        size: usize,
        rows: &mut Rows<Self>,
    );

    /// What a draw's row says of its tokens, for entry `i` in `0..count` from row `index[i]` of
    /// `logits[.., vocabulary]`, as it is before bias, penalties and filters; with `W = 1 + ALTERNATIVES`:
    ///
    /// - `tokens[count, W]`: first the draw `drawn[index[i]]`, then the row's `ALTERNATIVES` highest values in
    ///   order, ties (0 and -0 among them) to the lower id. Where the vocabulary has fewer, the rest is -1.
    /// - `values[count, W]`: their log-probabilities in fp32, `(x[token] - m) - ln(sum of e^(x[j] - m))` with `m`
    ///   the row's highest value; negative infinity beside -1.
    ///
    /// The order of the sum is fixed by `vocabulary` alone. An index of -1 is a pad.
    fn log_probabilities(
        &self,
        logits: &Self::Buffer<f32>,
        vocabulary: usize,
        drawn: &Self::Buffer<i32>,
        index: &Self::Buffer<i32>,
        count: usize,
        tokens: &mut Self::Buffer<i32>,
        values: &mut Self::Buffer<f32>,
    );

    /// Accepts each window's drafts while they equal the draws of the rows before them, and counts what was
    /// committed (accepted drafts and anchor) where [`DeviceWindow::counted`] says so. A pad window gets length 0,
    /// anchor -1 and block -1.
    fn accept(
        &self,
        windows: &Self::Buffer<DeviceWindow>,
        count: usize,
        rows: &Rows<Self>,
        drawn: &Self::Buffer<i32>,
        tables: &mut DrawTables<Self>,
        accepted: &mut Self::Buffer<Accepted>,
    );

    /// Fills the block rows of windows with [`DeviceWindow::block`] set: `size` rows a block, the anchor then
    /// `mask_token`s, at positions from the accepted length on, each seeing keys up to the block's end. Blocks
    /// without a window become pad rows. Sets no count: the caller has set `block_rows.count`.
    fn draft_rows(
        &self,
        windows: &Self::Buffer<DeviceWindow>,
        count: usize,
        accepted: &Self::Buffer<Accepted>,
        size: usize,
        mask_token: i32,
        block_rows: &mut Rows<Self>,
    );

    /// Draws `depth` drafts a block, one after another: `logits[block * size + j] + next · previous[token j]`,
    /// token 0 the anchor, drawn by `rules[block]` at the block row's position + 1 with the drafts before it
    /// counted as seen. Writes `drafts[blocks, size]` and, with a confidence head, its logits
    /// `w · [hidden ; previous[token j]] + b` in fp32 to `confidence[blocks, size]`.
    fn draft_chain(
        &self,
        head: &MarkovHead<Self>,
        hidden: &Self::Buffer<bf16>,
        hidden_width: usize,
        logits: &Self::Buffer<f32>,
        rules: &Self::Buffer<DrawRow>,
        block_rows: &Rows<Self>,
        tables: &DrawTables<Self>,
        blocks: usize,
        size: usize,
        depth: usize,
        drafts: &mut Self::Buffer<i32>,
        confidence: &mut Self::Buffer<f32>,
    );
}
