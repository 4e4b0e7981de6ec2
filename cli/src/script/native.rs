//! The functions that the tool gives to its scripts: commands, output, and little else. There is none for files, processes
//! or the network, but for the scripts that `load` reads.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, RawBsonRef, Uuid};
use formats::parse::json_value;
use query::code::Code;
use rquickjs::{Ctx, Exception, Function, Object, Result, Value};

use crate::failure::Failure;
use crate::output::Written;
use crate::script::answer::{raw, shown, told};
use crate::script::evaluate::run_file;
use crate::script::sessions::start_session;
use crate::script::shared::{Ended, Shared};
use crate::script::to_bson;
use crate::script::to_script::{Numbers, Reader};
use crate::store::Documents;

/// The time of one sleep: a signal is noticed after it.
const NAP: Duration = Duration::from_millis(20);
/// The longest that a cursor waits at once, in seconds.
const WAIT_MAX: f64 = 3600.0;

/// The object `native` of the scripts in this folder.
pub(super) fn functions<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    commands(ctx, &native, shared)?;
    output(ctx, &native, shared)?;
    values(ctx, &native)?;
    Ok(native)
}

fn commands<'js>(ctx: &Ctx<'js>, native: &Object<'js>, shared: &Rc<Shared>) -> Result<()> {
    let own = Rc::clone(shared);
    let run = move |ctx: Ctx<'js>, makers: Object<'js>, database: String, command: Value<'js>| {
        let command = to_bson::document(&ctx, &command)?;
        let answer = Object::new(ctx.clone())?;
        match own.run(&database, command) {
            Ok(reply) => answer.set("reply", shown(&ctx, &makers, &reply)?)?,
            Err(failure) => answer.set("failure", told(&ctx, &makers, &failure)?)?,
        }
        Ok::<_, rquickjs::Error>(answer)
    };
    native.set("run", Function::new(ctx.clone(), run)?)?;
    let own = Rc::clone(shared);
    let open =
        move |ctx: Ctx<'js>, makers: Object<'js>, database: String, command: Value<'js>, waits: f64| {
            let command = to_bson::document(&ctx, &command)?;
            let answer = Object::new(ctx.clone())?;
            match own.stream(&database, command) {
                Ok(documents) => {
                    let waits = Duration::from_secs_f64((waits / 1000.0).clamp(0.0, WAIT_MAX));
                    let cursor = Rc::new(Opened {
                        documents: RefCell::new(documents),
                        waits,
                        failure: RefCell::new(None),
                    });
                    answer.set("next", next(&ctx, Rc::clone(&cursor), Rc::clone(&own))?)?;
                    answer.set("isOpen", is_open(&ctx, Rc::clone(&cursor))?)?;
                    answer.set("failed", failed(&ctx, cursor)?)?;
                }
                Err(failure) => answer.set("failure", told(&ctx, &makers, &failure)?)?,
            }
            Ok::<_, rquickjs::Error>(answer)
        };
    native.set("open", Function::new(ctx.clone(), open)?)?;
    let own = Rc::clone(shared);
    let start = move |ctx: Ctx<'js>, makers: Object<'js>| start_session(&ctx, &makers, &own);
    native.set("startSession", Function::new(ctx.clone(), start)?)?;
    let name = shared.store_name.clone();
    native.set("storeName", Function::new(ctx.clone(), move || name.clone())?)?;
    let database = shared.database.clone();
    native.set("database", Function::new(ctx.clone(), move || database.clone())?)
}

/// A cursor that a script reads.
struct Opened {
    documents: RefCell<Box<dyn Documents>>,
    /// The time that each call waits for a document, if it follows a collection.
    waits: Duration,
    /// The reason why it has ended early.
    failure: RefCell<Option<Failure>>,
}

/// A function that gives a cursor's next document, and nothing at its end, however it ends. It owns the cursor, which ends with
/// it.
fn next<'js>(ctx: &Ctx<'js>, cursor: Rc<Opened>, shared: Rc<Shared>) -> Result<Function<'js>> {
    let step = move |ctx: Ctx<'js>, makers: Object<'js>| {
        // A script may have put a function of its own in place of `Date`, which is called while a document is read.
        let Ok(mut documents) = cursor.documents.try_borrow_mut() else {
            return Err(Exception::throw_message(&ctx, "the cursor is being read"));
        };
        match documents.advance_within(cursor.waits) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let document = documents.current();
                let read =
                    Reader { ctx: &ctx, makers: &makers, numbers: Numbers::Stored }.document(document)?;
                shared.note_read(document);
                Ok(Some(read))
            }
            Err(failure) => {
                *cursor.failure.borrow_mut() = Some(failure);
                Ok(None)
            }
        }
    };
    Function::new(ctx.clone(), step)
}

/// A function that says whether another document may come after the last one that there is now.
fn is_open<'js>(ctx: &Ctx<'js>, cursor: Rc<Opened>) -> Result<Function<'js>> {
    Function::new(ctx.clone(), move || {
        cursor.documents.try_borrow().is_ok_and(|documents| documents.is_following())
    })
}

/// A function that says why the cursor has ended early, if it has.
fn failed<'js>(ctx: &Ctx<'js>, cursor: Rc<Opened>) -> Result<Function<'js>> {
    let failed = move |ctx: Ctx<'js>, makers: Object<'js>| {
        let failure = cursor.failure.take();
        failure.map(|failure| told(&ctx, &makers, &failure)).transpose()
    };
    Function::new(ctx.clone(), failed)
}

fn output<'js>(ctx: &Ctx<'js>, native: &Object<'js>, shared: &Rc<Shared>) -> Result<()> {
    let own = Rc::clone(shared);
    let print = move |ctx: Ctx<'js>, text: Value<'js>| {
        let text = to_bson::text(&ctx, &text)?;
        match own.write(&text) {
            Ok(Written::Whole) => {}
            Ok(Written::NotWanted) => own.end(Ended::NotWanted),
            Err(failure) => own.end(Ended::Failed(failure)),
        }
        Ok::<_, rquickjs::Error>(own.is_ended())
    };
    native.set("print", Function::new(ctx.clone(), print)?)?;
    let is_colored = shared.look.is_colored;
    native.set("isColored", Function::new(ctx.clone(), move || is_colored)?)?;
    let own = Rc::clone(shared);
    native.set("exit", Function::new(ctx.clone(), move |code: i32| own.end(Ended::Exit(code)))?)?;
    let own = Rc::clone(shared);
    let sleep = move |milliseconds: f64| {
        let end = Instant::now() + Duration::from_secs_f64((milliseconds / 1000.0).clamp(0.0, 1e9));
        while Instant::now() < end && !own.is_to_stop() {
            std::thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
        }
    };
    native.set("sleep", Function::new(ctx.clone(), sleep)?)?;
    let own = Rc::clone(shared);
    let load = move |ctx: Ctx<'js>, path: String| {
        let signals = own.signals.borrow().clone();
        run_file(&ctx, std::path::Path::new(&path), &signals)
    };
    native.set("load", Function::new(ctx.clone(), load)?)
}

fn values<'js>(ctx: &Ctx<'js>, native: &Object<'js>) -> Result<()> {
    let set = |name: &str, function: Result<Function<'js>>| native.set(name, function?);
    set("objectId", Function::new(ctx.clone(), || ObjectId::new().to_hex()))?;
    set("uuid", Function::new(ctx.clone(), || Uuid::new().to_string().replace('-', "")))?;
    set("version", Function::new(ctx.clone(), || env!("CARGO_PKG_VERSION")))?;
    set("decimal", Function::new(ctx.clone(), |text: String| to_bson::decimal_text(&text)))?;
    set("codeName", Function::new(ctx.clone(), |code: i32| Code::of(code).name().into_owned()))?;
    let size = |ctx: Ctx<'js>, value: Value<'js>| {
        to_bson::document(&ctx, &value).map(|document| document.as_bytes().len())
    };
    set("size", Function::new(ctx.clone(), size))?;
    let text = |ctx: Ctx<'js>, base64: String| {
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, base64);
        bytes
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| Exception::throw_type(&ctx, &error.to_string()))
    };
    set("text", Function::new(ctx.clone(), text))?;
    let parse = |ctx: Ctx<'js>, makers: Object<'js>, text: String, is_relaxed: bool| {
        let answer = Object::new(ctx.clone())?;
        match json_value(&text) {
            Ok(value) => {
                let mut one = Document::new();
                one.insert("value", value);
                let one = raw(&ctx, &one)?;
                let numbers = if is_relaxed { Numbers::Plain } else { Numbers::Typed };
                let reader = Reader { ctx: &ctx, makers: &makers, numbers };
                let value = one.get("value").ok().flatten().unwrap_or(RawBsonRef::Null);
                answer.set("value", reader.value(value)?)?;
            }
            Err(error) => answer.set("failure", format!("it is not Extended JSON: {error}"))?,
        }
        Ok::<_, rquickjs::Error>(answer)
    };
    set("parse", Function::new(ctx.clone(), parse))
}
