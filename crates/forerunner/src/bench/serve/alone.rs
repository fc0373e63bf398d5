//! Whether replies under load are those that the same requests get by themselves.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::exchange::{Asked, Outcome, exchange};
use super::load::Loaded;
use super::server::Server;
use crate::bench::equality::Equality;
use crate::bench::hashes;

/// The comparisons of a load.
#[derive(Debug, Default)]
pub(super) struct Compared {
    shared_is_alone: Equality,
    /// Of servers that tell of drafts: such a server can be asked for a reply without them.
    drafted_is_plain: Equality,
    /// Requests that could not be repeated, and why.
    unmeasured: Vec<String>,
}

/// Repeats each prompt of the load by itself, and once more without drafts where the server knows what that is.
pub(super) async fn compare(
    server: &Arc<Server>,
    asked: &[Asked],
    loaded: &Loaded,
    limit: Duration,
) -> Compared {
    let mut compared = Compared::default();
    let mut seen: Vec<&Asked> = Vec::new();
    for asked in asked {
        if seen.iter().any(|known| known.name == asked.name && known.body == asked.body) {
            continue;
        }
        seen.push(asked);
        compared.repeat(server, asked, loaded, limit).await;
    }
    compared
}

impl Compared {
    async fn repeat(&mut self, server: &Server, asked: &Asked, loaded: &Loaded, limit: Duration) {
        let Some((alone, knows_drafts)) = self.ask(server, asked, limit).await else { return };
        for sample in loaded.samples().filter(|sample| sample.name == asked.name) {
            self.shared_is_alone.compare(&asked.name, &alone, &hashes::of_text(&sample.text));
        }
        if !knows_drafts || asked.body.get("draft").is_some() {
            return;
        }
        let mut plain = asked.clone();
        plain.body["draft"] = json!(false);
        if let Some((plain, _)) = self.ask(server, &plain, limit).await {
            self.drafted_is_plain.compare(&asked.name, &plain, &alone);
        }
    }

    /// The hash of a reply's text, and whether the server tells of drafts.
    async fn ask(&mut self, server: &Server, asked: &Asked, limit: Duration) -> Option<(String, bool)> {
        match exchange(server, asked, Instant::now(), limit, None).await {
            Outcome::Measured(sample) => {
                Some((hashes::of_text(&sample.text), sample.statistics["draft_n"].is_u64()))
            }
            Outcome::Unmeasured { name, reason } | Outcome::Failed { name, reason } => {
                self.unmeasured.push(format!("{name}: {reason}"));
                None
            }
        }
    }

    /// Whether all replies that could be compared are equal, and all could be.
    pub(super) fn holds(&self) -> bool {
        self.shared_is_alone.holds() && self.drafted_is_plain.holds() && self.unmeasured.is_empty()
    }

    /// As a receipt has it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "shared_is_alone": self.shared_is_alone.to_json(),
            "drafted_is_plain": self.drafted_is_plain.to_json(),
            "unmeasured": self.unmeasured,
        })
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compared { shared_is_alone, drafted_is_plain, unmeasured } = self;
        write!(f, "shared = alone: {shared_is_alone}; drafted = plain: {drafted_is_plain}")?;
        for reason in unmeasured {
            write!(f, "; not compared: {reason}")?;
        }
        Ok(())
    }
}
