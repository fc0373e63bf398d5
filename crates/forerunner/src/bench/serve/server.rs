//! A server by its URL: one connection a request, over plain HTTP.

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Most characters of an answer that are told of a failure.
const TOLD: usize = 200;

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// Host and port, to connect to.
    address: String,
    /// As the `Host` header has it.
    authority: String,
    /// Before `/v1`, without a slash at its end.
    base: String,
    api_key: Option<String>,
}

impl Server {
    /// The server of a URL, which may end in `/v1` or not.
    pub(crate) fn new(url: &str, api_key: Option<String>) -> anyhow::Result<Self> {
        let accepted = "accepted: http://HOST[:PORT][/PATH]";
        let uri: Uri = url.parse().with_context(|| format!("the URL is {url}; {accepted}"))?;
        ensure!(uri.scheme_str() == Some("http"), "the URL is {url}; {accepted}");
        let authority = uri.authority().with_context(|| format!("the URL is {url}; {accepted}"))?;
        let port = authority.port_u16().unwrap_or(80);
        let path = uri.path().trim_end_matches('/');
        Ok(Server {
            address: format!("{}:{port}", authority.host()),
            authority: authority.to_string(),
            base: path.strip_suffix("/v1").unwrap_or(path).to_owned(),
            api_key,
        })
    }

    /// The first model that it serves.
    pub(crate) async fn first_model(&self) -> anyhow::Result<String> {
        let answer = self.send("GET", "/v1/models", Bytes::new()).await?;
        let body = answer.into_body().collect().await?.to_bytes();
        let models: Value = serde_json::from_slice(&body).context("/v1/models did not answer with JSON")?;
        let first = models["data"][0]["id"].as_str();
        Ok(first.with_context(|| format!("/v1/models names no model: {models}"))?.to_owned())
    }

    /// Asks for a reply; an answer that is no success is an error that says why.
    pub(crate) async fn ask(&self, body: &Value) -> anyhow::Result<Incoming> {
        let body = Bytes::from(body.to_string());
        Ok(self.send("POST", "/v1/chat/completions", body).await?.into_body())
    }

    async fn send(&self, method: &str, path: &str, body: Bytes) -> anyhow::Result<Response<Incoming>> {
        let stream = TcpStream::connect(&self.address).await.context("cannot connect")?;
        // Small writes wait for no acknowledgement: they are what is timed.
        stream.set_nodelay(true)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the body, or when that is dropped; what goes wrong is seen there.
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.api_key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let answer = sender.send_request(request.body(Full::new(body))?).await?;
        if answer.status() != StatusCode::OK {
            let status = answer.status();
            let body =
                answer.into_body().collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
            bail!("status {}: {}", status.as_u16(), told(&body));
        }
        Ok(answer)
    }
}

/// The message of an error's body, or the body's beginning.
fn told(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let message = json.as_ref().and_then(|body| body["error"]["message"].as_str());
    message.unwrap_or(&text).chars().take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, address: &str, base: &str) {
        let server = Server::new(url, None).unwrap();
        assert_eq!((server.address.as_str(), server.base.as_str()), (address, base), "{url}");
    }

    #[test]
    fn a_url_may_have_a_path_and_end_in_v1() {
        check("http://localhost:8080", "localhost:8080", "");
        check("http://localhost/", "localhost:80", "");
        check("http://10.0.0.1:9/v1", "10.0.0.1:9", "");
        check("http://host/a/b/v1/", "host:80", "/a/b");
    }

    #[test]
    fn what_is_no_url_of_http_is_named() {
        for url in ["https://host", "host:80", "http://", "nonsense nonsense"] {
            let error = Server::new(url, None).unwrap_err().to_string();
            assert!(error.contains(url) && error.contains("accepted: http://HOST"), "{error}");
        }
    }

    #[test]
    fn an_error_says_its_message() {
        assert_eq!(told(br#"{"error": {"message": "too long"}}"#), "too long");
        assert_eq!(told(b"<html>"), "<html>");
    }
}
