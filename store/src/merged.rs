//! An iterator over what a snapshot has with a transaction's staged changes over it, in both directions.
//!
//! It is at the smaller of two keys (going down, at the larger one): that of the stored iterator and that of the staged changes. Where both
//! have the same key the staged value counts, and a staged removal hides the stored one.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use index::key::Direction;

use crate::families::Family;
use crate::options::PlantedFault;
use crate::overlay::{Overlay, Staged};
use crate::snapshot::{OwnedIterator, Step};

/// Staged changes over a stored iterator.
pub(super) struct Merged {
    stored: OwnedIterator,
    overlay: Arc<Overlay>,
    family: Family,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    /// The staged change that is next in the direction, or the current one.
    staged: Option<Staged>,
    direction: Direction,
    current: Current,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    Nothing,
    Stored,
    Staged,
}

impl Merged {
    /// `stored` has the same bounds, or a later start if no stored key is before it. It has no position before the first step.
    pub(super) fn new(
        stored: OwnedIterator,
        overlay: Arc<Overlay>,
        family: Family,
        bounds: (Vec<u8>, Option<Vec<u8>>),
    ) -> Self {
        let (start, end) = bounds;
        let (direction, current) = (Direction::Ascending, Current::Nothing);
        Self { stored, overlay, family, start, end, staged: None, direction, current }
    }

    pub(super) fn stored(&self) -> &OwnedIterator {
        &self.stored
    }

    /// Moves to another key. Returns `false` if no key is current afterwards.
    pub(super) fn step(&mut self, step: Step<'_>) -> bool {
        match step {
            Step::First => self.go(Direction::Ascending, step, Bound::Included(&[])),
            Step::Seek(key) => self.go(Direction::Ascending, step, Bound::Included(key)),
            Step::Last => self.go(Direction::Descending, step, Bound::Unbounded),
            Step::SeekForPrev(key) => self.go(Direction::Descending, step, Bound::Included(key)),
            Step::Next => self.pass(Direction::Ascending),
            Step::Prev => self.pass(Direction::Descending),
        }
        self.settle();
        self.current != Current::Nothing
    }

    /// Goes to a place, from which the direction leads on.
    fn go(&mut self, direction: Direction, step: Step<'_>, from: Bound<&[u8]>) {
        self.direction = direction;
        self.stored.step(step);
        self.staged = self.staged_from(from);
    }

    /// The staged change that comes first in the direction, from a bound on.
    fn staged_from(&self, from: Bound<&[u8]>) -> Option<Staged> {
        let fault = self.stored.snapshot().fault();
        if fault == PlantedFault::StagedMissedByScans && self.family == Family::Entries
            || fault == PlantedFault::StagedMissedBackwards && self.direction == Direction::Descending
        {
            return None;
        }
        let end = self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        match self.direction {
            Direction::Ascending => {
                let from = match from {
                    Bound::Included(key) | Bound::Excluded(key) if key >= &*self.start => from,
                    Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => {
                        Bound::Included(&*self.start)
                    }
                };
                self.overlay.first(self.family, (from, end))
            }
            Direction::Descending => {
                let to = match (from, self.end.as_deref()) {
                    (Bound::Included(key) | Bound::Excluded(key), Some(end)) if key < end => from,
                    (Bound::Included(_) | Bound::Excluded(_), None) => from,
                    _ => end,
                };
                self.overlay.last(self.family, (Bound::Included(&self.start), to))
            }
        }
    }

    /// Passes the current key.
    fn pass(&mut self, direction: Direction) {
        let (onwards, back) = match direction {
            Direction::Ascending => (Step::Next, self.direction == Direction::Descending),
            Direction::Descending => (Step::Prev, self.direction == Direction::Ascending),
        };
        if self.current == Current::Nothing {
            return;
        }
        if back {
            // The iterators are where they were going. Now they come back to the current key.
            let key = self.key().to_vec();
            self.direction = direction;
            let seek = match direction {
                Direction::Ascending => Step::Seek(&key),
                Direction::Descending => Step::SeekForPrev(&key),
            };
            if self.stored.step(seek) && self.stored.key() == key {
                self.stored.step(onwards);
            }
            self.staged = self.staged_from(Bound::Excluded(&key));
            return;
        }
        if self.current == Current::Stored {
            self.stored.step(onwards);
            return;
        }
        self.pass_staged(onwards);
    }

    /// Passes the staged change, and the stored key that it replaces.
    fn pass_staged(&mut self, onwards: Step<'_>) {
        let Some(staged) = self.staged.take() else { return };
        let is_shown =
            staged.value.is_none() && self.stored.snapshot().fault() == PlantedFault::StagedDeletesShown;
        if self.stored.has_key() && self.stored.key() == &*staged.key && !is_shown {
            self.stored.step(onwards);
        }
        self.staged = self.staged_from(Bound::Excluded(&staged.key));
    }

    /// Finds the current key: the first of the two that is not removed.
    fn settle(&mut self) {
        self.current = loop {
            // One that stopped because of an error must not be mistaken for one at its end.
            if !self.stored.has_key() && self.stored.raw().status().is_err() {
                break Current::Nothing;
            }
            let Some(staged) = &self.staged else {
                break if self.stored.has_key() { Current::Stored } else { Current::Nothing };
            };
            let order = match (self.stored.has_key(), self.direction) {
                (false, _) => Ordering::Greater,
                (true, Direction::Ascending) => self.stored.key().cmp(&staged.key),
                (true, Direction::Descending) => (*staged.key).cmp(self.stored.key()),
            };
            if order == Ordering::Less {
                break Current::Stored;
            }
            if staged.value.is_some() {
                break Current::Staged;
            }
            self.pass_staged(match self.direction {
                Direction::Ascending => Step::Next,
                Direction::Descending => Step::Prev,
            });
        };
    }

    /// The current key. Empty if there is none.
    pub(super) fn key(&self) -> &[u8] {
        match (self.current, &self.staged) {
            (Current::Stored, _) => self.stored.key(),
            (Current::Staged, Some(staged)) => &staged.key,
            _ => &[],
        }
    }

    /// The current value.
    pub(super) fn value(&self) -> Option<&[u8]> {
        match (self.current, &self.staged) {
            (Current::Stored, _) => self.stored.value(),
            (Current::Staged, Some(staged)) => staged.value.as_deref(),
            _ => None,
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::collections::BTreeMap;

    use base::error::Result;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use query::operation::OperationContext;

    use super::*;
    use crate::fixture::Fixture;
    use crate::scan::{CacheUse, Scan, last_key};
    use crate::snapshot::Snapshot;
    use crate::write::{Batch, CommitLevel};

    type Key = Vec<u8>;

    /// Of few letters, so that keys are prefixes of each other and meet often.
    fn key() -> impl Strategy<Value = Key> {
        vec(1_u8..4, 1..5)
    }

    /// A step of a kind that walkers use.
    #[derive(Clone, Debug)]
    enum Move {
        Advance,
        /// By a prefix of the current key.
        SkipPrefix(usize),
        AdvanceTo(Key),
        Seek(Key),
        StepTowards(Key, usize),
    }

    fn step() -> impl Strategy<Value = Move> {
        prop_oneof![
            3 => Just(Move::Advance),
            1 => (1_usize..4).prop_map(Move::SkipPrefix),
            1 => key().prop_map(Move::AdvanceTo),
            1 => key().prop_map(Move::Seek),
            1 => (key(), 1_usize..6).prop_map(|(key, steps)| Move::StepTowards(key, steps)),
        ]
    }

    #[derive(Clone, Debug)]
    struct Walk {
        start: Key,
        end: Option<Key>,
        is_ascending: bool,
        fills: bool,
        steps: Vec<Move>,
    }

    fn walk() -> impl Strategy<Value = Walk> {
        (key(), proptest::option::of(key()), any::<bool>(), any::<bool>(), vec(step(), 1..20)).prop_map(
            |(start, end, is_ascending, fills, steps)| Walk { start, end, is_ascending, fills, steps },
        )
    }

    /// A walk with the keys that it is to go over.
    struct Compared<'m> {
        scan: Scan,
        expected: Vec<(&'m [u8], &'m [u8])>,
        /// The position of the current key.
        at: Option<usize>,
    }

    impl Compared<'_> {
        /// Compares the walk after a move to a position. Returns `false` at the end.
        #[track_caller]
        fn moved(&mut self, to: usize, found: bool) -> bool {
            self.at = Some(to);
            let expected = self.expected.get(to);
            assert_eq!(found, expected.is_some());
            if let Some(expected) = expected {
                assert_eq!((self.scan.key(), self.scan.value()), *expected);
            }
            found
        }

        fn advance(&mut self) -> Result<bool> {
            let found = self.scan.advance()?;
            Ok(self.moved(self.at.map_or(0, |at| at + 1), found))
        }

        /// The position of the first key that is not before this one, and whether it is the key.
        fn position(&self, key: &[u8]) -> (usize, bool) {
            let at = self.expected.partition_point(|(other, _)| *other < key);
            (at, self.expected.get(at).is_some_and(|(other, _)| *other == key))
        }

        fn seek(&mut self, key: &[u8]) -> Result<bool> {
            let (to, is_there) = self.position(key);
            assert_eq!(self.scan.seek(key)?, is_there);
            Ok(self.moved(to, to < self.expected.len()))
        }

        fn step(&mut self, step: &Move, is_ascending: bool) -> Result<bool> {
            let Some(at) = self.at else { return self.advance() };
            match step {
                Move::SkipPrefix(length) => {
                    let prefix: Vec<u8> = self.scan.key().iter().copied().take(*length).collect();
                    self.scan.skip_prefix(&prefix)?;
                    let rest = self.expected.iter().skip(at);
                    let passed = rest.take_while(|(other, _)| other.starts_with(&prefix)).count();
                    self.at = Some(at + passed - 1);
                    self.advance()
                }
                Move::AdvanceTo(key) if is_ascending => {
                    let (to, is_there) = self.position(key);
                    let to = to.max(at);
                    assert_eq!(
                        self.scan.advance_to(key)?,
                        is_there && to >= at && self.position(key).0 == to
                    );
                    Ok(self.moved(to, to < self.expected.len()))
                }
                Move::Seek(key) if is_ascending => self.seek(key),
                Move::StepTowards(key, steps) if is_ascending => {
                    let (to, is_there) = self.position(key);
                    assert_eq!(self.scan.step_towards(key, *steps)?, is_there && at.abs_diff(to) <= *steps);
                    // If it is not there, a seek must follow.
                    self.seek(key)
                }
                Move::Advance | Move::AdvanceTo(_) | Move::Seek(_) | Move::StepTowards(..) => self.advance(),
            }
        }
    }

    fn check_walk(snapshot: &Arc<Snapshot>, keys: &BTreeMap<Key, Vec<u8>>, walk: &Walk) -> Result<()> {
        let operation = OperationContext::unlimited();
        let end = walk.end.clone().filter(|end| *end > walk.start);
        let within = |key: &[u8]| key >= &*walk.start && end.as_ref().is_none_or(|end| key < &**end);
        let expected = keys.iter().map(|(key, value)| (key.as_slice(), value.as_slice()));
        let mut expected: Vec<_> = expected.filter(|(key, _)| within(key)).collect();
        if let Some(end) = &end {
            let last = last_key(snapshot, Family::Records, &walk.start, end.clone(), &operation)?;
            assert_eq!(last.as_deref(), expected.last().map(|(key, _)| *key));
        }
        let cache = if walk.fills { CacheUse::Fill } else { CacheUse::Bypass };
        let mut scan = Scan::open(
            snapshot,
            Family::Records,
            (walk.start.clone(), end.clone()),
            cache,
            &OperationContext::unlimited(),
        );
        if !walk.is_ascending {
            scan = scan.towards(Direction::Descending);
            expected.reverse();
        }
        let mut compared = Compared { scan, expected, at: None };
        for step in &walk.steps {
            if !compared.step(step, walk.is_ascending)? {
                break;
            }
        }
        Ok(())
    }

    #[test]
    fn a_walk_goes_over_what_is_stored_with_the_staged_changes_over_it() {
        let fixture = Fixture::new();
        let value = || vec(any::<u8>(), 0..4);
        let case = (
            btree_map(key(), value(), 0..30),
            vec((key(), proptest::option::of(value())), 0..20),
            vec(walk(), 1..10),
        );
        let mut runner =
            TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
        let mut before: Vec<Key> = Vec::new();
        let before = std::cell::RefCell::new(&mut before);
        let ran = runner.run(&case, |(stored, changes, walks)| {
            let mut batch = Batch::new(&fixture.database);
            before.borrow_mut().drain(..).for_each(|key| batch.delete(Family::Records, &key));
            for (key, value) in &stored {
                batch.put(Family::Records, key, value);
                before.borrow_mut().push(key.clone());
            }
            fixture.store.commit(batch, CommitLevel::Buffered).expect("written");
            let snapshot = Snapshot::take(&fixture.database);
            let (mut overlay, mut keys) = (Overlay::default(), stored.clone());
            for (key, value) in changes {
                if let Some(value) = value {
                    overlay.put(Family::Records, &key, &value);
                    keys.insert(key, value);
                } else {
                    overlay.delete(Family::Records, &key);
                    keys.remove(&key);
                }
            }
            let over = snapshot.under(Arc::new(overlay));
            for walk in &walks {
                check_walk(&over, &keys, walk).expect("walked");
                check_walk(&snapshot, &stored, walk).expect("walked");
                let (key, mut value) = (&walk.start, b"before".to_vec());
                assert_eq!(over.get(Family::Records, key).expect("read"), keys.get(key).cloned());
                assert_eq!(over.get(Family::Entries, key).expect("read"), None);
                let found = over.get_into(Family::Records, key, &mut value).expect("read");
                assert_eq!(found.then_some(value), keys.get(key).cloned());
            }
            Ok(())
        });
        ran.expect("every walk is right");
    }

    #[test]
    fn staged_bytes_are_those_that_are_kept() {
        let mut overlay = Overlay::default();
        overlay.put(Family::Records, b"key", b"a value");
        let first = overlay.bytes();
        overlay.put(Family::Records, b"key", b"a longer value");
        assert_eq!(overlay.bytes(), first + 7);
        overlay.delete(Family::Records, b"key");
        assert_eq!(overlay.bytes(), first - 7);
        assert_eq!(overlay.changes(Family::Records).collect::<Vec<_>>(), [(&b"key"[..], None)]);
    }
}
