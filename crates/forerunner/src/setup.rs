//! What the flags mean: a model on a device behind a running engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use forerunner_checkpoint::{DrafterCheckpoint, TargetCheckpoint, TargetConfig, TensorSource};
use forerunner_engine::{Engine, EngineInfo, TargetOptions};
use forerunner_lanes::{Calibration, CostTable, Lanes, Limits, Options, SystemClock, Target, TokenId};
use forerunner_server::SamplingDefaults;
use forerunner_synth::{GrownCheckpoint, Specification};
use forerunner_tensor::MemoryMeter;
use forerunner_text::{TextModel, Tokenizer};

use crate::calibration;
use crate::check::plant::planted;
use crate::cost_cache::CostCache;
use crate::demo::demo_pair;
use crate::device::{PlacedTarget, place};
use crate::flags::ModelFlags;
use crate::grown::grow;
use crate::places::find;
use crate::progress::Progress;

/// Longest context unless `--context` asks for more: a long one reserves memory that most replies never use.
const DEFAULT_CONTEXT: usize = 32_768;

/// Most memory for keys and values, target and drafter together.
const KEY_VALUE_BYTES: usize = 4 << 30;

/// How large an engine is to be, and how long its start may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Replies at once.
    pub(crate) lanes: usize,
    /// Requests that may wait.
    pub(crate) max_waiting: usize,
    /// Time for measuring what rounds cost here. More makes the choice of draft lengths better, never the text.
    pub(crate) measure: Duration,
}

impl Sizes {
    /// One reply at a time, answering soon.
    pub(crate) const TERMINAL: Sizes =
        Sizes { lanes: 1, max_waiting: 1, measure: Duration::from_millis(300) };

    /// What serves for long: a second for measuring costs is worth it.
    pub(crate) fn serving(lanes: usize, max_waiting: usize) -> Sizes {
        Sizes { lanes, max_waiting, measure: Duration::from_secs(1) }
    }
}

/// A running engine and what goes around it.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    /// What its rounds were measured to cost.
    pub(crate) costs: CostTable,
    pub(crate) text: Arc<TextModel>,
    pub(crate) defaults: SamplingDefaults,
    /// Counts the device's own memory, where it has any.
    pub(crate) memory: Option<MemoryMeter>,
}

/// The directories that the flags name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelPaths {
    /// What the model is called.
    pub(crate) name: String,
    pub(crate) target: PathBuf,
    pub(crate) drafter: Option<PathBuf>,
    /// What the drafter is called.
    pub(crate) drafter_name: Option<String>,
}

impl ModelPaths {
    /// The named model, or the demo pair. A named model has the drafter that is named with it, or none.
    pub(crate) fn choose(model: Option<&Path>, drafter: Option<&Path>) -> anyhow::Result<Self> {
        let Some(target) = model else {
            let pair = demo_pair()?;
            return Ok(ModelPaths {
                name: "demo".into(),
                target: pair.target,
                drafter: Some(pair.drafter),
                drafter_name: Some("demo-drafter".into()),
            });
        };
        let target = find(target)?;
        let drafter = drafter.map(find).transpose()?;
        Ok(ModelPaths {
            name: directory_name(&target),
            drafter_name: drafter.as_deref().map(directory_name),
            target,
            drafter,
        })
    }
}

/// A model's files, read and found to fit each other.
pub(crate) struct OpenedModel {
    pub(crate) paths: ModelPaths,
    pub(crate) target: TargetCheckpoint,
    pub(crate) drafter: Option<DrafterCheckpoint>,
    pub(crate) text: TextModel,
    progress: Progress,
}

impl OpenedModel {
    /// Reads the model that the flags name, or grows it.
    pub(crate) fn open(flags: &ModelFlags) -> anyhow::Result<Self> {
        let mut paths = ModelPaths::choose(flags.model.as_deref(), flags.drafter.as_deref())?;
        if flags.no_drafter {
            (paths.drafter, paths.drafter_name) = (None, None);
        }
        let opened = match &flags.synth {
            Some(specification) => OpenedModel::grow(paths, specification)?,
            None => OpenedModel::read(paths)?,
        };
        if flags.drafter_bits != 8 {
            return Ok(opened);
        }
        ensure!(
            opened.drafter.is_some(),
            "--drafter-bits 8 is for a drafter, and {} has none; accepted: with --drafter DIR, or without --no-drafter",
            opened.paths.name
        );
        Ok(opened.with_drafter_in_eight_bits())
    }

    fn with_drafter_in_eight_bits(mut self) -> Self {
        self.drafter = self.drafter.map(DrafterCheckpoint::in_eight_bits);
        self.paths.drafter_name = self.paths.drafter_name.map(|name| format!("{name} in 8 bits"));
        self
    }

    fn read(mut paths: ModelPaths) -> anyhow::Result<Self> {
        let mut target = TargetCheckpoint::open(&paths.target)?;
        if let Some(synthetic) = &target.config().synthetic {
            paths.name.clone_from(synthetic);
        }
        let config = target.config();
        let mut drafter =
            paths.drafter.as_ref().map(|path| DrafterCheckpoint::open(path, config)).transpose()?;
        let text = TextModel::open(&paths.target)?;
        check_vocabulary(&text.tokenizer, config, &paths.target)?;
        let progress = watched(&mut target, drafter.as_mut());
        Ok(OpenedModel { paths, target, drafter, text, progress })
    }

    /// Grows the demo pair, whose tokenizer and chat template it keeps; matrices are made when they are loaded.
    fn grow(mut paths: ModelPaths, specification: &Specification) -> anyhow::Result<Self> {
        let source = |grown: GrownCheckpoint| -> Arc<dyn TensorSource> { Arc::new(grown) };
        let (target, drafter) = grow(specification)?;
        let mut target = TargetCheckpoint::from_source(&source(target))?;
        let mut drafter = paths
            .drafter
            .is_some()
            .then(|| DrafterCheckpoint::from_source(&source(drafter), target.config()))
            .transpose()?;
        let text = TextModel::open(&paths.target)?;
        check_vocabulary(&text.tokenizer, target.config(), &paths.target)?;
        paths.name = target.config().synthetic.clone().unwrap_or(paths.name);
        paths.drafter_name = drafter.as_ref().map(|_| format!("{} drafter", paths.name));
        let progress = watched(&mut target, drafter.as_mut());
        Ok(OpenedModel { paths, target, drafter, text, progress })
    }

    /// What the flags ask of a target with room for `lanes` replies at once.
    pub(crate) fn target_options(&self, flags: &ModelFlags, lanes: usize) -> anyhow::Result<TargetOptions> {
        Ok(TargetOptions {
            lanes,
            context: context(flags, self.target.config())?,
            rows: rows(lanes, self.drafter.as_ref()),
            key_value_bytes: KEY_VALUE_BYTES,
            prompt_cache_bytes: flags.prompt_cache_bytes(),
            queues_ahead: false,
        })
    }

    /// Puts it on the device that the flags name.
    pub(crate) fn place(&self, flags: &ModelFlags, options: &TargetOptions) -> anyhow::Result<PlacedTarget> {
        let placed = place(flags, &self.target, self.drafter.as_ref(), options);
        self.progress.end();
        placed
    }

    /// Temperatures of its drafter's confidences.
    pub(crate) fn calibration(&self) -> anyhow::Result<Calibration> {
        match (&self.paths.drafter, &self.drafter) {
            (Some(path), Some(drafter)) => calibration::read(path, drafter.config().block),
            _ => Ok(Calibration::default()),
        }
    }

    /// Tokens that end a reply.
    pub(crate) fn stop_tokens(&self) -> Vec<TokenId> {
        stop_tokens(self.target.config(), &self.text.tokenizer)
    }
}

/// Shows how many bytes of a pair's weights have been read.
fn watched(target: &mut TargetCheckpoint, drafter: Option<&mut DrafterCheckpoint>) -> Progress {
    let drafter_bytes = drafter.as_ref().map_or(0, |drafter| drafter.summary().bytes);
    let progress = Progress::of_bytes("loading", target.summary().bytes + drafter_bytes);
    let (of_target, of_drafter) = (progress.clone(), progress.clone());
    target.watch(move |bytes| of_target.advance(bytes));
    if let Some(drafter) = drafter {
        drafter.watch(move |bytes| of_drafter.advance(bytes));
    }
    progress
}

/// Loads the model that the flags name and starts its engine.
pub(crate) fn load(flags: &ModelFlags, sizes: &Sizes) -> anyhow::Result<Loaded> {
    start(OpenedModel::open(flags)?, flags, sizes, None)
}

/// Starts the engine of a model, with a fault in it if one is named.
pub(crate) fn start(
    model: OpenedModel,
    flags: &ModelFlags,
    sizes: &Sizes,
    plant: Option<&str>,
) -> anyhow::Result<Loaded> {
    let PlacedTarget { target, device, memory } =
        model.place(flags, &model.target_options(flags, sizes.lanes)?)?;
    let target = planted(target, plant)?;
    let stop_tokens = model.stop_tokens();
    let options = Options {
        // The engine's handle counts who waits; a second limit here could only contradict it.
        max_waiting: 1 << 20,
        calibration: model.calibration()?,
        idle_prompt_chunk: Some(idle_prompt_chunk(target.limits())),
        force_drafts: flags.force_drafts,
        ..Options::default()
    };
    let OpenedModel { paths, target: checkpoint, text, .. } = model;
    let info = EngineInfo {
        model: paths.name,
        drafter: paths.drafter_name,
        device,
        context: target.limits().context,
        parallel: sizes.lanes,
        vocabulary: checkpoint.config().vocabulary,
    };
    let measure = flags.measure_ms.map_or(sizes.measure, Duration::from_millis);
    let lanes = measured_lanes(target, &info, options, measure)?;
    let costs = lanes.costs().clone();
    let tokenizer = Arc::new(text.tokenizer.clone());
    let engine = Engine::start(lanes, tokenizer, info, stop_tokens, sizes.max_waiting)
        .context("starting the engine's thread failed")?;
    Ok(Loaded { engine, costs, text: Arc::new(text), defaults: sampling_defaults(&paths.target)?, memory })
}

/// Lanes over a target, with what its rounds cost here: copies are priced by it, with a drafter or without.
fn measured_lanes(
    mut target: Box<dyn Target + Send>,
    info: &EngineInfo,
    mut options: Options,
    measure: Duration,
) -> anyhow::Result<Lanes<Box<dyn Target + Send>>> {
    if !measure.is_zero() {
        let cache = CostCache::new(&[&format!("{info:?}"), &format!("{:?}", target.limits())]);
        let clock = SystemClock::default();
        options.costs = match cache.read() {
            Some(costs) if !costs.is_disproved(&mut target, &clock, info.vocabulary, measure / 4)? => costs,
            _ => {
                let costs = CostTable::measure(&mut target, &clock, info.vocabulary, measure)?;
                cache.write(&costs);
                costs
            }
        };
    }
    Ok(Lanes::new(target, options))
}

/// Rows for a full prompt chunk beside a full window in every lane.
fn rows(lanes: usize, drafter: Option<&DrafterCheckpoint>) -> usize {
    Options::default().prompt_chunk + lanes * window(drafter.map_or(0, |drafter| drafter.config().block))
}

/// Rows of a lane's longest window.
fn window(block: usize) -> usize {
    1 + block
}

/// The longest prompt chunk that has room beside full windows: more than [`rows`] asks for on devices that want it.
fn idle_prompt_chunk(limits: &Limits) -> usize {
    limits.rows - limits.lanes * window(limits.block)
}

fn context(flags: &ModelFlags, config: &TargetConfig) -> anyhow::Result<usize> {
    match flags.context.map(usize::from) {
        None => Ok(config.max_positions.min(DEFAULT_CONTEXT)),
        Some(context) if context <= config.max_positions => Ok(context),
        Some(context) => {
            bail!("--context is {context}; accepted: at most {}, this model's limit", config.max_positions)
        }
    }
}

fn check_vocabulary(tokenizer: &Tokenizer, config: &TargetConfig, directory: &Path) -> anyhow::Result<()> {
    let (tokens, vocabulary) = (tokenizer.vocabulary_size(), config.vocabulary);
    ensure!(
        tokens <= vocabulary,
        "{}: tokenizer.json has {tokens} tokens and config.json a vocabulary of {vocabulary}; accepted: a \
         tokenizer with at most as many",
        directory.display()
    );
    Ok(())
}

/// Ends of a turn or a text by name: a model may draw either, whichever its configuration lists.
const END_MARKS: [&str; 2] = ["<|im_end|>", "<|endoftext|>"];

fn stop_tokens(config: &TargetConfig, tokenizer: &Tokenizer) -> Vec<TokenId> {
    let mut tokens = config.eos_tokens.clone();
    tokens.extend(tokenizer.special_tokens().eos);
    tokens.extend(END_MARKS.iter().filter_map(|mark| tokenizer.token_to_id(mark)));
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

/// What `generation_config.json` recommends; a model without the file recommends nothing.
fn sampling_defaults(directory: &Path) -> anyhow::Result<SamplingDefaults> {
    let path = directory.join("generation_config.json");
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(SamplingDefaults::default()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// A directory's own name, whatever way it was written.
fn directory_name(directory: &Path) -> String {
    let clean = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    clean.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_model_the_demo_pair_is_meant() {
        let paths = ModelPaths::choose(None, None).unwrap();
        assert_eq!(paths.name, "demo");
        assert!(paths.drafter.is_some());
    }

    #[test]
    fn a_named_model_has_no_drafter_unless_it_is_named_too() {
        let target = demo_pair().unwrap().target;
        let paths = ModelPaths::choose(Some(&target), None).unwrap();
        assert_eq!((paths.name.as_str(), paths.drafter), ("target", None));
        let error = ModelPaths::choose(Some(Path::new("/no/such")), None).unwrap_err();
        assert_eq!(error.to_string(), "/no/such is not a directory");
    }
}
