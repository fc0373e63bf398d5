//! What answers first: a server whose model is still loading says so, and the routes answer from then on.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Request;
use axum::middleware;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::routing::get;
use hyper::body::Incoming;
use tower::Service as _;

use crate::error::ApiError;
use crate::loads::health_while_loading;
use crate::options::ServerOptions;
use crate::origins::share;
use crate::routes::label;

/// Answers every request of every connection.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    loading: Router,
    routes: Arc<OnceLock<Router>>,
}

impl Front {
    /// Says that the model is loading, with status 503.
    pub(crate) fn new(options: &ServerOptions) -> Self {
        let loading = Router::new()
            .route("/health", get(health_while_loading))
            .fallback(async || ApiError::loading())
            .layer(middleware::from_fn_with_state(Arc::new(options.cors_origins.clone()), share))
            .layer(middleware::from_fn(label));
        Front { loading, routes: Arc::default() }
    }

    /// Hands every request from now on to `routes`, those of connections that are open already too.
    pub(crate) fn open(&self, routes: Router) {
        assert!(self.routes.set(routes).is_ok(), "a server is opened once");
    }
}

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // A router is always ready.
        self.routes.get().unwrap_or(&self.loading).clone().call(request)
    }
}
