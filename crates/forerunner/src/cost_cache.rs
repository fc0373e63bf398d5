//! The cost table of a build on a device with a model, kept between starts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use forerunner_lanes::CostTable;

use crate::directories;

/// Where a table is kept, if this platform has a place.
pub(crate) struct CostCache {
    path: Option<PathBuf>,
}

impl CostCache {
    /// The place for what `parts` describe together: device, model and sizes. The build is part of it.
    pub(crate) fn new(parts: &[&str]) -> Self {
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), build(), parts).hash(&mut hasher);
        let name = format!("{:016x}.txt", hasher.finish());
        CostCache { path: directories::cache().map(|cache| cache.join("costs").join(name)) }
    }

    /// The table of an earlier start. One that cannot be read is measured again.
    pub(crate) fn read(&self) -> Option<CostTable> {
        let text = std::fs::read_to_string(self.path.as_ref()?).ok()?;
        CostTable::from_text(&text).inspect_err(|error| tracing::warn!(%error, "a stored cost table")).ok()
    }

    /// Keeps a table. That it could not be kept costs the next start its measurement and nothing else.
    pub(crate) fn write(&self, table: &CostTable) {
        let Some(path) = &self.path else { return };
        let folder = path.parent().expect("a file within the cache folder");
        let partial = path.with_extension(format!("{}.partial", std::process::id()));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&partial, table.to_text()))
            .and_then(|()| std::fs::rename(&partial, path));
        if let Err(error) = written {
            tracing::debug!(%error, "the cost table was not kept");
        }
    }
}

/// Tells one build from another: the program's size and time.
fn build() -> (u64, Option<std::time::SystemTime>) {
    let metadata = std::env::current_exe().and_then(std::fs::metadata);
    metadata.map_or((0, None), |metadata| (metadata.len(), metadata.modified().ok()))
}
