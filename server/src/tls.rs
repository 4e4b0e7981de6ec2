//! TLS: what a server shows of itself, read from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not PEM, or has not in it what it should.
    #[error("{} holds no {wanted}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        wanted: &'static str,
        /// What is there instead.
        reason: String,
    },
    /// Certificate and key are not a pair that can be used.
    #[error("the certificate in {} cannot be used with the key in {}: {source}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with them.
        source: rustls::Error,
    },
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and the key of that one. Both files are PEM; they may be
    /// the same.
    ///
    /// # Errors
    /// A file that cannot be read or has not in it what it should, or a key that is another certificate's. Each names
    /// the file.
    pub fn from_pem_files(certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        let content = |path: &Path, wanted, reason: &dyn std::fmt::Display| TlsError::Content {
            path: path.to_owned(),
            wanted,
            reason: reason.to_string(),
        };
        let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
        let chain = chain.map_err(|error| content(certificate, "certificate", &error))?;
        if chain.is_empty() {
            return Err(content(certificate, "certificate", &"no section of the file is one"));
        }
        let private = PrivateKeyDer::from_pem_slice(&read(key)?);
        let private = private.map_err(|error| content(key, "private key", &error))?;
        let unusable = |source| TlsError::Pair { certificate: certificate.into(), key: key.into(), source };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
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
