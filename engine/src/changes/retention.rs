//! How much of the log of changes is kept: the oldest events are forgotten by their age, and beyond a number of bytes.
//!
//! The log is known in segments, of which the oldest one goes as a range. Streams learn of it first: what was forgotten is noted in
//! memory before it is removed, so no stream mistakes a hole for the end of the log.

use base::error::Result;
use base::metrics::report::ChangeLogMetrics;
use index::key::Direction;
use query::operation::OperationContext;
use store::Family;
use store::handles::Storage;
use store::keys::{META_LOG_LOW, event_key, split_event_key};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};

use crate::changes::kept::{Kept, Segment};
use crate::changes::log::{ChangeLog, now};

/// The number of events of earlier lives that are counted at once. That needs some tens of milliseconds.
const COUNTED_AT_ONCE: u32 = 20_000;

impl ChangeLog {
    /// How many bytes its events have, as far as they were counted.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.kept.lock().bytes
    }

    /// The size and the age of the log, and the progress of its streams.
    pub(crate) fn metrics(&self) -> ChangeLogMetrics {
        let mut metrics = ChangeLogMetrics::default();
        {
            let kept = self.kept.lock();
            metrics.bytes = kept.bytes;
            let oldest = kept.segments.front().map_or(u64::MAX, Segment::first);
            metrics.oldest_event_seconds = (now() >> 32).saturating_sub(oldest >> 32);
        }
        (metrics.streams, metrics.lag_seconds) = self.rounds.streams_and_lag();
        metrics
    }

    /// Forgets events that are too old, or too many.
    pub(crate) fn forget_old(&self, storage: Storage<'_>) -> Result<()> {
        self.forget_at(storage, now())
    }

    /// Forgets all events.
    pub(crate) fn forget_all(&self, storage: Storage<'_>) -> Result<()> {
        let mut kept = self.kept.lock();
        *kept = Kept { is_counted: true, ..Kept::default() };
        drop(kept);
        self.rounds.settle(storage);
        self.forget_through(storage, self.rounds.watermark())
    }

    pub(super) fn forget_at(&self, storage: Storage<'_>, now: u64) -> Result<()> {
        let mut limits = self.limits;
        if storage.database.is_at_quota() {
            // Half of it makes room for documents again, before deletes are rejected too.
            limits.bytes /= 2;
        }
        self.rounds.settle(storage);
        // Writers below may not have written yet, and would write what is forgotten.
        let watermark = self.rounds.watermark();
        let through = if self.count_earlier(storage)? {
            self.kept.lock().take_old(now, watermark, limits)
        } else {
            // The oldest ones go already, or many short lives of a store would never forget any.
            limits.bytes = limits.bytes.saturating_sub(self.kept.lock().bytes);
            self.counting.lock().earlier.take_old(now, watermark, limits)
        };
        through.map_or(Ok(()), |through| self.forget_through(storage, through))
    }

    fn forget_through(&self, storage: Storage<'_>, through: u64) -> Result<()> {
        if (through, u32::MAX) <= self.low() {
            return Ok(());
        }
        let (start, end) = (event_key(0, 0), event_key(through.saturating_add(1), 0));
        // A stream that has read the last one of them has lost none.
        let (snapshot, operation) = (Snapshot::take(storage.database), OperationContext::unlimited());
        let bounds = (start.to_vec(), Some(end.to_vec()));
        let scan = Scan::open(&snapshot, Family::Changes, bounds, CacheUse::Bypass, &operation);
        let mut scan = scan.towards(Direction::Descending);
        if !scan.advance()? {
            return Ok(());
        }
        let last = split_event_key(scan.key()).unwrap_or((through, u32::MAX));
        drop(scan);
        self.set_low(last);
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, META_LOG_LOW, &event_key(last.0, last.1));
        batch.delete_range(Family::Changes, &start, &end);
        storage.store.commit(batch, CommitLevel::Delayed)
    }

    /// Counts the events of earlier lives of the store, some of them at a time: transactions wait for this thread to end them. Returns
    /// whether all are counted.
    fn count_earlier(&self, storage: Storage<'_>) -> Result<bool> {
        if self.kept.lock().is_counted {
            return Ok(true);
        }
        let mut counting = self.counting.lock();
        // A later life goes on above the mark of the one before.
        let end = event_key(self.opened_at.saturating_add(1), 0).to_vec();
        let bounds = (counting.from.clone(), Some(end));
        let (snapshot, operation) = (Snapshot::take(storage.database), OperationContext::unlimited());
        let mut scan = Scan::open(&snapshot, Family::Changes, bounds, CacheUse::Bypass, &operation);
        let mut counted = 0;
        while scan.advance()? {
            // What is damaged stays for `verify` to name.
            if let Some((position, _)) = split_event_key(scan.key()) {
                let bytes = (scan.key().len() + scan.value().len()) as u64;
                counting.earlier.add(position, bytes, self.limits);
            }
            counted += 1;
            if counted == COUNTED_AT_ONCE {
                counting.from = [scan.key(), &[0]].concat();
                return Ok(false);
            }
        }
        let mut earlier = std::mem::take(&mut counting.earlier);
        drop(counting);
        let mut kept = self.kept.lock();
        if !kept.is_counted {
            earlier.segments.append(&mut kept.segments);
            let bytes = kept.bytes + earlier.bytes;
            *kept = Kept { segments: earlier.segments, bytes, is_counted: true };
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::client::Client;

    #[test]
    fn one_write_that_is_too_large_for_a_quota_costs_no_events() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Client::builder().memory_budget(16 << 20).disk_quota(32 << 20);
        let client = options.open(folder.path().join("db")).expect("opened");
        let things = client.database("test").collection::<Document>("things");
        client.change_log(true).expect("logged");
        let text = "x".repeat(10_000);
        things.insert_many((0..300).map(|id| doc! { "_id": id, "t": &text })).run().expect("stored");
        let refused = things.insert_one(doc! { "t": "x".repeat(16_000_000) }).run().expect_err("too large");
        assert!(refused.is_no_space(), "{refused}");
        let engine = client.shared().engine();
        let log = &engine.catalog.log;
        let database = engine.store.enter().expect("open");
        let before = log.bytes();
        assert!(before > (32 << 20) / 8 / 2, "{before}");
        log.forget_old(engine.storage(&database)).expect("looked at");
        assert_eq!(log.bytes(), before);
    }

    /// A reader that is one event behind what is kept gets an error, and one at the end goes on.
    #[test]
    fn a_stream_that_is_overtaken_is_lost_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let client =
            Client::builder().change_log_bytes_max(64 << 10).open(folder.path().join("db")).expect("opened");
        let things = client.database("test").collection::<Document>("things");
        let behind = things.watch().run().expect("opened").resume_token();
        let text = "x".repeat(1000);
        things.insert_many((0..200).map(|id| doc! { "_id": id, "t": &text })).run().expect("stored");
        let mut reader = things.watch().run().expect("opened");
        for id in 200..400 {
            things.insert_one(doc! { "_id": id, "t": &text }).run().expect("stored");
        }
        let first = reader.next().expect("it waits").expect("an event");
        assert_eq!(first.document_key, Some(doc! { "_id": 200 }));
        let engine = client.shared().engine();
        let log = &engine.catalog.log;
        {
            let database = engine.store.enter().expect("open");
            let storage = engine.storage(&database);
            engine.store.sync(&database).expect("synced");
            log.forget_old(storage).expect("forgotten");
        }
        assert!(log.bytes() <= 64 << 10 && log.bytes() > 32 << 10, "{}", log.bytes());
        let lost = things.watch().resume_after(behind).run().map(drop).expect_err("forgotten");
        assert_eq!(lost.code(), Some(286));
        // What it reads now is of a round from before.
        let rest: Vec<_> = std::iter::from_fn(|| reader.next_if_any().transpose()).collect();
        assert!(rest.iter().any(Result::is_err) || rest.len() == 199, "{}", rest.len());
        let end = things.watch().run().expect("opened").resume_token();
        things.delete_one(doc! { "_id": 0 }).run().expect("deleted");
        let mut reader = things.watch().resume_after(end).run().expect("opened");
        assert_eq!(reader.next().expect("it waits").expect("an event").document_key, Some(doc! { "_id": 0 }));
        assert!(client.verify().expect("verified").findings.is_empty());
        drop(reader);
        // What is left is counted by the next life.
        let before = log.bytes();
        drop(things);
        client.close().expect("closed");
        let client = Client::open(folder.path().join("db")).expect("opened");
        let engine = client.shared().engine();
        let database = engine.store.enter().expect("open");
        engine.catalog.log.forget_old(engine.storage(&database)).expect("counted");
        assert_eq!(engine.catalog.log.bytes(), before);
    }

    /// Nothing was forgotten before all were counted, which a life of a minute may be too short for.
    #[test]
    fn events_are_forgotten_while_the_others_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let client = Client::open(&path).expect("opened");
        let things = client.database("test").collection::<Document>("things");
        things.watch().run().expect("opened");
        things.insert_many((0..COUNTED_AT_ONCE + 500).map(|id| doc! { "_id": id })).run().expect("stored");
        drop(things);
        client.close().expect("closed");
        let client = Client::builder().change_log_bytes_max(64 << 10).open(&path).expect("opened");
        let engine = client.shared().engine();
        let database = engine.store.enter().expect("open");
        let log = &engine.catalog.log;
        let before = log.low();
        log.forget_old(engine.storage(&database)).expect("forgotten");
        assert!(!log.kept.lock().is_counted && log.low() > before);
        log.forget_old(engine.storage(&database)).expect("forgotten");
        assert!(log.kept.lock().is_counted && log.bytes() <= 64 << 10, "{}", log.bytes());
        assert!(client.verify().expect("verified").is_clean());
    }

    #[test]
    fn the_events_of_earlier_lives_are_counted_some_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("opened");
        let things = client.database("test").collection::<Document>("things");
        things.watch().run().expect("opened");
        things.insert_many((0..COUNTED_AT_ONCE + 500).map(|id| doc! { "_id": id })).run().expect("stored");
        let bytes = client.shared().engine().catalog.log.bytes();
        drop(things);
        client.close().expect("closed");
        // Its own thread counts a quarter of a second later.
        let client = Client::open(folder.path().join("db")).expect("opened");
        let engine = client.shared().engine();
        let database = engine.store.enter().expect("open");
        let log = &engine.catalog.log;
        assert!(!log.count_earlier(engine.storage(&database)).expect("counted"));
        assert_eq!(log.bytes(), 0);
        assert!(log.count_earlier(engine.storage(&database)).expect("counted"));
        assert_eq!(log.bytes(), bytes);
    }
}
