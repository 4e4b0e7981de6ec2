//! The documents that differ, where hashes have shown that some do: both sides are read again in the order of their `_id`s, side
//! by side, so that no more than a document of each is in memory.

use std::cmp::Ordering;

use cairndb::bson::{RawBsonRef, RawDocument, doc};
use index::order::compare;

use crate::command::raw;
use crate::extended_json::{Mode, write_value};
use crate::failure::{Exit, Failure};
use crate::fingerprint::normal;
use crate::migrate::planned::Moved;
use crate::restore::tally::Tally;
use crate::store::{Documents, Store};

/// Names the documents that only one side has, or that are not the same. Returns how many there are.
pub(super) fn name(
    source: &dyn Store,
    target: &dyn Store,
    moved: &Moved,
    tally: &Tally,
    is_over: &dyn Fn() -> bool,
) -> Result<u64, Failure> {
    let namespace = moved.planned.namespace();
    let mut model = sorted(source, &moved.found.database, &moved.found.name)?;
    let mut made = sorted(target, &moved.planned.database, &moved.planned.name)?;
    let (mut has_model, mut has_made) = (model.advance()?, made.advance()?);
    let mut differing = 0;
    while (has_model || has_made) && !is_over() {
        let order = match (has_model, has_made) {
            (true, true) => compare(id_of(model.current())?, id_of(made.current())?),
            (true, false) => Ordering::Less,
            (false, _) => Ordering::Greater,
        };
        let (at, what) = match order {
            Ordering::Less => (model.current(), Some("is not in the target")),
            Ordering::Greater => (made.current(), Some("is not in the source")),
            Ordering::Equal => {
                let is_same = normal(model.current().as_bytes()) == normal(made.current().as_bytes());
                (model.current(), (!is_same).then_some("is not the same as in the source"))
            }
        };
        if let Some(what) = what {
            differing += 1;
            tally.name_difference(&format!("{namespace}, _id {}: it {what}", shown(id_of(at)?)));
        }
        if order.is_le() {
            has_model = model.advance()?;
        }
        if order.is_ge() {
            has_made = made.advance()?;
        }
    }
    Ok(differing)
}

/// The value of an `_id`, for people.
pub(super) fn shown(id: RawBsonRef<'_>) -> String {
    let mut text = Vec::new();
    // A value too deep to be shown cannot be an `_id` of a stored document.
    let _ = write_value(&mut text, id, Mode::Relaxed);
    String::from_utf8_lossy(&text).into_owned()
}

fn sorted(store: &dyn Store, database: &str, name: &str) -> Result<Box<dyn Documents>, Failure> {
    // Both sides by the bytes of texts, whatever the collections say, as they are compared above.
    let collation = doc! { "locale": "simple" };
    let find = doc! { "find": name, "sort": { "_id": 1 }, "hint": { "_id": 1 }, "collation": collation };
    store.stream(database, raw(&find)?)
}

fn id_of(document: &RawDocument) -> Result<RawBsonRef<'_>, Failure> {
    let id = document.get("_id").ok().flatten();
    id.ok_or_else(|| Failure::new(Exit::Failed, "a stored document has no _id"))
}
