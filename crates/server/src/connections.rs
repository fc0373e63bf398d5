//! Takes so many connections at once, leaves the others in the system's queue, and speaks HTTP on each in a task of its own.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::front::Front;
use crate::handshake::{Duplex, Handshaking};
use crate::options::ServerOptions;

/// Pause after the system refused to accept, as it does when there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What every connection has.
struct Shared {
    front: Front,
    handshaking: Handshaking,
    header_limit: Duration,
}

/// Takes connections until `closing` is ready, and returns when all of them are closed: an idle one at once, another
/// after its answer.
pub(crate) async fn take_connections(
    listener: TcpListener,
    front: Front,
    options: ServerOptions,
    closing: impl Future<Output = ()>,
) {
    let free = Arc::new(Semaphore::new(options.connections.min(Semaphore::MAX_PERMITS)));
    let ServerOptions { handshaking, header_limit, .. } = options;
    let shared = Arc::new(Shared { front, handshaking, header_limit });
    let graceful = GracefulShutdown::new();
    let mut closing = std::pin::pin!(closing);
    loop {
        let (stream, counted) = tokio::select! {
            accepted = accept(&listener, &free) => accepted,
            () = &mut closing => break,
        };
        tokio::spawn(serve_one(stream, counted, shared.clone(), graceful.watcher()));
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The next connection, once there may be one more.
async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed, so there is always a permit in the end.
    let counted = free.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, counted),
            Err(error) if has_left(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether a client left before it was accepted: its own affair.
fn has_left(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A connection from its acceptance to its end; it counts while it lives.
async fn serve_one(
    stream: TcpStream,
    _counted: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
    watcher: Watcher,
) {
    // Tokens are small and must leave at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let Some(handshake) = &shared.handshaking.0 else { return speak(stream, &shared, watcher).await };
    match timeout(shared.header_limit, handshake.begin(Box::new(stream))).await {
        Ok(Ok(stream)) => speak(stream, &shared, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
        Err(_) => tracing::debug!("a handshake took longer than {:?}", shared.header_limit),
    }
}

/// HTTP on one connection. A client that does not send a request's headers in time is hung up on.
async fn speak(stream: impl Duplex + 'static, shared: &Shared, watcher: Watcher) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.header_limit)
        .serve_connection(TokioIo::new(stream), shared.front.clone());
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
