//! The entries of many tables and the logs side by side: for each key, its newest version.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use base::error::Result;
use rocksfile::table::ChangeKind;

use crate::checksums::KeySpan;
use crate::options::PlantedFault;
use crate::salvage::logs::LogWalk;
use crate::salvage::table::{DeletedRange, TableCursor, TableOutline, Unreadable};

/// The limit of listed damages of one family.
const DAMAGES_MAX: usize = 10_000;

/// The newest version of a key that can be read.
pub struct Newest<'a> {
    /// The key.
    pub key: &'a [u8],
    /// `None` if the key was deleted.
    pub value: Option<&'a [u8]>,
    /// Whether a newer version may have been in bytes that cannot be read.
    pub may_be_old: bool,
}

/// The sources of a merge.
pub(super) struct Sources<'a> {
    pub(super) folder: &'a Path,
    pub(super) tables: Vec<&'a TableOutline>,
    pub(super) logs: LogWalk<'a>,
    /// Ascending by their starts.
    pub(super) deleted: Vec<DeletedRange>,
    /// Whether keys anywhere may have been lost.
    pub(super) all_may_be_old: bool,
    pub(super) fault: PlantedFault,
}

/// A place in the heap. Tables are opened when the merge gets to their first key, so that few are open at once.
type Place = Reverse<(Vec<u8>, usize)>;

struct Merge<'a> {
    sources: Sources<'a>,
    open: Vec<Option<TableCursor>>,
    heap: BinaryHeap<Place>,
    damages: Vec<Unreadable>,
    omitted: u64,
    doubtful: Vec<KeySpan>,
    /// The ranges that begin at or before the current key and end after it.
    covering: Vec<DeletedRange>,
    ranges_passed: usize,
    /// The newest version of the current key so far.
    best: Version,
}

/// A version of a key.
#[derive(Default)]
struct Version {
    kind: Option<ChangeKind>,
    sequence: u64,
    /// The table's number. The logs are newer than every table.
    source: u64,
    value: Vec<u8>,
}

/// Gives the newest version of each key to `visit`, in the order of the keys. Returns what could not be read, and how much
/// more there is of it.
pub(super) fn merge(
    sources: Sources<'_>,
    visit: &mut dyn FnMut(Newest<'_>) -> Result<()>,
) -> Result<(Vec<Unreadable>, u64)> {
    let count = sources.tables.len();
    let heap = sources.tables.iter().enumerate();
    let heap = heap.map(|(at, outline)| Reverse((outline.first_key.clone(), at))).collect();
    let mut merge = Merge {
        sources,
        open: std::iter::repeat_with(|| None).take(count).collect(),
        heap,
        damages: Vec::new(),
        omitted: 0,
        doubtful: Vec::new(),
        covering: Vec::new(),
        ranges_passed: 0,
        best: Version::default(),
    };
    while let Some(key) = merge.next_key()? {
        merge.best.kind = None;
        while merge.heap.peek().is_some_and(|Reverse((at, _))| *at == key) {
            let Some(Reverse((_, source))) = merge.heap.pop() else { break };
            merge.take_table(source, &key);
        }
        merge.take_log(&key)?;
        merge.give(&key, visit)?;
    }
    Ok((merge.damages, merge.omitted))
}

impl Merge<'_> {
    /// The lowest key that is left.
    fn next_key(&self) -> Result<Option<Vec<u8>>> {
        let of_tables = self.heap.peek().map(|Reverse((key, _))| key.clone());
        let of_logs = self.sources.logs.current()?.map(|change| change.key.to_vec());
        Ok(match (of_tables, of_logs) {
            (Some(table), Some(log)) => Some(table.min(log)),
            (table, log) => table.or(log),
        })
    }

    /// Collects all versions of `key` from a table, and puts the table back at its next key.
    fn take_table(&mut self, source: usize, key: &[u8]) {
        let Some(outline) = self.sources.tables.get(source) else { return };
        let Some(slot) = self.open.get_mut(source) else { return };
        let mut cursor = if let Some(cursor) = slot.take() {
            cursor
        } else {
            match TableCursor::open(self.sources.folder, outline.number) {
                Ok(mut cursor) => {
                    cursor.advance();
                    cursor
                }
                // It could be opened for its outline. What fails since then costs this table, and not the others.
                Err(error) => {
                    let damage = outline.lost(self.sources.folder, key, error.to_string());
                    self.doubtful.extend(damage.keys.clone());
                    self.damages.push(damage);
                    self.keep_some();
                    return;
                }
            }
        };
        let ignores_deletions = self.sources.fault == PlantedFault::DeletionsNotSalvaged;
        let mut next = None;
        while let Some(current) = &mut cursor.current {
            if current.key != key {
                next = Some(current.key.clone());
                break;
            }
            let is_newer = self.best.kind.is_none()
                || (current.sequence, cursor.number) > (self.best.sequence, self.best.source);
            if is_newer && !(ignores_deletions && current.kind == Some(ChangeKind::Deletion)) {
                (self.best.kind, self.best.sequence, self.best.source) =
                    (current.kind, current.sequence, cursor.number);
                std::mem::swap(&mut self.best.value, &mut current.value);
            }
            cursor.advance();
        }
        self.note_damages(&mut cursor, next.is_none());
        self.keep_some();
        if let Some(next) = next {
            *slot_of(&mut self.open, source) = Some(cursor);
            self.heap.push(Reverse((next, source)));
        }
    }

    fn take_log(&mut self, key: &[u8]) -> Result<()> {
        let ignores_deletions = self.sources.fault == PlantedFault::DeletionsNotSalvaged;
        let Some(change) = self.sources.logs.current()?.filter(|change| change.key == key) else {
            return Ok(());
        };
        // The same change can be in a table already.
        let is_newer = self.best.kind.is_none() || change.sequence > self.best.sequence;
        if is_newer && !(ignores_deletions && change.kind == ChangeKind::Deletion) {
            (self.best.kind, self.best.sequence) = (Some(change.kind), change.sequence);
            self.best.value.clear();
            self.best.value.extend_from_slice(change.value);
        }
        self.sources.logs.advance();
        Ok(())
    }

    /// Notes what a table could not give, and which keys may be older than they were for it.
    fn note_damages(&mut self, cursor: &mut TableCursor, is_at_end: bool) {
        let from = self.damages.len();
        for damage in cursor.damages.drain(..) {
            if let Some(keys) = damage.keys.clone() {
                doubt(&mut self.doubtful, keys);
            }
            self.damages.push(damage);
        }
        let left = cursor.entries_left();
        // Without an index, and with nothing that says how many entries there are, some may always be missing.
        let is_short = left.map_or(!cursor.has_index(), |left| left > 0);
        if !is_at_end || !is_short {
            return;
        }
        let first = cursor.first_damage();
        let is_first = |damage: &&mut Unreadable| Some(damage.offset) == first && cursor.is_of(damage);
        if let Some(damage) = self.damages.iter_mut().find(is_first) {
            damage.entries = left;
            return;
        }
        let missing = cursor.missing(left);
        self.doubtful.extend(missing.keys.clone());
        self.damages.insert(from, missing);
    }

    /// Passes the damages on that are kept. Those of a thoroughly damaged folder would not fit into memory.
    fn keep_some(&mut self) {
        let surplus = self.damages.len().saturating_sub(DAMAGES_MAX);
        self.omitted += surplus as u64;
        self.damages.truncate(DAMAGES_MAX);
    }

    /// Gives the newest version of the key to `visit`.
    fn give(&mut self, key: &[u8], visit: &mut dyn FnMut(Newest<'_>) -> Result<()>) -> Result<()> {
        // The key of a table whose beginning cannot be read is not a key.
        let Some(kind) = self.best.kind else { return Ok(()) };
        while let Some(range) =
            self.sources.deleted.get(self.ranges_passed).filter(|range| range.start.as_slice() <= key)
        {
            self.covering.push(range.clone());
            self.ranges_passed += 1;
        }
        self.covering.retain(|range| range.end.as_slice() > key);
        self.doubtful.retain(|span| span.up_to.as_slice() >= key);
        let is_deleted = self.covering.iter().any(|range| range.sequence > self.best.sequence)
            && self.sources.fault != PlantedFault::DeletionsNotSalvaged;
        let may_be_old =
            self.sources.all_may_be_old || self.doubtful.iter().any(|span| span.above.as_slice() < key);
        let value = match kind {
            _ if is_deleted => None,
            ChangeKind::Deletion => None,
            // Any other change does not become a document, and is rejected.
            ChangeKind::Value | ChangeKind::RangeDeletion | ChangeKind::Other(_) => {
                Some(self.best.value.as_slice())
            }
        };
        visit(Newest { key, value, may_be_old })
    }
}

/// Adds a span of keys. The damaged blocks of a table often follow each other, and are one span then.
fn doubt(doubtful: &mut Vec<KeySpan>, keys: KeySpan) {
    match doubtful.iter_mut().find(|span| span.up_to == keys.above) {
        Some(before) => before.up_to = keys.up_to,
        None => doubtful.push(keys),
    }
}

fn slot_of(open: &mut [Option<TableCursor>], source: usize) -> &mut Option<TableCursor> {
    open.get_mut(source).expect("there is a slot for each table")
}
