//! A history: sessions and plain calls in turns on one store, each answer compared with the model's.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{
    Client, ClientSession, Collection, IndexModel, IndexOptions, PlantedFault, ReadConcern, SessionCursor,
};
use cairndb_tests::choices::Choices;
use cairndb_tests::scratch::{Scratch, in_memory, small};

use crate::model::sessions::model::{Model, NO_TRANSACTION};
use crate::model::sessions::statement::{
    Answer, CHANGING, Filter, INDEXED, Search, Statement, WILD, code_of, perform,
};

/// The sessions of a history.
const SESSIONS_MIN: usize = 2;
const SESSIONS_MAX: usize = 4;
const CURSORS_MAX: usize = 3;
/// One history in this number has transactions that outlive their time, which needs more than a second.
const SLOW_HISTORIES: u64 = 80;
/// Of so many operations there, one waits until the time of all is over.
const EXPIRES_AT: u64 = 120;
/// The time that a transaction lives there.
const LIFETIME: Duration = Duration::from_secs(2);
/// After this time all that are open are let expire: none of them may do so by chance.
const LIFETIME_USED: Duration = Duration::from_millis(500);
/// The time that may pass until an expired one is ended.
const PATIENCE: Duration = Duration::from_secs(30);
const CURSOR_NOT_FOUND: i32 = 43;
const OPERATIONS_PER_CHECK: usize = 40;

/// The counts of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) committed: u64,
    pub(crate) conflicts: u64,
    pub(crate) duplicates: u64,
    /// Statements and commits that came after a change of their collection.
    pub(crate) changed: u64,
    pub(crate) expired: u64,
    /// Transactions that were open when the store was closed.
    pub(crate) closed: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.committed += other.committed;
        self.conflicts += other.conflicts;
        self.duplicates += other.duplicates;
        self.changed += other.changed;
        self.expired += other.expired;
        self.closed += other.closed;
    }

    fn count(&mut self, code: i32) {
        match code {
            112 => self.conflicts += 1,
            246 => self.changed += 1,
            11000 => self.duplicates += 1,
            _ => {}
        }
    }
}

/// Does so many operations. Fails where engine and model disagree, and says what was done until then.
pub(crate) fn run(mut choices: Choices, operations: usize, fault: PlantedFault) -> Result<Tally, String> {
    let scratch = Scratch::new();
    let is_slow = choices.one_in(SLOW_HISTORIES);
    let mut run = Run::start(&scratch, choices, is_slow, fault);
    let mut done = Ok(());
    for number in 0..operations {
        done = run.step();
        if done.is_ok() && number % OPERATIONS_PER_CHECK == 0 {
            done = run.check_documents();
        }
        if done.is_err() {
            break;
        }
    }
    done.and_then(|()| run.finish()).map(|()| run.tally).map_err(|found| {
        let mut text = found;
        for (number, step) in run.trail.iter().enumerate() {
            let _ = write!(text, "\n{number}: {step}");
        }
        text
    })
}

struct Run<'a> {
    scratch: &'a Scratch,
    choices: Choices,
    is_slow: bool,
    fault: PlantedFault,
    /// Absent only while the folder is opened again.
    client: Option<Client>,
    handles: Vec<(&'static str, Collection<Document>)>,
    sessions: Vec<ClientSession>,
    /// The time at which the oldest open transaction of each session had its first statement.
    begun: Vec<Option<Instant>>,
    cursors: Vec<OpenCursor>,
    model: Model,
    has_index: bool,
    trail: Vec<String>,
    tally: Tally,
}

struct OpenCursor {
    session: usize,
    /// Which of the session's transactions it is of.
    transaction: u64,
    cursor: SessionCursor<Document>,
    rest: std::vec::IntoIter<Document>,
}

impl<'a> Run<'a> {
    fn start(scratch: &'a Scratch, mut choices: Choices, is_slow: bool, fault: PlantedFault) -> Self {
        let sessions = SESSIONS_MIN + choices.index(SESSIONS_MAX - SESSIONS_MIN + 1);
        let mut run = Self {
            scratch,
            choices,
            is_slow,
            fault,
            client: None,
            handles: Vec::new(),
            sessions: Vec::new(),
            begun: vec![None; sessions],
            cursors: Vec::new(),
            model: Model::new(),
            has_index: false,
            trail: Vec::new(),
            tally: Tally::default(),
        };
        run.open();
        for at in [INDEXED, WILD] {
            run.model.make(at);
        }
        let index =
            |keys: Document, options: IndexOptions| IndexModel::builder().keys(keys).options(options).build();
        let plain = IndexOptions::default;
        let unique = IndexOptions::builder().unique(true).sparse(true).build();
        let partial = IndexOptions::builder().partial_filter_expression(doc! { "k": { "$gte": 2 } }).build();
        let indexed = [
            index(doc! { "k": 1, "_id": 1 }, plain()),
            index(doc! { "tags": 1 }, plain()),
            index(doc! { "u": 1 }, unique),
        ];
        run.handle(INDEXED).create_indexes(indexed).run().expect("made");
        let wild = [index(doc! { "$**": 1 }, plain()), index(doc! { "k": 1 }, partial)];
        run.handle(WILD).create_indexes(wild).run().expect("made");
        run
    }

    fn open(&mut self) {
        let options = small().planted_fault(self.fault);
        let options = if self.is_slow { options.transaction_lifetime(LIFETIME) } else { options };
        let client = self.scratch.open_with(options);
        let sessions = self.begun.len();
        self.sessions = (0..sessions).map(|_| client.start_session().run().expect("started")).collect();
        self.client = Some(client);
    }

    fn step(&mut self) -> Result<(), String> {
        self.tally.operations += 1;
        let is_used = |begun: &Option<Instant>| begun.is_some_and(|begun| begun.elapsed() > LIFETIME_USED);
        let mut begun = self.begun.iter().enumerate();
        let is_due = self.tally.operations.is_multiple_of(EXPIRES_AT)
            || begun.any(|(session, begun)| is_used(begun) && self.model.is_open(session));
        if self.is_slow && is_due {
            return self.expire();
        }
        match self.choices.below(100) {
            0..20 => self.plain(),
            20..22 => self.change_definition(),
            22..26 => self.open_cursor(),
            26..34 => self.advance_cursor(),
            34 if self.choices.one_in(3) && !in_memory() => self.reopen(),
            _ => self.act(),
        }
    }

    /// The next step of a session.
    fn act(&mut self) -> Result<(), String> {
        let session = self.choices.index(self.sessions.len());
        if !self.model.is_in_transaction(session) {
            return self.start_transaction(session);
        }
        match self.choices.below(9) {
            0 => self.commit(session),
            1 if self.choices.one_in(3) => self.abort(session),
            _ => self.statement(session),
        }
    }

    fn start_transaction(&mut self, session: usize) -> Result<(), String> {
        let is_serializable = self.choices.one_in(3);
        self.trail.push(format!("{session} starts, serializable: {is_serializable}"));
        let start = self.session(session).start_transaction();
        let started =
            if is_serializable { start.read_concern(ReadConcern::serializable()).run() } else { start.run() };
        started.map_err(|error| format!("does not start: {error:?}"))?;
        self.model.start(session, is_serializable);
        self.begun.splice(session..=session, [None]);
        Ok(())
    }

    fn statement(&mut self, session: usize) -> Result<(), String> {
        let (at, statement) = (self.place(), Statement::choose(&mut self.choices));
        self.trail.push(format!("{session} {at}: {statement:?}"));
        let begun = Instant::now();
        let handle = self.handle(at);
        let done = perform(&handle, &statement, Some(self.session(session)));
        self.begin(session, begun);
        let code = done.as_ref().err().map(code_of);
        let expected = self.model.statement(session, at, &statement, code);
        self.agree(done, expected)
    }

    fn plain(&mut self) -> Result<(), String> {
        let (at, statement) = (self.place(), Statement::choose(&mut self.choices));
        // A session without a transaction changes nothing.
        let session = self.choices.index(self.sessions.len());
        let is_within = self.choices.one_in(4) && !self.model.is_in_transaction(session);
        self.trail.push(format!("plain {at}: {statement:?}"));
        let handle = self.handle(at);
        let done = perform(&handle, &statement, self.sessions.get_mut(session).filter(|_| is_within));
        let expected = self.model.plain(at, &statement);
        self.agree(done, expected)
    }

    fn change_definition(&mut self) -> Result<(), String> {
        let handle = self.handle(CHANGING);
        let is_there = self.model.stored.of(CHANGING).number.is_some();
        let keys = doc! { "k": 1, "_id": 1 };
        let done = match self.choices.below(3) {
            0 if is_there => {
                self.trail.push("drops".to_owned());
                self.model.drop_collection(CHANGING);
                self.has_index = false;
                handle.drop().run()
            }
            1 if is_there => {
                self.trail.push("truncates".to_owned());
                self.model.truncate(CHANGING);
                handle.truncate().run().map(|_| ())
            }
            _ if is_there && self.has_index => {
                self.trail.push("drops an index".to_owned());
                self.model.change_definition(CHANGING);
                self.has_index = false;
                handle.drop_index("k_1__id_1").run()
            }
            _ => {
                self.trail.push("makes an index".to_owned());
                self.model.make(CHANGING);
                self.model.change_definition(CHANGING);
                self.has_index = true;
                handle.create_index(IndexModel::builder().keys(keys).build()).run().map(|_| ())
            }
        };
        done.map_err(|error| format!("the definition was not changed: {error:?}"))
    }

    fn commit(&mut self, session: usize) -> Result<(), String> {
        self.trail.push(format!("{session} commits"));
        let made_before = self.model.stored.of(CHANGING).number;
        let done = self.session(session).commit_transaction().run();
        let code = done.as_ref().err().map(code_of);
        let expected = self.model.commit(session, code);
        if self.model.stored.of(CHANGING).number != made_before {
            self.has_index = false;
        }
        self.tally.committed += u64::from(done.is_ok());
        self.begun.splice(session..=session, [None]);
        self.agree(done, expected)
    }

    fn abort(&mut self, session: usize) -> Result<(), String> {
        self.trail.push(format!("{session} aborts"));
        self.model.abort(session);
        self.begun.splice(session..=session, [None]);
        self.session(session).abort_transaction().run().map_err(|error| format!("does not abort: {error:?}"))
    }

    fn open_cursor(&mut self) -> Result<(), String> {
        let session = self.choices.index(self.sessions.len());
        let (at, search) = (self.place(), Search::choose(&mut self.choices));
        if !self.model.is_in_transaction(session) || self.cursors.len() >= CURSORS_MAX {
            return Ok(());
        }
        self.trail.push(format!("{session} {at}: a cursor of {search:?}"));
        let begun = Instant::now();
        let handle = self.handle(at);
        let opened = search.open(&handle, self.session(session));
        self.begin(session, begun);
        let code = opened.as_ref().err().map(code_of);
        let expected = self.model.open_cursor(session, at, &search, code);
        match (opened, expected) {
            (Ok(cursor), Ok(Answer::Documents(found))) => {
                let rest = found.into_iter();
                let transaction = self.model.number_of(session);
                self.cursors.push(OpenCursor { session, transaction, cursor, rest });
                Ok(())
            }
            (Err(error), expected) => self.agree(Err(error), expected),
            (Ok(_), expected) => Err(format!("a cursor was opened, and the model says {expected:?}")),
        }
    }

    /// A cursor shows what its transaction had staged when it was opened, and nothing after the transaction's end.
    fn advance_cursor(&mut self) -> Result<(), String> {
        if self.cursors.is_empty() {
            return Ok(());
        }
        let position = self.choices.index(self.cursors.len());
        let times = 1 + self.choices.index(4);
        let mut open = self.cursors.swap_remove(position);
        self.trail.push(format!("{} reads {times} of a cursor", open.session));
        let is_open =
            self.model.is_open(open.session) && self.model.number_of(open.session) == open.transaction;
        for _ in 0..times {
            let found = open.cursor.next(self.session(open.session));
            let found = found.map(|found| found.map_err(|error| code_of(&error)));
            let expected = if is_open { open.rest.next().map(Ok) } else { Some(Err(CURSOR_NOT_FOUND)) };
            if found != expected {
                return Err(format!("a cursor showed {found:?}, and the model says {expected:?}"));
            }
            if !is_open || found.is_none() {
                return Ok(());
            }
        }
        self.cursors.push(open);
        Ok(())
    }

    /// Waits until the time of all open transactions is over.
    fn expire(&mut self) -> Result<(), String> {
        let open: Vec<usize> =
            (0..self.sessions.len()).filter(|session| self.model.is_open(*session)).collect();
        self.trail.push(format!("the time of {open:?} passes"));
        let until = open.iter().filter_map(|session| *self.begun.get(*session)?).max();
        let handle = self.handle(WILD);
        if let Some(until) = until {
            thread::park_timeout((until + LIFETIME).saturating_duration_since(Instant::now()));
        }
        for session in open {
            let asked = Instant::now();
            let read = || Statement::FindOne(Filter::All);
            let code = loop {
                match perform(&handle, &read(), Some(self.session(session))) {
                    Err(error) => break code_of(&error),
                    Ok(_) if asked.elapsed() > PATIENCE => return Err(format!("{session} does not expire")),
                    Ok(_) => thread::yield_now(),
                }
            };
            if code != NO_TRANSACTION && code != 290 {
                return Err(format!("{session} expired, with {code}"));
            }
            self.model.end(session);
            self.begun.splice(session..=session, [None]);
            self.tally.expired += 1;
        }
        Ok(())
    }

    /// Closes the store while transactions are open, and opens it again.
    fn reopen(&mut self) -> Result<(), String> {
        self.trail.push("reopens".to_owned());
        self.verify()?;
        self.cursors.clear();
        let client = self.client.take().expect("open between operations");
        client.close().map_err(|error| format!("does not close: {error:?}"))?;
        for session in 0..self.sessions.len() {
            if self.model.is_open(session) {
                self.tally.closed += 1;
                let refused = self.session(session).commit_transaction().run();
                if refused.is_ok() {
                    return Err(format!("{session} commits after the store was closed"));
                }
            }
            self.model.abort(session);
        }
        self.begun.fill(None);
        self.handles.clear();
        self.sessions.clear();
        self.open();
        self.check_documents()
    }

    fn finish(&mut self) -> Result<(), String> {
        if in_memory() { self.verify() } else { self.reopen() }
    }

    fn verify(&mut self) -> Result<(), String> {
        self.check_documents()?;
        let report = self.client().verify().map_err(|error| format!("not verified: {error:?}"))?;
        if report.is_clean() { Ok(()) } else { Err(format!("verify found {:?}", report.findings)) }
    }

    fn check_documents(&self) -> Result<(), String> {
        for at in [INDEXED, WILD, CHANGING] {
            let handle = self.client().database("model").collection::<Document>(at);
            let failed = |error| format!("{at} is not read: {error:?}");
            let found = handle.find(doc! {}).sort(doc! { "_id": 1 }).run().map_err(failed)?;
            let found: Vec<Document> = found.collect::<cairndb::Result<_>>().map_err(failed)?;
            let expected: Vec<&Document> = self.model.stored.of(at).documents.values().collect();
            let counted = handle.estimated_document_count().run().map_err(failed)?;
            if !found.iter().eq(expected.iter().copied()) || counted != found.len() as u64 {
                return Err(format!("{at} has {counted} documents: {found:?}, and not {expected:?}"));
            }
        }
        Ok(())
    }

    fn place(&mut self) -> &'static str {
        let place: &&'static str = self.choices.pick(&[INDEXED, INDEXED, WILD, CHANGING]);
        place
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("open between operations")
    }

    /// A new handle, or one that has seen the collection before.
    fn handle(&mut self, at: &'static str) -> Collection<Document> {
        let known = self.handles.iter().find(|(name, _)| *name == at).map(|(_, handle)| handle.clone());
        if let Some(handle) = known
            && !self.trail.len().is_multiple_of(3)
        {
            return handle;
        }
        let handle = self.client().database("model").collection(at);
        self.handles.retain(|(name, _)| *name != at);
        self.handles.push((at, handle.clone()));
        handle
    }

    fn session(&mut self, session: usize) -> &mut ClientSession {
        self.sessions.get_mut(session).expect("one of the sessions")
    }

    /// The first statement of a transaction begins its time.
    fn begin(&mut self, session: usize, at: Instant) {
        if let Some(begun) = self.begun.get_mut(session) {
            begun.get_or_insert(at);
        }
    }

    fn agree<A: PartialEq + std::fmt::Debug>(
        &mut self,
        done: cairndb::Result<A>,
        expected: Result<A, i32>,
    ) -> Result<(), String> {
        let done = done.map_err(|error| (code_of(&error), error));
        if let Some(step) = self.trail.last_mut() {
            let _ = match &done {
                Ok(answer) => write!(step, " -> {answer:?}"),
                Err((code, _)) => write!(step, " -> {code}"),
            };
        }
        match (done, expected) {
            (Ok(done), Ok(expected)) if done == expected => Ok(()),
            (Err((code, _)), Err(expected)) if code == expected => {
                self.tally.count(code);
                Ok(())
            }
            (done, expected) => Err(format!("the engine says {done:?}, and the model {expected:?}")),
        }
    }
}
