//! The shaders and their kernels: which file, which entry, what is bound, what a launch needs.

use crate::limits::LaunchNeeds;
use crate::weights::Format;

/// A file of kernels, with what it stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Rows,
    Embed,
    Linear,
    LinearNormed,
    LinearMany,
    Attention,
    Experts,
    Windows,
    Draw,
}

const COMMON: &str = include_str!("../shaders/common.wgsl");
const WEIGHTS: &str = include_str!("../shaders/weights.wgsl");
const LINEAR: &str = include_str!("../shaders/linear.wgsl");
const FEW: &str = include_str!("../shaders/few.wgsl");
const NORM: &str = include_str!("../shaders/norm.wgsl");
const ROUTE: &str = include_str!("../shaders/route.wgsl");
const CONV: &str = include_str!("../shaders/conv.wgsl");

/// Families with their number as index.
pub(crate) const FAMILIES: usize = Family::Draw as usize + 1;

impl Family {
    /// The whole text.
    pub(crate) fn source(self) -> String {
        match self {
            Family::Rows => [COMMON, NORM, CONV, include_str!("../shaders/rows.wgsl")].concat(),
            Family::Embed => [COMMON, WEIGHTS, include_str!("../shaders/embed.wgsl")].concat(),
            Family::Linear => {
                let entries =
                    [include_str!("../shaders/stored.wgsl"), include_str!("../shaders/routed.wgsl")];
                [COMMON, WEIGHTS, LINEAR, FEW, ROUTE, &entries.concat()].concat()
            }
            Family::LinearNormed => {
                let normed = include_str!("../shaders/normed.wgsl");
                [COMMON, WEIGHTS, LINEAR, FEW, NORM, CONV, normed].concat()
            }
            Family::LinearMany => [COMMON, WEIGHTS, LINEAR, include_str!("../shaders/many.wgsl")].concat(),
            Family::Attention => [COMMON, include_str!("../shaders/attention.wgsl")].concat(),
            Family::Experts => [COMMON, ROUTE, include_str!("../shaders/experts.wgsl")].concat(),
            Family::Windows => [COMMON, include_str!("../shaders/windows.wgsl")].concat(),
            Family::Draw => [COMMON, include_str!("../shaders/draw.wgsl")].concat(),
        }
    }

    /// Whether its kernels read weights, so that there is one for each format of them.
    pub(crate) fn reads_weights(self) -> bool {
        matches!(self, Family::Embed | Family::Linear | Family::LinearNormed | Family::LinearMany)
    }
}

/// How a kernel's buffers are bound, in the order of their numbers: `r` is read, `w` is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelSpec {
    pub(crate) family: Family,
    /// The entry's name.
    pub(crate) entry: &'static str,
    pub(crate) access: &'static str,
    /// The value of the constant `ROWS`, where the entry is compiled for several.
    rows: Option<u32>,
    threads: u32,
    workgroup_bytes: u32,
    immediate_bytes: u32,
}

impl KernelSpec {
    /// Its name in messages: the entry, and the rows that it is compiled for.
    pub(crate) fn name(&self) -> String {
        self.rows.map_or_else(|| self.entry.to_owned(), |rows| format!("{}_{rows}", self.entry))
    }

    /// The values of the shader's constants, over weights of this format.
    pub(crate) fn constants(&self, format: Format) -> Vec<(&'static str, f64)> {
        let format = self.family.reads_weights().then_some(("FORMAT", f64::from(format as u32)));
        format.into_iter().chain(self.rows.map(|rows| ("ROWS", f64::from(rows)))).collect()
    }

    /// What a launch needs.
    pub(crate) fn needs(&self) -> LaunchNeeds {
        LaunchNeeds {
            threads: self.threads,
            workgroup_bytes: self.workgroup_bytes,
            buffers: self.access.len() as u32,
            immediate_bytes: self.immediate_bytes,
        }
    }
}

/// Makes the enum of kernels and the table of their specifications.
macro_rules! kernels {
    ($($kernel:ident: $family:ident $entry:literal $access:literal,
       $threads:literal threads, $bytes:literal shared, $immediates:literal immediates
       $(, $rows:literal rows)?;)+) => {
        /// An entry of a shader.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kernel {
            $($kernel,)+
        }

        /// By kernel.
        pub(crate) const KERNELS: &[KernelSpec] = &[$(KernelSpec {
            family: Family::$family,
            entry: $entry,
            access: $access,
            rows: [$($rows)?].first().copied(),
            threads: $threads,
            workgroup_bytes: $bytes,
            immediate_bytes: $immediates,
        },)+];
    };
}

kernels! {
    RmsNorm: Rows "rms_norm" "rrw", 128 threads, 544 shared, 8 immediates;
    ShortConv: Rows "short_conv" "rrrrww", 64 threads, 0 shared, 12 immediates;
    CopyColumns: Rows "copy_columns" "rw", 64 threads, 0 shared, 16 immediates;
    CopyRows: Rows "copy_rows" "rrw", 64 threads, 0 shared, 16 immediates;
    CopyValues: Rows "copy_values" "rrw", 1 threads, 0 shared, 16 immediates;
    GatherRows: Rows "gather_rows" "rrw", 64 threads, 0 shared, 16 immediates;
    Gate: Rows "gate" "rw", 64 threads, 0 shared, 4 immediates;
    NarrowValues: Rows "narrow_values" "rw", 64 threads, 0 shared, 12 immediates;
    PatchWord: Rows "patch_word" "w", 1 threads, 0 shared, 12 immediates;
    Embed: Embed "embed" "rrrrw", 64 threads, 0 shared, 20 immediates;
    ChainEmbed: Embed "chain_embed" "rrrrrrrrww", 64 threads, 256 shared, 32 immediates;
    Linear1: Linear "linear" "rrrwr", 128 threads, 2052 shared, 76 immediates, 1 rows;
    Linear4: Linear "linear" "rrrwr", 128 threads, 8208 shared, 76 immediates, 4 rows;
    Linear8: Linear "linear" "rrrwr", 128 threads, 16416 shared, 76 immediates, 8 rows;
    ExpertLinear1: Linear "expert_linear" "rrrwrrr", 128 threads, 2052 shared, 76 immediates, 1 rows;
    ExpertLinear4: Linear "expert_linear" "rrrwrrr", 128 threads, 8208 shared, 76 immediates, 4 rows;
    ExpertLinear8: Linear "expert_linear" "rrrwrrr", 128 threads, 16416 shared, 76 immediates, 8 rows;
    ExpertLinearRouted: Linear "expert_linear_routed" "rrrwrrrwww", 128 threads, 3364 shared, 76 immediates, 1 rows;
    ExpertDown: Linear "expert_down" "rrrwrr", 128 threads, 2176 shared, 76 immediates, 1 rows;
    LinearNormed: LinearNormed "linear_normed" "rrrwrrw", 128 threads, 7716 shared, 76 immediates, 1 rows;
    ProjectConv: LinearNormed "project_conv" "rrrwrrwrrw", 128 threads, 7712 shared, 76 immediates, 1 rows;
    LinearMany: LinearMany "linear_many" "rrrwr", 128 threads, 16384 shared, 76 immediates;
    ExpertLinearMany: LinearMany "expert_linear_many" "rrrwrrr", 128 threads, 16384 shared, 76 immediates;
    RopeAppend: Attention "rope_append" "wrrrrrrww", 64 threads, 256 shared, 16 immediates;
    Attention: Attention "attention" "rrrrrrw", 256 threads, 13568 shared, 20 immediates;
    AttentionMerge: Attention "attention_merge" "rrrw", 32 threads, 0 shared, 20 immediates;
    Route: Experts "route" "rrrww", 256 threads, 1184 shared, 32 immediates;
    RouteFew: Experts "route_few" "rrrwwwww", 256 threads, 3232 shared, 32 immediates;
    GroupEntries: Experts "group_entries" "rwww", 256 threads, 3072 shared, 20 immediates;
    CombineExperts: Experts "combine_experts" "rrrw", 64 threads, 0 shared, 8 immediates;
    HeldTokens: Windows "held_tokens" "rrrw", 32 threads, 0 shared, 20 immediates;
    Accept: Windows "accept" "rrrrww", 32 threads, 0 shared, 20 immediates;
    DraftRows: Windows "draft_rows" "rrwwww", 64 threads, 0 shared, 20 immediates;
    DrawParts: Draw "draw_parts" "rrrrrrrrww", 256 threads, 2176 shared, 16 immediates;
    DrawFinish: Draw "draw_finish" "rrrrrrrrww", 256 threads, 4240 shared, 16 immediates;
    LogProbabilities: Draw "log_probabilities" "rrrww", 256 threads, 3200 shared, 8 immediates;
}

impl Kernel {
    /// Its specification.
    pub(crate) fn spec(self) -> &'static KernelSpec {
        &KERNELS[self as usize]
    }
}

/// One pipeline's shader, for tools that look at shaders without a GPU.
#[derive(Debug, Clone)]
pub struct ShaderVariant {
    /// Such as `linear_8_affine4`.
    pub name: String,
    /// The entry in the text.
    pub entry: &'static str,
    /// The WGSL.
    pub source: String,
    /// The values of its constants.
    pub constants: Vec<(&'static str, f64)>,
    /// How the buffers are bound, in the order of their numbers: `r` is read, `w` is written.
    pub access: &'static str,
    /// What the kernel says that a launch needs.
    pub needs: LaunchNeeds,
}

/// Every pipeline that there can be.
pub fn shader_variants() -> Vec<ShaderVariant> {
    let mut variants = Vec::new();
    for spec in KERNELS {
        let formats: &[(&str, Format)] = if spec.family.reads_weights() {
            &[("_bf16", Format::Bf16), ("_affine4", Format::Affine4), ("_affine8", Format::Affine8)]
        } else {
            &[("", Format::Bf16)]
        };
        for (suffix, format) in formats {
            variants.push(ShaderVariant {
                name: format!("{}{suffix}", spec.name()),
                entry: spec.entry,
                source: spec.family.source(),
                constants: spec.constants(*format),
                access: spec.access,
                needs: spec.needs(),
            });
        }
    }
    variants
}
