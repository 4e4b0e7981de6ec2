//! `$merge` against a naive model: any documents into any collection, by every mode, with errors in the middle.

use std::collections::BTreeMap;

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{Client, Database, IndexModel, IndexOptions};
use cairndb_tests::scratch::small;
use proptest::prelude::*;

/// The modes that may stand together.
const MODES: [(&str, &str); 11] = [
    ("replace", "insert"),
    ("replace", "discard"),
    ("replace", "fail"),
    ("merge", "insert"),
    ("merge", "discard"),
    ("merge", "fail"),
    ("keepExisting", "insert"),
    ("fail", "insert"),
    ("pipeline", "insert"),
    ("pipeline", "discard"),
    ("pipeline", "fail"),
];
const IMMUTABLE: i32 = 66;
const TAKEN: i32 = 11_000;
const NOT_MATCHED: i32 = 13_113;
const ON_MISSING: i32 = 51_132;
const ON_ARRAY: i32 = 51_185;

/// A whole number as one value of all types.
fn number(value: &Bson) -> Option<i64> {
    let integer = value.as_i64().or(value.as_i32().map(i64::from));
    integer.or_else(|| value.as_f64().and_then(|number| number.to_string().parse().ok()))
}

fn is_equal(left: &Bson, right: &Bson) -> bool {
    left == right || number(left).is_some_and(|left| number(right) == Some(left))
}

/// The value of a field as a unique index has it.
fn indexed(document: &Document, field: &str) -> Bson {
    document.get(field).cloned().unwrap_or(Bson::Null)
}

/// The stored documents, and unique by `_id` and by `k`.
struct Model {
    stored: Vec<Document>,
}

impl Model {
    fn place(&self, field: &str, value: &Bson) -> Option<usize> {
        self.stored.iter().position(|stored| is_equal(&indexed(stored, field), value))
    }

    /// Puts a document into a place, or behind all others.
    fn put(&mut self, place: Option<usize>, document: Document) -> Result<(), i32> {
        for field in ["_id", "k"] {
            let taken = self.place(field, &indexed(&document, field));
            // A made `_id` is new. The model has none for such a document.
            let is_made = field == "_id" && !document.contains_key("_id");
            if taken.is_some() && taken != place && !is_made {
                return Err(TAKEN);
            }
        }
        match place.and_then(|place| self.stored.get_mut(place)) {
            Some(stored) => *stored = document,
            None => self.stored.push(document),
        }
        Ok(())
    }

    fn merge(&mut self, new: &Document, on: &str, (matched, not_matched): (&str, &str)) -> Result<(), i32> {
        let key = match new.get(on) {
            None | Some(Bson::Null) => return Err(ON_MISSING),
            Some(Bson::Array(_)) => return Err(ON_ARRAY),
            Some(key) => key,
        };
        let place = self.place(on, key);
        let Some(old) = place.and_then(|place| self.stored.get(place)).cloned() else {
            return match not_matched {
                "insert" => self.put(None, new.clone()),
                "fail" => Err(NOT_MATCHED),
                _ => Ok(()),
            };
        };
        let mut changed = match matched {
            "fail" => return Err(TAKEN),
            "keepExisting" => return Ok(()),
            "replace" => Document::new(),
            _ => old.clone(),
        };
        if matched == "pipeline" {
            let sum =
                [&old, new].iter().map(|document| document.get_i32("v").expect("a number")).sum::<i32>();
            changed.insert("v", sum);
        } else {
            changed.extend(new.clone());
            match (old.get("_id"), new.get("_id")) {
                (Some(old), Some(new)) if !is_equal(old, new) => return Err(IMMUTABLE),
                (None, Some(_)) => return Err(IMMUTABLE),
                (Some(id), _) => drop(changed.insert("_id", id.clone())),
                (None, None) => {}
            }
        }
        self.put(place, changed)
    }
}

/// Documents without their made `_id`s, each as a map, because the order of fields is not that of the model.
fn comparable(documents: &[Document]) -> Vec<BTreeMap<String, String>> {
    let own = |(name, value): (&String, &Bson)| {
        if value.as_object_id().is_some() {
            return None;
        }
        // A key that was met keeps its type, and other tests say which type is met first.
        Some((name.clone(), number(value).map_or_else(|| value.to_string(), |number| number.to_string())))
    };
    let mut all: Vec<_> =
        documents.iter().map(|document| document.iter().filter_map(own).collect()).collect();
    all.sort();
    all
}

fn key() -> impl Strategy<Value = Option<Bson>> {
    let values = [bson!(0), bson!(1), bson!(1.0), bson!(2_i64), bson!(3), bson!("a"), bson!({ "x": 1 })];
    prop_oneof![9 => prop::sample::select(values.to_vec()).prop_map(Some), 1 => Just(None)]
}

fn document() -> impl Strategy<Value = Document> {
    (prop::option::of(0..6_i32), key(), 0..9_i32, prop::option::of(0..9_i32)).prop_map(|(id, k, v, w)| {
        let mut document = Document::new();
        document.extend(id.map(|id| ("_id".to_owned(), id.into())));
        document.extend(k.map(|k| ("k".to_owned(), k)));
        document.insert("v", v);
        document.extend(w.map(|w| ("w".to_owned(), w.into())));
        document
    })
}

/// A document that may lack what it is merged by, or have too much of it.
fn any_document() -> impl Strategy<Value = Document> {
    prop_oneof![
        12 => document(),
        1 => document().prop_map(|mut document| { document.insert("k", Bson::Null); document }),
        1 => document().prop_map(|mut document| { document.insert("k", [1]); document }),
    ]
}

/// Makes the target again, with as many of the documents as its indexes accept. Returns those.
fn prepare(database: &Database, documents: Vec<Document>) -> Model {
    let target = database.collection::<Document>("target");
    target.drop().run().expect("dropped");
    let unique = IndexOptions::builder().unique(true).build();
    target
        .create_index(IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build())
        .run()
        .expect("an index");
    let mut model = Model { stored: Vec::new() };
    for (document, id) in documents.into_iter().zip(0..) {
        let mut document = document;
        document.entry("_id".to_owned()).or_insert(Bson::Int32(id));
        if model.put(None, document.clone()).is_ok() {
            target.insert_one(document).run().expect("inserted");
        }
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn merging_does_what_a_naive_model_does(
        stored in prop::collection::vec(document(), 0..8),
        new in prop::collection::vec(any_document(), 0..6),
        modes in prop::sample::select(MODES.to_vec()),
        on in prop::sample::select(vec!["_id", "k"]),
    ) {
        // One database for all: a new one for each would need longer than the test.
        thread_local! {
            static CLIENT: Client = small().in_memory(true).open("").expect("made");
        }
        // By `_id` a document without one is always inserted, which the model cannot find again.
        let new: Vec<Document> = new.into_iter().zip(0..).map(|(mut new, id)| {
            if on == "_id" { new.entry("_id".to_owned()).or_insert(Bson::Int32(id)); }
            if on == "_id" && matches!(new.get("k"), Some(Bson::Array(_))) { new.remove("k"); }
            new
        }).collect();
        CLIENT.with(|client| {
            let database = client.database("app");
            let mut model = prepare(&database, stored);
            let expected = new.iter().try_for_each(|new| model.merge(new, on, modes));
            let matched: Bson = if modes.0 == "pipeline" {
                bson!([{ "$set": { "v": { "$add": ["$v", "$$new.v"] } } }])
            } else {
                modes.0.into()
            };
            let literals: Vec<Document> = new.iter().map(|new| doc! { "$literal": new.clone() }).collect();
            let merge = doc! { "into": "target", "on": on, "whenMatched": matched, "whenNotMatched": modes.1 };
            let stages = [doc! { "$documents": literals }, doc! { "$merge": merge }];
            let merged = database.aggregate(stages).run().map(drop).map_err(|error| error.code().unwrap_or(0));
            prop_assert_eq!(merged, expected);
            let found = database.collection::<Document>("target").find(doc! {}).run().expect("a search");
            let found: Vec<Document> = found.collect::<Result<_, _>>().expect("documents");
            // Documents that were written before an error stay, as in the model.
            prop_assert_eq!(comparable(&found), comparable(&model.stored));
            Ok(())
        })?;
    }
}
