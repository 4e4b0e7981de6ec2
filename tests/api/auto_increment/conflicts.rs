//! Generated values that are in use already, and other rejections of numbered documents.

use cairndb::bson::{Document, doc};
use cairndb::{Contract, Error};

use super::{Numbered, sequence_refuses};

/// A collection with 1 and 2 in a unique `n`, whose sequence is set back before them.
fn set_back(options: Document) -> Numbered {
    let numbered = Numbered::n(options);
    numbered.unique(doc! { "n": 1 });
    assert_eq!((numbered.next(), numbered.next()), (1, 2));
    numbered.alter(doc! { "CurrentValue": 1 });
    numbered
}

#[track_caller]
fn duplicate<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("a duplicate");
    assert!(error.is_duplicate_key(), "{error:?}");
}

#[test]
fn a_conflict_gives_up_the_block_and_tries_once_more() {
    for contract in ["fast", "ordered"] {
        let numbered = set_back(doc! { "Contract": contract });
        assert_eq!(numbered.next(), 1002);
        numbered.shows(doc! { "CurrentValue": 2001_i64 });
        let gaps = numbered.things.auto_increment("n").gaps().unwrap();
        let conflict = gaps.iter().find(|gap| gap.cause == "conflict").expect("it is listed");
        assert_eq!((conflict.first, conflict.last), (3, 1001));
    }
}

/// Doors that one document comes through: what was generated for it.
type Door = fn(&Numbered) -> Result<Option<i64>, cairndb::Error>;

const DOORS: [Door; 5] = [
    |numbered| Ok(numbered.things.insert_one(doc! {}).run()?.last_generate_id),
    |numbered| Ok(numbered.things.insert_many([doc! {}]).run()?.last_generate_id),
    |numbered| Ok(numbered.things.insert_many([doc! {}]).ordered(false).run()?.last_generate_id),
    |numbered| {
        let db = numbered.client.database("test");
        let reply =
            db.run_command(doc! { "insert": "things", "documents": [{}], "maxTimeMS": 60_000 }).run()?;
        assert!(reply.get_array("writeErrors").is_err(), "{reply}");
        Ok(reply.get_i64("lastGenerateID").ok())
    },
    |numbered| {
        let model = cairndb::WriteModel::InsertOne(
            cairndb::InsertOneModel::builder()
                .namespace(numbered.things.namespace())
                .document(doc! {})
                .build(),
        );
        let done = numbered.client.bulk_write([model]).verbose_results().run()?;
        Ok(done.insert_results.get(&0).and_then(|inserted| inserted.last_generate_id))
    },
];

#[test]
fn one_document_is_one_insert_whichever_door_it_came_through() {
    for (number, door) in DOORS.into_iter().enumerate() {
        for (contract, expected) in [("fast", 1002), ("ordered", 1002), ("gapless", 3)] {
            let numbered = set_back(doc! { "Contract": contract });
            assert_eq!(door(&numbered).expect("tried again"), Some(expected), "door {number}, {contract}");
        }
    }
}

/// The last documents of a command that is done in parts are not call of their own.
#[test]
fn a_batch_is_not_tried_again_whatever_its_parts_are() {
    let numbered = set_back(doc! { "Contract": "fast" });
    let mut documents = vec![doc! { "n": "no number" }; 1000];
    documents.push(doc! {});
    let command = doc! { "insert": "things", "documents": documents, "ordered": false, "maxTimeMS": 60_000 };
    let reply = numbered.client.database("test").run_command(command).run().unwrap();
    let errors = reply.get_array("writeErrors").expect("refused");
    let last = errors.last().and_then(|error| error.as_document()).expect("one");
    assert_eq!((last.get_i32("index").ok(), last.get_i32("code").ok()), (Some(1000), Some(11000)), "{last}");
}

#[test]
fn a_gapless_sequence_passes_what_is_in_use() {
    let numbered = set_back(doc! { "Contract": "gapless" });
    assert_eq!((numbered.next(), numbered.next()), (3, 4));
}

#[test]
fn a_second_conflict_is_the_caller_s() {
    let options = doc! { "AcquireSize": 1, "CacheSize": 1 };
    let numbered = Numbered::n(options.clone());
    numbered.unique(doc! { "n": 1 });
    for value in 1..=3 {
        assert_eq!(numbered.next(), value);
    }
    numbered.alter(doc! { "CurrentValue": 1 });
    duplicate(numbered.things.insert_one(doc! {}).run());
    assert_eq!(numbered.next(), 4, "2 and 3 were taken");
}

#[test]
fn a_gapless_sequence_never_gets_stuck() {
    let numbered = Numbered::n(doc! { "Contract": "gapless" });
    numbered.unique(doc! { "n": 1 });
    numbered.things.insert_many((1..=7).map(|n| doc! { "n": n })).run().unwrap();
    numbered
        .things
        .alter_auto_increment(super::field(doc! { "Field": "n", "CurrentValue": 1 }))
        .run()
        .unwrap();
    let mut tries = 0;
    let value = loop {
        tries += 1;
        if let Ok(result) = numbered.things.insert_one(doc! {}).run() {
            break result.last_generate_id;
        }
        assert!(tries < 10, "it is stuck");
    };
    assert_eq!((value, tries), (Some(8), 4));
    assert_eq!(numbered.killed().next(), 9);
}

#[test]
fn passed_values_survive_a_kill() {
    let numbered = Numbered::n(doc! { "Contract": "gapless" });
    numbered.unique(doc! { "n": 1 });
    numbered.things.insert_many((1..=4).map(|n| doc! { "n": n })).run().unwrap();
    numbered.alter(doc! { "CurrentValue": 1 });
    duplicate(numbered.things.insert_one(doc! {}).run());
    let killed = numbered.killed();
    assert_eq!(killed.next(), 5, "2 and 3 were passed, 4 is passed now");
}

#[test]
fn only_the_field_in_the_index_gives_up_its_block() {
    let fields = [doc! { "Field": "n" }, doc! { "Field": "m" }];
    let numbered = Numbered::with(fields);
    numbered.unique(doc! { "n": 1 });
    numbered.insert(doc! {});
    numbered.insert(doc! {});
    numbered.alter(doc! { "CurrentValue": 1 });
    let generated = numbered.insert(doc! {}).generated;
    assert_eq!((generated.get("n"), generated.get("m")), (Some(1002), Some(4)));
}

/// Two gapless fields, of which one meets values that are in use: the other must not skip any.
#[test]
fn a_conflict_on_one_gapless_field_leaves_no_gap_in_another() {
    let gapless = |name: &str| doc! { "Field": name, "Contract": "gapless" };
    let numbered = Numbered::with([gapless("n"), gapless("m")]);
    numbered.unique(doc! { "n": 1 });
    numbered.things.insert_many([doc! { "n": 1 }, doc! { "n": 3 }, doc! { "n": 4 }]).run().unwrap();
    numbered.alter(doc! { "CurrentValue": 1 });
    numbered.insert(doc! {});
    duplicate(numbered.things.insert_one(doc! {}).run());
    numbered.insert(doc! {});
    assert_eq!(super::numbers(&numbered.things, "m"), [1, 2, 3, 4, 5]);
    assert_eq!(numbered.numbers(), [1, 3, 4, 2, 5]);
}

#[test]
fn an_explicit_value_is_not_tried_again() {
    let numbered = set_back(doc! {});
    duplicate(numbered.things.insert_one(doc! { "n": 2 }).run());
    assert_eq!(numbered.numbers(), [1, 2]);
    let fields = [doc! { "Field": "n", "CacheSize": 1, "AcquireSize": 1 }, doc! { "Field": "m" }];
    let numbered = Numbered::with(fields);
    numbered.unique(doc! { "n": 1 });
    numbered.insert(doc! {});
    numbered.insert(doc! {});
    numbered.alter(doc! { "CurrentValue": 1 });
    duplicate(numbered.things.insert_one(doc! { "m": 77 }).run());
    numbered.insert(doc! { "m": 78 });
    assert_eq!(numbered.numbers(), [1, 2, 3]);
}

/// A text that a document brought, and that another one has, was mistaken for a generated value in use: the block was given
/// up, and the same text tried again.
#[test]
fn an_explicit_text_is_not_tried_again() {
    let numbered = Numbered::n(doc! {});
    numbered.unique(doc! { "n": 1 });
    assert_eq!(numbered.next(), 1);
    numbered.insert(doc! { "n": "text" });
    duplicate(numbered.things.insert_one(doc! { "n": "text" }).run());
    assert_eq!(numbered.insert(doc! {}).last_generate_id, Some(2));
}

#[test]
fn a_batch_is_not_tried_again() {
    let numbered = set_back(doc! {});
    duplicate(numbered.things.insert_many([doc! {}, doc! {}]).run());
    assert_eq!(numbered.next(), 4);
}

#[test]
fn an_unrelated_duplicate_takes_one_value_and_keeps_the_block() {
    let numbered = Numbered::n(doc! {});
    numbered.unique(doc! { "k": 1 });
    for k in 0..4 {
        numbered.insert(doc! { "k": k });
    }
    duplicate(numbered.things.insert_one(doc! { "k": 0 }).run());
    assert_eq!(numbered.insert(doc! { "k": 9 }).last_generate_id, Some(6));
    duplicate(numbered.things.insert_one(doc! { "_id": 1, "k": 1 }).run());
    assert_eq!(numbered.insert(doc! { "k": 10 }).last_generate_id, Some(8));
}

#[test]
fn an_unrelated_duplicate_takes_no_gapless_value() {
    let numbered = Numbered::n(doc! { "Contract": "gapless" });
    numbered.unique(doc! { "k": 1 });
    numbered.insert(doc! { "k": 0 });
    for _ in 0..5 {
        duplicate(numbered.things.insert_one(doc! { "k": 0 }).run());
    }
    assert_eq!(numbered.insert(doc! { "k": 1 }).last_generate_id, Some(2));
}

#[test]
fn an_index_of_several_fields_counts_if_it_holds_the_field() {
    let numbered = Numbered::n(doc! {});
    numbered.unique(doc! { "k": 1, "n": 1 });
    numbered.insert(doc! { "k": 5 });
    numbered.insert(doc! { "k": 5 });
    numbered.alter(doc! { "CurrentValue": 1 });
    assert_eq!(numbered.insert(doc! { "k": 5 }).last_generate_id, Some(1002));
}

#[test]
fn an_index_counts_by_the_whole_path() {
    let numbered = Numbered::with([doc! { "Field": "a.n" }]);
    numbered.unique(doc! { "a.n": 1 });
    let next = || numbered.things.insert_one(doc! {}).run().map(|result| result.last_generate_id);
    assert_eq!((next().unwrap(), next().unwrap()), (Some(1), Some(2)));
    numbered
        .things
        .alter_auto_increment(super::field(doc! { "Field": "a.n", "CurrentValue": 1 }))
        .run()
        .unwrap();
    assert_eq!(next().unwrap(), Some(1002));
    let numbered = Numbered::with([doc! { "Field": "a.n" }]);
    numbered.unique(doc! { "a": 1 });
    numbered.insert(doc! {});
    numbered.insert(doc! {});
    numbered
        .things
        .alter_auto_increment(super::field(doc! { "Field": "a.n", "CurrentValue": 1 }))
        .run()
        .unwrap();
    duplicate(numbered.things.insert_one(doc! {}).run());
}

#[test]
fn an_id_in_use_is_tried_again_like_any_field() {
    let numbered = Numbered::with([doc! { "Field": "_id" }]);
    numbered.things.insert_many([doc! {}, doc! {}]).run().unwrap();
    let back = super::field(doc! { "Field": "_id", "CurrentValue": 1 });
    numbered.things.alter_auto_increment(back).run().unwrap();
    assert_eq!(numbered.insert(doc! {}).inserted_id, 1002_i64.into());
}

/// Runs inserts into a gapless field whose values 3, 4, 5, 8 are in use, by batches of some size.
#[track_caller]
fn passes(ordered: bool, size: usize) {
    let numbered = Numbered::n(doc! { "Contract": Contract::Gapless.name() });
    numbered.unique(doc! { "n": 1 });
    numbered.things.insert_many([3, 4, 5, 8].map(|n| doc! { "n": n })).run().expect("stored");
    numbered.alter(doc! { "CurrentValue": 1 });
    numbered.insert(doc! { "n": 1 });
    for _ in 0..20 {
        let _ = numbered.things.insert_many(vec![doc! {}; size]).ordered(ordered).run();
    }
    let mut numbers = numbered.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<i64>>(), "batches of {size}");
    assert!(numbers.len() > 20);
}

#[test]
fn gapless_batches_pass_what_is_in_use() {
    for size in [1, 2, 3, 7, 20] {
        passes(true, size);
        passes(false, size);
    }
}

#[test]
fn an_exhausted_sequence_refuses_the_document_and_nothing_else() {
    let numbered = Numbered::n(doc! { "MaxValue": 2, "CacheSize": 1, "AcquireSize": 1 });
    numbered.next();
    numbered.next();
    sequence_refuses(numbered.things.insert_one(doc! {}).run(), -325, "no value left");
    numbered.insert(doc! { "n": "text" });
    assert_eq!(numbered.stored().len(), 3);
}

// Values that were drawn for documents that were then rejected, because the sequence had no value for the last of
// them, were written with the mark of a value that had been passed: the next insert found the sequence exhausted.
#[test]
fn a_gapless_batch_that_runs_out_of_values_takes_none() {
    let numbered = set_back(doc! { "Contract": "gapless", "MaxValue": 4, "CacheSize": 1, "AcquireSize": 1 });
    // Larger than a commit, so that the others are numbered after it was rejected: 2 is in use.
    let large = doc! { "_id": "large", "pad": "x".repeat(9 << 20) };
    let small = (0..3).map(|id| doc! { "_id": id });
    let batch: Vec<Document> = [large].into_iter().chain(small).collect();
    let refused = numbered.things.insert_many(batch).ordered(false).run().expect_err("refused");
    assert!(refused.to_string().starts_with("4 documents were rejected"), "{refused}");
    assert_eq!(numbered.stored().len(), 2);
    assert_eq!((numbered.next(), numbered.next()), (3, 4));
}
