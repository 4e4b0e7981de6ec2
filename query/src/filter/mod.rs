//! Filters: which documents a query selects.
//!
//! [`Filter::parse`] checks everything once; [`Filter::matches`] then decodes nothing. What an operator
//! means for one value stands in the module of its family, and how a path reaches values in the `index` crate.

mod array;
mod bits;
mod bounds;
mod compare;
mod element;
pub(crate) mod element_condition;
pub mod entries;
mod equality;
mod evaluate;
mod operator;
mod parse;
mod position;
mod schema;

use bson::RawDocument;
use index::interval::Intervals;
use index::multikey::ArrayComponents;
use index::path::FieldPath;

use crate::error::Error;
use crate::expression::Variables;
use crate::filter::entries::{EntryBounds, IndexedField};
use crate::filter::evaluate::Node;
use crate::operation::OperationContext;
use crate::pattern::{Room, Watch};

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

/// Whether values of a field may be arrays or lie in arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// No document has an array at the path or on the way to it, as for `_id` and every index that is not multikey.
    Absent,
    /// Some document may have one.
    Possible,
}

impl Filter {
    /// Reads a filter and checks all its operators and arguments. `$expr` is refused: see
    /// [`parse_with`](Self::parse_with).
    pub fn parse(filter: &RawDocument) -> Result<Self, Error> {
        Ok(Self { root: parse::parse(filter, None)?, has_expression: false })
    }

    /// Reads a filter that may have expressions over the given variables; ask it by
    /// [`try_matches`](Self::try_matches).
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
    pub fn parse_with(filter: &RawDocument, variables: &Variables) -> Result<Self, Error> {
        let root = parse::parse(filter, Some(variables))?;
        let has_expression = root.has_expression();
        Ok(Self { root, has_expression })
    }

    /// Reads a filter of array elements, or within an update: neither expressions nor schemas may stand there.
    pub(crate) fn parse_plain(filter: &RawDocument, room: &Room) -> Result<Self, Error> {
        Ok(Self { root: parse::parse_plain(filter, room)?, has_expression: false })
    }

    /// Whether a document matches. An expression cannot be asked here, and never matches; a regular expression that
    /// takes too long to answer makes the document one that does not match.
    pub fn matches(&self, document: &RawDocument) -> bool {
        self.matches_within(document, &OperationContext::default()).unwrap_or(false)
    }

    /// Whether a document matches, for filters without expressions. Every question counts as a step of the operation.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the operation is to end, [`Error::PatternFailed`] if a regular expression finds no
    /// answer within its limits.
    pub fn matches_within(
        &self,
        document: &RawDocument,
        operation: &OperationContext,
    ) -> Result<bool, Error> {
        let watch = Watch::of(operation);
        let is_match = self.root.matches(document, &watch);
        Ok(watch.outcome(is_match)?)
    }

    /// Whether a document matches, with values for the variables that expressions use, within the operation that they
    /// belong to.
    ///
    /// # Errors
    /// [`Error::Expression`] if an expression has no value for the document, [`Error::PatternFailed`] if a regular
    /// expression finds no answer within its limits, [`Error::Interrupted`] if the operation is to end.
    pub fn try_matches(&self, document: &RawDocument, variables: &Variables) -> Result<bool, Error> {
        if !self.has_expression {
            return self.matches_within(document, variables.operation());
        }
        let watch = Watch::of(variables.operation());
        let is_match = self.root.try_matches(document, variables, &watch)?;
        Ok(watch.outcome(is_match)?)
    }

    /// Whether there is an expression in the filter, so that it must be asked by
    /// [`try_matches`](Self::try_matches).
    pub fn has_expression(&self) -> bool {
        self.has_expression
    }

    /// Whether the filter asks nothing, so that every document matches.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::All(nodes) if nodes.is_empty())
    }

    /// Values of the dotted `path`, at least one of which every matching document has; perhaps more than needed,
    /// and all values if nothing is known.
    ///
    /// A document "has" what an index on the path holds for it: the value, null for a missing field, and for an
    /// array its elements, or undefined if it is empty. Where arrays are absent there is only one value, and the
    /// conditions of the filter narrow it together; otherwise each may be met by another element, and the
    /// narrowest is taken.
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
        // A path with a zero byte is no field's.
        let Ok(path) = FieldPath::parse(path) else { return Intervals::all() };
        let arrays = match arrays {
            Arrays::Absent => ArrayComponents::NONE,
            Arrays::Possible => ArrayComponents::ALL,
        };
        let bounds = self.entry_bounds(&[IndexedField { path: &path, arrays }]);
        bounds.sets.into_iter().next().unwrap_or_else(Intervals::all)
    }

    /// Bounds that some entry of every matching document lies within, in an index on these fields.
    ///
    /// ```
    /// use bson::{RawBsonRef, rawdoc};
    /// use cairndb_query::filter::Filter;
    /// use cairndb_query::filter::entries::IndexedField;
    /// use index::multikey::ArrayComponents;
    /// use index::path::FieldPath;
    ///
    /// let filter = Filter::parse(&rawdoc! { "city": "Oslo", "age": { "$gt": 30, "$lt": 40 } })?;
    /// let (city, age) = (FieldPath::parse("city")?, FieldPath::parse("age")?);
    /// let fields = [&city, &age].map(|path| IndexedField { path, arrays: ArrayComponents::NONE });
    /// let bounds = filter.entry_bounds(&fields);
    /// assert!(bounds.sets[0].is_points() && !bounds.sets[1].contains(RawBsonRef::Int32(40)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry_bounds(&self, fields: &[IndexedField<'_>]) -> EntryBounds {
        entries::conjunction([&self.root], fields).into_bounds(fields.len())
    }

    /// The first `count` of those `$or`s that every match meets a branch of, with what else every match meets.
    pub fn alternatives(&self, count: usize) -> Vec<Alternatives<'_>> {
        let mut conjuncts = Vec::new();
        self.root.collect_conjuncts(&mut conjuncts);
        let alternatives = conjuncts.iter().enumerate().filter_map(|(at, node)| {
            let mut branches = Vec::new();
            node.collect_branches(&mut branches);
            let others = conjuncts.iter().enumerate().filter(|(other, _)| *other != at);
            (branches.len() > 1)
                .then(|| Alternatives { branches, others: others.map(|(_, node)| *node).collect() })
        });
        alternatives.take(count).collect()
    }
}

/// The branches of an `$or`, one of which every match meets, and the conditions beside it, all of which it meets.
#[derive(Clone, Debug)]
pub struct Alternatives<'a> {
    branches: Vec<&'a Node>,
    others: Vec<&'a Node>,
}

impl Alternatives<'_> {
    /// How many branches there are; at least two.
    pub fn count(&self) -> usize {
        self.branches.len()
    }

    /// For each branch, bounds that some entry of every document lies within that matches by this branch.
    pub fn entry_bounds(&self, fields: &[IndexedField<'_>]) -> Vec<EntryBounds> {
        let others = entries::conjunction(self.others.iter().copied(), fields);
        let bounds = self.branches.iter().map(|branch| {
            let branch = entries::conjunction([*branch], fields);
            entries::both(branch, others.clone(), fields).into_bounds(fields.len())
        });
        bounds.collect()
    }
}
