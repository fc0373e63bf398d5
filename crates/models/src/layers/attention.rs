//! Grouped-query attention with normed heads, over paged keys and values.

use forerunner_tensor::{
    Device, DeviceError, HeadNorms, HeadShape, HostMatrix, KeyValuePages, PageTable, RopeTable, Rows, bf16,
};

use super::upload_vector;

/// Projections and head norms of one attention layer.
pub struct Attention<D: Device> {
    /// Queries, keys, values.
    stacked: D::Matrix,
    output: D::Matrix,
    norms: HeadNorms<D>,
    shape: HeadShape,
}

/// Where a layer's keys and values are and how positions rotate them.
pub struct KeyValueContext<'a, D: Device> {
    /// The lanes' pages.
    pub table: &'a PageTable<D>,
    /// Rotations.
    pub rope: &'a RopeTable<D>,
}

/// Activations that attention layers share.
pub struct AttentionScratch<D: Device> {
    /// `[rows, HeadShape::stacked_width()]`
    pub stacked: D::Buffer<bf16>,
    /// `[rows, query_heads * head_dim]`
    pub mixed: D::Buffer<bf16>,
}

impl<D: Device> AttentionScratch<D> {
    /// Room for `rows` rows.
    pub fn new(device: &D, shape: HeadShape, rows: usize) -> Result<Self, DeviceError> {
        Ok(AttentionScratch {
            stacked: device.allocate(rows * shape.stacked_width())?,
            mixed: device.allocate(rows * shape.query_heads * shape.head_dim)?,
        })
    }
}

impl<D: Device> Attention<D> {
    /// Loads the projections (`query`, `key`, `value`, as stacked) and the norms of query and key heads.
    pub fn load(
        device: &D,
        shape: HeadShape,
        projections: &[HostMatrix<'_>],
        output: &HostMatrix<'_>,
        query_norm: &[f32],
        key_norm: &[f32],
        epsilon: f32,
    ) -> Result<Self, DeviceError> {
        Ok(Attention {
            stacked: device.load_matrix(projections)?,
            output: device.load_matrix(std::slice::from_ref(output))?,
            norms: HeadNorms {
                query: upload_vector(device, query_norm)?,
                key: upload_vector(device, key_norm)?,
                epsilon,
            },
            shape,
        })
    }

    /// Adds the layer's output for the normed rows `x` to `residual` and appends their keys and values.
    pub fn forward(
        &self,
        device: &D,
        x: &D::Buffer<bf16>,
        rows: &Rows<D>,
        context: &KeyValueContext<'_, D>,
        pages: &mut KeyValuePages<D>,
        scratch: &mut AttentionScratch<D>,
        residual: &mut D::Buffer<bf16>,
    ) {
        device.linear(&self.stacked, x, rows.count, &mut scratch.stacked);
        device.rope_append(
            &mut scratch.stacked,
            self.shape,
            &self.norms,
            context.rope,
            rows,
            context.table,
            pages,
        );
        device.attention(&scratch.stacked, self.shape, rows, context.table, pages, &mut scratch.mixed);
        device.linear_add(&self.output, &scratch.mixed, rows.count, residual);
    }

    /// The norms, for a drafter that also projects context keys.
    pub fn norms(&self) -> &HeadNorms<D> {
        &self.norms
    }
}
