//! The engine of scripts: QuickJS-NG with a limit of memory, ended by signals, and with nothing of the system but what
//! [`native`](crate::script::native) gives it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

use cairndb::bson::RawDocumentBuf;
use rquickjs::context::EvalOptions;
use rquickjs::{Context, Ctx, Function, Object, Runtime, Value};

use crate::failure::{Exit, Failure};
use crate::look::Look;
use crate::output::Output;
use crate::script::evaluate::{run_script, run_text};
use crate::script::native;
use crate::script::shared::{CAIRN, Ended, IS_TO_STOP, Shared, cairn};
use crate::script::statement::unclosed;
use crate::signals::Signals;
use crate::store::{Access, Documents, Store};

/// The stack that the engine's thread needs, and what scripts may use of it: the rest is for the engine's own functions.
const THREAD_STACK_BYTES: usize = 24 << 20;
const SCRIPT_STACK_BYTES: usize = 16 << 20;
/// The memory that scripts may have unless `--memory` says otherwise.
const MEMORY_BYTES: usize = 512 << 20;
/// The names of this folder's scripts in the stacks of errors begin with this.
const OWN: &str = "cairn:";
/// The property of an error that has the exit status of a store that cannot be reached.
const EXIT: &str = "\0exit";
/// Between the name of a text and how many lines are before it.
const LINES: &str = " after line ";
/// The message about what is open at the end.
const UNCLOSED: &str = "is never closed";
/// After the name of a text before which a parenthesis was put.
const IN_PARENTHESES: &str = " in parentheses";

/// In the order in which they need each other.
const PRELUDE: [(&str, &str); 10] = [
    ("values", include_str!("values.js")),
    ("inspect", include_str!("inspect.js")),
    ("errors", include_str!("errors.js")),
    ("ejson", include_str!("ejson.js")),
    ("cursor", include_str!("cursor.js")),
    ("collection", include_str!("collection.js")),
    ("bulk", include_str!("bulk.js")),
    ("database", include_str!("database.js")),
    ("session", include_str!("session.js")),
    ("language", include_str!("language.js")),
];

/// The memory that scripts may have.
pub(crate) fn memory(access: &Access) -> usize {
    access.memory.unwrap_or(MEMORY_BYTES)
}

/// The end of an evaluation without a result.
#[derive(Debug)]
pub(crate) enum Stopped {
    Ended(Ended),
    /// A signal came.
    Signal(Exit),
    /// An error that no script caught.
    Uncaught(Failure),
}

impl Stopped {
    /// The status that scripts asked for, if nothing failed.
    pub(crate) fn into_exit(self) -> Result<i32, Failure> {
        match self {
            Self::Ended(Ended::Exit(code)) => Ok(code),
            Self::Ended(Ended::NotWanted) => Ok(0),
            Self::Ended(Ended::Failed(failure)) | Self::Uncaught(failure) => Err(failure),
            Self::Signal(exit) => Err(Failure::new(exit, "interrupted")),
        }
    }
}

/// The store of scripts.
pub(crate) struct Target {
    pub(crate) store: Box<dyn Store>,
    /// The store as the user named it, without a password.
    pub(crate) store_name: String,
    /// The database that `db` means at first.
    pub(crate) database: String,
    /// Whether the bytes of the last document that was read are kept.
    pub(crate) keeps_read: bool,
    /// The look of answers.
    pub(crate) look: Look,
}

/// An engine with the shell's language.
pub(crate) struct Engine {
    // Dropped in this order: a runtime must outlive its contexts.
    context: Context,
    _runtime: Runtime,
    shared: Rc<Shared>,
    memory: usize,
}

impl Engine {
    /// Makes an engine whose scripts may use `memory` bytes. It is used within [`on_thread`].
    pub(crate) fn new(target: Target, memory: usize, signals: Signals) -> Result<Self, Failure> {
        let shared = Rc::new(Shared {
            store: RefCell::new(target.store),
            store_name: target.store_name,
            database: target.database,
            output: RefCell::new(Output::standard()?),
            look: target.look,
            ended: RefCell::new(None),
            signals: RefCell::new(signals),
            keeps_read: target.keeps_read,
            last_read: RefCell::new(None),
            rejected: RefCell::default(),
        });
        let unusable = |error: rquickjs::Error| {
            Failure::new(
                Exit::Failed,
                format!("the engine of scripts cannot be made with {memory} bytes of memory: {error}"),
            )
        };
        let runtime = Runtime::new().map_err(unusable)?;
        runtime.set_memory_limit(memory);
        runtime.set_max_stack_size(SCRIPT_STACK_BYTES);
        let own = Rc::clone(&shared);
        runtime.set_interrupt_handler(Some(Box::new(move || own.is_to_stop())));
        let own = Rc::clone(&shared);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(
            move |ctx, promise, reason, is_handled| {
                // A rejection that cannot be noted is an error of the engine, which the script meets as well.
                let _ = note_rejection(&own, &ctx, &promise, &reason, is_handled);
            },
        )));
        let context = Context::full(&runtime).map_err(unusable)?;
        let prepared = context.with(|ctx| prepare(&ctx, &shared).map_err(|error| uncaught(&ctx, &error)));
        // The preparation is a script too, which a signal ends.
        shared.signals.borrow().judge(prepared, "interrupted")?;
        Ok(Self { context, _runtime: runtime, shared, memory })
    }

    /// Evaluates a text, which errors name `name`, and hands its value on.
    pub(crate) fn evaluate<R>(
        &self,
        name: &str,
        text: &str,
        then: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Result<R, Stopped> {
        self.evaluated(name, text, then).map_err(|stopped| with_unclosed(stopped, name, text))
    }

    fn evaluated<R>(
        &self,
        name: &str,
        text: &str,
        then: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Result<R, Stopped> {
        self.attempt(|ctx| {
            let value = run_text(ctx, name, text)?;
            then(ctx, value)
        })
    }

    /// Evaluates a text that is one value: a document at the beginning of a statement would be a block.
    pub(crate) fn evaluate_value<R>(
        &self,
        name: &str,
        text: &str,
        then: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Result<R, Stopped> {
        let done = self.evaluated(&format!("{name}{IN_PARENTHESES}"), &format!("({text}\n)"), then);
        done.map_err(|stopped| with_unclosed(stopped, name, text))
    }

    /// Runs the text of a script that was read from a file.
    pub(crate) fn run_script(&self, path: &Path, text: &str) -> Result<(), Stopped> {
        let done = self.attempt(|ctx| run_script(ctx, path, text));
        done.map_err(|stopped| with_unclosed(stopped, &path.display().to_string(), text))
    }

    /// Calls a function of the shell's own scripts with texts.
    pub(crate) fn call<R>(
        &self,
        name: &str,
        argument: &str,
        then: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Result<R, Stopped> {
        self.attempt(|ctx| {
            let value = cairn(ctx)?.get::<_, Function>(name)?.call((argument,))?;
            then(ctx, value)
        })
    }

    fn attempt<R>(&self, work: impl for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<R>) -> Result<R, Stopped> {
        let done = self.context.with(|ctx| work(&ctx).map_err(|error| uncaught(&ctx, &error)));
        let done = done.map_err(|mut failure| {
            // Without memory there is none for an error either.
            if failure.message.ends_with("uncaught null") || failure.message.ends_with("out of memory") {
                // Writing to a string does not fail.
                let _ = write!(
                    failure.message,
                    ": out of memory, where scripts may have {} bytes (--memory)",
                    self.memory
                );
            }
            failure
        });
        let ended = self.shared.ended.borrow().clone();
        let signal = self.shared.signals.borrow().received();
        let stopped = ended.map(Stopped::Ended).or(signal.map(Stopped::Signal));
        if let Some(stopped) = stopped {
            self.shared.rejected.take();
            return Err(stopped);
        }
        // An error in a promise that nothing waits for is one that no script caught.
        let rejected = self.shared.rejected.take().into_iter().next();
        match (done, rejected) {
            (Ok(_), Some((_, failure))) => Err(Stopped::Uncaught(failure)),
            (done, _) => done.map_err(Stopped::Uncaught),
        }
    }

    /// Writes to where scripts print. Returns whether more is wanted.
    pub(crate) fn print(&self, bytes: &[u8]) -> Result<bool, Failure> {
        Ok(self.shared.output.borrow_mut().write(bytes)? == crate::output::Written::Whole)
    }

    /// Writes a text, which may have anything in it, as it is shown. Returns whether more is wanted.
    pub(crate) fn print_text(&self, text: &str) -> Result<bool, Failure> {
        self.print(self.shared.look.text(text).as_bytes())
    }

    /// Makes what was printed seen.
    pub(crate) fn flush(&self) -> Result<bool, Failure> {
        Ok(self.shared.output.borrow_mut().flush()? == crate::output::Written::Whole)
    }

    /// Whether scripts are to end, and what is printed of them.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.shared.is_to_stop()
    }

    /// The documents of a command.
    pub(crate) fn stream(
        &self,
        database: &str,
        command: RawDocumentBuf,
    ) -> Result<Box<dyn Documents>, Failure> {
        self.shared.stream(database, command)
    }

    /// The last document that was read, as it is stored, where that is kept.
    pub(crate) fn last_read(&self) -> Option<RawDocumentBuf> {
        self.shared.last_read.borrow().clone()
    }

    /// The signals that end scripts.
    pub(crate) fn signals(&self) -> Signals {
        self.shared.signals.borrow().clone()
    }

    /// After a signal has ended a statement: the next one runs again.
    pub(crate) fn renew(&self) {
        let mut signals = self.shared.signals.borrow_mut();
        signals.renew();
        self.shared.store.borrow_mut().use_token(&signals.token);
    }

    /// Makes durable what scripts have written.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        self.shared.store.borrow().sync()
    }
}

/// The result of a statement that is not JavaScript, as `show dbs`, if it is one.
pub(crate) fn words(engine: &Engine, text: &str) -> Result<Option<String>, Stopped> {
    /// The longest is `use` with the name of a database.
    const WORDS_BYTES_MAX: usize = 300;

    let text = text.trim();
    if text.len() > WORDS_BYTES_MAX || text.contains('\n') {
        return Ok(None);
    }
    engine.call("words", text, |_, value| {
        let answer: Option<rquickjs::Object> = value.get()?;
        answer.map(|answer| answer.get("text")).transpose()
    })
}

/// Runs scripts on a thread whose stack is large enough for them.
pub(crate) fn on_thread<R: Send>(work: impl FnOnce() -> Result<R, Failure> + Send) -> Result<R, Failure> {
    let failed = |error: std::io::Error| Failure::io("a thread for scripts", &error);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(THREAD_STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work).map_err(failed)?;
        // A panic goes on in the thread that waits.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn prepare(ctx: &Ctx<'_>, shared: &Rc<Shared>) -> rquickjs::Result<()> {
    let native = native::functions(ctx, shared)?;
    let cairn = Object::new(ctx.clone())?;
    let own = Rc::clone(shared);
    cairn.set(IS_TO_STOP, Function::new(ctx.clone(), move || own.is_to_stop())?)?;
    for (name, text) in PRELUDE {
        let mut options = EvalOptions::default();
        options.filename = Some(format!("{OWN}{name}"));
        let part: Function = ctx.eval_with_options(text, options)?;
        part.call::<_, ()>((cairn.clone(), native.clone()))?;
    }
    ctx.globals().prop(CAIRN, rquickjs::object::Property::from(cairn))
}

/// The exception that no script caught, with where it was thrown.
pub(crate) fn uncaught(ctx: &Ctx<'_>, error: &rquickjs::Error) -> Failure {
    let failed = |message: String| Failure::new(Exit::Failed, message);
    if !matches!(error, rquickjs::Error::Exception) {
        return failed(format!("the engine of scripts failed: {error}"));
    }
    failure_of(ctx, &ctx.catch())
}

/// Notes a promise that failed while nothing waited for it, or forgets it, because something does now.
fn note_rejection<'js>(
    shared: &Shared,
    ctx: &Ctx<'js>,
    promise: &Value<'js>,
    reason: &Value<'js>,
    is_handled: bool,
) -> rquickjs::Result<()> {
    /// The property of a promise that has its number.
    const NUMBER: &str = "\0rejected";

    let Some(promise) = promise.as_object() else { return Ok(()) };
    if is_handled {
        let number: Option<u32> = promise.get(NUMBER)?;
        shared.rejected.borrow_mut().retain(|(other, _)| Some(*other) != number);
        return Ok(());
    }
    let number = shared.rejected.borrow().last().map_or(0, |(last, _)| last + 1);
    promise.prop(NUMBER, rquickjs::object::Property::from(number))?;
    let failure = failure_of(ctx, reason);
    shared.rejected.borrow_mut().push((number, failure));
    Ok(())
}

/// An error of the grammar with what is open at the end of the text, where the engine names what it has not found.
fn with_unclosed(stopped: Stopped, name: &str, text: &str) -> Stopped {
    let Stopped::Uncaught(failure) = stopped else { return stopped };
    let is_of_grammar = failure.message.contains("SyntaxError: ");
    match unclosed(text).filter(|_| is_of_grammar) {
        Some((what, line, column)) => {
            let place = counted(&format!("{name}:{line}:{column}"));
            Stopped::Uncaught(Failure {
                message: format!("{place}: SyntaxError: {what} {UNCLOSED}"),
                ..failure
            })
        }
        None => Stopped::Uncaught(failure),
    }
}

/// The message of an error.
fn failure_of<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> Failure {
    let failed = |message: String| Failure::new(Exit::Failed, message);
    let Some(object) = thrown.as_object().filter(|_| thrown.is_error()) else {
        let shown = cairn(ctx).and_then(|cairn| cairn.get::<_, Function>("inspect")?.call((thrown.clone(),)));
        return failed(format!("uncaught {}", shown.unwrap_or_else(|_| "exception".to_owned())));
    };
    let text = |name: &str| object.get::<_, String>(name).unwrap_or_default();
    let told = cairn(ctx)
        .and_then(|cairn| cairn.get::<_, Function>("errorText")?.call((object.clone(),)))
        .unwrap_or_else(|_| format!("{}: {}", text("name"), text("message")));
    let place = place(&text("stack")).map(|place| format!("{}: ", counted(place))).unwrap_or_default();
    // A folder that is open elsewhere and a lost server have statuses of their own, also where an expression asked for them.
    let asked = object.get::<_, i32>(EXIT).unwrap_or_default();
    let exit = [Exit::Elsewhere, Exit::NoStore].into_iter().find(|&exit| exit as i32 == asked);
    let exit = exit.unwrap_or(Exit::Failed);
    Failure { exit, code: object.get("code").ok(), ..failed(format!("{place}{told}")) }
}

/// The name of a text that begins after `lines` lines of what is called `name`.
pub(crate) fn name_from_line(name: &str, lines: usize) -> String {
    if lines == 0 { name.to_owned() } else { format!("{name}{LINES}{lines}") }
}

/// A place as a person counts: lines before the text are added, and a parenthesis before it is not counted.
fn counted(place: &str) -> String {
    let mut parts = place.rsplitn(3, ':');
    let (Some(column), Some(line), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return place.to_owned();
    };
    let (Ok(line), Ok(column)) = (line.parse::<usize>(), column.parse::<usize>()) else {
        return place.to_owned();
    };
    if let Some(name) = name.strip_suffix(IN_PARENTHESES) {
        let column = if line == 1 { column.saturating_sub(1).max(1) } else { column };
        return format!("{name}:{line}:{column}");
    }
    match name.rsplit_once(LINES).map(|(name, before)| (name, before.parse::<usize>())) {
        Some((name, Ok(before))) => format!("{name}:{}:{column}", line + before),
        Some((_, Err(_))) | None => place.to_owned(),
    }
}

/// The place at which an error was thrown, by the first line of its stack that is none of the shell's own:
/// `NAME:LINE:COLUMN`.
fn place(stack: &str) -> Option<&str> {
    stack.lines().find_map(|line| {
        let line = line.trim().strip_prefix("at ")?;
        let place = line.split_once(" (").map_or(line, |(_, place)| place.strip_suffix(')').unwrap_or(place));
        let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
        let mut parts = place.rsplit(':');
        let is_place = is_number(parts.next()) && is_number(parts.next()) && parts.next().is_some();
        (is_place && !place.starts_with(OWN)).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine's own preparation was ended by the signal, and failed with an error that looked like one of a script.
    #[test]
    fn a_signal_during_the_preparation_is_a_signal() {
        for exit in [Exit::Interrupted, Exit::Terminated] {
            let store = crate::store::in_memory().unwrap();
            let target = Target {
                store,
                store_name: String::new(),
                database: "test".to_owned(),
                keeps_read: false,
                look: Look::default(),
            };
            let made = Engine::new(target, MEMORY_BYTES, Signals::already(exit));
            let failure = made.map(drop).unwrap_err();
            assert_eq!((failure.exit, failure.message.as_str()), (exit, "interrupted"));
        }
    }

    #[test]
    fn an_error_is_placed_in_the_user_s_script() {
        let stack = "    at check (cairn:collection:7:3)\n    at <anonymous> (a(b):c.js:12:5)\n    at <eval> (x.js:1:1)\n";
        assert_eq!(place(stack), Some("a(b):c.js:12:5"));
        assert_eq!(place("    at x.js:7:13\n"), Some("x.js:7:13"));
        assert_eq!(counted(&format!("{}:7:13", name_from_line("input", 3))), "input:10:13");
        assert_eq!(counted("input:7:13"), "input:7:13");
        assert_eq!(counted(&format!("input{IN_PARENTHESES}:1:13")), "input:1:12");
        assert_eq!(counted(&format!("input{IN_PARENTHESES}:2:13")), "input:2:13");
        assert_eq!(place("    at native\n    at f (native)\n"), None);
    }
}
