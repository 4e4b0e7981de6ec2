//! Generations of tokens: how long tokens are remembered, and how they are forgotten together.
//!
//! A row is in the generation that was the newest when it was written. When that has lasted as long as tokens are to be remembered, a new
//! one begins, and the one before the last goes as a range. So a token is remembered once to twice as long. Commits with a token
//! hold the generations shared, and a new one begins alone: no row comes into one that is gone.

use std::sync::Arc;
use std::time::Duration;

use base::error::{Error, ErrorKind, Result};
use base::lock_order::{self, Place};
use base::once_error::ExactlyOnceError;
use base::sync::{AtomicU64, Mutex, RwLock};
use query::operation::OperationContext;
use std::sync::atomic::Ordering::Relaxed;
use store::handles::Storage;
use store::keys::{META_TOKENS, tagged_id};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};
use store::{Database, Family};

use crate::options::PlantedFault;
use crate::outcomes::highest::HighestTokens;
use crate::outcomes::row::now_millis;
use crate::outcomes::token::Token;
use crate::outcomes::token_row::{self, TokenRow};

/// By how much the clock of who makes tokens may be ahead of the store's, at most. It is less where tokens are remembered shortly.
const AHEAD: Duration = Duration::from_secs(300);
const FIRST: u32 = 1;
/// The number of rows of earlier lives that are counted at once.
const COUNTED_AT_ONCE: u32 = if cfg!(test) { 3 } else { 10_000 };

/// The time for which tokens are remembered, and the limit of their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenLimits {
    pub(crate) retention: Duration,
    pub(crate) bytes_max: u64,
}

impl Default for TokenLimits {
    fn default() -> Self {
        Self { retention: Duration::from_secs(86_400), bytes_max: 1 << 30 }
    }
}

/// The generations of a store.
pub(crate) struct Generations {
    limits: TokenLimits,
    known: RwLock<Known>,
    /// The key from which on rows are not counted yet. Held while some are counted, and acquired before the others.
    uncounted: Mutex<Vec<u8>>,
    /// The number of calls that were answered from rows.
    replays: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// `None` until the first token is used.
    newest: Option<Generation>,
    before: Option<Generation>,
    /// Whether the bytes of the rows were counted, and the highest tokens are known.
    is_ready: bool,
}

struct Generation {
    number: u32,
    /// Its begin, in milliseconds since 1970.
    began: u64,
    /// The bytes of its rows, with their keys.
    bytes: AtomicU64,
    highest: HighestTokens,
}

impl Generations {
    /// The generations that are stored. Fails if what is stored of them is damaged.
    pub(crate) fn load(database: &Arc<Database>, limits: TokenLimits) -> Result<Self> {
        let snapshot = Snapshot::take(database);
        let mut found = stored(&snapshot, &OperationContext::unlimited())?;
        let mut last = || found.pop().map(|(number, began)| Generation::of(number, began));
        let (newest, before) = (last(), last());
        let known = RwLock::new(Known { newest, before, is_ready: false });
        Ok(Self { limits, known, uncounted: Mutex::default(), replays: AtomicU64::new(0) })
    }

    /// Gets ready for a call with a token: there is a generation, it is not too old, and the bytes of the rows are known.
    pub(crate) fn prepare(&self, storage: Storage<'_>, operation: &OperationContext) -> Result<()> {
        self.prepare_at(storage, operation, now_millis())
    }

    fn prepare_at(&self, storage: Storage<'_>, operation: &OperationContext, now: u64) -> Result<()> {
        {
            let known = self.known.read();
            if known.is_ready && !self.is_due(&known, now) {
                return Ok(());
            }
        }
        // In steps, so that who waits for them can give up, and no other call waits for all.
        while !self.count_some(storage.database, operation)? {
            operation.look()?;
        }
        let _place = lock_order::take(Place::Tokens);
        let mut known = self.known.write();
        if self.is_due(&known, now) {
            known.turn(storage, now)?;
        }
        Ok(())
    }

    /// Begins a new generation if it is time, while no call does so.
    pub(crate) fn turn_if_due(&self, storage: Storage<'_>) -> Result<()> {
        let now = now_millis();
        let has_any = self.known.read().newest.is_some();
        let operation = OperationContext::unlimited();
        // Some rows at a time: transactions wait for this thread to end them.
        if has_any && self.is_due(&self.known.read(), now) && self.count_some(storage.database, &operation)? {
            self.prepare(storage, &operation)?;
        }
        Ok(())
    }

    /// Counts some of the rows that earlier lives of the store have left. Returns whether all are counted.
    fn count_some(&self, database: &Arc<Database>, operation: &OperationContext) -> Result<bool> {
        let mut from = self.uncounted.lock();
        let is_ready = {
            let _place = lock_order::take(Place::Tokens);
            let known = self.known.read();
            known.is_ready || known.count_from(database, &mut from, operation)?
        };
        let _place = lock_order::take(Place::Tokens);
        self.known.write().is_ready |= is_ready;
        Ok(is_ready)
    }

    /// The row of a token, and which generation was the newest then. Fails if the token is older than those that are remembered.
    pub(crate) fn look_up(&self, database: &Database, token: &Token) -> Result<(Option<TokenRow>, u32)> {
        let _place = lock_order::take(Place::Tokens);
        self.known.read().look_up(database, token, self.margin())
    }

    /// Writes a batch with the row of a token, unless the token has a row by now: then that is returned, and nothing is written. `seen` is
    /// the newest generation of an earlier look-up that found none. The latch of the token is held.
    pub(crate) fn commit<'b>(
        &self,
        mut batch: Batch<'b>,
        row: &NewRow<'_>,
        write: impl FnOnce(Batch<'b>) -> Result<()>,
    ) -> Result<Option<TokenRow>> {
        let database = batch.database();
        let _place = lock_order::take(Place::Tokens);
        let known = self.known.read();
        let Some(newest) = known.newest.as_ref().filter(|_| known.is_ready) else {
            return Err(Error::invalid_argument(
                "no generation of tokens has begun, or its rows were not counted",
            ));
        };
        let is_above = if database.fault() == PlantedFault::TokensNotEntered {
            newest.highest.are_below(row.token)
        } else {
            newest.highest.enter(row.token.kind(), row.token.bytes())
        };
        // Rows come into the newest generation alone. If it is the one of the first look-up, no other can have got a row since.
        let is_new = is_above && newest.number == row.seen;
        if !is_new
            && database.fault() != PlantedFault::TokensNotLookedUp
            && let Some(found) = known.look_again(database, row, self.margin())?
        {
            return Ok(Some(found));
        }
        let (key, value) = (token_row::key(row.token, newest.number), &row.value);
        let bytes = (key.len() + value.len()) as u64;
        newest.bytes.fetch_add(bytes, Relaxed);
        if known.bytes() > self.limits.bytes_max {
            newest.bytes.fetch_sub(bytes, Relaxed);
            return Err(self.full());
        }
        let written = if database.fault() == PlantedFault::TokensApart {
            write(batch).and_then(|()| {
                let mut apart = Batch::new(database);
                apart.put(Family::Outcomes, &key, value);
                (row.write_apart)(apart)
            })
        } else {
            batch.put(Family::Outcomes, &key, value);
            write(batch)
        };
        if let Err(error) = &written
            && !error.is_commit_unknown()
        {
            newest.bytes.fetch_sub(bytes, Relaxed);
        }
        written.map(|()| None)
    }

    /// Fails if no row has room.
    pub(crate) fn admit(&self) -> Result<()> {
        if self.known.read().bytes() >= self.limits.bytes_max { Err(self.full()) } else { Ok(()) }
    }

    /// Notes that a call was answered from a row.
    pub(crate) fn note_replay(&self) {
        self.replays.fetch_add(1, Relaxed);
    }

    /// The number of calls that were answered from rows since the store was opened, and the bytes of all rows.
    pub(crate) fn measured(&self) -> (u64, u64) {
        (self.replays.load(Relaxed), self.known.read().bytes())
    }

    #[cold]
    fn full(&self) -> Error {
        Error::new(ErrorKind::ExactlyOnce(ExactlyOnceError::full(self.limits.bytes_max)))
    }

    fn is_due(&self, known: &Known, now: u64) -> bool {
        known.newest.as_ref().is_none_or(|newest| {
            let lasted = u128::from(now.saturating_sub(newest.began));
            // A clock that goes back, and forward again, must not end two of them: tokens would be forgotten early.
            lasted >= self.limits.retention.as_millis()
        })
    }

    /// The time by which a token must be newer than the oldest generation.
    fn margin(&self) -> Duration {
        AHEAD.min(self.limits.retention / 2)
    }
}

/// The row of a call that is to be committed.
pub(crate) struct NewRow<'a> {
    pub(crate) token: &'a Token,
    /// Its stored form.
    pub(crate) value: Vec<u8>,
    /// The newest generation of the look-up that found no row.
    pub(crate) seen: u32,
    /// The way in which an injected fault writes the row.
    pub(crate) write_apart: &'a dyn Fn(Batch<'_>) -> Result<()>,
}

impl Known {
    fn bytes(&self) -> u64 {
        self.kept().map(|generation| generation.bytes.load(Relaxed)).sum()
    }

    fn kept(&self) -> impl Iterator<Item = &Generation> {
        self.newest.iter().chain(&self.before)
    }

    fn look_up(
        &self,
        database: &Database,
        token: &Token,
        margin: Duration,
    ) -> Result<(Option<TokenRow>, u32)> {
        let seen = self.newest.as_ref().map_or(0, |newest| newest.number);
        for generation in self.kept() {
            if self.is_ready && generation.highest.are_below(token) {
                continue;
            }
            if let Some(row) = read(database, token, generation.number)? {
                return Ok((Some(row), seen));
            }
        }
        self.refuse_old(token, margin)?;
        Ok((None, seen))
    }

    /// Looks up a token again that was looked up before: rows come into the newest generation alone.
    fn look_again(
        &self,
        database: &Database,
        row: &NewRow<'_>,
        margin: Duration,
    ) -> Result<Option<TokenRow>> {
        match &self.newest {
            Some(newest) if newest.number == row.seen => read(database, row.token, newest.number),
            Some(_) | None => Ok(self.look_up(database, row.token, margin)?.0),
        }
    }

    /// Rejects a token that was made before the oldest one that is remembered.
    fn refuse_old(&self, token: &Token, margin: Duration) -> Result<()> {
        // Until the first generation is gone, all tokens are remembered that were ever used.
        let Some(oldest) = self.before.as_ref().filter(|before| before.number > FIRST) else {
            return Ok(());
        };
        let margin = u64::try_from(margin.as_millis()).unwrap_or(u64::MAX);
        let remembered = oldest.began.saturating_add(margin);
        match token.millis().and_then(|made| remembered.checked_sub(made)).filter(|late| *late > 0) {
            Some(late) => {
                Err(Error::new(ErrorKind::ExactlyOnce(ExactlyOnceError::too_old(late.div_ceil(1000)))))
            }
            None => Ok(()),
        }
    }

    /// Counts the bytes of rows from a key on, which goes on, and learns of the highest tokens. Returns whether no more are left. No row
    /// comes until then.
    fn count_from(
        &self,
        database: &Arc<Database>,
        from: &mut Vec<u8>,
        operation: &OperationContext,
    ) -> Result<bool> {
        let (snapshot, mut left) = (Snapshot::take(database), COUNTED_AT_ONCE);
        for generation in self.before.iter().chain(&self.newest) {
            let (first, end) = token_row::keys_of(Some(generation.number));
            if *from >= end {
                continue;
            }
            let bounds = (first.max(from.clone()), Some(end.clone()));
            let mut scan = Scan::open(&snapshot, Family::Outcomes, bounds, CacheUse::Bypass, operation);
            let (mut bytes, mut next) = (0, end);
            while scan.advance()? {
                operation.step()?;
                bytes += (scan.key().len() + scan.value().len()) as u64;
                if let Some((_, kind, token)) = token_row::split_key(scan.key()) {
                    generation.highest.enter(kind, token);
                }
                left -= 1;
                if left == 0 {
                    next = [scan.key(), &[0]].concat();
                    break;
                }
            }
            // Together: what an error ends is counted again.
            *from = next;
            generation.bytes.fetch_add(bytes, Relaxed);
            if left == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins a new generation, and forgets the one before the last.
    fn turn(&mut self, storage: Storage<'_>, now: u64) -> Result<()> {
        let number = self.newest.as_ref().map_or(Some(FIRST), |newest| newest.number.checked_add(1));
        let number = number.ok_or_else(|| Error::invalid_argument("no generation of tokens is left"))?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &meta_key(number), &now.to_be_bytes());
        let drops_early = storage.database.fault() == PlantedFault::GenerationsDroppedEarly;
        let gone = if drops_early { &self.newest } else { &self.before };
        if let Some(gone) = gone {
            let (first, end) = token_row::keys_of(Some(gone.number));
            batch.delete(Family::Meta, &meta_key(gone.number));
            batch.delete_range(Family::Outcomes, &first, &end);
        }
        storage.store.commit(batch, CommitLevel::Delayed)?;
        self.before = self.newest.take().filter(|_| !drops_early);
        self.newest = Some(Generation::of(number, now));
        Ok(())
    }
}

impl Generation {
    fn of(number: u32, began: u64) -> Self {
        Self { number, began, bytes: AtomicU64::new(0), highest: HighestTokens::default() }
    }
}

/// The generations that are stored, ascending, with the times when they began.
pub(crate) fn stored(snapshot: &Arc<Snapshot>, operation: &OperationContext) -> Result<Vec<(u32, u64)>> {
    let bounds = (vec![META_TOKENS], Some(vec![META_TOKENS + 1]));
    let mut scan = Scan::open(snapshot, Family::Meta, bounds, CacheUse::Fill, operation);
    let mut found = Vec::new();
    while scan.advance()? {
        let number = tagged_id(scan.key());
        let began = <[u8; 8]>::try_from(scan.value()).ok().map(u64::from_be_bytes);
        let generation = number.zip(began).ok_or_else(|| {
            let reason = "the stored generation of tokens is not a number and a time";
            Error::corruption(Family::Meta.name(), scan.key(), reason)
        })?;
        found.push(generation);
    }
    Ok(found)
}

/// The key of a generation in the family `meta`.
pub(crate) fn meta_key(number: u32) -> Vec<u8> {
    [&[META_TOKENS][..], &number.to_be_bytes()].concat()
}

fn read(database: &Database, token: &Token, generation: u32) -> Result<Option<TokenRow>> {
    // A folder of an older format that is opened for reading has no rows.
    if !database.has(Family::Outcomes) {
        return Ok(None);
    }
    let key = token_row::key(token, generation);
    database.get(Family::Outcomes, &key)?.map(|value| TokenRow::decode(&key, &value)).transpose()
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::{Bson, Document, Uuid, doc};
    use query::operation::{Allowance, CancellationToken};

    use super::*;
    use crate::client::Client;
    use crate::outcomes::token_row::RowWriter;

    const HOUR: u64 = 3_600_000;

    /// A store, and generations of its own that last an hour.
    struct Fixture {
        client: Client,
        generations: Generations,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            Self::with_fault(PlantedFault::None)
        }

        fn with_fault(fault: PlantedFault) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let client =
                Client::builder().planted_fault(fault).open(folder.path().join("db")).expect("opened");
            let generations = Self::load(&client);
            Self { client, generations, _folder: folder }
        }

        fn load(client: &Client) -> Generations {
            let database = client.shared().store.enter().expect("open");
            let limits = TokenLimits { retention: Duration::from_millis(HOUR), bytes_max: 1 << 20 };
            Generations::load(&database, limits).expect("loaded")
        }

        fn with<R>(&self, run: impl FnOnce(Storage<'_>) -> R) -> R {
            let shared = self.client.shared();
            let database = shared.store.enter().expect("open");
            run(shared.storage(&database))
        }

        /// Uses a token at a time: `true` if that was the first time, as far as is remembered.
        fn first(&self, token: &Token, now: u64) -> Result<bool> {
            self.with(|storage| {
                let operation = OperationContext::unlimited();
                self.generations.prepare_at(storage, &operation, now)?;
                let (found, seen) = self.generations.look_up(storage.database, token)?;
                if found.is_some() {
                    return Ok(false);
                }
                let write_apart = |_: Batch<'_>| Ok(());
                let value = RowWriter::new(&[0; 16]).finish(now);
                let row = NewRow { token, value, seen, write_apart: &write_apart };
                let batch = Batch::new(storage.database);
                let write = |batch| storage.store.commit(batch, CommitLevel::Delayed);
                let found = self.generations.commit(batch, &row, write)?;
                Ok(found.is_none())
            })
        }

        fn known(&self) -> Vec<u32> {
            self.with(|storage| {
                let snapshot = Snapshot::take(storage.database);
                let known = stored(&snapshot, &OperationContext::unlimited()).expect("read");
                known.into_iter().map(|(number, _)| number).collect()
            })
        }
    }

    fn id_of(millis: u64) -> Token {
        let seconds = u32::try_from(millis / 1000).expect("a time").to_be_bytes();
        let mut bytes = [7; 12];
        bytes[..4].copy_from_slice(&seconds);
        ObjectId::from_bytes(bytes).into()
    }

    fn uuid_of(millis: u64) -> Token {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        bytes[6] = 0x70;
        Uuid::from_bytes(bytes).into()
    }

    #[test]
    fn a_token_is_remembered_once_to_twice_as_long_as_a_generation_lasts() {
        let fixture = Fixture::new();
        let start = 1000 * HOUR;
        let token = Token::from("a");
        assert!(fixture.first(&token, start).expect("run"));
        for later in [1, HOUR - 1, HOUR, HOUR + 1, 2 * HOUR - 1] {
            assert!(!fixture.first(&token, start + later).expect("answered"), "{later}");
        }
        assert_eq!(fixture.known(), [1, 2]);
        // Without a time of its own it is a new one then.
        assert!(fixture.first(&token, start + 2 * HOUR + 1).expect("run"));
        assert_eq!(fixture.known(), [2, 3]);
        // The same as the next opening sees it.
        let generations = Fixture::load(&fixture.client);
        let fixture = Fixture { generations, ..fixture };
        assert!(!fixture.first(&token, start + 2 * HOUR + 2).expect("answered"));
    }

    /// Uses tokens of all kinds twice, and once more after the next opening. Returns how often one was new.
    fn uses(fixture: Fixture) -> usize {
        let start = 1000 * HOUR;
        let ids = [2, 3, 1].map(|hours| id_of(hours * HOUR));
        let uuids = [2, 3, 1].map(|hours| uuid_of(start + hours));
        let tokens: Vec<Token> =
            ids.into_iter().chain(uuids).chain(["b".into(), "c".into(), "a".into()]).collect();
        let new = |fixture: &Fixture, now: u64| {
            tokens.iter().filter(|token| fixture.first(token, now).expect("run")).count()
        };
        let found = new(&fixture, start) + new(&fixture, start);
        let generations = Fixture::load(&fixture.client);
        let fixture = Fixture { generations, ..fixture };
        found + new(&fixture, start) + new(&fixture, start + HOUR)
    }

    #[test]
    fn tokens_of_any_kind_and_order_are_new_once() {
        assert_eq!(uses(Fixture::new()), 9);
    }

    #[test]
    fn planted_tokens_that_are_not_entered_are_found() {
        assert!(uses(Fixture::with_fault(PlantedFault::TokensNotEntered)) > 9);
    }

    #[test]
    fn planted_generations_that_are_dropped_early_are_found() {
        let fixture = Fixture::with_fault(PlantedFault::GenerationsDroppedEarly);
        let start = 1000 * HOUR;
        assert!(fixture.first(&"a".into(), start).expect("run"));
        assert!(fixture.first(&"a".into(), start + HOUR).expect("run"), "it was forgotten");
    }

    #[test]
    fn a_token_that_tells_its_time_is_never_run_after_it_was_forgotten() {
        let fixture = Fixture::new();
        let start = 1000 * HOUR;
        // Nothing was ever forgotten.
        assert!(fixture.first(&id_of(1000), start).expect("run"));
        assert!(fixture.first(&uuid_of(start), start).expect("run"));
        fixture.first(&"other".into(), start + HOUR).expect("run");
        fixture.first(&"other".into(), start + 2 * HOUR).expect("run");
        assert_eq!(fixture.known(), [2, 3]);
        for token in [id_of(1000), uuid_of(start), uuid_of(start + HOUR), uuid_of(start + HOUR + 299_999)] {
            let refused = fixture.first(&token, start + 2 * HOUR).expect_err("too old");
            assert_eq!(refused.code(), Some(225), "{refused}");
        }
        for token in [uuid_of(start + HOUR + 300_000), id_of(start + 2 * HOUR)] {
            assert!(fixture.first(&token, start + 2 * HOUR).expect("run"));
        }
    }

    /// Two generations later, by a clock that goes back then: what was remembered since is later than any token of today.
    #[test]
    fn every_kind_of_call_with_a_token_that_is_too_old_is_refused() {
        let client = Client::builder().in_memory(true).open("").expect("opened");
        let things = client.database("test").collection::<Document>("things");
        let insert = |id: i32, token: Token| things.insert_one(doc! { "_id": id }).exactly_once(token).run();
        insert(1, client.token()).expect("stored");
        let shared = client.shared();
        for days in [2, 4] {
            let database = shared.store.enter().expect("open");
            let (storage, later) = (shared.storage(&database), now_millis() + days * 24 * HOUR);
            shared.tokens.prepare_at(storage, &OperationContext::unlimited(), later).expect("turned");
        }
        let by_command = |token: Bson| {
            let command =
                doc! { "delete": "things", "deletes": [{ "q": {}, "limit": 0 }], "exactlyOnce": token };
            client.database("test").run_command(command).run().map(drop)
        };
        let in_transaction = || {
            let mut session = client.start_session().run()?;
            let transaction = session.start_transaction().exactly_once(client.token());
            transaction.and_run(|session| things.delete_many(doc! {}).session(&mut *session).run().map(drop))
        };
        let refused = [
            insert(2, client.token()).map(drop),
            things.insert_many([doc! {}]).exactly_once(client.token()).run().map(drop),
            things
                .update_one(doc! {}, doc! { "$set": { "a": 1 } })
                .exactly_once(client.token())
                .run()
                .map(drop),
            things
                .update_many(doc! {}, doc! { "$set": { "a": 1 } })
                .exactly_once(client.token())
                .run()
                .map(drop),
            things.delete_one(doc! {}).exactly_once(client.token()).run().map(drop),
            things.find_one_and_delete(doc! {}).exactly_once(client.token()).run().map(drop),
            by_command(ObjectId::new().into()),
            in_transaction(),
        ];
        for (call, done) in refused.into_iter().enumerate() {
            let error = done.expect_err("too old");
            assert_eq!(error.code(), Some(225), "call {call}: {error}");
        }
        let all = || things.find(doc! {}).run().and_then(Iterator::collect::<Result<Vec<_>>>).expect("read");
        assert_eq!(all(), [doc! { "_id": 1 }]);
        // One that does not tell its time runs.
        insert(3, "three".into()).expect("stored");
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nothing() {
        let fixture = Fixture::new();
        let start = 1000 * HOUR;
        assert!(fixture.first(&"a".into(), start).expect("run"));
        assert!(!fixture.first(&"a".into(), 0).expect("answered"));
        // One that goes forward begins one generation, and not several.
        assert!(!fixture.first(&"a".into(), start + 900 * HOUR).expect("answered"));
        assert_eq!(fixture.known(), [1, 2]);
    }

    #[test]
    fn a_turn_between_look_up_and_commit_is_noticed() {
        let fixture = Fixture::new();
        let start = 1000 * HOUR;
        let token = Token::from("a");
        fixture.first(&"other".into(), start).expect("run");
        let seen =
            fixture.with(|storage| fixture.generations.look_up(storage.database, &token)).expect("looked up");
        assert_eq!(seen, (None, 1));
        // Another call has it in the first generation, and the second one begins.
        assert!(fixture.first(&token, start).expect("run"));
        fixture.first(&"other".into(), start + HOUR).expect("run");
        let found = fixture.with(|storage| {
            let write_apart = |_: Batch<'_>| Ok(());
            let value = RowWriter::new(&[0; 16]).finish(0);
            let row = NewRow { token: &token, value, seen: 1, write_apart: &write_apart };
            let write = |_: Batch<'_>| Err(Error::invalid_argument("nothing may be written"));
            fixture.generations.commit(Batch::new(storage.database), &row, write)
        });
        assert!(found.expect("answered").is_some());
    }

    #[test]
    fn above_the_limit_of_bytes_nothing_is_written_and_a_new_generation_makes_room() {
        let fixture = Fixture::new();
        let start = 1000 * HOUR;
        let generations = Generations {
            limits: TokenLimits { bytes_max: 200, ..fixture.generations.limits },
            ..fixture.generations
        };
        let fixture = Fixture { generations, ..fixture };
        let mut stored = 0;
        let refused = loop {
            match fixture.first(&format!("token {stored}").as_str().into(), start) {
                Ok(is_first) => stored += u32::from(is_first),
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused.code(), stored), (Some(146), 4), "{refused}");
        let (_, bytes) = fixture.generations.measured();
        // They are counted again by the next opening.
        let again = Fixture::load(&fixture.client);
        let token = CancellationToken::new();
        token.cancel();
        let ended = OperationContext::new(Allowance { tokens: vec![token], ..Allowance::default() });
        // Some at a time, and one that gives up leaves the rest to the next.
        let unlimited = OperationContext::unlimited();
        assert!(!fixture.with(|storage| again.count_some(storage.database, &unlimited)).expect("counted"));
        fixture.with(|storage| again.prepare_at(storage, &ended, start)).expect_err("cancelled");
        let counted = again.measured().1;
        assert!(0 < counted && counted < bytes);
        fixture.with(|storage| again.prepare_at(storage, &unlimited, start)).expect("counted");
        assert_eq!(again.measured(), (0, bytes));
        for later in [HOUR, 2 * HOUR] {
            fixture
                .with(|storage| {
                    fixture.generations.prepare_at(storage, &OperationContext::unlimited(), start + later)
                })
                .expect("begun");
        }
        assert!(fixture.first(&"a".into(), start + 2 * HOUR).expect("run"));
    }
}
