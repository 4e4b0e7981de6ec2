//! Making, changing, dropping and listing the fields of a collection.

use cairndb::bson::{Document, bson, doc, serialize_to_document};
use cairndb::{AutoIncrement, Contract, Generated, OnTruncate};

use super::{Numbered, field, sequence_refuses};

/// The fields of the collection, by path.
#[track_caller]
fn paths(numbered: &Numbered) -> Vec<String> {
    let fields = numbered.things.auto_increments().run().expect("a list");
    fields.into_iter().map(|field| field.field).collect()
}

/// Fields that no collection has, and none is given.
#[track_caller]
fn refuses(fields: &[Document], (created, added): (i32, i32), words: &str) {
    let fields: Vec<AutoIncrement> =
        fields.iter().map(|options| AutoIncrement::try_from(options.clone()).expect("well-formed")).collect();
    let numbered = Numbered::with([doc! { "Field": "there" }]);
    let db = numbered.client.database("test");
    let creation = fields
        .iter()
        .cloned()
        .fold(db.create_collection("others"), cairndb::action::CreateCollection::auto_increment);
    sequence_refuses(creation.run(), created, words);
    let absent = db.collection::<Document>("absent");
    sequence_refuses(absent.create_auto_increments(fields.clone()).run(), added, words);
    sequence_refuses(numbered.things.create_auto_increments(fields).run(), added, words);
    assert_eq!(db.list_collection_names().run().expect("a list"), ["things"]);
    assert_eq!(db.list_sequences().run().expect("a list").len(), 1);
    assert_eq!(paths(&numbered), ["there"]);
}

fn named(paths: &[&str]) -> Vec<Document> {
    paths.iter().map(|path| doc! { "Field": *path }).collect()
}

#[test]
fn paths_follow_the_rules_of_names() {
    let words =
        |path: &str, why: &str| format!("\"{path}\" is not allowed as an auto-increment field: {why}");
    for path in ["", ".", "a.", ".a", "a..b"] {
        refuses(&named(&[path]), (-6, -6), &words(path, "a name in it is empty"));
    }
    for path in ["$a", "a.$b"] {
        refuses(&named(&[path]), (-6, -6), &words(path, "a name in it starts with $"));
    }
    for path in [" a", "a. b"] {
        refuses(&named(&[path]), (-6, -6), &words(path, "a name in it starts with a space"));
    }
    for path in ["1", "a.1", "a.12.b"] {
        refuses(&named(&[path]), (-6, -6), &words(path, "a name in it is a number"));
    }
}

#[test]
fn a_field_needs_its_path_and_allowed_options() {
    refuses(&[doc! {}], (-6, -6), "Field is required");
    refuses(&[doc! { "Field": "n", "Increment": 0 }], (-6, -6), "Increment must be within");
    refuses(&[doc! { "Field": "n", "CurrentValue": 5 }], (-6, -6), "CurrentValue cannot be set");
    refuses(
        &[doc! { "Field": "n" }, doc! { "Field": "m", "MaxValue": 5 }],
        (-6, -6),
        "CacheSize must be at most",
    );
}

#[test]
fn the_options_of_a_field_have_types() {
    let wrong =
        |options: Document, words: &str| sequence_refuses(AutoIncrement::try_from(options), -6, words);
    wrong(doc! { "Field": 1 }, "Field must be a string, not the integer 1");
    wrong(doc! { "Field": ["a"] }, "Field must be a string, not an array");
    wrong(
        doc! { "Generated": "Always" },
        "\"always\", \"alwaysStrict\", \"default\", \"strict\", not \"Always\"",
    );
    wrong(doc! { "Generated": true }, "Generated must be a string");
    wrong(doc! { "GenerateOnNull": 1 }, "GenerateOnNull must be a boolean");
    wrong(doc! { "StartFromExisting": "x" }, "StartFromExisting must be a boolean");
    wrong(doc! { "OnTruncate": "stop" }, "OnTruncate must be one of \"restart\", \"continue\", not \"stop\"");
}

#[test]
fn a_document_and_a_builder_say_the_same() {
    let document = doc! { "Field": "a.b", "Generated": "alwaysStrict", "GenerateOnNull": true,
    "StartFromExisting": true, "OnTruncate": "continue", "Increment": 2, "Contract": "gapless" };
    let built = AutoIncrement::builder()
        .field("a.b")
        .generated(Generated::AlwaysStrict)
        .generate_on_null(true)
        .start_from_existing(true)
        .on_truncate(OnTruncate::Continue)
        .increment(2)
        .contract(Contract::Gapless)
        .build();
    assert_eq!(field(document), built);
}

#[test]
fn fields_must_not_be_the_same_nor_lie_in_each_other() {
    refuses(&named(&["a", "a"]), (-6, -332), "the auto-increment field");
    refuses(&named(&["a.aa", "a"]), (-6, -332), "the auto-increment field");
    refuses(&named(&["a.aa", "a.aa.aa"]), (-6, -332), "the auto-increment field");
}

#[test]
fn a_field_conflicts_with_those_of_the_collection() {
    for (present, new) in [("a", "a"), ("a.aa", "a"), ("a.aa", "a.aa.aa"), ("_id", "_id.x")] {
        let numbered = Numbered::with([doc! { "Field": present }]);
        let words =
            format!("the auto-increment field {new} conflicts with the field {present} of the collection");
        let both = [doc! { "Field": "other" }, doc! { "Field": new }].map(field);
        sequence_refuses(numbered.things.create_auto_increments(both).run(), -332, &words);
        assert_eq!(paths(&numbered), [present]);
        assert_eq!(numbered.client.database("test").list_sequences().run().unwrap().len(), 1);
    }
}

#[test]
fn siblings_are_allowed() {
    let numbered = Numbered::with(named(&["a.aa", "a.bb", "aa", "b.a", "ab"]));
    assert_eq!(paths(&numbered), ["a.aa", "a.bb", "aa", "ab", "b.a"]);
}

#[test]
fn a_collection_may_have_many_fields() {
    let names: Vec<String> = (0..64).map(|number| format!("f{number:02}")).collect();
    let numbered = Numbered::with(names.iter().map(|name| doc! { "Field": name }));
    let result = numbered.insert(doc! {});
    assert_eq!(result.generated.len(), 64);
    assert_eq!(numbered.stored()[0].keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
}

#[test]
fn an_existing_collection_is_not_made_again() {
    let numbered = Numbered::with([]);
    let db = numbered.client.database("test");
    let creation = db.create_collection("things").auto_increment(field(doc! { "Field": "n" }));
    crate::refused(creation.run(), 48, "already exists");
    assert_eq!(paths(&numbered), [""; 0]);
}

#[test]
fn a_field_can_be_added_to_documents_that_are_there() {
    let numbered = Numbered::with([]);
    numbered.things.insert_many([doc! { "n": 500 }, doc! { "x": 1 }]).run().unwrap();
    numbered.things.create_auto_increment(field(doc! { "Field": "n" })).run().unwrap();
    assert_eq!(numbered.stored(), [doc! { "n": 500 }, doc! { "x": 1 }]);
    assert_eq!(numbered.next(), 1);
}

/// Documents that are there, the options of a new field that looks at them, and its first value.
#[track_caller]
fn starts_behind(documents: &[Document], options: Document, first: Option<i64>) {
    let numbered = Numbered::with([]);
    if !documents.is_empty() {
        numbered.things.insert_many(documents).run().expect("stored");
    }
    let path = if documents.iter().any(|document| document.contains_key("a")) { "a.b" } else { "n" };
    let options = doc! { "Field": path, "StartFromExisting": true }.into_iter().chain(options).collect();
    numbered.things.create_auto_increment(field(options)).run().expect("made");
    assert_eq!(
        numbered.things.insert_one(doc! {}).run().ok().and_then(|result| result.last_generate_id),
        first
    );
}

#[test]
fn a_field_can_start_behind_what_is_there() {
    let three = [doc! { "n": 7 }, doc! { "n": 3_i64 }, doc! { "n": -50 }];
    starts_behind(&three, doc! {}, Some(8));
    starts_behind(&three, doc! { "Increment": -1 }, Some(-51));
    starts_behind(&three, doc! { "Increment": 5 }, Some(11));
    starts_behind(&three, doc! { "StartValue": 100 }, Some(100));
    starts_behind(&three, doc! { "MaxValue": 7, "CacheSize": 1, "AcquireSize": 1 }, None);
    starts_behind(&three, doc! { "Contract": "gapless" }, Some(8));
    starts_behind(&[], doc! {}, Some(1));
    let others = [doc! { "n": 900.0 }, doc! { "n": "x" }, doc! { "n": [800] }, doc! {}, doc! { "n": null }];
    starts_behind(&others, doc! {}, Some(1));
    starts_behind(
        &[doc! { "a": { "b": 9 } }, doc! { "a": [{ "b": 50 }] }, doc! { "a": 70 }],
        doc! {},
        Some(10),
    );
    starts_behind(&[doc! { "n": i64::MAX }], doc! {}, None);
}

#[test]
fn what_was_there_is_remembered_across_a_kill() {
    let numbered = Numbered::with([]);
    numbered.insert(doc! { "n": 41 });
    numbered
        .things
        .create_auto_increment(field(doc! { "Field": "n", "StartFromExisting": true }))
        .run()
        .unwrap();
    assert_eq!(numbered.killed().next(), 42);
    let altered =
        numbered.things.alter_auto_increment(field(doc! { "Field": "n", "StartFromExisting": true }));
    sequence_refuses(altered.run(), -6, "StartFromExisting cannot be set when a field is changed");
}

#[test]
fn dropped_fields_leave_their_values() {
    let numbered = Numbered::with(named(&["n", "m"]));
    numbered.next();
    numbered.things.drop_auto_increment("n").run().unwrap();
    assert_eq!(paths(&numbered), ["m"]);
    numbered.insert(doc! { "x": 1 });
    assert_eq!(numbered.stored(), [doc! { "m": 1_i64, "n": 1_i64 }, doc! { "x": 1, "m": 2_i64 }]);
    numbered.things.create_auto_increment(field(doc! { "Field": "n" })).run().unwrap();
    assert_eq!(numbered.next(), 1, "made again, it starts anew");
    numbered.things.drop_auto_increments(["n", "m"].map(str::to_owned)).run().unwrap();
    assert_eq!(paths(&numbered), [""; 0]);
    assert_eq!(numbered.client.database("test").list_sequences().run().unwrap(), [""; 0]);
}

#[test]
fn what_is_no_field_cannot_be_dropped() {
    let numbered = Numbered::with(named(&["n", "a.b"]));
    let dropped = |paths: &[&str]| {
        numbered.things.drop_auto_increments(paths.iter().map(|path| (*path).to_owned())).run()
    };
    for unknown in ["x", "a", "a.b.c", "N"] {
        let words = format!("{unknown} is not an auto-increment field of the collection");
        sequence_refuses(dropped(&[unknown]), -333, &words);
        sequence_refuses(dropped(&["n", unknown]), -333, &words);
    }
    sequence_refuses(dropped(&[""]), -6, "a name in it is empty");
    sequence_refuses(dropped(&["n", ""]), -6, "a name in it is empty");
    sequence_refuses(dropped(&[]), -6, "Field is required");
    assert_eq!(paths(&numbered), ["a.b", "n"]);
    let absent = numbered.client.database("test").collection::<Document>("absent");
    crate::refused(absent.drop_auto_increment("n").run(), 26, "ns not found");
    crate::refused(absent.alter_auto_increment(field(doc! { "Field": "n" })).run(), 26, "ns not found");
    sequence_refuses(absent.auto_increment("n").snapshot(), -333, "n is not an auto-increment field");
    assert_eq!(absent.auto_increments().run().unwrap(), []);
}

#[test]
fn fields_are_changed_together_or_not_at_all() {
    let numbered = Numbered::with(named(&["n", "m"]));
    let alter = |changes: &[Document]| {
        numbered.things.alter_auto_increments(changes.iter().cloned().map(field)).run()
    };
    let snapshots = || numbered.client.database("test").snapshot_sequences().run().unwrap();
    numbered.insert(doc! {});
    let before = snapshots();
    let change = || doc! { "Field": "n", "Increment": 5, "Generated": "always" };
    sequence_refuses(alter(&[change(), doc! { "Field": "x" }]), -333, "x is not an auto-increment field");
    sequence_refuses(
        alter(&[change(), doc! { "Field": "m", "Increment": 0 }]),
        -6,
        "Increment must be within",
    );
    sequence_refuses(alter(&[change(), change()]), -6, "are the same");
    sequence_refuses(alter(&[doc! { "Increment": 5 }]), -6, "Field is required");
    assert_eq!(snapshots(), before);
    let generated = numbered.insert(doc! { "n": 50 }).generated;
    assert_eq!(generated.iter().collect::<Vec<_>>(), [("m", 2)], "blocks and modes are as they were");
    alter(&[change(), doc! { "Field": "m", "CurrentValue": 70 }]).unwrap();
    let generated = numbered.insert(doc! { "n": 50 }).generated;
    assert_eq!(generated.iter().collect::<Vec<_>>(), [("m", 71), ("n", 1005)]);
}

#[test]
fn a_field_is_listed_with_the_names_of_the_model() {
    let numbered = Numbered::with([doc! { "Field": "a.b", "Generated": "strict" }]);
    let listed = numbered.things.auto_increments().run().unwrap().remove(0);
    let snapshot = numbered.things.auto_increment("a.b").snapshot().unwrap();
    let name = format!("SYS_{}_a.b_SEQ", snapshot.collection_id);
    let expected = doc! { "SequenceName": &name, "Field": "a.b", "Generated": "strict", "GenerateOnNull": false,
    "OnTruncate": "restart", "SequenceID": snapshot.id };
    assert_eq!(serialize_to_document(&listed).unwrap(), expected);
    let shown = serialize_to_document(&snapshot).unwrap();
    assert_eq!(shown.get("Internal"), Some(&bson!(true)));
    assert_eq!(shown.get("Name"), Some(&bson!(&name)));
    assert!(snapshot.collection_id > 0);
    let db = numbered.client.database("test");
    assert_eq!(db.list_sequences().run().unwrap(), std::slice::from_ref(&name));
    assert_eq!(db.snapshot_sequences().run().unwrap(), [snapshot]);
    sequence_refuses(db.sequence(&name).next_value().run(), -6, "belong to auto-increment fields");
    sequence_refuses(db.drop_sequence(name).run(), -6, "belong to auto-increment fields");
}
