//! The `_id` of a record that brings none, made from the record's number: the record has it whenever it is read.

use cairndb::bson::RawDocument;
use cairndb::bson::oid::ObjectId;

/// The element of an `_id`: its type, its name, and twelve bytes.
const HEADER: &[u8; 5] = b"\x07_id\0";
const COUNTER_BITS: u32 = 24;

/// Nine bytes, chosen once for an import: four of the time and five that no other process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    seconds: u32,
    process: [u8; 5],
}

impl Identity {
    /// Chooses nine bytes.
    pub(super) fn choose() -> [u8; 9] {
        ObjectId::new().bytes().first_chunk().copied().unwrap_or_default()
    }

    pub(super) fn of_bytes(bytes: [u8; 9]) -> Self {
        let [a, b, c, d, process @ ..] = bytes;
        Self { seconds: u32::from_be_bytes([a, b, c, d]), process }
    }

    /// An id that no record has, as their numbers begin with 1.
    pub(super) fn first(&self) -> ObjectId {
        ObjectId::from_bytes(self.id(0))
    }

    /// The `_id` of record `number`. Of later records it is greater: what the counter cannot hold is carried into the
    /// seconds.
    pub(super) fn id(&self, number: u64) -> [u8; 12] {
        let carried = u32::try_from(number >> COUNTER_BITS).unwrap_or(u32::MAX);
        let seconds = self.seconds.wrapping_add(carried).to_be_bytes();
        let [.., high, middle, low] = number.to_be_bytes();
        let mut id = [0; 12];
        let parts = seconds.into_iter().chain(self.process).chain([high, middle, low]);
        for (byte, part) in id.iter_mut().zip(parts) {
            *byte = part;
        }
        id
    }

    /// Gives the document that begins at `start` an `_id`, as its first field, if it has none.
    pub(super) fn complete(&self, documents: &mut Vec<u8>, start: usize, number: u64) {
        let has_id = documents
            .get(start..)
            .and_then(|bytes| RawDocument::from_bytes(bytes).ok())
            .is_none_or(|document| document.iter().flatten().any(|(name, _)| name.as_str() == "_id"));
        if has_id {
            return;
        }
        let element = HEADER.iter().copied().chain(self.id(number));
        documents.splice(start + size_of::<i32>()..start + size_of::<i32>(), element);
        let len = i32::try_from(documents.len() - start).unwrap_or(i32::MAX);
        if let Some(room) = documents.get_mut(start..start + size_of::<i32>()) {
            room.copy_from_slice(&len.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{RawDocumentBuf, rawdoc};

    use super::*;

    const BYTES: [u8; 9] = [0, 0, 0, 1, 5, 6, 7, 8, 9];

    #[test]
    fn ids_ascend_and_carry_into_the_seconds() {
        let identity = Identity::of_bytes(BYTES);
        assert_eq!(identity.id(1), [0, 0, 0, 1, 5, 6, 7, 8, 9, 0, 0, 1]);
        assert_eq!(identity.id((1 << 24) + 2), [0, 0, 0, 2, 5, 6, 7, 8, 9, 0, 0, 2]);
        let ids: Vec<_> =
            [1, 255, 256, (1 << 24) - 1, 1 << 24, 1 << 30].map(|number| identity.id(number)).into();
        assert!(ids.is_sorted());
    }

    #[test]
    fn only_a_document_without_an_id_gets_one() {
        let identity = Identity::of_bytes(BYTES);
        let complete = |document: RawDocumentBuf| {
            let mut documents = vec![7; 3];
            documents.extend_from_slice(document.as_bytes());
            identity.complete(&mut documents, 3, 1);
            RawDocumentBuf::from_bytes(documents.split_off(3)).unwrap()
        };
        let id = ObjectId::from_bytes(identity.id(1));
        assert_eq!(complete(rawdoc! { "a": 1 }), rawdoc! { "_id": id, "a": 1 });
        assert_eq!(complete(rawdoc! { "a": 1, "_id": 2 }), rawdoc! { "a": 1, "_id": 2 });
    }
}
