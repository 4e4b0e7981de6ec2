//! Texts into values: an evaluation, with the promises that it waits for, and scripts from files.

use std::path::Path;

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Function, Value};

use crate::failure::Failure;
use crate::interruptible::Interruptible;
use crate::script::shared::{IS_TO_STOP, cairn};
use crate::signals::Signals;

/// The largest script.
const SCRIPT_BYTES_MAX: u64 = 64 << 20;

/// Evaluates a text, which errors name `name`, as the next part of one world.
pub(super) fn run_text<'js>(ctx: &Ctx<'js>, name: &str, text: &str) -> rquickjs::Result<Value<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name.replace('\0', "?"));
    // Only where the word occurs: it makes the whole text asynchronous, and its value an object.
    options.promise = text.contains("await");
    let is_wrapped = options.promise;
    let value: Value = ctx.eval_with_options(text, options)?;
    let value = settled(ctx, value)?;
    let value = match value.as_object() {
        Some(wrapper) if is_wrapped => settled(ctx, wrapper.get("value")?)?,
        Some(_) | None => value,
    };
    // The work that was started and not waited for.
    work_off(ctx, &|| false)?;
    Ok(value)
}

/// The value of a promise, once nothing is left that could settle it.
fn settled<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> rquickjs::Result<Value<'js>> {
    let Some(promise) = value.as_promise() else { return Ok(value) };
    work_off(ctx, &|| promise.state() != PromiseState::Pending)?;
    match promise.result() {
        Some(result) => result,
        None => Err(rquickjs::Exception::throw_message(ctx, "a promise that is waited for is never settled")),
    }
}

/// Runs what promises have begun, until there is nothing more, `is_done` says so, or scripts are to end: one such step may begin the
/// next for ever, and be too short for the engine to look at signals.
fn work_off(ctx: &Ctx<'_>, is_done: &dyn Fn() -> bool) -> rquickjs::Result<()> {
    let is_to_stop: Function<'_> = cairn(ctx)?.get(IS_TO_STOP)?;
    while !is_done() && !is_to_stop.call::<_, bool>(())? && ctx.execute_pending_job() {}
    Ok(())
}

/// The globals by which a script of mongosh finds the files beside it.
const FILE_NAMES: [&str; 2] = ["__filename", "__dirname"];

/// Runs a script from a file. Returns why it could not be read.
pub(super) fn run_file(ctx: &Ctx<'_>, path: &Path, signals: &Signals) -> rquickjs::Result<Option<String>> {
    match read_script(path, signals) {
        Ok(text) => run_script(ctx, path, &text).map(|()| None),
        Err(failure) => Ok(Some(failure.message)),
    }
}

/// Runs the text of a script, which finds itself and the files beside it by two globals meanwhile.
pub(super) fn run_script(ctx: &Ctx<'_>, path: &Path, text: &str) -> rquickjs::Result<()> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute.parent().unwrap_or(&absolute);
    let globals = ctx.globals();
    let mut outer = Vec::new();
    for (name, own) in FILE_NAMES.into_iter().zip([&*absolute, folder]) {
        // A script that loads another gets its own names back.
        outer.push((name, globals.get::<_, Value<'_>>(name)?));
        globals.set(name, own.display().to_string())?;
    }
    let ran = run_text(ctx, &path.display().to_string(), text);
    for (name, value) in outer {
        if value.is_undefined() { globals.remove(name)? } else { globals.set(name, value)? }
    }
    ran.map(drop)
}

/// The text of a script, without a first line for the system's loader.
pub(crate) fn read_script(path: &Path, signals: &Signals) -> Result<String, Failure> {
    use std::io::Read as _;

    let failed = |error: std::io::Error| Failure::io(&path.display().to_string(), &error);
    let mut text = String::new();
    let file = Interruptible::open(path, signals).map_err(failed)?;
    file.take(SCRIPT_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > SCRIPT_BYTES_MAX {
        return Err(Failure::usage(format!("{}: a script has at most 64 MiB", path.display())));
    }
    Ok(text)
}
