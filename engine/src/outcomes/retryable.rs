//! A command that a client may send again: what of it was done before, and the rows of what it does now.

use std::collections::HashMap;
use std::sync::Arc;

use base::codes::refused;
use base::error::{Error, Result};
use base::sync::Mutex;
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawDocumentBuf, doc, rawdoc};
use query::code::Code;
use query::operation::OperationContext;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::Batch;
use store::{Database, Family};

use crate::outcomes::row::{Kind, Row, SessionKey, now_millis};

/// The number of a write in a session. A write that is sent again has the same.
///
/// With it a server passes to the engine what MongoDB's drivers send as `lsid` and `txnNumber`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryableWrite {
    session: SessionKey,
    number: i64,
}

impl RetryableWrite {
    /// The write of that number in a session, which belongs to a user: the beginning of a digest of the name, or zeros.
    ///
    /// ```
    /// let write = cairndb::RetryableWrite::new([1; 16], [0; 16], 7);
    /// assert_eq!(write.number(), 7);
    /// ```
    pub fn new(session: [u8; 16], user: [u8; 16], number: i64) -> Self {
        Self { session: SessionKey::new(session, user), number }
    }

    /// The number.
    pub fn number(&self) -> i64 {
        self.number
    }

    pub(crate) fn session(&self) -> SessionKey {
        self.session
    }

    /// The newest write of the session that has a row. Fails with code 225 if its number is higher. No other command of the session runs.
    pub(crate) fn admit(&self, database: &Database) -> Result<Option<Row>> {
        let newest = newest(database, self.session)?;
        match &newest {
            Some(newest) if newest.number > self.number => Err(too_old(self.number, newest.number)),
            Some(_) | None => Ok(()),
        }?;
        Ok(newest)
    }

    /// The row of the commit of a transaction of that number: its key and its value.
    pub(crate) fn commit_row(&self) -> (Vec<u8>, Vec<u8>) {
        let row = Row {
            number: self.number,
            millis: now_millis(),
            statements: (0, 0),
            kind: Kind::Commit,
            results: RawDocumentBuf::new(),
        };
        (self.session.row(0), row.encode())
    }
}

/// The session and the number of a row, by MongoDB's names. `None` for other bytes.
pub(crate) fn session_of_row(key: &[u8], value: &[u8]) -> Option<RawDocumentBuf> {
    let (session, row) = (SessionKey::of_row(key)?, Row::decode(key, value).ok()?);
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: session.id().to_vec() };
    let mut lsid = RawDocumentBuf::new();
    lsid.append(cstr!("id"), id);
    Some(rawdoc! { "lsid": lsid, "txnNumber": row.number })
}

/// The last write of a session that has left a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestWrite {
    /// The number that the client gave it.
    pub number: i64,
    /// Whether it was the commit of a transaction.
    pub is_commit: bool,
}

/// The newest write of a session that has a row.
pub(crate) fn newest(database: &Database, session: SessionKey) -> Result<Option<Row>> {
    // A folder of an older format that is opened for reading has no rows.
    if !database.has(Family::Outcomes) {
        return Ok(None);
    }
    // The first commit of each command has slot 0.
    let key = session.row(0);
    database.get(Family::Outcomes, &key)?.map(|value| Row::decode(&key, &value)).transpose()
}

/// What a statement of the command has done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Stored the documents of these statements, ascending.
    Inserted(Vec<u32>),
    /// Changed a document.
    Updated,
    /// Stored the document of an upsert.
    Upserted(Bson),
    /// Removed a document.
    Deleted,
}

/// Whether a batch got a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    Row,
    /// The batch makes room, and is not an effect of a statement.
    Nothing,
}

/// What a repeated statement is answered with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// The `_id` of the document that an upsert has stored.
    pub(crate) upserted: Option<Bson>,
    /// The document that a `findAndModify` has shown.
    pub(crate) shown: Option<Document>,
}

/// A command that runs, and may have run before.
pub(crate) struct Retryable {
    write: RetryableWrite,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kind: Option<Kind>,
    /// The statements that were done before.
    done: HashMap<u32, Option<Box<Done>>>,
    /// The statement that runs. Of an insert, which documents it has: their places in the command, if those are not all.
    statement: u32,
    documents: Option<Vec<u32>>,
    /// What the next commit has done.
    effect: Option<Effect>,
    /// What a `findAndModify` shows.
    shown: Option<RawDocumentBuf>,
    /// How many commits have rows.
    slot: u32,
}

impl Retryable {
    pub(crate) fn new(write: RetryableWrite) -> Self {
        Self { write, state: Mutex::default() }
    }

    pub(crate) fn session(&self) -> SessionKey {
        self.write.session
    }

    /// The row of a command whose `count` statements are one commit: its key and its value.
    pub(crate) fn row_of_all(&self, count: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let kind = self.state.lock().kind?;
        let last = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
        let results = RawDocumentBuf::new();
        let row =
            Row { number: self.write.number, millis: now_millis(), statements: (0, last), kind, results };
        Some((self.write.session.row(0), row.encode()))
    }

    /// Looks up what was done before by `command`, whose commits have rows of these kinds. No other command of the session runs.
    ///
    /// Fails with code 225 if a newer one of the session has run, and with 72 if another command had the number.
    pub(crate) fn begin(&self, database: &Arc<Database>, command: &str, kinds: &[Kind]) -> Result<()> {
        let mut state = State { kind: kinds.first().copied(), ..State::default() };
        let RetryableWrite { session, number } = self.write;
        let newest = self.write.admit(database)?;
        // Rows of earlier numbers may follow that of the first slot.
        if newest.is_some_and(|newest| newest.number == number) {
            let snapshot = Snapshot::take(database);
            let operation = OperationContext::unlimited();
            let mut scan =
                Scan::open(&snapshot, Family::Outcomes, session.rows(), CacheUse::Fill, &operation);
            while scan.advance()? {
                let row = Row::decode(scan.key(), scan.value())?;
                if row.number != number {
                    continue;
                }
                if !kinds.contains(&row.kind) {
                    return Err(other_command(number, row.kind, command));
                }
                state.slot += 1;
                state.done.extend(done_by(scan.key(), &row)?);
            }
        }
        *self.state.lock() = state;
        Ok(())
    }

    /// What a statement has done before. From here on it is the statement that runs, if that is nothing.
    pub(crate) fn enter(&self, statement: usize) -> Option<Done> {
        let mut state = self.state.lock();
        let statement = u32::try_from(statement).unwrap_or(u32::MAX);
        state.statement = statement;
        state.effect = None;
        state.done.get(&statement).map(|done| done.as_deref().cloned().unwrap_or_default())
    }

    /// As [`enter`](Self::enter), of a command whose statements are of several kinds.
    pub(crate) fn enter_as(&self, statement: usize, kind: Kind) -> Option<Done> {
        self.state.lock().kind = Some(kind);
        self.enter(statement)
    }

    /// Sets which statements the documents are, by their positions, that the next call inserts.
    pub(crate) fn enter_documents(&self, statements: &[usize]) {
        let statements = statements.iter().map(|place| u32::try_from(*place).unwrap_or(u32::MAX));
        self.state.lock().documents = Some(statements.collect());
    }

    /// The documents of an insert, of `count`, that are not stored yet, by their places. `None` if that is all of them.
    pub(crate) fn rest(&self, count: usize) -> Option<Vec<usize>> {
        let mut state = self.state.lock();
        if state.done.is_empty() {
            return None;
        }
        let is_new =
            |place: &usize| u32::try_from(*place).is_ok_and(|place| !state.done.contains_key(&place));
        let rest: Vec<usize> = (0..count).filter(is_new).collect();
        state.documents = Some(rest.iter().map(|place| u32::try_from(*place).unwrap_or(u32::MAX)).collect());
        Some(rest)
    }

    /// Keeps what a `findAndModify` shows.
    pub(crate) fn show(&self, document: &RawDocumentBuf) {
        let mut state = self.state.lock();
        if state.kind == Some(Kind::FindAndModify) {
            state.shown = Some(document.clone());
        }
    }

    /// Forgets what an attempt has shown, and was about to do, that came to nothing.
    pub(crate) fn forget_attempt(&self) {
        let mut state = self.state.lock();
        (state.effect, state.shown) = (None, None);
    }

    /// Sets what the next commit does.
    pub(crate) fn expect(&self, effect: Effect) {
        self.state.lock().effect = Some(effect);
    }

    /// Notes that the next commit stores new documents: their positions in the call, and their `_id`s.
    pub(crate) fn expect_new(&self, mut documents: impl Iterator<Item = (usize, Bson)>) {
        let mut state = self.state.lock();
        let effect = if state.kind == Some(Kind::Insert) {
            let place = |position: usize| {
                let places = state.documents.as_ref();
                let place = places
                    .map_or_else(|| u32::try_from(position).ok(), |places| places.get(position).copied());
                place.unwrap_or(u32::MAX)
            };
            Some(Effect::Inserted(documents.map(|(position, _)| place(position)).collect()))
        } else {
            documents.next().map(|(_, id)| Effect::Upserted(id))
        };
        state.effect = effect;
    }

    /// Adds to a batch what its changes are answered from if they are asked for again.
    pub(crate) fn stage(&self, batch: &mut Batch<'_>) -> Staged {
        let mut state = self.state.lock();
        let Some((kind, effect)) = state.kind.zip(state.effect.take()) else { return Staged::Nothing };
        let mut results = doc! {};
        let statements = match effect {
            Effect::Inserted(places) => {
                let ends = places.first().copied().zip(places.last().copied());
                let Some((first, last)) = ends else { return Staged::Nothing };
                if usize::try_from(last - first).is_ok_and(|span| span + 1 != places.len()) {
                    // Some in between were refused, or were done before.
                    let places = places.into_iter().map(|place| Bson::Int64(place.into()));
                    results.insert("s", places.collect::<Vec<_>>());
                }
                (first, last)
            }
            Effect::Updated | Effect::Deleted => (state.statement, state.statement),
            Effect::Upserted(id) => {
                results.insert("u", id);
                (state.statement, state.statement)
            }
        };
        let mut raw = RawDocumentBuf::try_from(&results).unwrap_or_default();
        if let Some(shown) = state.shown.take() {
            raw.append(bson::cstr!("v"), shown);
        }
        let row = Row { number: self.write.number, millis: now_millis(), statements, kind, results: raw };
        batch.put(Family::Outcomes, &self.write.session.row(state.slot), &row.encode());
        Staged::Row
    }

    /// Notes that a batch with a row was committed.
    pub(crate) fn committed(&self) {
        self.state.lock().slot += 1;
    }
}

/// The statements that a commit has done, by its row.
pub(crate) fn statements_of(key: &[u8], row: &Row) -> Result<Vec<u32>> {
    let done = done_by(key, row)?;
    Ok(done.into_iter().map(|(statement, _)| statement).collect())
}

/// The statements that a commit has done, and what it says of each.
fn done_by(key: &[u8], row: &Row) -> Result<Vec<(u32, Option<Box<Done>>)>> {
    let damaged = |reason: &str| Error::corruption(Family::Outcomes.name(), key, reason.to_owned());
    let results =
        Document::try_from(&*row.results).map_err(|_| damaged("the results of the row are not BSON"))?;
    if let Some(places) = results.get("s") {
        let places = places.as_array().ok_or_else(|| damaged("the row has no list of statements"))?;
        let place = |place: &Bson| {
            let place = place.as_i64().and_then(|place| u32::try_from(place).ok());
            place.map(|place| (place, None)).ok_or_else(|| damaged("a statement is not a number"))
        };
        return places.iter().map(place).collect();
    }
    let (first, last) = row.statements;
    // A command has at most 100,000, and no list of more is made of damaged bytes.
    if u64::from(last - first) >= 1 << 20 {
        return Err(damaged("the row names too many statements"));
    }
    let shown = match results.get("v") {
        None => None,
        Some(Bson::Document(shown)) => Some(shown.clone()),
        Some(_) => return Err(damaged("what the row shows is not a document")),
    };
    let done = Done { upserted: results.get("u").cloned(), shown };
    let done = (done != Done::default()).then(|| Box::new(done));
    // Each statement gets an answer of its own, so damaged bytes would make up to a million of one.
    if done.is_some() && first != last {
        return Err(damaged("the row shows one document for several statements"));
    }
    Ok((first..=last).map(|statement| (statement, done.clone())).collect())
}

/// The error of a number that is lower than the last one of its session.
#[cold]
pub(crate) fn too_old(number: i64, newest: i64) -> Error {
    let message = format!("the session has begun number {newest}, so number {number} comes too late");
    refused(Code::TRANSACTION_TOO_OLD, message)
}

#[cold]
fn other_command(number: i64, before: Kind, now: &str) -> Error {
    let before = before.name();
    let message =
        format!("the number {number} of the session was given to a command '{before}', and not to '{now}'");
    refused(Code::INVALID_OPTIONS, message)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    #[track_caller]
    fn done(statements: (u32, u32), results: RawDocumentBuf) -> Option<usize> {
        let row = Row { number: 1, millis: 0, statements, kind: Kind::Update, results };
        let done = done_by(b"key", &row);
        assert!(done.as_ref().err().is_none_or(Error::is_corruption), "{done:?}");
        done.ok().map(|done| done.len())
    }

    #[test]
    fn a_row_that_no_command_leaves_is_damage() {
        assert_eq!(done((3, 3), rawdoc! { "v": { "_id": 1 } }), Some(1));
        assert_eq!(done((3, 9), rawdoc! {}), Some(7));
        assert_eq!(done((0, 9), rawdoc! { "s": [0_i64, 9_i64] }), Some(2));
        // The shown document is that of one statement.
        assert_eq!(done((0, 1_000_000), rawdoc! { "v": { "_id": 1 } }), None);
        assert_eq!(done((0, 1), rawdoc! { "u": 1 }), None);
        assert_eq!(done((3, 3), rawdoc! { "v": 1 }), None);
        assert_eq!(done((0, u32::MAX), rawdoc! {}), None);
        assert_eq!(done((0, 9), rawdoc! { "s": [-1_i64] }), None);
    }
}
