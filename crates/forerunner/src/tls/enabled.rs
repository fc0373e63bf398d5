//! TLS by rustls, with ring's arithmetic.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use forerunner_server::{Duplex, Handshake, Handshaking, Opening};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// TLS 1.2 and 1.3 with the chain and the key of two PEM files.
pub(crate) fn handshaking(certificate: &Path, key: &Path) -> Result<Handshaking> {
    let shown_certificate = || format!("--tls-certificate {}", certificate.display());
    let shown_key = || format!("--tls-key {}", key.display());
    let chain = chain(certificate).with_context(shown_certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(no_key).with_context(shown_key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{} does not go with {}", shown_key(), shown_certificate()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Handshaking(Some(Arc::new(Tls(TlsAcceptor::from(Arc::new(config)))))))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    ensure!(!chain.is_empty(), "no certificate in it; accepted: a chain in PEM, the server's own first");
    Ok(chain)
}

fn no_key(error: Error) -> anyhow::Error {
    match error {
        Error::NoItemsFound => anyhow!("no private key in it; accepted: one in PEM (PKCS#8, PKCS#1 or SEC1)"),
        other => other.into(),
    }
}

struct Tls(TlsAcceptor);

impl Handshake for Tls {
    fn begin(&self, accepted: Box<dyn Duplex>) -> Opening {
        let accepting = self.0.accept(accepted);
        Box::pin(async { accepting.await.map(|stream| Box::new(stream) as Box<dyn Duplex>) })
    }
}
