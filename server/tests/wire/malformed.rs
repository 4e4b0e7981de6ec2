//! Bytes that no driver sends: they get an error or a closed connection, and other clients are not affected.

use std::time::{Duration, Instant};

use cairndb::bson::{Uuid, bson, doc};
use cairndb_server::frame::header::{HEADER_BYTES, Header, OP_MSG};
use cairndb_server::frame::message::{CHECKSUM_PRESENT, MORE_TO_COME, Message};

use crate::peer::{Answer, encode, message};
use crate::{Fixture, PATIENCE};

fn ping() -> Vec<u8> {
    message(doc! { "ping": 1, "$db": "admin" }).bytes(1, 0)
}

fn header(length: i32, opcode: i32) -> Vec<u8> {
    [length, 1, 0, opcode].iter().flat_map(|field| field.to_le_bytes()).collect()
}

/// A whole message with the given bytes after its flags.
fn around(sections: &[u8]) -> Vec<u8> {
    let length = HEADER_BYTES + 4 + sections.len();
    let header = Header { length, request_id: 1, response_to: 0, opcode: OP_MSG };
    [&header.bytes()[..], &[0; 4], sections].concat()
}

/// The bytes, and then no more, get this answer; another client is served before and after.
#[track_caller]
fn check(fixture: &Fixture, bytes: &[u8], expected: &Answer) {
    let mut neighbor = fixture.peer();
    assert_eq!(neighbor.answer(&ping()), Answer::Document(0));
    let mut peer = fixture.peer();
    peer.send(bytes);
    peer.shut_down_writing();
    assert_eq!(&peer.answer(&[]), expected);
    assert_eq!(neighbor.answer(&ping()), Answer::Document(0));
}

#[test]
fn lengths_that_no_message_has_close_the_connection() {
    let fixture = Fixture::new();
    for length in [0, 1, 15, -1, i32::MIN, i32::MAX, 48_000_001] {
        check(&fixture, &header(length, 2013), &Answer::Closed);
    }
}

#[test]
fn legacy_and_unknown_opcodes_close_the_connection() {
    let fixture = Fixture::new();
    for opcode in [0, 1, 1000, 2001, 2002, 2005, 2006, 2007, 2010, 2011, 2014, -1, i32::MAX] {
        check(&fixture, &[header(20, opcode), vec![0; 4]].concat(), &Answer::Closed);
    }
    // No compressor was agreed on.
    check(&fixture, &[header(26, 2012), vec![0; 10]].concat(), &Answer::Closed);
}

#[test]
fn every_truncation_closes_the_connection() {
    let fixture = Fixture::new();
    let whole = ping();
    for length in 1..whole.len() {
        let mut peer = fixture.peer();
        peer.send(&whole[..length]);
        peer.shut_down_writing();
        assert_eq!(peer.answer(&[]), Answer::Closed, "{length}");
    }
    check(&fixture, &whole, &Answer::Document(0));
}

#[test]
fn a_wrong_checksum_and_unknown_flags_close_the_connection() {
    let fixture = Fixture::new();
    let mut message = message(doc! { "ping": 1, "$db": "admin" });
    message.flags = CHECKSUM_PRESENT;
    let mut bytes = message.bytes(1, 0);
    check(&fixture, &bytes, &Answer::Document(0));
    *bytes.last_mut().unwrap() ^= 1;
    check(&fixture, &bytes, &Answer::Closed);
    for flags in [4, 1 << 15] {
        message.flags = flags;
        check(&fixture, &message.bytes(1, 0), &Answer::Closed);
    }
    message.flags = 1 << 16 | 1 << 30;
    check(&fixture, &message.bytes(1, 0), &Answer::Document(0));
}

#[test]
fn sections_with_wrong_lengths_are_refused() {
    let fixture = Fixture::new();
    let body = encode(&doc! { "insert": "a", "$db": "shop" });
    let with_body = |rest: &[u8]| around(&[&[0], &body[..], rest].concat());
    check(&fixture, &around(&[]), &Answer::Document(40_587));
    check(&fixture, &around(&[9]), &Answer::Document(40_432));
    check(&fixture, &with_body(&[&[0], &body[..]].concat()), &Answer::Document(40_430));
    for size in [-1, 0, 3, 100, i32::MAX] {
        check(&fixture, &with_body(&[&[1], &i32::to_le_bytes(size)[..]].concat()), &Answer::Document(22));
    }
    // A name without an end, and documents that end before they say.
    check(&fixture, &with_body(&[1, 5, 0, 0, 0, b'd']), &Answer::Document(22));
    let torn = [&[1, 18, 0, 0, 0][..], b"documents\0", &[9, 0, 0, 0]].concat();
    check(&fixture, &with_body(&torn), &Answer::Document(22));
    for length in [-1, 0, 4, 4000, i32::MAX] {
        let mut body = body.clone();
        body[..4].copy_from_slice(&i32::to_le_bytes(length));
        check(&fixture, &around(&[&[0], &body[..]].concat()), &Answer::Document(22));
    }
}

#[test]
fn documents_that_are_no_commands_are_refused() {
    let fixture = Fixture::new();
    let refused = |command, code| {
        check(&fixture, &message(command).bytes(1, 0), &Answer::Document(code));
    };
    refused(doc! {}, 9);
    refused(doc! { "ping": 1 }, 40_571);
    refused(doc! { "ping": 1, "$db": 5 }, 14);
    refused(doc! { "bogus": 1, "$db": "shop" }, 59);
    refused(doc! { "ping": 1, "bogus": 1, "$db": "shop" }, 40_415);
    refused(doc! { "find": "a", "bogus": 1, "$db": "shop" }, 40_415);
    refused(doc! { "find": "a", "$db": "sh op" }, 73);
    refused(doc! { "ping": 1, "lsid": { "id": 5 }, "$db": "shop" }, 2);
    refused(doc! { "ping": 1, "apiVersion": "2", "$db": "shop" }, 322);
    refused(doc! { "insert": "a", "documents": [], "$db": "shop" }, 16);
}

/// A document of so many levels, written by hand: a tree of that depth could not be built without recursion.
fn deep(levels: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * levels + 5);
    for level in (1..=levels).rev() {
        bytes.extend(i32::try_from(8 * level + 5).expect("a length").to_le_bytes());
        bytes.extend(b"\x03a\0");
    }
    bytes.extend([5, 0, 0, 0, 0]);
    bytes.extend(vec![0; levels]);
    bytes
}

/// A message whose command has these elements, each given as its type, name and value.
fn of_elements(elements: &[(u8, &str, &[u8])]) -> Vec<u8> {
    let mut fields = Vec::new();
    for (kind, name, value) in elements {
        fields.push(*kind);
        fields.extend_from_slice(name.as_bytes());
        fields.push(0);
        fields.extend_from_slice(value);
    }
    // The length counts itself and the zero byte at the end. The byte in front says that this section is the body.
    let length = i32::try_from(fields.len() + 5).expect("a length");
    around(&[&[0], &length.to_le_bytes()[..], &fields, &[0]].concat())
}

const ADMIN: (u8, &str, &[u8]) = (2, "$db", b"\x06\0\0\0admin\0");
const ONE: &[u8] = &[1, 0, 0, 0];

#[test]
fn deep_documents_are_refused() {
    let fixture = Fixture::new();
    let deep = deep(5_000);
    for (name, field) in [
        ("find", "filter"),
        ("insert", "documents"),
        ("hello", "client"),
        ("ping", "lsid"),
        ("currentOp", "command"),
    ] {
        let mut peer = fixture.peer();
        let target = &b"\x02\0\0\0a\0"[..];
        let answer = peer.answer(&of_elements(&[(2, name, target), (3, field, &deep), ADMIN]));
        assert!(matches!(answer, Answer::Document(code) if code != 0), "{name}: {answer:?}");
        assert_eq!(peer.answer(&ping()), Answer::Document(0));
    }
}

/// A message of a few hundred kilobytes that was decoded unseen ended the process.
#[test]
fn no_command_follows_deep_documents() {
    let fixture = Fixture::new();
    let deep = deep(50_000);
    let mut peer = fixture.peer();
    let listed = peer.run(doc! { "listCommands": 1, "$db": "admin" });
    let commands = listed.get_document("commands").expect("the commands");
    // Each field that some command reads as a document, and one that is none of any.
    let fields = [
        "pipeline",
        "filter",
        "query",
        "cursor",
        "documents",
        "update",
        "key",
        "indexes",
        "writeConcern",
        "lsid",
        "let",
        "hint",
        "collation",
        "client",
        "speculativeAuthenticate",
        "topologyVersion",
        "mode",
        "data",
        "sessions",
        "unknown",
    ];
    for command in commands.keys() {
        for kind in [3, 4] {
            // Answered at all: an answer that never comes fails by the time limit of the peer.
            peer.answer(&of_elements(&[(kind, command, &deep), ADMIN]));
        }
        for field in fields {
            peer.answer(&of_elements(&[(16, command, ONE), (3, field, &deep), ADMIN]));
        }
        peer = fixture.peer();
    }
    assert_eq!(peer.answer(&ping()), Answer::Document(0));
}

/// An answer may be no longer than what its client accepts, and control characters are six times as long as JSON.
#[test]
fn errors_repeat_the_beginning_of_long_texts() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let long = "\u{1}".repeat(1 << 20);
    let long = long.as_str();
    for command in [
        doc! { "hello": 1, "saslSupportedMechs": long, "$db": "admin" },
        doc! { "ping": 1, "apiVersion": long, "$db": "admin" },
        doc! { "setAcquirer": long, "$db": "admin" },
        doc! { "find": long, "$db": "shop" },
        doc! { "ping": 1, "$db": long },
        doc! { "find": "a", "$db": long },
        doc! { long: 1, "$db": "shop" },
        doc! { "ping": 1, long: 1, "$db": "shop" },
        doc! { "find": "a", "filter": { "a": { (format!("${long}")): 1 } }, "$db": "shop" },
        doc! { "aggregate": "a", "pipeline": [{ (format!("${long}")): 1 }], "cursor": {}, "$db": "shop" },
    ] {
        let reply = peer.run(command);
        let bytes = encode(&reply).len();
        assert!(bytes < 20_000, "an answer of {bytes} bytes, code {:?}", reply.get("code"));
    }
}

/// The conditions of `currentOp` are decoded within the memory of an operation, as the values of other commands are.
#[test]
fn conditions_that_take_much_memory_are_refused() {
    let fixture = Fixture::new();
    // Nulls with empty names: two bytes of a message each.
    let nulls = b"\x0a\0".repeat(6 << 20);
    let length = i32::try_from(nulls.len() + 5).unwrap();
    let array = [&length.to_le_bytes()[..], &nulls, &[0]].concat();
    check(&fixture, &of_elements(&[(16, "currentOp", ONE), (4, "x", &array), ADMIN]), &Answer::Document(146));
}

#[test]
fn a_command_names_a_bounded_number_of_sessions() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let sessions = |count: u32| {
        let id = |number: u32| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            doc! { "id": Uuid::from_bytes(bytes) }
        };
        (0..count).map(id).collect::<Vec<_>>()
    };
    for command in ["refreshSessions", "endSessions", "killSessions"] {
        let refused = peer.run(doc! { command: sessions(10_001), "$db": "admin" });
        assert_eq!(refused.get_i32("code").ok(), Some(2), "{command}");
        let accepted = peer.run(doc! { command: sessions(10_000), "$db": "admin" });
        assert_eq!(accepted.get_f64("ok").ok(), Some(1.0), "{command}: {accepted}");
    }
    let pipeline = vec![doc! { "$listLocalSessions": {} }, doc! { "$count": "sessions" }];
    peer.run(doc! { "refreshSessions": sessions(3), "$db": "admin" });
    let counted = peer.run(doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {}, "$db": "admin" });
    let batch =
        counted.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    assert_eq!(*batch, vec![bson!({ "sessions": 3 })]);
}

/// A message has room for millions of entries, and each was copied before any was looked at.
#[test]
fn a_command_has_a_bounded_number_of_entries_in_its_arrays() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let commands = |entries: i64| {
        let names = || (0..entries).map(|number| number.to_string()).collect::<Vec<_>>();
        let users = (0..entries).map(|number| doc! { "user": number.to_string(), "db": "admin" });
        let sessions = doc! { "users": users.collect::<Vec<_>>() };
        [
            doc! { "killCursors": "things", "cursors": (0..entries).collect::<Vec<_>>(), "$db": "admin" },
            doc! { "usersInfo": names(), "$db": "admin" },
            doc! {
                "aggregate": 1, "pipeline": [{ "$listLocalSessions": sessions }], "cursor": {}, "$db": "admin",
            },
            doc! { "hello": 1, "compression": names(), "$db": "admin" },
        ]
    };
    for (refused, accepted) in commands(10_001).into_iter().zip(commands(1_000)) {
        let (refused, accepted) = (peer.run(refused), peer.run(accepted));
        let message = refused.get_str("errmsg").unwrap_or_default();
        assert_eq!(refused.get_i32("code").ok(), Some(2), "{message}");
        assert!(message.contains("entries"), "{message}");
        assert_eq!(accepted.get_f64("ok").ok(), Some(1.0), "{accepted}");
    }
}

/// A reader of the first of the two fields and one of the last would see two commands.
#[test]
fn a_command_that_has_a_field_twice_is_refused() {
    let fixture = Fixture::new();
    let empty = &b"\x05\0\0\0\0"[..];
    let twice: [&[(u8, &str, &[u8])]; 4] = [
        &[(16, "ping", ONE), (16, "ping", ONE), ADMIN],
        &[(16, "ping", ONE), ADMIN, ADMIN],
        &[
            (16, "aggregate", ONE),
            (4, "pipeline", empty),
            (3, "cursor", empty),
            (4, "pipeline", empty),
            ADMIN,
        ],
        &[(16, "currentOp", ONE), (16, "opid", ONE), ADMIN, (16, "opid", ONE)],
    ];
    for elements in twice {
        check(&fixture, &of_elements(elements), &Answer::Document(40_413));
    }
    let names: Vec<String> = (0..998).map(|number| format!("f{number}")).collect();
    let mut many = vec![(16, "currentOp", ONE), ADMIN];
    many.extend(names.iter().map(|name| (16, name.as_str(), ONE)));
    check(&fixture, &of_elements(&many), &Answer::Document(0));
    many.push((16, "one_more", ONE));
    check(&fixture, &of_elements(&many), &Answer::Document(9));
}

#[test]
fn a_client_that_stops_within_a_message_is_disconnected() {
    let fixture = Fixture::with(|builder| builder.message_timeout(Duration::from_millis(100)));
    for length in [1, 16, 30] {
        let mut peer = fixture.peer();
        peer.send(&ping()[..length]);
        assert_eq!(peer.receive(), None, "{length}");
    }
    // A client may be silent between two messages.
    let mut idle = fixture.peer();
    assert_eq!(fixture.peer().answer(&ping()[..20]), Answer::Closed);
    assert_eq!(idle.answer(&ping()), Answer::Document(0));
}

#[test]
fn ten_thousand_small_messages_are_answered_in_order() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    for round in 0..100 {
        let sent: Vec<u8> = (0..100)
            .flat_map(|id| message(doc! { "ping": 1, "$db": "admin" }).bytes(round * 100 + id, 0))
            .collect();
        assert!(peer.send(&sent));
        for id in 0..100 {
            let (header, _) = peer.receive().expect("an answer");
            assert_eq!(header.response_to, round * 100 + id);
        }
    }
}

#[test]
fn announced_lengths_are_not_allocated() {
    // The messages stay as they are while memory is looked at.
    let fixture = Fixture::with(|builder| builder.message_timeout(Duration::from_secs(600)));
    let before = resident_bytes();
    let mut peers: Vec<_> = (0..200).map(|_| fixture.peer()).collect();
    for peer in &mut peers {
        assert!(peer.send(&[header(48_000_000, 2013), vec![0; 1000]].concat()));
    }
    // Those that came first hold their part of what large messages may use; small ones pass.
    assert_eq!(fixture.peer().answer(&ping()), Answer::Document(0));
    // Other tests of this process use memory for a while, too.
    let start = Instant::now();
    loop {
        let grown = resident_bytes().saturating_sub(before);
        if grown < 300 << 20 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "200 half messages took {grown} bytes");
        std::thread::park_timeout(Duration::from_millis(50));
    }
    drop(peers);
}

#[test]
fn writes_that_want_no_answer_get_none() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    for (flags, id) in [(MORE_TO_COME, 1), (0, 2)] {
        let insert =
            doc! { "insert": "a", "documents": [{ "_id": id }], "writeConcern": { "w": 0 }, "$db": "shop" };
        assert!(peer.send(&Message { flags, ..message(insert) }.bytes(id, 0)));
    }
    let (header, _) = peer.receive().expect("the answer to the second");
    assert_eq!(header.response_to, 2);
    assert_eq!(peer.run(doc! { "count": "a", "$db": "shop" }).get_i32("n").ok(), Some(2));
    // Rejections are not sent either.
    assert!(
        peer.send(
            &Message { flags: MORE_TO_COME, ..message(doc! { "bogus": 1, "$db": "shop" }) }.bytes(3, 0)
        )
    );
    assert_eq!(peer.answer(&ping()), Answer::Document(0));
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}
