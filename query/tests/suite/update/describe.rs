//! Descriptions of updates: applied to the old document by a naive reading of MongoDB's rules, they give the new one to the byte.

use bson::{Bson, Document, bson, doc};
use cairndb_query::update::describe;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::update::apply::apply;
use crate::update::raw;

fn told(old: &Document, new: &Document) -> Option<Document> {
    let description = describe(&raw(old), &raw(new))?;
    Some(Document::try_from(description).expect("a document"))
}

#[expect(clippy::needless_pass_by_value, reason = "a case is one line of data")]
#[track_caller]
fn check(old: Document, new: Document, expected: impl Into<Option<Document>>) {
    let expected = expected.into();
    let found = told(&old, &new);
    assert_eq!(found, expected, "{old} -> {new}");
    if let Some(description) = found {
        assert_eq!(apply(&old, &description), raw(&new));
    }
}

fn description(updated: Document, removed: &[&str], truncated: &[(&str, i32)]) -> Document {
    let removed: Vec<Bson> = removed.iter().map(|path| Bson::from(*path)).collect();
    let truncated = truncated.iter().map(|(field, len)| bson!({ "field": *field, "newSize": *len }));
    doc! { "updatedFields": updated, "removedFields": removed, "truncatedArrays": truncated.collect::<Vec<_>>() }
}

#[test]
fn fields_are_set_removed_and_added() {
    check(doc! { "a": 1 }, doc! { "a": 2 }, description(doc! { "a": 2 }, &[], &[]));
    check(doc! { "a": 1 }, doc! { "a": 1.0 }, description(doc! { "a": 1.0 }, &[], &[]));
    check(doc! { "a": 1, "b": 2 }, doc! { "b": 2, "c": 3 }, description(doc! { "c": 3 }, &["a"], &[]));
    let old = doc! { "a": { "b": { "c": 1, "d": "a long text here" } } };
    let new = doc! { "a": { "b": { "c": 2, "d": "a long text here" } } };
    check(old, new, description(doc! { "a.b.c": 2 }, &[], &[]));
}

#[test]
fn a_value_that_is_shorter_as_a_whole_is_told_so() {
    let (old, new) = (doc! { "a": { "b": 1 } }, doc! { "a": {} });
    check(old, new, description(doc! {}, &["a.b"], &[]));
    let (old, new) = (doc! { "abc": { "bcd": 1, "cde": 2, "def": 3 } }, doc! { "abc": { "bcd": 2 } });
    check(old, new, description(doc! { "abc": { "bcd": 2 } }, &[], &[]));
}

#[test]
fn arrays_are_cut_and_grow_at_their_end() {
    let long = || bson!(["one", "two", "three", "four"]);
    check(doc! { "a": long() }, doc! { "a": ["one", "two"] }, description(doc! {}, &[], &[("a", 2)]));
    let grown = bson!(["one", "two", "three", "four", "five"]);
    check(doc! { "a": long() }, doc! { "a": grown }, description(doc! { "a.4": "five" }, &[], &[]));
    let changed = bson!(["one", "2", "three"]);
    check(doc! { "a": long() }, doc! { "a": changed }, description(doc! { "a.1": "2" }, &[], &[("a", 3)]));
}

#[test]
fn another_order_of_fields_is_a_replacement() {
    check(doc! { "a": 1, "b": 2 }, doc! { "b": 2, "a": 1 }, None);
    check(doc! { "a": 1 }, doc! { "b": 2, "a": 1 }, None);
    let inner = doc! { "x": { "b": 2, "a": 1 } };
    check(doc! { "x": { "a": 1, "b": 2 } }, inner.clone(), description(inner, &[], &[]));
}

#[test]
fn paths_that_can_be_read_in_two_ways_are_explained() {
    let mut expected = description(doc! { "a.b": 2 }, &[], &[]);
    expected.insert("disambiguatedPaths", doc! { "a.b": ["a.b"] });
    check(doc! { "a.b": 1 }, doc! { "a.b": 2 }, expected);
    let old = doc! { "a": { "0": [1, 2, 3, 4, 5, 6] } };
    let mut expected = description(doc! { "a.0.1": 7 }, &[], &[]);
    expected.insert("disambiguatedPaths", doc! { "a.0.1": ["a", "0", 1] });
    check(old, doc! { "a": { "0": [1, 7, 3, 4, 5, 6] } }, expected);
    let old = doc! { "a": { "b": 1, "c": "a long text" }, "a.b": 1 };
    check(old, doc! { "a": { "b": 2, "c": "a long text" }, "a.b": 2 }, None);
}

#[test]
fn many_changes_are_told_as_one_value() {
    let numbers = |first: i32| (first..first + 20_000).map(Bson::Int32).collect::<Vec<_>>();
    let (old, new) = (numbers(0), numbers(1));
    check(
        doc! { "a": old.clone(), "b": 1 },
        doc! { "a": new.clone(), "b": 1 },
        description(doc! { "a": new }, &[], &[]),
    );
    let fields =
        |value: i32| (0..20_000).map(|n| (format!("f{n}"), Bson::Int32(value))).collect::<Document>();
    check(fields(1), fields(2), None);
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-c]", 1 => "[0-2]", 1 => "0[12]|-1", 1 => Just("a.b".to_owned()), 1 => Just(String::new())]
}

fn document_of(values: impl Strategy<Value = Bson> + Clone + 'static) -> impl Strategy<Value = Document> {
    vec((name(), values), 0..5).prop_map(Document::from_iter)
}

fn any_document() -> impl Strategy<Value = Document> {
    let scalar = || prop_oneof![(0..4).prop_map(Bson::Int32), "[a-c]{0,9}".prop_map(Bson::String)];
    let values = scalar().boxed().prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            1 => scalar(),
            1 => document_of(inner.clone()).prop_map(Bson::Document),
            1 => vec(inner, 0..5).prop_map(Bson::Array),
        ]
        .boxed()
    });
    document_of(values)
}

proptest! {
    #[test]
    fn a_description_makes_the_new_document_of_the_old_one(
        states in vec(any_document(), 2),
        position in 0..3_usize,
    ) {
        let [old, new] = &states[..] else { unreachable!("two states") };
        // Nearly alike ones too: one value of the old document in the new one's place.
        let mut near = old.clone();
        if let Some((name, value)) = new.iter().nth(position) {
            near.insert(name.clone(), value.clone());
        }
        for new in [new, &near] {
            if let Some(description) = told(old, new) {
                prop_assert_eq!(apply(old, &description), raw(new), "{}", description);
            }
        }
        // The only paths of which two can have the same text.
        let has_such = [old, &near].iter().any(|state| state.to_string().contains("a.b"));
        prop_assert!(told(old, &near).is_some() || has_such);
        prop_assert_eq!(told(old, old), Some(description(doc! {}, &[], &[])));
    }
}
