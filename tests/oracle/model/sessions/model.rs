//! The reads and the conflicts of transactions, by rules as short as those of the documentation.
//!
//! A transaction has a copy of everything, made by its first statement, and writes there. What it claims it must have for itself
//! until its end, and not written by others since its beginning. Where the engine may see a conflict and need not, the model follows it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::sessions::statement::{Answer, Filter, Search, Statement, Update};
use crate::model::sessions::tables::{Claims, Key, Table, Tables};

pub(crate) const CONFLICT: i32 = 112;
pub(crate) const CHANGED: i32 = 246;
pub(crate) const NO_TRANSACTION: i32 = 251;

/// The stored documents, and when they were.
pub(crate) struct Model {
    pub(crate) stored: Tables,
    /// Counts everything that changes what is stored.
    clock: u64,
    stamps: BTreeMap<Key, u64>,
    /// Keys that a plain batch had and did not store.
    possible: BTreeMap<Key, u64>,
    newest: BTreeMap<&'static str, u64>,
    /// The time at which a collection was made, truncated, or got or lost an index.
    since: BTreeMap<&'static str, u64>,
    /// The time at which a collection was dropped.
    names_since: u64,
    transactions: BTreeMap<usize, Phase>,
    /// The number of transactions that each session has started.
    started: BTreeMap<usize, u64>,
    collections: u64,
}

enum Phase {
    New { is_serializable: bool },
    Open(Box<Open>),
    Ended,
}

/// A transaction with a statement.
struct Open {
    begun: u64,
    is_serializable: bool,
    /// The state that it reads.
    view: Tables,
    claims: BTreeSet<Key>,
    written: BTreeSet<(&'static str, i32)>,
    /// The collections that it has made for itself.
    made: BTreeSet<&'static str>,
    reads: Reads,
}

/// The reads of a serializable transaction.
#[derive(Default)]
struct Reads {
    keys: BTreeSet<Key>,
    /// Collections that were found, and those of them that were searched, for sure and perhaps.
    found: BTreeSet<&'static str>,
    searched: BTreeSet<&'static str>,
    perhaps_searched: BTreeSet<&'static str>,
    absent: BTreeSet<&'static str>,
}

/// The way in which a statement reads.
#[derive(Clone, Copy)]
enum Reading {
    Key(i32),
    /// By an `_id` in a way that may count as a search.
    KeyOrSearch(i32),
    Search,
    Nothing,
}

/// The model's knowledge of a conflict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    No,
    Perhaps,
    Yes,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            stored: Tables::new(),
            clock: 0,
            stamps: BTreeMap::new(),
            possible: BTreeMap::new(),
            newest: BTreeMap::new(),
            since: BTreeMap::new(),
            names_since: 0,
            transactions: BTreeMap::new(),
            started: BTreeMap::new(),
            collections: 0,
        }
    }

    /// Makes a collection, or does nothing if it is there.
    pub(crate) fn make(&mut self, at: &'static str) {
        if self.stored.of(at).number.is_none() {
            self.collections += 1;
            self.stored.of_mut(at).number = Some(self.collections);
            self.change_definition(at);
        }
    }

    /// Something of the collection is another than before.
    pub(crate) fn change_definition(&mut self, at: &'static str) {
        self.clock += 1;
        self.since.insert(at, self.clock);
    }

    pub(crate) fn drop_collection(&mut self, at: &'static str) {
        self.clock += 1;
        self.names_since = self.clock;
        *self.stored.of_mut(at) = Table::default();
    }

    pub(crate) fn truncate(&mut self, at: &'static str) {
        self.change_definition(at);
        self.stored.of_mut(at).documents.clear();
    }

    /// A plain statement.
    pub(crate) fn plain(&mut self, at: &'static str, statement: &Statement) -> Result<Answer, i32> {
        if makes_document(self.stored.of(at), statement) {
            self.make(at);
        }
        let mut claims = PlainClaims::default();
        let answer = self.stored.perform(at, statement, &mut claims);
        let PlainClaims { pending, noted, has_written } = claims;
        self.clock += 1;
        if has_written {
            self.newest.insert(at, self.clock);
        }
        self.stamps.extend(noted.into_iter().map(|key| (key, self.clock)));
        // The keys of a batch are noted together.
        if let Statement::InsertMany(documents) = statement
            && has_written
        {
            let number = self.stored.of(at).number.unwrap_or_default();
            let ids = documents.iter().filter_map(|document| document.get_i32("_id").ok());
            let uniques = documents.iter().filter_map(|document| document.get_i32("u").ok());
            let keys = ids.map(|id| Key::Record(number, id)).chain(uniques.map(Key::Unique)).chain(pending);
            self.possible.extend(keys.map(|key| (key, self.clock)));
        }
        answer
    }

    pub(crate) fn start(&mut self, session: usize, is_serializable: bool) {
        self.transactions.insert(session, Phase::New { is_serializable });
        *self.started.entry(session).or_default() += 1;
    }

    /// Which of a session's transactions is the last.
    pub(crate) fn number_of(&self, session: usize) -> u64 {
        self.started.get(&session).copied().unwrap_or_default()
    }

    /// Whether a session has started a transaction and not ended it, as far as its caller knows.
    pub(crate) fn is_in_transaction(&self, session: usize) -> bool {
        self.transactions.contains_key(&session)
    }

    /// Whether the transaction of a session has a snapshot.
    pub(crate) fn is_open(&self, session: usize) -> bool {
        matches!(self.transactions.get(&session), Some(Phase::Open(_)))
    }

    /// The time of the transaction is over, or its store is closed.
    pub(crate) fn end(&mut self, session: usize) {
        if let Some(phase) = self.transactions.get_mut(&session) {
            *phase = Phase::Ended;
        }
    }

    pub(crate) fn abort(&mut self, session: usize) {
        self.transactions.remove(&session);
    }

    /// A statement of a transaction. `engine` is the engine's error, if it had one.
    pub(crate) fn statement(
        &mut self,
        session: usize,
        at: &'static str,
        statement: &Statement,
        engine: Option<i32>,
    ) -> Result<Answer, i32> {
        let reading = reading_of(statement);
        let sees_conflict = engine == Some(CONFLICT);
        self.within(session, at, engine, |model, open| {
            if makes_document(open.view.of(at), statement) && open.view.of(at).number.is_none() {
                model.collections += 1;
                open.view.of_mut(at).number = Some(model.collections);
                open.made.insert(at);
            }
            open.note_read(at, reading);
            let (begun, made) = (open.begun, open.made.contains(at));
            let verdict = |key: Key| if made { Verdict::No } else { model.verdict(key, begun, at) };
            let mut claims = StagedClaims {
                claims: &mut open.claims,
                written: &mut open.written,
                verdict,
                sees_conflict,
                at,
            };
            open.view.perform(at, statement, &mut claims)
        })
    }

    /// Opens a cursor, and returns everything that it will show.
    pub(crate) fn open_cursor(
        &mut self,
        session: usize,
        at: &'static str,
        search: &Search,
        engine: Option<i32>,
    ) -> Result<Answer, i32> {
        self.statement(session, at, &Statement::Find(search.clone()), engine)
    }

    /// Runs a part of a statement, on what the transaction reads. Its error ends the transaction.
    fn within(
        &mut self,
        session: usize,
        at: &'static str,
        engine: Option<i32>,
        run: impl FnOnce(&mut Self, &mut Open) -> Result<Answer, i32>,
    ) -> Result<Answer, i32> {
        let phase = self.transactions.insert(session, Phase::Ended);
        let mut open = match phase.expect("it was started") {
            Phase::New { is_serializable } => Box::new(Open {
                begun: self.clock,
                is_serializable,
                view: self.stored.clone(),
                claims: BTreeSet::new(),
                written: BTreeSet::new(),
                made: BTreeSet::new(),
                reads: Reads::default(),
            }),
            Phase::Open(open) => open,
            Phase::Ended => return Err(NO_TRANSACTION),
        };
        let answer = match self.look_up(&mut open, at, engine) {
            Ok(()) => run(self, &mut open),
            Err(code) => Err(code),
        };
        if answer.is_ok() {
            self.transactions.insert(session, Phase::Open(open));
        }
        answer
    }

    /// Finds the collection of a statement, which must be what it was when the transaction began.
    fn look_up(&self, open: &mut Open, at: &'static str, engine: Option<i32>) -> Result<(), i32> {
        let is_there = self.stored.of(at).number.is_some();
        if open.made.contains(at) {
            // A handle that has seen the collection of another caller may go on with that.
            return if is_there && engine == Some(CHANGED) { Err(CHANGED) } else { Ok(()) };
        }
        let since = if is_there { self.since_of(at) } else { self.names_since };
        if since > open.begun {
            return Err(CHANGED);
        }
        if is_there {
            open.reads.found.insert(at);
        } else {
            open.reads.absent.insert(at);
        }
        Ok(())
    }

    fn since_of(&self, at: &str) -> u64 {
        self.since.get(at).copied().unwrap_or_default()
    }

    /// Whether another transaction has a key, or it was written since a moment.
    fn verdict(&self, key: Key, begun: u64, at: &str) -> Verdict {
        let is_after = |stamps: &BTreeMap<Key, u64>| stamps.get(&key).is_some_and(|stamp| *stamp > begun);
        // One that has claimed it before the collection became another one has perhaps claimed another key.
        let claim = self.transactions.values().filter_map(|phase| match phase {
            Phase::Open(open) if open.claims.contains(&key) && self.since_of(at) > open.begun => {
                Some(Verdict::Perhaps)
            }
            Phase::Open(open) if open.claims.contains(&key) => Some(Verdict::Yes),
            Phase::New { .. } | Phase::Open(_) | Phase::Ended => None,
        });
        let written = if is_after(&self.stamps) {
            Verdict::Yes
        } else if is_after(&self.possible) {
            Verdict::Perhaps
        } else {
            Verdict::No
        };
        claim.fold(written, Verdict::max)
    }

    /// Commits the transaction of a session. `engine` is the engine's error, if it had one.
    pub(crate) fn commit(&mut self, session: usize, engine: Option<i32>) -> Result<(), i32> {
        let open = match self.transactions.remove(&session).expect("it was started") {
            Phase::New { .. } => return Ok(()),
            Phase::Ended => return Err(NO_TRANSACTION),
            Phase::Open(open) => open,
        };
        if open.claims.is_empty() && open.made.is_empty() {
            return Ok(());
        }
        let verdict = self.judge(&open);
        if verdict == Verdict::Yes || verdict == Verdict::Perhaps && engine == Some(CONFLICT) {
            return Err(CONFLICT);
        }
        self.clock += 1;
        let Open { view, claims, written, made, .. } = *open;
        for at in made {
            self.stored.of_mut(at).number = view.of(at).number;
            self.since.insert(at, self.clock);
        }
        for (at, id) in written {
            let documents = &mut self.stored.of_mut(at).documents;
            match view.of(at).documents.get(&id) {
                Some(document) => drop(documents.insert(id, document.clone())),
                None => drop(documents.remove(&id)),
            }
            self.newest.insert(at, self.clock);
        }
        self.stamps.extend(claims.into_iter().map(|key| (key, self.clock)));
        Ok(())
    }

    /// Whether the commit of a transaction is too late.
    fn judge(&self, open: &Open) -> Verdict {
        let is_there = |at: &'static str| self.stored.of(at).number.is_some();
        let is_changed = |at: &'static str| self.since_of(at) > open.begun || !is_there(at);
        let is_made = |at: &str| open.made.contains(at);
        let mut touched = open.written.iter().map(|(at, _)| *at).filter(|at| !is_made(at));
        let is_written =
            |stamps: &BTreeMap<Key, u64>, key: &Key| stamps.get(key).is_some_and(|stamp| *stamp > open.begun);
        let is_newer = |at: &&str| self.newest.get(*at).is_some_and(|newest| *newest > open.begun);
        let reads = &open.reads;
        let mut is_late = touched.any(is_changed);
        is_late |= open.made.iter().any(|at| is_there(at));
        is_late |= open.claims.iter().any(|key| is_written(&self.stamps, key));
        if open.is_serializable {
            is_late |= reads.keys.iter().any(|key| is_written(&self.stamps, key));
            is_late |= reads.found.iter().any(|at| is_changed(at));
            is_late |= reads.searched.iter().any(is_newer);
            is_late |= reads.absent.iter().any(|at| !is_made(at) && is_there(at));
        }
        let keys = open.claims.iter().chain(reads.keys.iter().filter(|_| open.is_serializable));
        let mut may_be_late = keys.clone().any(|key| is_written(&self.possible, key));
        may_be_late |= open.is_serializable && reads.perhaps_searched.iter().any(is_newer);
        match (is_late, may_be_late) {
            (true, _) => Verdict::Yes,
            (false, true) => Verdict::Perhaps,
            (false, false) => Verdict::No,
        }
    }
}

impl Open {
    fn note_read(&mut self, at: &'static str, reading: Reading) {
        let Some(number) = self.view.of(at).number.filter(|_| !self.made.contains(at)) else { return };
        match reading {
            Reading::Key(id) => drop(self.reads.keys.insert(Key::Record(number, id))),
            Reading::KeyOrSearch(id) => {
                self.reads.keys.insert(Key::Record(number, id));
                self.reads.perhaps_searched.insert(at);
            }
            Reading::Search => drop(self.reads.searched.insert(at)),
            Reading::Nothing => {}
        }
    }
}

fn reading_of(statement: &Statement) -> Reading {
    let by = |filter: &Filter, is_sure| match (filter, is_sure) {
        (Filter::Id(id), true) => Reading::Key(*id),
        (Filter::Id(id), false) => Reading::KeyOrSearch(*id),
        (Filter::All | Filter::Between { .. } | Filter::Unique(_) | Filter::Tag(_), _) => Reading::Search,
    };
    match statement {
        Statement::Find(Search { filter, .. })
        | Statement::Count(filter)
        | Statement::Group(filter)
        | Statement::Distinct(filter) => by(filter, false),
        Statement::FindOne(filter)
        | Statement::UpdateOne(Update { filter, .. })
        | Statement::UpdateMany(filter, _)
        | Statement::Replace(filter, _)
        | Statement::FindOneAndUpdate { update: Update { filter, .. }, .. }
        | Statement::FindOneAndDelete(filter)
        | Statement::DeleteOne(filter)
        | Statement::DeleteMany(filter) => by(filter, true),
        Statement::InsertOne(_) | Statement::InsertMany(_) => Reading::Nothing,
    }
}

/// Whether the statement makes the collection, if there is none.
fn makes_document(table: &Table, statement: &Statement) -> bool {
    let is_upsert = |update: &Update| update.is_upsert;
    table.number.is_none()
        && match statement {
            Statement::InsertOne(_) | Statement::InsertMany(_) => true,
            Statement::UpdateOne(update) | Statement::FindOneAndUpdate { update, .. } => is_upsert(update),
            Statement::Find(_)
            | Statement::FindOne(_)
            | Statement::Count(_)
            | Statement::Group(_)
            | Statement::Distinct(_)
            | Statement::UpdateMany(..)
            | Statement::Replace(..)
            | Statement::FindOneAndDelete(_)
            | Statement::DeleteOne(_)
            | Statement::DeleteMany(_) => false,
        }
}

/// A plain write asks no transaction, and is noted.
#[derive(Default)]
struct PlainClaims {
    pending: Vec<Key>,
    noted: Vec<Key>,
    has_written: bool,
}

impl Claims for PlainClaims {
    fn claim(&mut self, key: Key) -> Result<(), i32> {
        self.pending.push(key);
        Ok(())
    }

    fn written(&mut self, _id: i32) {
        self.noted.append(&mut self.pending);
        self.has_written = true;
    }
}

struct StagedClaims<'a, V> {
    claims: &'a mut BTreeSet<Key>,
    written: &'a mut BTreeSet<(&'static str, i32)>,
    verdict: V,
    sees_conflict: bool,
    at: &'static str,
}

impl<V: Fn(Key) -> Verdict> Claims for StagedClaims<'_, V> {
    fn claim(&mut self, key: Key) -> Result<(), i32> {
        let verdict = match (self.verdict)(key) {
            // A key that it has claimed already is looked at by the commit, and perhaps before.
            Verdict::Yes if self.claims.contains(&key) => Verdict::Perhaps,
            verdict @ (Verdict::No | Verdict::Perhaps | Verdict::Yes) => verdict,
        };
        if verdict == Verdict::Yes || verdict == Verdict::Perhaps && self.sees_conflict {
            return Err(CONFLICT);
        }
        self.claims.insert(key);
        Ok(())
    }

    fn written(&mut self, id: i32) {
        self.written.insert((self.at, id));
    }
}
