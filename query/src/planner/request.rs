//! The request of a caller of the planner.

use index::collation::Collation;
use index::key::Direction;
use index::multikey::ArrayComponents;
use index::path::FieldPath;
use index::spec::IndexSpec;

use crate::filter::Filter;
use crate::planner::cover::Needs;
use crate::planner::entry_range::EntryRange;
use crate::sort::Sort;

/// An index that a plan may use. For its use see [`plans`](crate::planner::plans).
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    /// The declaration of the index.
    pub spec: &'a IndexSpec,
    /// For each field, the components of its path at which some document has an array, and whether a key of it may be shortened.
    /// Missing fields have none.
    pub arrays: &'a [ArrayComponents],
    /// The filter of a partial index, which has no entry of a document that does not match it.
    pub partial: Option<&'a Filter>,
    /// Whether an entry gives its `_id` and the order of its fields.
    pub has_details: bool,
    /// Whether the key of an `_id` may be shortened. Then entries with equal fields are not in the order of the `_id`s.
    pub has_shortened_ids: bool,
}

impl<'a> IndexView<'a> {
    /// The view of an index whose entries say nothing but the values of the fields.
    pub fn new(spec: &'a IndexSpec, arrays: &'a [ArrayComponents]) -> Self {
        Self { spec, arrays, partial: None, has_details: false, has_shortened_ids: false }
    }
}

/// The input of the planner: the filter, the sort, the indexes and the hint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Which documents are wanted, or `None` for all.
    pub filter: Option<&'a Filter>,
    /// The wanted order, or `None` for any.
    pub sort: Option<&'a Sort>,
    /// The indexes of the collection, without the records.
    pub indexes: &'a [IndexView<'a>],
    /// Whether the key of a record may be shortened. Then the records are not in the order of their `_id`s.
    pub has_shortened_ids: bool,
    /// The index or order that the caller requires.
    pub hint: Option<Hint>,
    /// The only entries that are wanted of what the hint names. Without a hint it has no effect.
    pub range: Option<&'a EntryRange>,
    /// The parts of the documents that the caller needs.
    pub needs: Needs<'a>,
    /// Of the matches with one value of this field only the first in the wanted order is needed. Others may come too.
    pub one_of_each: Option<&'a FieldPath>,
    /// Which texts are one value there, or `None` if only those with the same bytes are.
    pub collation: Option<&'a Collation>,
    /// Whether the caller reads all that matches, and does not stop after some documents.
    pub reads_all: bool,
}

/// An index or order that a caller requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The records, in this direction without a sort.
    Records(Direction),
    /// The index at this position of [`Request::indexes`].
    Index(usize),
}
