//! The answers of a scan of entries without the documents: conditions that the entries decide, and everything that is
//! asked for.
//!
//! An entry cannot always determine its document. Then the document is read, and the whole filter is applied to it. Where the bounds
//! of the scan are just what the filter leaves, it is applied neither to the entry nor to the document.

use std::sync::Arc;

use index::path::FieldPath;

use crate::filter::Filter;
use crate::filter::entries::IndexedField;
use crate::filter::planning_budget::PlanningBudget;
use crate::filter::residual::{EntryTests, whole_field};
use crate::sort::Sort;

/// The path of the field that every entry leads to.
const ID: &str = "_id";

/// The parts of matching documents that a caller needs.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::filter::Filter;
/// use cairndb_query::operation::OperationContext;
/// use cairndb_query::planner::{Access, IndexView, Needs, Request, plans};
/// use index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "city": 1 }, SpecOptions::default())?;
/// let filter = Filter::parse(&rawdoc! { "city": "Oslo" })?;
/// let indexes = [IndexView { has_details: true, ..IndexView::new(&spec, &[]) }];
/// // To count the matches no document is read.
/// let request = Request { filter: Some(&filter), indexes: &indexes, needs: Needs::Fields(&[]), ..Request::default() };
/// let plan = plans(&request, &OperationContext::default()).swap_remove(0);
/// assert!(matches!(plan.access, Access::Entries(scan) if scan.answer.as_ref().is_some_and(|answer| answer.covers)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub enum Needs<'a> {
    /// The documents themselves.
    #[default]
    Documents,
    /// Only these fields, as an inclusion returns them. Without any the matches are only counted.
    Fields(&'a [FieldPath]),
    /// The keys by which they are found: all fields of the index that is read, whichever it is.
    Keys,
}

/// The answer of a scan from entries. For its use see [`Needs`].
#[derive(Clone, Debug)]
pub struct EntryAnswer {
    /// The conditions that are tested on the document of an entry.
    pub residual: Option<Arc<Filter>>,
    /// The fields that this document has, by their position in the index.
    pub fields: Vec<usize>,
    /// Whether it has the `_id`.
    pub has_id: bool,
    /// Whether an entry within the bounds that meets the residual conditions is a match, and its document has all that
    /// is needed.
    pub covers: bool,
    /// Whether that document has nothing but what is needed.
    pub is_exact: bool,
}

impl EntryAnswer {
    /// Whether the document of an entry is looked at. If not, an entry within the bounds is a match by itself.
    pub fn reads_entries(&self) -> bool {
        // Even a condition without a field is tested on a document: `{a: {$all: []}}` is one.
        self.has_id || !self.fields.is_empty() || self.residual.is_some()
    }
}

/// The question for the entries of an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) filter: Option<&'a Filter>,
    pub(super) needs: Needs<'a>,
    /// The sort that the documents have to go through.
    pub(super) sort: Option<&'a Sort>,
}

/// The result of a scan from the entries of an index.
pub(super) struct Answered {
    /// Their answer. Absent if every document is needed anyway.
    pub(super) answer: Option<EntryAnswer>,
    /// Whether every entry within the bounds is that of a match.
    pub(super) decides: bool,
}

/// The answer of the entries of an index on `fields`. Entries without details identify no document, and are enough only
/// where none is asked for. They answer nothing if to find that would cost too much.
pub(super) fn answer(
    question: Question<'_>,
    fields: &[IndexedField<'_>],
    has_details: bool,
    budget: &PlanningBudget<'_>,
) -> Answered {
    let tests = match question.filter {
        Some(filter) => filter.entry_tests_within(fields, budget),
        None => Some(EntryTests { residual: None, fields: Vec::new(), has_id: false, is_whole: true }),
    };
    let Some(tests) = tests else { return Answered { answer: None, decides: false } };
    let needed = needed(question, fields);
    let EntryTests { residual, fields: tested, has_id, is_whole } = tests;
    // Nothing is left to test, and nothing is beyond what the entries have.
    let decides = is_whole && residual.is_none();
    let mut answer = EntryAnswer {
        residual: residual.map(Arc::new),
        fields: tested,
        has_id,
        covers: false,
        is_exact: false,
    };
    if let Some(needed) = needed.filter(|_| is_whole) {
        answer.covers = true;
        answer.is_exact = needed.is_asked
            && answer.fields.iter().all(|at| needed.fields.contains(at))
            && (needed.has_id || !answer.has_id);
        answer.has_id |= needed.has_id;
        answer.fields.extend(needed.fields);
        answer.fields.sort_unstable();
        answer.fields.dedup();
    }
    drop_nested(&mut answer.fields, fields);
    let is_told = has_details || !answer.reads_entries();
    let answers = is_told && (answer.covers || answer.residual.is_some());
    Answered { answer: answers.then_some(answer), decides }
}

/// Leaves out fields inside of another one that is read: its value has them, and a document has each only once.
fn drop_nested(read: &mut Vec<usize>, fields: &[IndexedField<'_>]) {
    let path = |at: &usize| fields.get(*at).map(|field| field.path);
    let is_inside = |at: &usize, other: &usize| {
        at != other && path(at).zip(path(other)).is_some_and(|(inner, outer)| inner.starts_with(outer))
    };
    let all = read.clone();
    read.retain(|at| !all.iter().any(|other| is_inside(at, other)));
}

/// The parts of an entry that are needed.
struct Needed {
    fields: Vec<usize>,
    has_id: bool,
    /// Whether the caller asked for all of them. A sort may need others.
    is_asked: bool,
}

/// The parts of an entry of an index on `fields` that are needed. Returns `None` if the entry does not have it.
fn needed(question: Question<'_>, fields: &[IndexedField<'_>]) -> Option<Needed> {
    let asked: Vec<&FieldPath> = match question.needs {
        Needs::Documents => return None,
        Needs::Fields(paths) => paths.iter().collect(),
        Needs::Keys => fields.iter().map(|field| field.path).collect(),
    };
    let mut needed = Needed { fields: Vec::new(), has_id: false, is_asked: true };
    let mut add = |path: &FieldPath| {
        if path.as_str() == ID {
            needed.has_id = true;
            return Some(());
        }
        needed.fields.push(whole_field(path, fields)?);
        Some(())
    };
    asked.into_iter().try_for_each(&mut add)?;
    // A sort uses the fields of the documents that the entries make.
    if let Some(sort) = question.sort {
        sort.fields().try_for_each(|(path, _)| add(path))?;
        needed.is_asked = false;
    }
    Some(needed)
}
