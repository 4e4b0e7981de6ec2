//! BSON as JavaScript's values, as MongoDB's driver for Node.js gives them to mongosh: int32 and double become numbers, int64
//! a `Long`. The order of fields is kept where JavaScript has another one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairndb::bson::{Bson, RawArray, RawBsonRef, RawDocument};
use rquickjs::object::Property;
use rquickjs::{Array, BigInt, Ctx, Exception, Function, IntoJs, Object, Result, Value};

use crate::script::to_bson::ORDER;

/// The milliseconds that a date of JavaScript can have.
const SCRIPT_DATES: std::ops::RangeInclusive<i64> = -8_640_000_000_000_000..=8_640_000_000_000_000;

/// Makes JavaScript's values by the functions in `makers`, which `values.js` defines.
pub(crate) struct Reader<'a, 'js> {
    pub(crate) ctx: &'a Ctx<'js>,
    pub(crate) makers: &'a Object<'js>,
    pub(crate) numbers: Numbers,
}

/// The form of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// An int64 keeps its type, the others are JavaScript's, as mongosh reads what is stored.
    Stored,
    /// All are JavaScript's, as in relaxed Extended JSON.
    Plain,
    /// All keep their types.
    Typed,
}

impl<'js> Reader<'_, 'js> {
    pub(crate) fn document(&self, document: &RawDocument) -> Result<Value<'js>> {
        let object = Object::new(self.ctx.clone())?;
        let mut names = Vec::new();
        let mut has_positions = false;
        for field in document {
            let (name, value) = field.map_err(|error| self.damaged(&error))?;
            let name = name.as_str();
            let value = self.value(value)?;
            // Names that are whole numbers come first in every object of JavaScript.
            has_positions |= name.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
            names.push(name);
            if name == "__proto__" {
                // Set in the usual way, it would be the object's prototype.
                object.prop(name, Property::from(value).writable().enumerable().configurable())?;
            } else {
                object.set(name, value)?;
            }
        }
        if has_positions {
            object.prop(ORDER, Property::from(names).writable().configurable())?;
        }
        Ok(object.into_value())
    }

    fn array(&self, array: &RawArray) -> Result<Value<'js>> {
        let out = Array::new(self.ctx.clone())?;
        for (position, value) in array.into_iter().enumerate() {
            out.set(position, self.value(value.map_err(|error| self.damaged(&error))?)?)?;
        }
        Ok(out.into_value())
    }

    pub(crate) fn value(&self, value: RawBsonRef<'_>) -> Result<Value<'js>> {
        let ctx = self.ctx;
        match value {
            RawBsonRef::Double(number) if self.numbers == Numbers::Typed => {
                self.maker("Double")?.call((number,))
            }
            RawBsonRef::Int32(number) if self.numbers == Numbers::Typed => {
                self.maker("Int32")?.call((number,))
            }
            RawBsonRef::Double(number) => number.into_js(ctx),
            RawBsonRef::Int32(number) => number.into_js(ctx),
            RawBsonRef::Int64(number) if self.numbers == Numbers::Plain => double(number).into_js(ctx),
            RawBsonRef::Int64(number) => self.maker("Long")?.call((BigInt::from_i64(ctx.clone(), number)?,)),
            RawBsonRef::String(text) => text.into_js(ctx),
            RawBsonRef::Document(document) => self.document(document),
            RawBsonRef::Array(array) => self.array(array),
            RawBsonRef::Boolean(flag) => flag.into_js(ctx),
            RawBsonRef::Null => Ok(Value::new_null(ctx.clone())),
            RawBsonRef::Undefined => Ok(Value::new_undefined(ctx.clone())),
            RawBsonRef::DateTime(date) if SCRIPT_DATES.contains(&date.timestamp_millis()) => {
                self.maker("Date")?.call((double(date.timestamp_millis()),))
            }
            RawBsonRef::DateTime(date) => {
                self.maker("Date")?.call((BigInt::from_i64(ctx.clone(), date.timestamp_millis())?,))
            }
            RawBsonRef::ObjectId(id) => {
                let id_object = Object::new_proto(ctx.clone(), Some(&self.makers.get("ObjectIdPrototype")?))?;
                id_object.prop("hex", Property::from(id.to_hex()).writable().configurable())?;
                Ok(id_object.into_value())
            }
            RawBsonRef::Decimal128(number) => self.maker("Decimal128")?.call((number.to_string(),)),
            RawBsonRef::Symbol(text) => self.maker("Symbol")?.call((text,)),
            RawBsonRef::JavaScriptCode(code) => self.maker("Code")?.call((code,)),
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                self.maker("Code")?.call((code.code, self.document(code.scope)?))
            }
            RawBsonRef::Binary(binary) => {
                let subtype = u32::from(u8::from(binary.subtype));
                self.maker("Binary")?.call((subtype, STANDARD.encode(binary.bytes)))
            }
            RawBsonRef::RegularExpression(expression) => {
                let (pattern, options) = (expression.pattern.as_str(), expression.options.as_str());
                self.maker("RegExp")?.call((pattern, options))
            }
            RawBsonRef::Timestamp(stamp) => self.maker("Timestamp")?.call((stamp.time, stamp.increment)),
            RawBsonRef::DbPointer(_) => {
                // The parts of this legacy type are public to serde alone.
                let pointer = Bson::try_from(value).map_err(|error| self.damaged(&error))?;
                pointer.to_string().into_js(ctx)
            }
            RawBsonRef::MinKey => self.maker("MinKey")?.call(()),
            RawBsonRef::MaxKey => self.maker("MaxKey")?.call(()),
        }
    }

    fn maker(&self, name: &str) -> Result<Function<'js>> {
        self.makers.get(name)
    }

    fn damaged(&self, error: &dyn std::fmt::Display) -> rquickjs::Error {
        Exception::throw_message(self.ctx, &format!("a document is damaged: {error}"))
    }
}

#[expect(clippy::cast_precision_loss, reason = "as JavaScript's numbers do")]
fn double(number: i64) -> f64 {
    number as f64
}
