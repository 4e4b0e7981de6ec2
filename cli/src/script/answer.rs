//! The answers of the functions that the tool gives to its scripts: documents as values, and failures.

use cairndb::bson::{Document, RawDocumentBuf};
use query::code::Code;
use rquickjs::{Ctx, Exception, Object, Result, Value};

use crate::failure::{Exit, Failure};
use crate::script::to_script::{Numbers, Reader};

pub(super) fn shown<'js>(ctx: &Ctx<'js>, makers: &Object<'js>, document: &Document) -> Result<Value<'js>> {
    Reader { ctx, makers, numbers: Numbers::Stored }.document(&raw(ctx, document)?)
}

pub(super) fn raw(ctx: &Ctx<'_>, document: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(|error| Exception::throw_message(ctx, &error.to_string()))
}

/// A failure as `errors.js` makes an error of it.
pub(super) fn told<'js>(ctx: &Ctx<'js>, makers: &Object<'js>, failure: &Failure) -> Result<Object<'js>> {
    let told = Object::new(ctx.clone())?;
    told.set("message", &failure.message)?;
    if let Some(code) = failure.code {
        told.set("code", code)?;
        told.set("codeName", &*Code::of(code).name())?;
    }
    if matches!(failure.exit, Exit::Elsewhere | Exit::NoStore) {
        told.set("exit", failure.exit as i32)?;
    }
    if let Some(details) = &failure.details {
        told.set("reply", shown(ctx, makers, details)?)?;
    }
    Ok(told)
}
