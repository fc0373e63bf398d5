//! `forerunner serve`: HTTP until a signal, then until running replies are done.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context;
use forerunner_engine::EngineInfo;
use forerunner_server::{ApiKeys, Handshaking, ServerOptions, Service};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::flags::{ModelFlags, ServeFlags};
use crate::setup::{Loaded, Sizes, load};
use crate::terminal::{banner, tell};
use crate::tls::handshaking;

/// Threads for HTTP: it only moves small pieces, and the rest of the processor is the model's.
const HTTP_THREADS: usize = 2;

/// Serves until SIGTERM or Ctrl-C.
pub(crate) fn serve(flags: &ServeFlags) -> anyhow::Result<()> {
    // What needs no model is looked at first: that it is wrong is known before one is loaded.
    let address = SocketAddr::new(flags.host, flags.port);
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let options = server_options(flags)?;
    let runtime = runtime()?;
    let sizes = Sizes::serving(flags.parallel.into(), flags.max_queue as usize);
    let loaded = load_aside(flags.model.clone(), sizes)?;
    let mut engine = None;
    let loading = async {
        let Loaded { engine: started, text, defaults, .. } =
            loaded.await.context("the thread that loads the model has ended")??;
        let handle = engine.insert(started).handle();
        tell(configuration(flags, handle.info()));
        anyhow::Ok(Service::new(handle, text, defaults))
    };
    let scheme = if flags.tls_certificate.is_some() { "https" } else { "http" };
    tell(format_args!("loading; until that is done {scheme}://{address} answers with status 503"));
    let opened = || tell(format_args!("listening on {scheme}://{address}"));
    let serving = forerunner_server::serve_while_loading(listener, options, loading, opened, stop_signal());
    runtime.block_on(serving)?;
    runtime.shutdown_background();
    Ok(())
}

fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(HTTP_THREADS).enable_all().build();
    runtime.context("starting the HTTP threads failed")
}

/// Loads on a thread of its own, which nobody waits for when the server is stopped before it is done.
fn load_aside(flags: ModelFlags, sizes: Sizes) -> anyhow::Result<oneshot::Receiver<anyhow::Result<Loaded>>> {
    let (sender, receiver) = oneshot::channel();
    // A server that has been stopped takes no model any more.
    let load = move || drop(sender.send(load(&flags, &sizes)));
    std::thread::Builder::new()
        .name("loading".into())
        .spawn(load)
        .context("starting the thread that loads the model failed")?;
    Ok(receiver)
}

fn server_options(flags: &ServeFlags) -> anyhow::Result<ServerOptions> {
    let api_keys = match &flags.api_key_file {
        Some(path) => ApiKeys::open(path).with_context(|| format!("reading {} failed", path.display()))?,
        None => ApiKeys::default(),
    };
    let handshaking = match (&flags.tls_certificate, &flags.tls_key) {
        (Some(certificate), Some(key)) => handshaking(certificate, key)?,
        _ => Handshaking::default(),
    };
    Ok(ServerOptions {
        api_keys,
        cors_origins: flags.cors_origin.clone(),
        body_limit_bytes: usize::from(flags.body_limit_mib) << 20,
        connections: flags.max_connections as usize,
        header_limit: Duration::from_secs(flags.header_seconds.into()),
        handshaking,
    })
}

fn configuration(flags: &ServeFlags, info: &EngineInfo) -> String {
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
