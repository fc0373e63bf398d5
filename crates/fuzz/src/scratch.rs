//! A folder of files for parsers that read files: written over and over, gone at the end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of its own.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new one with these files.
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("forerunner-fuzz-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        let scratch = Scratch(path);
        for (name, bytes) in files {
            scratch.write(name, bytes);
        }
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file. It is a new one each time: a reader may still have the old one mapped.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(path, bytes).expect("the folder takes files");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
