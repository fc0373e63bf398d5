//! Accepts connections until told to stop, then lets running replies finish.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::connections::LimitedListener;
use crate::routes::router;
use crate::service::Service;

/// How long running replies may take once the server is told to stop.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// How long connections may take to close once no reply is running.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is ready, then drains: new requests and `/health` get 503 while running replies go on,
/// for [`DRAIN_LIMIT`] at most. Returns when all connections are closed or their time is up.
pub async fn serve(
    listener: std::net::TcpListener,
    service: Service,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let service = Arc::new(service);
    let (close, closing) = oneshot::channel::<()>();
    let listener = LimitedListener::new(listener, service.options.connections);
    let server = axum::serve(listener, router(service.clone())).with_graceful_shutdown(async {
        // Either it is sent or its sender is gone: both mean to close.
        let _ = closing.await;
    });
    let mut server = std::pin::pin!(server.into_future());
    tokio::select! {
        ended = &mut server => return ended,
        () = drained(&service, shutdown) => {}
    }
    drop(close);
    match timeout(CLOSE_LIMIT, server).await {
        Ok(ended) => ended,
        Err(_) => Ok(()),
    }
}

/// Ready when told to stop and no reply is running any more, or its time is up.
async fn drained(service: &Service, shutdown: impl Future<Output = ()>) {
    shutdown.await;
    tracing::info!("stopping: running replies have {} s to finish", DRAIN_LIMIT.as_secs());
    if timeout(DRAIN_LIMIT, service.drain()).await.is_err() {
        tracing::warn!("replies were still running after {} s and are cut", DRAIN_LIMIT.as_secs());
    }
}
