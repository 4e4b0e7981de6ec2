//! What a disk must still have after its power failed, from the journals of the processes that wrote to it.
//!
//! The log of a database is one, so what survives is everything up to some point in it. Acknowledged operations that asked
//! for no sync may be lost, but only from the end: an operation that was over before a surviving one began survived too.
//! The order of the journal shows that, because it is written by one pipe. What was over before a sync was asked for, or a ticket
//! requested, is durable once that was answered. A process that was refused opens the folder again: where what is acknowledged is in its
//! memory, its first opening has ended as a process that dies, and what is done later says nothing of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use cairndb::Client;
use cairndb::bson::doc;
use cairndb_tests::journal::Record;
use cairndb_tests::power::{self, FIELD, FIELD_JOURNALED, LOOSE};
use cairndb_tests::workload;

use crate::power::events;
use crate::power::tokens::{Tokens, numbers};

/// What an audit says before the findings of `verify`.
pub(crate) const FINDINGS: &str = "verify found: ";

/// A write of one document or of many at once.
#[derive(Debug)]
struct Operation {
    /// In which opening of the folder, from 0.
    opening: usize,
    begun: usize,
    done: Option<usize>,
    /// Whether its acknowledgement means stable storage.
    is_journaled: bool,
    /// Whether a change stream has shown it.
    is_shown: bool,
    /// Its tags, each with how many writes to that tag it makes.
    steps: Vec<(u64, usize)>,
}

/// What happened to one document since it was last read.
#[derive(Debug, Default)]
struct History {
    /// The version that it had. 0 is absent.
    base: u64,
    /// The versions that it was to have then, each with its operation.
    writes: Vec<(u64, usize)>,
}

impl History {
    fn version_after(&self, writes: usize) -> u64 {
        writes
            .checked_sub(1)
            .and_then(|last| self.writes.get(last))
            .map_or(self.base, |(version, _)| *version)
    }

    /// The least and the most writes that make the document that version.
    fn survived(&self, version: u64) -> Option<(usize, usize)> {
        let mut fitting = (0..=self.writes.len()).filter(|writes| self.version_after(*writes) == version);
        let least = fitting.next()?;
        Some((least, fitting.next_back().unwrap_or(least)))
    }
}

/// What one opening of the folder has made durable.
#[derive(Clone, Copy, Debug, Default)]
struct Opening {
    /// What was over before this record is on stable storage, because the folder was closed.
    durable_before: usize,
    /// The same, because a sync that was begun there has ended.
    synced_before: usize,
}

#[derive(Default)]
pub(crate) struct Oracle {
    /// Whether every acknowledgement means stable storage.
    pub(crate) all_journaled: bool,
    heard: usize,
    histories: HashMap<u64, History>,
    operations: Vec<Operation>,
    /// Whether the plain index may be there, and whether it may be absent.
    plain_index: HashSet<bool>,
    /// Of each opening since the last audit.
    openings: Vec<Opening>,
    /// Whether what a sync has not covered may go with each opening, and not only with the power.
    forgets_at_opening: bool,
    /// Where syncs were asked for that are not answered yet, by their numbers.
    syncs: HashMap<u64, usize>,
    /// Values of documents that no sync covers yet, and when each was reported.
    unsynced_values: Vec<(usize, i64)>,
    /// Values that were handed out in all lives, by the field.
    given_by_field: HashSet<i64>,
    /// The same of the sequence.
    given_by_sequence: HashSet<i64>,
    /// Values of documents that are on stable storage.
    durable_values: HashSet<i64>,
    tokens: Tokens,
    /// Acknowledged operations, over all lives.
    pub(crate) acknowledged: u64,
    /// Of these, what a power failure rightly lost.
    pub(crate) lost: u64,
}

impl Oracle {
    pub(crate) fn new(all_journaled: bool) -> Self {
        Self { all_journaled, plain_index: HashSet::from([false]), ..Self::default() }
    }

    /// Judges a store whose writes are acknowledged in the memory of the process.
    pub(crate) fn forgetting_at_opening(self) -> Self {
        Self { forgets_at_opening: true, ..self }
    }

    /// Adds a record; an error if it alone is proof of a fault.
    pub(crate) fn hear(&mut self, record: Record) -> Result<(), String> {
        self.heard += 1;
        match record {
            Record::Opened => self.open(),
            Record::Begun { tag, version } => {
                if version == 1 {
                    self.tokens.begin(tag, None);
                }
                self.begin(tag..tag + 1, version);
            }
            Record::ManyBegun { first, count } => {
                self.tokens.begin(first, Some(count));
                self.begin(first..first + count, 1);
            }
            Record::Done { tag, version } => return self.finish(tag, version),
            Record::ManyDone { first, .. } => return self.finish(first, 1),
            Record::IndexBegun { exists } => {
                self.plain_index.insert(exists);
                self.operations.push(Operation {
                    opening: self.opening_number(),
                    begun: self.heard,
                    done: None,
                    is_journaled: true,
                    is_shown: false,
                    steps: Vec::new(),
                });
            }
            Record::IndexDone { exists } => {
                self.plain_index = HashSet::from([exists]);
                self.acknowledged += 1;
                let mut changes = self.operations.iter_mut().rev().filter(|change| change.steps.is_empty());
                if let Some(change) = changes.next() {
                    change.done = Some(self.heard);
                }
            }
            Record::Taken { course, value } => return self.take(course, value),
            Record::Closed => self.opening().durable_before = self.heard,
            Record::SyncBegun { number } => {
                self.syncs.insert(number, self.heard);
            }
            Record::SyncDone { number } => return self.end_sync(number),
            Record::Shown { tag, version } => return self.show(tag, version),
            Record::Won { .. } => return Err("this suite has no contest".to_owned()),
            Record::PassBegun | Record::PassDone => return Err("this suite makes no TTL passes".to_owned()),
            Record::Fault => return Err("the writing process met a fault".to_owned()),
        }
        Ok(())
    }

    fn open(&mut self) {
        self.openings.push(Opening::default());
        if self.forgets_at_opening {
            // A sync that is answered later is one of the new opening.
            self.syncs.clear();
            self.unsynced_values.clear();
        }
    }

    fn opening_number(&self) -> usize {
        // A journal that names none is that of a single one.
        self.openings.len().saturating_sub(1)
    }

    fn opening(&mut self) -> &mut Opening {
        if self.openings.is_empty() {
            self.openings.push(Opening::default());
        }
        self.openings.last_mut().expect("one was pushed")
    }

    fn begin(&mut self, tags: std::ops::Range<u64>, version: u64) {
        let is_journaled = self.all_journaled || power::is_journaled(tags.start, version);
        let number = self.operations.len();
        let mut steps = Vec::new();
        for tag in tags {
            let writes = &mut self.histories.entry(tag).or_default().writes;
            writes.push((version, number));
            steps.push((tag, writes.len()));
        }
        let (opening, begun) = (self.opening_number(), self.heard);
        self.operations.push(Operation { opening, begun, done: None, is_journaled, is_shown: false, steps });
    }

    /// What a stream has shown is on stable storage, whether it was acknowledged or not.
    fn show(&mut self, tag: u64, version: u64) -> Result<(), String> {
        let writes = self.histories.get(&tag).map(|history| &history.writes);
        let found = writes.and_then(|writes| writes.iter().find(|(written, _)| *written == version));
        let number = found.map(|(_, number)| *number);
        let operation = number.and_then(|number| self.operations.get_mut(number));
        let operation = operation
            .ok_or_else(|| format!("version {version} of tag {tag} was shown, and not begun in this life"))?;
        (operation.is_journaled, operation.is_shown) = (true, true);
        operation.done.get_or_insert(self.heard);
        Ok(())
    }

    fn finish(&mut self, tag: u64, version: u64) -> Result<(), String> {
        let last = self.histories.get(&tag).and_then(|history| history.writes.last());
        let operation = last.filter(|(found, _)| *found == version).map(|(_, number)| *number);
        let operation = operation.and_then(|number| self.operations.get_mut(number));
        let operation = operation.ok_or_else(|| format!("tag {tag} was done and not begun"))?;
        if operation.done.is_none() {
            operation.done = Some(self.heard);
            self.acknowledged += 1;
        }
        Ok(())
    }

    /// All that was over when the sync was asked for is on stable storage.
    fn end_sync(&mut self, number: u64) -> Result<(), String> {
        let begun =
            self.syncs.remove(&number).ok_or_else(|| format!("sync {number} was done and not begun"))?;
        self.acknowledged += 1;
        let opening = self.opening();
        opening.synced_before = opening.synced_before.max(begun);
        let covered = self.unsynced_values.extract_if(.., |(told, _)| *told < begun);
        self.durable_values.extend(covered.map(|(_, value)| value));
        Ok(())
    }

    fn take(&mut self, course: u64, value: i64) -> Result<(), String> {
        self.acknowledged += 1;
        let (what, given) = match course {
            LOOSE => ("the sequence", &mut self.given_by_sequence),
            _ => ("the field", &mut self.given_by_field),
        };
        if !given.insert(value) {
            return Err(format!("{what} gave the value {value} twice"));
        }
        if course == FIELD_JOURNALED || (course == FIELD && self.all_journaled) {
            self.durable_values.insert(value);
        } else if course == FIELD {
            self.unsynced_values.push((self.heard, value));
        }
        Ok(())
    }

    /// Compares the database with what it must hold, and adopts what was decided for it.
    pub(crate) fn audit(&mut self, client: &Client) -> Result<(), String> {
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if !report.is_clean() {
            return Err(format!("{FINDINGS}{:?}", report.findings));
        }
        self.audit_stored(client)
    }

    /// The same, by reading alone.
    pub(crate) fn audit_stored(&mut self, client: &Client) -> Result<(), String> {
        let tagged = workload::tagged(client);
        let mut stored = BTreeMap::new();
        for document in tagged.find(doc! {}).run().map_err(text)? {
            let (tag, version) = workload::recognize(&document.map_err(text)?)?;
            if stored.insert(tag, version).is_some() {
                return Err(format!("tag {tag} is stored twice"));
            }
        }
        let survived = self.survived(&stored)?;
        self.check_suffix(&survived)?;
        self.check_batches(&survived)?;
        self.audit_index(&tagged.list_index_names().run().map_err(text)?)?;
        self.audit_values(client)?;
        events::audit(client, &stored)?;
        let durable = self.operations.iter().filter(|write| write.done.is_some() && write.is_journaled);
        let durable = durable.flat_map(|write| write.steps.iter().map(|(tag, _)| *tag));
        self.tokens.know(&stored.keys().copied().chain(durable).collect());
        let history = |(tag, base): (u64, u64)| (tag, History { base, writes: Vec::new() });
        self.histories = stored.into_iter().map(history).collect();
        self.operations.clear();
        self.heard = 0;
        self.openings.clear();
        self.syncs.clear();
        self.unsynced_values.clear();
        Ok(())
    }

    /// Makes every call with a token twice more, as a client does that got no answer.
    pub(crate) fn repeat(&self, client: &Client) -> Result<(), String> {
        self.tokens.repeat(client)?;
        audit_invoices(client)
    }

    /// How many writes of each tag survived, at least and at most.
    fn survived(&self, stored: &BTreeMap<u64, u64>) -> Result<HashMap<u64, (usize, usize)>, String> {
        if let Some(tag) = stored.keys().find(|tag| !self.histories.contains_key(tag)) {
            return Err(format!("tag {tag} is stored, and was never written"));
        }
        let survived = self.histories.iter().map(|(tag, history)| {
            let version = stored.get(tag).copied().unwrap_or(0);
            let survived = history.survived(version);
            Ok((*tag, survived.ok_or_else(|| format!("tag {tag} is version {version}, of {history:?}"))?))
        });
        survived.collect()
    }

    /// Checks that nothing durable is lost, and nothing before something that is there.
    fn check_suffix(&mut self, survived: &HashMap<u64, (usize, usize)>) -> Result<(), String> {
        let is_sure = |(tag, step): &(u64, usize)| survived.get(tag).is_some_and(|(least, _)| least >= step);
        let is_possible =
            |(tag, step): &(u64, usize)| survived.get(tag).is_some_and(|(_, most)| most >= step);
        // For each opening: before which record nothing may be missing, by what survived and by what a sync was answered for.
        let mut bounds: Vec<(usize, usize)> =
            self.openings.iter().map(|opening| (opening.durable_before, opening.synced_before)).collect();
        bounds.resize(bounds.len().max(1), (0, 0));
        for operation in &self.operations {
            let is_durable = operation.done.is_some() && operation.is_journaled;
            if (is_durable || operation.steps.iter().any(is_sure))
                && let Some((front, _)) = bounds.get_mut(operation.opening)
            {
                *front = operation.begun.max(*front);
            }
        }
        if !self.forgets_at_opening {
            let all = bounds.iter().fold((0, 0), |all, one| (one.0.max(all.0), one.1.max(all.1)));
            bounds.fill(all);
        }
        for operation in &self.operations {
            let Some(done) = operation.done else { continue };
            let (front, synced_before) = bounds.get(operation.opening).copied().unwrap_or_default();
            if operation.steps.iter().all(is_possible) {
                continue;
            }
            if operation.is_shown {
                return Err(format!("lost, though a stream had shown it: {operation:?}"));
            }
            if operation.is_journaled {
                return Err(format!("lost, though it was acknowledged as durable: {operation:?}"));
            }
            if done < synced_before {
                return Err(format!("lost, though a sync after it was answered: {operation:?}"));
            }
            if done < front {
                return Err(format!("lost before what survived at {front}: {operation:?}"));
            }
            self.lost += 1;
        }
        Ok(())
    }

    /// Checks that no operation is half done.
    fn check_batches(&self, survived: &HashMap<u64, (usize, usize)>) -> Result<(), String> {
        for operation in &self.operations {
            let of = |(tag, step): &(u64, usize)| (survived.get(tag).copied().unwrap_or_default(), *step);
            let there = operation.steps.iter().map(of).filter(|((least, _), step)| least >= step).count();
            let gone = operation.steps.iter().map(of).filter(|((_, most), step)| most < step).count();
            if there > 0 && gone > 0 {
                return Err(format!(
                    "{there} documents of one call are there and {gone} are not: {operation:?}"
                ));
            }
        }
        Ok(())
    }

    fn audit_index(&mut self, names: &[String]) -> Result<(), String> {
        let exists = names.iter().any(|name| name == workload::PLAIN_INDEX);
        if !self.plain_index.contains(&exists) {
            return Err(format!("the plain index exists: {exists}; acknowledged: {:?}", self.plain_index));
        }
        self.plain_index = HashSet::from([exists]);
        Ok(())
    }

    fn audit_values(&mut self, client: &Client) -> Result<(), String> {
        let mut stored = HashSet::new();
        for value in numbers(client, power::NUMBERED, doc! {})? {
            if !stored.insert(value) {
                return Err(format!("two documents have the value {value}"));
            }
        }
        if let Some(value) = self.durable_values.difference(&stored).next() {
            return Err(format!("lost, though it was acknowledged as durable: the value {value}"));
        }
        // A value that was not acknowledged is given all the same, if it is there.
        self.given_by_field.extend(&stored);
        self.durable_values = stored;
        audit_invoices(client)
    }
}

/// No number of the gapless field is missing or there twice: what is lost is the end.
fn audit_invoices(client: &Client) -> Result<(), String> {
    let numbers = numbers(client, power::INVOICES, doc! {})?;
    let first_wrong = (1_i64..).zip(&numbers).find(|(wanted, number)| wanted != *number);
    first_wrong.map_or(Ok(()), |(wanted, number)| Err(format!("invoice {wanted} has the number {number}")))
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn text(error: cairndb::Error) -> String {
    format!("{error:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tag whose insert asks for a journaled acknowledgement, or not.
    fn tag(is_journaled: bool, from: u64) -> u64 {
        (from..from + 1000).find(|tag| power::is_journaled(*tag, 1) == is_journaled).expect("one in four")
    }

    fn judged(records: &[Record], stored: &[(u64, u64)]) -> Result<u64, String> {
        judged_by(Oracle::new(false), records, stored)
    }

    fn judged_by(mut oracle: Oracle, records: &[Record], stored: &[(u64, u64)]) -> Result<u64, String> {
        records.iter().try_for_each(|record| oracle.hear(*record))?;
        let survived = oracle.survived(&stored.iter().copied().collect())?;
        oracle.check_suffix(&survived)?;
        oracle.check_batches(&survived)?;
        Ok(oracle.lost)
    }

    fn inserted(tag: u64) -> [Record; 2] {
        [Record::Begun { tag, version: 1 }, Record::Done { tag, version: 1 }]
    }

    #[test]
    fn only_a_suffix_of_what_was_not_durable_may_be_lost() {
        let (first, durable) = (tag(false, 10), tag(true, 10));
        let last = tag(false, first + 1);
        let records = [inserted(first), inserted(durable), inserted(last)].concat();
        assert_eq!(judged(&records, &[(first, 1), (durable, 1), (last, 1)]), Ok(0));
        assert_eq!(judged(&records, &[(first, 1), (durable, 1)]), Ok(1));
        assert!(judged(&records, &[(first, 1)]).is_err_and(|fault| fault.contains("as durable")));
        assert!(judged(&records, &[(durable, 1)]).is_err_and(|fault| fault.contains("before what")));
        assert!(judged(&records, &[(first, 2)]).is_err());
        let records = [inserted(first), inserted(last)].concat();
        assert_eq!(judged(&records, &[]), Ok(2));
        assert!(judged(&records, &[(last, 1)]).is_err_and(|fault| fault.contains("before what")));
    }

    #[test]
    fn a_sync_covers_what_was_over_when_it_began_and_nothing_else() {
        let (first, last) = (tag(false, 10), tag(false, 11 + tag(false, 10)));
        let sync = [Record::SyncBegun { number: 3 }, Record::SyncDone { number: 3 }];
        let records = [inserted(first), sync, inserted(last)].concat();
        assert_eq!(judged(&records, &[(first, 1)]), Ok(1));
        assert!(judged(&records, &[]).is_err_and(|fault| fault.contains("a sync after it was answered")));
        // One that is not answered covers nothing, and neither does one that was begun before.
        assert_eq!(judged(&[&inserted(first)[..], &sync[..1]].concat(), &[]), Ok(1));
        let [begun, done] = sync;
        assert_eq!(judged(&[&[begun], &inserted(first)[..], &[done]].concat(), &[]), Ok(1));
        assert!(judged(&[done], &[]).is_err());
    }

    #[test]
    fn what_a_stream_has_shown_must_stay() {
        let (first, last) = (tag(false, 10), tag(false, 11 + tag(false, 10)));
        let shown = Record::Shown { tag: last, version: 1 };
        let records = [&inserted(first)[..], &inserted(last)[..1], &[shown]].concat();
        assert_eq!(judged(&records, &[(first, 1), (last, 1)]), Ok(0));
        assert!(judged(&records, &[(first, 1)]).is_err_and(|fault| fault.contains("a stream had shown it")));
        assert!(judged(&records, &[(last, 1)]).is_err_and(|fault| fault.contains("before what")));
        assert!(judged(&[shown], &[]).is_err_and(|fault| fault.contains("not begun")));
    }

    /// The process was refused, and what was in its memory went with the first opening.
    #[test]
    fn what_was_in_memory_may_go_with_an_opening_and_what_was_synced_may_not() {
        let (first, second, last) = (tag(false, 10), tag(false, 1000), tag(false, 2000));
        let sync = |number| [Record::SyncBegun { number }, Record::SyncDone { number }];
        let records = [
            &[Record::Opened][..],
            &inserted(first),
            &sync(1),
            &inserted(second),
            &[Record::Opened],
            &inserted(last),
            &sync(2),
        ];
        let judged = |forgets_at_opening, stored: &[(u64, u64)]| {
            judged_by(Oracle { forgets_at_opening, ..Oracle::new(false) }, &records.concat(), stored)
        };
        assert_eq!(judged(true, &[(first, 1), (last, 1)]), Ok(1));
        assert!(
            judged(false, &[(first, 1), (last, 1)]).is_err_and(|fault| fault.contains("a sync after it"))
        );
        for forgets in [true, false] {
            assert_eq!(judged(forgets, &[(first, 1), (second, 1), (last, 1)]), Ok(0));
            assert!(judged(forgets, &[(second, 1), (last, 1)]).is_err());
            assert!(judged(forgets, &[(first, 1), (second, 1)]).is_err());
        }
    }

    #[test]
    fn a_call_is_done_as_a_whole_or_not_at_all() {
        let records = [Record::ManyBegun { first: 1, count: 2 }];
        assert_eq!(judged(&records, &[(1, 1), (2, 1)]), Ok(0));
        assert_eq!(judged(&records, &[]), Ok(0));
        assert!(judged(&records, &[(2, 1)]).is_err_and(|fault| fault.contains("of one call")));
    }

    #[test]
    fn a_value_that_comes_twice_is_a_fault() {
        let mut oracle = Oracle::new(false);
        assert_eq!(oracle.hear(Record::Taken { course: LOOSE, value: 4 }), Ok(()));
        assert_eq!(oracle.hear(Record::Taken { course: FIELD, value: 4 }), Ok(()));
        assert!(oracle.hear(Record::Taken { course: FIELD_JOURNALED, value: 4 }).is_err());
    }
}
