//! A walk over the keys of one family between two bounds, on a snapshot.
//!
//! RocksDB's iterator becomes invalid at its end and on an error alike, so its status is checked whenever it stops.
//!
//! RocksDB passes deleted keys within one call, and there may be millions of them. So for an operation with limits such a
//! call is cut short; the operation is looked at, and the walk goes on from a key that it was at, with twice as many keys.
//! The invariant: a call that was cut short is neither the end of a walk nor an error.

use std::cmp::Ordering;
use std::sync::Arc;

use base::error::Result;
use index::key::Direction;
use index::range::KeyRange;
use query::operation::OperationContext;
use rocksdb::ReadOptions;

use crate::cache_reads;
use crate::families::Family;
use crate::first_live;
use crate::live_starts::SKIPPED_MIN;
use crate::merged::Merged;
use crate::options::PlantedFault;
use crate::snapshot::{OwnedIterator, Snapshot, Step};
use crate::translate;

/// A walk over keys. Its position is before the first key until `advance` is called.
pub struct Scan {
    iterator: Keys,
    direction: Direction,
    position: Position,
    range: Range,
    cut: Cut,
}

/// The keys of a walk.
enum Keys {
    Stored(OwnedIterator),
    /// With a transaction's staged changes over what is stored.
    Merged(Box<Merged>),
}

/// The keys from a first one up to an end, in a family.
struct Range {
    family: Family,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    cache: CacheUse,
    notes: NoteUse,
}

/// Whether the notes of first live keys are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoteUse {
    /// A walk begins where a note says, and makes one.
    Used,
    Ignored,
}

/// The point at which RocksDB's calls are cut short, and from which the walk then continues.
struct Cut {
    operation: OperationContext,
    /// The number of keys that a call may pass, versions of a key counted one by one. 0 means no limit.
    passed_max: u64,
    /// A key that the walk was at. Empty if it is the beginning of the walk.
    mark: Vec<u8>,
    /// The number of steps of the walk from the mark.
    steps: u32,
}

/// The goal of a move of the iterator.
#[derive(Clone, Copy)]
enum Goal<'a> {
    /// The key as many steps after the mark as the [`Cut`] has counted.
    Steps,
    /// The first key that is not before this one.
    From(&'a [u8]),
    /// The last key that is not after this one.
    UpTo(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Before,
    At,
    /// At the key that the next `advance` steps to.
    Ahead,
    End,
}

/// The number of keys that are stepped over before a skip seeks. A seek costs about as much as ten steps.
const SKIPPED_STEPS: usize = 8;
/// The number of keys that RocksDB passes before a call is cut short for the first time: some milliseconds.
const PASSED_MIN: u64 = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// The number of them that count as a step of the operation.
const PASSED_A_STEP: u64 = 8;
/// After how many steps a walk keeps a copy of its key. To copy each of them would make scans slower.
const STEPS_A_MARK: u32 = 64;

/// Whether a walk fills the block cache. One that reads a whole collection must not push other blocks out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// Blocks are kept in the cache.
    Fill,
    /// Blocks that the scan reads do not enter the cache.
    Bypass,
}

impl CacheUse {
    fn options(self) -> ReadOptions {
        let mut reads = ReadOptions::default();
        reads.fill_cache(self == Self::Fill);
        reads
    }
}

impl Keys {
    /// Moves to another key. Returns `false` if no key is current afterwards.
    #[inline]
    fn step(&mut self, step: Step<'_>) -> bool {
        match self {
            Self::Stored(stored) => stored.step(step),
            Self::Merged(merged) => merged.step(step),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Self::Stored(stored) => stored.key(),
            Self::Merged(merged) => merged.key(),
        }
    }

    #[inline]
    fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Stored(stored) => stored.value(),
            Self::Merged(merged) => merged.value(),
        }
    }

    fn stored(&self) -> &OwnedIterator {
        match self {
            Self::Stored(stored) => stored,
            Self::Merged(merged) => merged.stored(),
        }
    }
}

impl Scan {
    /// Opens a walk over the keys between two bounds: the first key (included), and the end (excluded). With `None`
    /// as the end it goes to the end of the family. Where it passes many deleted keys it looks at the operation, and
    /// fails if that must end.
    pub fn open(
        snapshot: &Arc<Snapshot>,
        family: Family,
        bounds: (Vec<u8>, Option<Vec<u8>>),
        cache: CacheUse,
        operation: &OperationContext,
    ) -> Self {
        let (start, end) = bounds;
        // A read of a whole collection, to verify it for example, uses no note.
        let notes = match cache {
            CacheUse::Fill if end.is_some() => NoteUse::Used,
            CacheUse::Fill | CacheUse::Bypass => NoteUse::Ignored,
        };
        Self::of_range(snapshot, Range { family, start, end, cache, notes }, Cut::of(operation))
    }

    /// Opens a walk as [`open`](Self::open) does, which fills the block cache and uses no notes.
    pub(crate) fn open_without_notes(
        snapshot: &Arc<Snapshot>,
        family: Family,
        bounds: (Vec<u8>, Vec<u8>),
        operation: &OperationContext,
    ) -> Self {
        let (start, end) = bounds;
        let (cache, notes) = (CacheUse::Fill, NoteUse::Ignored);
        Self::of_range(snapshot, Range { family, start, end: Some(end), cache, notes }, Cut::of(operation))
    }

    /// Opens a walk, as [`open`](Self::open) does, that fails when it has passed `deleted` deleted keys in a row.
    pub fn open_hurried(
        snapshot: &Arc<Snapshot>,
        family: Family,
        bounds: (Vec<u8>, Option<Vec<u8>>),
        cache: CacheUse,
        deleted: u64,
    ) -> Self {
        let (start, end) = bounds;
        let range = Range { family, start, end, cache, notes: NoteUse::Ignored };
        let cut = Cut { passed_max: deleted, ..Cut::of(&OperationContext::unlimited()) };
        Self::of_range(snapshot, range, cut)
    }

    fn of_range(snapshot: &Arc<Snapshot>, range: Range, cut: Cut) -> Self {
        let iterator = range.iterator(snapshot, cut.passed_max);
        Self { iterator, direction: Direction::Ascending, position: Position::Before, range, cut }
    }

    /// The bounds that the walk was opened with, both of them. For who goes on with another walk.
    pub fn take_bounds(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.range.start), self.range.end.take().unwrap_or_default())
    }

    /// Sets the direction of the walk. `advance` must not have been called.
    pub fn towards(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// Steps to the next key. Returns `false` at the end.
    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    pub fn advance(&mut self) -> Result<bool> {
        // Apart from the rest, so that it is small enough to be a part of every walk.
        if self.position == Position::At {
            self.cut.count_step(&self.iterator);
            if self.step() {
                return Ok(true);
            }
        }
        self.begin_or_end()
    }

    /// Goes to the first key, to the one that a skip has found, or to the end.
    fn begin_or_end(&mut self) -> Result<bool> {
        let is_valid = match (self.position, self.direction) {
            // The step has found none.
            (Position::At, _) => false,
            // The bounds are set, so these are the first and the last key between them.
            (Position::Ahead, _) => self.iterator.value().is_some(),
            (Position::Before, Direction::Ascending) => self.first()?,
            (Position::Before, Direction::Descending) => self.iterator.step(Step::Last),
            (Position::End, _) => return Ok(false),
        };
        self.has_come(is_valid, Goal::Steps)
    }

    /// Goes to the first key. Where many deleted ones were before it, it is noted for later scans.
    #[inline]
    fn first(&mut self) -> Result<bool> {
        if self.range.notes == NoteUse::Ignored {
            return Ok(self.iterator.step(Step::First));
        }
        let before = cache_reads::skipped();
        let is_valid = self.iterator.step(Step::First);
        // The counters are RocksDB's, and a program may reset them.
        if cache_reads::skipped().saturating_sub(before) < SKIPPED_MIN {
            return Ok(is_valid);
        }
        let is_valid = is_valid || self.goes_on(Goal::Steps)?;
        let Range { family, start, end, .. } = &self.range;
        // An empty range is one whose first live key is its end: so is a queue with nothing in it.
        if let Some(found) = self.iterator.stored().raw().key().or(end.as_deref()) {
            let database = self.iterator.stored().snapshot().database();
            // Passed keys are passed once more, on the newest state.
            first_live::note(database, *family, (start, found), |snapshot, bounds| {
                let mut scan = Self::open_without_notes(snapshot, *family, bounds, &self.cut.operation);
                Ok(if scan.advance()? { Some(scan.key().to_vec()) } else { None })
            })?;
        }
        Ok(is_valid)
    }

    /// Makes the next `advance` step to the first key that does not start with `prefix`. The current key starts with it.
    #[inline]
    pub fn skip_prefix(&mut self, prefix: &[u8]) -> Result<()> {
        if self.position != Position::At {
            return Ok(());
        }
        // Most prefixes have few keys, and then a step is cheaper than a seek.
        for _ in 0..SKIPPED_STEPS {
            // Stepping an iterator without a current key is not allowed.
            if !self.step() {
                // A step that was cut short: the seek finds the same key.
                if self.is_cut_short() {
                    break;
                }
                self.position = Position::Ahead;
                return Ok(());
            }
            if !self.key().starts_with(prefix) {
                self.position = Position::Ahead;
                self.cut.mark_next();
                return Ok(());
            }
        }
        match self.direction {
            Direction::Ascending => {
                let Some(end) = KeyRange::prefix(prefix.to_vec()).end else {
                    // No key is after the last prefix.
                    self.position = Position::End;
                    return Ok(());
                };
                self.seek(&end)?;
            }
            Direction::Descending => {
                let is_valid = self.iterator.step(Step::SeekForPrev(prefix));
                self.cut.mark_next();
                // The prefix itself may be a key.
                if self.has_come(is_valid, Goal::UpTo(prefix))? && self.key() == prefix {
                    self.advance()?;
                }
            }
        }
        // At the end as well: what has skipped to it is not to begin again.
        self.position = Position::Ahead;
        Ok(())
    }

    /// Steps forward to the first key that is not before `key`, unless the current one is. Returns whether it is `key` itself.
    /// The walk must be ascending.
    #[inline]
    pub fn advance_to(&mut self, key: &[u8]) -> Result<bool> {
        let mut steps = 0;
        while self.position != Position::End && (self.position == Position::Before || self.key() < key) {
            // Most keys that are asked for one after the other are close, and then a step is cheaper than a seek.
            let is_valid = if self.position == Position::At && steps < SKIPPED_STEPS {
                steps += 1;
                self.iterator.step(Step::Next)
            } else {
                self.iterator.step(Step::Seek(key))
            };
            self.cut.mark_next();
            if !self.has_come(is_valid, Goal::From(key))? {
                return Ok(false);
            }
        }
        Ok(self.position == Position::At && self.key() == key)
    }

    /// Goes to the first key that is not before `key`, from the first one that is not before `earlier`. The walk must be ascending.
    #[inline]
    pub fn seek_after(&mut self, earlier: &[u8], key: &[u8]) -> Result<()> {
        // Nothing lies between the two, as where values follow each other.
        if self.position == Position::At && earlier < key && self.key() >= key {
            return Ok(());
        }
        self.seek(key).map(|_| ())
    }

    /// Goes to the first key that is not before `key`, from wherever the walk is. Returns whether it is `key` itself.
    #[inline]
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let is_valid = self.iterator.step(Step::Seek(key));
        self.cut.mark_next();
        Ok(self.has_come(is_valid, Goal::From(key))? && self.key() == key)
    }

    /// Goes from the current key to `key`, forward or back, in at most `steps` steps. Returns whether it is there. If not, the
    /// walk is somewhere between, and a [`Self::seek`] must follow.
    pub fn step_towards(&mut self, key: &[u8], steps: usize) -> Result<bool> {
        // Stepping an iterator without a current key is not allowed.
        if self.position != Position::At {
            return Ok(false);
        }
        let way = self.key().cmp(key);
        self.cut.mark_next();
        for _ in 0..steps {
            let is_valid = match way {
                Ordering::Less => self.iterator.step(Step::Next),
                Ordering::Greater => self.iterator.step(Step::Prev),
                Ordering::Equal => return Ok(true),
            };
            if !is_valid {
                self.position = Position::End;
                return if self.is_cut_short() { Ok(false) } else { self.goes_on(Goal::From(key)) };
            }
            let left = self.key().cmp(key);
            if left != way {
                return Ok(left == Ordering::Equal);
            }
        }
        Ok(false)
    }

    /// Whether the current key is the next one: a skip has gone there already.
    #[inline]
    pub fn is_ahead(&self) -> bool {
        self.position == Position::Ahead
    }

    /// Moves the iterator by one key. Returns `false` if it has no current key afterwards.
    #[inline]
    fn step(&mut self) -> bool {
        match self.direction {
            Direction::Ascending => self.iterator.step(Step::Next),
            Direction::Descending => self.iterator.step(Step::Prev),
        }
    }

    /// Notes where the iterator is after a move. Returns `false` at the end.
    #[inline]
    fn has_come(&mut self, is_valid: bool, goal: Goal<'_>) -> Result<bool> {
        if is_valid {
            self.position = Position::At;
            return Ok(true);
        }
        self.position = Position::End;
        if self.goes_on(goal)? {
            self.position = Position::At;
        }
        Ok(self.position == Position::At)
    }

    /// Whether the iterator has stopped because it has passed as many keys as it may.
    fn is_cut_short(&self) -> bool {
        let may_be_cut = !self.cut.operation.is_unlimited();
        may_be_cut
            && self.iterator.stored().raw().status().is_err_and(|error| translate::is_cut_short(&error))
    }

    /// Goes on with a move after which the iterator has no current key, as long as it was cut short. Returns `false` at the
    /// end, and fails on an error or if the operation must end.
    #[cold]
    fn goes_on(&mut self, goal: Goal<'_>) -> Result<bool> {
        while self.is_cut_short() {
            if self.iterator.stored().snapshot().fault() == PlantedFault::CutTakenForEnd {
                return Ok(false);
            }
            self.cut.operation.steps(self.cut.passed_max / PASSED_A_STEP)?;
            self.cut.operation.look()?;
            // RocksDB does not say how far it has come. All that was passed is passed again, so there are to be few repetitions.
            self.cut.passed_max = self.cut.passed_max.saturating_mul(2);
            let snapshot = Arc::clone(self.iterator.stored().snapshot());
            self.iterator = self.range.iterator(&snapshot, self.cut.passed_max);
            self.move_to(goal);
        }
        self.iterator.stored().raw().status().map_err(translate::read)?;
        if matches!(goal, Goal::Steps) {
            self.cut.mark_next();
        }
        Ok(self.iterator.value().is_some())
    }

    /// Moves a new iterator.
    fn move_to(&mut self, goal: Goal<'_>) {
        let mark = self.cut.mark.as_slice();
        let is_valid = match (goal, self.direction) {
            (Goal::From(key), _) => self.iterator.step(Step::Seek(key)),
            (Goal::UpTo(key), _) => self.iterator.step(Step::SeekForPrev(key)),
            (Goal::Steps, Direction::Ascending) if mark.is_empty() => self.iterator.step(Step::First),
            (Goal::Steps, Direction::Descending) if mark.is_empty() => self.iterator.step(Step::Last),
            (Goal::Steps, Direction::Ascending) => self.iterator.step(Step::Seek(mark)),
            (Goal::Steps, Direction::Descending) => self.iterator.step(Step::SeekForPrev(mark)),
        };
        if !is_valid || !matches!(goal, Goal::Steps) {
            return;
        }
        for _ in 0..self.cut.steps {
            if !self.step() {
                return;
            }
        }
    }

    /// The current key. Empty before the first and after the last.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.iterator.key()
    }

    /// The current value. Empty before the first and after the last.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.iterator.value().unwrap_or_default()
    }
}

impl Range {
    /// Opens an iterator that passes at most `passed_max` keys in a call, or any number for 0.
    fn iterator(&self, snapshot: &Arc<Snapshot>, passed_max: u64) -> Keys {
        let mut reads = self.cache.options();
        // As bounds of the iterator they let RocksDB skip table files outside of them, and stop without a comparison
        // here.
        reads.set_iterate_lower_bound(self.first(snapshot));
        if let Some(end) = &self.end {
            reads.set_iterate_upper_bound(end.clone());
        }
        reads.set_max_skippable_internal_keys(passed_max);
        let stored = OwnedIterator::open(snapshot, self.family, reads);
        let Some(overlay) = snapshot.staged(self.family) else { return Keys::Stored(stored) };
        let bounds = (self.start.clone(), self.end.clone());
        Keys::Merged(Box::new(Merged::new(stored, Arc::clone(overlay), self.family, bounds)))
    }

    /// The key at which the iterator begins.
    fn first(&self, snapshot: &Snapshot) -> Vec<u8> {
        let Self { start, end: Some(end), notes: NoteUse::Used, family, .. } = self else {
            return self.start.clone();
        };
        let database = snapshot.database();
        match database.live_starts().of(database.number(*family), start, || snapshot.sequence()) {
            // If nothing of the range is left, it ends before it begins.
            Some(first) => first.min(end.clone()),
            None => start.clone(),
        }
    }
}

impl Cut {
    fn of(operation: &OperationContext) -> Self {
        let passed_max = if operation.is_unlimited() { 0 } else { PASSED_MIN };
        Self { operation: operation.clone(), passed_max, mark: Vec::new(), steps: 0 }
    }

    /// Counts a step that is about to be made from the current key.
    #[inline]
    fn count_step(&mut self, iterator: &Keys) {
        if self.steps >= STEPS_A_MARK {
            self.mark_current(iterator);
        }
        self.steps += 1;
    }

    #[cold]
    fn mark_current(&mut self, iterator: &Keys) {
        self.steps = 0;
        if self.passed_max > 0 {
            self.mark.clear();
            self.mark.extend_from_slice(iterator.key());
        }
    }

    /// Makes the key of the next step the mark. The walk was moved by something else than steps.
    #[inline]
    fn mark_next(&mut self) {
        self.steps = STEPS_A_MARK;
    }
}

/// The highest key of the family from `prefix` (included) to `end` (excluded).
pub fn last_key(
    snapshot: &Arc<Snapshot>,
    family: Family,
    prefix: &[u8],
    end: Vec<u8>,
    operation: &OperationContext,
) -> Result<Option<Vec<u8>>> {
    let scan = Scan::open_without_notes(snapshot, family, (prefix.to_vec(), end), operation);
    let mut scan = scan.towards(Direction::Descending);
    Ok(if scan.advance()? { Some(scan.key().to_vec()) } else { None })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::time::Duration;

    use query::operation::Allowance;

    use super::*;
    use crate::fixture;
    use crate::open::OpenMode;
    use crate::store::Store;
    use crate::write::{Batch, CommitLevel};

    const KEYS: u32 = 6000;

    fn key(number: u32) -> Vec<u8> {
        [&[0, 0, 0, 7][..], &number.to_be_bytes()].concat()
    }

    /// A store with keys of which most are deleted, in one row and in many.
    struct Deleted {
        // Dropped in this order.
        snapshot: Arc<Snapshot>,
        _store: Store,
        _folder: tempfile::TempDir,
        /// The remaining keys, in ascending order.
        left: Vec<Vec<u8>>,
    }

    impl Deleted {
        fn new(fault: PlantedFault, is_left: impl Fn(u32) -> bool) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let options = fixture::options(&folder.path().join("db"), OpenMode::CreateIfMissing);
            let store = Store::open(&crate::StoreOptions { fault, ..options }).expect("made");
            let database = store.enter().expect("open");
            let (mut put, mut delete) = (Batch::new(&database), Batch::new(&database));
            for number in 0..KEYS {
                put.put(Family::Entries, &key(number), b"x");
                if !is_left(number) {
                    delete.delete(Family::Entries, &key(number));
                }
            }
            store.commit(put, CommitLevel::Buffered).expect("written");
            store.commit(delete, CommitLevel::Buffered).expect("written");
            let snapshot = Snapshot::take(&database);
            drop(database);
            let left = (0..KEYS).filter(|number| is_left(*number)).map(key).collect();
            Self { _folder: folder, _store: store, snapshot, left }
        }

        fn scan(&self, direction: Direction, operation: &OperationContext) -> Scan {
            let bounds = (vec![0, 0, 0, 7], Some(vec![0, 0, 0, 8]));
            Scan::open(&self.snapshot, Family::Entries, bounds, CacheUse::Bypass, operation)
                .towards(direction)
        }
    }

    fn rest(scan: &mut Scan) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        while scan.advance()? {
            keys.push(scan.key().to_vec());
        }
        Ok(keys)
    }

    fn reversed(keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        keys.iter().rev().cloned().collect()
    }

    /// Which keys are left, in all shapes that a cut can meet: before, between and after them, and none at all.
    const SHAPES: [fn(u32) -> bool; 7] = [
        |_| false,
        |number| number == KEYS - 1,
        |number| number == 0,
        |number| number % 700 == 699,
        |number| !(200..KEYS - 200).contains(&number),
        |number| number % 200 < 100 || number % 1500 == 300,
        |number| number > 5 && (number - 5).is_power_of_two(),
    ];

    #[test]
    fn a_scan_that_is_cut_short_finds_what_any_other_does() {
        for is_left in SHAPES {
            let deleted = Deleted::new(PlantedFault::None, is_left);
            for operation in [OperationContext::counting(), OperationContext::unlimited()] {
                let mut up = deleted.scan(Direction::Ascending, &operation);
                assert_eq!(rest(&mut up).expect("read"), deleted.left);
                let mut down = deleted.scan(Direction::Descending, &operation);
                assert_eq!(rest(&mut down).expect("read"), reversed(&deleted.left));
            }
            let (prefix, operation) = ([0, 0, 0, 7], OperationContext::counting());
            let last = last_key(&deleted.snapshot, Family::Entries, &prefix, vec![0, 0, 0, 8], &operation);
            assert_eq!(last.expect("read").as_ref(), deleted.left.last());
        }
    }

    /// Seeks, and steps after them, from each of many keys.
    #[test]
    fn a_seek_that_is_cut_short_goes_on() {
        for is_left in SHAPES {
            let deleted = Deleted::new(PlantedFault::None, is_left);
            let operation = OperationContext::counting();
            let mut steps = deleted.scan(Direction::Ascending, &operation);
            for number in (0..KEYS).step_by(311) {
                let wanted = key(number);
                let from = deleted.left.partition_point(|left| *left < wanted);
                let (_, after) = deleted.left.split_at(from);
                let mut scan = deleted.scan(Direction::Ascending, &operation);
                assert_eq!(scan.seek(&wanted).expect("read"), after.first() == Some(&wanted));
                assert_eq!(scan.key(), after.first().map(Vec::as_slice).unwrap_or_default());
                assert_eq!(rest(&mut scan).expect("read"), after.get(1..).unwrap_or_default());
                assert_eq!(steps.advance_to(&wanted).expect("read"), after.first() == Some(&wanted));
                assert_eq!(steps.key(), after.first().map(Vec::as_slice).unwrap_or_default());
            }
        }
    }

    #[test]
    fn a_skip_of_a_prefix_that_is_cut_short_goes_on() {
        for is_left in SHAPES {
            let deleted = Deleted::new(PlantedFault::None, is_left);
            for direction in [Direction::Ascending, Direction::Descending] {
                let mut wanted = match direction {
                    Direction::Ascending => deleted.left.clone(),
                    Direction::Descending => reversed(&deleted.left),
                };
                // The first of each prefix.
                wanted.dedup_by(|left, last| last.get(..7) == left.get(..7));
                let mut scan = deleted.scan(direction, &OperationContext::counting());
                let mut found = Vec::new();
                while scan.advance().expect("read") {
                    found.push(scan.key().to_vec());
                    let prefix = scan.key().get(..7).expect("a key").to_vec();
                    scan.skip_prefix(&prefix).expect("read");
                }
                assert_eq!(found, wanted);
            }
        }
    }

    /// A step that is cut short finds nothing, and the seek that must follow finds the key.
    #[test]
    fn a_step_towards_a_key_is_followed_by_a_seek() {
        let deleted = Deleted::new(PlantedFault::None, |number| number == 0 || number == KEYS - 1);
        let mut scan = deleted.scan(Direction::Ascending, &OperationContext::counting());
        assert!(scan.seek(&key(0)).expect("read"));
        assert!(!scan.step_towards(&key(KEYS - 1), 4).expect("read"));
        assert!(scan.seek(&key(KEYS - 1)).expect("read"));
        assert!(!scan.step_towards(&key(0), 4).expect("read"));
        assert!(scan.seek(&key(0)).expect("read"));
    }

    /// Without the limit these went through all keys before they looked at the operation.
    #[test]
    fn a_scan_over_deleted_keys_ends_with_its_operation() {
        let deleted = Deleted::new(PlantedFault::None, |number| number == 0 || number == KEYS - 1);
        for direction in [Direction::Ascending, Direction::Descending] {
            let time = Some(Duration::from_nanos(1));
            let operation = OperationContext::new(Allowance { time, ..Allowance::default() });
            let mut scan = deleted.scan(direction, &operation);
            // One key is at the beginning, and then only deleted ones come.
            assert!(scan.advance().expect("read"));
            assert!(scan.advance().is_err());
            assert!(!scan.advance().expect("over"));
        }
    }

    /// The number of repetitions is small: each passes twice as many keys.
    #[test]
    fn all_passes_over_deleted_keys_cost_twice_as_much_as_one() {
        let deleted = Deleted::new(PlantedFault::None, |number| number == KEYS - 1);
        let passed = |operation| {
            let before = cache_reads::skipped();
            let mut scan = deleted.scan(Direction::Ascending, &operation);
            assert!(scan.advance().expect("read"));
            cache_reads::skipped() - before
        };
        let once = passed(OperationContext::unlimited());
        assert!(once >= u64::from(KEYS - 1));
        assert!(passed(OperationContext::counting()) <= 3 * once);
    }

    #[test]
    fn a_cut_that_is_taken_for_the_end_is_seen() {
        let deleted = Deleted::new(PlantedFault::CutTakenForEnd, |number| number == KEYS - 1);
        let mut scan = deleted.scan(Direction::Ascending, &OperationContext::counting());
        assert_eq!(rest(&mut scan).expect("read"), Vec::<Vec<u8>>::new());
    }
}
