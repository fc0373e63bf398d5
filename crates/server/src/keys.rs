//! API keys: who may ask.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;
use crate::page::is_page;

/// Paths that answer without a key: probes and scrapers have none, and learn nothing of what is generated.
const OPEN_PATHS: [&str; 3] = ["/health", "/version", "/metrics"];

/// Keys that are accepted. Without any, everybody may ask.
#[derive(Clone, Default)]
pub struct ApiKeys(Vec<Vec<u8>>);

impl ApiKeys {
    /// Reads a file of keys, one a line. Blank lines and lines that begin with `#` are none.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let keys = ApiKeys::parse(&std::fs::read_to_string(path)?);
        if keys.0.is_empty() {
            // An empty list would let everybody in, which is not what somebody who names a file wants.
            let message = "no key in it; accepted: one key a line";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
        }
        Ok(keys)
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        ApiKeys(lines.map(|line| line.as_bytes().to_vec()).collect())
    }

    /// Whether this is a key. Takes as long for any text of one length, however much of it is right.
    fn accept(&self, given: &[u8]) -> bool {
        let mut accepted = false;
        for key in &self.0 {
            accepted |= black_box(equal(key, given));
        }
        accepted
    }
}

/// How many there are, and not which.
impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} API keys", self.0.len())
    }
}

fn equal(key: &[u8], given: &[u8]) -> bool {
    let mut different = key.len() ^ given.len();
    for (index, byte) in key.iter().enumerate() {
        different |= usize::from(byte ^ given.get(index).copied().unwrap_or(0));
        different = black_box(different);
    }
    different == 0
}

/// Refuses requests without a key, before their body is read.
pub(crate) async fn check_key(State(keys): State<Arc<ApiKeys>>, request: Request, next: Next) -> Response {
    if keys.0.is_empty()
        || is_open(request.uri().path())
        || given(request.headers()).is_some_and(|given| keys.accept(given))
    {
        next.run(request).await
    } else {
        ApiError::unauthorized().into_response()
    }
}

/// The web page is open too: a person needs it to say the key.
fn is_open(path: &str) -> bool {
    OPEN_PATHS.contains(&path) || is_page(path)
}

/// As OpenAI's clients send it, or as Anthropic's do.
fn given(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    if let Some(value) = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes())
        && value.len() > SCHEME.len()
        && value[..SCHEME.len()].eq_ignore_ascii_case(SCHEME)
    {
        return Some(value[SCHEME.len()..].trim_ascii());
    }
    headers.get("x-api-key").map(|value| value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_whole_line_and_nothing_else() {
        let keys = ApiKeys::parse("# ours\n  one-key \n\nanother\r\n");
        assert!(keys.accept(b"one-key") && keys.accept(b"another"));
        for given in ["", "one", "one-key2", "one-kez", "# ours", "ONE-KEY", "one-key\nanother"] {
            assert!(!keys.accept(given.as_bytes()), "{given}");
        }
        assert_eq!(format!("{keys:?}"), "2 API keys");
    }

    #[test]
    fn a_file_without_keys_is_refused() {
        let path = std::env::temp_dir().join(format!("forerunner-keys-{}", std::process::id()));
        std::fs::write(&path, "# none\n\n").unwrap();
        let error = ApiKeys::open(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("no key"), "{error}");
    }
}
