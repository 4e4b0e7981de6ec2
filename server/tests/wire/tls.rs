//! TLS with a certificate that the test makes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use cairndb::bson::{Document, doc};
use cairndb_server::frame::header::{HEADER_BYTES, Header};
use cairndb_server::frame::message::Message;
use cairndb_server::{Tls, TlsError};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::ending::{endless, wait_for};
use crate::peer::{Answer, decode, message};
use crate::{Fixture, PATIENCE};

/// A certificate and its key as files.
struct Files {
    folder: TempDir,
    certificate: CertificateDer<'static>,
}

impl Files {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = made.cert.der().clone();
        write(&folder.path().join("certificate.pem"), "CERTIFICATE", &certificate);
        write(&folder.path().join("key.pem"), "PRIVATE KEY", &made.signing_key.serialize_der());
        Self { folder, certificate }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tls(&self) -> Tls {
        Tls::from_pem_files(self.path("certificate.pem"), self.path("key.pem")).expect("a pair")
    }

    fn connect(&self, fixture: &Fixture) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        let socket = TcpStream::connect(fixture.address).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        StreamOwned::new(connection, socket)
    }
}

fn write(path: &Path, label: &str, bytes: &[u8]) {
    let text = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64.encode(bytes));
    std::fs::write(path, text).expect("written");
}

/// Runs a command. Returns its reply.
fn run(stream: &mut (impl Read + Write), command: Document) -> Document {
    stream.write_all(&message(command).bytes(7, 0)).expect("sent");
    let mut front = [0; HEADER_BYTES];
    stream.read_exact(&mut front).expect("an answer");
    let header = Header::parse(&front).expect("a header");
    let mut rest = vec![0; header.length - HEADER_BYTES];
    stream.read_exact(&mut rest).expect("a whole answer");
    assert_eq!(header.response_to, 7);
    decode(&Message::parse(&[&front[..], &rest[..]].concat().into()).expect("a message").body)
}

#[test]
fn commands_are_answered_over_tls_alone() {
    let files = Files::new();
    let fixture = Fixture::with(|builder| builder.tls(files.tls()));
    let ping = message(doc! { "ping": 1, "$db": "admin" }).bytes(7, 0);
    assert_eq!(fixture.peer().answer_or_close(&ping), Answer::Closed);
    let mut stream = files.connect(&fixture);
    for _ in 0..3 {
        assert_eq!(run(&mut stream, doc! { "ping": 1, "$db": "admin" }), doc! { "ok": 1.0 });
    }
    // A message that is none ends the connection, and TLS says that it ended: without that, reading would
    // fail.
    stream.write_all(&[0; HEADER_BYTES]).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// A disconnect is seen at the socket, below TLS.
#[test]
fn a_tls_client_that_disconnects_ends_its_command() {
    let files = Files::new();
    let fixture = Fixture::with(|builder| builder.tls(files.tls()));
    let mut looking = files.connect(&fixture);
    run(&mut looking, doc! { "insert": "a", "documents": [{ "_id": 1 }], "$db": "shop" });
    let mut leaving = files.connect(&fixture);
    leaving.write_all(&message(endless()).bytes(7, 0)).unwrap();
    leaving.flush().unwrap();
    wait_for(|command| run(&mut looking, command), |operation| operation.map(|_| ()));
    drop(leaving);
    wait_for(|command| run(&mut looking, command), |operation| operation.is_none().then_some(()));
}

#[test]
fn files_that_are_not_a_pair_are_refused_by_name() {
    let (files, others) = (Files::new(), Files::new());
    let (certificate, key) = (files.path("certificate.pem"), files.path("key.pem"));
    let refused = |certificate: &Path, key: &Path| Tls::from_pem_files(certificate, key).unwrap_err();
    let none = refused(&files.path("none.pem"), &key);
    assert!(matches!(&none, TlsError::Unreadable { path, .. } if path.ends_with("none.pem")), "{none}");
    let empty = files.path("empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    let broken = files.path("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n").unwrap();
    for path in [&empty, &broken, &key] {
        let error = refused(path, &key);
        assert!(matches!(&error, TlsError::Content { path: named, .. } if named == path), "{error}");
    }
    let no_key = refused(&certificate, &certificate);
    assert!(matches!(&no_key, TlsError::Content { wanted: "private key", .. }), "{no_key}");
    let pair = refused(&certificate, &others.path("key.pem"));
    assert!(matches!(pair, TlsError::Pair { .. }), "{pair}");
    assert!(pair.to_string().contains("certificate.pem"));
}
