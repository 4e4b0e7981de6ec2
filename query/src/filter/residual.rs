//! Which conditions of a filter can be decided from an entry of an index, without its document.
//!
//! An entry has the whole value of a field if no document has an array on the field's path. A condition on such fields
//! is either implied by the bounds of the scan, or it can be tested on a document that is made of the entry. The bounds
//! imply a condition if the set that it gives is exact, and not only a superset: see `bounds`.

use std::collections::HashSet;

use index::collation::Collation;
use index::path::FieldPath;

use crate::filter::Filter;
use crate::filter::entries::IndexedField;
use crate::filter::evaluate::{Node, Test};
use crate::filter::planning_budget::PlanningBudget;
use crate::filter::weight;
use crate::operation::OperationContext;

/// The path of the field that every entry leads to.
const ID: &str = "_id";

/// The part of a filter that the entries of an index decide.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::filter::entries::IndexedField;
/// use index::collation::SIMPLE;
/// use index::multikey::ArrayComponents;
/// use index::path::FieldPath;
///
/// let filter = Filter::parse(&rawdoc! { "age": { "$gt": 30 }, "city": { "$regex": "ville$" }, "zip": 5 })?;
/// let (age, city) = (FieldPath::parse("age")?, FieldPath::parse("city")?);
/// let arrays = ArrayComponents::NONE;
/// let fields = [&age, &city].map(|path| IndexedField { path, arrays, collation: &SIMPLE });
/// let tested = filter.entry_tests(&fields);
/// // The bounds decide the age, the pattern needs the value of an entry, and the zip its document.
/// assert_eq!((tested.fields, tested.is_whole), (vec![1], false));
/// assert!(tested.residual.is_some_and(|residual| residual.matches(&rawdoc! { "city": "Nashville" })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EntryTests {
    /// The conditions to test on the document of an entry. `None` if there are none.
    pub residual: Option<Filter>,
    /// The fields of the index that these conditions read, by position, ascending.
    pub fields: Vec<usize>,
    /// Whether they read the `_id`.
    pub has_id: bool,
    /// Whether these conditions and the bounds decide the whole filter.
    pub is_whole: bool,
}

impl Filter {
    /// The part of the filter that the entries of an index on `fields` decide, within the bounds that
    /// [`entry_bounds`](Self::entry_bounds) gives for these fields.
    pub fn entry_tests(&self, fields: &[IndexedField<'_>]) -> EntryTests {
        let operation = OperationContext::unlimited();
        // A budget without limits rejects nothing, and what is not decided needs the document.
        let undecided = EntryTests { residual: None, fields: Vec::new(), has_id: false, is_whole: false };
        self.entry_tests_within(fields, &PlanningBudget::unlimited(&operation)).unwrap_or(undecided)
    }

    /// The entry tests of [`entry_tests`](Self::entry_tests). Returns `None` if they would cost too much.
    pub(crate) fn entry_tests_within(
        &self,
        fields: &[IndexedField<'_>],
        budget: &PlanningBudget<'_>,
    ) -> Option<EntryTests> {
        let mut conjuncts = Vec::new();
        self.root.collect_conjuncts(&mut conjuncts);
        let mut tests = EntryTests { residual: None, fields: Vec::new(), has_id: false, is_whole: true };
        let mut residual = Vec::new();
        for node in conjuncts {
            let weight = weight::of_node(node);
            if !budget.takes(weight) {
                return None;
            }
            if exact_field(node, fields).is_some() {
                continue;
            }
            let mut paths = HashSet::new();
            let is_read = collect_paths(node, &mut paths);
            let places: Option<Vec<Place>> = paths.into_iter().map(|path| place(path, fields)).collect();
            let Some(places) = places.filter(|_| is_read) else {
                tests.is_whole = false;
                continue;
            };
            for place in places {
                match place {
                    Place::Field(at) => tests.fields.push(at),
                    Place::Id => tests.has_id = true,
                }
            }
            if !budget.makes(weight) {
                return None;
            }
            residual.push(node.clone());
        }
        tests.fields.sort_unstable();
        tests.fields.dedup();
        tests.residual =
            (!residual.is_empty()).then(|| Filter { root: Node::All(residual), has_expression: false });
        Some(tests)
    }
}

/// The place of a value in an entry.
enum Place {
    /// In the field at this position of the index.
    Field(usize),
    Id,
}

/// The place of the whole value at a path in an entry. Returns `None` if it may not have it.
fn place(path: &FieldPath, fields: &[IndexedField<'_>]) -> Option<Place> {
    // The `_id` is whole in every entry, and never an array.
    if path.as_str() == ID {
        return Some(Place::Id);
    }
    whole_field(path, fields).map(Place::Field)
}

/// The position of the field with a path, if an entry gives its value: no document has an array there, and texts are not
/// replaced by sort keys.
pub(crate) fn whole_field(path: &FieldPath, fields: &[IndexedField<'_>]) -> Option<usize> {
    single_field(path, fields).filter(|at| fields.get(*at).is_some_and(|field| field.collation.is_simple()))
}

/// The position of the field with a path, if an entry has a key for the whole value: no document has an array there.
pub(crate) fn single_field(path: &FieldPath, fields: &[IndexedField<'_>]) -> Option<usize> {
    let at = fields.iter().position(|field| field.path == path)?;
    fields.get(at).filter(|field| field.arrays.is_empty()).map(|_| at)
}

/// The one field that a condition is about, if the values that its bounds leave are exactly those that meet it.
fn exact_field(node: &Node, fields: &[IndexedField<'_>]) -> Option<usize> {
    match node {
        Node::Field(path, test) => {
            let is_exact = |at: &usize| fields.get(*at).is_some_and(|field| is_exact(test, field.collation));
            single_field(path, fields).filter(is_exact)
        }
        Node::Expression(_) | Node::Implied(_) | Node::Schema(_) => None,
        // The complement of an exact set is exact, so are the union and the intersection of exact sets of one field.
        Node::Not(node) => exact_field(node, fields),
        Node::All(nodes) | Node::Any(nodes) => {
            let mut exact = nodes.iter().map(|node| exact_field(node, fields));
            let first = exact.next()??;
            exact.all(|field| field == Some(first)).then_some(first)
        }
    }
}

/// Whether the set of a test in keys with a collation has exactly the values that meet it, as long as none of them is an array.
fn is_exact(test: &Test, keys: &Collation) -> bool {
    match test {
        Test::Compare(comparison) => comparison.is_ordered_by(keys),
        // The texts that match a pattern form no interval.
        Test::In(membership) => membership.patterns().is_empty() && membership.is_ordered_by(keys),
        Test::Exists | Test::Type(_) | Test::Value(_) | Test::AnyObject(_) | Test::AnyElement(_) => false,
    }
}

/// Adds the paths of all conditions below a node. Returns `false` if it has a part that may read any field.
fn collect_paths<'n>(node: &'n Node, paths: &mut HashSet<&'n FieldPath>) -> bool {
    match node {
        Node::All(nodes) | Node::Any(nodes) => nodes.iter().all(|node| collect_paths(node, paths)),
        Node::Not(node) => collect_paths(node, paths),
        Node::Field(path, _) => {
            paths.insert(path);
            true
        }
        // The condition that an expression implies decides nothing. The expression, which is beside it, needs the
        // document.
        Node::Expression(_) | Node::Implied(_) | Node::Schema(_) => false,
    }
}
