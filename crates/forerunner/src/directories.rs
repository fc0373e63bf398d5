//! Where this platform keeps a program's files.

use std::path::PathBuf;

use etcetera::BaseStrategy;

/// For what can be made again.
pub(crate) fn cache() -> Option<PathBuf> {
    strategy().map(|strategy| strategy.cache_dir().join("forerunner"))
}

/// For what is kept between runs and is no setting.
pub(crate) fn state() -> Option<PathBuf> {
    let strategy = strategy()?;
    Some(strategy.state_dir().unwrap_or_else(|| strategy.data_dir()).join("forerunner"))
}

/// For what was fetched and is worth keeping.
pub(crate) fn data() -> Option<PathBuf> {
    strategy().map(|strategy| strategy.data_dir().join("forerunner"))
}

fn strategy() -> Option<impl BaseStrategy> {
    etcetera::choose_base_strategy().ok()
}
