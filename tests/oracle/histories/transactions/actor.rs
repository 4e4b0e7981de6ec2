//! A thread of a run: it does transactions and plain calls at random, and notes of each what it read and wrote, and when.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{ClientSession, Error, ReadConcern, ReturnDocument};
use cairndb_tests::choices::Choices;

use crate::histories::actor::{Shared, Stop, list_of};
use crate::histories::history::{Record, Span};
use crate::histories::lists::Key;
use crate::histories::transactions::cycles::{Level, Step, Transaction};
use crate::histories::transactions::store::{KEYS, LIFETIME, Store};

/// The number of times that a name is wanted before the next one is.
const WISHES: i64 = 16;
/// Codes of errors after which a transaction is over, and nothing is stored: others came first, or kept the turn of a number for
/// too long, a closing store or its age ended it, a collection was changed, or its key is taken.
const OVER: [i32; 8] = [24, 43, 112, 246, NO_SUCH_TRANSACTION, 290, 11000, 11601];
const NO_SUCH_TRANSACTION: i32 = 251;

/// The notes of a thread.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) transactions: Vec<Record<Transaction>>,
    /// The names that were taken, each by a document of its own.
    pub(crate) names: Vec<i64>,
    /// Documents that were stored with a gapless number.
    pub(crate) numbered: usize,
    pub(crate) conflicts: u64,
    /// Transactions that were ended for their age, or by a closing store.
    pub(crate) ended: u64,
    /// The number of times that the store was closed while the thread worked.
    pub(crate) closings: u64,
}

/// The work of a transaction so far.
#[derive(Default)]
struct Tried {
    steps: Vec<Step>,
    names: Vec<i64>,
    numbered: usize,
}

pub(crate) struct Actor<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) store: &'a Store,
    pub(crate) choices: Choices,
    pub(crate) level: Level,
    pub(crate) session: ClientSession,
    /// Whether one transaction is to outlive its time.
    pub(crate) is_slow: bool,
    pub(crate) notes: Notes,
}

impl Actor<'_> {
    /// Works until `count` transactions and plain calls are done, or the store is closed.
    pub(crate) fn work(mut self, count: u64) -> (Notes, Result<(), String>) {
        for _ in 0..count {
            let done = if self.choices.one_in(4) { self.call() } else { self.transact() };
            match done {
                Ok(()) => {}
                Err(Stop::Closed) => {
                    self.notes.closings += 1;
                    break;
                }
                Err(Stop::Found(found)) => return (self.notes, Err(found)),
            }
        }
        (self.notes, Ok(()))
    }

    fn note(&mut self, begun: u64, steps: Vec<Step>, is_committed: bool) {
        let span = Span { begun, ended: self.shared.clock.tick() };
        self.notes.transactions.push(Record::new(span, Transaction { steps, is_committed }));
    }

    /// A plain call, which nothing of a transaction may disturb.
    fn call(&mut self) -> Result<(), Stop> {
        let mut steps = Vec::new();
        let begun = self.shared.clock.tick();
        let done = if self.choices.one_in(2) {
            self.append(&mut steps, false)
        } else {
            self.read(&mut steps, false)
        };
        self.note(begun, steps, done.is_ok());
        done.map_err(Stop::from)
    }

    fn transact(&mut self) -> Result<(), Stop> {
        let mut tried = Tried::default();
        let begun = self.shared.clock.tick();
        let done = self.state(&mut tried);
        let is_committed = matches!(done, Ok(true));
        self.note(begun, tried.steps, is_committed);
        if is_committed {
            self.notes.names.extend(tried.names);
            self.notes.numbered += tried.numbered;
        }
        let Err(error) = done else { return Ok(()) };
        // The session's knowledge of it differs: the error came from a statement or from the commit.
        drop(self.session.abort_transaction().run());
        if !error.code().is_some_and(|code| OVER.contains(&code)) {
            return Err(Stop::from(error));
        }
        self.notes.conflicts += u64::from(error.is_write_conflict());
        self.notes.ended += u64::from(error.code() == Some(NO_SUCH_TRANSACTION));
        Ok(())
    }

    /// Does the statements of a transaction, and ends it. Says whether it was committed.
    fn state(&mut self, tried: &mut Tried) -> cairndb::Result<bool> {
        let start = self.session.start_transaction();
        match self.level {
            Level::Snapshot => start.run()?,
            Level::Serializable => start.read_concern(ReadConcern::serializable()).run()?,
        }
        for _ in 0..=self.choices.below(5) {
            match self.choices.below(40) {
                0..16 => self.append(&mut tried.steps, true)?,
                16..36 => self.read(&mut tried.steps, true)?,
                36..39 => {
                    let (id, name) = (self.serial(), self.serial() / WISHES);
                    let insert = self.store.names.insert_one(doc! { "_id": id, "name": name });
                    insert.session(&mut self.session).run()?;
                    tried.names.push(name);
                }
                _ => {
                    let insert = self.store.numbered.insert_one(doc! { "_id": self.serial() });
                    insert.session(&mut self.session).run()?;
                    tried.numbered += 1;
                }
            }
            if self.choices.one_in(3) {
                thread::yield_now();
            }
        }
        if self.is_slow && self.choices.one_in(10) {
            self.is_slow = false;
            thread::park_timeout(LIFETIME + Duration::from_millis(50));
        }
        if self.choices.one_in(8) {
            self.session.abort_transaction().run()?;
            return Ok(false);
        }
        self.session.commit_transaction().run()?;
        Ok(true)
    }

    fn serial(&self) -> i64 {
        self.shared.serial.fetch_add(1, Ordering::Relaxed)
    }

    fn key(&mut self) -> Key {
        *self.choices.pick(&KEYS)
    }

    fn append(&mut self, steps: &mut Vec<Step>, is_statement: bool) -> cairndb::Result<()> {
        let (key, value) = (self.key(), self.serial());
        let push =
            doc! { "$push": { "list": value }, "$inc": { "n": 1_i64 }, "$setOnInsert": { "place": key } };
        let one = doc! { "_id": key };
        steps.push(Step::Append { key, value });
        if self.choices.one_in(2) {
            let update = self.store.lists.update_one(one, push).upsert(true);
            if is_statement {
                update.session(&mut self.session).run()?
            } else {
                update.run()?
            };
            return Ok(());
        }
        let update = self.store.lists.find_one_and_update(one, push).upsert(true);
        let update = update.return_document(ReturnDocument::After);
        let shown = if is_statement { update.session(&mut self.session).run()? } else { update.run()? };
        steps.push(Step::Read { key, list: shown.map_or_else(|| Ok(Vec::new()), |shown| list(&shown))? });
        Ok(())
    }

    /// Reads one list, or those of a range.
    fn read(&mut self, steps: &mut Vec<Step>, is_statement: bool) -> cairndb::Result<()> {
        let (one, other) = (self.key(), self.key());
        let lists = &self.store.lists;
        if self.choices.one_in(2) {
            let find = lists.find_one(doc! { "_id": one });
            let found = if is_statement { find.session(&mut self.session).run()? } else { find.run()? };
            let list = found.map_or_else(|| Ok(Vec::new()), |found| list(&found))?;
            steps.push(Step::Read { key: one, list });
            return Ok(());
        }
        let (low, high) = (one.min(other), one.max(other));
        let field = *self.choices.pick(&["_id", "place"]);
        let direction = *self.choices.pick(&[1, -1]);
        let find = lists.find(doc! { field: { "$gte": low, "$lte": high } }).sort(doc! { field: direction });
        let mut found: Vec<Document> = if is_statement {
            let mut cursor = find.session(&mut self.session).run()?;
            cursor.iter(&mut self.session).collect::<cairndb::Result<_>>()?
        } else {
            find.run()?.collect::<cairndb::Result<_>>()?
        };
        if direction < 0 {
            found.reverse();
        }
        let mut found = found.iter().peekable();
        for key in low..=high {
            let list = found
                .next_if(|found| found.get_i32("_id").ok() == Some(key))
                .map_or_else(|| Ok(Vec::new()), list)?;
            steps.push(Step::Read { key, list });
        }
        match found.next() {
            Some(more) => Err(Error::custom(format!(
                "a range from {low} to {high} by {field} found {more} in its place"
            ))),
            None => Ok(()),
        }
    }
}

fn list(document: &Document) -> cairndb::Result<Vec<i64>> {
    list_of(document).map(|(_, list)| list).map_err(Error::custom)
}
