//! A server as a side: a closed loop of requests on it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;

use super::Measured;
use crate::bench::hashes;
use crate::bench::serve::{self, Pace, Requests, Server, load};
use crate::flags::CompareFlags;

/// Figures that are compared.
const FIGURES: [&str; 4] = ["output_throughput", "median_ttft_ms", "median_tpot_ms", "tokens_per_round"];

/// Loads one server after the other.
pub(super) struct Servers<'a> {
    runtime: tokio::runtime::Runtime,
    flags: &'a CompareFlags,
}

impl<'a> Servers<'a> {
    pub(super) fn new(flags: &'a CompareFlags) -> anyhow::Result<Self> {
        Ok(Servers { runtime: serve::runtime()?, flags })
    }

    /// One load. What failed stands in the receipt; a load without any reply cannot be compared.
    pub(super) fn run(&self, url: &str) -> anyhow::Result<Measured> {
        let load_flags = &self.flags.load;
        let server = Arc::new(Server::new(url, serve::api_key(load_flags)?)?);
        let pace = Pace::Concurrency(self.flags.concurrency.into());
        let limit = Duration::from_secs(load_flags.timeout_s.into());
        let loaded = self.runtime.block_on(async {
            let requests = Requests::new(&server, load_flags).await?;
            anyhow::Ok(load(&server, &requests.asked, pace, limit).await)
        })?;
        ensure!(loaded.samples().next().is_some(), "{url}: no reply could be measured");
        let fields = serve::fields(&loaded, pace);
        let figure = |name: &'static str| Some((name, fields.get(name)?.as_f64()?));
        let figures = FIGURES.into_iter().filter_map(figure).collect();
        let outputs = loaded.samples().map(|sample| (sample.name.clone(), hashes::of_text(&sample.text)));
        Ok(Measured { figures, outputs: outputs.collect(), raw: fields })
    }
}
