//! Tests of the keys that a document has in an index.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::*;
use crate::interval::Interval;
use crate::key::LongKeys;
use crate::path::{FieldPath, leaves};
use crate::proptest_support::any_value;
use crate::spec::{IndexField, Sparseness, SpecOptions};
use bson::{Bson, Document, RawDocumentBuf, doc};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn spec(keys: &Document, sparseness: Sparseness) -> IndexSpec {
    let options = SpecOptions { sparseness, ..SpecOptions::default() };
    IndexSpec::parse(&RawDocumentBuf::try_from(keys).unwrap(), options).unwrap()
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn encoded(spec: &IndexSpec, values: &[Bson]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (value, field) in values.iter().zip(spec.fields()) {
        let value = bson::RawBson::try_from(value.clone()).unwrap();
        spec.long_keys().encode(value.as_raw_bson_ref(), field.direction, &mut bytes);
    }
    bytes
}

fn extracted(spec: &IndexSpec, document: &Document) -> Result<ExtractedKeys, Error> {
    let mut keys = ExtractedKeys::default();
    extract(spec, &raw(document), &mut keys)?;
    Ok(keys)
}

#[track_caller]
fn check_sparse(sparseness: Sparseness, fields: &Document, document: &Document, expected: &[&[Bson]]) {
    let spec = spec(fields, sparseness);
    let keys = extracted(&spec, document).unwrap();
    let expected: BTreeSet<_> = expected.iter().map(|values| encoded(&spec, values)).collect();
    assert_eq!(keys.iter().map(|(bytes, _)| bytes.to_vec()).collect::<Vec<_>>(), Vec::from_iter(expected));
}

#[test]
fn a_wildcard_index_has_keys_of_paths_and_values() {
    let all = doc! { "$**": -1 };
    check(&all, &doc! { "_id": 1, "a": { "b": 2 } }, &[&["a.b".into(), 2.into()]]);
    check(&all, &doc! { "a": [1, 1.0, 2] }, &[&["a".into(), 1.into()], &["a".into(), 2.into()]]);
    check(&all, &doc! { "_id": 1 }, &[]);
    let arrays = |document: Document| {
        let keys = extracted(&spec(&all, Sparseness::NotSparse), &document).unwrap();
        keys.array_components().iter().map(|arrays| arrays.bits()).collect::<Vec<_>>()
    };
    assert_eq!(arrays(doc! { "a": { "b": [1] } }), [0, 1]);
    assert_eq!(arrays(doc! { "a": { "b": 1 } }), [0_u64; 0]);
    assert_eq!(arrays(doc! { "_id": 1, "a": [] }), [0, 1]);
}

#[track_caller]
fn check(fields: &Document, document: &Document, expected: &[&[Bson]]) {
    check_sparse(Sparseness::NotSparse, fields, document, expected);
}

#[track_caller]
fn check_refused(fields: &Document, document: &Document, error: Error) {
    let mut keys = ExtractedKeys::default();
    let refused = extract(&spec(fields, Sparseness::NotSparse), &raw(document), &mut keys);
    assert_eq!((refused, keys.len()), (Err(error), 0));
}

fn int(value: i32) -> Bson {
    Bson::Int32(value)
}

#[test]
fn scalars_have_one_key() {
    check(&doc! { "a": 1 }, &doc! { "a": 5 }, &[&[int(5)]]);
    check(&doc! { "a.b": -1 }, &doc! { "a": { "b": "x" } }, &[&["x".into()]]);
    check(&doc! { "a": 1, "b": -1 }, &doc! { "b": 2, "a": 1 }, &[&[int(1), int(2)]]);
}

#[test]
fn documents_are_indexed_as_a_whole() {
    check(&doc! { "a": 1 }, &doc! { "a": { "b": [1] } }, &[&[doc! { "b": [1] }.into()]]);
}

#[test]
fn missing_fields_are_null() {
    check(&doc! { "a": 1 }, &doc! {}, &[&[Bson::Null]]);
    check(&doc! { "a.b": 1 }, &doc! { "a": 5 }, &[&[Bson::Null]]);
    check(&doc! { "a": 1, "b": 1 }, &doc! { "b": 1 }, &[&[Bson::Null, int(1)]]);
}

#[test]
fn every_distinct_element_has_a_key() {
    check(&doc! { "a": 1 }, &doc! { "a": [3, 1, 3, 2] }, &[&[int(1)], &[int(2)], &[int(3)]]);
    check(&doc! { "a": -1 }, &doc! { "a": [3, 1] }, &[&[int(3)], &[int(1)]]);
    check(&doc! { "a": 1 }, &doc! { "a": [[1, 2], 3] }, &[&[vec![int(1), int(2)].into()], &[int(3)]]);
    check(&doc! { "a": 1, "b": 1 }, &doc! { "a": [1, 2], "b": 7 }, &[&[int(1), int(7)], &[int(2), int(7)]]);
}

#[test]
fn equal_elements_of_different_types_are_one_key() {
    let spec = spec(&doc! { "a": 1 }, Sparseness::NotSparse);
    let keys = extracted(&spec, &doc! { "a": [1.0, 1, 1_i64] }).unwrap();
    let int32 = extracted(&spec, &doc! { "a": [1] }).unwrap();
    assert_eq!(keys.iter().collect::<Vec<_>>(), int32.iter().collect::<Vec<_>>());
}

#[test]
fn an_empty_array_is_undefined() {
    check(&doc! { "a": 1 }, &doc! { "a": [] }, &[&[Bson::Undefined]]);
    check(&doc! { "a.b": 1 }, &doc! { "a": [] }, &[&[Bson::Null]]);
    check(&doc! { "a": 1, "a.b": 1 }, &doc! { "a": [] }, &[&[Bson::Undefined, Bson::Null]]);
    check(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": [] }, { "b": 1 }] }, &[&[Bson::Undefined], &[int(1)]]);
}

#[test]
fn paths_go_through_arrays_of_objects() {
    check(
        &doc! { "a.b": 1 },
        &doc! { "a": [{ "b": 1 }, { "b": [2, 3] }] },
        &[&[int(1)], &[int(2)], &[int(3)]],
    );
    check(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": 1 }, {}] }, &[&[int(1)], &[Bson::Null]]);
    check(&doc! { "a.b": 1 }, &doc! { "a": [5] }, &[&[Bson::Null]]);
    check(&doc! { "a.b": 1 }, &doc! { "a": [[{ "b": 1 }]] }, &[&[Bson::Null]]);
}

#[test]
fn fields_below_one_array_are_paired() {
    let document = doc! { "a": [{ "b": 1, "c": 2 }, { "b": 3, "c": 4 }, { "c": 5 }] };
    let expected: [&[Bson]; 3] = [&[int(1), int(2)], &[int(3), int(4)], &[Bson::Null, int(5)]];
    check(&doc! { "a.b": 1, "a.c": 1 }, &document, &expected);
}

#[test]
fn parallel_arrays_are_refused() {
    let parallel =
        |second: &str, first: &str| Error::ParallelArrays { second: second.into(), first: first.into() };
    check_refused(&doc! { "a": 1, "b": 1 }, &doc! { "a": [1], "b": [2] }, parallel("b", "a"));
    check_refused(&doc! { "x.a": 1, "x.b": 1 }, &doc! { "x": { "a": [], "b": [] } }, parallel("b", "a"));
    check_refused(&doc! { "x.a": 1, "x.b": 1 }, &doc! { "x": [{ "a": [1], "b": [1] }] }, parallel("b", "a"));
    let message = parallel("b", "a").to_string();
    assert_eq!(message, "cannot index parallel arrays [b] [a]");
}

#[test]
fn arrays_of_different_elements_are_not_parallel() {
    let document = doc! { "x": [{ "a": [1, 2], "b": 3 }, { "a": 4, "b": [5] }] };
    let expected: [&[Bson]; 3] = [&[int(1), int(3)], &[int(2), int(3)], &[int(4), int(5)]];
    check(&doc! { "x.a": 1, "x.b": 1 }, &document, &expected);
}

#[test]
fn positions_pick_an_element() {
    check(&doc! { "a.0": 1 }, &doc! { "a": [1, 2] }, &[&[int(1)]]);
    check(&doc! { "a.1.b": 1 }, &doc! { "a": [{ "b": 1 }, { "b": 2 }] }, &[&[int(2)]]);
    check(&doc! { "a.5": 1 }, &doc! { "a": [1, 2] }, &[&[Bson::Null]]);
    check(&doc! { "a.0": 1 }, &doc! { "a": { "0": 7 } }, &[&[int(7)]]);
    check(&doc! { "a.0.b": 1 }, &doc! { "a": [[{ "b": 1 }, { "b": 2 }]] }, &[&[int(1)], &[int(2)]]);
    check(&doc! { "a": 1, "a.0": 1 }, &doc! { "a": [1, 2] }, &[&[int(1), int(1)], &[int(2), int(1)]]);
}

#[test]
fn an_array_at_a_position_is_one_value() {
    check(&doc! { "a.0": 1 }, &doc! { "a": [[1, 2], 3] }, &[&[vec![int(1), int(2)].into()]]);
    check(&doc! { "a.0": 1 }, &doc! { "a": [[]] }, &[&[Bson::Undefined]]);
    check(&doc! { "a.0.b": 1 }, &doc! { "a": [{ "b": [1, 2] }] }, &[&[int(1)], &[int(2)]]);
}

#[test]
fn a_position_that_is_a_field_too_is_refused() {
    let ambiguous = Error::AmbiguousPosition { field: "0".into() };
    check_refused(&doc! { "a.0": 1 }, &doc! { "a": [{ "0": 1 }] }, ambiguous.clone());
    check_refused(&doc! { "a.0": 1 }, &doc! { "a": [5, { "0": 1 }] }, ambiguous);
    check(&doc! { "a.1": 1 }, &doc! { "a": [{ "1": 9 }] }, &[&[int(9)]]);
}

#[test]
fn a_sparse_index_leaves_out_what_lacks_all_fields() {
    let sparse = |fields: &Document, document: &Document, expected: &[&[Bson]]| {
        check_sparse(Sparseness::Sparse, fields, document, expected);
    };
    sparse(&doc! { "a": 1 }, &doc! { "b": 1 }, &[]);
    sparse(&doc! { "a": 1 }, &doc! { "a": Bson::Null }, &[&[Bson::Null]]);
    sparse(&doc! { "a": 1 }, &doc! { "a": [] }, &[&[Bson::Undefined]]);
    sparse(&doc! { "a.b": 1 }, &doc! { "a": [] }, &[]);
    sparse(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": 1 }, {}] }, &[&[int(1)]]);
    sparse(&doc! { "a": 1, "b": 1 }, &doc! { "b": 1 }, &[&[Bson::Null, int(1)]]);
    sparse(&doc! { "a": 1, "b": 1 }, &doc! { "c": 1 }, &[]);
}

#[test]
fn arrays_make_a_document_multikey() {
    let is_multikey = |document| {
        extracted(&spec(&doc! { "a.b": 1 }, Sparseness::NotSparse), &document).unwrap().is_multikey()
    };
    assert!(is_multikey(doc! { "a": [{ "b": 1 }] }) && is_multikey(doc! { "a": [] }));
    assert!(!is_multikey(doc! { "a": { "b": 1 }, "c": [1] }) && !is_multikey(doc! {}));
}

#[test]
fn each_field_tells_which_components_met_an_array() {
    let components = |fields: Document, document: Document| -> Vec<u64> {
        let keys = extracted(&spec(&fields, Sparseness::NotSparse), &document).unwrap();
        keys.array_components().iter().map(|arrays| arrays.bits()).collect()
    };
    let fields = doc! { "a.b": 1, "c": 1 };
    assert_eq!(components(fields.clone(), doc! { "a": { "b": 1 }, "c": 1 }), [0; 0]);
    assert_eq!(components(fields.clone(), doc! { "a": [], "c": 1 }), [0b01, 0]);
    assert_eq!(components(fields.clone(), doc! { "a": { "b": [1] } }), [0b10, 0]);
    assert_eq!(components(fields.clone(), doc! { "a": [{ "b": 1 }, { "b": [] }] }), [0b11, 0]);
    assert_eq!(components(fields, doc! { "a": 1, "c": [1] }), [0, 0b1]);
    assert_eq!(components(doc! { "a.0": 1 }, doc! { "a": [5, [6]] }), [0b01]);
    assert_eq!(components(doc! { "a.1": 1 }, doc! { "a": [5, [6]] }), [0b11]);
}

#[test]
fn buffers_forget_the_last_document() {
    let spec = spec(&doc! { "a": 1 }, Sparseness::Sparse);
    let mut keys = extracted(&spec, &doc! { "a": [1, 2, 3] }).unwrap();
    extract(&spec, &raw(&doc! { "a": 1 }), &mut keys).unwrap();
    assert_eq!((keys.len(), keys.is_multikey()), (1, false));
    keys.clear();
    assert!(keys.is_empty() && keys.array_components().is_empty());
    extract(&spec, &raw(&doc! { "a": 1 }), &mut keys).unwrap();
    extract(&spec, &raw(&doc! {}), &mut keys).unwrap();
    assert!(keys.is_empty());
}

/// A text whose encoding has `bytes` bytes.
fn text_of(bytes: usize, last: char) -> String {
    "x".repeat(bytes - 3) + &last.to_string()
}

#[test]
fn a_long_value_is_shortened_and_marked() {
    let keys_of = |keys: &Document, document: &Document| {
        let spec = spec(keys, Sparseness::NotSparse).with_long_keys(LongKeys::Shortened);
        let found = extracted(&spec, document).unwrap();
        let marks: Vec<u64> = found.array_components().iter().map(|marks| marks.bits()).collect();
        let keys: Vec<_> = found.iter().map(|(key, types)| (key.len(), types.len())).collect();
        (keys, marks)
    };
    let mark = 1 << 63;
    for (bytes, key, types, marked) in
        [(1024, 1024, 1, false), (1025, 1056, 0, true), (1 << 20, 1056, 0, true)]
    {
        let found = keys_of(&doc! { "a": 1, "b": -1 }, &doc! { "a": 1, "b": text_of(bytes, 'y') });
        let marks = if marked { vec![0, mark] } else { vec![] };
        assert_eq!(found, (vec![(6 + key, 1 + types)], marks), "{bytes}");
    }
    let found = keys_of(&doc! { "a": 1, "b": 1 }, &doc! { "a": text_of(2000, 'y'), "b": [1, 2, 3] });
    assert_eq!(found, (vec![(1056 + 6, 1); 3], vec![mark, 1]));
    // Paths of one length that differ at their ends.
    let long = |last: &str| format!("{}{last}", "n".repeat(2000));
    let found = keys_of(&doc! { "$**": 1 }, &doc! { long("a"): 1, long("b"): 1, "b": [text_of(2000, 'y')] });
    assert_eq!(found, (vec![(3 + 1056, 1), (1056 + 6, 1), (1056 + 6, 1)], vec![mark, mark | 1]));
}

#[test]
fn long_elements_of_an_array_are_told_apart() {
    let spec = spec(&doc! { "a": 1 }, Sparseness::NotSparse).with_long_keys(LongKeys::Shortened);
    let elements = vec![text_of(3000, 'b'), text_of(3000, 'a'), text_of(3000, 'b'), "c".to_owned()];
    let keys = extracted(&spec, &doc! { "a": elements }).unwrap();
    assert_eq!(keys.iter().map(|(key, _)| key.len()).collect::<Vec<_>>(), [3, 1056, 1056]);
    let spec = spec.with_long_keys(LongKeys::Colliding);
    let keys = extracted(&spec, &doc! { "a": [text_of(3000, 'b'), text_of(3000, 'a')] }).unwrap();
    assert_eq!(keys.len(), 1);
}

#[test]
fn each_value_of_a_shortened_key_may_be_within() {
    let spec = spec(&doc! { "a": 1, "b": 1 }, Sparseness::NotSparse).with_long_keys(LongKeys::Colliding);
    let (a, b, c) = (text_of(3000, 'a'), text_of(3000, 'b'), text_of(3000, 'c'));
    let document = raw(&doc! { "a": [b.as_str(), a.as_str()], "b": 2 });
    let keys = extracted(&spec, &doc! { "a": &c, "b": 2 }).unwrap();
    let (key, _) = keys.iter().next().unwrap();
    let equal = |value: RawBson| Intervals::from_any([Interval::point(value)]);
    let within = |text: &str| {
        let sets = [equal(RawBson::String(text.to_owned())), equal(RawBson::Int32(2))];
        has_values_within(&spec, &document, key, &sets).unwrap()
    };
    assert_eq!([within(&a), within(&b), within(&c)], [Some(true), Some(true), Some(false)]);
    let others = extracted(&spec, &doc! { "a": &c, "b": 3 }).unwrap();
    let (other, _) = others.iter().next().unwrap();
    assert_eq!(has_values_within(&spec, &document, other, &[]).unwrap(), None);
}

/// The value was encoded and digested again for each element: 100,000 times 2 MB needed minutes.
#[test]
fn a_long_value_beside_an_array_is_encoded_once() {
    let spec = spec(&doc! { "text": 1, "a": 1 }, Sparseness::NotSparse).with_long_keys(LongKeys::Shortened);
    for text in [Bson::String("x".repeat(2 << 20)), doc! { "x": "x".repeat(2 << 20) }.into()] {
        let document = doc! { "text": text, "a": (0..50_000).collect::<Vec<i32>>() };
        assert_eq!(extracted(&spec, &document).unwrap().len(), 50_000);
    }
    let pointer = crate::proptest_support::db_pointer(&"x".repeat(2 << 20), [0; 12]);
    let document = doc! { "text": pointer, "a": (0..100).collect::<Vec<i32>>() };
    assert_eq!(extracted(&spec, &document).unwrap_err(), Error::KeysTooLarge { limit: KEY_BYTES_MAX });
}

#[test]
fn there_is_a_limit_of_keys() {
    let spec = spec(&doc! { "a": 1 }, Sparseness::NotSparse);
    let elements = |count: i32| doc! { "a": (0..count).collect::<Vec<i32>>() };
    assert_eq!(extracted(&spec, &elements(100_000)).unwrap().len(), KEYS_MAX);
    assert_eq!(extracted(&spec, &elements(100_001)).unwrap_err(), Error::TooManyKeys { limit: KEYS_MAX });
    assert_eq!(extracted(&spec, &doc! { "a": vec![7; 200_000] }).unwrap().len(), 1);
}

#[test]
fn there_is_a_limit_of_key_bytes() {
    let spec = spec(&doc! { "text": 1, "a": 1 }, Sparseness::NotSparse);
    let document = doc! { "text": "x".repeat(1 << 20), "a": (0..100).collect::<Vec<i32>>() };
    assert_eq!(extracted(&spec, &document).unwrap_err(), Error::KeysTooLarge { limit: KEY_BYTES_MAX });
}

#[test]
fn a_position_in_a_long_array_of_arrays_is_followed_once() {
    let inner = Bson::Array((0..3_000).map(Bson::Int32).collect());
    let document = doc! { "a": vec![inner; 300] };
    let spec = spec(&doc! { "a.0": 1 }, Sparseness::NotSparse);
    assert_eq!(extracted(&spec, &document).unwrap().len(), 1);
}

/// The rules once more, over decoded documents and without any regard to cost. Arrays are reported
/// apart by where they lie.
mod naive {
    use super::*;

    #[derive(Clone)]
    pub(super) enum Field {
        Rest(Vec<String>, Option<Picked>),
        Absent,
        Is(Bson),
    }

    impl Field {
        fn value(self) -> Bson {
            match self {
                Self::Is(value) => value,
                Self::Absent | Self::Rest(..) => Bson::Null,
            }
        }
    }

    /// The value at an explicit position of the list that was met last.
    #[derive(Clone)]
    pub(super) struct Picked {
        met: Met,
        is_list: bool,
    }

    #[derive(Clone)]
    pub(super) enum Met {
        Nothing,
        Scalar(Bson),
        List { place: Vec<String>, elements: Vec<Bson>, rest: Vec<String> },
    }

    #[derive(Debug)]
    pub(super) struct Refused;

    fn walk(value: &Bson, rest: &[String], place: &[String]) -> Met {
        match (value, rest) {
            (Bson::Array(elements), _) => {
                Met::List { place: place.to_vec(), elements: elements.clone(), rest: rest.to_vec() }
            }
            (value, []) => Met::Scalar(value.clone()),
            (Bson::Document(document), [name, rest @ ..]) => match document.get(name) {
                Some(value) => walk(value, rest, &[place, std::slice::from_ref(name)].concat()),
                None => Met::Nothing,
            },
            _ => Met::Nothing,
        }
    }

    /// The value that an open field meets from the current element.
    fn meet(
        current: &Bson,
        rest: &[String],
        picked: Option<&Picked>,
        place: &[String],
    ) -> Result<Met, Refused> {
        let has_field = current.as_document().is_some_and(|document| document.contains_key(&rest[0]));
        match picked {
            Some(_) if has_field => Err(Refused),
            Some(picked) => Ok(picked.met.clone()),
            None if current.as_document().is_some() => Ok(walk(current, rest, place)),
            None => Ok(Met::Nothing),
        }
    }

    pub(super) fn keys(
        fields: &[Field],
        current: &Bson,
        place: &[String],
        is_sparse: bool,
    ) -> Result<Vec<Vec<Bson>>, Refused> {
        let mut fields = fields.to_vec();
        let mut list: Option<List> = None;
        for (at, field) in fields.iter_mut().enumerate() {
            let Field::Rest(rest, picked) = field.clone() else { continue };
            match meet(current, &rest, picked.as_ref(), place)? {
                Met::Nothing => *field = Field::Absent,
                Met::Scalar(value) => *field = Field::Is(value),
                Met::List { place, .. } if list.as_ref().is_some_and(|list| list.place != place) => {
                    return Err(Refused);
                }
                Met::List { place, elements, rest } => {
                    let list = list.get_or_insert(List { place, elements, rests: vec![], whole: false });
                    list.rests.push((at, rest));
                    list.whole |= picked.is_some_and(|picked| picked.is_list);
                }
            }
        }
        match list {
            Some(list) => list.expand(&fields, is_sparse),
            None if is_sparse && fields.iter().all(|field| matches!(field, Field::Absent)) => Ok(vec![]),
            None => Ok(vec![fields.into_iter().map(Field::value).collect()]),
        }
    }

    struct List {
        place: Vec<String>,
        elements: Vec<Bson>,
        /// Which fields go through, and what follows.
        rests: Vec<(usize, Vec<String>)>,
        whole: bool,
    }

    impl List {
        fn expand(&self, fields: &[Field], is_sparse: bool) -> Result<Vec<Vec<Bson>>, Refused> {
            let nothing = [Bson::Undefined];
            let visited = if self.elements.is_empty() { &nothing } else { self.elements.as_slice() };
            let mut rows = Vec::new();
            for (index, element) in visited.iter().enumerate() {
                let mut next = fields.to_vec();
                self.rests.iter().for_each(|(at, rest)| next[*at] = self.next_field(rest, element));
                let place = [self.place.as_slice(), &[index.to_string()]].concat();
                rows.extend(keys(&next, element, &place, is_sparse)?);
            }
            Ok(rows)
        }

        fn next_field(&self, rest: &[String], element: &Bson) -> Field {
            let Some((name, tail)) = rest.split_first() else {
                let is_whole = self.whole && !self.elements.is_empty();
                let list = is_whole.then(|| Bson::Array(self.elements.clone()));
                return Field::Is(list.unwrap_or_else(|| element.clone()));
            };
            let mut places = self.elements.iter().enumerate();
            let picked = places.find(|(index, _)| index.to_string() == *name).map(|(_, value)| {
                let place = [self.place.as_slice(), &rest[..1]].concat();
                Picked { met: walk(value, tail, &place), is_list: value.as_array().is_some() }
            });
            Field::Rest(rest.to_vec(), picked)
        }
    }
}

fn small_value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        4 => (0..3).prop_map(Bson::Int32),
        1 => Just(Bson::Null),
        1 => Just(Bson::Double(1.0)),
        1 => any_value(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let pairs = vec((select(vec!["a", "b", "c", "0", "1"]).prop_map(String::from), inner.clone()), 0..4);
        let objects = pairs.prop_map(|pairs| Bson::Document(pairs.into_iter().collect()));
        prop_oneof![
            2 => objects.clone(),
            3 => vec(objects, 0..3).prop_map(Bson::Array),
            2 => vec(inner, 0..4).prop_map(Bson::Array),
        ]
    })
}

fn small_document() -> impl Strategy<Value = Document> {
    let names = select(vec!["a", "b", "c"]).prop_map(String::from);
    vec((names, small_value()), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn small_path() -> impl Strategy<Value = String> {
    let tail = vec(select(vec!["a", "b", "c", "0", "1"]), 0..3);
    (select(vec!["a", "a", "b", "c"]), tail).prop_map(|(first, tail)| [vec![first], tail].concat().join("."))
}

fn small_spec() -> impl Strategy<Value = IndexSpec> {
    let fields = vec((small_path(), select(vec![1, -1])), 1..4);
    (fields, select(vec![Sparseness::NotSparse, Sparseness::Sparse])).prop_map(|(fields, sparseness)| {
        let keys = fields.into_iter().map(|(path, direction)| (path, Bson::Int32(direction))).collect();
        spec(&keys, sparseness)
    })
}

proptest! {
    #[test]
    fn keys_are_those_of_the_naive_reference(spec in small_spec(), document in small_document()) {
        let parts = |field: &IndexField| field.path.components().map(String::from).collect();
        let fields: Vec<_> = spec.fields().iter().map(|field| naive::Field::Rest(parts(field), None)).collect();
        let rows = naive::keys(&fields, &Bson::Document(document.clone()), &[], spec.is_sparse());
        match (rows, extracted(&spec, &document)) {
            (Ok(rows), Ok(keys)) => {
                let expected: BTreeSet<_> = rows.iter().map(|row| encoded(&spec, row)).collect();
                let found: Vec<_> = keys.iter().map(|(bytes, _)| bytes.to_vec()).collect();
                prop_assert_eq!(found, Vec::from_iter(expected));
            }
            (Err(naive::Refused), Err(Error::ParallelArrays { .. } | Error::AmbiguousPosition { .. })) => {}
            (rows, keys) => prop_assert!(false, "{:?} and {:?}", rows, keys),
        }
    }

    #[test]
    fn components_with_arrays_are_those_that_a_filter_finds(spec in small_spec(), document in small_document()) {
        let Ok(keys) = extracted(&spec, &document) else { return Ok(()) };
        let stored = raw(&document);
        for (at, field) in spec.fields().iter().enumerate() {
            let told = keys.array_components().get(at).copied().unwrap_or_default();
            let names: Vec<&str> = field.path.components().collect();
            for component in 0..names.len() {
                let front = FieldPath::parse(&names[..=component].join(".")).unwrap();
                let found = leaves(&stored, &front, &mut |leaf| match leaf.value {
                    Some(RawBsonRef::Array(_)) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                });
                prop_assert_eq!(told.contains(component), found.is_break(), "{} of {:?}", component, names);
            }
        }
    }

    #[test]
    fn keys_restore_a_row_of_values(spec in small_spec(), document in small_document()) {
        if let Ok(keys) = extracted(&spec, &document) {
            for (mut bytes, mut types) in keys.iter() {
                let whole = bytes;
                let mut row = Vec::new();
                for field in spec.fields() {
                    row.push(key::decode(&mut bytes, field.direction, &mut types).unwrap());
                }
                prop_assert!(bytes.is_empty() && types.is_empty());
                prop_assert_eq!(encoded(&spec, &row), whole);
            }
        }
    }

    #[test]
    fn what_a_filter_sees_is_found_by_its_key(text in small_path(), document in small_document()) {
        let spec = spec(&doc! { &text: 1 }, Sparseness::NotSparse);
        let Ok(keys) = extracted(&spec, &document) else { return Ok(()) };
        let keys: BTreeSet<_> = keys.iter().map(|(bytes, _)| bytes.to_vec()).collect();
        let has_position = text.split('.').any(|name| crate::path::array_index(name).is_some());
        let mut offered = Vec::new();
        let stored = raw(&document);
        let _ = leaves(&stored, &FieldPath::parse(&text).unwrap(), &mut |leaf| {
            match (leaf.value.map(|value| Bson::try_from(value).unwrap()), leaf.expand) {
                (Some(Bson::Array(elements)), _) if elements.is_empty() => offered.push(Bson::Undefined),
                (Some(Bson::Array(elements)), true) => offered.extend(elements),
                (Some(value), _) => offered.push(value),
                (None, _) if has_position => {}
                (None, _) => offered.push(Bson::Null),
            }
            ControlFlow::Continue(())
        });
        for value in offered {
            prop_assert!(keys.contains(&encoded(&spec, std::slice::from_ref(&value))), "{}", value);
        }
    }
}

/// A long value beside an array is in the key of each element, and is compared with its set once.
#[test]
fn a_long_value_beside_an_array_is_compared_once() {
    let spec = spec(&doc! { "a": 1, "t": 1 }, Sparseness::NotSparse).with_long_keys(LongKeys::Shortened);
    let long = text_of(4 << 20, 'a');
    let document = raw(&doc! { "a": &long, "t": vec![Bson::Null; 100_000] });
    let keys = extracted(&spec, &doc! { "a": &long, "t": Bson::Null }).unwrap();
    let (key, _) = keys.iter().next().unwrap();
    let other = Interval::point(RawBson::String(text_of(4 << 20, 'b')));
    let started = std::time::Instant::now();
    let sets = [Intervals::from_any([other]), Intervals::all()];
    assert_eq!(has_values_within(&spec, &document, key, &sets).unwrap(), Some(false));
    // A comparison for each element would be 400 GB.
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
}
