//! Pipelines, built when they are first used, and the bind groups that rounds use again and again.

use std::collections::HashMap;

use crate::buffer::Memory;
use crate::driver::Driver;
use crate::limits::MOST;
use crate::shaders::{FAMILIES, KERNELS, Kernel};
use crate::weights::{FORMATS, Format};

/// Most buffers that a kernel binds.
const MOST_BUFFERS: usize = 10;

/// The pipelines of an adapter.
pub(crate) struct Pipelines {
    /// Whether shaders check their indices.
    checked: bool,
    modules: [Option<wgpu::ShaderModule>; FAMILIES],
    /// By how buffers are accessed.
    layouts: Vec<(&'static str, wgpu::BindGroupLayout, wgpu::PipelineLayout)>,
    built: Vec<Option<Built>>,
    groups: HashMap<GroupKey, wgpu::BindGroup>,
    /// The driver's when the groups were made.
    generation: u64,
}

#[derive(Clone)]
struct Built {
    pipeline: wgpu::ComputePipeline,
    layout: usize,
}

/// A layout, and the buffers that are bound.
#[derive(PartialEq, Eq, Hash)]
struct GroupKey {
    layout: usize,
    ids: [u32; MOST_BUFFERS],
}

/// What a dispatch sets.
pub(crate) struct Bound<'a> {
    /// The pipeline's number: equal ones need not be set again.
    pub(crate) index: usize,
    pub(crate) pipeline: &'a wgpu::ComputePipeline,
    pub(crate) group: &'a wgpu::BindGroup,
}

impl Pipelines {
    pub(crate) fn new(checked: bool) -> Self {
        Pipelines {
            checked,
            modules: Default::default(),
            layouts: Vec::new(),
            built: vec![None; KERNELS.len() * FORMATS],
            groups: HashMap::new(),
            generation: 0,
        }
    }

    /// The kernel's pipeline with these buffers.
    pub(crate) fn bind(
        &mut self,
        driver: &Driver,
        kernel: Kernel,
        format: Format,
        buffers: &[&Memory],
    ) -> Bound<'_> {
        let spec = kernel.spec();
        assert_eq!(buffers.len(), spec.access.len(), "buffers of {}", spec.entry);
        let format = if spec.family.reads_weights() { format } else { Format::Bf16 };
        let index = kernel as usize * FORMATS + format as usize;
        if self.built[index].is_none() {
            self.built[index] = Some(self.build(driver, kernel, format));
        }
        if self.generation != driver.generation() {
            // A group would keep its buffers alive.
            self.groups.clear();
            self.generation = driver.generation();
        }
        let built = self.built[index].as_ref().expect("it was just built");
        let mut ids = [u32::MAX; MOST_BUFFERS];
        ids.iter_mut().zip(buffers).for_each(|(id, buffer)| *id = buffer.id);
        let layout = &self.layouts[built.layout].1;
        let group = self
            .groups
            .entry(GroupKey { layout: built.layout, ids })
            .or_insert_with(|| bind_group(driver, layout, buffers));
        Bound { index, pipeline: &built.pipeline, group }
    }

    fn build(&mut self, driver: &Driver, kernel: Kernel, format: Format) -> Built {
        let spec = kernel.spec();
        spec.needs().assert_portable(&spec.name());
        let layout = self.layout(driver, spec.access);
        let checked = self.checked;
        let module = self.modules[spec.family as usize].get_or_insert_with(|| {
            let source = wgpu::ShaderSource::Wgsl(spec.family.source().into());
            let descriptor = wgpu::ShaderModuleDescriptor { label: Some(spec.entry), source };
            if checked {
                return driver.device.create_shader_module(descriptor);
            }
            let checks = wgpu::ShaderRuntimeChecks::unchecked();
            // SAFETY: the shaders are ours. With checks the suites pass and give the same bits, every loop ends, and
            // indices are inside by the contract of each operation, whose lengths the host asserts.
            unsafe { driver.device.create_shader_module_trusted(descriptor, checks) }
        });
        let pipeline = driver.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(spec.entry),
            layout: Some(&self.layouts[layout].2),
            module,
            entry_point: Some(spec.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &spec.constants(format),
                // Every kernel writes what it reads.
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        Built { pipeline, layout }
    }

    /// The number of the layout for buffers that are accessed so.
    fn layout(&mut self, driver: &Driver, access: &'static str) -> usize {
        if let Some(index) = self.layouts.iter().position(|layout| layout.0 == access) {
            return index;
        }
        let entry = |(binding, access): (usize, char)| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: access == 'r' },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = access.chars().enumerate().map(entry).collect();
        let of_group = driver
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let of_pipeline = driver.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&of_group)],
            immediate_size: MOST.immediate_bytes,
        });
        self.layouts.push((access, of_group, of_pipeline));
        self.layouts.len() - 1
    }
}

fn bind_group(driver: &Driver, layout: &wgpu::BindGroupLayout, buffers: &[&Memory]) -> wgpu::BindGroup {
    let mut entries = Vec::with_capacity(buffers.len());
    for (binding, buffer) in buffers.iter().enumerate() {
        entries
            .push(wgpu::BindGroupEntry { binding: binding as u32, resource: buffer.raw.as_entire_binding() });
    }
    driver.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
}
