//! The bounds that filters give for compound indexes: every match has an entry within them.

use bson::{Bson, Document, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::filter::entries::{EntryBounds, IndexedField};
use cairndb_query::filter::{Alternatives, Filter};
use index::collation::SIMPLE;
use index::extract::{ExtractedKeys, extract};
use index::key;
use index::multikey::ArrayComponents;
use index::spec::{IndexSpec, Sparseness, SpecOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::filter::model::{document, filter, operators, path};
use crate::filter::{parse, raw};

fn spec(fields: &Document, sparseness: Sparseness) -> Option<IndexSpec> {
    IndexSpec::parse(&raw(fields), SpecOptions { sparseness, ..SpecOptions::default() }).ok()
}

fn indexed<'a>(spec: &'a IndexSpec, arrays: &[ArrayComponents]) -> Vec<IndexedField<'a>> {
    let fields = spec.fields().iter().enumerate();
    fields
        .map(|(at, field)| IndexedField {
            path: &field.path,
            arrays: arrays.get(at).copied().unwrap_or_default(),
            collation: spec.collation(),
        })
        .collect()
}

/// The entries of a document as values, and where its arrays are. Returns `None` if it cannot be indexed.
fn entries(spec: &IndexSpec, document: &Document) -> Option<(Vec<Vec<Bson>>, Vec<ArrayComponents>)> {
    let mut keys = ExtractedKeys::default();
    extract(spec, &raw(document), &mut keys).ok()?;
    let rows = keys.iter().map(|(mut bytes, mut types)| {
        let values = spec
            .fields()
            .iter()
            .map(|field| key::decode(&mut bytes, field.direction, &mut types).expect("a key"));
        values.collect()
    });
    Some((rows.collect(), keys.array_components().to_vec()))
}

fn lies_within(row: &[Bson], bounds: &EntryBounds) -> bool {
    row.iter().zip(&bounds.sets).all(|(value, set)| {
        let value = bson::RawBson::try_from(value.clone()).expect("a value that can be written");
        set.contains(value.as_raw_bson_ref())
    })
}

fn is_found(spec: &IndexSpec, bounds: &EntryBounds, document: &Document) -> bool {
    entries(spec, document).is_some_and(|(rows, _)| rows.iter().any(|row| lies_within(row, bounds)))
}

/// Checks that every match has an entry within the bounds, and one in a sparse index if they promise it.
fn check_found(
    filter: &Document,
    fields: &Document,
    documents: &[Document],
    more: ArrayComponents,
) -> Result<(), TestCaseError> {
    check_found_with(filter, &Variables::default(), fields, documents, more)
}

/// Checks the same of a filter whose expressions use variables.
pub(crate) fn check_found_with(
    filter: &Document,
    variables: &Variables,
    fields: &Document,
    documents: &[Document],
    more: ArrayComponents,
) -> Result<(), TestCaseError> {
    let (Some(full), Some(sparse)) = (spec(fields, Sparseness::NotSparse), spec(fields, Sparseness::Sparse))
    else {
        return Ok(());
    };
    let parsed = Filter::parse_with(&raw(filter), variables).expect("a filter");
    let matches = |document: &Document| parsed.try_matches(&raw(document), variables).expect("an answer");
    for document in documents.iter().filter(|document| matches(document)) {
        let Some((_, arrays)) = entries(&full, document) else { continue };
        let wider: Vec<_> = (0..full.fields().len())
            .map(|at| arrays.get(at).copied().unwrap_or_default().union(more))
            .collect();
        for arrays in [arrays, wider] {
            let fields = indexed(&full, &arrays);
            let whole = parsed.entry_bounds(&fields);
            let branches =
                parsed.alternatives(8).into_iter().map(|alternatives| alternatives.entry_bounds(&fields));
            // One branch of an `$or` must find the document.
            let is_found_by = |bounds: &EntryBounds| {
                is_found(&full, bounds, document)
                    && (!bounds.has_value || is_found(&sparse, bounds, document))
            };
            prop_assert!(is_found_by(&whole), "{filter} on {document} by {fields:?}: {whole:?}");
            for branches in branches {
                prop_assert!(
                    branches.iter().any(is_found_by),
                    "{filter} on {document} by {fields:?}: {branches:?}"
                );
            }
        }
    }
    Ok(())
}

/// Indexes on one to three fields, which often share a part of their paths.
pub(crate) fn fields() -> impl Strategy<Value = Document> {
    vec((path(), select(vec![1, -1])), 1..4).prop_map(|fields| {
        fields.into_iter().map(|(path, direction)| (path, Bson::Int32(direction))).collect()
    })
}

pub(crate) fn number() -> impl Strategy<Value = Bson> {
    prop_oneof![6 => (0..3).prop_map(Bson::Int32), 1 => Just(Bson::Null), 1 => Just(Bson::Double(1.0))]
}

/// Values of `a` and `b`: numbers, objects and arrays of both, two levels deep.
fn dense_value() -> impl Strategy<Value = Bson> {
    number().prop_recursive(3, 12, 3, |inner| {
        let object = vec((select(vec!["x", "y"]).prop_map(String::from), inner.clone()), 0..3)
            .prop_map(|pairs| Bson::Document(pairs.into_iter().collect()));
        prop_oneof![2 => object.clone(), 2 => vec(object, 0..3).prop_map(Bson::Array), 2 => vec(inner, 0..3).prop_map(Bson::Array)]
    })
}

pub(crate) fn dense_document() -> impl Strategy<Value = Document> {
    vec((select(vec!["a", "b"]).prop_map(String::from), dense_value()), 0..3)
        .prop_map(|pairs| pairs.into_iter().collect())
}

pub(crate) fn dense_path() -> impl Strategy<Value = String> {
    select(vec!["a", "a.x", "a.y", "a.x.x", "a.x.y", "b", "b.x"]).prop_map(String::from)
}

fn relation() -> impl Strategy<Value = Document> {
    let names = select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne", "$in", "$nin"]);
    prop_oneof![
        8 => (names, number()).prop_map(|(name, number)| match name {
            "$in" | "$nin" => doc! { name: [number, 2] },
            name => doc! { name: number },
        }),
        1 => any::<bool>().prop_map(|exists| doc! { "$exists": exists }),
        1 => vec(number(), 0..3).prop_map(|list| doc! { "$eq": list }),
        1 => Just(doc! { "$gt": Bson::MinKey }),
        1 => Just(doc! { "$type": "number" }),
    ]
}

/// Conditions on paths through the same arrays: alone, below `$elemMatch`, negated and in branches.
pub(crate) fn dense_filter() -> impl Strategy<Value = Document> {
    let condition = (dense_path(), relation()).prop_map(|(path, relation)| doc! { path: relation });
    let inner =
        || (select(vec!["x", "y", "x.x"]), relation()).prop_map(|(path, relation)| doc! { path: relation });
    let both = (inner(), inner()).prop_map(|(first, second)| doc! { "$and": [first, second] });
    let element = prop_oneof![relation(), both];
    let of_element = (select(vec!["a", "a.x", "b"]), element)
        .prop_map(|(path, element)| doc! { path: { "$elemMatch": element } });
    prop_oneof![3 => condition, 2 => of_element].prop_recursive(3, 10, 3, |inner| {
        let clause = select(vec!["$and", "$and", "$or", "$nor"]);
        (clause, vec(inner, 1..4)).prop_map(|(clause, parts)| doc! { clause: parts })
    })
}

pub(crate) fn dense_fields() -> impl Strategy<Value = Document> {
    vec(dense_path(), 1..4).prop_map(|paths| paths.into_iter().map(|path| (path, Bson::Int32(1))).collect())
}

proptest! {
    #[test]
    fn every_match_has_an_entry_within_the_bounds(
        filter in filter(),
        fields in fields(),
        documents in vec(document(), 32),
        more in (0..8_u64).prop_map(ArrayComponents::from_bits),
    ) {
        check_found(&filter, &fields, &documents, more)?;
    }

    #[test]
    fn conditions_that_share_arrays_lose_no_match(
        filter in dense_filter(),
        fields in dense_fields(),
        documents in vec(dense_document(), 24),
        more in (0..8_u64).prop_map(ArrayComponents::from_bits),
    ) {
        check_found(&filter, &fields, &documents, more)?;
    }

    #[test]
    fn two_conditions_on_one_array_lose_no_match(
        (first, second) in (relation(), relation()),
        elements in vec(vec((number(), number()), 1..4), 24),
    ) {
        let element = |(x, y): (Bson, Bson)| Bson::Document(doc! { "x": x, "y": y });
        let document = |pairs: Vec<_>| doc! { "a": pairs.into_iter().map(element).collect::<Vec<_>>() };
        let documents: Vec<Document> = elements.into_iter().map(document).collect();
        let filter = doc! { "a.x": first, "a.y": second };
        check_found(&filter, &doc! { "a.x": 1, "a.y": 1 }, &documents, ArrayComponents::NONE)?;
    }

    #[test]
    fn elements_that_meet_operators_are_found(
        operators in operators(),
        path in path(),
        documents in vec(document(), 32),
    ) {
        check_found(&doc! { &path: { "$elemMatch": operators } }, &doc! { &path: 1 }, &documents, ArrayComponents::NONE)?;
    }
}

/// Checks which entries are within the bounds of a filter, in an index whose fields have these arrays.
#[track_caller]
fn check(filter: &Document, arrays: [u64; 2], inside: &[[Bson; 2]], outside: &[[Bson; 2]]) {
    let spec = spec(&doc! { "a.x": 1, "a.y": 1 }, Sparseness::NotSparse).expect("an index");
    let bounds = parse(filter).entry_bounds(&indexed(&spec, &arrays.map(ArrayComponents::from_bits)));
    for (rows, expected) in [(inside, true), (outside, false)] {
        for row in rows {
            assert_eq!(lies_within(row, &bounds), expected, "{row:?} for {filter}: {bounds:?}");
        }
    }
}

#[test]
fn fields_without_arrays_are_bounded_together() {
    let filter = doc! { "a.x": { "$gt": 1, "$lt": 5 }, "a.y": 7 };
    check(
        &filter,
        [0, 0],
        &[[bson!(3), bson!(7)]],
        &[[bson!(1), bson!(7)], [bson!(3), bson!(8)], [bson!(5), bson!(7)]],
    );
}

#[test]
fn of_conditions_on_fields_of_one_array_only_one_bounds() {
    let filter = doc! { "a.x": 1, "a.y": 2 };
    check(&filter, [1, 1], &[[bson!(1), bson!(2)], [bson!(1), bson!(9)]], &[[bson!(9), bson!(2)]]);
    // Arrays at the ends of both fields are not the same one, and no document has both.
    check(&filter, [2, 2], &[[bson!(1), bson!(2)]], &[[bson!(1), bson!(9)], [bson!(9), bson!(2)]]);
    let range = doc! { "a.x": { "$gt": 1, "$lt": 5 } };
    check(&range, [0, 0], &[], &[[bson!(0), bson!(0)], [bson!(9), bson!(0)]]);
    check(&range, [2, 0], &[[bson!(9), bson!(0)]], &[[bson!(0), bson!(0)]]);
}

#[test]
fn conditions_on_one_element_bound_its_entry_together() {
    let filter = doc! { "a": { "$elemMatch": { "x": 1, "y": { "$gt": 2, "$lt": 5 } } } };
    check(
        &filter,
        [1, 1],
        &[[bson!(1), bson!(3)]],
        &[[bson!(1), bson!(5)], [bson!(2), bson!(3)], [bson!(1), bson!(2)]],
    );
    // Another array below the element is a choice of its own.
    check(&filter, [1, 3], &[[bson!(1), bson!(9)]], &[[bson!(2), bson!(3)]]);
    let scalars = doc! { "a.x": { "$elemMatch": { "$gt": 1, "$lt": 5 } } };
    check(&scalars, [2, 0], &[[bson!(3), bson!(0)]], &[[bson!(1), bson!(0)], [bson!(5), bson!(0)]]);
}

#[test]
fn negated_conditions_bound_every_entry() {
    let filter = doc! { "a.x": { "$ne": 1 }, "a.y": { "$nin": [2, 3] } };
    check(
        &filter,
        [3, 3],
        &[[bson!(0), bson!(0)], [Bson::Null, Bson::Undefined]],
        &[[bson!(1), bson!(0)], [bson!(0), bson!(2)]],
    );
    check(&doc! { "a.x": { "$ne": null } }, [0, 0], &[[bson!(1), bson!(0)]], &[[Bson::Null, bson!(0)]]);
    // An empty array is not null, and an index stores it as undefined.
    check(
        &doc! { "a.x": { "$ne": null } },
        [2, 0],
        &[[Bson::Null, bson!(0)], [Bson::Undefined, bson!(0)]],
        &[],
    );
    check(
        &doc! { "a.x": { "$exists": false } },
        [3, 3],
        &[[Bson::Null, bson!(0)]],
        &[[Bson::Undefined, bson!(0)]],
    );
    check(
        &doc! { "a.x": { "$not": { "$gte": 3 } } },
        [0, 0],
        &[[bson!("x"), bson!(0)]],
        &[[bson!(3), bson!(0)]],
    );
}

#[test]
fn branches_are_bounded_by_all_of_them() {
    let filter = doc! { "$or": [{ "a.x": 1, "a.y": 2 }, { "a.x": 3 }] };
    check(&filter, [0, 0], &[[bson!(1), bson!(9)], [bson!(3), bson!(0)]], &[[bson!(2), bson!(2)]]);
    check(&doc! { "$or": [{ "a.x": 1 }, { "a.y": 1 }] }, [0, 0], &[[bson!(5), bson!(5)]], &[]);
    check(
        &doc! { "$nor": [{ "a.x": 1 }, { "a.y": 2 }] },
        [0, 0],
        &[[bson!(0), bson!(0)]],
        &[[bson!(1), bson!(0)], [bson!(0), bson!(2)]],
    );
}

#[test]
fn whole_arrays_are_found_by_an_element() {
    check(
        &doc! { "a.x": [4, 5] },
        [2, 0],
        &[[bson!(4), bson!(0)], [bson!([4, 5]), bson!(0)]],
        &[[bson!(5), bson!(0)]],
    );
    check(
        &doc! { "a.x": [] },
        [2, 0],
        &[[Bson::Undefined, bson!(0)], [bson!([]), bson!(0)]],
        &[[Bson::Null, bson!(0)]],
    );
    check(&doc! { "a.x": { "$gt": [4] } }, [2, 0], &[[bson!(1), bson!(0)]], &[]);
    // The array itself is greater than the lowest key, whatever its elements are.
    check(&doc! { "a.x": { "$gt": Bson::MinKey } }, [2, 0], &[[Bson::MinKey, bson!(0)]], &[]);
}

#[test]
fn an_element_that_is_an_array_is_an_entry_as_a_whole() {
    let nested = doc! { "a.x": { "$elemMatch": { "$elemMatch": { "$eq": 1 } } } };
    check(&nested, [2, 0], &[[bson!([1]), bson!(0)]], &[[bson!(1), bson!(0)]]);
}

#[test]
fn a_sparse_index_has_only_values_that_are_there() {
    let spec = spec(&doc! { "a": 1, "b": 1 }, Sparseness::Sparse).expect("an index");
    let has_value = |filter: Document| parse(&filter).entry_bounds(&indexed(&spec, &[])).has_value;
    for filter in
        [doc! { "a": 5 }, doc! { "b": { "$exists": true } }, doc! { "$or": [{ "a": 1 }, { "b": 1 }] }]
    {
        assert!(has_value(filter));
    }
    for filter in [
        doc! { "a": null },
        doc! { "c": 1 },
        doc! { "a": { "$ne": 5 } },
        doc! { "$or": [{ "a": 1 }, { "c": 1 }] },
    ] {
        assert!(!has_value(filter));
    }
    assert!(has_value(doc! { "a": { "$in": [1, null] }, "b": { "$type": "null" } }));
}

#[test]
fn positions_give_no_bounds_in_arrays() {
    let spec = spec(&doc! { "a.0": 1 }, Sparseness::NotSparse).expect("an index");
    let bounds = |arrays| {
        parse(&doc! { "a.0": 5 }).entry_bounds(&indexed(&spec, &[ArrayComponents::from_bits(arrays)]))
    };
    assert!(bounds(0).sets[0].is_points() && bounds(1).sets[0].is_all());
}

#[test]
fn alternatives_keep_the_other_conditions() {
    let filter: Filter =
        parse(&doc! { "b": { "$gt": 0 }, "$or": [{ "a": 1 }, { "$or": [{ "b": 5 }, { "b": 6 }] }] });
    let spec = spec(&doc! { "b": 1 }, Sparseness::NotSparse).expect("an index");
    let alternatives = filter.alternatives(8);
    assert_eq!(alternatives.iter().map(Alternatives::count).collect::<Vec<_>>(), [3]);
    let bounds = alternatives[0].entry_bounds(&indexed(&spec, &[]));
    assert!(!bounds[0].sets[0].is_all() && !bounds[0].sets[0].is_points() && bounds[1].sets[0].is_points());
}

#[test]
fn each_alternative_is_proven_by_itself() {
    let open = parse(&doc! { "open": true });
    let filter = parse(&doc! { "$or": [{ "open": true }, { "city": "Oslo" }] });
    assert_eq!(filter.alternatives(1)[0].imply(&open, &SIMPLE), [true, false]);
}

#[test]
fn the_paths_of_a_filter_are_those_of_its_conditions() {
    let filter =
        parse(&doc! { "city": "Oslo", "lines": { "$elemMatch": { "price": 5 } }, "$or": [{ "a": 1 }] });
    let paths = |limit| filter.paths(limit).iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(paths(8), ["city", "lines.price", "a"]);
    assert_eq!(paths(1), ["city"]);
}
