//! Text to `ObjectId` and back: no text panics, accepted text round trips, and order is the order of bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sequence::object_id::{OBJECT_ID_BYTES, ObjectId};

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    match ObjectId::parse(&text) {
        Ok(id) => assert_eq!(id.to_string(), text.to_ascii_lowercase()),
        Err(error) => assert!(error.to_string().len() < 1_000),
    }
    let mut ids = input.chunks_exact(OBJECT_ID_BYTES).filter_map(|chunk| chunk.try_into().ok());
    if let (Some(left), Some(right)) = (ids.next(), ids.next()) {
        let [a, b] = [left, right].map(ObjectId::from_bytes);
        assert_eq!(a.cmp(&b), left.cmp(&right));
        assert_eq!(a.to_string().cmp(&b.to_string()), left.cmp(&right));
        assert_eq!(ObjectId::parse(&a.to_string()).as_ref(), Ok(&a));
    }
});
