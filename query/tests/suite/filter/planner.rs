//! Plans, executed in memory: with any indexes a plan finds the same documents as a scan of all documents.

use std::collections::BTreeSet;

use bson::{Bson, Document, RawBson, RawDocumentBuf, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::filter::Filter;
use cairndb_query::operation::OperationContext;
use cairndb_query::planner::{
    Access, EntryScan, Hint, IndexView, Merge, MergeOrder, Needs, Plan, Request, Union, plans,
};
use cairndb_query::sort::Sort;
use index::collation::{Collation as Rules, SIMPLE};
use index::extract::{ExtractedKeys, extract};
use index::interval::{Intervals, Limit};
use index::key::{self, Direction};
use index::multikey::ArrayComponents;
use index::spec::{IndexSpec, Sparseness, SpecOptions, Uniqueness};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::filter::entries::{dense_document, dense_fields, dense_filter, dense_path, number};
use crate::filter::implied::expression;
use crate::filter::{parse, raw};

/// An index with the entries of some documents.
struct Stored {
    spec: IndexSpec,
    arrays: Vec<ArrayComponents>,
    /// Ascending by key, then by document.
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: Vec<u8>,
    document: usize,
}

/// Documents, each under its position as `_id`, and indexes on them.
struct Collection {
    documents: Vec<RawDocumentBuf>,
    indexes: Vec<Stored>,
}

fn spec(fields: &Document, options: SpecOptions) -> Option<IndexSpec> {
    IndexSpec::parse(&raw(fields), options).ok()
}

impl Collection {
    /// Keeps the documents that every index accepts, because an insert would reject the others.
    fn of(documents: Vec<Document>, specs: Vec<IndexSpec>) -> Self {
        let indexes = specs.into_iter().map(|spec| Stored {
            arrays: vec![ArrayComponents::NONE; spec.fields().len()],
            spec,
            entries: Vec::new(),
        });
        let mut all = Self { documents: Vec::new(), indexes: indexes.collect() };
        for document in documents {
            all.insert(document);
        }
        for index in &mut all.indexes {
            index.entries.sort();
        }
        all
    }

    fn insert(&mut self, document: Document) {
        let position = self.documents.len();
        let mut whole = doc! { "_id": i32::try_from(position).expect("few documents") };
        whole.extend(document);
        let document = raw(&whole);
        let mut keys = vec![ExtractedKeys::default(); self.indexes.len()];
        for (index, keys) in self.indexes.iter().zip(&mut keys) {
            if extract(&index.spec, &document, keys).is_err() || index.is_taken(keys) {
                return;
            }
        }
        for (index, keys) in self.indexes.iter_mut().zip(&keys) {
            for (arrays, new) in index.arrays.iter_mut().zip(keys.array_components()) {
                *arrays = arrays.union(*new);
            }
            index.entries.extend(keys.iter().map(|(key, _)| Entry { key: key.to_vec(), document: position }));
        }
        self.documents.push(document);
    }

    fn views(&self) -> Vec<IndexView<'_>> {
        self.indexes.iter().map(|index| IndexView::new(&index.spec, &index.arrays)).collect()
    }

    /// The documents that a plan reaches, in the order of their first visits.
    fn reached(&self, access: &Access) -> Vec<usize> {
        let mut order = match access {
            Access::Nothing => Vec::new(),
            Access::Records(scan) => {
                let ids = 0..self.documents.len();
                let inside = |id: &usize| scan.ids.contains(self.id(*id).as_raw_bson_ref());
                directed(ids.filter(inside).collect(), scan.direction)
            }
            Access::Entries(scan) => self.scanned(scan),
            Access::Union(union) => union.scans.iter().flat_map(|part| self.reached(part)).collect(),
            Access::Merge(merge) => self.merged(merge),
        };
        let mut seen = BTreeSet::new();
        order.retain(|document| seen.insert(*document));
        order
    }

    /// The documents of merged scans. Each scan must have the order by which they are merged.
    fn merged(&self, merge: &Merge) -> Vec<usize> {
        match &merge.order {
            MergeOrder::Sort(sort) => {
                let key = |document: &usize| sort.key(self.document(*document)).expect("sortable");
                let scans = merge.scans.iter().map(|scan| self.reached(scan));
                let scans = scans.inspect(|scan| assert!(scan.is_sorted_by_key(key), "{merge:?}"));
                let mut all: Vec<usize> = scans.flatten().collect();
                all.sort_by_key(key);
                all
            }
            MergeOrder::Keys { skipped, direction } => {
                let scans = merge.scans.iter().flat_map(|scan| {
                    let Access::Entries(scan) = scan else { panic!("{scan:?} has no keys") };
                    assert_eq!(scan.direction, *direction);
                    let index = self.indexes.get(scan.index).expect("an index");
                    self.entries_within(scan)
                        .into_iter()
                        .map(|entry| (rest_of(entry, index, *skipped), entry.document))
                });
                let mut all: Vec<(Vec<u8>, usize)> = scans.collect();
                all.sort();
                directed(all.into_iter().map(|(_, document)| document).collect(), *direction)
            }
        }
    }

    fn scanned(&self, scan: &EntryScan) -> Vec<usize> {
        let found: Vec<usize> = self.entries_within(scan).iter().map(|entry| entry.document).collect();
        if !scan.has_duplicates {
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{scan:?}");
        }
        directed(found, scan.direction)
    }

    /// The entries within the bounds of a scan, ascending.
    fn entries_within(&self, scan: &EntryScan) -> Vec<&Entry> {
        let index = self.indexes.get(scan.index).expect("an index");
        let inside = |entry: &&Entry| {
            let mut bytes = entry.key.as_slice();
            index.spec.fields().iter().zip(&scan.bounds).all(|(field, set)| {
                let length = key::skip(bytes, field.direction).expect("a key");
                let (own, rest) = bytes.split_at(length);
                bytes = rest;
                lies_within(own, field.direction, set)
            })
        };
        index.entries.iter().filter(inside).collect()
    }

    fn document(&self, at: usize) -> &RawDocumentBuf {
        self.documents.get(at).expect("a document")
    }

    fn id(&self, document: usize) -> RawBson {
        RawBson::from(self.document(document).get("_id").expect("well-formed").expect("an _id"))
    }

    /// Checks that a plan finds every match, and in order if it is sorted.
    fn check(&self, plan: &Plan, filter: &Filter, sort: Option<&Sort>) -> Result<(), TestCaseError> {
        self.check_with(plan, filter, &Variables::default(), sort)
    }

    /// Checks the same of a filter whose expressions use variables.
    fn check_with(
        &self,
        plan: &Plan,
        filter: &Filter,
        variables: &Variables,
        sort: Option<&Sort>,
    ) -> Result<(), TestCaseError> {
        let matches =
            |document: &usize| filter.try_matches(self.document(*document), variables).expect("an answer");
        let expected: Vec<usize> = (0..self.documents.len()).filter(matches).collect();
        let mut found: Vec<usize> = self.reached(&plan.access).into_iter().filter(matches).collect();
        if let Some(sort) = sort.filter(|_| plan.is_sorted) {
            let keys: Vec<_> =
                found.iter().map(|document| sort.key(self.document(*document)).expect("sortable")).collect();
            prop_assert!(keys.is_sorted(), "not sorted: {plan:?}");
        }
        found.sort_unstable();
        prop_assert_eq!(found, expected, "{:?} in {:?}", plan, self.documents);
        for scan in deciding(&plan.access) {
            let decided = self.scanned(scan).iter().all(matches);
            prop_assert!(decided, "{:?} decides {:?} in {:?}", scan, filter, self.documents);
        }
        Ok(())
    }
}

impl Stored {
    fn is_taken(&self, keys: &ExtractedKeys) -> bool {
        self.spec.is_unique() && keys.iter().any(|(key, _)| self.entries.iter().any(|entry| entry.key == key))
    }
}

/// The scans of which every entry is said to be that of a match.
fn deciding(access: &Access) -> Vec<&EntryScan> {
    match access {
        Access::Nothing | Access::Records(_) => Vec::new(),
        Access::Entries(scan) => Some(scan).filter(|scan| scan.decides).into_iter().collect(),
        Access::Union(Union { scans, .. }) | Access::Merge(Merge { scans, .. }) => {
            scans.iter().flat_map(deciding).collect()
        }
    }
}

/// The key of an entry without its first fields.
fn rest_of(entry: &Entry, index: &Stored, skipped: usize) -> Vec<u8> {
    let mut rest = entry.key.as_slice();
    for field in index.spec.fields().iter().take(skipped) {
        let length = key::skip(rest, field.direction).expect("a key");
        rest = rest.get(length..).expect("the fields after it");
    }
    rest.to_vec()
}

fn directed(mut order: Vec<usize>, direction: Direction) -> Vec<usize> {
    if direction == Direction::Descending {
        order.reverse();
    }
    order
}

/// Whether the key bytes of a field are those of a value in the set.
fn lies_within(own: &[u8], direction: Direction, set: &Intervals) -> bool {
    let encoded = |value: bson::RawBsonRef<'_>| {
        let mut bytes = Vec::new();
        key::encode(value, direction, &mut bytes);
        bytes
    };
    set.as_slice().iter().any(|interval| {
        let ((lower, from), (upper, to)) = (interval.lower(), interval.upper());
        let (lower, upper) = (encoded(lower), encoded(upper));
        let (above, below) = if direction == Direction::Ascending {
            (own.cmp(&lower), own.cmp(&upper))
        } else {
            (lower.as_slice().cmp(own), upper.as_slice().cmp(own))
        };
        (above.is_gt() || above.is_eq() && from == Limit::Inclusive)
            && (below.is_lt() || below.is_eq() && to == Limit::Inclusive)
    })
}

fn any_spec() -> impl Strategy<Value = Option<IndexSpec>> {
    let fields = (dense_fields(), vec(select(vec![1, -1]), 3), any::<bool>());
    let options = (select(vec![Sparseness::NotSparse, Sparseness::Sparse]), 0..5);
    (fields, options).prop_map(|((fields, directions, has_id), (sparseness, unique))| {
        let uniqueness = if unique == 0 { Uniqueness::Unique } else { Uniqueness::NotUnique };
        let mut fields: Document = fields
            .into_iter()
            .zip(directions)
            .map(|((path, _), direction)| (path, Bson::Int32(direction)))
            .collect();
        if has_id && unique == 1 {
            fields.insert("_id", 1);
        }
        spec(&fields, SpecOptions { uniqueness, sparseness })
    })
}

fn any_sort() -> impl Strategy<Value = Document> {
    let path = prop_oneof![4 => dense_path(), 1 => Just("_id".to_owned())];
    vec((path, select(vec![1, -1])), 1..4).prop_map(|fields| {
        fields.into_iter().map(|(path, direction)| (path, Bson::Int32(direction))).collect()
    })
}

/// Filters that often leave one value of a field, and sometimes have a condition on `_id`.
fn any_filter() -> impl Strategy<Value = Document> {
    let equal = (dense_path(), 0..3).prop_map(|(path, number)| doc! { path: number });
    let id = (0..20, select(vec!["$gt", "$lte", "$ne", "$eq"]))
        .prop_map(|(id, relation)| doc! { "_id": { relation: id } });
    let value = prop_oneof![4 => number(), 1 => number().prop_map(|number| bson!([number])), 1 => Just(bson!({ "x": 1 }))];
    let expr = expression(dense_path(), value).prop_map(|expression| doc! { "$expr": expression });
    let part = prop_oneof![3 => dense_filter(), 3 => equal, 1 => id, 2 => expr];
    let clause = select(vec!["$and", "$and", "$or"]);
    (clause, vec(part, 1..4)).prop_map(|(clause, parts)| doc! { clause: parts })
}

proptest! {
    #[test]
    fn every_plan_finds_what_matches_in_order(
        documents in vec(dense_document(), 1..24),
        specs in vec(any_spec(), 1..4),
        filters in vec(any_filter(), 8),
        sort in any_sort(),
    ) {
        let collection = Collection::of(documents, specs.into_iter().flatten().collect());
        let views = collection.views();
        let sort = Sort::parse(&raw(&sort)).expect("a sort");
        let hints = (0..views.len()).map(Hint::Index).chain([Hint::Records(Direction::Descending)]).map(Some);
        // A document with fields of the sort in different arrays cannot be sorted.
        let is_sortable = collection.documents.iter().all(|document| sort.key(document).is_ok());
        let hints: Vec<_> = hints.chain([None]).collect();
        for filter in filters {
            let filter = Filter::parse_with(&raw(&filter), &unset()).expect("a filter");
            for hint in hints.iter().copied() {
                for sort in [None, Some(&sort).filter(|_| is_sortable)] {
                    let request = Request { filter: Some(&filter), sort, indexes: &views, hint, ..Request::default() };
                    let found = plans(&request, &OperationContext::default());
                    prop_assert!(!found.is_empty());
                    for plan in &found {
                        collection.check_with(plan, &filter, &unset(), sort)?;
                    }
                }
            }
        }
    }
}

/// The variables of expressions: without values here.
fn unset() -> Variables {
    let variables = Variables::default().with("set", None).expect("a name");
    variables.with("unset", None).expect("a name")
}

/// Orders of texts: that of bytes, and two of a language.
fn any_rules() -> impl Strategy<Value = Rules> {
    let languages =
        [doc! { "locale": "en", "strength": 1 }, doc! { "locale": "en", "numericOrdering": true }];
    let languages = languages.iter().map(|document| Rules::parse(&raw(document)));
    // In a build without rules the order of bytes is all that is left to check.
    select(languages.filter_map(Result::ok).chain([SIMPLE.clone()]).collect::<Vec<_>>())
}

/// The same values with texts in place of some numbers.
fn with_texts(fields: Document) -> Document {
    let texts = |(name, value): (String, Bson)| {
        let is_compared = !["$exists", "$type", "_id"].contains(&name.as_str());
        (name, if is_compared { text_of(value) } else { value })
    };
    fields.into_iter().map(texts).collect()
}

fn text_of(value: Bson) -> Bson {
    if value == Bson::Int32(1) {
        "p".into()
    } else if value == Bson::Int32(2) {
        "P".into()
    } else if value.as_f64().is_some() {
        "a10".into()
    } else if let Bson::Document(fields) = value {
        Bson::Document(with_texts(fields))
    } else if let Bson::Array(items) = value {
        Bson::Array(items.into_iter().map(text_of).collect())
    } else {
        value
    }
}

proptest! {
    #[test]
    fn every_plan_finds_texts_by_their_rules(
        documents in vec(dense_document(), 1..24),
        specs in vec((any_spec(), any_rules()), 1..4),
        filters in vec(any_filter(), 8),
        sort in any_sort(),
        rules in any_rules(),
    ) {
        let documents = documents.into_iter().map(with_texts).collect();
        let specs = specs.into_iter().filter_map(|(spec, rules)| Some(spec?.with_collation(rules)));
        let collection = Collection::of(documents, specs.collect());
        let views = collection.views();
        let sort = Sort::parse(&raw(&sort)).expect("a sort").with_collation(&rules);
        let is_sortable = collection.documents.iter().all(|document| sort.key(document).is_ok());
        for filter in filters {
            let variables = unset().with_collation(rules.clone());
            let filter = Filter::parse_with(&raw(&with_texts(filter)), &variables).expect("a filter");
            for hint in (0..views.len()).map(Hint::Index).map(Some).chain([None]) {
                for sort in [None, Some(&sort).filter(|_| is_sortable)] {
                    let request = Request { filter: Some(&filter), sort, indexes: &views, hint, ..Request::default() };
                    for plan in &plans(&request, &OperationContext::default()) {
                        collection.check_with(plan, &filter, &variables, sort)?;
                    }
                }
            }
        }
    }
}

/// The check of the property above is worth something only if it notices an index that forgot its arrays.
#[test]
fn an_index_that_forgot_its_arrays_is_noticed() {
    let spec = spec(&doc! { "a": 1 }, SpecOptions::default()).expect("an index");
    let mut collection = Collection::of(vec![doc! { "a": [0, 10] }, doc! { "a": 4 }], vec![spec]);
    // One element is above 5, and another one below 3.
    let filter = parse(&doc! { "a": { "$gt": 5, "$lt": 3 } });
    let check = |collection: &Collection| {
        let views = collection.views();
        let request = Request { filter: Some(&filter), indexes: &views, ..Request::default() };
        plans(&request, &OperationContext::default())
            .iter()
            .try_for_each(|plan| collection.check(plan, &filter, None))
    };
    assert!(check(&collection).is_ok());
    collection.indexes[0].arrays = vec![ArrayComponents::NONE];
    assert!(check(&collection).is_err());
}

/// Indexes by their key patterns; `tags` holds arrays.
fn index_on(fields: &Document, options: SpecOptions) -> (IndexSpec, Vec<ArrayComponents>) {
    let spec = spec(fields, options).expect("an index");
    let arrays = spec
        .fields()
        .iter()
        .map(|field| ArrayComponents::from_bits(u64::from(field.path.as_str().starts_with("tags"))));
    let arrays = arrays.collect();
    (spec, arrays)
}

/// A plan as a short text: the position of the index, the number of bounded fields, and the direction.
fn described(access: &Access) -> String {
    let arrow = |direction| if direction == Direction::Ascending { '+' } else { '-' };
    match access {
        Access::Nothing => "nothing".to_owned(),
        Access::Records(scan) => {
            let extent = if scan.ids.is_all() { "all" } else { "some" };
            format!("{extent} records{}", arrow(scan.direction))
        }
        Access::Entries(scan) => {
            let bounded = scan.bounds.iter().filter(|set| !set.is_all()).count();
            format!("{}: {bounded} bounded{}", scan.index, arrow(scan.direction))
        }
        Access::Union(union) => union.scans.iter().map(described).collect::<Vec<_>>().join(" or "),
        Access::Merge(merge) => merge.scans.iter().map(described).collect::<Vec<_>>().join(" with "),
    }
}

#[track_caller]
fn check_with(
    indexes: &[(IndexSpec, Vec<ArrayComponents>)],
    filter: &Document,
    sort: &Document,
    hint: Option<Hint>,
    expected: &str,
) {
    let views: Vec<_> = indexes.iter().map(|(spec, arrays)| IndexView::new(spec, arrays)).collect();
    let (parsed, parsed_sort) = (parse(filter), Sort::parse(&raw(sort)).expect("a sort"));
    let parsed_sort = (!parsed_sort.is_empty()).then_some(&parsed_sort);
    let request = Request {
        filter: Some(&parsed),
        sort: parsed_sort,
        indexes: &views,
        has_shortened_ids: false,
        hint,
        range: None,
        needs: Needs::Documents,
        one_of_each: None,
        collation: None,
        reads_all: true,
    };
    let plan = plans(&request, &OperationContext::default()).swap_remove(0);
    let sorted = if plan.is_sorted { "" } else { ", sorted" };
    assert_eq!(format!("{}{sorted}", described(&plan.access)), expected, "{filter} by {sort}");
}

/// The indexes to choose from: 0 `{a, b}`, 1 `{b}`, 2 unique `{c, d}`, 3 `{tags}`, 4 `{a, tags, b}`, 5 sparse
/// `{e}`, 6 `{f: 1, g: -1}`.
fn indexes() -> Vec<(IndexSpec, Vec<ArrayComponents>)> {
    let plain = SpecOptions::default();
    let unique = SpecOptions { uniqueness: Uniqueness::Unique, ..plain };
    let sparse = SpecOptions { sparseness: Sparseness::Sparse, ..plain };
    vec![
        index_on(&doc! { "a": 1, "b": 1 }, plain),
        index_on(&doc! { "b": 1 }, plain),
        index_on(&doc! { "c": 1, "d": 1 }, unique),
        index_on(&doc! { "tags": 1 }, plain),
        index_on(&doc! { "a": 1, "tags": 1, "b": 1 }, plain),
        index_on(&doc! { "e": 1 }, sparse),
        index_on(&doc! { "f": 1, "g": -1 }, plain),
    ]
}

#[track_caller]
fn check(filter: impl Into<Document>, expected: &str) {
    check_with(&indexes(), &filter.into(), &doc! {}, None, expected);
}

#[track_caller]
fn check_sorted(filter: impl Into<Document>, sort: impl Into<Document>, expected: &str) {
    check_with(&indexes(), &filter.into(), &sort.into(), None, expected);
}

#[test]
fn a_value_for_all_of_a_unique_index_comes_first() {
    check(doc! { "c": 1, "d": 2, "a": 1, "b": 1 }, "2: 2 bounded+");
    check(doc! { "c": 1, "a": 1, "b": 1 }, "0: 2 bounded+");
    check(doc! { "_id": 1, "c": 1, "d": 2 }, "some records+");
}

#[test]
fn more_leading_values_come_before_fewer() {
    check(doc! { "a": 1, "b": 2 }, "0: 2 bounded+");
    check(doc! { "a": { "$in": [1, 2] }, "b": { "$in": [3, null] } }, "0: 2 bounded+");
    check(doc! { "a": 1, "tags": 2 }, "4: 2 bounded+");
    check(doc! { "a": 1, "b": { "$gt": 5 } }, "0: 2 bounded+");
    check(doc! { "b": 5, "a": { "$gt": 5 } }, "1: 1 bounded+");
}

#[test]
fn an_order_comes_before_bounds_and_after_values() {
    check_sorted(doc! { "b": { "$gt": 5 } }, doc! { "f": 1, "g": -1 }, "6: 0 bounded+");
    check_sorted(doc! { "b": 5 }, doc! { "f": 1 }, "1: 1 bounded+, sorted");
    check_sorted(doc! {}, doc! { "f": -1, "g": 1 }, "6: 0 bounded-");
    check_sorted(doc! {}, doc! { "f": 1, "g": 1 }, "all records+, sorted");
    check_sorted(doc! { "f": 3 }, doc! { "g": 1 }, "6: 1 bounded-");
    check_sorted(doc! { "f": 3 }, doc! { "f": 1, "g": 1, "_id": -1 }, "6: 1 bounded-");
    check_sorted(doc! { "f": 3 }, doc! { "g": 1, "_id": 1 }, "6: 1 bounded+, sorted");
    check_sorted(doc! { "f": { "$in": [3, 4] } }, doc! { "f": -1 }, "6: 1 bounded-");
    check_sorted(doc! { "f": { "$in": [3, 4] } }, doc! { "g": 1 }, "6: 1 bounded- with 6: 1 bounded-");
    check_sorted(doc! { "f": { "$gt": 3 } }, doc! { "f": 1, "g": -1, "_id": 1, "z": 1 }, "6: 1 bounded+");
    check_sorted(doc! { "f": 3, "g": 4 }, doc! { "_id": -1 }, "6: 2 bounded-");
}

#[test]
fn one_document_needs_no_order() {
    check_sorted(doc! { "c": 1, "d": 2 }, doc! { "z": 1, "y": -1 }, "2: 2 bounded+");
    check_sorted(doc! { "c": 1 }, doc! { "d": -1, "z": 1 }, "2: 1 bounded-");
    check_sorted(doc! { "_id": 1 }, doc! { "z": 1 }, "some records+");
}

#[test]
fn arrays_give_no_order() {
    check_sorted(doc! {}, doc! { "tags": 1 }, "all records+, sorted");
    check_sorted(doc! { "tags": 5 }, doc! { "tags": 1 }, "3: 1 bounded+, sorted");
    check_sorted(doc! { "tags": 5 }, doc! { "_id": 1 }, "3: 1 bounded+");
    check_sorted(doc! { "a": 1, "tags": 5 }, doc! { "b": -1 }, "4: 2 bounded-");
}

#[test]
fn bounds_come_before_a_scan_of_all_records() {
    check(doc! { "b": { "$gte": 1, "$lt": 5 } }, "1: 1 bounded+");
    check(doc! { "b": { "$ne": 1 } }, "1: 1 bounded+");
    check(doc! { "b": { "$exists": false } }, "1: 1 bounded+");
    check(doc! { "tags": { "$elemMatch": { "$gt": 1, "$lt": 5 } } }, "3: 1 bounded+");
    check(doc! { "g": 1 }, "all records+");
    check(doc! { "b": { "$exists": true } }, "all records+");
    check(doc! { "_id": { "$gt": 1 }, "b": { "$gt": 1 } }, "some records+");
    check(doc! { "b": { "$in": [] } }, "nothing");
    check(doc! { "b": { "$gt": 5, "$lt": 5 } }, "nothing");
}

#[test]
fn a_sparse_index_is_used_where_it_has_every_match() {
    check(doc! { "e": 5 }, "5: 1 bounded+");
    check(doc! { "e": { "$exists": true } }, "5: 0 bounded+");
    check(doc! { "e": null }, "all records+");
    check(doc! { "e": { "$ne": 5 } }, "all records+");
    check_sorted(doc! {}, doc! { "e": 1 }, "all records+, sorted");
    check_sorted(doc! { "e": { "$gte": 1 } }, doc! { "e": 1 }, "5: 1 bounded+");
}

#[test]
fn branches_are_joined_if_each_has_bounds() {
    check(doc! { "$or": [{ "b": 1 }, { "e": 2 }] }, "1: 1 bounded+ or 5: 1 bounded+");
    check(doc! { "$or": [{ "b": 1 }, { "_id": 2 }] }, "1: 1 bounded+ or some records+");
    check(doc! { "$or": [{ "b": 1 }, { "z": 2 }] }, "all records+");
    check(doc! { "$or": [{ "b": 1 }, { "b": { "$gt": 7 } }] }, "1: 1 bounded+");
    check(doc! { "a": 1, "$or": [{ "b": 1 }, { "e": 2 }] }, "0: 1 bounded+");
    check(doc! { "$or": [{ "b": 1 }, { "e": { "$in": [] } }] }, "1: 1 bounded+");
    check_sorted(
        doc! { "$or": [{ "b": 1 }, { "e": 2 }] },
        doc! { "b": 1 },
        "1: 1 bounded+ or 5: 1 bounded+, sorted",
    );
}

#[test]
fn a_hint_is_followed_if_no_match_is_lost() {
    let hinted = |filter: Document, sort: Document, hint, expected: &str| {
        check_with(&indexes(), &filter, &sort, Some(hint), expected);
    };
    hinted(doc! { "a": 1, "b": 2 }, doc! {}, Hint::Index(1), "1: 1 bounded+");
    hinted(doc! { "a": 1 }, doc! {}, Hint::Index(6), "6: 0 bounded+");
    hinted(doc! { "a": 1 }, doc! {}, Hint::Records(Direction::Descending), "all records-");
    hinted(doc! { "a": 1 }, doc! { "_id": 1 }, Hint::Records(Direction::Descending), "all records+");
    hinted(doc! { "e": 1 }, doc! {}, Hint::Index(5), "5: 1 bounded+");
    hinted(doc! { "e": null, "b": 1 }, doc! {}, Hint::Index(5), "all records+");
    hinted(doc! { "$or": [{ "b": 1 }, { "e": 2 }] }, doc! {}, Hint::Index(1), "1: 0 bounded+");
}

/// The plans between which keys decide, the best first.
#[track_caller]
fn check_rivals(filter: impl Into<Document>, sort: impl Into<Document>, reads_all: bool, expected: &[&str]) {
    let (filter, sort) = (filter.into(), sort.into());
    let indexes = indexes();
    let views: Vec<_> = indexes.iter().map(|(spec, arrays)| IndexView::new(spec, arrays)).collect();
    let (parsed, parsed_sort) = (parse(&filter), Sort::parse(&raw(&sort)).expect("a sort"));
    let sort_of = (!parsed_sort.is_empty()).then_some(&parsed_sort);
    let request =
        Request { filter: Some(&parsed), sort: sort_of, indexes: &views, reads_all, ..Request::default() };
    let found = plans(&request, &OperationContext::default());
    let rivals = found.iter().filter(|plan| plan.is_rival).map(|plan| described(&plan.access));
    assert_eq!(rivals.collect::<Vec<_>>(), expected, "{filter} by {sort}");
    assert!(expected.is_empty() || found.first().is_some_and(|first| first.is_rival), "{filter} by {sort}");
}

#[test]
fn keys_decide_between_indexes_on_different_fields() {
    check_rivals(doc! { "a": 1, "f": 2 }, doc! {}, true, &["0: 1 bounded+", "6: 1 bounded+"]);
    check_rivals(doc! { "b": 5, "a": { "$gt": 5 } }, doc! {}, true, &["1: 1 bounded+", "0: 2 bounded+"]);
    // Indexes that begin with the same bounded fields have as many keys there.
    check_rivals(doc! { "a": 1 }, doc! {}, true, &[]);
    // A scan of all records has the most keys.
    check_rivals(doc! { "b": { "$gt": 5 } }, doc! {}, true, &[]);
    check_rivals(doc! { "b": 5, "_id": { "$gt": 5 } }, doc! {}, true, &["1: 1 bounded+", "some records+"]);
    // One document needs no choice, and neither does none.
    check_rivals(doc! { "c": 1, "d": 2, "b": 1 }, doc! {}, true, &[]);
    check_rivals(doc! { "b": { "$in": [] }, "f": 1 }, doc! {}, true, &[]);
}

#[test]
fn a_plan_in_order_has_no_rivals_without_for_a_reader_who_stops() {
    let both = ["6: 0 bounded+", "1: 1 bounded+"];
    check_rivals(doc! { "b": { "$gt": 5 } }, doc! { "f": 1, "g": -1 }, true, &both);
    check_rivals(doc! { "b": { "$gt": 5 } }, doc! { "f": 1, "g": -1 }, false, &[]);
    check_rivals(doc! { "b": 5, "f": 1 }, doc! { "_id": 1 }, false, &[]);
}

#[test]
fn a_document_may_have_several_entries_unless_one_value_is_left() {
    let (spec, arrays) = index_on(&doc! { "tags": 1, "b": 1 }, SpecOptions::default());
    let views = [IndexView::new(&spec, &arrays)];
    let has_duplicates = |filter: Document| {
        let parsed = parse(&filter);
        let request = Request { filter: Some(&parsed), indexes: &views, ..Request::default() };
        let found = plans(&request, &OperationContext::default());
        matches!(&found[0].access, Access::Entries(scan) if scan.has_duplicates)
    };
    assert!(has_duplicates(doc! { "tags": { "$in": [1, 2] } }) && !has_duplicates(doc! { "tags": 1 }));
    assert!(has_duplicates(doc! { "tags": bson!({ "$gt": 1 }) }));
}

/// The plan for an equality is made without a look at other plans. The same condition twice is planned by the rules.
#[track_caller]
fn check_equality(filter: impl Into<Document>, is_decided: bool) {
    check_equality_with(&indexes(), &filter.into(), is_decided);
}

#[track_caller]
fn check_equality_with(indexes: &[(IndexSpec, Vec<ArrayComponents>)], filter: &Document, is_decided: bool) {
    let views: Vec<_> = indexes.iter().map(|(spec, arrays)| IndexView::new(spec, arrays)).collect();
    let best = |filter: &Document| {
        let parsed = parse(filter);
        let request = Request { filter: Some(&parsed), indexes: &views, ..Request::default() };
        plans(&request, &OperationContext::default()).swap_remove(0)
    };
    let plan = best(filter);
    assert_eq!(deciding(&plan.access).len(), usize::from(is_decided), "{filter}");
    let twice = doc! { "$and": [filter.clone(), filter.clone()] };
    assert_eq!(format!("{plan:?}"), format!("{:?}", best(&twice)), "{filter}");
}

#[test]
fn an_equality_is_planned_as_the_rules_would() {
    let decimal = Bson::Decimal128("5.0".parse().expect("a number"));
    let timestamp = Bson::Timestamp(bson::Timestamp { time: 5, increment: 1 });
    let binary = Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![5; 16] });
    let values = [bson!(5), bson!(5_i64), bson!(-0.0), bson!(f64::NAN), bson!("x"), bson!(true)];
    for value in values.into_iter().chain([decimal, timestamp, binary]) {
        check_equality(doc! { "b": value.clone() }, true);
        check_equality(doc! { "c": value.clone() }, true);
        check_equality(doc! { "f": value.clone() }, true);
        check_equality(doc! { "a": value.clone() }, true);
        // The rules decide for a sparse index.
        check_equality(doc! { "e": value.clone() }, true);
        check_equality(doc! { "tags": value.clone() }, false);
        check_equality(doc! { "_id": value.clone() }, false);
        check_equality(doc! { "z": value }, false);
    }
    check_equality(doc! { "b": null }, true);
    // Of a path with a position, where documents have arrays, an index does not have all values.
    let whole = index_on(&doc! { "a.0": 1 }, SpecOptions::default());
    for (arrays, is_decided) in [(ArrayComponents::NONE, true), (ArrayComponents::ALL, false)] {
        check_equality_with(&[(whole.0.clone(), vec![arrays])], &doc! { "a.0": 5 }, is_decided);
    }
    check_equality(doc! { "b": [1, 2] }, true);
    check_equality(doc! { "b": { "x": 1 } }, true);
}
