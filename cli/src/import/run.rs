//! The import itself: records in the order of the files, committed batch by batch, rejected ones written where the user
//! can repair them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cairndb::bson::RawDocument;
use formats::format::FileFormat;

use crate::aside;
use crate::compressed::is_damage;
use crate::failure::{Exit, Failure};
use crate::figures::{RECORDS, REJECTS, counted, counted_were};
use crate::format::Format;
use crate::import::batch::{Batch, Line, code_of};
use crate::import::columns::{TableRecipe, TableStart};
use crate::import::counts::Counts;
use crate::import::doubt::{already_there, numbered_fields};
use crate::import::earlier::{missing_in, missing_store, uuid};
use crate::import::feed::{Feed, Next, Recipe};
use crate::import::foresee::{foreseen, foreseen_of_nothing};
use crate::import::input::{Input, Source};
use crate::import::options::Arguments;
use crate::import::rejects::{Reason, Rejects};
use crate::import::replace::Replacement;
use crate::import::trail::{Mark, Trail, files};
use crate::import::write::{Done, Fate, Level, Mode, Refused, Target};
use crate::sign::Sign;
use crate::signals::Signals;
use crate::store::{Store, check_place, is_absent, open_for_reading, open_for_writing};
use crate::talk::{Progress, Unit, warn};
use crate::utf16::Damage;

/// Whether the import goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    /// There were more rejects than are allowed.
    Stop,
    /// A signal was received.
    Interrupted,
}

/// The point at which an import begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    AtRecords,
    /// An earlier process did everything, and was killed before it said so.
    AtEnd,
}

/// An import under way.
pub(super) struct Importer<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) rejects: Rejects,
    pub(super) counts: Counts,
    /// The name and the line of the last record.
    pub(super) last: Option<(String, u64)>,
    /// The line of the first record that was rejected.
    pub(super) first_reject: Option<u64>,
    /// Whether something was written that may not be on stable storage.
    is_unsynced: bool,
    /// Up to where records are settled.
    settled: Mark,
    /// Of an import that can be resumed.
    pub(super) trail: Option<Trail>,
    /// The bytes of the inputs that are done.
    bytes_done: u64,
    /// Whether an earlier process imported all.
    pub(super) was_done: bool,
    /// The input that was found to be no damaged compressed data.
    sound: Option<usize>,
    /// The auto-increment fields, if records may have to be compared with what is there.
    numbered: Vec<String>,
    /// The replacement of the existing collection, until it is in place.
    pub(super) replacement: Option<Replacement>,
    /// The message about a collection that was not replaced.
    pub(super) not_replaced: Option<String>,
    /// The sign that shows others that this import is at work.
    sign: Option<Sign>,
}

/// An input that is open, with its columns.
struct Ready {
    source: Source,
    table: TableStart,
}

/// State shared by all inputs of an import.
#[derive(Clone, Copy)]
struct Loading<'a> {
    /// The target of records.
    target: &'a Target,
    store: Option<&'a dyn Store>,
    looked_into: Option<&'a dyn Store>,
    signals: &'a Signals,
}

/// The context of the records of an input.
struct Work<'a> {
    target: &'a Target,
    /// `None` of a dry run.
    store: Option<&'a dyn Store>,
    /// The store in which a dry run looks for matches. `None` if nothing could.
    looked_into: Option<&'a dyn Store>,
    signals: &'a Signals,
    progress: &'a mut Progress,
    /// Which input it is.
    index: usize,
    input: &'a Input,
}

impl<'a> Importer<'a> {
    pub(super) fn new(arguments: &'a Arguments, rejects: Rejects) -> Self {
        Self {
            arguments,
            rejects,
            counts: Counts::default(),
            last: None,
            first_reject: None,
            is_unsynced: false,
            settled: Mark::default(),
            trail: None,
            bytes_done: 0,
            was_done: false,
            sound: None,
            numbered: Vec::new(),
            replacement: None,
            not_replaced: None,
            sign: None,
        }
    }

    /// Removes the state of an import that is done. Called last: until then the same command must find that all is imported.
    pub(super) fn forget(&mut self) -> Result<(), Failure> {
        self.trail.take().filter(Trail::is_done).map_or(Ok(()), Trail::remove)
    }

    /// Gives the file of rejects its name.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.rejects.finish()
    }

    /// Imports the inputs one after the other.
    pub(super) fn run(
        &mut self,
        inputs: &[Input],
        target: &Target,
        columns: &TableRecipe,
        signals: &Signals,
    ) -> Result<(), Failure> {
        let arguments = self.arguments;
        // Before anything is waited for that would be rejected then.
        let files = arguments.resume.then(|| files(inputs)).transpose()?;
        let first = self.check(inputs, columns, signals)?;
        if let Some(files) = files {
            self.trail = Some(Trail::open(&files, &arguments.lasting())?);
        }
        if let Some(trail) = &self.trail {
            trail.refuse(missing_store(&arguments.store, &trail.counts()), &arguments.store, target)?;
        }
        if let Some(done) = self.trail.as_ref().filter(|trail| trail.is_done()) {
            let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut warn)?;
            self.check_earlier(&*store, target, done)?;
            self.counts = done.counts();
            self.was_done = true;
            return Ok(());
        }
        if self.trail.as_ref().is_none_or(Trail::is_new) {
            self.rejects.check(inputs)?;
        }
        let store: Option<Arc<dyn Store>> = if arguments.dry_run {
            check_place(&arguments.store)?;
            None
        } else {
            Some(open_for_writing(&arguments.store, &arguments.access, signals, &mut warn)?.into())
        };
        let looked_into = self.look_into(target, signals)?;
        let looked_into = looked_into.as_deref();
        self.sign = store.as_ref().map(|store| Sign::new(Arc::clone(store), signals));
        let loading = Loading { target, store: store.as_deref(), looked_into, signals };
        let done = self.fill(inputs, columns, &loading, first);
        if let Some(sign) = self.sign.take() {
            sign.end(&done);
        }
        done
    }

    /// Prepares the store, and imports all records.
    fn fill(
        &mut self,
        inputs: &[Input],
        columns: &TableRecipe,
        loading: &Loading<'_>,
        first: Option<Ready>,
    ) -> Result<(), Failure> {
        let Loading { target, store, .. } = *loading;
        let begin = store.map_or(Ok(Begin::AtRecords), |store| self.begin(store, target, inputs))?;
        if begin == Begin::AtEnd {
            self.was_done = true;
            return self.trail.as_mut().map_or(Ok(()), |trail| trail.finish(&self.counts));
        }
        let aside = self.replacement.as_ref().map(|replacement| replacement.aside.clone());
        let loading = Loading { target: aside.as_ref().unwrap_or(target), ..*loading };
        let done = self.load(inputs, columns, &loading, first);
        self.leave_old(store, done)
    }

    /// Imports all records.
    fn load(
        &mut self,
        inputs: &[Input],
        columns: &TableRecipe,
        loading: &Loading<'_>,
        mut first: Option<Ready>,
    ) -> Result<(), Failure> {
        let Loading { target, store, looked_into, signals } = *loading;
        let total: Option<u64> = inputs.iter().map(Input::len).sum();
        let mut progress = self.arguments.talk.progress_of(total, Unit::Bytes);
        let mut flow = Flow::On;
        for (index, input) in inputs.iter().enumerate().skip(self.settled.input) {
            let ready = match first.take().filter(|_| index == 0) {
                Some(ready) => ready,
                None => self.open(input, columns, signals)?,
            };
            let mut work =
                Work { target, store, looked_into, signals, progress: &mut progress, index, input };
            flow = self.import(&mut work, ready)?;
            if flow != Flow::On {
                break;
            }
            self.end_input(store, index)?;
        }
        progress.finish();
        self.end(store, flow)?;
        if flow == Flow::On {
            self.rejects.tell_old(inputs);
        }
        Ok(())
    }

    /// Opens the store of a dry run for reading, where it counts what is there.
    fn look_into(&self, target: &Target, signals: &Signals) -> Result<Option<Box<dyn Store>>, Failure> {
        let arguments = self.arguments;
        // Nothing is there of what would be made, dropped or emptied.
        let is_empty = arguments.drop || arguments.truncate || is_absent(&arguments.store);
        if !arguments.dry_run || target.mode == Mode::Insert || is_empty {
            return Ok(None);
        }
        open_for_reading(&arguments.store, &arguments.access, signals, &mut warn).map(Some)
    }

    /// Prepares the store: for an import that goes on, what is there stays.
    fn begin(&mut self, store: &dyn Store, target: &Target, inputs: &[Input]) -> Result<Begin, Failure> {
        if self.trail.is_some() && target.mode == Mode::Insert {
            self.numbered = numbered_fields(store, target)?;
            if self.numbered.iter().any(|field| field == "_id") {
                return Err(Failure::usage(
                    "--resume cannot know which records are there: _id is an auto-increment field",
                ));
            }
        }
        let Some(trail) = self.trail.as_ref().filter(|trail| !trail.is_new()) else {
            return self.begin_anew(target).map(|()| Begin::AtRecords);
        };
        // Without an id an earlier version of the tool has begun, which has removed what was there.
        let replacement = trail.aside().and_then(|id| Replacement::of(self.arguments, target, id));
        if let Some(mut replacement) = replacement {
            if self.is_through(inputs) && replacement.is_in_place(store, trail.collection())? {
                self.counts = trail.counts();
                return Ok(Begin::AtEnd);
            }
            self.check_earlier(store, &replacement.aside, trail)?;
            if let Some(sign) = &mut self.sign {
                replacement.go_on(sign)?;
            }
            self.replacement = Some(replacement);
        } else {
            self.check_earlier(store, target, trail)?;
        }
        self.counts = trail.counts();
        self.bytes_done = self.counts.bytes;
        self.settled = trail.durable();
        // The writes of the killed process are there, but nothing says that they are on stable storage.
        self.is_unsynced = true;
        let (rejected, len) = (self.counts.rejected, trail.rejects());
        if let Some(input) = inputs.get(self.settled.input) {
            self.rejects.resume(input, rejected, len)?;
        }
        if self.rejects.is_over(0) {
            let were = counted_were(rejected, RECORDS);
            let message = format!("{were} rejected already: give a greater --max-rejects");
            return Err(Failure::new(Exit::Partly, message));
        }
        Ok(Begin::AtRecords)
    }

    /// Whether an earlier process came to the end of all inputs.
    fn is_through(&self, inputs: &[Input]) -> bool {
        self.trail.as_ref().is_some_and(|trail| trail.durable().input >= inputs.len())
    }

    /// Makes the collection aside, if what is there is to be replaced.
    fn begin_anew(&mut self, target: &Target) -> Result<(), Failure> {
        let id = self.trail.as_ref().map_or_else(aside::choose_id, |trail| trail.identity().first());
        let replacement = Replacement::of(self.arguments, target, id);
        if let Some((mut replacement, sign)) = replacement.zip(self.sign.as_mut()) {
            let uuid = replacement.make(sign)?;
            if let Some(trail) = &mut self.trail {
                trail.set_aside(id);
                if let Some(uuid) = uuid {
                    trail.know(uuid);
                }
            }
            self.replacement = Some(replacement);
        }
        // Before anything is sent: an import that is killed now must know what it has begun.
        self.trail.as_ref().map_or(Ok(()), Trail::save)
    }

    /// Does not go on in a collection that has not what an earlier process imported into it.
    fn check_earlier(&self, store: &dyn Store, target: &Target, trail: &Trail) -> Result<(), Failure> {
        let missing = missing_in(store, target, &trail.counts(), trail.collection())?;
        trail.refuse(missing, &self.arguments.store, target)
    }

    /// Notes in the trail that an input is done.
    fn end_input(&mut self, store: Option<&dyn Store>, index: usize) -> Result<(), Failure> {
        self.settled = Mark { input: index + 1, offset: 0 };
        if self.trail.is_none() {
            return Ok(());
        }
        // A file of rejects has its name before the state goes on to the next input, which does not know of it.
        if self.arguments.rejects.is_none() {
            self.rejects.finish()?;
        }
        self.sync(store)?;
        self.mark()
    }

    fn end(&mut self, store: Option<&dyn Store>, flow: Flow) -> Result<(), Failure> {
        self.sync(store)?;
        match flow {
            Flow::On => {
                self.rejects.finish()?;
                self.replace(store)?;
                self.trail.as_mut().map_or(Ok(()), |trail| trail.finish(&self.counts))
            }
            Flow::Stop => self.mark().and(Err(self.stopped())),
            Flow::Interrupted => self.mark(),
        }
    }

    fn sync(&mut self, store: Option<&dyn Store>) -> Result<(), Failure> {
        if let Some(store) = store.filter(|_| self.is_unsynced) {
            store.sync()?;
            self.is_unsynced = false;
        }
        Ok(())
    }

    /// Writes the state: all that is settled is on stable storage, and so are its rejects.
    fn mark(&mut self) -> Result<(), Failure> {
        let Some(trail) = &mut self.trail else { return Ok(()) };
        let rejects = self.rejects.sync()?;
        // An input that is not done is read again from its beginning.
        let counts = Counts { bytes: self.bytes_done, ..self.counts.clone() };
        trail.settle(self.settled, &counts, rejects)
    }

    fn stopped(&self) -> Failure {
        let (name, line) = self.last.clone().unwrap_or_default();
        let rejected = self.counts.rejected;
        let message = format!("stopped at {name}, line {line}, after {}", counted(rejected, REJECTS));
        Failure { line: Some(line), ..Failure::new(Exit::Partly, message) }
    }

    /// Opens every file and reads its header, before a store is made for them and before anything is dropped. Returns the
    /// first input, which stays open: what is read from a pipe is gone.
    fn check(
        &self,
        inputs: &[Input],
        columns: &TableRecipe,
        signals: &Signals,
    ) -> Result<Option<Ready>, Failure> {
        for input in inputs.iter().skip(1).filter(|input| input.len().is_some()) {
            self.open(input, columns, signals)?;
        }
        inputs.first().map(|first| self.open(first, columns, signals)).transpose()
    }

    fn open(&self, input: &Input, columns: &TableRecipe, signals: &Signals) -> Result<Ready, Failure> {
        let delimiter = self.arguments.table.delimiter();
        let mut source = input.open(self.arguments.format.map(Format::read), delimiter, signals)?;
        let table = columns.of(&mut source)?;
        Ok(Ready { source, table })
    }

    /// Imports an input, and counts what was read of it, however that ends.
    fn import(&mut self, work: &mut Work<'_>, ready: Ready) -> Result<Flow, Failure> {
        let position = Arc::clone(&ready.source.position);
        let flow = self.import_records(work, ready);
        self.counts.bytes = self.bytes_done + position.load(Ordering::Relaxed);
        if matches!(flow, Ok(Flow::On)) {
            self.bytes_done = self.counts.bytes;
        }
        flow
    }

    fn import_records(&mut self, work: &mut Work<'_>, ready: Ready) -> Result<Flow, Failure> {
        let Ready { source, table } = ready;
        if let Some(header) = &table.passed_over {
            // Otherwise a row would be lost without a word.
            let name = &source.name;
            warn(&format!("{name}: the first line is read as a header ({header}): --no-header imports it"));
        }
        for remark in &table.remarks {
            warn(&format!("{}: {remark}", source.name));
        }
        self.rejects.begin(work.input, source.format)?;
        let trail = self.trail.as_ref().filter(|_| work.target.mode == Mode::Insert);
        let recipe = Recipe {
            format: source.format,
            delimiter: source.delimiter,
            columns: table.columns,
            large_integers: self.arguments.large_integers.meaning(),
            identity: trail.map(Trail::identity),
            skipped: if self.settled.input == work.index { self.settled.offset } else { 0 },
        };
        let position = source.position;
        let mut feed = Feed::start(source.splitter, table.first, &recipe)?;
        let (before, read_before) = (self.bytes_done, self.counts.read);
        // Nothing that a header could have been mistaken for is said of a table whose rows were passed over.
        let may_lack_rows = matches!(source.format, FileFormat::Csv | FileFormat::Tsv) && recipe.skipped == 0;
        let mut batch = Batch::new(self.arguments.batch as usize);
        // Records that were read from a pipe are gone there, so all of them are stored before a signal ends the
        // import. Its reader reads nothing more then.
        let is_kept = work.input.len().is_some();
        while !is_kept || work.signals.received().is_none() {
            work.progress.set(before + position.load(Ordering::Relaxed));
            let parsed = match feed.next()? {
                Next::Parsed(parsed) => Rc::new(parsed),
                Next::Wait => continue,
                Next::Failed(error) => {
                    // Records that were read whole before are stored, as after a signal.
                    if self.commit(work, &batch.take(), Level::Durable)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                    self.sync(work.store)?;
                    self.mark()?;
                    return Err(unreadable(work, &error, position.load(Ordering::Relaxed))?);
                }
                Next::Interrupted => {
                    self.commit(work, &batch.take(), Level::Durable)?;
                    return Ok(Flow::Interrupted);
                }
                Next::End => {
                    let flow = self.commit(work, &batch.take(), Level::Durable)?;
                    let is_empty = position.load(Ordering::Relaxed) == 0;
                    if may_lack_rows && self.counts.read == read_before && !is_empty {
                        let name = &source.name;
                        warn(&format!(
                            "{name}: a header and no rows: --no-header and --fields import its first line"
                        ));
                    }
                    return Ok(flow);
                }
            };
            for at in 0..parsed.len() {
                let flow = self.add(work, &mut batch, Line::new(&parsed, at, work.target))?;
                if flow != Flow::On {
                    return Ok(flow);
                }
            }
        }
        Ok(Flow::Interrupted)
    }

    /// Looks, at the first line of an input that is none, whether the input is compressed and damaged: what a damaged part is
    /// unpacked to are not lines. What came before is stored.
    fn refuse_damaged(&mut self, work: &Work<'_>, batch: &mut Batch, line: &Line) -> Result<(), Failure> {
        let is_first = line.refusal().is_some() && self.sound != Some(work.index);
        if !is_first {
            return Ok(());
        }
        self.sound = Some(work.index);
        let Some(damage) = work.input.damage(work.signals)? else { return Ok(()) };
        self.commit(work, &batch.take(), Level::Durable)?;
        self.sync(work.store)?;
        self.mark()?;
        Err(damage)
    }

    /// Adds a line to the batch, which is committed before if it is full.
    fn add(&mut self, work: &Work<'_>, batch: &mut Batch, line: Line) -> Result<Flow, Failure> {
        self.refuse_damaged(work, batch, &line)?;
        if batch.is_full_for(&line) {
            let is_due = self.trail.as_ref().is_some_and(Trail::is_due);
            let level = if is_due { Level::Durable } else { Level::Written };
            let flow = self.commit(work, &batch.take(), level)?;
            if flow != Flow::On {
                return Ok(flow);
            }
            if work.signals.received().is_some() && work.input.len().is_some() {
                return Ok(Flow::Interrupted);
            }
        }
        batch.push(line);
        // Nothing after the reject that is one too many may be committed.
        if self.rejects.is_over(batch.refused) {
            self.commit(work, &batch.take(), Level::Durable)?;
            return Ok(Flow::Stop);
        }
        Ok(Flow::On)
    }

    /// Commits lines in their order.
    fn commit(&mut self, work: &Work<'_>, lines: &[Line], level: Level) -> Result<Flow, Failure> {
        let end = lines.last().and_then(Line::record).map(|record| work.mark(record.end));
        if let (Some(trail), Some(end)) = (&mut self.trail, end) {
            trail.allow(end)?;
        }
        let doubtful: Vec<(usize, &Line)> =
            lines.iter().enumerate().filter(|(_, line)| self.is_doubtful(work, line)).collect();
        let mut there = self.look_up(work, &doubtful)?;
        let mut start = 0;
        while start < lines.len() {
            let statements: Vec<(usize, &RawDocument)> = (start..)
                .zip(lines.iter().skip(start))
                .filter(|(at, _)| !there.contains(at))
                .filter_map(|(at, line)| Some((at, line.statement()?)))
                .collect();
            let done = self.send(work, &statements, level)?;
            let refused: HashMap<usize, &Refused> = done
                .refused
                .iter()
                .filter_map(|refused| Some((statements.get(refused.index)?.0, refused)))
                .collect();
            // The server may have been at work on a batch of the killed process when it was asked.
            let taken: Vec<(usize, &Line)> = doubtful
                .iter()
                .copied()
                .filter(|(at, _)| refused.get(at).is_some_and(|refused| refused.is_duplicate()))
                .collect();
            there.extend(self.look_up(work, &taken)?);
            // An ordered batch ended at its rejection, and goes on after it.
            let first = refused.keys().min().filter(|_| work.target.is_ordered);
            let next = first.map_or(lines.len(), |at| at + 1);
            for (at, line) in (start..next).zip(lines.iter().skip(start)) {
                self.settle(
                    work,
                    line,
                    if there.contains(&at) { Fate::There } else { Fate::of(refused.get(&at)) },
                )?;
            }
            if self.rejects.is_over(0) {
                return Ok(Flow::Stop);
            }
            start = next;
        }
        if level == Level::Durable && !self.is_unsynced {
            self.mark()?;
        }
        Ok(Flow::On)
    }

    /// Whether an earlier process may have inserted the document of a line.
    fn is_doubtful(&self, work: &Work<'_>, line: &Line) -> bool {
        let end = line.record().map(|record| work.mark(record.end));
        let trail = self.trail.as_ref().filter(|_| work.target.mode == Mode::Insert);
        trail.zip(end).is_some_and(|(trail, end)| trail.is_doubtful(end))
    }

    fn look_up(&self, work: &Work<'_>, lines: &[(usize, &Line)]) -> Result<HashSet<usize>, Failure> {
        match work.store {
            Some(store) if !lines.is_empty() => already_there(store, work.target, &self.numbered, lines),
            Some(_) | None => Ok(HashSet::new()),
        }
    }

    fn send(
        &mut self,
        work: &Work<'_>,
        statements: &[(usize, &RawDocument)],
        level: Level,
    ) -> Result<Done, Failure> {
        let Some(store) = work.store else {
            let done = match work.looked_into {
                Some(store) => foreseen(store, work.target, statements)?,
                None => foreseen_of_nothing(work.target, statements),
            };
            self.counts.add(&done);
            return Ok(done);
        };
        if statements.is_empty() {
            return Ok(Done::default());
        }
        let documents: Vec<&RawDocument> = statements.iter().map(|(_, statement)| *statement).collect();
        let mut done = work.target.send(store, &documents, level)?;
        if let Some(replacement) = &self.replacement {
            done.refused.iter_mut().for_each(|refused| refused.message = replacement.told(&refused.message));
        }
        self.counts.add(&done);
        // A durable batch makes durable what was written before it, but only if it writes something itself.
        let has_written = done.refused.len() < documents.len()
            && done.modified + done.upserted + done.inserted + done.deleted > 0;
        if has_written {
            self.is_unsynced = level == Level::Written;
        }
        if let Some(trail) = self.trail.as_mut().filter(|trail| trail.collection().is_none()) {
            // Without an answer, as after a signal, it is asked again with the next batch.
            if let Ok(Some(uuid)) = uuid(store, work.target) {
                trail.know(uuid);
            }
        }
        Ok(done)
    }

    /// Counts a line, and writes its reject.
    fn settle(&mut self, work: &Work<'_>, line: &Line, fate: Fate<'_>) -> Result<(), Failure> {
        self.counts.read += 1;
        let Some(record) = line.record() else { return Ok(()) };
        self.last = Some((work.input.name(), record.line));
        self.settled = work.mark(record.end);
        let reason = match (line.refusal(), fate) {
            (Some(refusal), _) => Reason { code: code_of(refusal.fault), error: &refusal.reason },
            (None, Fate::There) => {
                self.counts.already_there += 1;
                return Ok(());
            }
            (None, Fate::Refused(refused)) if self.arguments.skip_existing && refused.is_duplicate() => {
                self.counts.skipped += 1;
                return Ok(());
            }
            (None, Fate::Refused(refused)) => Reason { code: refused.code, error: &refused.message },
            (None, Fate::Done) => return Ok(()),
        };
        self.counts.rejected += 1;
        self.first_reject.get_or_insert(record.line);
        self.rejects.write(work.input, record, line.text(), &reason)
    }
}

/// The failure of an input that cannot be read on: damage of compressed data, or an error of the system. `position` is how much
/// of it was read.
fn unreadable(work: &Work<'_>, error: &std::io::Error, position: u64) -> Result<Failure, Failure> {
    if !is_damage(error) {
        return Ok(Failure::io(&work.input.name(), error));
    }
    if let Some(damage) = error.get_ref().and_then(|cause| cause.downcast_ref::<Damage>()) {
        let message = format!("{} is damaged: {damage}", work.input.name());
        return Ok(Failure::new(Exit::Different, message));
    }
    let found = work.input.damage(work.signals)?;
    Ok(found.unwrap_or_else(|| work.input.damaged(position, &error.to_string())))
}

impl Work<'_> {
    /// A place in the current input.
    fn mark(&self, offset: u64) -> Mark {
        Mark { input: self.index, offset }
    }
}
