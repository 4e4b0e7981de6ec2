//! The parts of a cluster's collections that CairnDB rejects, found by creating them in a store in memory.

use std::collections::HashSet;

use cairndb::bson::{Document, doc};

use crate::command::raw;
use crate::failure::Failure;
use crate::migrate::planned::{Moved, options_of};
use crate::migrate::remark::Remark;
use crate::restore::make::{collection_with, indexes, is_to_make, options, view};
use crate::restore::tally::{Tally, refusal};
use crate::restore::verify::stored_indexes;
use crate::store::{Store, in_memory};

/// A store in memory in which collections are made and dropped again.
pub(super) struct Trial {
    store: Box<dyn Store>,
}

impl Trial {
    pub(super) fn begin() -> Result<Self, Failure> {
        Ok(Self { store: in_memory()? })
    }

    /// Makes a collection or view, removes what is rejected from its description, and says so. Returns whether anything is
    /// left of it.
    pub(super) fn judge(&self, moved: &mut Moved, remarks: &mut Vec<Remark>) -> Result<bool, Failure> {
        if let Some(what) = moved.leave_order_out()? {
            remarks.push(Remark::unsupported(&moved.planned.source, what));
        }
        let store = &*self.store;
        let tally = Tally::keeping();
        let made = if moved.is_view() {
            view(store, &moved.planned, false, &tally)
        } else {
            options(&moved.planned, &tally)
                .and_then(|options| collection_with(store, &moved.planned, &options, false, &tally))
        };
        let namespace = moved.planned.source.clone();
        if let Err(failure) = made {
            // The name itself is rejected.
            remarks.push(Remark::unsupported(&namespace, refusal(failure)?.message));
            return Ok(false);
        }
        if moved.is_view() {
            let refused = tally.kept();
            let is_made = refused.is_empty();
            remarks.extend(refused.into_iter().map(|what| Remark::unsupported(&namespace, what)));
            return Ok(is_made);
        }
        indexes(store, &moved.planned, moved.planned.metadata()?.indexes, &tally)?;
        let refused = tally.kept();
        if !refused.is_empty() {
            self.keep_what_was_made(moved)?;
        }
        remarks.extend(refused.into_iter().map(|what| Remark::unsupported(&namespace, what)));
        let (database, name) = (&moved.planned.database, moved.planned.name.as_str());
        store.run(database, raw(&doc! { "drop": name })?)?;
        Ok(true)
    }

    /// Removes from a description what the store in memory has not.
    fn keep_what_was_made(&self, moved: &mut Moved) -> Result<(), Failure> {
        let (database, name) = (moved.planned.database.clone(), moved.planned.name.clone());
        let store = &*self.store;
        let name_of = |index: &Document| index.get_str("name").unwrap_or_default().to_owned();
        let made: HashSet<String> = stored_indexes(store, &database, &name)?.iter().map(name_of).collect();
        let options = options_of(store, &database, &name)?.unwrap_or_default();
        moved.retain(
            |index| !is_to_make(index) || made.contains(&name_of(index)),
            |name| options.contains_key(name),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::catalog::{Found, text};
    use crate::dumped::DumpedKind;
    use crate::extended_json::Mode;
    use crate::restore::plan::Planned;

    fn moved(kind: DumpedKind, name: &str, options: Document, indexes: &[Document]) -> Moved {
        let (database, name) = ("shop".to_owned(), name.to_owned());
        let metadata = doc! { "options": options.clone(), "indexes": indexes.to_vec() };
        let metadata = text(&metadata, Mode::Canonical).unwrap();
        let target = (database.clone(), name.clone());
        let planned = Planned::of(format!("{database}.{name}"), target, kind, metadata);
        Moved { found: Found { database, name, kind, options, uuid: None }, planned, documents: 0 }
    }

    #[track_caller]
    fn check(mut moved: Moved, is_kept: bool, words: &[&str]) -> Moved {
        let mut remarks = Vec::new();
        assert_eq!(Trial::begin().unwrap().judge(&mut moved, &mut remarks).unwrap(), is_kept);
        assert_eq!(remarks.len(), words.len(), "{remarks:?}");
        for (remark, word) in remarks.iter().zip(words) {
            assert!(remark.line().contains(word), "{remark:?}");
        }
        moved
    }

    #[test]
    fn what_cairndb_refuses_is_named_and_taken_out() {
        let indexes = [
            doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
            doc! { "v": 2, "key": { "a": 1 }, "name": "a", "unique": true },
            doc! { "v": 2, "key": { "t": "text" }, "name": "words" },
            doc! { "v": 2, "key": { "at": "2dsphere" }, "name": "places" },
        ];
        let options = doc! { "capped": true, "size": 4096, "validator": { "a": { "$gte": 0 } } };
        let mixed = moved(DumpedKind::Collection, "orders", options, &indexes);
        let kept = check(mixed, true, &["capped", "index words", "index places"]);
        let metadata = kept.planned.metadata().unwrap();
        assert_eq!(metadata.options, doc! { "validator": { "a": { "$gte": 0 } } });
        let names: Vec<&str> = metadata.indexes.iter().map(|index| index.get_str("name").unwrap()).collect();
        assert_eq!(names, ["_id_", "a"]);
    }

    #[test]
    fn what_is_supported_is_kept_as_it_is() {
        let indexes = [doc! { "v": 2, "key": { "a": 1, "b": -1 }, "name": "a_1_b_-1", "sparse": true }];
        check(moved(DumpedKind::Collection, "orders", doc! {}, &indexes), true, &[]);
        let view = doc! { "viewOn": "orders", "pipeline": [{ "$match": { "a": 1 } }] };
        check(moved(DumpedKind::View, "some", view, &[]), true, &[]);
    }

    #[test]
    fn names_and_views_that_are_refused_are_left_out_as_a_whole() {
        check(moved(DumpedKind::Collection, "a$b", doc! {}, &[]), false, &["shop.a$b"]);
        let view = doc! { "viewOn": "orders", "pipeline": [{ "$search": {} }] };
        check(moved(DumpedKind::View, "found", view, &[]), false, &["shop.found"]);
    }
}
