//! Ctrl-C while a reply is written: it ends the reply and not the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

/// Whether Ctrl-C was typed. The default is never.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on, Ctrl-C is remembered instead of ending the program.
    pub(super) fn watch() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let typed = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let watch = move || {
            while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                typed.0.store(true, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new()
            .name("interrupt".into())
            .spawn(watch)
            .context("starting the thread that waits for Ctrl-C failed")?;
        Ok(interrupt)
    }

    /// Forgets one that came before.
    pub(super) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether it was typed since.
    pub(super) fn is_typed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
