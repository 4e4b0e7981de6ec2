//! Starting, rejecting and stopping.

use cairndb::Client;
use cairndb::bson::doc;
use cairndb_server::{Error, Server};

use crate::peer::Answer;
use crate::{Fixture, fill};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

#[test]
fn addresses_beyond_the_machine_need_users_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let client = Client::open(folder.path().join("db")).unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let builder = || Server::builder(client.clone()).tcp(address.parse().unwrap());
        let plain = runtime().block_on(builder().bind()).expect_err("refused");
        assert!(matches!(plain, Error::Plaintext(_)), "{plain}");
        let refused = runtime().block_on(builder().insecure_plaintext().bind()).expect_err("refused");
        assert!(refused.to_string().contains("cairn user add"), "{refused}");
    }
    let refused = Server::builder(client.clone()).require_users().unbound();
    assert!(matches!(refused, Err(Error::NoUsers(_))));
    let nothing = runtime().block_on(Server::builder(client.clone()).bind());
    assert!(matches!(nothing, Err(Error::NothingToListenOn)));
    let none = Server::builder(client).connections_max(0).unbound();
    assert!(none.is_err_and(|error| error.to_string().contains("connections_max")));
}

#[test]
fn connections_are_bounded() {
    let fixture = Fixture::with(|builder| builder.connections_max(2));
    let ping = crate::peer::message(doc! { "ping": 1, "$db": "admin" }).bytes(1, 0);
    let (mut first, mut second) = (fixture.peer(), fixture.peer());
    assert_eq!((first.answer(&ping), second.answer(&ping)), (Answer::Document(0), Answer::Document(0)));
    assert_eq!(fixture.peer().receive(), None);
    assert_eq!(first.answer(&ping), Answer::Document(0));
}

#[test]
fn stopping_ends_connections_and_cursors_and_releases_the_store() {
    let mut fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 10);
    let reply = peer.run(doc! { "find": "a", "batchSize": 2, "$db": "shop" });
    assert_ne!(reply.get_document("cursor").unwrap().get_i64("id").unwrap(), 0);
    let mut torn = fixture.peer();
    torn.send(&[48, 0, 0]);
    drop(torn);
    // The store is closed here, which would fail if a cursor were open.
    fixture.stop();
    assert_eq!(peer.receive(), None);
}

#[cfg(unix)]
#[test]
fn a_unix_socket_serves_its_user_and_goes_with_the_server() {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // The socket file of a dead process.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut fixture = Fixture::with(|builder| builder.unix_socket(&path));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(&crate::peer::message(doc! { "ping": 1, "$db": "admin" }).bytes(1, 0)).unwrap();
    stream.read_exact(&mut [0; 16]).unwrap();
    fixture.stop();
    assert!(!path.exists());
}
