//! The result of an expression, for printing.

use cairndb::bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use rquickjs::{Ctx, Function, Object, Result, Value};

use crate::failure::Failure;
use crate::script::{self, Engine, Numbers, Purpose, Reader};
use crate::store::Documents;

/// The wanted form of an expression's value.
pub(super) struct Ask<'a> {
    /// The collection that the value is a filter or a pipeline for.
    pub(super) collection: Option<&'a str>,
    pub(super) is_explained: bool,
}

/// The value that is to be printed.
pub(super) enum Found<'js> {
    Nothing,
    Text(String),
    Value(RawBson),
    /// A cursor that was not read: its documents are printed as they are stored.
    Stream {
        database: String,
        command: RawDocumentBuf,
    },
    /// A cursor whose documents the expression changes on their way, or has read already.
    Rows(Rows<'js>),
}

/// The answer that an expression's value is.
pub(super) fn of<'js>(
    ctx: &Ctx<'js>,
    engine: &Engine,
    ask: &Ask<'_>,
    value: Value<'js>,
) -> Result<Found<'js>> {
    let cairn = script::cairn(ctx)?;
    let answer: Object =
        cairn.get::<_, Function>("answer")?.call((value, ask.collection, ask.is_explained))?;
    if let Some(command) = answer.get::<_, Option<Value>>("command")? {
        let command = script::document(ctx, &command)?;
        return Ok(Found::Stream { database: answer.get("database")?, command });
    }
    if let Some(next) = answer.get::<_, Option<Function>>("next")? {
        return Ok(Found::Rows(Rows { ctx: ctx.clone(), next, current: RawDocumentBuf::new() }));
    }
    let value: Value = answer.get("value")?;
    if value.is_undefined() {
        return Ok(Found::Nothing);
    }
    if value.is_string() || value.is_number() || value.is_big_int() {
        return Ok(Found::Text(script::text(ctx, &value)?));
    }
    let Some(told) = script::value(ctx, &value, Purpose::Result)? else {
        return Ok(Found::Text(cairn.get::<_, Function>("display")?.call((value,))?));
    };
    as_stored(ctx, engine, told).map(Found::Value)
}

/// The document that was read last, if the value is that document without a change: a script knows one type of numbers, and
/// the store several.
fn as_stored(ctx: &Ctx<'_>, engine: &Engine, value: RawBson) -> Result<RawBson> {
    let (Some(read), Some(document)) = (engine.last_read(), value.as_document()) else { return Ok(value) };
    let makers: Object = script::cairn(ctx)?.get("makers")?;
    let seen = Reader { ctx, makers: &makers, numbers: Numbers::Stored }.document(&read)?;
    let is_unchanged = script::document(ctx, &seen)?.as_bytes() == document.as_bytes();
    Ok(if is_unchanged { RawBson::Document(read) } else { value })
}

/// Documents that come from a script.
pub(super) struct Rows<'js> {
    ctx: Ctx<'js>,
    next: Function<'js>,
    current: RawDocumentBuf,
}

impl Rows<'_> {
    fn step(&mut self) -> Result<bool> {
        let value: Value = self.next.call(())?;
        if value.is_undefined() {
            return Ok(false);
        }
        self.current = match script::value(&self.ctx, &value, Purpose::Result)? {
            Some(RawBson::Document(document)) => document,
            other => {
                let mut wrapped = RawDocumentBuf::new();
                wrapped.append(cairndb::bson::cstr!("value"), other.unwrap_or(RawBson::Null));
                wrapped
            }
        };
        Ok(true)
    }
}

impl Documents for Rows<'_> {
    fn advance(&mut self) -> std::result::Result<bool, Failure> {
        self.step().map_err(|error| script::uncaught(&self.ctx, &error))
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }
}

/// Documents that are there already.
pub(super) struct List {
    documents: std::vec::IntoIter<RawDocumentBuf>,
    current: RawDocumentBuf,
}

impl List {
    pub(super) fn of(documents: Vec<RawDocumentBuf>) -> Self {
        Self { documents: documents.into_iter(), current: RawDocumentBuf::new() }
    }

    /// The documents of an array. Returns `None` if it has something else.
    pub(super) fn of_array(array: &RawArrayBuf) -> Option<Self> {
        let documents = array.into_iter().map(|item| match item {
            Ok(RawBsonRef::Document(document)) => Some(document.to_owned()),
            Ok(_) | Err(_) => None,
        });
        documents.collect::<Option<Vec<_>>>().map(Self::of)
    }
}

impl Documents for List {
    fn advance(&mut self) -> std::result::Result<bool, Failure> {
        let Some(next) = self.documents.next() else { return Ok(false) };
        self.current = next;
        Ok(true)
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }
}
