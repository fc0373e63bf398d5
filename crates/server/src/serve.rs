//! Accepts connections until told to stop, then lets running replies finish.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::connections::take_connections;
use crate::front::Front;
use crate::options::ServerOptions;
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
    let options = service.options.clone();
    serve_while_loading(listener, options, async { Ok(service) }, || {}, shutdown).await
}

/// [`serve`] for a service that is not there yet: until `loading` is ready every request gets 503 and a time to wait.
/// `opened` is called once requests reach the service. A service that could not be loaded ends the server.
pub async fn serve_while_loading<E: From<std::io::Error>>(
    listener: std::net::TcpListener,
    options: ServerOptions,
    loading: impl Future<Output = Result<Service, E>>,
    opened: impl FnOnce(),
    shutdown: impl Future<Output = ()>,
) -> Result<(), E> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (close, closing) = oneshot::channel::<()>();
    let front = Front::new(&options);
    let connections = tokio::spawn(take_connections(listener, front.clone(), options.clone(), async {
        // Either it is sent or its sender is gone: both mean to close.
        let _ = closing.await;
    }));
    let mut shutdown = std::pin::pin!(shutdown);
    let loaded = tokio::select! {
        loaded = loading => Some(loaded?),
        () = &mut shutdown => None,
    };
    if let Some(service) = loaded {
        let service = Arc::new(service.with_options(options));
        front.open(router(service.clone()));
        opened();
        drained(&service, shutdown).await;
    }
    drop(close);
    // What is still open after this time is cut when the runtime ends.
    let _ = timeout(CLOSE_LIMIT, connections).await;
    Ok(())
}

/// Ready when told to stop and no reply is running any more, or its time is up.
async fn drained(service: &Service, shutdown: impl Future<Output = ()>) {
    shutdown.await;
    tracing::info!("stopping: running replies have {} s to finish", DRAIN_LIMIT.as_secs());
    if timeout(DRAIN_LIMIT, service.drain()).await.is_err() {
        tracing::warn!("replies were still running after {} s and are cut", DRAIN_LIMIT.as_secs());
    }
}
