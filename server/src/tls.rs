//! TLS: the certificate and the key of a server, read from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::{self, ServerConfig};

/// The reason why a certificate and its key cannot be used.
///
/// ```
/// use cairndb_server::{Tls, TlsError};
///
/// let missing = Tls::from_pem_files("no such certificate.pem", "no such key.pem");
/// assert!(matches!(missing, Err(TlsError::Unreadable { .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file is not PEM, or does not contain what it should.
    #[error("{} holds no {wanted}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The content that should be in it.
        wanted: &'static str,
        /// The reason why nothing in the file can be used.
        reason: String,
    },
    /// The certificate and the key cannot be used together.
    #[error("the certificate in {} cannot be used with the key in {}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The error of the TLS library.
        source: rustls::Error,
    },
}

/// A certificate with its key, for [`ServerBuilder::tls`](crate::ServerBuilder::tls).
///
/// ```
/// use cairndb::Client;
/// use cairndb_server::{Server, Tls};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (certificate, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
/// # let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
/// # use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
/// # let pem = |label: &str, bytes: &[u8]| {
/// #     format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64.encode(bytes))
/// # };
/// # std::fs::write(&certificate, pem("CERTIFICATE", made.cert.der()))?;
/// # std::fs::write(&key, pem("PRIVATE KEY", &made.signing_key.serialize_der()))?;
/// # let client = Client::open(folder.path().join("shop"))?;
/// let tls = Tls::from_pem_files(&certificate, &key)?;
/// let server = Server::builder(client).tls(tls);
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and the key of that one. Both files are PEM;
    /// they may be the same file.
    ///
    /// The example of [`Tls`] reads both.
    ///
    /// # Errors
    /// A file that cannot be read or does not contain what it should, or a key of another certificate. Each
    /// error names the file.
    pub fn from_pem_files(certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        let content = |path: &Path, wanted, reason: &dyn std::fmt::Display| TlsError::Content {
            path: path.to_owned(),
            wanted,
            reason: reason.to_string(),
        };
        let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
        let chain = chain.map_err(|error| content(certificate, "certificate", &error))?;
        // A file of other sections is valid PEM, so the parser finds nothing wrong with it.
        if chain.is_empty() {
            return Err(content(certificate, "certificate", &"no section of the file is one"));
        }
        let private = PrivateKeyDer::from_pem_slice(&read(key)?);
        let private = private.map_err(|error| content(key, "private key", &error))?;
        let unusable = |source| TlsError::Pair { certificate: certificate.into(), key: key.into(), source };
        // The provider is named: a process-wide default would depend on what else the program links.
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            // Clients prove who they are by a login, not by a certificate.
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(unusable)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}
