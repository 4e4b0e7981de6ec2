//! The stored forms of a sequence in family `meta`: its definition, its mark, and the gaps of its ledger.
//!
//! ```text
//! definition: BSON { db, name: string, owner: int64, oid: ObjectId, version: int64, StartValue, MinValue, MaxValue,
//!             Increment, CacheSize, AcquireSize: int64, Cycled: boolean, Contract: string }
//! mark:       current value (8), flags (1), open from (8), cycled count (4), reservations (8), lost (8), next gap (8)
//! gap:        first (8), increment (8), count (8), cause (1), milliseconds since 1970 (8)
//! ```
//! Integers of marks and gaps are big-endian. A mark is written with every reserve, so it is short; the
//! definition only when it changes. Stored bytes may be damaged, so decoding checks everything and names what
//! is wrong.

use base::error::{Error, Result};
use base::names::validate_database;
use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};
use bytes::{Buf, BufMut};
use sequence::attributes::{Attributes, Options};
use sequence::run::Run;
use sequence::state::Mark;
use sequence::store::{Cause, Gap};
use store::Family;
use store::keys::{CollectionId, SequenceId};

use crate::auto_increment::option_value;

const FLAG_INITIAL: u8 = 1;
const FLAG_CLEAN: u8 = 2;
const FLAG_OPEN: u8 = 4;
const MARK_BYTES: usize = 45;
const GAP_BYTES: usize = 33;

/// The identity that distinguishes a sequence from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: SequenceId,
    pub(crate) object_id: ObjectId,
    pub(crate) db: String,
    pub(crate) name: String,
    /// The collection whose auto-increment field it numbers.
    pub(crate) owner: Option<CollectionId>,
}

pub(crate) fn encode_definition(
    identity: &Identity,
    attributes: &Attributes,
    version: i64,
) -> Result<Vec<u8>> {
    let definition = doc! {
        "db": &identity.db,
        "name": &identity.name,
        // 0 is not a collection: their ids start at 1.
        "owner": identity.owner.map_or(0, |owner| i64::from(owner.0)),
        "oid": identity.object_id,
        "version": version,
        "StartValue": attributes.start_value(),
        "MinValue": attributes.min_value(),
        "MaxValue": attributes.max_value(),
        "Increment": attributes.increment(),
        "CacheSize": attributes.cache_size(),
        "AcquireSize": attributes.acquire_size(),
        "Cycled": attributes.is_cycled(),
        "Contract": attributes.contract().name(),
    };
    Ok(definition.to_vec()?)
}

pub(crate) fn decode_definition(id: SequenceId, value: &[u8]) -> Result<(Identity, Attributes, i64)> {
    let damaged = |reason: String| Error::corruption(Family::Meta.name(), &id.definition_key(), reason);
    // Validated first: `Document` would accept bytes that are not well-formed.
    let valid = index::validate::validate(value).map_err(|error| damaged(error.to_string()))?;
    let mut fields = Document::try_from(valid.as_raw()).map_err(|error| damaged(error.to_string()))?;
    let mut take = |name: &str| fields.remove(name).ok_or_else(|| damaged(format!("{name} is missing")));
    let wrong = |name: &str| damaged(format!("{name} has the wrong type or value"));
    let db = text(take("db")?).filter(|db| validate_database(db).is_ok()).ok_or_else(|| wrong("db"))?;
    let name = text(take("name")?).ok_or_else(|| wrong("name"))?;
    let owner =
        take("owner")?.as_i64().and_then(|owner| u32::try_from(owner).ok()).ok_or_else(|| wrong("owner"))?;
    let object_id = take("oid")?.as_object_id().ok_or_else(|| wrong("oid"))?;
    let version =
        take("version")?.as_i64().filter(|version| *version >= 0).ok_or_else(|| wrong("version"))?;
    // The fields that are left are the attributes. They go through the checks of a command, so a damaged
    // value is found.
    let mut options = Options::default();
    for (name, value) in &fields {
        let set = options.set(name, option_value(value), "a stored sequence");
        set.map_err(|error| damaged(error.to_string()))?;
    }
    let attributes = Attributes::create(&options).map_err(|error| damaged(error.to_string()))?;
    let owner = (owner != 0).then_some(CollectionId(owner));
    Ok((Identity { id, object_id, db, name, owner }, attributes, version))
}

pub(crate) fn encode_mark(mark: &Mark) -> [u8; MARK_BYTES] {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = flag(mark.initial, FLAG_INITIAL)
        | flag(mark.clean, FLAG_CLEAN)
        | flag(mark.open_from.is_some(), FLAG_OPEN);
    // The order of these fields is on disk and never changes.
    let mut bytes = [0; MARK_BYTES];
    let mut rest = &mut bytes[..];
    rest.put_i64(mark.current_value);
    rest.put_u8(flags);
    rest.put_i64(mark.open_from.unwrap_or(0));
    rest.put_i32(mark.cycled_count);
    rest.put_u64(mark.reservations);
    rest.put_u64(mark.lost);
    rest.put_u64(mark.next_gap);
    bytes
}

pub(crate) fn decode_mark(id: SequenceId, value: &[u8]) -> Result<Mark> {
    let damaged = |reason: &str| Error::corruption(Family::Meta.name(), &id.mark_key(), reason);
    if value.len() != MARK_BYTES {
        return Err(damaged("the mark is not 45 bytes long"));
    }
    let mut rest = value;
    let current_value = rest.get_i64();
    let flags = rest.get_u8();
    // A later format may define them, and this version could not honor them.
    if flags & !(FLAG_INITIAL | FLAG_CLEAN | FLAG_OPEN) != 0 {
        return Err(damaged("the mark has unknown flags"));
    }
    // Read even if its flag is not set: the fields have fixed places.
    let open_from = rest.get_i64();
    Ok(Mark {
        current_value,
        open_from: (flags & FLAG_OPEN != 0).then_some(open_from),
        initial: flags & FLAG_INITIAL != 0,
        cycled_count: rest.get_i32(),
        reservations: rest.get_u64(),
        lost: rest.get_u64(),
        next_gap: rest.get_u64(),
        clean: flags & FLAG_CLEAN != 0,
    })
}

pub(crate) fn encode_gap(gap: &Gap, at: DateTime) -> [u8; GAP_BYTES] {
    let mut bytes = [0; GAP_BYTES];
    let mut rest = &mut bytes[..];
    rest.put_i64(gap.run.first());
    rest.put_i64(gap.run.increment());
    rest.put_u64(gap.run.count());
    rest.put_u8(gap.cause.number());
    rest.put_i64(at.timestamp_millis());
    bytes
}

pub(crate) fn decode_gap(key: &[u8], value: &[u8]) -> Result<(Gap, DateTime)> {
    let damaged = |reason: &str| Error::corruption(Family::Meta.name(), key, reason);
    if value.len() != GAP_BYTES {
        return Err(damaged("the gap is not 33 bytes long"));
    }
    let mut rest = value;
    let (first, increment, count) = (rest.get_i64(), rest.get_i64(), rest.get_u64());
    // Checked, because arithmetic on a damaged run could overflow.
    let run =
        Run::checked(first, increment, count).ok_or_else(|| damaged("the gap's values leave 64 bits"))?;
    let cause = Cause::of_number(rest.get_u8()).ok_or_else(|| damaged("the gap has an unknown cause"))?;
    Ok((Gap { run, cause }, DateTime::from_millis(rest.get_i64())))
}

fn text(value: Bson) -> Option<String> {
    if let Bson::String(text) = value { Some(text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("a nibble is a digit");
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    fn identity() -> Identity {
        Identity {
            id: SequenceId(7),
            object_id: ObjectId::from_bytes([9; 12]),
            db: "app".to_owned(),
            name: "orders".to_owned(),
            owner: None,
        }
    }

    #[test]
    fn a_definition_comes_back() {
        let options =
            Options { increment: Some(-5), cycled: Some(true), cache_size: Some(1), ..Options::default() };
        let attributes = Attributes::create(&Options { acquire_size: Some(1), ..options }).expect("allowed");
        let bytes = encode_definition(&identity(), &attributes, 3).expect("encoded");
        assert_eq!(decode_definition(SequenceId(7), &bytes).expect("decoded"), (identity(), attributes, 3));
    }

    #[test]
    fn a_damaged_definition_is_an_error_and_no_panic() {
        let attributes = Attributes::create(&Options::default()).expect("allowed");
        let bytes = encode_definition(&identity(), &attributes, 0).expect("encoded");
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 0x55);
            let _ = decode_definition(SequenceId(7), &damaged);
            assert!(decode_definition(SequenceId(7), bytes.get(..place).unwrap_or_default()).is_err());
        }
        let zero = doc! { "db": "app", "name": "s", "owner": 0_i64, "oid": ObjectId::new(), "version": 0_i64,
        "Increment": 0_i64 };
        let error = decode_definition(SequenceId(7), &zero.to_vec().expect("encoded")).expect_err("refused");
        assert!(error.is_corruption() && error.to_string().contains("Increment"), "{error}");
    }

    #[test]
    fn the_bytes_of_a_mark_never_change() {
        let mark = Mark {
            current_value: 1000,
            open_from: Some(-2),
            initial: false,
            cycled_count: 3,
            reservations: 4,
            lost: 5,
            next_gap: 6,
            clean: true,
        };
        let bytes = encode_mark(&mark);
        let expected =
            "00000000000003e806fffffffffffffffe00000003000000000000000400000000000000050000000000000006";
        assert_eq!(hexadecimal(&bytes), expected);
        assert_eq!(decode_mark(SequenceId(1), &bytes).expect("decoded"), mark);
        assert!(decode_mark(SequenceId(1), &bytes[..44]).is_err());
        assert!(decode_mark(SequenceId(1), &[0xff; MARK_BYTES]).is_err());
    }

    #[test]
    fn the_bytes_of_a_gap_never_change() {
        let gap = Gap { run: Run::new(-1, -2, 3), cause: Cause::Restart };
        let bytes = encode_gap(&gap, DateTime::from_millis(256));
        let expected = "fffffffffffffffffffffffffffffffe0000000000000003040000000000000100";
        assert_eq!(hexadecimal(&bytes), expected);
        assert_eq!(decode_gap(b"g", &bytes).expect("decoded"), (gap, DateTime::from_millis(256)));
        assert!(decode_gap(b"g", &[0x7f; GAP_BYTES]).is_err());
    }
}
