//! A plan as stages in MongoDB's terms, each with its input and its work.
//!
//! Stages have MongoDB's names if they do the same: `IDHACK` looks up one record, `CLUSTERED_IXSCAN` scans ranges of
//! records, `COLLSCAN` all records; `IXSCAN` scans entries, and `FETCH` reads the documents that they name; `COUNT_SCAN`
//! counts entries, `DISTINCT_SCAN` reads one for each value; `OR` joins several of these, and
//! `SORT_MERGE` merges them in the order of the sort.

use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use index::interval::{Interval, Intervals, Limit};
use index::key::Direction;
use index::spec::IndexField;
use index::wildcard::WILDCARD;
use query::planner::{Access, EntryScan, Plan};

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::catalog::settings::COLLATION;
use crate::document::print::{print_value, with_sort_keys_shown};
use crate::execute::examined::Examined;
use crate::execute::rows::Work;
use crate::results::number;

/// The number of bounds of a scan that are shown, and of characters of each.
const BOUNDS_MAX: usize = 100;
const BOUND_CHARS_MAX: usize = 100;
/// The maximum size of a filter that is shown.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// One stage of a plan.
#[derive(Clone, Debug)]
pub(super) struct PlanStage {
    pub(super) name: &'static str,
    /// The description of the stage, whether it is run or not.
    pub(super) about: Document,
    /// The work of the stage, if it was run.
    pub(super) done: Document,
    /// The chains of stages that an `OR` joins. Empty for a stage whose input is the one before it.
    joined: Vec<Vec<PlanStage>>,
}

impl PlanStage {
    pub(super) fn new(name: &'static str, about: Document) -> Self {
        Self { name, about, done: Document::new(), joined: Vec::new() }
    }

    /// Whether the stage reads entries of an index.
    fn reads_entries(&self) -> bool {
        matches!(self.name, "IXSCAN" | "DISTINCT_SCAN" | "COUNT_SCAN")
    }

    /// The index that the stage reads, or the first of those that it joins. Returns `None` if it reads none.
    pub(super) fn index_name(&self) -> Option<&str> {
        match self.name {
            // The records are the index on `_id`.
            "IDHACK" | "CLUSTERED_IXSCAN" => Some(ID_INDEX_NAME),
            _ => {
                let joined = self.joined.iter().flatten().find_map(Self::index_name);
                self.about.get_str("indexName").ok().or(joined)
            }
        }
    }

    /// Whether the stage reads records without a stage below it.
    fn reads(&self) -> bool {
        matches!(self.name, "IDHACK" | "CLUSTERED_IXSCAN" | "COLLSCAN" | "EOF")
    }
}

/// The stages that read and filter documents, the one that reads first. `filter` is shown with the stage that evaluates
/// it.
pub(super) fn of_plan(plan: &Plan, filter: Option<&Document>, indexes: &[Index]) -> Vec<PlanStage> {
    of_access(&plan.access, filter, indexes)
}

/// The stages of a lookup of one record.
pub(super) fn of_lookup(filter: Option<&Document>) -> Vec<PlanStage> {
    vec![PlanStage::new("IDHACK", with_filter(filter))]
}

/// A chain of stages as nested documents: each contains its input. `tell` gives the other fields of a stage.
pub(super) fn nested(stages: &[PlanStage], tell: &dyn Fn(&PlanStage) -> Document) -> Document {
    let mut plan: Option<Document> = None;
    for stage in stages {
        let mut next = doc! { "stage": stage.name };
        next.extend(tell(stage));
        next.extend(plan.take().map(|input| ("inputStage".to_owned(), Bson::Document(input))));
        // MongoDB has another field for several inputs.
        if !stage.joined.is_empty() {
            let inputs = stage.joined.iter().map(|chain| Bson::Document(nested(chain, tell)));
            next.insert("inputStages", inputs.collect::<Vec<_>>());
        }
        plan = Some(next);
    }
    plan.unwrap_or_default()
}

/// Adds to each stage its work in a run that has skipped `skip` documents.
pub(super) fn note(stages: &mut [PlanStage], work: &Work, skip: u64) {
    let mut parts = work.parts.iter().copied();
    note_reading(stages, &mut parts, work.examined);
    // Each stage returns what the one before it returned, unless it is one of those below.
    let mut returned = work.examined.matched;
    for stage in stages {
        returned = match stage.name {
            // They return keys, and were counted with the scans.
            "IXSCAN" | "DISTINCT_SCAN" | "COUNT_SCAN" => continue,
            "SORT" => work.sorted.unwrap_or(returned),
            "SKIP" => returned.saturating_sub(skip),
            "LIMIT" => work.rows,
            _ => returned,
        };
        stage.done.insert("nReturned", number(returned));
        if stage.name == "SORT" {
            stage.done.insert("usedDisk", work.spills > 0);
            stage.done.insert("spills", number(work.spills));
        }
    }
}

/// Adds their work to the stages that read. `parts` has an entry for each scan that was opened, in the order of the
/// stages; the other scans have done nothing.
fn note_reading(stages: &mut [PlanStage], parts: &mut dyn Iterator<Item = Examined>, all: Examined) {
    // An `IXSCAN` and the `FETCH` above it are one scan, so the second uses the entry of the first.
    let mut part = Examined::default();
    let is_fetched = stages.iter().any(|stage| stage.name == "FETCH");
    for stage in stages {
        if stage.reads_entries() {
            part = parts.next().unwrap_or_default();
            // Without a stage that reads documents, the scan itself reads those that an entry cannot determine.
            let returned = if is_fetched { part.documents } else { part.matched };
            stage.done.insert("nReturned", number(returned));
            stage.done.insert("keysExamined", number(part.keys));
            if !is_fetched {
                stage.done.insert("docsExamined", number(part.documents));
            }
        } else if stage.name == "FETCH" {
            stage.done.insert("nReturned", number(part.matched));
            stage.done.insert("docsExamined", number(part.documents));
        } else if stage.reads() {
            // A branch of an `OR` gets an empty `all`. Otherwise this is the only scan, so all work is its own.
            part = parts.next().unwrap_or(Examined { matched: 0, ..all });
            stage.done.insert("nReturned", number(part.matched));
            stage.done.insert("keysExamined", number(part.keys));
            stage.done.insert("docsExamined", number(part.documents));
        }
        for chain in &mut stage.joined {
            note_reading(chain, parts, Examined::default());
        }
    }
}

/// A document for a reply. A very large one is replaced by its size, because the reply must not exceed the limit of a
/// message.
pub(crate) fn shown(document: &Document) -> Document {
    match RawDocumentBuf::try_from(document).map(|raw| raw.as_bytes().len()) {
        Ok(length) if length > SHOWN_BYTES_MAX => {
            doc! { "$truncated": format!("{length} bytes are not repeated") }
        }
        Ok(_) | Err(_) => document.clone(),
    }
}

/// The stages of one access.
fn of_access(access: &Access, filter: Option<&Document>, indexes: &[Index]) -> Vec<PlanStage> {
    // Shown with the stage that applies it: where entries decide, none does.
    let is_decided = matches!(access, Access::Entries(scan) if scan.decides);
    let mut about = with_filter(filter.filter(|_| !is_decided));
    match access {
        Access::Nothing => vec![PlanStage::new("EOF", Document::new())],
        Access::Records(scan) => {
            about.insert("direction", towards(scan.direction));
            if scan.ids.is_all() {
                return vec![PlanStage::new("COLLSCAN", about)];
            }
            about.insert("recordIdBounds", bounds(&scan.ids, scan.direction, Texts::Themselves));
            vec![PlanStage::new("CLUSTERED_IXSCAN", about)]
        }
        Access::Entries(scan) => {
            // If documents are read, the whole filter is applied to them, unless their entries decide.
            let index = indexes.get(scan.index).expect("the plan was made for these indexes");
            let mut entries = of_entries(scan, index);
            let name = if scan.distinct.is_some() { "DISTINCT_SCAN" } else { "IXSCAN" };
            let Some(answer) = &scan.answer else {
                return vec![PlanStage::new(name, entries), PlanStage::new("FETCH", about)];
            };
            if answer.residual.is_some() {
                entries.extend(with_filter(filter));
            }
            match (answer.covers, answer.reads_entries() || scan.distinct.is_some()) {
                (false, _) => vec![PlanStage::new(name, entries), PlanStage::new("FETCH", about)],
                (true, true) => vec![PlanStage::new(name, entries)],
                (true, false) => vec![PlanStage::new("COUNT_SCAN", entries)],
            }
        }
        Access::Merge(merge) => {
            let joined = merge.scans.iter().map(|scan| of_access(scan, filter, indexes)).collect();
            vec![PlanStage { joined, ..PlanStage::new("SORT_MERGE", Document::new()) }]
        }
        Access::Union(union) => {
            let joined = union.scans.iter().map(|scan| of_access(scan, filter, indexes)).collect();
            vec![PlanStage { joined, ..PlanStage::new("OR", Document::new()) }]
        }
    }
}

/// The description of a scan of entries.
fn of_entries(scan: &EntryScan, index: &Index) -> Document {
    let arrays = index.arrays.announced();
    // MongoDB lists, for each field, the beginnings of its path that have led to an array.
    let fields = || index.spec.fields().iter().zip(&arrays);
    let multikey_paths = fields().map(|(field, arrays)| {
        let names: Vec<&str> = field.path.components().collect();
        let fronts = (1..=names.len()).filter(|length| arrays.contains(length - 1));
        let fronts = fronts.filter_map(|length| names.get(..length)).map(|front| front.join("."));
        (field.path.as_str().to_owned(), Bson::from(fronts.collect::<Vec<String>>()))
    });
    let path = wildcard_path(scan, index);
    let name = |field: &IndexField| match &path {
        Some(path) if field.path.as_str().ends_with(WILDCARD) => path.clone(),
        _ => field.path.as_str().to_owned(),
    };
    let collation = index.spec.collation().document();
    let texts = if collation.is_some() { Texts::SortKeys } else { Texts::Themselves };
    let bounds = index.spec.fields().iter().zip(&scan.bounds).map(|(field, set)| {
        // A forward scan goes through a descending field from its highest value on.
        let is_reversed = field.direction != scan.direction;
        let direction = if is_reversed { Direction::Descending } else { Direction::Ascending };
        // Of a wildcard index only the values have sort keys, and not the paths.
        let is_path = path.is_some() && !field.path.as_str().ends_with(WILDCARD);
        (name(field), Bson::from(bounds(set, direction, if is_path { Texts::Themselves } else { texts })))
    });
    let mut about = doc! {
        "keyPattern": match &path {
            Some(path) => doc! { "$_path": 1, path: index.key_pattern().values().next().cloned() },
            None => index.key_pattern(),
        },
        "indexName": &index.name,
    };
    // As in MongoDB: with every option, and not at all if it is simple.
    about.extend(
        collation.map(|collation| {
            (COLLATION.to_owned(), Document::try_from(collation).unwrap_or_default().into())
        }),
    );
    about.extend(doc! {
        "isMultiKey": arrays.iter().any(|arrays| !arrays.is_empty()),
        "multiKeyPaths": multikey_paths.collect::<Document>(),
        "isUnique": index.spec.is_unique(),
        "isSparse": index.spec.is_sparse(),
        "isPartial": index.settings.partial.is_some(),
        "indexVersion": 2,
        "direction": towards(scan.direction),
        "indexBounds": bounds.collect::<Document>(),
    });
    about
}

/// The form of strings in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Texts {
    Themselves,
    SortKeys,
}

/// The path at which a wildcard index is read. Returns `None` for every other index.
fn wildcard_path(scan: &EntryScan, index: &Index) -> Option<String> {
    index.spec.wildcard()?;
    let path = scan.bounds.first()?.as_slice().first()?.lower().0;
    path.as_str().map(str::to_owned)
}

/// The description of a stage that evaluates a filter.
fn with_filter(filter: Option<&Document>) -> Document {
    filter.map(|filter| doc! { "filter": shown(filter) }).unwrap_or_default()
}

fn towards(direction: Direction) -> &'static str {
    if direction == Direction::Ascending { "forward" } else { "backward" }
}

/// Intervals as they are written, in the order of a scan. If there are many, only the first ones.
fn bounds(set: &Intervals, direction: Direction, texts: Texts) -> Vec<String> {
    let all = set.as_slice();
    let text = |interval: &Interval| {
        let [(from, from_limit), (to, to_limit)] = match direction {
            Direction::Ascending => [interval.lower(), interval.upper()],
            Direction::Descending => [interval.upper(), interval.lower()],
        };
        let open = if from_limit == Limit::Inclusive { '[' } else { '(' };
        let close = if to_limit == Limit::Inclusive { ']' } else { ')' };
        format!("{open}{}, {}{close}", value(from, texts), value(to, texts))
    };
    let mut written: Vec<String> = match direction {
        Direction::Ascending => all.iter().take(BOUNDS_MAX).map(text).collect(),
        Direction::Descending => all.iter().rev().take(BOUNDS_MAX).map(text).collect(),
    };
    // An `$in` can have thousands of bounds.
    let more = all.len().saturating_sub(BOUNDS_MAX);
    written.extend((more > 0).then(|| format!("{more} more")));
    written
}

/// A bound as MongoDB's shell writes it. A long one is cut.
fn value(value: RawBsonRef<'_>, texts: Texts) -> String {
    let is_text = matches!(value, RawBsonRef::String(_) | RawBsonRef::Symbol(_));
    let value = Bson::try_from(value).unwrap_or(Bson::Undefined);
    let text = match (texts, is_text) {
        (Texts::Themselves, _) => print_value(&value),
        (Texts::SortKeys, false) => print_value(&with_sort_keys_shown(value)),
        (Texts::SortKeys, true) => {
            let key = with_sort_keys_shown(value);
            format!("CollationKey({})", key.as_str().unwrap_or_default())
        }
    };
    // Cut between two characters: a slice by bytes could end inside one.
    match text.char_indices().nth(BOUND_CHARS_MAX) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
