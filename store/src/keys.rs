//! The layout of keys in every family. These bytes are on users' disks: they never change within a format
//! version. Integers are unsigned big-endian, so that byte order is numeric order.
//!
//! | family | key | value |
//! |---|---|---|
//! | `meta` | `f` | format version, 4 bytes |
//! | `meta` | `n` | next collection or index id, 4 bytes |
//! | `meta` | `c` + collection id | catalog entry, BSON |
//! | `meta` | `p` + index id | empty: the index is being built, its entries are not used |
//! | `meta` | `s` | sequence number of the last clean close, 8 bytes |
//! | `meta` | `k` + collection id | documents at the last clean close, 8 bytes |
//! | `meta` | `i` | next sequence id, 8 bytes |
//! | `meta` | `d` + sequence id | a sequence's definition, BSON |
//! | `meta` | `h` + sequence id | its mark, 45 bytes: `catalog::sequence_entry` |
//! | `meta` | `g` + sequence id + number of the gap, 8 bytes | an entry of its ledger, 33 bytes |
//! | `records` | collection id + encoded `_id` | the document |
//! | `entries` | index id + encoded fields | unique: encoded `_id`, type bytes, details |
//! | `entries` | index id + encoded fields + encoded `_id` | plain: type bytes, details |
//! | `entries` | order id + `00` | where a capped collection stands, 32 bytes: `catalog::capped` |
//! | `entries` | order id + `01` + position, 8 bytes | encoded `_id` |
//! | `entries` | order id + `02` + encoded `_id` | position, 8 bytes |
//! | `meta` | `u` | the id of the log of changes, 8 bytes |
//! | `meta` | `w` | a position that none in the log is above, 8 bytes |
//! | `meta` | `l` | the position, 8 bytes, and the ordinal, 4 bytes, of the last change that was forgotten |
//! | `meta` | `v` + name | since which position changes under this name are logged, 8 bytes |
//! | `changes` | position, 8 bytes + ordinal, 4 bytes | an event: `changes::event` |

use std::fmt;

use bytes::Buf;

/// The key of the format version.
pub const META_FORMAT: &[u8] = b"f";
/// The key of the next free id.
pub const META_NEXT_ID: &[u8] = b"n";
/// The key of the sequence number of the last clean close.
pub const META_CLEAN_CLOSE: &[u8] = b"s";
/// First byte of a catalog entry's key.
pub const META_COLLECTION: u8 = b'c';
/// First byte of the key that marks an index as not complete.
pub const META_BUILDING: u8 = b'p';
/// First byte of the key of a document count.
pub const META_COUNT: u8 = b'k';

/// The key of the next free sequence id.
pub const META_NEXT_SEQUENCE: &[u8] = b"i";
/// First byte of the key of a sequence's definition.
pub const META_SEQUENCE: u8 = b'd';
/// First byte of the key of a sequence's mark.
pub const META_MARK: u8 = b'h';
/// First byte of the key of a gap in a sequence.
pub const META_GAP: u8 = b'g';

/// First byte of the key of a generation of tokens.
pub const META_TOKENS: u8 = b't';

/// The key of the id of the log of changes.
pub const META_LOG: &[u8] = b"u";
/// The key of the position that none in the log of changes is above.
pub const META_LOG_MARK: &[u8] = b"w";
/// The key of how far the log of changes was forgotten.
pub const META_LOG_LOW: &[u8] = b"l";
/// First byte of the key of a name under which changes are logged.
pub const META_LOGGED: u8 = b'v';

/// After the id of an order: where the collection stands.
const ORDER_STATE: u8 = 0;
/// After the id of an order: the document at a position.
const ORDER_POSITION: u8 = 1;
/// After the id of an order: the position of a document.
const ORDER_DOCUMENT: u8 = 2;

/// Length of an id in a key.
pub const ID_BYTES: usize = 4;

/// A collection's number: the prefix of its records. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId(pub u32);

/// An index's number: the prefix of its entries. Never used twice. It comes from the same counter as the numbers of
/// collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexId(pub u32);

/// A sequence's number. Never used twice. Eight bytes, because every auto-increment field uses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// The number of a capped collection's insertion order: the prefix of its keys among the entries. Never used twice. It comes
/// from the same counter as the numbers of collections and indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId(pub u32);

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for IndexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl CollectionId {
    /// The prefix of all record keys of the collection.
    #[inline]
    pub fn prefix(self) -> [u8; ID_BYTES] {
        self.0.to_be_bytes()
    }

    /// The end (excluded) of all record keys of the collection.
    pub fn end(self) -> Vec<u8> {
        prefix_end(self.0)
    }

    /// The key of the catalog entry.
    #[inline]
    pub fn catalog_key(self) -> [u8; 1 + ID_BYTES] {
        tagged(META_COLLECTION, self.0)
    }

    /// The collection's UUID, which MongoDB's clients see, in the store with this identity. It stays when the
    /// collection is renamed. It is a hash by FNV-1a in the form of a random UUID.
    pub fn uuid(self, identity: &[u8]) -> [u8; 16] {
        const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let id = self.0.to_be_bytes();
        // The id comes twice, so that its last byte reaches all bits.
        let bytes = id.iter().chain(identity).chain(&id);
        let hash = bytes.fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
        // The version (4) and the variant have fixed bits in a random UUID.
        let random = hash & !(0xf << 76) & !(0x3 << 62);
        (random | 0x4 << 76 | 0x2 << 62).to_be_bytes()
    }

    /// The key of the number of documents.
    #[inline]
    pub fn count_key(self) -> [u8; 1 + ID_BYTES] {
        tagged(META_COUNT, self.0)
    }
}

impl IndexId {
    /// The prefix of all entry keys of the index.
    #[inline]
    pub fn prefix(self) -> [u8; ID_BYTES] {
        self.0.to_be_bytes()
    }

    /// The end (excluded) of all entry keys of the index.
    pub fn end(self) -> Vec<u8> {
        prefix_end(self.0)
    }

    /// The key that marks the index as one that is being built.
    pub fn building_key(self) -> [u8; 1 + ID_BYTES] {
        tagged(META_BUILDING, self.0)
    }
}

impl OrderId {
    /// The prefix of all keys of the order.
    #[inline]
    pub fn prefix(self) -> [u8; ID_BYTES] {
        self.0.to_be_bytes()
    }

    /// The end (excluded) of all keys of the order.
    pub fn end(self) -> Vec<u8> {
        prefix_end(self.0)
    }

    /// The key that marks the order as not complete.
    pub fn building_key(self) -> [u8; 1 + ID_BYTES] {
        tagged(META_BUILDING, self.0)
    }

    /// The key of where the collection stands.
    pub fn state_key(self) -> Vec<u8> {
        self.key(ORDER_STATE, &[])
    }

    /// The key of a position, whose value is the encoded `_id`.
    #[inline]
    pub fn position_key(self, position: u64) -> Vec<u8> {
        self.key(ORDER_POSITION, &position.to_be_bytes())
    }

    /// The key of a document, whose value is its position.
    #[inline]
    pub fn document_key(self, encoded_id: &[u8]) -> Vec<u8> {
        self.key(ORDER_DOCUMENT, encoded_id)
    }

    /// The keys of the positions from `first` on: the first key, and the end.
    pub fn positions_from(self, first: u64) -> (Vec<u8>, Vec<u8>) {
        (self.position_key(first), self.key(ORDER_DOCUMENT, &[]))
    }

    fn key(self, tag: u8, rest: &[u8]) -> Vec<u8> {
        [&self.prefix()[..], &[tag], rest].concat()
    }
}

/// The position in the key of one.
#[inline]
pub fn position_of(key: &[u8]) -> Option<u64> {
    let rest = key.get(ID_BYTES..)?.strip_prefix(&[ORDER_POSITION])?;
    rest.try_into().ok().map(u64::from_be_bytes)
}

impl SequenceId {
    /// The key of the definition.
    pub fn definition_key(self) -> [u8; 9] {
        self.tagged(META_SEQUENCE)
    }

    /// The key of how far the sequence is.
    #[inline]
    pub fn mark_key(self) -> [u8; 9] {
        self.tagged(META_MARK)
    }

    /// The key of a gap.
    pub fn gap_key(self, number: u64) -> Vec<u8> {
        [&self.tagged(META_GAP)[..], &number.to_be_bytes()].concat()
    }

    /// The first key (included) and the end (excluded) of the keys of all gaps.
    pub fn gap_bounds(self) -> (Vec<u8>, Vec<u8>) {
        // After the highest id the next tag is the end.
        let end =
            self.0.checked_add(1).map_or(vec![META_GAP + 1], |next| Self(next).tagged(META_GAP).to_vec());
        (self.tagged(META_GAP).to_vec(), end)
    }

    fn tagged(self, tag: u8) -> [u8; 9] {
        let mut key = [tag; 9];
        if let Some(id) = key.last_chunk_mut() {
            *id = self.0.to_be_bytes();
        }
        key
    }
}

/// The key of an event: its position in the log of changes, and its number in the commit.
pub fn event_key(position: u64, ordinal: u32) -> [u8; 12] {
    let mut key = [0; 12];
    let bytes = position.to_be_bytes().into_iter().chain(ordinal.to_be_bytes());
    key.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    key
}

/// The position and the ordinal in the key of an event. Returns `None` if the key has another length.
pub fn split_event_key(key: &[u8]) -> Option<(u64, u32)> {
    let mut rest = key;
    let parts = (rest.try_get_u64().ok()?, rest.try_get_u32().ok()?);
    rest.is_empty().then_some(parts)
}

/// The sequence id after the one-byte tag of a `meta` key, and the rest of the key. Returns `None` if the key is too
/// short.
pub fn split_sequence(key: &[u8]) -> Option<(SequenceId, &[u8])> {
    let (_, mut rest) = key.split_first()?;
    let id = rest.try_get_u64().ok()?;
    Some((SequenceId(id), rest))
}

/// The id after the one-byte tag of a `meta` key. Returns `None` if the key has another length.
#[inline]
pub fn tagged_id(key: &[u8]) -> Option<u32> {
    let (_, mut id) = key.split_first()?;
    id.try_get_u32().ok().filter(|_| id.is_empty())
}

/// The id at the beginning of a key in `records` or `entries`, and the rest of the key. Returns `None` if the key is
/// too short.
#[inline]
pub fn split_id(key: &[u8]) -> Option<(u32, &[u8])> {
    let mut rest = key;
    let id = rest.try_get_u32().ok()?;
    Some((id, rest))
}

fn tagged(tag: u8, id: u32) -> [u8; 1 + ID_BYTES] {
    let [a, b, c, d] = id.to_be_bytes();
    [tag, a, b, c, d]
}

/// The end (excluded) of all keys with the prefix `id`.
fn prefix_end(id: u32) -> Vec<u8> {
    // No prefix follows the highest id, so a longer key is the end.
    id.checked_add(1).map_or_else(|| vec![0xff; ID_BYTES + 1], |next| next.to_be_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_numbers_and_come_back() {
        assert!(CollectionId(255).prefix() < CollectionId(256).prefix());
        assert_eq!(tagged_id(&CollectionId(7).catalog_key()), Some(7));
        assert_eq!(split_id(&[0, 0, 1, 0, 9]), Some((256, &[9u8][..])));
        assert_eq!(tagged_id(b"c123"), None);
        assert_eq!(split_id(b"c12"), None);
    }

    #[test]
    fn keys_of_events_sort_by_position_and_ordinal() {
        let parts = [(0, 0), (0, 7), (1, 0), (255, 1), (256, 0), (u64::MAX, u32::MAX)];
        let keys = parts.map(|(position, ordinal)| event_key(position, ordinal));
        assert!(keys.is_sorted());
        assert_eq!(keys.map(|key| split_event_key(&key)), parts.map(Some));
        assert_eq!((split_event_key(b"short"), split_event_key(&[0; 13])), (None, None));
    }

    #[test]
    fn the_end_of_a_prefix_is_after_every_key_with_it() {
        for id in [0, 1, 255, u32::MAX - 1, u32::MAX] {
            let mut key = CollectionId(id).prefix().to_vec();
            assert!(key < CollectionId(id).end());
            key.extend([0x7f; 64]);
            assert!(key < CollectionId(id).end());
        }
    }
}
