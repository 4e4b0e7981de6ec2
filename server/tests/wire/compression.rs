//! Compressed messages: agreed on in a hello, answered with the same compressor, and bounded.

use cairndb::bson::doc;
use cairndb_server::frame::compressed::{Compressed, Compressor, pack};
use cairndb_server::frame::message::Message;

use crate::Fixture;
use crate::peer::{Answer, Peer, decode, message};

/// A peer that has agreed on this compressor.
fn agreed(fixture: &Fixture, compressor: Compressor) -> Peer {
    let mut peer = fixture.peer();
    let names = vec!["bogus", compressor.name()];
    let reply = peer.run(doc! { "hello": 1, "compression": names, "$db": "admin" });
    let found = reply.get_array("compression").expect("an agreement");
    assert_eq!(found.as_slice(), [compressor.name().into()]);
    peer
}

#[test]
fn compressed_commands_get_compressed_answers() {
    let fixture = Fixture::new();
    for compressor in Compressor::ALL {
        let mut peer = agreed(&fixture, compressor);
        let text = "x".repeat(200_000);
        let insert =
            doc! { "insert": compressor.name(), "documents": [{ "_id": 1, "text": &text }], "$db": "shop" };
        for command in [insert, doc! { "find": compressor.name(), "$db": "shop" }] {
            assert!(peer.send(&pack(&message(command).bytes(5, 0), compressor).expect("packed")));
            let (header, bytes) = peer.receive().expect("an answer");
            assert_eq!(header.response_to, 5);
            let compressed = Compressed::parse(&bytes, &[compressor]).expect("compressed alike");
            let unpacked = compressed.unpack(header.request_id, header.response_to).expect("unpacked");
            let reply = decode(&Message::parse(&unpacked).expect("an answer").body);
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        }
    }
}

#[test]
fn bombs_and_liars_close_the_connection() {
    let fixture = Fixture::new();
    for compressor in Compressor::ALL {
        let zeros = Message { body: vec![0; 40_000_000].into(), ..message(doc! {}) }.bytes(1, 0);
        let mut bomb = pack(&zeros, compressor).expect("packed");
        for announced in [-1, 0, 100, i32::MAX] {
            bomb[20..24].copy_from_slice(&i32::to_le_bytes(announced));
            assert_eq!(
                agreed(&fixture, compressor).answer(&bomb),
                Answer::Closed,
                "{compressor:?} {announced}"
            );
        }
    }
    // Compressors that both sides did not agree on.
    let ping = message(doc! { "ping": 1, "$db": "admin" }).bytes(1, 0);
    let packed = pack(&ping, Compressor::Zlib).expect("packed");
    assert_eq!(agreed(&fixture, Compressor::Zstd).answer(&packed), Answer::Closed);
    let mut garbled = pack(&ping, Compressor::Zstd).expect("packed");
    garbled[27] ^= 0xff;
    assert_eq!(agreed(&fixture, Compressor::Zstd).answer(&garbled), Answer::Closed);
}
