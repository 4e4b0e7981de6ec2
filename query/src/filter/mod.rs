//! Filters: which documents a query selects.
//!
//! [`Filter::parse`] checks operators and operands once. [`Filter::matches`] then reads raw BSON and decodes
//! nothing. The file of each family of operators says what they mean for one value. The `index` crate defines
//! which values are at a path.

mod array;
mod bits;
mod bounds;
mod compare;
mod element;
pub(crate) mod element_condition;
pub mod entries;
mod equality;
mod evaluate;
pub mod failure;
mod implication;
mod implied;
mod operand;
mod operator;
mod parse;
mod partial;
mod paths;
pub(crate) mod planning_budget;
mod position;
pub mod residual;
mod schema;
mod value_test;
mod weight;

use bson::{RawBsonRef, RawDocument};
use index::collation::{Collation, SIMPLE};
use index::interval::Intervals;
use index::multikey::ArrayComponents;
use index::path::FieldPath;

use crate::error::Error;
use crate::expression::Variables;
use crate::filter::entries::{EntryBounds, IndexedField};
use crate::filter::evaluate::Node;
use crate::filter::planning_budget::PlanningBudget;
use crate::operation::OperationContext;
use crate::pattern::{Room, Watch};

pub use crate::filter::bounds::Arrays;

/// A filter, parsed once and matched against any number of documents from any number of threads.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
///
/// let filter = Filter::parse(&rawdoc! { "tags": { "$in": ["red", "blue"] }, "size.h": { "$gt": 10 } })?;
/// assert!(filter.matches(&rawdoc! { "tags": ["blue", "plain"], "size": { "h": 14.5 } }));
/// assert!(!filter.matches(&rawdoc! { "tags": "blue" }));
/// # Ok::<(), cairndb_query::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
    has_expression: bool,
}

impl Filter {
    /// Parses a filter without expressions. For `$expr` use [`parse_with`](Self::parse_with).
    ///
    /// # Errors
    /// For an operator that is unknown, unsupported or malformed, and for BSON that cannot be read.
    pub fn parse(filter: &RawDocument) -> Result<Self, Error> {
        Ok(Self { root: parse::parse(filter, None)?, has_expression: false })
    }

    /// Parses a filter as [`parse`](Self::parse) does, with texts compared by a collation.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse).
    pub fn parse_collated(filter: &RawDocument, collation: &Collation) -> Result<Self, Error> {
        Ok(Self { root: parse::parse_collated(filter, collation)?, has_expression: false })
    }

    /// Parses a filter that may have expressions, which use `variables`. Evaluate it with
    /// [`try_matches`](Self::try_matches).
    ///
    /// The bounds that the filter gives for an index hold for the values that the variables have here. With other values it can
    /// be evaluated, and not planned.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_query::expression::Variables;
    /// use cairndb_query::filter::Filter;
    ///
    /// let variables = Variables::default();
    /// let filter = Filter::parse_with(&rawdoc! { "$expr": { "$gt": ["$spent", "$budget"] } }, &variables)?;
    /// assert!(filter.try_matches(&rawdoc! { "spent": 12, "budget": 10 }, &variables)?);
    /// # Ok::<(), cairndb_query::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse), and [`Error::Expression`] for an expression that is rejected.
    pub fn parse_with(filter: &RawDocument, variables: &Variables) -> Result<Self, Error> {
        let root = parse::parse(filter, Some(variables))?;
        let has_expression = root.has_expression();
        Ok(Self { root, has_expression })
    }

    /// Makes the filter `{field: value}`, as [`parse_with`](Self::parse_with) does of its document.
    ///
    /// # Errors
    /// As for that document, in which a name that begins with `$` is an operator.
    pub fn equality(field: &str, value: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Error> {
        Ok(Self { root: parse::parse_field(field, value, variables)?, has_expression: false })
    }

    /// Parses a filter of array elements, or one inside of an update. Expressions and schemas are not allowed
    /// there.
    pub(crate) fn parse_plain(
        filter: &RawDocument,
        room: &Room,
        collation: &Collation,
    ) -> Result<Self, Error> {
        Ok(Self { root: parse::parse_plain(filter, room, collation)?, has_expression: false })
    }

    /// Whether a document matches.
    ///
    /// A filter with expressions matches nothing here, and a regular expression that exceeds its limits does
    /// not match. [`try_matches`](Self::try_matches) evaluates the first and returns an error for the second.
    pub fn matches(&self, document: &RawDocument) -> bool {
        self.matches_within(document, &OperationContext::default()).unwrap_or(false)
    }

    /// Whether a document matches a filter without expressions. The evaluation counts as steps of
    /// `operation`.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the operation is to end, [`Error::PatternFailed`] if a regular expression
    /// exceeds its limits.
    pub fn matches_within(
        &self,
        document: &RawDocument,
        operation: &OperationContext,
    ) -> Result<bool, Error> {
        // `matches` of a node cannot fail. The watch keeps the first failure, which has precedence over the
        // result.
        let watch = Watch::of(operation);
        let is_match = self.root.matches(document, &watch);
        Ok(watch.outcome(is_match)?)
    }

    /// Whether a document matches, with values for the variables of its expressions.
    ///
    /// The variables carry the operation, of which the evaluation needs steps.
    ///
    /// # Errors
    /// [`Error::Expression`] if an expression fails for the document, [`Error::PatternFailed`] if a regular
    /// expression exceeds its limits, [`Error::Interrupted`] if the operation is to end.
    pub fn try_matches(&self, document: &RawDocument, variables: &Variables) -> Result<bool, Error> {
        // Without expressions the walk that cannot fail is the shorter one.
        if !self.has_expression {
            return self.matches_within(document, variables.operation());
        }
        let watch = Watch::of(variables.operation());
        let is_match = self.root.try_matches(document, variables, &watch)?;
        Ok(watch.outcome(is_match)?)
    }

    /// Whether the filter has an expression, so that only [`try_matches`](Self::try_matches) evaluates it.
    pub fn has_expression(&self) -> bool {
        self.has_expression
    }

    /// Whether the filter has no condition, so that every document matches.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::All(nodes) if nodes.is_empty())
    }

    /// A set of values at the dotted `path` such that every matching document has one of them.
    ///
    /// The set may be larger than necessary, and has all values if the filter says nothing about the path. A
    /// document has the values that an index on the path stores for it: the value, null for a missing field,
    /// and for an array its elements, or undefined if it is empty. If `arrays` are absent, there is one
    /// value, and all conditions narrow the set. Otherwise a different element may meet each condition, and
    /// the narrowest set of one condition is used.
    ///
    /// ```
    /// use bson::{RawBsonRef, rawdoc};
    /// use cairndb_query::filter::{Arrays, Filter};
    ///
    /// let filter = Filter::parse(&rawdoc! { "_id": { "$gt": 5, "$lte": 9 }, "color": "red" })?;
    /// let ids = filter.intervals("_id", Arrays::Absent);
    /// assert!(ids.contains(RawBsonRef::Int32(9)) && !ids.contains(RawBsonRef::Int32(5)));
    /// # Ok::<(), cairndb_query::error::Error>(())
    /// ```
    pub fn intervals(&self, path: &str, arrays: Arrays) -> Intervals {
        // No field has a zero byte in its name, so the filter says nothing about such a path.
        let Ok(path) = FieldPath::parse(path) else { return Intervals::all() };
        let arrays = match arrays {
            Arrays::Absent => ArrayComponents::NONE,
            Arrays::Possible => ArrayComponents::ALL,
        };
        let bounds = self.entry_bounds(&[IndexedField { path: &path, arrays, collation: &SIMPLE }]);
        bounds.sets.into_iter().next().unwrap_or_else(Intervals::all)
    }

    /// Bounds on the entries of an index on `fields`. Every matching document has at least one entry within
    /// them.
    ///
    /// ```
    /// use bson::{RawBsonRef, rawdoc};
    /// use cairndb_query::filter::Filter;
    /// use cairndb_query::filter::entries::IndexedField;
    /// use index::collation::SIMPLE;
    /// use index::multikey::ArrayComponents;
    /// use index::path::FieldPath;
    ///
    /// let filter = Filter::parse(&rawdoc! { "city": "Oslo", "age": { "$gt": 30, "$lt": 40 } })?;
    /// let (city, age) = (FieldPath::parse("city")?, FieldPath::parse("age")?);
    /// let arrays = ArrayComponents::NONE;
    /// let fields = [&city, &age].map(|path| IndexedField { path, arrays, collation: &SIMPLE });
    /// let bounds = filter.entry_bounds(&fields);
    /// assert!(bounds.sets[0].is_points() && !bounds.sets[1].contains(RawBsonRef::Int32(40)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry_bounds(&self, fields: &[IndexedField<'_>]) -> EntryBounds {
        let operation = OperationContext::unlimited();
        let budget = PlanningBudget::unlimited(&operation);
        entries::conjunction([&self.root], fields, &budget).into_bounds(fields.len())
    }

    /// The bounds of [`entry_bounds`](Self::entry_bounds). Returns `None` if they would cost too much.
    pub(crate) fn entry_bounds_within<'f>(
        &'f self,
        fields: &[IndexedField<'_>],
        budget: &PlanningBudget<'f>,
    ) -> Option<EntryBounds> {
        let bounds = entries::conjunction([&self.root], fields, budget).into_bounds(fields.len());
        // A decision by entries relies on bounds that are as narrow as they can be.
        (!budget.is_over()).then_some(bounds)
    }

    /// The budget of planning by the filter, for an operation.
    pub(crate) fn planning_budget<'f>(&'f self, operation: &'f OperationContext) -> PlanningBudget<'f> {
        PlanningBudget::of(operation, Some(&self.root))
    }

    /// The first `limit` different paths at which a match must meet a condition, those within `$or` and `$elemMatch` too.
    pub fn paths(&self, limit: usize) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        paths::collect(&self.root, "", limit, &mut paths);
        paths
    }

    /// Whether a condition on this very path must be met. `false` does not mean that none must.
    pub(crate) fn asks_for(&self, path: &FieldPath, budget: &PlanningBudget<'_>) -> bool {
        let root = &self.root;
        let parts = if let Node::All(parts) = root { parts.as_slice() } else { std::slice::from_ref(root) };
        budget.takes(parts.len())
            && parts.iter().any(|part| match part {
                Node::Field(own, _) => own == path,
                Node::Implied(test) => test.path() == path,
                Node::All(_) | Node::Any(_) | Node::Not(_) | Node::Expression(_) | Node::Schema(_) => false,
            })
    }

    /// Whether it is proven that every document that matches `self` matches `other`, which compares texts by `collation`.
    ///
    /// `false` means that no proof was found.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_query::filter::Filter;
    /// use index::collation::SIMPLE;
    ///
    /// let open = Filter::parse(&rawdoc! { "open": true })?;
    /// assert!(Filter::parse(&rawdoc! { "open": true, "city": "Oslo" })?.implies(&open, &SIMPLE));
    /// assert!(!Filter::parse(&rawdoc! { "city": "Oslo" })?.implies(&open, &SIMPLE));
    /// # Ok::<(), cairndb_query::error::Error>(())
    /// ```
    pub fn implies(&self, other: &Self, collation: &Collation) -> bool {
        let operation = OperationContext::unlimited();
        self.implies_within(other, collation, &PlanningBudget::unlimited(&operation))
    }

    /// Whether it is proven, within a budget, that `self` [implies](Self::implies) `other`.
    pub(crate) fn implies_within(
        &self,
        other: &Self,
        collation: &Collation,
        budget: &PlanningBudget<'_>,
    ) -> bool {
        implication::all_imply(&[&self.root], &other.root, collation, budget)
    }

    /// The operator of the filter that a partial index must not have. Returns `None` if all are allowed: `$eq`,
    /// `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$type`, `{$exists: true}`, and `$and` and `$or` of these.
    pub fn refused_in_partial_index(&self) -> Option<&'static str> {
        partial::refused(&self.root)
    }

    /// The first `count` of the `$or`s that every match must meet, each with the other conditions of the
    /// filter.
    pub fn alternatives(&self, count: usize) -> Vec<Alternatives<'_>> {
        let mut conjuncts = Vec::new();
        self.root.collect_conjuncts(&mut conjuncts);
        let alternatives = conjuncts.iter().enumerate().filter_map(|(at, node)| {
            let mut branches = Vec::new();
            node.collect_branches(&mut branches);
            // The other conditions are needed too: together with one branch they bound a scan more tightly.
            let others = conjuncts.iter().enumerate().filter(|(other, _)| *other != at);
            (branches.len() > 1)
                .then(|| Alternatives { branches, others: others.map(|(_, node)| *node).collect() })
        });
        alternatives.take(count).collect()
    }
}

/// The branches of an `$or` and the other conditions of the filter. A match meets one branch and all other
/// conditions.
///
/// The planner makes a scan for each branch of it: see [`Filter::alternatives`].
#[derive(Clone, Debug)]
pub struct Alternatives<'a> {
    branches: Vec<&'a Node>,
    others: Vec<&'a Node>,
}

impl<'a> Alternatives<'a> {
    /// The number of branches, at least two.
    pub fn count(&self) -> usize {
        self.branches.len()
    }

    /// For each branch, bounds on the entries of an index on `fields`. A document that matches by a branch
    /// has at least one entry within the bounds of this branch.
    pub fn entry_bounds(&self, fields: &[IndexedField<'_>]) -> Vec<EntryBounds> {
        let operation = OperationContext::unlimited();
        let bounds = self.entry_bounds_within(fields, &PlanningBudget::unlimited(&operation));
        // A budget without limits rejects nothing.
        bounds.unwrap_or_default()
    }

    /// The bounds of [`entry_bounds`](Self::entry_bounds). Returns `None` if they would cost too much.
    pub(crate) fn entry_bounds_within(
        &self,
        fields: &[IndexedField<'_>],
        budget: &PlanningBudget<'a>,
    ) -> Option<Vec<EntryBounds>> {
        // All branches share this part, so it is computed once.
        let others = entries::conjunction(self.others.iter().copied(), fields, budget);
        let bounds = self.branches.iter().map(|branch| {
            let branch = entries::conjunction([*branch], fields, budget);
            let bounds = entries::both(branch, others.clone(), fields, budget).into_bounds(fields.len());
            (!budget.is_over()).then_some(bounds)
        });
        bounds.collect()
    }

    /// For each branch, whether it is proven that every document that matches by it matches `other`, which compares texts by
    /// `collation`.
    pub fn imply(&self, other: &Filter, collation: &Collation) -> Vec<bool> {
        let operation = OperationContext::unlimited();
        self.imply_within(other, collation, &PlanningBudget::unlimited(&operation))
    }

    /// For each branch, whether it is proven, within a budget, that it [implies](Self::imply) `other`.
    pub(crate) fn imply_within(
        &self,
        other: &Filter,
        collation: &Collation,
        budget: &PlanningBudget<'_>,
    ) -> Vec<bool> {
        let implies = |branch: &&Node| {
            if !budget.takes(self.others.len()) {
                return false;
            }
            let known: Vec<&Node> = self.others.iter().copied().chain([*branch]).collect();
            implication::all_imply(&known, &other.root, collation, budget)
        };
        self.branches.iter().map(implies).collect()
    }
}
