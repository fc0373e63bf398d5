//! The OpenAPI document: `GET /openapi.json`, made from the routes and from the types that they read and write.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Content, HeaderBuilder, OpenApi as Document, RefOr, Response, ResponseBuilder, SecurityRequirement,
};
use utoipa::{IntoResponses, Modify, OpenApi, PartialSchema, ToSchema};

use crate::error::ErrorBody;
use crate::messages::MessagesErrorBody;

/// The part of the document that no route says.
#[derive(OpenApi)]
#[openapi(
    info(title = "Forerunner", description = "OpenAI's and Anthropic's APIs over one engine. Unknown fields of a \
        request are accepted and not looked at."),
    tags(
        (name = "openai", description = "As OpenAI's clients speak it."),
        (name = "anthropic", description = "As Anthropic's clients speak it."),
        (name = "tokens", description = "Texts to tokens and back, in vLLM's shapes."),
        (name = "operation", description = "For probes, gateways and scrapers."),
    ),
    components(schemas(ErrorBody, MessagesErrorBody)),
    modifiers(&Keys),
)]
pub(crate) struct Base;

/// The document as it is served.
#[derive(Clone)]
pub(crate) struct Served(Arc<str>);

impl Served {
    pub(crate) fn new(document: &Document) -> Self {
        Served(serde_json::to_string(document).expect("its maps have string keys").into())
    }
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operation",
    responses((status = 200, description = "The document.", body = serde_json::Value), Limits),
)]
pub(crate) async fn openapi(Extension(Served(document)): Extension<Served>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document.to_string())
}

/// Keys are optional for the document: a server may have none.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let header = ApiKey::Header(ApiKeyValue::new("x-api-key"));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        components.add_security_scheme("header", SecurityScheme::ApiKey(header));
        let none: [&str; 0] = [];
        document.security = Some(vec![
            SecurityRequirement::default(),
            SecurityRequirement::new("bearer", none),
            SecurityRequirement::new("header", none),
        ]);
    }
}

const LIMITS: [(&str, &str); 2] =
    [("401", "No API key, or none that is known."), ("431", "The headers are larger than the limit.")];

const BODIES: [(&str, &str); 4] = [
    ("400", "The caller's fault: the body, or one of its fields."),
    ("408", "The body did not arrive in time."),
    ("413", "The body is larger than the limit."),
    ("415", "The body is no JSON by its own word."),
];

const REPLIES: [(&str, &str); 2] =
    [("429", "As many requests wait as the queue takes."), ("503", "The server is stopping, or has failed.")];

const MISSING: [(&str, &str); 1] = [("404", "There is no such model or response.")];

const FAILURE: [(&str, &str); 1] = [("500", "The engine failed.")];

/// Refusals that every endpoint can answer with.
pub(crate) struct Limits;

/// Refusals of endpoints that read a body.
pub(crate) struct BodyRefusals;

/// Refusals of endpoints that generate.
pub(crate) struct ReplyRefusals;

/// Those in Anthropic's envelope, where no reply is generated.
pub(crate) struct MessageBodyRefusals;

/// Those in Anthropic's envelope.
pub(crate) struct MessageRefusals;

/// A path that names what is not there.
pub(crate) struct Missing;

type Responses = BTreeMap<String, RefOr<Response>>;

impl IntoResponses for Limits {
    fn responses() -> Responses {
        refusals::<ErrorBody>(&[&LIMITS])
    }
}

impl IntoResponses for BodyRefusals {
    fn responses() -> Responses {
        refusals::<ErrorBody>(&[&LIMITS, &BODIES, &MISSING, &FAILURE])
    }
}

impl IntoResponses for ReplyRefusals {
    fn responses() -> Responses {
        refusals::<ErrorBody>(&[&LIMITS, &BODIES, &MISSING, &FAILURE, &REPLIES])
    }
}

impl IntoResponses for MessageBodyRefusals {
    fn responses() -> Responses {
        let own = refusals::<MessagesErrorBody>(&[&BODIES, &MISSING, &FAILURE]);
        own.into_iter().chain(Limits::responses()).collect()
    }
}

impl IntoResponses for MessageRefusals {
    fn responses() -> Responses {
        let own = refusals::<MessagesErrorBody>(&[&BODIES, &MISSING, &FAILURE, &REPLIES]);
        own.into_iter().chain(Limits::responses()).collect()
    }
}

impl IntoResponses for Missing {
    fn responses() -> Responses {
        refusals::<ErrorBody>(&[&LIMITS, &MISSING, &[("400", "The path is not UTF-8.")]])
    }
}

fn refusals<E: ToSchema>(lists: &[&[(&str, &str)]]) -> Responses {
    let listed = lists.iter().flat_map(|list| list.iter());
    listed.map(|(status, about)| ((*status).to_owned(), refusal::<E>(status, about).into())).collect()
}

fn refusal<E: ToSchema>(status: &str, about: &str) -> Response {
    let schema = utoipa::openapi::Ref::from_schema_name(E::name());
    let body = Content::new(Some(schema));
    let response = ResponseBuilder::new().description(about).content("application/json", body);
    match status {
        "429" => response.header(
            "retry-after",
            HeaderBuilder::new()
                .description(Some("Seconds until another try is worth it."))
                .schema(Some(u32::schema()))
                .build(),
        ),
        _ => response,
    }
    .build()
}
