//! A build without TLS.

use std::path::Path;

use anyhow::{Result, bail};
use forerunner_server::Handshaking;

/// Says that there is none.
pub(crate) fn handshaking(certificate: &Path, _key: &Path) -> Result<Handshaking> {
    bail!(
        "--tls-certificate is {}, and this build has no TLS: build it with the cargo feature tls, or put a proxy in \
         front of it",
        certificate.display()
    )
}
