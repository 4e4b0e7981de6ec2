//! Sessions as scripts use them: an object with a function for each thing that a session does.

use std::cell::RefCell;
use std::rc::Rc;

use cairndb::bson::{Document, RawDocument};
use rquickjs::function::IntoJsFunc;
use rquickjs::{Ctx, Function, Object, Result, Value};

use crate::failure::{Exit, Failure};
use crate::script::answer::{shown, told};
use crate::script::shared::Shared;
use crate::script::to_bson;
use crate::script::to_script::{Numbers, Reader};
use crate::store::StoreSession;

/// A session that functions share. It is `None` once it was ended.
type Held = Rc<RefCell<Option<Box<dyn StoreSession>>>>;

/// The object of a new session.
pub(super) fn start_session<'js>(
    ctx: &Ctx<'js>,
    makers: &Object<'js>,
    shared: &Rc<Shared>,
) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let session: Held = match shared.start_session() {
        Ok(session) => Rc::new(RefCell::new(Some(session))),
        Err(failure) => {
            object.set("failure", told(ctx, makers, &failure)?)?;
            return Ok(object);
        }
    };
    let own = Rc::clone(&session);
    set(&object, "id", move |ctx: Ctx<'js>, makers: Object<'js>| {
        let id = own.borrow().as_ref().map(|session| session.id()).unwrap_or_default();
        shown(&ctx, &makers, &id)
    })?;
    let own = Rc::clone(&session);
    set(&object, "begin", move |ctx: Ctx<'js>, makers: Object<'js>, options: Value<'js>| {
        let options = to_bson::document(&ctx, &options)?;
        let options = Document::try_from(&*options).unwrap_or_default();
        answer(&ctx, &makers, within(&own, |session| session.begin(&options)))
    })?;
    let own = Rc::clone(&session);
    set(&object, "commit", move |ctx: Ctx<'js>, makers: Object<'js>| {
        answer(&ctx, &makers, within(&own, |session| session.commit()))
    })?;
    let own = Rc::clone(&session);
    set(&object, "abort", move |ctx: Ctx<'js>, makers: Object<'js>| {
        answer(&ctx, &makers, within(&own, |session| session.abort()))
    })?;
    statements(ctx, &object, &session, shared)?;
    let own = Rc::clone(&session);
    set(&object, "end", move || drop(own.take()))?;
    Ok(object)
}

/// The functions that run commands in the session.
fn statements<'js>(ctx: &Ctx<'js>, object: &Object<'js>, session: &Held, shared: &Rc<Shared>) -> Result<()> {
    let own = Rc::clone(session);
    let run = move |ctx: Ctx<'js>, makers: Object<'js>, database: String, command: Value<'js>| {
        let command = to_bson::document(&ctx, &command)?;
        let answer = Object::new(ctx.clone())?;
        match within(&own, |session| session.run(&database, command)) {
            Ok(reply) => answer.set("reply", shown(&ctx, &makers, &reply)?)?,
            Err(failure) => answer.set("failure", told(&ctx, &makers, &failure)?)?,
        }
        Ok::<_, rquickjs::Error>(answer)
    };
    object.set("run", Function::new(ctx.clone(), run)?)?;
    let (own, shared) = (Rc::clone(session), Rc::clone(shared));
    let open = move |ctx: Ctx<'js>, makers: Object<'js>, database: String, command: Value<'js>| {
        let command = to_bson::document(&ctx, &command)?;
        let answer = Object::new(ctx.clone())?;
        match within(&own, |session| session.open(&database, command)) {
            Ok(number) => read_by(&ctx, &answer, Cursor { session: Rc::clone(&own), number }, &shared)?,
            Err(failure) => answer.set("failure", told(&ctx, &makers, &failure)?)?,
        }
        Ok::<_, rquickjs::Error>(answer)
    };
    object.set("open", Function::new(ctx.clone(), open)?)
}

/// A cursor of a session.
struct Cursor {
    session: Held,
    number: u32,
}

/// The functions by which a script reads a cursor, as those of a cursor without a session.
fn read_by<'js>(ctx: &Ctx<'js>, answer: &Object<'js>, cursor: Cursor, shared: &Rc<Shared>) -> Result<()> {
    let failure: Rc<RefCell<Option<Failure>>> = Rc::default();
    let (failed, shared) = (Rc::clone(&failure), Rc::clone(shared));
    let next = move |ctx: Ctx<'js>, makers: Object<'js>| {
        let read = |document: &RawDocument| {
            shared.note_read(document);
            Reader { ctx: &ctx, makers: &makers, numbers: Numbers::Stored }.document(document)
        };
        match within(&cursor.session, |session| session.next(cursor.number)) {
            Ok(document) => document.as_deref().map(read).transpose(),
            Err(found) => {
                *failed.borrow_mut() = Some(found);
                Ok(None)
            }
        }
    };
    answer.set("next", Function::new(ctx.clone(), next)?)?;
    answer.set("isOpen", Function::new(ctx.clone(), || false)?)?;
    let why = move |ctx: Ctx<'js>, makers: Object<'js>| {
        let failure = failure.take();
        failure.map(|failure| told(&ctx, &makers, &failure)).transpose()
    };
    answer.set("failed", Function::new(ctx.clone(), why)?)
}

fn within<R>(
    session: &Held,
    verb: impl FnOnce(&mut dyn StoreSession) -> std::result::Result<R, Failure>,
) -> std::result::Result<R, Failure> {
    // A script may have put a function of its own in place of one that is called while a value is read.
    match session.try_borrow_mut().ok().as_deref_mut() {
        Some(Some(session)) => verb(&mut **session),
        Some(None) => Err(Failure::new(Exit::Failed, "the session has ended")),
        None => Err(Failure::new(Exit::Failed, "the session is in use")),
    }
}

fn answer<'js>(
    ctx: &Ctx<'js>,
    makers: &Object<'js>,
    done: std::result::Result<(), Failure>,
) -> Result<Object<'js>> {
    let answer = Object::new(ctx.clone())?;
    if let Err(failure) = done {
        answer.set("failure", told(ctx, makers, &failure)?)?;
    }
    Ok(answer)
}

fn set<'js, P>(object: &Object<'js>, name: &str, function: impl IntoJsFunc<'js, P> + 'js) -> Result<()> {
    object.set(name, Function::new(object.ctx().clone(), function)?)
}
