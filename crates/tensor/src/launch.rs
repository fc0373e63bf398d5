//! What a device's kernels take or need at most, as its sources record it.

/// A kernel's limits. They are made from the constants that its launches are refused by or built with, so what is reported is
/// what holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchLimit {
    /// The kernel, or the operation of several.
    pub kernel: String,
    /// Amounts, each with what it is of.
    pub most: Vec<(&'static str, u64)>,
}

impl LaunchLimit {
    /// A kernel's amounts.
    pub fn new(kernel: impl Into<String>, most: &[(&'static str, u64)]) -> Self {
        LaunchLimit { kernel: kernel.into(), most: most.to_vec() }
    }
}
