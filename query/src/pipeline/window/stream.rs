//! The stream of `$setWindowFields`: reads sorted documents as far as windows reach ahead, and adds the computed fields.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::key::Direction;
use index::validate::{DOCUMENT_BYTES_MAX, validate};

use crate::expression::Variables;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::stream::{StageInput, Step, Stream};
use crate::pipeline::window::frame::{Frame, Row};
use crate::pipeline::window::output::{WindowFields, array_partition};
use crate::pipeline::window::running::Running;
use crate::pipeline::window::state::Workspace;
use crate::value::content_bytes;

/// `$setWindowFields` over documents that are sorted by their partitions, and in these by the sort of the stage.
pub(crate) struct Windowing<'i, E> {
    input: StageInput<'i, E>,
    position: usize,
    windows: Windows,
    shown: RawDocumentBuf,
}

/// The windows over the current partition.
struct Windows {
    name: &'static str,
    stage: WindowFields,
    variables: Variables,
    memory: StageMemory,
    frame: Frame,
    /// One for each output, in their order.
    running: Vec<Running>,
    /// The number of the document whose fields come next.
    current: u64,
    /// The encoded key of the partition.
    key: Option<Vec<u8>>,
    /// The first document of the next partition.
    pending: Option<(Vec<u8>, RawDocumentBuf)>,
    is_over: bool,
}

impl<'i, E> Windowing<'i, E> {
    pub(crate) fn new(
        input: StageInput<'i, E>,
        position: usize,
        name: &'static str,
        stage: WindowFields,
        variables: Variables,
    ) -> Self {
        let memory = StageMemory::new(name, STAGE_BYTES_MAX, variables.operation());
        let windows = Windows {
            name,
            stage,
            variables,
            memory,
            frame: Frame::default(),
            running: Vec::new(),
            current: 0,
            key: None,
            pending: None,
            is_over: false,
        };
        Self { input, position, windows, shown: RawDocumentBuf::new() }
    }
}

impl<E: From<Error>> Stream<E> for Windowing<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let at = at::<E>(self.position);
        loop {
            if let Some(shown) = self.windows.next().map_err(&at)? {
                self.shown = shown;
                return Ok(Step::Document);
            }
            if self.windows.is_over {
                return Ok(Step::End);
            }
            // The one place where documents are read: all that is known stays in the windows if the input pauses.
            match self.input.advance()? {
                Step::Document => self.windows.push(self.input.current()).map_err(&at)?,
                Step::Pause => return Ok(Step::Pause),
                Step::End => self.windows.end(),
            }
        }
    }

    fn current(&self) -> &RawDocument {
        &self.shown
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}

impl Windows {
    /// The next document with its fields. Returns `None` if more must be read, or at the end.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        if self.frame.is_whole && self.current >= self.frame.end() && !self.start_partition()? {
            return Ok(None);
        }
        if self.current >= self.frame.end() {
            return Ok(None);
        }
        let mut work = Workspace { variables: &self.variables, frame: &self.frame, memory: &mut self.memory };
        for (running, output) in self.running.iter_mut().zip(&self.stage.outputs) {
            if running.needs_more(output, self.current, &mut work)? {
                return Ok(None);
            }
        }
        // Only now: no function may move before all can, or a pause would find them at different documents.
        let (mut values, mut bytes) = (Vec::with_capacity(self.running.len()), 0);
        for (running, output) in self.running.iter_mut().zip(&self.stage.outputs) {
            let value = running.value(output, self.current, &mut work)?;
            // A value can be as large as a window, for each document again.
            let value_bytes = content_bytes(value.as_raw_bson_ref());
            self.variables.operation().pass(value_bytes)?;
            // Checked before the next value is made: together they could be far larger than the stage may hold.
            bytes += value_bytes;
            if bytes > DOCUMENT_BYTES_MAX {
                return Err(Fault::TooLarge { stage: self.name, limit: DOCUMENT_BYTES_MAX });
            }
            values.push(value);
        }
        let Some(row) = self.frame.row(self.current) else { return Ok(None) };
        let shown = self.shown(&row.document, &values)?;
        self.current += 1;
        // The slowest window decides what is held: one that lags behind still has to read its documents.
        let needed = self.running.iter().map(|running| running.needed_from(self.current));
        let needed = needed.min().unwrap_or(self.current).min(self.current);
        self.frame.release_before(needed, &mut self.memory);
        Ok(Some(shown))
    }

    /// Reads a document: of this partition, or the first of the next one.
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        self.variables.operation().pass(document.as_bytes().len())?;
        // Encoded keys compare as values do: 1 and 1.0 are one partition.
        let mut key = Vec::new();
        if let Some(partition) = &self.stage.partition {
            partition.with_value(document, &self.variables, |value| {
                // A missing key is null, as in a `$group`.
                let value = value.unwrap_or(RawBsonRef::Null);
                if value.as_array().is_some() {
                    return Err(array_partition(value));
                }
                self.variables.collation().encode(value, Direction::Ascending, &mut key);
                Ok(())
            })??;
        }
        // The documents are sorted by the key, so another one means that the partition is whole.
        if self.key.as_ref() == Some(&key) {
            let row = self.row(document.to_owned())?;
            return self.frame.push(row, &mut self.memory);
        }
        self.pending = Some((key, document.to_owned()));
        self.frame.is_whole = true;
        Ok(())
    }

    /// Notes that there are no more documents.
    fn end(&mut self) {
        self.frame.is_whole = true;
        self.is_over = self.current >= self.frame.end();
    }

    /// Starts with the partition of the pending document. Returns `false` if there is none.
    fn start_partition(&mut self) -> Result<bool, Fault> {
        let Some((key, document)) = self.pending.take() else {
            self.is_over = true;
            return Ok(false);
        };
        // Everything that was counted belonged to the partition before.
        self.memory.clear();
        self.key = Some(key);
        self.current = 0;
        self.frame = Frame::default();
        let start = |output| Running::start(output, &self.variables);
        self.running = self.stage.outputs.iter().map(start).collect::<Result<_, _>>()?;
        let row = self.row(document)?;
        self.frame.push(row, &mut self.memory)?;
        Ok(true)
    }

    fn row(&self, document: RawDocumentBuf) -> Result<Row, Fault> {
        // Evaluated once here, and not once for each output.
        let x = match &self.stage.sorted_by {
            Some(path) => path.evaluate(&document, &self.variables)?.unwrap_or(RawBson::Null),
            None => RawBson::Null,
        };
        let key = match self.stage.sort.as_ref().filter(|_| self.stage.has_rank) {
            Some(sort) => sort.key(&document)?.as_bytes().to_vec(),
            None => Vec::new(),
        };
        Ok(Row { number: self.frame.end(), document, x, key })
    }

    /// A document with its computed fields.
    fn shown(&self, document: &RawDocument, values: &[RawBson]) -> Result<RawDocumentBuf, Fault> {
        let operation = self.variables.operation();
        let shown = match &self.stage.names {
            // Fields that the document does not have are added at its end, and the rest is copied as it is.
            Some(names) if !has_any(document, names) => {
                let mut shown = document.to_owned();
                for (name, value) in names.iter().zip(values) {
                    shown.append(name, value.as_raw_bson_ref());
                }
                shown
            }
            Some(_) | None => {
                let values: Vec<_> = values.iter().map(|value| Some(value.as_raw_bson_ref())).collect();
                self.stage.fields.set_to(document, &values, operation)?
            }
        };
        validate(shown.as_bytes()).map_err(|error| Fault::of_result(self.name, &error))?;
        Ok(shown)
    }
}

/// Whether a document has a field with one of the names.
fn has_any(document: &RawDocument, names: &[bson::raw::CString]) -> bool {
    let is_named =
        |(name, _): (&bson::raw::CStr, _)| names.iter().any(|known| known.as_str() == name.as_str());
    document.iter().flatten().any(is_named)
}
