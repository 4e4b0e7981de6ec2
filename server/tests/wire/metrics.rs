//! The page with metrics, as a reader over HTTP gets it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cairndb::Client;
use cairndb::bson::doc;
use cairndb_server::{Error, Server};

use crate::{Fixture, PATIENCE, fill};

fn fixture() -> (Fixture, SocketAddr) {
    let fixture = Fixture::with(|builder| builder.metrics("127.0.0.1:0".parse().expect("an address")));
    let address = fixture.metrics.expect("asked for");
    (fixture, address)
}

/// The answer of the server to these bytes, until it closes the connection.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut answer = Vec::new();
    // A server that rejects a request early may close while it is still being sent.
    let sent = stream.write_all(request);
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}, after {sent:?} and {answer:?}"),
    }
    String::from_utf8(answer).expect("text")
}

pub(crate) fn page(address: SocketAddr) -> String {
    ask(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// The value in the line of the page that begins with `name`.
fn value(page: &str, name: &str) -> u64 {
    let line = page.lines().find(|line| line.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    line.rsplit(' ').next().expect("a value").parse().expect("a number")
}

#[test]
fn the_page_shows_what_is_done() {
    let (fixture, address) = fixture();
    let before = page(address);
    assert!(before.starts_with("HTTP/1.1 200 OK\r\n"), "{before}");
    assert!(before.contains("application/openmetrics-text; version=1.0.0"), "{before}");
    assert!(before.ends_with("# EOF\n"), "{before}");
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 10);
    peer.run(doc! { "find": "a", "filter": { "text": "unfindable" }, "$db": "shop" });
    let after = page(address);
    let counted = |name: &str| value(&after, name);
    assert_eq!(value(&before, r#"cairndb_documents_total{way="inserted"}"#), 0);
    assert_eq!(counted(r#"cairndb_documents_total{way="inserted"}"#), 10);
    assert_eq!(counted(r#"cairndb_operation_seconds_count{verb="find"}"#), 1);
    assert_eq!(counted(r#"cairndb_operation_seconds_bucket{le="+Inf",verb="find"}"#), 1);
    assert_eq!(counted(r#"cairndb_searches_total{plan="collection_scan"}"#), 1);
    assert_eq!(counted(r#"cairndb_examined_total{what="documents"}"#), 10);
    assert_eq!(counted(r#"cairndb_state{state="open"}"#), 1);
    assert_eq!(counted("cairndb_connections"), 1);
    assert_eq!(counted(r#"cairndb_commands_total{kind="insert"}"#), 1);
    // No name and no value of a user is shown.
    assert!(!after.contains("shop") && !after.contains("unfindable"), "{after}");
}

#[test]
fn server_status_has_the_same_numbers() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 3);
    let status = peer.run(doc! { "serverStatus": 1, "$db": "admin" });
    let documents = status.get_document("metrics").unwrap().get_document("document").unwrap();
    assert_eq!(documents.get_i64("inserted").ok(), Some(3), "{documents}");
    let own = status.get_document("cairndb").unwrap();
    let inserts = own.get_document("operations").unwrap().get_document("insert_many").unwrap();
    assert_eq!(inserts.get_document("times").unwrap().get_i64("count").ok(), Some(1), "{own}");
    assert_eq!(own.get_str("state").ok(), Some("open"));
}

#[test]
fn other_requests_are_refused() {
    let (_fixture, address) = fixture();
    let refused = [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "404"),
        ("GET /metrics/x HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "404"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".to_owned(), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000)), "431"),
    ];
    for (request, status) in refused {
        let answer = ask(address, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40}: {answer}");
    }
}

/// A reader that says nothing, or breaks off, keeps no one else from the page, and the server stops in spite of it.
#[test]
fn slow_readers_are_in_no_ones_way() {
    let (mut fixture, address) = fixture();
    let silent = TcpStream::connect(address).expect("connected");
    let mut half = TcpStream::connect(address).expect("connected");
    half.write_all(b"GET /met").expect("sent");
    drop(TcpStream::connect(address).expect("connected"));
    assert!(page(address).starts_with("HTTP/1.1 200"));
    fixture.stop();
    drop((silent, half));
}

/// More readers than are served at once are closed, and the next one after them is answered again.
#[test]
fn readers_are_bounded() {
    let (_fixture, address) = fixture();
    let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(address).expect("connected")).collect();
    for mut stream in silent.iter().skip(30) {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let closed = stream.read(&mut [0]);
        assert!(
            matches!(&closed, Ok(0)) || closed.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
        );
    }
    drop(silent);
    // The server notices one after the other that they went away.
    let started = std::time::Instant::now();
    while !page(address).starts_with("HTTP/1.1 200") {
        assert!(started.elapsed() < PATIENCE, "no reader is answered");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn metrics_stay_on_the_machine() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let builder = Server::builder(Client::in_memory().expect("made"));
        let builder = builder.tcp("127.0.0.1:0".parse().unwrap()).metrics(address.parse().unwrap());
        let refused = runtime.block_on(builder.bind()).expect_err("refused");
        assert!(matches!(refused, Error::Metrics(_)), "{refused}");
    }
}
