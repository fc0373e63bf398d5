//! What Metal is given: naga's translation of each shader, with buffers where wgpu puts them. For tests and tools, which
//! have no Mac.

use naga::back::msl;
use naga::back::pipeline_constants::process_overrides;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy, Layouter};
use naga::valid::{Capabilities, GlobalUse, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ResourceBinding, ShaderStage};

use crate::limits::LaunchNeeds;
use crate::shaders::ShaderVariant;

/// A shader as naga reads it, with its constants filled in.
pub struct Translated {
    module: Module,
    info: ModuleInfo,
    entry: &'static str,
}

impl Translated {
    /// Parses and checks a variant.
    ///
    /// # Panics
    /// If it is wrong.
    pub fn new(variant: &ShaderVariant) -> Self {
        let module = naga::front::wgsl::parse_str(&variant.source)
            .unwrap_or_else(|error| panic!("{}: {}", variant.name, error.emit_to_string(&variant.source)));
        let capabilities = Capabilities::IMMEDIATES | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
        let mut validator = Validator::new(ValidationFlags::all(), capabilities);
        let info = validator.validate(&module).unwrap_or_else(|error| panic!("{}: {error:?}", variant.name));
        let constants = variant.constants.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let entry = Some((ShaderStage::Compute, variant.entry));
        let (module, info) = process_overrides(&module, &info, entry, &constants)
            .unwrap_or_else(|error| panic!("{}: {error:?}", variant.name));
        Translated { module: module.into_owned(), info: info.into_owned(), entry: variant.entry }
    }

    /// The MSL, as wgpu asks for it when shaders do not check their indices.
    pub fn msl(&self) -> String {
        let mut resources = msl::EntryPointResources { immediates_buffer: Some(0), ..Default::default() };
        let mut bound: Vec<_> = self.bindings();
        bound.sort_by_key(|(binding, _)| binding.binding);
        for (slot, (binding, mutable)) in bound.iter().enumerate() {
            let target =
                msl::BindTarget { buffer: Some(slot as u8 + 1), mutable: *mutable, ..Default::default() };
            resources.resources.insert(*binding, target);
        }
        resources.sizes_buffer = Some(bound.len() as u8 + 1);
        let unchecked = BoundsCheckPolicy::Unchecked;
        let options = msl::Options {
            lang_version: (3, 0),
            fake_missing_bindings: false,
            per_entry_point_map: [(self.entry.to_owned(), resources)].into(),
            bounds_check_policies: BoundsCheckPolicies {
                index: unchecked,
                buffer: unchecked,
                image_load: unchecked,
                binding_array: unchecked,
            },
            zero_initialize_workgroup_memory: false,
            force_loop_bounding: false,
            emit_int_div_checks: false,
            ..msl::Options::default()
        };
        let of_pipeline = msl::PipelineOptions {
            entry_point: Some((ShaderStage::Compute, self.entry.to_owned())),
            ..msl::PipelineOptions::default()
        };
        let (text, _) = msl::write_string(&self.module, &self.info, &options, &of_pipeline)
            .unwrap_or_else(|error| panic!("{}: {error:?}", self.entry));
        text
    }

    /// What a launch needs, as the shader itself says.
    pub fn needs(&self) -> LaunchNeeds {
        let mut sizes = Layouter::default();
        sizes.update(self.module.to_ctx()).expect("types of a checked module");
        let bytes_in = |space: AddressSpace| -> u32 {
            self.used()
                .filter(|(global, _)| global.space == space)
                .map(|(global, _)| sizes[global.ty].size)
                .sum()
        };
        LaunchNeeds {
            threads: self.entry_point().workgroup_size.iter().product(),
            workgroup_bytes: bytes_in(AddressSpace::WorkGroup),
            buffers: self.bindings().len() as u32,
            immediate_bytes: bytes_in(AddressSpace::Immediate),
        }
    }

    /// Which buffers are read and which written, in the order of their numbers.
    pub fn access(&self) -> String {
        let mut bound = self.bindings();
        bound.sort_by_key(|(binding, _)| binding.binding);
        bound.iter().map(|(_, mutable)| if *mutable { 'w' } else { 'r' }).collect()
    }

    /// The buffers that the entry uses, and whether it may write them.
    fn bindings(&self) -> Vec<(ResourceBinding, bool)> {
        let binding = |(global, _): (&naga::GlobalVariable, GlobalUse)| {
            let AddressSpace::Storage { access } = global.space else { return None };
            Some((global.binding?, access.contains(naga::StorageAccess::STORE)))
        };
        self.used().filter_map(binding).collect()
    }

    fn entry_point(&self) -> &naga::EntryPoint {
        let is_mine = |entry: &&naga::EntryPoint| entry.name == self.entry;
        self.module.entry_points.iter().find(is_mine).expect("the variant's entry")
    }

    fn used(&self) -> impl Iterator<Item = (&naga::GlobalVariable, GlobalUse)> {
        let index = self.module.entry_points.iter().position(|entry| entry.name == self.entry);
        let info = self.info.get_entry_point(index.expect("the variant's entry"));
        let globals = self.module.global_variables.iter();
        globals.map(move |(handle, global)| (global, info[handle])).filter(|(_, used)| !used.is_empty())
    }
}
