//! The two requests of the hub that are needed: what a model's files are, and one of them from some byte on.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use ureq::http::StatusCode;
use ureq::{Agent, Body, http};

/// How long the hub may take to answer; what it then sends may take as long as it takes.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Most bytes of a listing.
const LISTING_LIMIT_BYTES: u64 = 16 << 20;

/// A hub and who asks.
pub(super) struct Hub {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A model's files at one moment.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    /// The commit.
    #[serde(rename = "sha")]
    pub(super) revision: String,
    #[serde(rename = "siblings")]
    pub(super) files: Vec<RemoteFile>,
}

/// A file as the hub lists it.
#[derive(Debug, Deserialize)]
pub(super) struct RemoteFile {
    #[serde(rename = "rfilename")]
    pub(super) name: String,
    pub(super) size: u64,
    #[serde(rename = "blobId", default)]
    blob: String,
    lfs: Option<LargeFile>,
}

#[derive(Debug, Deserialize)]
struct LargeFile {
    sha256: String,
}

impl RemoteFile {
    /// The digest of its content, which the hub has of large files.
    pub(super) fn sha256(&self) -> Option<&str> {
        self.lfs.as_ref().map(|file| file.sha256.as_str())
    }

    /// Differs when its content does.
    pub(super) fn identity(&self) -> &str {
        self.sha256().unwrap_or(&self.blob)
    }
}

/// What files are of: a model at a commit.
pub(super) struct Source<'a> {
    pub(super) id: &'a str,
    pub(super) revision: &'a str,
}

/// A file's content from a byte on.
pub(super) struct Opened {
    pub(super) from: u64,
    pub(super) reader: Box<dyn Read>,
}

impl Hub {
    /// A hub at `endpoint`; models that are not public need a token, alone in its file.
    pub(super) fn new(endpoint: &str, token_file: Option<&Path>) -> Result<Hub> {
        let token = token_file.map(|path| {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("--token-file {}", path.display()))?;
            Ok::<_, anyhow::Error>(text.trim().to_owned())
        });
        let config = Agent::config_builder()
            .timeout_connect(Some(TIME_LIMIT))
            .timeout_recv_response(Some(TIME_LIMIT))
            .http_status_as_error(false)
            .build();
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Ok(Hub { agent: config.into(), endpoint, token: token.transpose()? })
    }

    /// The files of `id` at `revision`, with their sizes.
    pub(super) fn list(&self, id: &str, revision: &str) -> Result<Listing> {
        // A branch such as refs/pr/1 is one part of the path.
        let part = revision.replace('/', "%2F");
        let url = format!("{}/api/models/{id}/revision/{part}?blobs=true", self.endpoint);
        let mut answer = self.get(&url, 0)?;
        let shown = || format!("{url}: no listing of a model's files");
        if answer.status() != StatusCode::OK {
            return Err(refusal(answer.status(), id, revision, &self.endpoint));
        }
        let bytes =
            answer.body_mut().with_config().limit(LISTING_LIMIT_BYTES).read_to_vec().with_context(shown)?;
        serde_json::from_slice(&bytes).with_context(shown)
    }

    /// A file from byte `from` on, or from an earlier one where the hub says so.
    pub(super) fn open(&self, source: &Source<'_>, name: &str, from: u64) -> Result<Opened> {
        let Source { id, revision } = source;
        let answer = self.get(&format!("{}/{id}/resolve/{revision}/{name}", self.endpoint), from)?;
        let from = match answer.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT => first_byte(&answer).with_context(|| {
                format!(
                    "{name} was asked for from byte {from} on, and the answer does not say where it begins"
                )
            })?,
            status => return Err(refusal(status, id, revision, &self.endpoint).context(name.to_owned())),
        };
        Ok(Opened { from, reader: Box::new(answer.into_body().into_reader()) })
    }

    fn get(&self, url: &str, from: u64) -> Result<http::Response<Body>> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
        }
        request.call().with_context(|| format!("{url} was not reached"))
    }
}

/// Where a part of a file begins, by its own word: `content-range: bytes 10-99/100`.
fn first_byte(answer: &http::Response<Body>) -> Option<u64> {
    let range = answer.headers().get("content-range")?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

fn refusal(status: StatusCode, id: &str, revision: &str, endpoint: &str) -> anyhow::Error {
    match status {
        StatusCode::NOT_FOUND => anyhow!("{endpoint} has no {id} at {revision}"),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            anyhow!("{endpoint} does not give {id} to everybody ({status}); name a token with --token-file")
        }
        _ => anyhow!("{endpoint} answered {status} for {id}"),
    }
}
