//! Weights at load: written once, straight into buffers that shaders read where memory is shared.

use std::ops::Range;
use std::sync::Arc;

use forerunner_tensor::{AffineValues, DeviceError, ExpertWeights, HostMatrix, MatrixValues, Scales, bf16};

use crate::buffer::{Memory, USAGE};
use crate::driver::{Driver, unsupported};
use crate::weights::{ExpertMatrices, ExpertPart, Experts, Kind, Matrix, Part, Stored};

/// Bytes of staged weights after which is waited for them.
const MOST_ON_THE_WAY: usize = 64 << 20;
/// Rows of a part come in fours, as the kernels take them.
const ROWS: usize = 4;
/// The smallest scale or bias that is kept as it is, other than 0: 2^-100.
const TINY: f32 = f32::from_bits((127 - 100) << 23);

/// Loads weights.
pub(crate) struct Loader<'a> {
    pub(crate) driver: &'a Arc<Driver>,
    /// Most bytes of a buffer, by which weights are cut.
    pub(crate) most_bytes: usize,
}

impl Loader<'_> {
    /// One matrix of the parts' rows.
    pub(crate) fn matrix(&self, hosts: &[HostMatrix<'_>]) -> Result<Matrix, DeviceError> {
        let inputs = hosts.first().map_or(0, |host| host.columns);
        let mut planned: Vec<Planned> = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            assert_eq!(host.columns, inputs, "columns of part {index}");
            let kind = Kind::of(host)?;
            let most = self.most_rows(kind, inputs)?;
            let mut rows = 0..host.rows;
            while !rows.is_empty() {
                let room =
                    planned.last().filter(|part| part.kind == kind).map_or(0, |part| most - part.outputs);
                if room == 0 {
                    let first_output = planned.last().map_or(0, |part| part.first_output + part.outputs);
                    planned.push(Planned { kind, first_output, outputs: 0, segments: Vec::new() });
                    continue;
                }
                let taken = rows.start..rows.end.min(rows.start + room);
                rows.start = taken.end;
                let part = planned.last_mut().expect("one with room");
                part.outputs += taken.len();
                part.segments.push((index, taken));
            }
        }
        let parts = planned.into_iter().map(|part| self.part(hosts, part)).collect::<Result<Vec<_>, _>>()?;
        Ok(Matrix { outputs: hosts.iter().map(|host| host.rows).sum(), inputs, parts })
    }

    fn most_rows(&self, kind: Kind, inputs: usize) -> Result<usize, DeviceError> {
        let most = self.most_bytes / kind.code_bytes(inputs).max(kind.scale_bytes(inputs)) / ROWS * ROWS;
        if most == 0 {
            let accepted = format!("what {} bytes hold {ROWS} times", self.most_bytes);
            return Err(unsupported("the inputs of a matrix", inputs.to_string(), accepted));
        }
        Ok(most)
    }

    fn part(&self, hosts: &[HostMatrix<'_>], planned: Planned) -> Result<Part, DeviceError> {
        let Planned { kind, first_output, outputs, segments } = planned;
        let mut filling = Filling::new(self.driver, kind, hosts[segments[0].0].columns, outputs)?;
        for (host, rows) in segments {
            filling.write(&hosts[host], rows)?;
        }
        Ok(Part { kind, first_output, outputs, stored: filling.finish() })
    }

    /// The experts of a layer, one at a time.
    pub(crate) fn experts<'a>(
        &self,
        experts: &mut dyn ExactSizeIterator<Item = ExpertWeights<'a>>,
    ) -> Result<Experts, DeviceError> {
        let count = experts.len();
        let mut stacks: Vec<Stack> = Vec::new();
        for (index, expert) in experts.enumerate() {
            let ExpertWeights { gate, up, down } = expert;
            let matrices: Vec<Vec<HostMatrix<'_>>> = if Kind::of(&gate)? == Kind::of(&up)? {
                vec![vec![gate, up], vec![down]]
            } else {
                vec![vec![gate], vec![up], vec![down]]
            };
            if stacks.is_empty() {
                let stack = |hosts: &Vec<HostMatrix<'_>>| Stack::new(self, hosts, count);
                stacks = matrices.iter().map(stack).collect::<Result<_, _>>()?;
            }
            if stacks.len() != matrices.len() {
                return Err(mixed_experts(index));
            }
            for (stack, hosts) in stacks.iter_mut().zip(&matrices) {
                stack.write(self.driver, index, hosts)?;
            }
        }
        let down =
            stacks.pop().ok_or_else(|| unsupported("the experts of a layer", "0".into(), "1 or more"))?;
        let gate_up = stacks.into_iter().map(Stack::finish).collect();
        Ok(Experts { count, gate_up, down: down.finish() })
    }
}

fn mixed_experts(index: usize) -> DeviceError {
    unsupported(
        "the format of expert weights",
        format!("another in expert {index}"),
        "one for all of a layer",
    )
}

/// A part before it is stored: which rows of which host matrix it takes.
struct Planned {
    kind: Kind,
    first_output: usize,
    outputs: usize,
    segments: Vec<(usize, Range<usize>)>,
}

/// One matrix of all experts, while it is written.
struct Stack {
    kind: Kind,
    outputs: usize,
    inputs: usize,
    count: usize,
    experts_of_part: usize,
    parts: Vec<ExpertPart>,
    filling: Option<Filling>,
}

impl Stack {
    fn new(loader: &Loader<'_>, hosts: &[HostMatrix<'_>], count: usize) -> Result<Self, DeviceError> {
        let kind = Kind::of(&hosts[0])?;
        let (outputs, inputs) = (hosts.iter().map(|host| host.rows).sum(), hosts[0].columns);
        let experts_of_part = loader.most_rows(kind, inputs)? / outputs;
        if experts_of_part == 0 {
            let accepted = format!("what {} bytes hold", loader.most_bytes);
            return Err(unsupported(
                "an expert's outputs",
                format!("{outputs} of {inputs} inputs"),
                accepted,
            ));
        }
        Ok(Stack { kind, outputs, inputs, count, experts_of_part, parts: Vec::new(), filling: None })
    }

    fn write(
        &mut self,
        driver: &Arc<Driver>,
        expert: usize,
        hosts: &[HostMatrix<'_>],
    ) -> Result<(), DeviceError> {
        for host in hosts {
            if Kind::of(host)? != self.kind || host.columns != self.inputs {
                return Err(mixed_experts(expert));
            }
        }
        if expert.is_multiple_of(self.experts_of_part) {
            self.close();
            let experts = self.experts_of_part.min(self.count - expert);
            self.filling = Some(Filling::new(driver, self.kind, self.inputs, experts * self.outputs)?);
        }
        let filling = self.filling.as_mut().expect("one is open");
        hosts.iter().try_for_each(|host| filling.write(host, 0..host.rows))
    }

    fn close(&mut self) {
        let Some(filling) = self.filling.take() else { return };
        let first_expert = self.parts.len() * self.experts_of_part;
        let experts = self.experts_of_part.min(self.count - first_expert);
        self.parts.push(ExpertPart { first_expert, experts, stored: filling.finish() });
    }

    fn finish(mut self) -> ExpertMatrices {
        self.close();
        let Stack { kind, outputs, inputs, parts, .. } = self;
        ExpertMatrices { kind, outputs, inputs, parts }
    }
}

/// Codes and scales while they are written, row after row.
struct Filling {
    codes: Sink,
    scales: Sink,
}

impl Filling {
    fn new(driver: &Arc<Driver>, kind: Kind, inputs: usize, outputs: usize) -> Result<Self, DeviceError> {
        Ok(Filling {
            codes: Sink::new(driver, outputs * kind.code_bytes(inputs))?,
            scales: Sink::new(driver, outputs * kind.scale_bytes(inputs))?,
        })
    }

    /// Rows of a host matrix.
    fn write(&mut self, host: &HostMatrix<'_>, rows: Range<usize>) -> Result<(), DeviceError> {
        let span = rows.start * host.columns..rows.end * host.columns;
        match &host.values {
            MatrixValues::Bf16(values) => self.codes.write(bytemuck::cast_slice(&values[span])),
            MatrixValues::F16(_) | MatrixValues::F32(_) => {
                let mut row = vec![bf16::ZERO; host.columns];
                for index in rows {
                    host.read_row(index, &mut row);
                    self.codes.write(bytemuck::cast_slice(&row))?;
                }
                Ok(())
            }
            MatrixValues::Affine(values) => self.write_affine(values, host.columns, rows),
        }
    }

    fn write_affine(
        &mut self,
        values: &AffineValues<'_>,
        columns: usize,
        rows: Range<usize>,
    ) -> Result<(), DeviceError> {
        let words = columns * values.bits as usize / 32;
        let groups = columns / values.group_size;
        self.codes.write(bytemuck::cast_slice(&values.words[rows.start * words..rows.end * words]))?;
        let span = rows.start * groups..rows.end * groups;
        let pairs: Vec<u32> = match (&values.scales, &values.biases) {
            (Scales::Bf16(scales), Scales::Bf16(biases)) => {
                pairs(&scales[span.clone()], &biases[span], |value| without_tiny(*value).to_bits())
            }
            (Scales::F16(scales), Scales::F16(biases)) => {
                pairs(&scales[span.clone()], &biases[span], |value| value.to_bits())
            }
            _ => {
                return Err(unsupported(
                    "scales and biases",
                    "of two types".into(),
                    "both bf16, or both fp16",
                ));
            }
        };
        self.scales.write(bytemuck::cast_slice(&pairs))
    }

    fn finish(self) -> Stored {
        Stored { codes: self.codes.finish(), scales: self.scales.finish() }
    }
}

/// Scale and bias in one word each.
fn pairs<T>(scales: &[T], biases: &[T], bits: impl Fn(&T) -> u16) -> Vec<u32> {
    let pair = |(scale, bias)| u32::from(bits(scale)) | u32::from(bits(bias)) << 16;
    scales.iter().zip(biases).map(pair).collect()
}

/// Zero for what is below 2^-100: so no weight is between zero and the smallest normal number, which kernels could not round.
fn without_tiny(value: bf16) -> bf16 {
    if value.to_f32().abs() < TINY { bf16::ZERO } else { value }
}

/// A buffer while it is written from its start: mapped where memory is shared, else through staging memory.
struct Sink {
    driver: Arc<Driver>,
    memory: Memory,
    view: Option<wgpu::BufferViewMut>,
    written: usize,
    on_the_way: usize,
}

impl Sink {
    fn new(driver: &Arc<Driver>, bytes: usize) -> Result<Self, DeviceError> {
        let usage = if driver.is_unified { USAGE | wgpu::BufferUsages::MAP_WRITE } else { USAGE };
        let memory = Memory::with_usage(driver, bytes as u64, usage, driver.is_unified)?;
        let view = if driver.is_unified {
            let view = memory.raw.get_mapped_range_mut(..);
            Some(view.map_err(|error| crate::driver::failed(error.to_string()))?)
        } else {
            None
        };
        Ok(Sink { driver: Arc::clone(driver), memory, view, written: 0, on_the_way: 0 })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        if let Some(view) = &mut self.view {
            view.slice(self.written..self.written + bytes.len()).copy_from_slice(bytes);
            self.written += bytes.len();
            return Ok(());
        }
        for bytes in bytes.chunks(MOST_ON_THE_WAY) {
            self.driver.queue.write_buffer(&self.memory.raw, self.written as u64, bytes);
            self.written += bytes.len();
            self.on_the_way += bytes.len();
            if self.on_the_way >= MOST_ON_THE_WAY {
                self.on_the_way = 0;
                let submission = self.driver.queue.submit([]);
                self.driver.wait(Some(submission))?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Memory {
        if let Some(view) = self.view {
            drop(view);
            self.memory.raw.unmap();
        }
        self.memory
    }
}
