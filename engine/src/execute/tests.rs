//! Read views during changes of the catalog. Each change is made at the worst moment: after a name was looked up and before
//! the read state is acquired.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::{Document, RawBsonRef, doc};
use index::collation::Collation;
use index::key::{self, Direction};
use query::operation::OperationContext;
use store::Family;
use store::write::{Batch, CommitLevel};

use crate::catalog::change::{Created, NewCollection, Rename, Replace, drop_indexes};
use crate::execute::matches::Matches;
use crate::execute::read_view::{FoundCollection, ReadView, look_up};
use crate::fixture::Fixture;
use crate::options::{Hint, IndexModel};
use crate::plan::order::Order;
use crate::plan::selector::Selector;
use crate::write::prepare::record_key;

/// The findings of a reader.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    documents: usize,
    indexes: usize,
}

fn namespace(name: &str) -> Namespace {
    Namespace::parse("test", name).expect("a name")
}

/// A store with the collections `old` of two documents and `new` of three; both have an index.
#[track_caller]
fn old_and_new() -> Fixture {
    Fixture::filled(|client| {
        for (name, count) in [("old", 2), ("new", 3)] {
            let collection = client.database("test").collection(name);
            collection.insert_many((0..count).map(|id| doc! { "_id": id, "a": name })).run().expect("stored");
            collection.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().expect("made");
        }
    })
}

impl Fixture {
    /// A look-up of `name`. After the first one, `change` is called.
    fn finding<'a>(
        &'a self,
        name: &'a str,
        change: impl Fn() + 'a,
    ) -> impl Fn() -> Result<Option<FoundCollection<'static>>> + 'a {
        let has_changed = Cell::new(false);
        move || {
            let found = self.collection(name);
            if !has_changed.replace(true) {
                change();
            }
            Ok(found.map(Cow::Owned))
        }
    }

    fn seen(&self, find: impl Fn() -> Result<Option<FoundCollection<'static>>>) -> Option<Seen> {
        let (_, view) = ReadView::take(&self.database, find).expect("a view")?;
        let indexes = view.indexes().len();
        let everything = Selector::everything().expect("a filter");
        let mut matches = Matches::open(view, &everything, &Order::default()).expect("a walk");
        let mut documents = 0;
        while matches.advance().expect("a step") {
            documents += 1;
        }
        Some(Seen { documents, indexes })
    }

    fn rename(&self, from: &str, to: &str) {
        let storage = self.shared.storage(&self.database);
        let (from, to) = (namespace(from), namespace(to));
        let rename = Rename { from: &from, to: &to, replace: Replace::DropTarget };
        let operation = OperationContext::unlimited();
        self.shared.catalog.rename(storage, rename, &operation).expect("renamed");
    }

    fn drop_collection(&self, name: &str) {
        let storage = self.shared.storage(&self.database);
        assert!(
            self.shared
                .catalog
                .drop_collection(storage, &namespace(name), &OperationContext::unlimited())
                .expect("dropped")
        );
    }

    fn drop_indexes(&self, name: &str) {
        let found = self.collection(name).expect("the collection");
        let dropped =
            drop_indexes(self.shared.storage(&self.database), &found, &OperationContext::default(), |_| {
                false
            });
        assert_eq!(dropped.expect("removed"), Some(1));
    }
}

#[test]
fn a_collection_that_is_replaced_after_the_look_up_is_looked_up_again() {
    let fixture = old_and_new();
    let seen = fixture.seen(fixture.finding("old", || fixture.rename("new", "old")));
    assert_eq!(seen, Some(Seen { documents: 3, indexes: 1 }));
}

#[test]
fn a_collection_that_is_dropped_after_the_look_up_is_not_there() {
    let fixture = old_and_new();
    assert_eq!(fixture.seen(fixture.finding("old", || fixture.drop_collection("old"))), None);
    assert_eq!(fixture.seen(fixture.finding("new", || fixture.rename("new", "else"))), None);
}

#[test]
fn an_index_that_is_removed_after_the_look_up_is_not_read() {
    let fixture = old_and_new();
    let seen = fixture.seen(fixture.finding("old", || fixture.drop_indexes("old")));
    assert_eq!(seen, Some(Seen { documents: 2, indexes: 0 }));
}

/// A collection that was absent at the look and there at the snapshot was mistaken for absent. So a join could find the document
/// that names another one, and not the collection of that.
#[test]
fn a_collection_that_is_made_after_the_look_up_is_seen_with_the_others() {
    let fixture = old_and_new();
    let make = || {
        let others = fixture.shared.catalog.create(
            fixture.shared.storage(&fixture.database),
            &namespace("later"),
            &NewCollection::default(),
        );
        assert!(matches!(others.expect("made"), Created::New(_)));
    };
    let (old, later) = (fixture.finding("old", || ()), fixture.finding("later", make));
    let find = |position: usize| if position == 0 { old() } else { later() };
    let taken = ReadView::take_together(&fixture.database, 2, find).expect("taken");
    let names: Vec<_> =
        taken.iter().map(|taken| taken.as_ref().map(|(found, _)| found.namespace.coll.clone())).collect();
    assert_eq!(names, [Some("old".into()), Some("later".into())]);
    // One that never comes does not keep it waiting.
    let taken = ReadView::take_together(&fixture.database, 2, |_| Ok(None)).expect("taken");
    assert!(taken.iter().all(Option::is_none));
}

#[test]
fn a_record_of_a_collection_that_is_replaced_after_the_look_up_is_looked_up_again() {
    let fixture = old_and_new();
    let find = |name, change: fn(&Fixture)| {
        let fixture = &fixture;
        let finding = fixture.finding(name, move || change(fixture));
        let id = doc! { "_id": 1 };
        let raw = bson::RawDocumentBuf::try_from(&id).expect("a document");
        let id = raw.get("_id").expect("a document").expect("an id");
        let found = look_up(&fixture.database, finding, |collection| record_key(collection, id));
        let (_, record) = found.expect("looked up")?;
        let bytes = record.bytes.expect("the record");
        bson::RawDocument::from_bytes(&bytes).expect("a document").get_str("a").ok().map(str::to_owned)
    };
    assert_eq!(find("old", |fixture| fixture.rename("new", "old")).as_deref(), Some("new"));
    assert_eq!(find("old", |fixture| fixture.drop_collection("old")), None);
}

/// A commit can be slow on a slow disk. Until it is visible, readers must find the old collection and not wait.
#[test]
fn no_reader_waits_for_a_commit_that_ends_a_collection() {
    let fixture = old_and_new();
    let state = fixture.collection("old").expect("the collection");
    let _alone = state.enter_alone(&OperationContext::default()).expect("unlimited");
    let refused = state.end(|| {
        assert!(state.changes().is_ending() && !state.is_retired());
        let seen = fixture.seen(fixture.finding("old", || ()));
        assert_eq!(seen, Some(Seen { documents: 2, indexes: 1 }));
        Err(Error::invalid_argument("the disk is full"))
    });
    assert!(refused.is_err() && !state.changes().is_ending());
}

#[test]
fn an_index_is_hidden_before_its_entries_go_and_shown_again_if_they_stay() {
    let fixture = old_and_new();
    let state = fixture.collection("old").expect("the collection");
    let before = state.changes();
    let database = Arc::clone(&fixture.shared.store.enter().expect("open"));
    let mut held = state.enter_alone(&OperationContext::default()).expect("unlimited");
    let refused = state.withdraw_indexes(&database, &mut held, Vec::new(), || {
        assert!(state.indexes().is_empty() && state.changes().has_withdrawn_since(before));
        Err(Error::invalid_argument("the disk is full"))
    });
    assert!(refused.is_err());
    assert_eq!((state.indexes().len(), held.indexes.len()), (1, 1));
}

/// As many deleted keys as RocksDB passes in more than one call.
const DELETED: i32 = 70_000;

/// RocksDB passed them all in one call, in which no operation was looked at, whichever way the documents were read.
#[test]
fn deleted_keys_are_steps_of_the_operation_that_passes_them() {
    let fixture = Fixture::filled(|client| {
        let database = client.database("test");
        database.create_collection("capped").capped(true).size(1 << 20).run().expect("made");
        for name in ["plain", "capped"] {
            let documents = [0, DELETED].map(|id| doc! { "_id": id, "a": id });
            database.collection(name).insert_many(documents).run().expect("stored");
        }
        let by_a = IndexModel::builder().keys(doc! { "a": 1 }).build();
        database.collection::<Document>("plain").create_index(by_a).run().expect("made");
    });
    let (plain, capped) = ("plain", "capped");
    let [state, ordered] = [plain, capped].map(|name| fixture.collection(name).expect("there"));
    let (index, order) = (state.indexes()[0].id, ordered.order().expect("it is capped").id);
    // Again for each search: RocksDB removes them soon after the first one has passed them.
    let delete = || {
        let mut batch = Batch::new(&fixture.database);
        for number in 1..DELETED {
            let mut entry = index.prefix().to_vec();
            for _ in 0..2 {
                key::encode(RawBsonRef::Int32(number), Direction::Ascending, &mut entry);
            }
            batch.delete(Family::Records, &record_key(&state, RawBsonRef::Int32(number)));
            batch.delete(Family::Entries, &entry);
            batch.delete(Family::Entries, &order.position_key(2 + u64::from(number.unsigned_abs())));
        }
        fixture.shared.store.commit(batch, CommitLevel::Buffered).expect("written");
    };
    let by = |keys| Some(Hint::Keys(keys));
    for (name, filter, sort, hint) in [
        (plain, doc! {}, None, None),
        (plain, doc! {}, Some(doc! { "_id": -1 }), None),
        (plain, doc! { "_id": { "$gt": -1 } }, None, None),
        (plain, doc! { "a": { "$gte": 0 } }, None, by(doc! { "a": 1 })),
        (plain, doc! { "a": { "$gte": 0 } }, Some(doc! { "a": -1 }), by(doc! { "a": 1 })),
        (capped, doc! {}, None, None),
        (capped, doc! {}, Some(doc! { "$natural": -1 }), None),
    ] {
        delete();
        let operation = OperationContext::counting();
        let selector = Selector::parse(&filter, None, operation.clone(), Collation::simple());
        let (_, view) =
            ReadView::take(&fixture.database, fixture.finding(name, || {})).expect("a view").expect("there");
        let order = Order::of(sort.as_ref(), hint.as_ref()).expect("an order");
        let mut matches = Matches::open(view, &selector.expect("a filter"), &order).expect("a walk");
        let mut documents = 0;
        while matches.advance().expect("a step") {
            documents += 1;
        }
        assert_eq!(documents, 2, "{name} {filter} {sort:?}");
        let steps = operation.steps_taken();
        assert!(steps > 5000, "{name} {filter} {sort:?}: {steps} steps");
    }
}
