//! Whether a filter implies another one: whether every document that matches the first matches the second.
//!
//! A partial index has only the documents that match its own filter. A plan may read it for a query only if the
//! query implies that filter. The proof is by parts: a part of the query implies a part of the filter if both
//! test the same path, and every value that meets the first test meets the second one. Missing fields count as a
//! value of their own.
//!
//! The invariant: `true` is a proof. `false` means nothing but that no proof was found, which costs an index and
//! never an answer.

use std::cell::Cell;

use bson::spec::ElementType;
use index::collation::Collation;
use index::interval::{Interval, Intervals};
use index::path::FieldPath;

use crate::filter::bounds::{class_of, subset, whole_superset};
use crate::filter::evaluate::{Node, Test};
use crate::filter::implied::ImpliedTest;
use crate::filter::planning_budget::PlanningBudget;
use crate::filter::weight;
use crate::pattern::Watch;

/// The limit of values and tests that one proof may compare. Without a limit, a query with thousands of branches
/// could keep the planner busy for longer than a scan lasts.
const STEPS_MAX: usize = 20_000;

/// The types whose values share a class. Every other type has a class of its own.
const SHARED_CLASSES: [&[ElementType]; 2] = [
    &[ElementType::Double, ElementType::Int32, ElementType::Int64, ElementType::Decimal128],
    &[ElementType::String, ElementType::Symbol],
];

/// Whether every document that matches all of `known` matches `wanted`, which compares texts by `collation`.
pub(super) fn all_imply(
    known: &[&Node],
    wanted: &Node,
    collation: &Collation,
    budget: &PlanningBudget<'_>,
) -> bool {
    // Sets of key forms, so that what is equal to the one is equal to the other.
    let proof = Proof { steps: Cell::new(0), keys: collation, budget };
    let mut conjuncts = Vec::new();
    for node in known {
        node.collect_conjuncts(&mut conjuncts);
    }
    budget.takes(conjuncts.len()) && proof.implies(&conjuncts, wanted)
}

/// The search for a proof, with the work that it has done.
struct Proof<'c> {
    steps: Cell<usize>,
    /// The collation of the keys whose sets are compared.
    keys: &'c Collation,
    budget: &'c PlanningBudget<'c>,
}

impl Proof<'_> {
    /// Whether the conjunction of `known` implies `wanted`.
    fn implies(&self, known: &[&Node], wanted: &Node) -> bool {
        match wanted {
            Node::All(parts) => parts.iter().all(|part| self.implies(known, part)),
            Node::Any(parts) => {
                // One part that is implied is enough. If none is, each branch of the query may imply another part.
                parts.iter().any(|part| self.implies(known, part))
                    || known.iter().any(|node| self.one_implies(node, wanted))
            }
            Node::Field(..) => known.iter().any(|node| self.one_implies(node, wanted)),
            // Filters of partial indexes have none of these.
            Node::Not(_) | Node::Expression(_) | Node::Implied(_) | Node::Schema(_) => false,
        }
    }

    /// Whether one part of the query implies `wanted`, which is a field or a disjunction.
    fn one_implies(&self, known: &Node, wanted: &Node) -> bool {
        if !self.takes(1) {
            return false;
        }
        match known {
            // The query matches by one of its branches, and any of them may be it: all must imply it.
            Node::Any(branches) => branches.iter().all(|branch| {
                let mut conjuncts = Vec::new();
                branch.collect_conjuncts(&mut conjuncts);
                self.implies(&conjuncts, wanted)
            }),
            Node::Field(path, test) => {
                let tests = tests_of(path, wanted);
                !tests.is_empty() && self.meets_one(test, &tests)
            }
            Node::Implied(test) => {
                let tests = tests_of(test.path(), wanted);
                !tests.is_empty() && self.implied_meets_one(test, &tests)
            }
            // A conjunction was split before. Of the others nothing follows for single values.
            Node::All(_) | Node::Not(_) | Node::Expression(_) | Node::Schema(_) => false,
        }
    }

    /// Whether every value that meets `test`, and a missing field that does, meets at least one of `wanted`.
    fn meets_one(&self, test: &Test, wanted: &[&Test]) -> bool {
        if meets_missing(test) && !wanted.iter().any(|test| meets_missing(test)) {
            return false;
        }
        // Types that share a class are not intervals, so they are compared as such.
        if let Test::Type(known) = test
            && wanted.iter().any(|wanted| {
                matches!(wanted, Test::Type(types) if known.types().iter().all(|kind| types.types().contains(kind)))
            })
        {
            return true;
        }
        // Counted before they are made: a list may have a million values.
        self.takes(weight::of_test(test)) && self.are_met(&whole_superset(test, self.keys), wanted)
    }

    /// Whether every value that meets what an expression says of a field, and a missing field that does, meets at least one of
    /// `wanted`.
    fn implied_meets_one(&self, test: &ImpliedTest, wanted: &[&Test]) -> bool {
        if test.is_met_by_missing() && !wanted.iter().any(|test| meets_missing(test)) {
            return false;
        }
        // A path of several names gathers from an array an array for an expression, and single values for a filter.
        let is_gathered = test.path().components().nth(1).is_some();
        if is_gathered && test.is_met_by_arrays() {
            return false;
        }
        self.takes(weight::of_list(test.operands()))
            && test.superset(self.keys).is_some_and(|values| self.are_met(&values, wanted))
    }

    /// Whether each of `values` surely meets one of `wanted`.
    fn are_met(&self, values: &Intervals, wanted: &[&Test]) -> bool {
        if !self.takes(wanted.iter().map(|test| weight::of_test(test)).fold(0, usize::saturating_add)) {
            return false;
        }
        let covered = Intervals::from_any(wanted.iter().flat_map(|test| surely_met(test, self.keys)));
        values.intersection(&covered.complement()).is_empty()
    }

    /// Counts `steps`. Returns `false` once there were too many.
    fn takes(&self, steps: usize) -> bool {
        self.steps.set(self.steps.get().saturating_add(steps).saturating_add(1));
        self.steps.get() <= STEPS_MAX && self.budget.takes(steps.saturating_add(1))
    }
}

/// The tests of `path` of which `wanted` needs one: its own, or those of its branches.
fn tests_of<'n>(path: &FieldPath, wanted: &'n Node) -> Vec<&'n Test> {
    let mut branches = Vec::new();
    wanted.collect_branches(&mut branches);
    let test = |node: &&'n Node| match node {
        Node::Field(of, test) if of == path => Some(test),
        Node::Field(..)
        | Node::All(_)
        | Node::Any(_)
        | Node::Not(_)
        | Node::Expression(_)
        | Node::Implied(_)
        | Node::Schema(_) => None,
    };
    branches.iter().filter_map(test).collect()
}

/// Whether a missing field meets a test.
fn meets_missing(test: &Test) -> bool {
    test.matches(None, &Watch::default())
}

/// A subset of the values that meet a test.
fn surely_met(test: &Test, keys: &Collation) -> Intervals {
    match test {
        Test::Exists => Intervals::all(),
        Test::Type(types) => {
            let has = |kind: &ElementType| types.types().contains(kind);
            // A class is met as a whole only if all of its types are asked for.
            let is_whole = |kind: &&ElementType| {
                SHARED_CLASSES.iter().filter(|kinds| kinds.contains(*kind)).all(|kinds| kinds.iter().all(has))
            };
            let classes = types.types().iter().filter(is_whole).map(|kind| class_of(*kind));
            Intervals::from_any(classes.map(Interval::class))
        }
        Test::Compare(_) | Test::In(_) | Test::Value(_) | Test::AnyObject(_) | Test::AnyElement(_) => {
            subset(test, keys)
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, RawDocumentBuf, bson, doc};

    use index::collation::SIMPLE;

    use super::*;
    use crate::filter::Filter;

    fn filter(filter: &Document) -> Filter {
        Filter::parse(&RawDocumentBuf::try_from(filter).unwrap()).unwrap()
    }

    #[track_caller]
    fn check(query: &Document, partial: &Document, expected: bool) {
        assert_eq!(filter(query).implies(&filter(partial), &SIMPLE), expected, "{query} => {partial}");
    }

    #[test]
    fn equality_implies_what_its_value_meets() {
        check(&doc! { "a": 5 }, &doc! { "a": 5.0 }, true);
        check(&doc! { "a": 5 }, &doc! { "a": { "$gt": 3 } }, true);
        check(&doc! { "a": 5 }, &doc! { "a": { "$gt": 5 } }, false);
        check(&doc! { "a": 5 }, &doc! { "a": { "$exists": true } }, true);
        check(&doc! { "a": 5 }, &doc! { "a": { "$in": [4, 5] } }, true);
        check(&doc! { "a": "5" }, &doc! { "a": { "$gt": 3 } }, false);
        check(&doc! { "a": 5 }, &doc! { "b": 5 }, false);
        check(&doc! { "a": 5, "b": 1 }, &doc! { "a": { "$gte": 5 }, "b": { "$lt": 2 } }, true);
        check(&doc! { "a": 5 }, &doc! { "a": { "$gte": 5 }, "b": { "$lt": 2 } }, false);
    }

    #[test]
    fn equal_numbers_may_be_of_another_type() {
        check(&doc! { "a": 5 }, &doc! { "a": { "$type": "int" } }, false);
        check(&doc! { "a": 5 }, &doc! { "a": { "$type": "number" } }, true);
        check(&doc! { "a": { "$type": "int" } }, &doc! { "a": { "$type": "number" } }, true);
        check(&doc! { "a": { "$type": ["int", "long"] } }, &doc! { "a": { "$type": "int" } }, false);
        check(&doc! { "a": "x" }, &doc! { "a": { "$type": ["string", "symbol"] } }, true);
        // A symbol is equal to the string with its text.
        check(&doc! { "a": "x" }, &doc! { "a": { "$type": "string" } }, false);
        check(&doc! { "a": true }, &doc! { "a": { "$type": "bool" } }, true);
    }

    #[test]
    fn null_is_met_by_missing_fields() {
        check(&doc! { "a": Bson::Null }, &doc! { "a": { "$exists": true } }, false);
        check(&doc! { "a": Bson::Null }, &doc! { "a": Bson::Null }, true);
        check(&doc! { "a": Bson::Null }, &doc! { "a": { "$type": "null" } }, false);
        check(&doc! { "a": { "$in": [1, Bson::Null] } }, &doc! { "a": { "$exists": true } }, false);
        check(&doc! { "a": { "$lte": Bson::Null } }, &doc! { "a": { "$in": [Bson::Null, 7] } }, true);
        check(&doc! { "a": { "$type": "null" } }, &doc! { "a": Bson::Null }, true);
        check(&doc! { "a": { "$gt": Bson::MinKey } }, &doc! { "a": { "$exists": true } }, false);
    }

    #[test]
    fn ranges_imply_wider_ranges_of_their_class() {
        check(&doc! { "a": { "$gt": 5, "$lt": 9 } }, &doc! { "a": { "$gte": 5 } }, true);
        check(&doc! { "a": { "$gte": 5 } }, &doc! { "a": { "$gt": 5 } }, false);
        check(&doc! { "a": { "$gte": 5 } }, &doc! { "a": { "$type": "number" } }, true);
        check(&doc! { "a": { "$gte": "p" } }, &doc! { "a": { "$gte": 1 } }, false);
        // Two elements of an array may meet the two operators, and neither of them is 5.
        check(&doc! { "a": { "$gte": 5, "$lte": 5 } }, &doc! { "a": 5 }, false);
        check(&doc! { "a": { "$lt": 5 } }, &doc! { "a": { "$lt": f64::INFINITY } }, true);
        check(&doc! { "a": f64::NAN }, &doc! { "a": { "$lt": f64::INFINITY } }, false);
    }

    #[test]
    fn all_branches_must_imply_the_filter() {
        check(&doc! { "$or": [{ "a": 5 }, { "a": 7 }] }, &doc! { "a": { "$gt": 3 } }, true);
        check(&doc! { "$or": [{ "a": 5 }, { "b": 7 }] }, &doc! { "a": { "$gt": 3 } }, false);
        check(&doc! { "$or": [{ "a": 5 }, { "b": 7 }] }, &doc! { "$or": [{ "b": 7 }, { "a": 5 }] }, true);
        check(&doc! { "a": { "$in": [1, 2] } }, &doc! { "$or": [{ "a": 1 }, { "a": 2 }] }, true);
        check(&doc! { "a": { "$in": [1, 3] } }, &doc! { "$or": [{ "a": 1 }, { "a": 2 }] }, false);
        check(&doc! { "$and": [{ "$or": [{ "a": 5 }] }, { "c": 1 }] }, &doc! { "a": 5 }, true);
        check(&doc! { "a": { "$in": [] } }, &doc! { "b": 1 }, false);
    }

    #[test]
    fn what_looks_into_arrays_implies_that_there_is_one() {
        check(&doc! { "a": { "$size": 2 } }, &doc! { "a": { "$exists": true } }, true);
        check(&doc! { "a": { "$elemMatch": { "$gt": 5 } } }, &doc! { "a": { "$type": "array" } }, true);
        check(&doc! { "a": { "$elemMatch": { "$gt": 5 } } }, &doc! { "a": { "$gt": 3 } }, false);
        check(&doc! { "a": { "$elemMatch": { "b": 5 } } }, &doc! { "a": { "$exists": true } }, true);
    }

    #[test]
    fn negations_imply_nothing() {
        check(&doc! { "a": { "$ne": Bson::Null } }, &doc! { "a": { "$exists": true } }, false);
        check(&doc! { "a": { "$exists": false } }, &doc! { "a": Bson::Null }, false);
        check(&doc! { "$nor": [{ "a": 5 }] }, &doc! { "a": { "$gt": 3 } }, false);
        check(&doc! {}, &doc! { "a": 5 }, false);
        check(&doc! {}, &doc! {}, true);
        check(&doc! { "a": 5 }, &doc! {}, true);
    }

    #[test]
    fn a_proof_that_takes_too_long_is_given_up() {
        let branch = |number: i32| Bson::Document(doc! { "a": { "$in": [number, number + 1] } });
        let query = doc! { "$or": (0..STEPS_MAX).map(|number| branch(i32::try_from(number).unwrap())).collect::<Vec<_>>() };
        check(&query, &doc! { "a": { "$gte": 0 } }, false);
    }

    /// Conditions on one field, of which some are allowed in a partial index.
    fn conditions() -> Vec<Bson> {
        let operands =
            [bson!(1), bson!(2.5), bson!("p"), Bson::Null, bson!([1, 2]), bson!({ "x": 1 }), bson!(f64::NAN)];
        let ends = [Bson::MinKey, Bson::MaxKey];
        let mut all = Vec::new();
        for operand in operands.iter().chain(&ends) {
            for name in ["$eq", "$gt", "$gte", "$lt", "$lte"] {
                all.push(bson!({ name: operand.clone() }));
            }
        }
        all.extend([
            bson!({ "$exists": true }),
            bson!({ "$exists": false }),
            bson!({ "$in": [1, "p"] }),
            bson!({ "$in": [2.5, Bson::Null] }),
            bson!({ "$in": [] }),
            bson!({ "$ne": 1 }),
            bson!({ "$not": { "$gt": 1 } }),
            bson!({ "$size": 2 }),
            bson!({ "$mod": [2, 1] }),
            bson!({ "$regex": "^p" }),
            bson!({ "$elemMatch": { "$gte": 2 } }),
            bson!({ "$elemMatch": { "x": 1 } }),
            bson!({ "$all": [1, 2] }),
            bson!({ "$gt": 0, "$lt": 2 }),
            bson!({ "$bitsAllSet": 1 }),
        ]);
        for kind in ["number", "int", "double", "string", "null", "array", "object", "undefined", "bool"] {
            all.push(bson!({ "$type": kind }));
        }
        all.push(bson!({ "$type": ["string", "symbol"] }));
        all
    }

    /// Documents with values of all kinds at `a`, within arrays and below `a` as well.
    fn universe() -> Vec<RawDocumentBuf> {
        let scalars = [
            bson!(1),
            bson!(1.0),
            bson!(2_i64),
            bson!(2.5),
            bson!(f64::NAN),
            bson!("p"),
            bson!("q"),
            Bson::Symbol("p".to_owned()),
            Bson::Null,
            Bson::Undefined,
            bson!(true),
            Bson::MinKey,
            Bson::MaxKey,
            bson!({}),
            bson!({ "x": 1 }),
            bson!({ "x": [1, 2] }),
            bson!([]),
        ];
        let mut values = scalars.to_vec();
        values.extend(scalars.iter().map(|value| bson!([value.clone()])));
        values.extend(scalars.iter().map(|value| bson!([0, value.clone()])));
        values.extend(scalars.iter().map(|value| bson!([[value.clone(), 2]])));
        values.extend(scalars.iter().map(|value| bson!({ "x": value.clone() })));
        values.extend(scalars.iter().map(|value| bson!([{ "x": value.clone() }, {}])));
        values.push(bson!([1, 2]));
        let documents = values.into_iter().map(|value| doc! { "a": value });
        documents.chain([doc! {}]).map(|document| RawDocumentBuf::try_from(&document).unwrap()).collect()
    }

    /// The proof against evaluation: no document may match the query and not the filter.
    #[test]
    fn whatever_is_proven_holds_for_every_document() {
        let documents = universe();
        let mut proven = 0;
        for path in ["a", "a.x", "a.0"] {
            let filters: Vec<(Document, Filter)> = conditions()
                .into_iter()
                .map(|condition| doc! { path: condition })
                .map(|document| (document.clone(), filter(&document)))
                .collect();
            let matching: Vec<Vec<bool>> = filters
                .iter()
                .map(|(_, filter)| documents.iter().map(|document| filter.matches(document)).collect())
                .collect();
            for ((query, parsed), matched) in filters.iter().zip(&matching) {
                for ((partial, wanted), in_index) in filters.iter().zip(&matching) {
                    let is_implied = parsed.implies(wanted, &SIMPLE);
                    proven += usize::from(is_implied);
                    let mut each = documents.iter().zip(matched.iter().zip(in_index));
                    let missed = each.find(|(_, (matches, is_in))| **matches && !**is_in);
                    assert!(!is_implied || missed.is_none(), "{query} => {partial}: {missed:?}");
                }
            }
        }
        assert!(proven > 500, "{proven}");
    }

    /// Pairs of conditions in `$and` and `$or`, with a path of its own for some of them.
    #[test]
    fn whatever_is_proven_of_clauses_holds_for_every_document() {
        let documents = universe();
        let all = conditions();
        let clause = |seed: usize| {
            let pick = |number: usize| all.get((seed / 7 + seed * number) % all.len()).cloned().unwrap();
            let path = if seed.is_multiple_of(5) { "a.x" } else { "a" };
            let parts = vec![Bson::Document(doc! { "a": pick(3) }), Bson::Document(doc! { path: pick(11) })];
            if seed.is_multiple_of(2) {
                doc! { "$or": parts }
            } else {
                doc! { "$and": parts }
            }
        };
        let filters: Vec<(Document, Filter)> =
            (0..250).map(|seed| (clause(seed * 13 + 1), filter(&clause(seed * 13 + 1)))).collect();
        for (query, parsed) in &filters {
            for (partial, wanted) in &filters {
                if parsed.implies(wanted, &SIMPLE) {
                    let missed = documents
                        .iter()
                        .find(|document| parsed.matches(document) && !wanted.matches(document));
                    assert!(missed.is_none(), "{query} => {partial}: {missed:?}");
                }
            }
        }
    }
}
