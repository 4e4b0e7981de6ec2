//! Signs of life of a command that fills collections aside: who finds such a collection can say whether its maker is still at
//! work on it, or was killed.
//!
//! A folder needs none: no other process can have it open for writing, so what is found there is left over. In a server the sign is
//! a collection `cairn-loading.ID` with one document, whose date the maker sets each second by the server's clock. One that
//! stays as it is for [`GONE`] has no maker any more.

use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{DateTime, Document, doc};

use crate::aside;
use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::signals::Signals;
use crate::store::Store;
use crate::talk::warn;

/// The interval in which a sign is renewed.
const BEAT: Duration = Duration::from_secs(1);
/// The time for which an unchanged sign may still be that of a maker that waits for a busy server.
const GONE: Duration = Duration::from_secs(10);
/// The interval of checks whether a sign is renewed.
const LOOK: Duration = Duration::from_millis(200);

/// The sign of this process.
pub(crate) struct Sign {
    shown: Arc<Shown>,
    signals: Signals,
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The place where the sign is shown.
struct Shown {
    store: Arc<dyn Store>,
    /// Databases, and the collections of the sign in them.
    places: Mutex<BTreeSet<(String, String)>>,
}

impl Sign {
    /// A sign that is not shown yet.
    pub(crate) fn new(store: Arc<dyn Store>, signals: &Signals) -> Self {
        let shown = Arc::new(Shown { store, places: Mutex::default() });
        Self { shown, signals: signals.clone(), end: None, thread: None }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shown.store
    }

    /// Shows it in a database, for collections whose names have this id, until it is removed.
    pub(crate) fn show(&mut self, database: &str, id: ObjectId) -> Result<(), Failure> {
        if self.store().is_alone() {
            return Ok(());
        }
        let name = aside::sign_name(id);
        renew(self.store(), database, &name)?;
        self.shown.places().insert((database.to_owned(), name));
        if self.thread.is_none() {
            let (end, ended) = channel::<()>();
            let shown = Arc::clone(&self.shown);
            let renewing = move || {
                while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                    shown.renew();
                }
            };
            let thread = std::thread::Builder::new().spawn(renewing);
            self.thread = Some(thread.map_err(|error| Failure::io("a thread", &error))?);
            self.end = Some(end);
        }
        Ok(())
    }

    /// Removes what killed processes have left in a database that was to replace collections that are `meant`. Returns its names. What
    /// a process is still at work on stays.
    pub(crate) fn remove_leftovers(
        &self,
        database: &str,
        is_meant: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, Failure> {
        let store = self.store();
        let left = aside::leftovers(store, database, is_meant)?;
        let mut removed = Vec::new();
        for (id, names) in left {
            let sign = aside::sign_name(id);
            let asides: Vec<&String> = names.iter().filter(|name| **name != sign).collect();
            if self.has_life(database, &sign, !asides.is_empty())? {
                for name in asides {
                    let of = aside::shown_ending(name);
                    warn(&format!(
                        "{database}.{of} is being replaced by another command too: what ends last stays"
                    ));
                }
                continue;
            }
            for name in names {
                aside::remove(store, database, &name)?;
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// Whether the maker of a sign is still at work. After a signal that is mistaken for granted, so that nothing is removed.
    fn has_life(&self, database: &str, name: &str, is_told: bool) -> Result<bool, Failure> {
        let store = self.store();
        if store.is_alone() {
            return Ok(false);
        }
        let Some(first) = renewed_at(store, database, name)? else { return Ok(false) };
        let left = GONE.saturating_sub(age(store, first)?);
        if !left.is_zero() && is_told {
            warn(&format!(
                "waiting up to 10 s to see whether the command that left {database}.{name} still runs"
            ));
        }
        let started = Instant::now();
        while started.elapsed() < left {
            if self.signals.received().is_some() {
                return Ok(true);
            }
            std::thread::sleep(LOOK.min(left));
            match renewed_at(store, database, name)? {
                // It has ended, and left nothing that is not meant to be there.
                None => return Ok(true),
                Some(at) if at != first => return Ok(true),
                Some(_) => {}
            }
        }
        Ok(false)
    }

    /// Ends the sign once the work has come to `done`: what is left aside now has no maker any more. With a server that is lost it
    /// ends by itself.
    pub(crate) fn end(mut self, done: &Result<(), Failure>) {
        self.end = None;
        if done.as_ref().is_err_and(|failure| failure.exit == Exit::NoStore) {
            return;
        }
        if let Some(thread) = self.thread.take() {
            // It must not renew what is removed. It does not panic, and if it did, it would have ended too.
            let _ = thread.join();
        }
        for (database, name) in self.shown.places().iter() {
            if let Err(failure) = aside::remove(self.store(), database, name) {
                warn(&format!("{database}.{name} is left, and of no use: {failure}"));
            }
        }
    }
}

impl Shown {
    /// Renews the signs. Where that fails the command goes on; what is lost is found by its own calls.
    fn renew(&self) {
        let places = self.places().clone();
        for (database, name) in &places {
            let _ = renew(&*self.store, database, name);
        }
    }

    fn places(&self) -> std::sync::MutexGuard<'_, BTreeSet<(String, String)>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the date of a sign to the time of the server.
fn renew(store: &dyn Store, database: &str, name: &str) -> Result<(), Failure> {
    let update = doc! { "q": { "_id": 1 }, "u": { "$currentDate": { "at": true } }, "upsert": true };
    let reply = store.run(database, raw(&doc! { "update": name, "updates": [update] })?)?;
    let refused = reply.get_array("writeErrors").ok().and_then(|errors| errors.first());
    let refused = refused.and_then(|error| error.as_document()).map(|error| {
        let message = error.get_str("errmsg").unwrap_or_default();
        Failure { code: error.get_i32("code").ok(), ..Failure::new(Exit::Failed, message) }
    });
    refused.map_or(Ok(()), Err)
}

/// The last renewal of a sign. `None` if there is none.
fn renewed_at(store: &dyn Store, database: &str, name: &str) -> Result<Option<DateTime>, Failure> {
    let mut found =
        store.stream(database, raw(&doc! { "find": name, "filter": { "_id": 1 }, "limit": 1 })?)?;
    if !found.advance()? {
        return Ok(None);
    }
    Ok(found.current().get_datetime("at").ok())
}

/// The age of something by the server's clock. What lies ahead of it was just now.
fn age(store: &dyn Store, at: DateTime) -> Result<Duration, Failure> {
    let reply: Document = store.run("admin", raw(&doc! { "hello": 1 })?)?;
    let now = reply.get_datetime("localTime").map_or(at.timestamp_millis(), |now| now.timestamp_millis());
    Ok(Duration::from_millis(u64::try_from(now.saturating_sub(at.timestamp_millis())).unwrap_or_default()))
}
