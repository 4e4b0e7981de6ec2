//! Whatever bytes come as a message: decoding neither panics nor takes memory out of proportion, and a message that is
//! read comes back as it was.

#![no_main]

use cairndb_server::frame::checksum;
use cairndb_server::frame::compressed::{Compressed, Compressor, pack};
use cairndb_server::frame::header::{HEADER_BYTES, Header};
use cairndb_server::frame::message::{CHECKSUM_PRESENT, Message};
use cairndb_server::frame::query::Query;
use libfuzzer_sys::fuzz_target;

/// The limit of a decompressed message, so that the fuzzer looks at many.
const ANNOUNCED_MAX: i32 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    if let Some(Ok(header)) = rest.first_chunk().map(Header::parse) {
        assert_eq!(Header::parse(&header.bytes()), Ok(header));
    }
    let message = [&[0; HEADER_BYTES], rest].concat();
    match kind % 3 {
        0 => read_message(message),
        1 => {
            if let Ok(query) = Query::parse(&message.into()) {
                assert!(query.document.len() >= 5);
            }
        }
        _ => unpack(message),
    }
});

/// With a checksum that fits if the flags ask for one: no input guesses it.
fn read_message(mut message: Vec<u8>) {
    if message.get(HEADER_BYTES).is_some_and(|flags| u32::from(*flags) & CHECKSUM_PRESENT != 0) {
        let checksum = checksum::of(&message);
        message.extend_from_slice(&checksum);
    }
    if let Ok(read) = Message::parse(&message.into()) {
        assert_eq!(Message::parse(&read.bytes(1, 2).into()), Ok(read));
    }
}

fn unpack(message: Vec<u8>) {
    let Ok(compressed) = Compressed::parse(&message.into(), &Compressor::ALL) else { return };
    if compressed.announced > ANNOUNCED_MAX {
        return;
    }
    let Ok(unpacked) = compressed.unpack(1, 2) else { return };
    let packed = pack(&unpacked, compressed.compressor).expect("packed");
    let again = Compressed::parse(&packed.into(), &Compressor::ALL).expect("what was packed is read");
    assert_eq!(again.unpack(1, 2), Ok(unpacked));
}
