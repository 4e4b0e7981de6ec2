//! The memory that clients can make the server hold before they log in, and the part that is left for users.

use std::time::{Duration, Instant};

use cairndb::Client;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Document, bson, doc};
use cairndb_server::frame::compressed::{Compressor, pack};
use cairndb_server::{Role, ServerBuilder, Users};

use crate::Fixture;
use crate::login::{log_in, on_admin};
use crate::peer::{Answer, Peer, message};

fn guarded(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Fixture {
    let prepare = |client: &Client| {
        Users::of(client).add("ada", "pencil", Role::Root).expect("added");
    };
    Fixture::over(prepare, |builder| change(builder.require_users()))
}

fn ada(fixture: &Fixture) -> Peer {
    let mut peer = fixture.peer();
    log_in(&mut peer, "ada", "pencil").expect("logged in");
    peer
}

/// A ping with a comment of `bytes` bytes.
fn ping(bytes: usize) -> Vec<u8> {
    message(doc! { "ping": 1, "comment": "x".repeat(bytes), "$db": "admin" }).bytes(1, 0)
}

/// Twelve half messages of strangers once held the whole budget of bytes for minutes.
#[test]
fn large_messages_are_for_users() {
    let fixture = guarded(|builder| builder);
    let mut stranger = fixture.peer();
    assert_eq!(stranger.answer(&ping(60_000)), Answer::Document(0));
    assert_eq!(stranger.answer(&ping(70_000)), Answer::Closed);
    // The announced length is enough to be rejected.
    assert_eq!(fixture.peer().answer(&ping(70_000)[..16]), Answer::Closed);
    let mut user = ada(&fixture);
    assert_eq!(user.answer(&ping(70_000)), Answer::Document(0));
    user.run(on_admin(doc! { "logout": 1 }));
    assert_eq!(user.answer(&ping(70_000)), Answer::Closed);
    // If no login is required, every client counts as a user.
    assert_eq!(Fixture::new().peer().answer(&ping(70_000)), Answer::Document(0));
}

#[test]
fn a_small_message_that_becomes_large_is_refused_to_strangers() {
    let fixture = guarded(|builder| builder);
    for (bytes, expected) in [(60_000, Answer::Document(0)), (70_000, Answer::Closed)] {
        let mut stranger = fixture.peer();
        stranger.run(on_admin(doc! { "hello": 1, "compression": ["zstd"] }));
        let packed = pack(&ping(bytes), Compressor::Zstd).expect("packed");
        assert!(packed.len() < 1000);
        stranger.send(&packed);
        assert_eq!(stranger.receive().is_none(), expected == Answer::Closed, "{bytes}");
    }
}

/// 100,000 pings with new sessions once filled the table of sessions, and locked root out.
#[test]
fn strangers_have_no_sessions() {
    let fixture = guarded(|builder| builder);
    let mut stranger = fixture.peer();
    let ping = |number: u8| {
        let lsid = doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![number; 16] } };
        on_admin(doc! { "ping": 1, "lsid": lsid })
    };
    for number in 0..100 {
        assert_eq!(stranger.run(ping(number)), doc! { "ok": 1.0 });
    }
    let mut user = ada(&fixture);
    user.run(ping(200));
    let status = user.run(on_admin(doc! { "serverStatus": 1 }));
    let sessions = status.get_document("logicalSessionRecordCache").expect("a cache");
    assert_eq!(sessions.get_i64("activeSessionsCount").ok(), Some(1));
}

#[test]
fn silent_strangers_are_closed_and_silent_users_are_not() {
    // Longer than a login on a busy machine.
    let fixture = guarded(|builder| builder.login_timeout(Duration::from_secs(4)));
    let mut user = ada(&fixture);
    let (mut silent, mut polite) = (fixture.peer(), fixture.peer());
    assert_eq!(polite.answer(&ping(1)), Answer::Document(0));
    assert_eq!((silent.receive(), polite.receive()), (None, None));
    assert_eq!(user.answer(&ping(1)), Answer::Document(0));
    // If no login is required, a client may also be silent.
    let open = Fixture::with(|builder| builder.login_timeout(Duration::from_millis(10)));
    let mut idle = open.peer();
    let end = Instant::now() + Duration::from_millis(100);
    while Instant::now() < end {
        assert_eq!(open.peer().answer(&ping(1)), Answer::Document(0));
    }
    assert_eq!(idle.answer(&ping(1)), Answer::Document(0));
}

/// A hello of 40 MB full of names once became 430 MB, and its answer too.
#[test]
fn a_compressor_is_agreed_on_once() {
    let fixture = Fixture::new();
    let names = ["zlib", "zstd", "bogus"].repeat(300);
    let hello = fixture.peer().run(on_admin(doc! { "hello": 1, "compression": names }));
    assert_eq!(hello.get_array("compression").ok(), Some(&vec!["zlib".into(), "zstd".into()]));
}

/// Fifty connections that never logged in, and said something now and then, kept everyone out.
#[test]
fn strangers_make_room_for_who_logs_in() {
    let fixture = guarded(|builder| builder.connections_max(6));
    let mut strangers: Vec<Peer> = (0..6).map(|_| fixture.peer()).collect();
    for stranger in &mut strangers {
        assert_eq!(stranger.answer(&ping(1)), Answer::Document(0));
    }
    let mut users: Vec<Peer> = (0..4).map(|_| ada(&fixture)).collect();
    // The oldest ones.
    for (number, stranger) in strangers.iter_mut().enumerate() {
        let expected = if number < 4 { Answer::Closed } else { Answer::Document(0) };
        assert_eq!(stranger.answer(&ping(1)), expected, "{number}");
    }
    users.extend([ada(&fixture), ada(&fixture)]);
    // No user is closed for a stranger.
    assert_eq!(fixture.peer().receive(), None);
    let begin = Instant::now();
    loop {
        let status = users[0].run(on_admin(doc! { "serverStatus": 1 }));
        let connections = status.get_document("connections").expect("numbers");
        if connections.get("current").is_some_and(|current| *current == bson!(6_i64)) {
            break;
        }
        assert!(begin.elapsed() < crate::PATIENCE, "{connections}");
    }
    for user in &mut users {
        assert_eq!(user.answer(&ping(70_000)), Answer::Document(0));
    }
    // A user who logs out is a stranger.
    users[3].run(on_admin(doc! { "logout": 1 }));
    ada(&fixture);
    assert_eq!(users[3].answer(&ping(1)), Answer::Closed);
}

/// Clients that held all connections of the server kept the user of its machine out, too.
#[cfg(unix)]
#[test]
fn the_unix_socket_has_connections_of_its_own() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let fixture = Fixture::with(|builder| builder.connections_max(8).unix_socket(&path));
    let mut peers: Vec<Peer> = (0..7).map(|_| fixture.peer()).collect();
    for peer in &mut peers {
        assert_eq!(peer.answer(&ping(1)), Answer::Document(0));
    }
    assert_eq!(fixture.peer().receive(), None);
    let mut local = std::os::unix::net::UnixStream::connect(&path).expect("connected");
    local.set_read_timeout(Some(crate::PATIENCE)).expect("a timeout");
    local.write_all(&ping(1)).expect("sent");
    local.read_exact(&mut [0; 16]).expect("an answer");
}

/// A right password that came while others guessed was rejected with the words for a wrong one.
#[test]
fn who_is_refused_for_the_guesses_of_others_is_told_when_to_come() {
    let fixture = guarded(|builder| builder.failed_login_pause(Duration::from_millis(20)));
    let guess =
        |password: &str| log_in(&mut fixture.peer(), "ada", password).map_err(|reply| reply.to_string());
    for _ in 0..9 {
        assert!(guess("paper").is_err());
    }
    std::thread::scope(|scope| {
        // From now on a second is between two, and the wait is at most that long.
        let guesses: Vec<_> = (0..4).map(|_| scope.spawn(|| guess("paper"))).collect();
        let refusals: Vec<String> =
            guesses.into_iter().map(|guess| guess.join().expect("it ended").expect_err("refused")).collect();
        let told = refusals.iter().find(|refusal| refusal.contains("try again in 1 second"));
        let told = told.unwrap_or_else(|| panic!("{refusals:?}"));
        assert!(told.contains("\"code\": 18"), "{told}");
        assert!(refusals.iter().any(|refusal| !refusal.contains("try again")), "{refusals:?}");
    });
    // A connection on which nothing was checked stays open, however often it is rejected.
    let mut patient = fixture.peer();
    let begin = Instant::now();
    while let Err(refused) = log_in(&mut patient, "ada", "pencil") {
        assert!(refused.to_string().contains("try again in"), "{refused}");
        assert!(begin.elapsed() < crate::PATIENCE);
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// After a few failures guesses wait for each other, also on different connections.
#[test]
fn guessing_becomes_slow() {
    let fixture = guarded(|builder| builder.failed_login_pause(Duration::from_millis(10)));
    let start = Instant::now();
    let guess = |password: String| {
        log_in(&mut fixture.peer(), "ada", &password).map_err(|reply| reply.get_i32("code").ok())
    };
    std::thread::scope(|scope| {
        let guesses: Vec<_> = (0..10).map(|number| scope.spawn(move || guess(number.to_string()))).collect();
        for guess in guesses {
            assert_eq!(guess.join().expect("it ended"), Err(Some(18)));
        }
    });
    for number in 10..14 {
        assert_eq!(guess(number.to_string()), Err(Some(18)));
    }
    // The time between the last of them alone.
    assert!(start.elapsed() >= Duration::from_secs(1), "14 guesses took {:?}", start.elapsed());
    assert_eq!(guess("pencil".to_owned()), Ok(()));
}

#[test]
fn sections_are_few_and_have_different_names() {
    use cairndb_server::frame::message::DocumentSequence;
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let mut refused = |names: Vec<String>, code: i32| {
        let sequences =
            names.into_iter().map(|field| DocumentSequence { field, documents: Vec::new().into() });
        let insert = message(doc! { "insert": "a", "$db": "shop" });
        let asked = cairndb_server::frame::message::Message { sequences: sequences.collect(), ..insert };
        let reply = peer.run_message(&asked);
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
    };
    refused(vec!["documents".to_owned(); 2], 40_431);
    refused((0..17).map(|number| number.to_string()).collect(), 9);
}

#[test]
fn a_batch_of_documents_is_counted_before_it_is_kept() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let empty: Vec<Document> = vec![doc! {}; 100_001];
    for command in ["insert", "update", "delete"] {
        let field = match command {
            "insert" => "documents",
            "update" => "updates",
            _ => "deletes",
        };
        let reply = peer.run_with(doc! { command: "a", "$db": "shop" }, field, &empty);
        assert_eq!(reply.get_i32("code").ok(), Some(16), "{reply}");
    }
    let inside = bson!(empty);
    assert_eq!(
        peer.run(doc! { "insert": "a", "documents": inside, "$db": "shop" }).get_i32("code").ok(),
        Some(16)
    );
}
