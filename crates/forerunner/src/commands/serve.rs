//! `forerunner serve`: HTTP until a signal, then until running replies are done.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use forerunner_engine::EngineInfo;
use forerunner_server::{ApiKeys, ServerOptions, Service};

use crate::flags::ServeFlags;
use crate::setup::{Loaded, Sizes, load};
use crate::terminal::{banner, tell};

/// Time for measuring what rounds cost here; a server lives long enough to be worth it.
const MEASURE: Duration = Duration::from_secs(1);

/// Threads for HTTP: it only moves small pieces, and the rest of the processor is the model's.
const HTTP_THREADS: usize = 2;

/// Serves until SIGTERM or Ctrl-C.
pub(crate) fn serve(flags: &ServeFlags) -> anyhow::Result<()> {
    // The port is taken first: that it is not free is known before a model is loaded.
    let address = SocketAddr::new(flags.host, flags.port);
    let listener =
        std::net::TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let server_options = server_options(flags)?;
    let sizes =
        Sizes { lanes: flags.parallel.into(), max_waiting: flags.max_queue as usize, measure: MEASURE };
    let Loaded { engine, text, defaults } = load(&flags.model, &sizes)?;
    tell(format_args!("{}\nlistening on http://{address}", options(flags, engine.handle().info())));
    let service = Service::new(engine.handle(), text, defaults).with_options(server_options);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(HTTP_THREADS)
        .enable_all()
        .build()
        .context("starting the HTTP threads failed")?;
    runtime.block_on(forerunner_server::serve(listener, service, stop_signal()))?;
    runtime.shutdown_background();
    Ok(())
}

fn server_options(flags: &ServeFlags) -> anyhow::Result<ServerOptions> {
    let api_keys = match &flags.api_key_file {
        Some(path) => ApiKeys::open(path).with_context(|| format!("reading {} failed", path.display()))?,
        None => ApiKeys::default(),
    };
    Ok(ServerOptions {
        api_keys,
        cors_origins: flags.cors_origin.clone(),
        body_limit_bytes: usize::from(flags.body_limit_mib) << 20,
        connections: flags.max_connections as usize,
    })
}

fn options(flags: &ServeFlags, info: &EngineInfo) -> String {
    format!("{}, {} in parallel, {} in the queue", banner(info), info.parallel, flags.max_queue)
}

/// Ready at the first SIGTERM or Ctrl-C. A second one ends the process at once.
async fn stop_signal() {
    signal().await;
    tokio::spawn(async {
        signal().await;
        std::process::exit(130);
    });
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(error) => {
            tracing::warn!(%error, "no SIGTERM here; only Ctrl-C stops the server");
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

#[cfg(not(unix))]
async fn signal() {
    let _ = tokio::signal::ctrl_c().await;
}
