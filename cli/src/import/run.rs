//! The import itself: records in the order of the files, committed batch by batch, refused ones written where the user
//! can repair them.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairndb::bson::RawDocument;
use query::code::Code;

use crate::failure::{Exit, Failure};
use crate::format::Format;
use crate::import::batch::{Batch, Line, code_of};
use crate::import::columns::{TableRecipe, TableStart};
use crate::import::feed::{Feed, Next, Recipe};
use crate::import::input::{Input, Source};
use crate::import::options::Arguments;
use crate::import::rejects::{Reason, Rejects};
use crate::import::write::{Done, Level, Mode, Refused, Target, drop_collection, truncate};
use crate::signals::Signals;
use crate::store::{Store, open_for_writing};
use crate::talk::{Progress, Unit, warn};

/// What became of the records.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) read: u64,
    pub(super) inserted: u64,
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: u64,
    pub(super) deleted: u64,
    pub(super) already_there: u64,
    pub(super) skipped: u64,
    pub(super) rejected: u64,
    pub(super) bytes: u64,
}

impl Counts {
    /// As the report has them.
    pub(super) fn list(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("read", self.read),
            ("inserted", self.inserted),
            ("matched", self.matched),
            ("modified", self.modified),
            ("upserted", self.upserted),
            ("deleted", self.deleted),
            ("alreadyThere", self.already_there),
            ("skipped", self.skipped),
            ("rejected", self.rejected),
            ("bytes", self.bytes),
        ]
    }

    /// For people: what is not zero.
    pub(super) fn told(&self) -> String {
        let mut told = format!("read {} records", self.read);
        for (name, count) in self.list().into_iter().skip(1).filter(|(_, count)| *count > 0) {
            let name = if name == "alreadyThere" { "already there" } else { name };
            told = format!("{told}, {count} {name}");
        }
        told
    }

    fn add(&mut self, done: &Done) {
        self.inserted += done.inserted;
        self.matched += done.matched;
        self.modified += done.modified;
        self.upserted += done.upserted;
        self.deleted += done.deleted;
    }
}

/// Whether the import goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    /// There were more rejects than are allowed.
    Stop,
    /// A signal was received.
    Interrupted,
}

/// An import under way.
pub(super) struct Importer<'a> {
    arguments: &'a Arguments,
    pub(super) rejects: Rejects,
    pub(super) counts: Counts,
    /// The name and the line of the last record.
    last: Option<(String, u64)>,
    /// Whether something was written that may not be on stable storage.
    is_unsynced: bool,
}

/// An input that is open, with its columns.
struct Ready {
    source: Source,
    table: TableStart,
}

/// What all inputs of an import share.
struct Work<'a> {
    target: &'a Target,
    /// `None` of a dry run.
    store: Option<&'a dyn Store>,
    signals: &'a Signals,
    progress: &'a mut Progress,
}

impl<'a> Importer<'a> {
    pub(super) fn new(arguments: &'a Arguments, rejects: Rejects) -> Self {
        Self { arguments, rejects, counts: Counts::default(), last: None, is_unsynced: false }
    }

    /// Gives the file of rejects its name.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.rejects.finish()
    }

    /// The failure with what was done before it.
    pub(super) fn told(&self, mut failure: Failure) -> Failure {
        if self.counts.read > 0 {
            failure.message = format!("{}: {}", failure.message, self.counts.told());
        }
        if let Some((_, line)) = &self.last {
            failure.line = Some(*line);
        }
        failure
    }

    /// Imports the inputs one after the other.
    pub(super) fn run(
        &mut self,
        inputs: &[Input],
        target: &Target,
        columns: &TableRecipe,
        signals: &Signals,
    ) -> Result<(), Failure> {
        let mut first = self.check(inputs, columns)?;
        let arguments = self.arguments;
        let store = if arguments.dry_run {
            None
        } else {
            Some(open_for_writing(&arguments.store, &arguments.access, &mut warn)?)
        };
        let store = store.as_deref();
        if let Some(store) = store {
            self.clear(store, target)?;
        }
        let total: Option<u64> = inputs.iter().map(Input::len).sum();
        let mut progress = arguments.talk.progress_of(total, Unit::Bytes);
        for input in inputs {
            let Ready { source, table } = match first.take() {
                Some(ready) => ready,
                None => self.open(input, columns)?,
            };
            if let Some(header) = &table.passed_over {
                // Otherwise a row would be lost without a word.
                let name = &source.name;
                warn(&format!(
                    "{name}: the first line is taken for a header ({header}): --no-header imports it"
                ));
            }
            self.rejects.begin(input, source.format)?;
            let recipe = Recipe { format: source.format, columns: table.columns };
            let position = Arc::clone(&source.position);
            let feed = Feed::start(source.splitter, table.first, &recipe)?;
            let mut work = Work { target, store, signals, progress: &mut progress };
            match self.import(&mut work, feed, input, &position)? {
                Flow::On => {}
                Flow::Stop => return Err(self.stopped()),
                Flow::Interrupted => break,
            }
        }
        progress.finish();
        if let Some(store) = store.filter(|_| self.is_unsynced) {
            store.sync()?;
        }
        Ok(())
    }

    fn stopped(&self) -> Failure {
        let (name, line) = self.last.clone().unwrap_or_default();
        let rejected = self.counts.rejected;
        Failure::new(Exit::Partly, format!("stopped at {name}, line {line}, after {rejected} rejects"))
    }

    /// Opens every input and reads its header, before a store is made for them and before anything is dropped.
    /// Returns the first one, which may be standard input.
    fn check(&self, inputs: &[Input], columns: &TableRecipe) -> Result<Option<Ready>, Failure> {
        for input in inputs.iter().skip(1).filter(|input| **input != Input::Standard) {
            self.open(input, columns)?;
        }
        inputs.first().map(|first| self.open(first, columns)).transpose()
    }

    fn open(&self, input: &Input, columns: &TableRecipe) -> Result<Ready, Failure> {
        let mut source = input.open(self.arguments.format.map(Format::read))?;
        let table = columns.of(&mut source)?;
        Ok(Ready { source, table })
    }

    fn clear(&self, store: &dyn Store, target: &Target) -> Result<(), Failure> {
        if self.arguments.drop {
            drop_collection(store, target)?;
        }
        if self.arguments.truncate {
            truncate(store, target)?;
        }
        Ok(())
    }

    fn import(
        &mut self,
        work: &mut Work<'_>,
        mut feed: Feed,
        input: &Input,
        position: &AtomicU64,
    ) -> Result<Flow, Failure> {
        let before = self.counts.bytes;
        let mut batch = Batch::new(self.arguments.batch as usize);
        while work.signals.received().is_none() {
            work.progress.set(before + position.load(Ordering::Relaxed));
            let parsed = match feed.next()? {
                Next::Parsed(parsed) => Rc::new(parsed),
                Next::Wait => continue,
                Next::End => {
                    let flow = self.commit(work, input, &batch.take(), Level::Durable)?;
                    self.counts.bytes = before + position.load(Ordering::Relaxed);
                    return Ok(flow);
                }
            };
            for at in 0..parsed.len() {
                let flow = self.add(work, input, &mut batch, Line::new(&parsed, at, work.target))?;
                if flow != Flow::On {
                    return Ok(flow);
                }
            }
        }
        Ok(Flow::Interrupted)
    }

    /// Adds a line to the batch, which is committed before if it is full.
    fn add(
        &mut self,
        work: &Work<'_>,
        input: &Input,
        batch: &mut Batch,
        line: Line,
    ) -> Result<Flow, Failure> {
        if batch.is_full_for(&line) {
            let flow = self.commit(work, input, &batch.take(), Level::Written)?;
            if flow != Flow::On {
                return Ok(flow);
            }
            if work.signals.received().is_some() {
                return Ok(Flow::Interrupted);
            }
        }
        batch.push(line);
        // Nothing after the reject that is one too many may be committed.
        if self.rejects.is_over(batch.refused) {
            self.commit(work, input, &batch.take(), Level::Durable)?;
            return Ok(Flow::Stop);
        }
        Ok(Flow::On)
    }

    /// Commits lines in their order.
    fn commit(
        &mut self,
        work: &Work<'_>,
        input: &Input,
        lines: &[Line],
        level: Level,
    ) -> Result<Flow, Failure> {
        let mut lines = lines;
        while !lines.is_empty() {
            let statements: Vec<(usize, &RawDocument)> =
                lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.statement()?))).collect();
            let done = self.send(work, &statements, level)?;
            // An ordered batch ended at its refusal, and goes on behind it.
            let first = done.refused.first().and_then(|refused| statements.get(refused.index));
            let end = match first {
                Some((at, _)) if work.target.is_ordered => at + 1,
                Some(_) | None => lines.len(),
            };
            let (settled, rest) = lines.split_at(end.min(lines.len()));
            let mut refused = done.refused.iter().peekable();
            let mut place = 0;
            for line in settled {
                let of_line = if line.refusal().is_some() {
                    None
                } else {
                    place += 1;
                    refused.next_if(|refused| refused.index + 1 == place)
                };
                self.settle(input, line, of_line)?;
            }
            if self.rejects.is_over(0) {
                return Ok(Flow::Stop);
            }
            lines = rest;
        }
        Ok(Flow::On)
    }

    fn send(
        &mut self,
        work: &Work<'_>,
        statements: &[(usize, &RawDocument)],
        level: Level,
    ) -> Result<Done, Failure> {
        let Some(store) = work.store else {
            // What would be inserted is known; what would match is not.
            self.counts.inserted +=
                if work.target.mode == Mode::Insert { statements.len() as u64 } else { 0 };
            return Ok(Done::default());
        };
        if statements.is_empty() {
            return Ok(Done::default());
        }
        let documents: Vec<&RawDocument> = statements.iter().map(|(_, statement)| *statement).collect();
        let done = work.target.send(store, &documents, level)?;
        self.counts.add(&done);
        // A durable batch makes durable what was written before it, but only if it writes something itself.
        let has_written = done.refused.len() < documents.len()
            && done.modified + done.upserted + done.inserted + done.deleted > 0;
        if has_written {
            self.is_unsynced = level == Level::Written;
        }
        Ok(done)
    }

    /// Counts a line, and writes its reject.
    fn settle(&mut self, input: &Input, line: &Line, refused: Option<&Refused>) -> Result<(), Failure> {
        self.counts.read += 1;
        let Some(record) = line.record() else { return Ok(()) };
        self.last = Some((input.name(), record.line));
        let reason = match (line.refusal(), refused) {
            (Some(refusal), _) => Reason { code: code_of(refusal.fault), error: &refusal.reason },
            (None, Some(refused)) => {
                if self.arguments.skip_existing && refused.code == Code::DUPLICATE_KEY.number() {
                    self.counts.skipped += 1;
                    return Ok(());
                }
                Reason { code: refused.code, error: &refused.message }
            }
            (None, None) => return Ok(()),
        };
        self.counts.rejected += 1;
        self.rejects.write(input, record, line.text(), &reason)
    }
}
