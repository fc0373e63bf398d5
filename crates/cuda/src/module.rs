//! Kernels by name, and their launches.

use std::ffi::{CString, c_void};
use std::{mem, ptr};

use cudarc::driver::sys;
use forerunner_tensor::DeviceError;

use crate::device::CudaOptions;
use crate::driver::{Driver, check};
use crate::images::Image;

/// Declares the kernels with the names that they have in the module.
macro_rules! kernels {
    ($($kernel:ident = $name:literal,)+) => {
        /// Every kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kernel {
            $($kernel,)+
        }

        impl Kernel {
            const NAMES: &[&str] = &[$($name),+];
        }
    };
}

kernels! {
    Embed = "embed",
    RmsNorm = "rms_norm",
    Route = "route",
    ShortConv = "short_conv",
    Copy = "copy",
    Gate = "gate",
    RopeAppend = "rope_append",
    AttentionFew = "attention_few",
    AttentionMany = "attention_many",
    GroupEntries = "group_entries",
    CombineExperts = "combine_experts",
    Draw = "draw",
    LogProbabilities = "log_probabilities",
    Accept = "accept",
    HeldTokens = "held_tokens",
    DraftRows = "draft_rows",
    ChainEmbed = "chain_embed",
    PackBf16 = "pack_bf16",
    PackAffine4 = "pack_affine4",
    PackAffine8 = "pack_affine8",
    PackScales = "pack_scales",
    WidenWeights = "widen_weights",
    Scatter = "scatter",
    Gather = "gather",
    Bandwidth = "bandwidth",
    // Of the formats bf16, affine4 and affine8, in this order.
    Linear1Bf16 = "linear_bf16_1",
    Linear1Affine4 = "linear_affine4_1",
    Linear1Affine8 = "linear_affine8_1",
    Linear2Bf16 = "linear_bf16_2",
    Linear2Affine4 = "linear_affine4_2",
    Linear2Affine8 = "linear_affine8_2",
    LinearWide1Bf16 = "linear_wide_bf16_1",
    LinearWide1Affine4 = "linear_wide_affine4_1",
    LinearWide1Affine8 = "linear_wide_affine8_1",
    LinearWide2Bf16 = "linear_wide_bf16_2",
    LinearWide2Affine4 = "linear_wide_affine4_2",
    LinearWide2Affine8 = "linear_wide_affine8_2",
    LinearManyBf16 = "linear_bf16_many",
    LinearManyAffine4 = "linear_affine4_many",
    LinearManyAffine8 = "linear_affine8_many",
    Conv1Bf16 = "conv_bf16_1",
    Conv1Affine4 = "conv_affine4_1",
    Conv1Affine8 = "conv_affine8_1",
    Conv2Bf16 = "conv_bf16_2",
    Conv2Affine4 = "conv_affine4_2",
    Conv2Affine8 = "conv_affine8_2",
    GateUpSome1Bf16 = "gate_up_some_bf16_1",
    GateUpSome1Affine4 = "gate_up_some_affine4_1",
    GateUpSome1Affine8 = "gate_up_some_affine8_1",
    GateUpSome2Bf16 = "gate_up_some_bf16_2",
    GateUpSome2Affine4 = "gate_up_some_affine4_2",
    GateUpSome2Affine8 = "gate_up_some_affine8_2",
    GateUpManyBf16 = "gate_up_bf16_many",
    GateUpManyAffine4 = "gate_up_affine4_many",
    GateUpManyAffine8 = "gate_up_affine8_many",
    DownOneBf16 = "down_one_bf16",
    DownOneAffine4 = "down_one_affine4",
    DownOneAffine8 = "down_one_affine8",
    DownSome1Bf16 = "down_some_bf16_1",
    DownSome1Affine4 = "down_some_affine4_1",
    DownSome1Affine8 = "down_some_affine8_1",
    DownSome2Bf16 = "down_some_bf16_2",
    DownSome2Affine4 = "down_some_affine4_2",
    DownSome2Affine8 = "down_some_affine8_2",
    DownManyBf16 = "down_bf16_many",
    DownManyAffine4 = "down_affine4_many",
    DownManyAffine8 = "down_affine8_many",
}

/// How many blocks, threads of a block, and bytes of its dynamic memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) blocks: [usize; 3],
    pub(crate) threads: usize,
    pub(crate) shared: usize,
}

impl Grid {
    pub(crate) fn new(x: usize, y: usize, threads: usize) -> Self {
        Grid { blocks: [x, y, 1], threads, shared: 0 }
    }

    pub(crate) fn with_shared(self, shared: usize) -> Self {
        Grid { shared, ..self }
    }
}

/// A kernel's one argument: plain words, laid out as in the kernel's source.
///
/// # Safety
/// The type is `repr(C)` and equals the kernel's parameter, field by field.
pub(crate) unsafe trait Params: Copy {}

/// The loaded kernels.
pub(crate) struct Module {
    module: sys::CUmodule,
    functions: Vec<sys::CUfunction>,
    /// Whether a kernel's blocks may start while the one before it ends; each waits before it reads.
    overlap: bool,
}

// SAFETY: handles of the driver belong to no thread.
unsafe impl Send for Module {}

impl Module {
    /// Loads the image for the driver's chip.
    pub(crate) fn load(driver: &Driver, options: &CudaOptions) -> Result<Self, DeviceError> {
        let (major, minor) = driver.capability;
        let built = Image::for_capability(major, minor).ok_or_else(|| DeviceError::Unsupported {
            device: crate::NAME.into(),
            what: format!("the compute capability of {}", driver.chip),
            found: format!("{major}.{minor}"),
            accepted: "8.0 or more".into(),
        })?;
        let image = options.image.unwrap_or(built.bytes);
        driver.enter()?;
        let mut module = ptr::null_mut();
        // The driver wants PTX to end with 0; a cubin knows its length.
        let bytes = [image, &[0]].concat();
        // SAFETY: the image is whole.
        let loaded = unsafe { sys::cuModuleLoadData(&mut module, bytes.as_ptr().cast::<c_void>()) };
        check(loaded, &format!("loading the kernels for {}", built.target))?;
        let mut functions = Vec::with_capacity(Kernel::NAMES.len());
        for name in Kernel::NAMES {
            let mut function = ptr::null_mut();
            let text = CString::new(*name).expect("a kernel's name has no zero byte");
            // SAFETY: the module is loaded and the name a C string.
            let found = unsafe { sys::cuModuleGetFunction(&mut function, module, text.as_ptr()) };
            check(found, &format!("looking for the kernel {name}"))?;
            allow_shared(function, driver.resources.shared_of_block, name)?;
            functions.push(function);
        }
        Ok(Module { module, functions, overlap: options.overlap && major >= 9 })
    }

    /// Queues a kernel.
    pub(crate) fn launch<P: Params>(
        &self,
        driver: &Driver,
        kernel: Kernel,
        grid: Grid,
        params: &P,
    ) -> Result<(), DeviceError> {
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            // SAFETY: a union of plain words, for which zeros are valid.
            value: unsafe { mem::zeroed() },
            pad: [0; 4],
        };
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let [x, y, z] = grid.blocks;
        let config = sys::CUlaunchConfig {
            gridDimX: x as u32,
            gridDimY: y as u32,
            gridDimZ: z as u32,
            blockDimX: grid.threads as u32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared as u32,
            hStream: driver.stream(),
            attrs: &mut attribute,
            numAttrs: u32::from(self.overlap),
        };
        let mut argument = ptr::from_ref(params).cast_mut().cast::<c_void>();
        let function = self.functions[kernel as usize];
        // SAFETY: the parameter is what the kernel declares, by the contract of `Params`; its addresses are of
        // buffers that are long enough, as each operation asserts.
        let launched = unsafe { sys::cuLaunchKernelEx(&config, function, &mut argument, ptr::null_mut()) };
        check(launched, Kernel::NAMES[kernel as usize])
    }
}

/// Lets a kernel's blocks have all of the dynamic memory that its own leaves.
fn allow_shared(function: sys::CUfunction, most: usize, name: &str) -> Result<(), DeviceError> {
    use sys::CUfunction_attribute_enum as Attribute;
    let mut own = 0;
    // SAFETY: the function is loaded and `own` is written.
    let found = unsafe {
        sys::cuFuncGetAttribute(&mut own, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
    };
    check(found, &format!("asking for the memory of the kernel {name}"))?;
    let rest = most as i32 - own;
    // SAFETY: the function is loaded.
    let set = unsafe {
        let which = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        sys::cuFuncSetAttribute(function, which, rest)
    };
    check(set, &format!("setting the memory of the kernel {name}"))
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the device waits for its stream before it drops its module.
        unsafe { sys::cuModuleUnload(self.module) };
    }
}
