//! HTTPS, with a certificate that only these tests trust.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::binary::{Serving, forerunner};

/// A file of `certificates`.
fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/certificates");
    folder.join(name).to_str().expect("UTF-8").to_owned()
}

/// A path's answer over TLS, trusting one certificate and no other.
fn get(address: SocketAddr, path: &str, trusted: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(file(trusted)).expect("a certificate");
    roots.add(certificate).expect("a certificate that can be trusted");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut stream = StreamOwned::new(connection, stream);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// What a connection brings until its end.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut bytes = Vec::new();
    // A server may hang up with a reset, which is an end as well.
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    bytes
}

#[test]
fn a_certificate_makes_it_https_and_clients_that_stall_hold_up_nobody() {
    let (certificate, key) = (file("ours.pem"), file("ours-key.pem"));
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key, "--header-seconds", "2"];
    let server = Serving::start(&[&tls[..], &["--parallel", "1"]].concat());
    // One never says a word, another speaks HTTP to a server of HTTPS.
    let silent = TcpStream::connect(server.address).expect("the server listens");
    let mut plain = TcpStream::connect(server.address).expect("the server listens");
    plain.write_all(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n").expect("written");
    let answer = get(server.address, "/health", "ours.pem").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(!rest(plain).starts_with(b"HTTP"));
    // Somebody else's certificate is not trusted: what was spoken above was really TLS.
    assert!(get(server.address, "/health", "theirs.pem").is_err());
    assert!(rest(silent).is_empty(), "hung up on without a word");
    #[cfg(unix)]
    assert!(server.terminate().success());
}

#[test]
fn files_that_cannot_serve_are_named() {
    let check = |certificate: &str, key: &str, fragment: &str| {
        let run = forerunner(&["serve", "--port", "0", "--tls-certificate", certificate, "--tls-key", key]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(run.stderr.contains(fragment), "{fragment:?} is not in {}", run.stderr);
    };
    let (certificate, key) = (file("ours.pem"), file("ours-key.pem"));
    check(&certificate, &file("theirs-key.pem"), "does not go with --tls-certificate");
    check(&key, &key, "no certificate in it; accepted: a chain in PEM");
    check(&certificate, &certificate, "no private key in it; accepted: one in PEM");
    check("/no/such.pem", &key, "--tls-certificate /no/such.pem");
    check(&certificate, "/no/such.pem", "--tls-key /no/such.pem");
    check(&file("README.md"), &key, "no certificate in it");
}
