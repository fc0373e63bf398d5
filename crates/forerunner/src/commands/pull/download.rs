//! Files as they come: partial ones go on where they broke off, whole ones are compared with what the hub says.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::hub::{Hub, RemoteFile, Source};
use crate::progress::Progress;
use crate::terminal::tell;

/// What whole files were when they were fetched, beside them.
const RECORD: &str = "pulled.record";

/// Times that a file is tried, and the pause in between: networks have hiccups.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes read at once.
const PIECE: usize = 1 << 16;

/// A directory that files are fetched into.
pub(super) struct Place<'a>(&'a Path);

impl Place<'_> {
    /// The directory, made if need be.
    pub(super) fn open(directory: &Path) -> Result<Place<'_>> {
        fs::create_dir_all(directory).with_context(|| format!("making {} failed", directory.display()))?;
        Ok(Place(directory))
    }

    /// Sees to it that a file is here as the hub lists it.
    pub(super) fn fetch(
        &self,
        hub: &Hub,
        from: &Source<'_>,
        file: &RemoteFile,
        progress: &Progress,
    ) -> Result<()> {
        let whole = self.0.join(&file.name);
        if self.has(&whole, file) {
            progress.advance(file.size);
            return Ok(());
        }
        let mut part = Part { file, path: self.partial(file), shown: 0, progress };
        for attempt in 1.. {
            match part.go_on(hub, from) {
                Ok(()) => break,
                Err(error) if attempt < TRIES => {
                    tell(format_args!("{}: {error:#}; trying again", file.name));
                    std::thread::sleep(PAUSE);
                }
                Err(error) => {
                    return Err(error
                        .context(format!("{} is not whole; the same command goes on with it", file.name)));
                }
            }
        }
        part.check().inspect_err(|_| {
            // What is wrong cannot be gone on with.
            let _ = fs::remove_file(&part.path);
        })?;
        fs::rename(&part.path, &whole).with_context(|| format!("naming {} failed", whole.display()))?;
        self.remember(file)
    }

    fn has(&self, whole: &Path, file: &RemoteFile) -> bool {
        let is_same = self.record().get(&file.name).is_some_and(|identity| identity == file.identity());
        is_same && length(whole) == file.size && whole.is_file()
    }

    /// Named after its content: what is left of an older version is not gone on with.
    fn partial(&self, file: &RemoteFile) -> PathBuf {
        let identity: String = file.identity().chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        self.0.join(format!("{}.{identity}.partial", file.name))
    }

    fn record(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.0.join(RECORD)).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(identity, name)| (name.to_owned(), identity.to_owned())).collect()
    }

    fn remember(&self, file: &RemoteFile) -> Result<()> {
        let mut record = self.record();
        record.insert(file.name.clone(), file.identity().to_owned());
        let lines: String = record.iter().map(|(name, identity)| format!("{identity} {name}\n")).collect();
        fs::write(self.0.join(RECORD), lines).with_context(|| format!("writing {RECORD} failed"))
    }
}

/// A file that is not whole yet.
struct Part<'a> {
    file: &'a RemoteFile,
    path: PathBuf,
    /// Bytes that the progress knows of: what is fetched twice is shown once.
    shown: u64,
    progress: &'a Progress,
}

impl Part<'_> {
    /// Fetches the rest.
    fn go_on(&mut self, hub: &Hub, from: &Source<'_>) -> Result<()> {
        let size = self.file.size;
        let have = Some(length(&self.path)).filter(|have| *have <= size).unwrap_or(0);
        self.show(have);
        if have == size && self.path.exists() {
            return Ok(());
        }
        let mut opened = hub.open(from, &self.file.name, have)?;
        ensure!(opened.from <= have, "byte {have} was asked for, and the answer begins at {}", opened.from);
        let shown = self.path.display().to_string();
        let writing = || format!("writing {shown} failed");
        let mut out = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&self.path)
            .with_context(writing)?;
        out.set_len(opened.from).and_then(|()| out.seek(SeekFrom::End(0))).with_context(writing)?;
        let (mut piece, mut written) = (vec![0; PIECE], opened.from);
        while written < size {
            let room = PIECE.min((size - written).try_into().unwrap_or(PIECE));
            let broke_off = || format!("it broke off after {written} of {size} bytes");
            let count = opened.reader.read(&mut piece[..room]).with_context(broke_off)?;
            ensure!(count > 0, broke_off());
            out.write_all(&piece[..count]).with_context(writing)?;
            written += count as u64;
            self.show(written);
        }
        out.sync_all().with_context(writing)
    }

    fn show(&mut self, written: u64) {
        self.progress.advance(written.saturating_sub(self.shown));
        self.shown = self.shown.max(written);
    }

    /// That it has the content that the hub has a digest of, which is so for large files; of others it knows the size.
    fn check(&self) -> Result<()> {
        let Some(expected) = self.file.sha256() else { return Ok(()) };
        let mut digest = Sha256::new();
        let (mut content, mut piece) = (File::open(&self.path)?, vec![0; PIECE]);
        loop {
            match content.read(&mut piece)? {
                0 => break,
                count => digest.update(&piece[..count]),
            }
        }
        let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        ensure!(
            found == expected,
            "{} has the digest {found}; accepted: {expected}, as the hub says",
            self.file.name
        );
        Ok(())
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}
