//! Salvage of stores in which something was written that no writer of this library writes, or removed that none removes, or
//! that another version of it has written.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, io, thread};

use base::error::{Error, ErrorKind};
use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use index::validate::NESTING_MAX;
use query::code::Code;
use query::operation::CancellationToken;
use store::Family;
use store::keys::SequenceId;
use store::write::{Batch, CommitLevel};

use crate::auto_increment::AutoIncrement;
use crate::catalog::entry;
use crate::client::Client;
use crate::fixture::Fixture;
use crate::options::{Collation, CollationStrength, IndexModel, IndexOptions};
use crate::outcomes::generations;
use crate::outcomes::once;
use crate::outcomes::row::{Kind, Row, SessionKey, now_millis};
use crate::outcomes::token_row::{self, TokenRow};
use crate::salvage::{SalvageReport, is_of_documents, salvage};
use crate::write::prepare::record_key;

/// Salvages a store that `fill` fills, after `change` was written to it below the public API.
#[track_caller]
fn salvage_changed(
    fill: impl FnOnce(&Client),
    change: impl FnOnce(&Fixture, &mut Batch<'_>),
    look: impl FnOnce(&SalvageReport, &Client),
) {
    let fixture = Fixture::filled(fill);
    let mut batch = Batch::new(&fixture.database);
    change(&fixture, &mut batch);
    fixture.shared.store.commit(batch, CommitLevel::Journaled).expect("committed");
    let path = fixture.shared.options.path.clone();
    let Fixture { shared, database, .. } = fixture;
    drop(database);
    // The store alone: the catalog would write the marks of its sequences again.
    shared.store.close(|| (), |_| Ok(())).expect("closed");
    let new = tempfile::tempdir().expect("a folder");
    let report = salvage(path, new.path().join("db")).run().expect("salvaged");
    assert!(report.verified.is_clean(), "{report:?}");
    look(&report, &Client::open(new.path().join("db")).expect("opened"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[test]
fn records_that_are_no_documents_are_refused_one_by_one() {
    let fill = |client: &Client| {
        let things = client.database("test").collection("things");
        things.insert_many((0..10).map(|id| doc! { "_id": id })).run().expect("stored");
    };
    let bytes = |document: Document| document.to_vec().expect("short");
    let deep = (0..NESTING_MAX).fold(doc! {}, |deep, _| doc! { "a": deep });
    let records = [
        (100, vec![5, 0, 0, 0], "malformed document"),
        (101, bytes(doc! { "_id": 102 }), "its key is not the one of its _id"),
        (103, bytes(doc! { "x": 1 }), "it has no _id"),
        (104, bytes(doc! { "x": 1, "_id": 104 }), "_id is not its first field"),
        (105, bytes(doc! { "_id": 105, "a": deep }), "180"),
        (107, Vec::new(), "malformed document"),
        (108, [bytes(doc! { "_id": 108 }), vec![0]].concat(), "malformed document"),
    ];
    let (mut keys, written) = (Vec::new(), &records);
    let change = |fixture: &Fixture, batch: &mut Batch<'_>| {
        let things = fixture.collection("things").expect("there");
        let key = |id: i32| record_key(&things, RawBsonRef::Int32(id));
        for (id, value, _) in written {
            keys.push(hex(&key(*id)));
            batch.put(Family::Records, &key(*id), value);
        }
        batch.put(Family::Records, &key(106), &bytes(doc! { "_id": 106, "x": 1 }));
    };
    let mut found = None;
    salvage_changed(fill, change, |report, client| {
        let things = client.database("test").collection::<Document>("things");
        assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 11);
        assert_eq!(things.find_one(doc! { "x": 1 }).run().expect("read"), Some(doc! { "_id": 106, "x": 1 }));
        assert!(!report.is_complete());
        found = report.collections.first().cloned();
    });
    let found = found.expect("a collection");
    assert_eq!((found.documents, found.refused), (11, 7));
    for ((refusal, key), (id, _, reason)) in found.refusals.iter().zip(&keys).zip(&records) {
        assert_eq!(&refusal.key, key, "{id}");
        assert!(refusal.reason.contains(reason), "{id}: {}", refusal.reason);
    }
    assert_eq!(found.refusals.len(), 7);
}

/// With the mark goes what a sequence had reserved. What documents have is left to show where it goes on.
#[test]
fn sequences_without_marks_go_on_beyond_every_value_of_documents() {
    let fill = |client: &Client| {
        let test = client.database("test");
        for (name, increment) in [("up", 7), ("down", -7)] {
            let numbered = test.collection::<Document>(name);
            let field = AutoIncrement::builder().field("a.n").increment(increment);
            let field =
                if increment < 0 { field.min_value(-10_000).max_value(-1).start_value(-1) } else { field };
            numbered.create_auto_increment(field.build()).run().expect("made");
            numbered.insert_many((0..300).map(|id| doc! { "_id": id })).run().expect("stored");
        }
    };
    let values = |client: &Client, name: &str| {
        let stored = client.database("test").collection::<Document>(name).find(doc! {}).run().expect("found");
        let value =
            |document: Document| document.get_document("a").and_then(|a| a.get_i64("n")).expect("a number");
        stored.map(|document| value(document.expect("read"))).collect::<Vec<i64>>()
    };
    let without_marks = |_: &Fixture, batch: &mut Batch<'_>| {
        for id in [1, 2] {
            batch.delete(Family::Meta, &SequenceId(id).mark_key());
        }
    };
    salvage_changed(fill, without_marks, |report, client| {
        let note = "the positions of 2 sequences are lost";
        assert!(report.notes.iter().any(|found| found.contains(note)), "{:?}", report.notes);
        for name in ["up", "down"] {
            let before = values(client, name);
            assert_eq!(before.len(), 300, "{name}");
            let numbered = client.database("test").collection::<Document>(name);
            numbered.insert_many((300..400).map(|id| doc! { "_id": id })).run().expect("stored");
            let all = values(client, name);
            let new = all.get(300..).expect("100 more");
            let (lowest, highest) = (before.iter().min().expect("many"), before.iter().max().expect("many"));
            let is_beyond = |value: &i64| if name == "up" { value > highest } else { value < lowest };
            assert!(new.len() == 100 && new.iter().all(is_beyond), "{name}: {new:?} after {before:?}");
        }
    });
}

#[test]
fn a_full_disk_is_no_fault_of_the_documents() {
    assert!(is_of_documents(&Error::command(Code::CANNOT_INDEX_PARALLEL_ARRAYS, "two arrays")));
    for kind in [
        ErrorKind::NoSpace { message: "full".to_owned(), during_commit: false },
        ErrorKind::Poisoned { cause: "failed".to_owned() },
    ] {
        assert!(!is_of_documents(&Error::new(kind)));
    }
}

/// A store whose catalog says something else of the rules of its sort keys.
fn with_rules(rules: impl Into<Bson>) -> tempfile::TempDir {
    let any_case = Collation::with_locale("en").strength(CollationStrength::Secondary);
    let options = IndexOptions::builder().collation(any_case).unique(true).build();
    let fixture = Fixture::filled(|client| {
        let words = client.database("test").collection("words");
        words
            .create_index(IndexModel::builder().keys(doc! { "w": 1 }).options(options).build())
            .run()
            .expect("made");
        let others = (3..3000).map(|id| doc! { "_id": id, "w": format!("word {id}") });
        let all = [doc! { "_id": 1, "w": "Ada" }, doc! { "_id": 2, "w": "bob" }].into_iter().chain(others);
        words.insert_many(all).run().expect("stored");
    });
    let state = fixture.collection("words").expect("there");
    let stored = entry::encode(&state.namespace, &state.definition()).expect("an entry");
    let mut stored = Document::from_reader(stored.as_slice()).expect("a document");
    assert!(stored.insert("collationRules", rules).is_some());
    let mut batch = Batch::new(&fixture.database);
    batch.put(Family::Meta, &state.id.catalog_key(), &stored.to_vec().expect("small"));
    fixture.shared.store.commit(batch, CommitLevel::Buffered).expect("committed");
    fixture.closed()
}

/// Sort keys of other rules are in another order: searches would miss documents, and a unique index let duplicates in.
#[test]
fn sort_keys_of_other_rules_are_refused_by_their_name_and_made_anew_by_a_salvage() {
    let folder = with_rules("icu4x-9.9.9");
    let (path, new) = (folder.path().join("db"), folder.path().join("new"));
    for refused in [Client::open(&path), Client::builder().read_only(true).open(&path)] {
        let error = refused.expect_err("refused");
        assert_eq!(error.code(), Some(161), "{error}");
        let text = error.to_string();
        let words = [
            "test.words has a collation by the rules icu4x-9.9.9, and this program has the rules icu4x-2.4.0 (keys ",
            "new folder with new sort keys: `cairn salvage FOLDER NEW`",
        ];
        for words in words {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        assert!(!error.is_corruption());
    }
    let report = salvage(&path, &new).run().expect("salvaged");
    assert_eq!(
        report.collections.first().map(|collection| &collection.indexes[..]),
        Some(&["w_1".to_owned()][..])
    );
    let client = Client::open(&new).expect("opened");
    let words = client.database("test").collection::<Document>("words");
    let any_case = Collation::with_locale("en").strength(CollationStrength::Secondary);
    assert_eq!(words.count_documents(doc! { "w": "BOB" }).collation(any_case).run().expect("counted"), 1);
    assert!(words.insert_one(doc! { "w": "ADA" }).run().expect_err("taken").is_duplicate_key());
}

#[test]
fn new_sort_keys_whose_making_is_cut_short_leave_the_folder_as_it_was() {
    let folder = with_rules("icu4x-9.9.9");
    let (path, new) = (folder.path().join("db"), folder.path().join("new"));
    let files = || {
        let read = |file: io::Result<fs::DirEntry>| {
            let path = file.expect("a file").path();
            (path.clone(), fs::read(path).expect("read"))
        };
        fs::read_dir(&path).expect("a folder").map(read).collect::<BTreeMap<_, _>>()
    };
    let cut_after = |wait: Duration| {
        let token = CancellationToken::new();
        thread::scope(|scope| {
            if wait.is_zero() {
                token.cancel();
            } else {
                scope.spawn(|| {
                    thread::park_timeout(wait);
                    token.cancel();
                });
            }
            salvage(&path, &new).cancellation(&token).run()
        })
    };
    let mut cuts = 0_u32;
    loop {
        // The opening that is refused writes into RocksDB's own log.
        assert_eq!(Client::open(&path).expect_err("refused").code(), Some(161));
        let before = files();
        let done = cut_after(Duration::from_millis(5) * cuts);
        assert!(files() == before, "cut {cuts}");
        let Err(cut) = done else { break };
        assert_eq!(cut.code(), Some(11_601), "{cut}");
        assert!(!new.exists(), "cut {cuts}");
        cuts += 1;
    }
    assert!(cuts > 0, "none was cut short");
    assert_eq!(Client::open(&new).expect("opened").list_database_names().run().expect("listed"), ["test"]);
}

/// A token whose call has happened is not used a second time, though what the call was answered is lost.
#[test]
fn tokens_of_damaged_results_are_kept() {
    let insert = |client: &Client, token: &str| {
        let things = client.database("test").collection("things");
        things.insert_one(doc! { "from": token }).exactly_once(token).run()
    };
    let kept = Cell::new(None);
    let fill = |client: &Client| {
        for token in ["part", "none"] {
            insert(client, token).expect("stored");
        }
        kept.set(Some(insert(client, "kept").expect("stored").inserted_id));
    };
    let lose = |fixture: &Fixture, batch: &mut Batch<'_>| {
        // Of one the `_id` that was answered, and of the other everything.
        let key = token_row::key(&"part".into(), 1);
        let value = fixture.database.get(Family::Outcomes, &key).expect("read").expect("a row");
        let row = TokenRow::decode(&key, &value).expect("a row");
        let (head, _) = value.split_at(value.len() - row.result.as_bytes().len());
        let result = Document::try_from(row.result).expect("decoded");
        let result = doc! { once::CALL: result.get(once::CALL).expect("a name") };
        batch.put(Family::Outcomes, &key, &[head, &result.to_vec().expect("short")].concat());
        batch.put(Family::Outcomes, &token_row::key(&"none".into(), 1), b"no row");
        // One of a generation that is forgotten.
        batch.put(Family::Outcomes, &token_row::key(&"old".into(), 0), b"no row");
        batch.put(Family::Meta, &generations::meta_key(2), &now_millis().to_be_bytes());
    };
    salvage_changed(fill, lose, |report, client| {
        let note = "2 results of calls with tokens are lost: such a call fails if it comes again";
        assert!(report.notes.iter().any(|found| found == note), "{:?}", report.notes);
        assert_eq!(insert(client, "kept").expect("replayed").inserted_id, kept.take().expect("stored"));
        let things = client.database("test").collection::<Document>("things");
        for token in ["part", "none"] {
            let error = insert(client, token).expect_err("it has happened");
            assert!(error.is_corruption() && error.to_string().contains("has happened"), "{error}");
            let other = things.delete_one(doc! {}).exactly_once(token).run().expect_err("another call");
            assert!(other.is_corruption(), "{other}");
        }
        assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 3);
    });
}

/// What is left of a command's rows would say that the rest of it did not happen.
#[test]
fn no_row_of_a_session_is_kept_if_one_is_damaged() {
    let (whole, damaged) = (SessionKey::new([1; 16], [0; 16]), SessionKey::new([2; 16], [0; 16]));
    let row = |slot: u32, results: &Document| {
        let results = RawDocumentBuf::try_from(results).expect("short");
        Row { kind: Kind::Insert, number: 1, statements: (slot, slot), millis: 12, results }.encode()
    };
    let rows = |_: &Fixture, batch: &mut Batch<'_>| {
        for (session, slot, results) in [
            (&whole, 0, doc! {}),
            (&damaged, 0, doc! { "v": 1 }),
            (&damaged, 1, doc! {}),
            (&whole, 1, doc! {}),
        ] {
            batch.put(Family::Outcomes, &session.row(slot), &row(slot, &results));
        }
        batch.put(Family::Outcomes, b"?", b"?");
    };
    salvage_changed(
        |_| {},
        rows,
        |report, client| {
            assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
            let database = client.shared().store.enter().expect("open");
            let is_kept = |session: &SessionKey, slot| {
                database.get(Family::Outcomes, &session.row(slot)).expect("read").is_some()
            };
            assert!(is_kept(&whole, 0) && !is_kept(&damaged, 0) && !is_kept(&damaged, 1));
        },
    );
}

#[test]
fn damaged_rules_are_damage() {
    let folder = with_rules(5);
    let error = Client::open(folder.path().join("db")).expect_err("damaged");
    assert!(error.is_corruption(), "{error}");
}
