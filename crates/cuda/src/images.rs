//! Compiled kernels: one image for each kind of chip, and the hash of the sources that they were made from.

/// An image that the driver can load.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// What it was compiled for, such as `sm_90a`.
    pub target: &'static str,
    /// A cubin, or the text of a PTX module.
    pub bytes: &'static [u8],
}

/// What `cargo xtask cuda` built, and the hash that it stored.
pub const BUILT: &str = include_str!("../kernels/built/hash.txt");

const SM_80: Image = Image { target: "sm_80", bytes: include_bytes!("../kernels/built/sm_80.cubin") };
const SM_90A: Image = Image { target: "sm_90a", bytes: include_bytes!("../kernels/built/sm_90a.cubin") };
const SM_120: Image = Image { target: "sm_120", bytes: include_bytes!("../kernels/built/sm_120.cubin") };
const COMPUTE_90: Image =
    Image { target: "compute_90", bytes: include_bytes!("../kernels/built/compute_90.ptx") };

impl Image {
    /// The image for a chip of compute capability `major.minor`: machine code where there is some, otherwise PTX,
    /// which the driver compiles at start.
    pub fn for_capability(major: i32, minor: i32) -> Option<Image> {
        match (major, minor) {
            (8, _) => Some(SM_80),
            (9, 0) => Some(SM_90A),
            (12, _) => Some(SM_120),
            (9.., _) => Some(COMPUTE_90),
            _ => None,
        }
    }
}

/// The kernels' sources by name, in the order in which they are hashed.
pub fn kernel_sources() -> [(&'static str, &'static str); 12] {
    [
        ("forerunner.cu", include_str!("../kernels/forerunner.cu")),
        ("common.cuh", include_str!("../kernels/common.cuh")),
        ("weights.cuh", include_str!("../kernels/weights.cuh")),
        ("norm.cuh", include_str!("../kernels/norm.cuh")),
        ("few.cuh", include_str!("../kernels/few.cuh")),
        ("linear.cuh", include_str!("../kernels/linear.cuh")),
        ("rows.cuh", include_str!("../kernels/rows.cuh")),
        ("conv.cuh", include_str!("../kernels/conv.cuh")),
        ("experts.cuh", include_str!("../kernels/experts.cuh")),
        ("attention.cuh", include_str!("../kernels/attention.cuh")),
        ("draw.cuh", include_str!("../kernels/draw.cuh")),
        ("memory.cuh", include_str!("../kernels/memory.cuh")),
    ]
}

/// A hash of names and texts (FNV-1a, 64 bits): equal sources, equal hash.
pub fn source_hash<'a>(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for (name, text) in sources {
        for byte in name.bytes().chain([0]).chain(text.bytes()).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}
