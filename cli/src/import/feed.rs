//! Records on their way to the store: one thread reads and splits, several parse, and what they made comes out in the
//! order of the file.
//!
//! What is under way is limited by bytes, so that neither a quick reader nor a slow store fills the memory. A thread that
//! cannot go on because nothing reads its work ends; none is waited for, as one may be reading from a terminal.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use cairndb::bson::RawDocument;
use formats::columns::Columns;
use formats::format::FileFormat;
use formats::large::LargeIntegers;
use formats::parse::Parser;
use formats::refusal::{Fault, Refusal};
use formats::split::{Chunk, Record, Splitter};

use crate::compressed::Stream;
use crate::failure::{Exit, Failure};
use crate::import::identity::Identity;
use crate::interruptible::is_by_signal;

/// Bytes that are split and not yet passed on. One chunk that is larger goes alone.
const UNDER_WAY_BYTES: usize = 8 << 20;
/// More threads than this do not help one that commits.
const PARSERS_MAX: usize = 4;
/// Deeply nested documents are parsed by recursion.
const STACK_BYTES: usize = 16 << 20;
/// The interval in which a wait checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// The processing of records.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) format: FileFormat,
    /// The separator of a table's cells.
    pub(super) delimiter: u8,
    /// Of a table.
    pub(super) columns: Option<Arc<Columns>>,
    /// Of integers in JSON that 64 bits do not hold.
    pub(super) large_integers: LargeIntegers,
    /// Of a missing `_id`, if it is made here and not by the store.
    pub(super) identity: Option<Identity>,
    /// Records up to this offset are passed over.
    pub(super) skipped: u64,
}

/// Records that were parsed.
#[derive(Default)]
pub(super) struct Parsed {
    chunk: Chunk,
    documents: Vec<u8>,
    outcomes: Vec<Result<Range<usize>, Refusal>>,
}

impl Parsed {
    pub(super) fn len(&self) -> usize {
        self.outcomes.len()
    }

    pub(super) fn record(&self, at: usize) -> Option<&Record> {
        self.chunk.records.get(at)
    }

    /// The record as it is in the file, or its beginning.
    pub(super) fn text(&self, at: usize) -> &[u8] {
        self.record(at).map(|record| self.chunk.content(record)).unwrap_or_default()
    }

    /// The document of a record, or why there is none.
    pub(super) fn document(&self, at: usize) -> Result<&RawDocument, Refusal> {
        let unknown = || Refusal { fault: Fault::NotParsed, reason: "there is no such record".to_owned() };
        let range = self.outcomes.get(at).cloned().unwrap_or_else(|| Err(unknown()))?;
        let bytes = self.documents.get(range).unwrap_or_default();
        RawDocument::from_bytes(bytes)
            .map_err(|error| Refusal { fault: Fault::NotParsed, reason: error.to_string() })
    }
}

/// The part of an input that was read before its records go to the store, and the error that ended the reading.
#[derive(Default)]
pub(super) struct ReadAhead {
    chunks: VecDeque<Chunk>,
    failed: Option<std::io::Error>,
}

impl ReadAhead {
    /// Reads chunks until `is_enough` says so of one, or the input ends.
    pub(super) fn read(
        &mut self,
        splitter: &mut Splitter<Stream>,
        mut is_enough: impl FnMut(&Chunk) -> bool,
    ) {
        while self.failed.is_none() {
            match splitter.next_chunk() {
                Ok(None) => return,
                Ok(Some(chunk)) => {
                    let is_last = is_enough(&chunk);
                    self.chunks.push_back(chunk);
                    if is_last {
                        return;
                    }
                }
                // The part before it is stored first.
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// Puts back a chunk that was removed.
    pub(super) fn put_back(&mut self, chunk: Chunk) {
        self.chunks.push_front(chunk);
    }

    /// The chunks that were read and not yet removed.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter()
    }

    fn next_chunk(&mut self, splitter: &mut Splitter<Stream>) -> std::io::Result<Option<Chunk>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Ok(Some(chunk));
        }
        self.failed.take().map_or_else(|| splitter.next_chunk(), Err)
    }
}

/// The next value.
pub(super) enum Next {
    Parsed(Parsed),
    /// Nothing yet.
    Wait,
    End,
    /// A signal has ended the wait for more. What had come is parsed, but for a record that was not whole.
    Interrupted,
    /// The input cannot be read on. What had come is parsed, but for a record that was not whole.
    Failed(std::io::Error),
}

/// The records of one input, in their order.
pub(super) struct Feed {
    queue: Receiver<Promise>,
    waiting: Option<Receiver<Parsed>>,
    budget: Arc<Budget>,
}

/// The announcement of the reader: records that will be parsed, or the error that ended it.
enum Promise {
    Parsed(Receiver<Parsed>),
    Failed(std::io::Error),
}

struct Work {
    chunk: Chunk,
    reply: SyncSender<Parsed>,
}

impl Feed {
    /// Starts the threads. `first` is what was read already.
    pub(super) fn start(
        splitter: Splitter<Stream>,
        first: ReadAhead,
        recipe: &Recipe,
    ) -> Result<Self, Failure> {
        let parsers = std::thread::available_parallelism().map_or(1, usize::from).min(PARSERS_MAX);
        let (work, works) = channel();
        let works = Arc::new(Mutex::new(works));
        let failed = |error| Failure::io("threads cannot be started", &error);
        for _ in 0..parsers {
            let (works, recipe) = (Arc::clone(&works), recipe.clone());
            std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(move || parse_all(&works, &recipe))
                .map_err(failed)?;
        }
        // Small, because what is in it is promised and not there yet.
        let (promise, queue) = sync_channel(2 * parsers);
        let budget = Arc::new(Budget::default());
        let reader =
            Reader { splitter, first, work, promise, budget: Arc::clone(&budget), skipped: recipe.skipped };
        std::thread::Builder::new().spawn(move || reader.read_all()).map_err(failed)?;
        Ok(Self { queue, waiting: None, budget })
    }

    /// Waits a little for the next records.
    pub(super) fn next(&mut self) -> Result<Next, Failure> {
        let broken = || Failure::new(Exit::Failed, "a thread that reads the input ended");
        if self.waiting.is_none() {
            match self.queue.recv_timeout(LOOK) {
                Ok(Promise::Parsed(promised)) => self.waiting = Some(promised),
                Ok(Promise::Failed(error)) if is_by_signal(&error) => return Ok(Next::Interrupted),
                Ok(Promise::Failed(error)) => return Ok(Next::Failed(error)),
                Err(RecvTimeoutError::Timeout) => return Ok(Next::Wait),
                Err(RecvTimeoutError::Disconnected) => return Ok(Next::End),
            }
        }
        let Some(promised) = &self.waiting else { return Ok(Next::Wait) };
        match promised.recv_timeout(LOOK) {
            Ok(parsed) => {
                self.waiting = None;
                self.budget.release();
                Ok(Next::Parsed(parsed))
            }
            Err(RecvTimeoutError::Timeout) => Ok(Next::Wait),
            Err(RecvTimeoutError::Disconnected) => Err(broken()),
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // A reader that waits for room would wait for ever.
        self.budget.close();
    }
}

struct Reader {
    splitter: Splitter<Stream>,
    first: ReadAhead,
    work: Sender<Work>,
    promise: SyncSender<Promise>,
    budget: Arc<Budget>,
    skipped: u64,
}

impl Reader {
    fn read_all(mut self) {
        loop {
            let mut chunk = match self.first.next_chunk(&mut self.splitter) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return,
                Err(error) => {
                    // If nothing reads it, nothing wants to know.
                    let _ = self.promise.send(Promise::Failed(error));
                    return;
                }
            };
            // The stream is split again from its beginning, so that lines and numbers are those of the first time.
            chunk.records.retain(|record| record.end > self.skipped);
            if chunk.records.is_empty() {
                continue;
            }
            if !self.budget.take(chunk.bytes()) {
                return;
            }
            let (reply, promised) = sync_channel(1);
            // Promised first: the order of promises is the order of the file.
            if self.promise.send(Promise::Parsed(promised)).is_err()
                || self.work.send(Work { chunk, reply }).is_err()
            {
                return;
            }
        }
    }
}

fn parse_all(works: &Mutex<Receiver<Work>>, recipe: &Recipe) {
    let mut parser = match (recipe.format, &recipe.columns) {
        (FileFormat::Csv | FileFormat::Tsv, Some(columns)) => {
            Parser::delimited(recipe.delimiter, Arc::clone(columns))
        }
        (FileFormat::Bson, _) => Parser::bson(),
        (FileFormat::Lines | FileFormat::Json | FileFormat::Csv | FileFormat::Tsv, _) => {
            Parser::json().with_large_integers(recipe.large_integers).with_old_patterns()
        }
    };
    loop {
        // Held while it waits: the others wait for the lock instead, and each gets one.
        let next = works.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Work { chunk, reply }) = next else { return };
        // The command may have ended meanwhile.
        let _ = reply.send(parsed(chunk, &mut parser, recipe.identity.as_ref()));
    }
}

fn parsed(mut chunk: Chunk, parser: &mut Parser, identity: Option<&Identity>) -> Parsed {
    let mut documents = Vec::with_capacity(chunk.bytes());
    let mut outcomes = Vec::with_capacity(chunk.records.len());
    for record in &chunk.records {
        let start = documents.len();
        let outcome = match record.problem {
            Some(problem) => Err(problem.refusal()),
            None => parser.parse(chunk.content(record), &mut documents),
        };
        outcomes.push(outcome.map(|()| {
            if let Some(identity) = identity {
                identity.complete(&mut documents, start, record.number);
            }
            start..documents.len()
        }));
    }
    documents.shrink_to_fit();
    // Of a long record only its beginning can still be asked for.
    chunk.forget_long();
    Parsed { chunk, documents, outcomes }
}

/// The bytes that may be under way.
#[derive(Default)]
struct Budget {
    state: Mutex<Taken>,
    changed: Condvar,
}

#[derive(Default)]
struct Taken {
    bytes: usize,
    /// In the order in which they were added, which is that in which they are given back.
    each: VecDeque<usize>,
    is_closed: bool,
}

impl Budget {
    /// Waits for room. Returns whether anything still wants it.
    fn take(&self, bytes: usize) -> bool {
        let mut taken = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !taken.is_closed && taken.bytes > 0 && taken.bytes + bytes > UNDER_WAY_BYTES {
            taken = self.changed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        taken.bytes += bytes;
        taken.each.push_back(bytes);
        !taken.is_closed
    }

    fn release(&self) {
        let mut taken = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = taken.each.pop_front().unwrap_or_default();
        taken.bytes -= bytes;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.changed.notify_all();
    }
}
