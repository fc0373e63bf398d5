//! The web page at `/`: files that the binary carries, built from `web/` and the same until another binary runs.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Everything comes from this server and nothing from elsewhere, and no text is ever taken for HTML: a browser refuses
/// what a model's reply might smuggle in, whatever the page's script does with it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 5] = [
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        bytes: include_bytes!("../assets/index.html"),
    },
    Asset {
        path: "/assets/app.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/app.js"),
    },
    Asset {
        path: "/assets/app.css",
        content_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/app.css"),
    },
    Asset {
        path: "/assets/icon.svg",
        content_type: "image/svg+xml",
        bytes: include_bytes!("../assets/icon.svg"),
    },
    Asset {
        path: "/assets/licences.txt",
        content_type: "text/plain; charset=utf-8",
        bytes: include_bytes!("../assets/licences.txt"),
    },
];

/// The page's routes. They need no key: what they answer is in every binary and tells nothing of what is generated.
pub(crate) fn page<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        let tag = asset.tag();
        router.route(asset.path, get(async move |request: Request| asset.answer(&tag, request.headers())))
    })
}

/// Whether a path is one of the page's files.
pub(crate) fn is_page(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

impl Asset {
    /// Changes with the bytes.
    fn tag(&self) -> HeaderValue {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        HeaderValue::try_from(format!("\"{:016x}\"", hasher.finish())).expect("digits are a header value")
    }

    /// The bytes, or that the browser has them. It asks each time, so that a new binary's page is seen at once.
    fn answer(&self, tag: &HeaderValue, asked: &HeaderMap) -> Response {
        let has_it = asked.get_all(IF_NONE_MATCH).iter().any(|known| lists(known, tag));
        let (status, bytes) = match has_it {
            true => (StatusCode::NOT_MODIFIED, &[][..]),
            false => (StatusCode::OK, self.bytes),
        };
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(self.content_type)),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (ETAG, tag.clone()),
        ];
        (status, headers, bytes).into_response()
    }
}

/// Whether a header of known tags has this one, or `*`. A proxy that compresses marks a tag as weak.
fn lists(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let mut tags = known.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tags.any(|one| one == b"*" || one.strip_prefix(b"W/").unwrap_or(one) == tag.as_bytes())
}
