//! Arrays and objects that conversions build: of any shape, bounded in levels and bytes, so that one that could not be stored is a
//! value that cannot be converted, which `onError` catches.

use std::collections::HashMap;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use index::writer::{Mark, Writer};

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::value::{VALUE_BYTES_MAX, Value};
use crate::operation::{Interruption, OperationContext, Reservation};
use crate::raw::{Fields, Malformed, Operand};
use crate::value::content_bytes;

/// The most levels of a value that is converted, or of one that is built: MongoDB's.
pub(super) const LEVELS_MAX: usize = 200;

/// The reason for a value with too many levels.
pub(super) const TOO_DEEP: &str = "it has more than 200 levels";
/// The reason for a value whose result is too large.
pub(super) const TOO_LARGE: &str = "the result has more than 16 MiB";

/// More than the type, the position and the zero byte of an element need.
const HEADER_BYTES: usize = 24;

/// The reason why a value was not converted.
#[derive(Debug)]
pub(super) enum Failure {
    /// The value cannot be converted.
    Refused(&'static str),
    /// The expression has no value at all.
    Error(Error),
}

impl From<&'static str> for Failure {
    fn from(reason: &'static str) -> Self {
        Self::Refused(reason)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Interruption> for Failure {
    fn from(interruption: Interruption) -> Self {
        Self::Error(interruption.into())
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Error(Error::InvalidBson { reason: malformed.reason })
    }
}

impl Failure {
    /// The error of an operator that did not convert `input`.
    pub(super) fn into_error(
        self,
        arguments: &Arguments<'_, '_>,
        input: &Value<'_>,
        target: &'static str,
    ) -> Error {
        match self {
            Self::Refused(reason) => {
                let fault = Fault::Conversion { found: input.describe(), target, reason };
                arguments.fault(Code::CONVERSION_FAILURE, fault)
            }
            Self::Error(error) => error,
        }
    }
}

/// A container of other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Array,
    Object,
}

/// A value that is being built from its outside to its inside.
#[derive(Debug)]
pub(super) struct Tree {
    writer: Writer,
    /// The document around the value.
    root: Mark,
    open: Vec<Opened>,
    reservation: Reservation,
}

/// A container whose end is not written yet.
#[derive(Debug)]
struct Opened {
    mark: Mark,
    kind: Container,
    /// The number of its values.
    count: usize,
}

impl Tree {
    pub(super) fn new(operation: &OperationContext) -> Self {
        let mut writer = Writer::with_capacity(0);
        let root = writer.open();
        Self { writer, root, open: Vec::new(), reservation: Reservation::of(operation) }
    }

    /// The limits of the operation that builds.
    pub(super) fn operation(&self) -> &OperationContext {
        self.reservation.operation()
    }

    /// A text that `encode` makes and that has at most `bytes` bytes, unless the value becomes too large by it.
    pub(super) fn encoded(&self, bytes: usize, encode: impl FnOnce() -> String) -> Result<String, Failure> {
        if self.writer.len().saturating_add(bytes / 2) > VALUE_BYTES_MAX {
            return Err(Failure::Refused(TOO_LARGE));
        }
        // Held by the value once it is appended; until then it is enough that there is room.
        self.operation().reserve(bytes)?;
        Ok(encode())
    }

    /// The container that the next value goes into. Returns `None` outside of all.
    pub(super) fn innermost(&self) -> Option<Container> {
        self.open.last().map(|opened| opened.kind)
    }

    /// Starts a container, under `name` if it is in an object.
    pub(super) fn open(&mut self, name: &str, kind: Container) -> Result<(), Failure> {
        if self.open.len() == LEVELS_MAX {
            return Err(Failure::Refused(TOO_DEEP));
        }
        self.make_room(name.len())?;
        let element = match kind {
            Container::Array => ElementType::Array,
            Container::Object => ElementType::EmbeddedDocument,
        };
        self.header(element, name);
        let mark = self.writer.open();
        self.open.push(Opened { mark, kind, count: 0 });
        Ok(())
    }

    /// Adds a value, under `name` if it is in an object.
    pub(super) fn append(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<(), Failure> {
        self.make_room(name.len() + content_bytes(value))?;
        let operand = Operand::new(value);
        self.header(operand.kind(), name);
        self.writer.copy(operand.bytes());
        Ok(())
    }

    /// Ends the innermost container.
    pub(super) fn close(&mut self) {
        if let Some(opened) = self.open.pop() {
            self.writer.close(opened.mark);
        }
    }

    /// Ends the innermost container. Of fields with one name the last value stays, in place of the first.
    pub(super) fn close_without_duplicates(&mut self) -> Result<(), Failure> {
        let Some(opened) = self.open.pop() else { return Ok(()) };
        self.writer.close(opened.mark);
        if opened.kind == Container::Array || opened.count < 2 {
            return Ok(());
        }
        let operation = self.reservation.operation();
        operation.steps(opened.count as u64)?;
        // A table of names, and a list of as many places.
        let _held = operation.reserve(opened.count.saturating_mul(128))?;
        let bytes = self.writer.since(opened.mark);
        let document = RawDocument::from_bytes(bytes)
            .map_err(|error| Error::InvalidBson { reason: error.to_string() })?;
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(opened.count);
        let mut fields: Vec<&[u8]> = Vec::with_capacity(opened.count);
        for field in Fields::of(document) {
            let field = field?;
            let place = *places.entry(field.name()).or_insert(fields.len());
            match fields.get_mut(place) {
                Some(slot) => *slot = field.whole(),
                None => fields.push(field.whole()),
            }
        }
        if fields.len() == opened.count {
            return Ok(());
        }
        operation.pass(bytes.len())?;
        let _copied = operation.reserve(bytes.len())?;
        let kept = fields.concat();
        self.writer.revert(opened.mark);
        let mark = self.writer.open();
        self.writer.copy(&kept);
        self.writer.close(mark);
        Ok(())
    }

    /// The value, once all containers are closed.
    pub(super) fn finish<'d>(mut self) -> Result<Value<'d>, Failure> {
        self.writer.close(self.root);
        let bytes = self.writer.as_bytes();
        // The value is copied from the document around it.
        let _copied = self.reservation.operation().reserve(bytes.len())?;
        let document = RawDocument::from_bytes(bytes)
            .map_err(|error| Error::InvalidBson { reason: error.to_string() })?;
        match Fields::of(document).next() {
            Some(field) => Ok(Value::copied(field?.value()?)),
            None => Ok(Value::Missing),
        }
    }

    /// Counts a value of `bytes` bytes, and rejects one that makes the whole too large.
    fn make_room(&mut self, bytes: usize) -> Result<(), Failure> {
        let bytes = self.writer.len().saturating_add(bytes).saturating_add(HEADER_BYTES);
        if bytes > VALUE_BYTES_MAX {
            return Err(Failure::Refused(TOO_LARGE));
        }
        self.reservation.operation().step()?;
        self.reservation.grow_by_doubling(bytes)?;
        Ok(())
    }

    /// Writes the start of an element of the innermost container.
    fn header(&mut self, kind: ElementType, name: &str) {
        match self.open.last_mut() {
            None => self.writer.header(kind, ""),
            Some(opened) => {
                let index = opened.count;
                opened.count += 1;
                match opened.kind {
                    Container::Array => self.writer.indexed_header(kind, index),
                    Container::Object => self.writer.header(kind, name),
                }
            }
        }
    }
}
