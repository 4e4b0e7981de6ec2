//! A plan as stages, told in MongoDB's words: each over the one that it takes its input from, with what it did.
//!
//! Stages have MongoDB's names where they do what MongoDB's do: `IDHACK` looks up one record, `CLUSTERED_IXSCAN` walks
//! ranges of them, `COLLSCAN` all; `IXSCAN` walks entries and `FETCH` reads the documents that they name; `OR` joins
//! several of these.

use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use index::interval::{Interval, Intervals, Limit};
use index::key::Direction;
use query::planner::{Access, EntryScan, Plan};

use crate::catalog::indexes::Index;
use crate::document::print::print_value;
use crate::execute::matches::Looks;
use crate::execute::rows::Work;
use crate::results::number;

/// How many bounds are shown, and how much of each.
const BOUNDS_MAX: usize = 100;
const BOUND_CHARS_MAX: usize = 100;
/// How long a filter that is shown may be.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// One stage.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) about: Document,
    /// What it did.
    pub(super) done: Document,
    /// The chains of stages that it joins, if it does not just follow the one before it.
    joined: Vec<Vec<Stage>>,
}

impl Stage {
    pub(super) fn new(name: &'static str, about: Document) -> Self {
        Self { name, about, done: Document::new(), joined: Vec::new() }
    }

    /// Whether it reads what is stored.
    fn reads(&self) -> bool {
        matches!(self.name, "IDHACK" | "CLUSTERED_IXSCAN" | "COLLSCAN" | "EOF")
    }
}

/// The stages that reach the documents and ask them, the one that reads first. `filter` is shown where it is asked.
pub(super) fn of_plan(plan: &Plan, filter: Option<&Document>, indexes: &[Index]) -> Vec<Stage> {
    of_access(&plan.access, filter, indexes)
}

/// The lookup of one record.
pub(super) fn of_lookup(filter: Option<&Document>) -> Vec<Stage> {
    vec![Stage::new("IDHACK", asked(filter))]
}

/// Chains of stages, each with the one below it as its input.
pub(super) fn nested(stages: &[Stage], tell: &dyn Fn(&Stage) -> Document) -> Document {
    let mut plan: Option<Document> = None;
    for stage in stages {
        let mut next = doc! { "stage": stage.name };
        next.extend(tell(stage));
        next.extend(plan.take().map(|input| ("inputStage".to_owned(), Bson::Document(input))));
        if !stage.joined.is_empty() {
            let inputs = stage.joined.iter().map(|chain| Bson::Document(nested(chain, tell)));
            next.insert("inputStages", inputs.collect::<Vec<_>>());
        }
        plan = Some(next);
    }
    plan.unwrap_or_default()
}

/// Notes what each stage did in a run that passed over `skip` documents.
pub(super) fn note(stages: &mut [Stage], work: &Work, skip: u64) {
    let mut parts = work.parts.iter().copied();
    note_reading(stages, &mut parts, work.looks);
    let mut returned = work.looks.matched;
    for stage in stages {
        returned = match stage.name {
            "IXSCAN" => continue,
            "SORT" => work.sorted.unwrap_or(returned),
            "SKIP" => returned.saturating_sub(skip),
            "LIMIT" => work.rows,
            _ => returned,
        };
        stage.done.insert("nReturned", number(returned));
    }
}

/// Notes what the stages that read did; scans that were not begun did nothing.
fn note_reading(stages: &mut [Stage], parts: &mut dyn Iterator<Item = Looks>, all: Looks) {
    let mut part = Looks::default();
    for stage in stages {
        if stage.name == "IXSCAN" {
            part = parts.next().unwrap_or_default();
            stage.done.insert("nReturned", number(part.documents));
            stage.done.insert("keysExamined", number(part.keys));
        } else if stage.name == "FETCH" {
            stage.done.insert("nReturned", number(part.matched));
            stage.done.insert("docsExamined", number(part.documents));
        } else if stage.reads() {
            part = parts.next().unwrap_or(Looks { matched: 0, ..all });
            stage.done.insert("nReturned", number(part.matched));
            stage.done.insert("keysExamined", number(part.keys));
            stage.done.insert("docsExamined", number(part.documents));
        }
        for chain in &mut stage.joined {
            note_reading(chain, parts, Looks::default());
        }
    }
}

/// A document that is repeated in a reply, unless it is so long that a reply might not hold it.
pub(crate) fn shown(document: &Document) -> Document {
    match RawDocumentBuf::try_from(document).map(|raw| raw.as_bytes().len()) {
        Ok(length) if length > SHOWN_BYTES_MAX => {
            doc! { "$truncated": format!("{length} bytes are not repeated") }
        }
        Ok(_) | Err(_) => document.clone(),
    }
}

fn of_access(access: &Access, filter: Option<&Document>, indexes: &[Index]) -> Vec<Stage> {
    let mut about = asked(filter);
    match access {
        Access::Nothing => vec![Stage::new("EOF", Document::new())],
        Access::Records(scan) => {
            about.insert("direction", towards(scan.direction));
            if scan.ids.is_all() {
                return vec![Stage::new("COLLSCAN", about)];
            }
            about.insert("recordIdBounds", bounds(&scan.ids, scan.direction));
            vec![Stage::new("CLUSTERED_IXSCAN", about)]
        }
        Access::Entries(scan) => {
            let index = indexes.get(scan.index).expect("the plan was made for these indexes");
            vec![Stage::new("IXSCAN", of_entries(scan, index)), Stage::new("FETCH", about)]
        }
        Access::Union(scans) => {
            let joined = scans.iter().map(|scan| of_access(scan, filter, indexes)).collect();
            vec![Stage { joined, ..Stage::new("OR", Document::new()) }]
        }
    }
}

/// What is told of a scan of entries.
fn of_entries(scan: &EntryScan, index: &Index) -> Document {
    let arrays = index.arrays.announced();
    let fields = || index.spec.fields().iter().zip(&arrays);
    let multikey_paths = fields().map(|(field, arrays)| {
        let names: Vec<&str> = field.path.components().collect();
        let fronts = (1..=names.len()).filter(|length| arrays.contains(length - 1));
        let fronts = fronts.filter_map(|length| names.get(..length)).map(|front| front.join("."));
        (field.path.as_str().to_owned(), Bson::from(fronts.collect::<Vec<String>>()))
    });
    let bounds = index.spec.fields().iter().zip(&scan.bounds).map(|(field, set)| {
        // A descending field is walked from its highest value on.
        let is_reversed = field.direction != scan.direction;
        let direction = if is_reversed { Direction::Descending } else { Direction::Ascending };
        (field.path.as_str().to_owned(), Bson::from(bounds(set, direction)))
    });
    doc! {
        "keyPattern": index.key_pattern(),
        "indexName": &index.name,
        "isMultiKey": arrays.iter().any(|arrays| !arrays.is_empty()),
        "multiKeyPaths": multikey_paths.collect::<Document>(),
        "isUnique": index.spec.is_unique(),
        "isSparse": index.spec.is_sparse(),
        "isPartial": false,
        "indexVersion": 2,
        "direction": towards(scan.direction),
        "indexBounds": bounds.collect::<Document>(),
    }
}

fn asked(filter: Option<&Document>) -> Document {
    filter.map(|filter| doc! { "filter": shown(filter) }).unwrap_or_default()
}

fn towards(direction: Direction) -> &'static str {
    if direction == Direction::Ascending { "forward" } else { "backward" }
}

/// Intervals as texts, in the order and direction of a walk; the first of them if there are many.
fn bounds(set: &Intervals, direction: Direction) -> Vec<String> {
    let all = set.as_slice();
    let text = |interval: &Interval| {
        let [(from, from_limit), (to, to_limit)] = match direction {
            Direction::Ascending => [interval.lower(), interval.upper()],
            Direction::Descending => [interval.upper(), interval.lower()],
        };
        let open = if from_limit == Limit::Inclusive { '[' } else { '(' };
        let close = if to_limit == Limit::Inclusive { ']' } else { ')' };
        format!("{open}{}, {}{close}", value(from), value(to))
    };
    let mut texts: Vec<String> = match direction {
        Direction::Ascending => all.iter().take(BOUNDS_MAX).map(text).collect(),
        Direction::Descending => all.iter().rev().take(BOUNDS_MAX).map(text).collect(),
    };
    let more = all.len().saturating_sub(BOUNDS_MAX);
    texts.extend((more > 0).then(|| format!("{more} more")));
    texts
}

/// A bound as the shell writes it; only the front of a long one.
fn value(value: RawBsonRef<'_>) -> String {
    let text = Bson::try_from(value).map(|value| print_value(&value)).unwrap_or_default();
    match text.char_indices().nth(BOUND_CHARS_MAX) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
