//! The result of an expression: a value of the document, a computed value, or a missing value.
//!
//! Values of the document are borrowed, and computed values are shared, so that variables, branches and array
//! elements pass values on without copying them. Scalars are always held in place. The invariant: no value that is
//! built here has more than [`VALUE_BYTES_MAX`] bytes, and its bytes are reserved with the operation for as long as
//! it lives.

use std::sync::Arc;

use bson::raw::CStr;
use bson::{DateTime, Decimal128, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::number::Number;

use crate::expression::error::Error;
use crate::operation::{Interruption, OperationContext, Reservation};
use crate::value::{content_bytes, describe, is_true};

/// The most bytes of a value that an expression builds: the limit of a document.
pub(super) const VALUE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A value, or a missing value.
#[derive(Clone, Debug)]
pub(super) enum Value<'d> {
    /// A field that does not exist, or `$$REMOVE`.
    Missing,
    /// A value in the document, or a scalar.
    Borrowed(RawBsonRef<'d>),
    /// A computed value that is not a scalar: a text, array, object or the like.
    Shared(Arc<ComputedValue>),
}

/// A computed value, and the reservation of its memory.
#[derive(Debug)]
pub(super) struct ComputedValue {
    value: RawBson,
    /// `None` until an operation reserves it.
    reservation: Option<Reservation>,
}

impl From<RawBson> for ComputedValue {
    fn from(value: RawBson) -> Self {
        Self { value, reservation: None }
    }
}

impl<'d> Value<'d> {
    pub(super) const NULL: Self = Self::Borrowed(RawBsonRef::Null);
    pub(super) const TRUE: Self = Self::Borrowed(RawBsonRef::Boolean(true));
    pub(super) const FALSE: Self = Self::Borrowed(RawBsonRef::Boolean(false));

    /// A computed value.
    pub(super) fn computed(value: RawBson) -> Self {
        match scalar(value.as_raw_bson_ref()) {
            Some(scalar) => Self::Borrowed(scalar),
            None => Self::Shared(Arc::new(value.into())),
        }
    }

    /// A copy that borrows from no document.
    pub(super) fn copied(value: RawBsonRef<'_>) -> Self {
        match scalar(value) {
            Some(scalar) => Self::Borrowed(scalar),
            None => Self::Shared(Arc::new(RawBson::from(value).into())),
        }
    }

    /// A value that may be missing.
    pub(super) fn found(value: Option<RawBsonRef<'d>>) -> Self {
        value.map_or(Self::Missing, Self::Borrowed)
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Shared(Arc::new(RawBson::String(text.into()).into()))
    }

    pub(super) fn boolean(value: bool) -> Self {
        Self::Borrowed(RawBsonRef::Boolean(value))
    }

    pub(super) fn int(value: i32) -> Self {
        Self::Borrowed(RawBsonRef::Int32(value))
    }

    pub(super) fn long(value: i64) -> Self {
        Self::Borrowed(RawBsonRef::Int64(value))
    }

    /// The narrowest integer type: an int32 if the value fits.
    pub(super) fn integer(value: i64) -> Self {
        i32::try_from(value).map_or(Self::long(value), Self::int)
    }

    /// A length or a position.
    pub(super) fn count(value: usize) -> Self {
        Self::integer(i64::try_from(value).unwrap_or(i64::MAX))
    }

    pub(super) fn double(value: f64) -> Self {
        Self::Borrowed(RawBsonRef::Double(value))
    }

    pub(super) fn decimal(value: Decimal128) -> Self {
        Self::Borrowed(RawBsonRef::Decimal128(value))
    }

    pub(super) fn date(millis: i64) -> Self {
        Self::Borrowed(RawBsonRef::DateTime(DateTime::from_millis(millis)))
    }

    /// The value. Returns `None` if it is missing.
    pub(super) fn get(&self) -> Option<RawBsonRef<'_>> {
        match self {
            Self::Missing => None,
            Self::Borrowed(value) => Some(*value),
            Self::Shared(held) => Some(held.value.as_raw_bson_ref()),
        }
    }

    /// The value, or null if it is missing.
    pub(super) fn or_null(&self) -> RawBsonRef<'_> {
        self.get().unwrap_or(RawBsonRef::Null)
    }

    pub(super) fn into_raw(self) -> Option<RawBson> {
        match self {
            Self::Missing => None,
            Self::Borrowed(value) => Some(value.into()),
            Self::Shared(held) => {
                // The last owner gets the value; only a value that is still shared is copied.
                Some(Arc::try_unwrap(held).map_or_else(|held| held.value.clone(), |held| held.value))
            }
        }
    }

    pub(super) fn into_static(self) -> Value<'static> {
        match self {
            Self::Missing => Value::Missing,
            Self::Borrowed(value) => Value::copied(value),
            // A computed value borrows from no document already.
            Self::Shared(held) => Value::Shared(held),
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// Whether the value is missing, null or undefined: most operators then return null.
    pub(super) fn is_nullish(&self) -> bool {
        matches!(self.or_null(), RawBsonRef::Null | RawBsonRef::Undefined)
    }

    pub(super) fn is_true(&self) -> bool {
        self.get().is_some_and(is_true)
    }

    pub(super) fn is_number(&self) -> bool {
        Number::of(self.or_null()).is_some()
    }

    /// The value of a field. It is missing if this is not an object.
    pub(super) fn field(&self, name: &str) -> Value<'d> {
        match self {
            Self::Missing => Value::Missing,
            Self::Borrowed(value) => {
                Value::found(value.as_document().and_then(|document| field(document, name)))
            }
            Self::Shared(held) => {
                let found = held.value.as_document().and_then(|document| field(document, name));
                // A part cannot keep the whole alive, so it is copied.
                found.map_or(Value::Missing, Value::copied)
            }
        }
    }

    /// The elements of an array, as values that outlive it. Returns `None` if this is not an array.
    pub(super) fn elements(&self) -> Option<Vec<Value<'d>>> {
        match self {
            Self::Missing => None,
            Self::Borrowed(value) => {
                Some(crate::value::elements(value.as_array()?).map(Value::Borrowed).collect())
            }
            Self::Shared(held) => {
                // Elements of a computed array are copied: each must live when the array is gone.
                Some(crate::value::elements(held.value.as_array()?).map(Value::copied).collect())
            }
        }
    }

    /// Reserves the value's bytes for as long as it lives, and counts them as steps, unless both was done already.
    pub(super) fn hold(&mut self, operation: &OperationContext) -> Result<(), Interruption> {
        let Self::Shared(held) = self else { return Ok(()) };
        // A value that is shared was reserved when it was made.
        if let Some(held) = Arc::get_mut(held).filter(|held| held.reservation.is_none()) {
            let bytes = content_bytes(held.value.as_raw_bson_ref());
            // A builder counts each of its parts. A text is built in one piece.
            operation.pass_within(bytes)?;
            held.reservation = Some(operation.reserve(bytes)?);
        }
        Ok(())
    }

    /// The name of the value's type.
    pub(super) fn type_name(&self) -> &'static str {
        self.get().map_or("missing", type_name)
    }

    /// About how many bytes the value uses in memory.
    pub(super) fn content_bytes(&self) -> usize {
        self.get().map_or(0, content_bytes)
    }

    /// The value in an error's text.
    pub(super) fn describe(&self) -> String {
        self.get().map_or_else(|| "nothing".to_owned(), describe)
    }
}

/// About how many bytes a list of the elements of `array` uses.
pub(super) fn elements_bytes(array: &Value<'_>, count: usize) -> usize {
    let slots = count.saturating_mul(size_of::<Value<'_>>());
    match array {
        Value::Missing | Value::Borrowed(_) => slots,
        // Each is a value of its own, with its own buffer.
        Value::Shared(_) => slots + count.saturating_mul(size_of::<ComputedValue>()) + array.content_bytes(),
    }
}

/// The first field of a name. Returns `None` also if the document is malformed before it.
pub(super) fn field<'d>(document: &'d RawDocument, name: &str) -> Option<RawBsonRef<'d>> {
    document.get(name).ok().flatten()
}

/// The fields of a document, up to the first malformed one.
pub(super) fn fields(document: &RawDocument) -> impl Iterator<Item = (&CStr, RawBsonRef<'_>)> {
    document.iter().map_while(Result::ok)
}

/// The name that MongoDB gives a type.
pub(super) fn type_name(value: RawBsonRef<'_>) -> &'static str {
    match value {
        RawBsonRef::Double(_) => "double",
        RawBsonRef::String(_) => "string",
        RawBsonRef::Array(_) => "array",
        RawBsonRef::Document(_) => "object",
        RawBsonRef::Boolean(_) => "bool",
        RawBsonRef::Null => "null",
        RawBsonRef::RegularExpression(_) => "regex",
        RawBsonRef::JavaScriptCode(_) => "javascript",
        RawBsonRef::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        RawBsonRef::Int32(_) => "int",
        RawBsonRef::Int64(_) => "long",
        RawBsonRef::Timestamp(_) => "timestamp",
        RawBsonRef::Binary(_) => "binData",
        RawBsonRef::ObjectId(_) => "objectId",
        RawBsonRef::DateTime(_) => "date",
        RawBsonRef::Symbol(_) => "symbol",
        RawBsonRef::Decimal128(_) => "decimal",
        RawBsonRef::Undefined => "undefined",
        RawBsonRef::MaxKey => "maxKey",
        RawBsonRef::MinKey => "minKey",
        RawBsonRef::DbPointer(_) => "dbPointer",
    }
}

/// An array that is being built, up to the limit of values.
#[derive(Debug)]
pub(super) struct ArrayBuilder {
    operator: &'static str,
    array: RawArrayBuf,
    reservation: Reservation,
}

impl ArrayBuilder {
    pub(super) fn new(operator: &'static str, operation: &OperationContext) -> Self {
        Self { operator, array: RawArrayBuf::new(), reservation: Reservation::of(operation) }
    }

    pub(super) fn push(&mut self, value: RawBsonRef<'_>) -> Result<(), Error> {
        let bytes = self.array.as_bytes().len().saturating_add(content_bytes(value));
        // In this order: a value that is too large has an error of its own, whatever memory the operation has
        // left.
        check_bytes(self.operator, bytes)?;
        self.reservation.operation().step()?;
        self.reservation.grow_by_doubling(bytes)?;
        self.array.push(value);
        Ok(())
    }

    pub(super) fn finish<'d>(self) -> Value<'d> {
        Value::Shared(Arc::new(ComputedValue {
            value: RawBson::Array(self.array),
            reservation: Some(self.reservation),
        }))
    }

    /// An array of all the values.
    pub(super) fn collect<'d, 'v>(
        operator: &'static str,
        operation: &OperationContext,
        values: impl IntoIterator<Item = RawBsonRef<'v>>,
    ) -> Result<Value<'d>, Error> {
        let mut builder = Self::new(operator, operation);
        for value in values {
            builder.push(value)?;
        }
        Ok(builder.finish())
    }
}

/// An object that is being built, up to the limit of values.
#[derive(Debug)]
pub(super) struct ObjectBuilder {
    operator: &'static str,
    document: RawDocumentBuf,
    reservation: Reservation,
}

impl ObjectBuilder {
    pub(super) fn new(operator: &'static str, operation: &OperationContext) -> Self {
        Self { operator, document: RawDocumentBuf::new(), reservation: Reservation::of(operation) }
    }

    /// Adds a field; a missing value adds none.
    pub(super) fn append(&mut self, name: &CStr, value: &Value<'_>) -> Result<(), Error> {
        let Some(value) = value.get() else { return Ok(()) };
        // The type and the zero byte after the name are within the margin of `content_bytes`.
        let bytes = self.document.as_bytes().len() + name.len();
        let bytes = bytes.saturating_add(content_bytes(value));
        check_bytes(self.operator, bytes)?;
        self.reservation.operation().step()?;
        self.reservation.grow_by_doubling(bytes)?;
        self.document.append(name, value);
        Ok(())
    }

    pub(super) fn finish<'d>(self) -> Value<'d> {
        Value::Shared(Arc::new(ComputedValue {
            value: RawBson::Document(self.document),
            reservation: Some(self.reservation),
        }))
    }

    pub(super) fn into_document(self) -> RawDocumentBuf {
        self.document
    }
}

/// Rejects a value of more than [`VALUE_BYTES_MAX`] bytes.
pub(super) fn check_bytes(operator: &'static str, bytes: usize) -> Result<(), Error> {
    if bytes > VALUE_BYTES_MAX { Err(Error::TooLarge { operator, limit: VALUE_BYTES_MAX }) } else { Ok(()) }
}

/// A scalar without the lifetime that it was borrowed for. Returns `None` for values that refer to bytes of a
/// document.
fn scalar(value: RawBsonRef<'_>) -> Option<RawBsonRef<'static>> {
    Some(match value {
        RawBsonRef::Double(value) => RawBsonRef::Double(value),
        RawBsonRef::Boolean(value) => RawBsonRef::Boolean(value),
        RawBsonRef::Null => RawBsonRef::Null,
        RawBsonRef::Int32(value) => RawBsonRef::Int32(value),
        RawBsonRef::Int64(value) => RawBsonRef::Int64(value),
        RawBsonRef::Timestamp(value) => RawBsonRef::Timestamp(value),
        RawBsonRef::ObjectId(value) => RawBsonRef::ObjectId(value),
        RawBsonRef::DateTime(value) => RawBsonRef::DateTime(value),
        RawBsonRef::Decimal128(value) => RawBsonRef::Decimal128(value),
        RawBsonRef::Undefined => RawBsonRef::Undefined,
        RawBsonRef::MaxKey => RawBsonRef::MaxKey,
        RawBsonRef::MinKey => RawBsonRef::MinKey,
        RawBsonRef::String(_)
        | RawBsonRef::Array(_)
        | RawBsonRef::Document(_)
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::JavaScriptCode(_)
        | RawBsonRef::JavaScriptCodeWithScope(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::Symbol(_)
        | RawBsonRef::DbPointer(_) => return None,
    })
}

/// The time of a date, a timestamp or an `ObjectId`, in milliseconds since 1970. Returns `None` for every other value.
pub(super) fn to_millis(value: RawBsonRef<'_>) -> Option<i64> {
    // Timestamps and object ids have whole seconds.
    let seconds = |seconds: u32| i64::from(seconds) * 1_000;
    value
        .as_datetime()
        .map(DateTime::timestamp_millis)
        .or_else(|| value.as_timestamp().map(|timestamp| seconds(timestamp.time)))
        .or_else(|| value.as_object_id().map(|id| id.timestamp().timestamp_millis()))
}
