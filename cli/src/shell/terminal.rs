//! The shell at a terminal: a line editor with history and completion, and statements that Ctrl-C ends.

use std::io::{ErrorKind, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::termios::{OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::{History, MemHistory};
use rustyline::{CompletionType, Editor};

use crate::failure::{Exit, Failure};
use crate::script::{Engine, Stopped};
use crate::shell::complete::Assistant;
use crate::shell::{history, statement};
use crate::signals::exit_at_once;
use crate::talk::{warn, write_line};

/// The name of what is typed, in errors.
const TYPED: &str = "(shell)";

/// Reads and runs statements until the user ends the shell. Returns the status of the process.
pub(super) fn run(engine: &Engine, is_read_only: bool, is_quiet: bool) -> Result<i32, Stopped> {
    let failed = |error: ReadlineError| {
        Stopped::Uncaught(Failure::new(Exit::Failed, format!("the terminal: {error}")))
    };
    let mut editor: Editor<Assistant<'_>, MemHistory> =
        Editor::with_history(rustyline::Config::default(), MemHistory::new()).map_err(failed)?;
    editor.set_completion_type(CompletionType::List);
    editor.set_helper(Some(Assistant { engine }));
    let path = history::path();
    for line in path.iter().flat_map(|path| history::load(path)) {
        // Only what is empty or repeated is rejected.
        let _ = editor.history_mut().add(&line);
    }
    if !is_quiet {
        say("cairn ", env!("CARGO_PKG_VERSION"), ": help shows what there is, Ctrl-D ends the shell");
    }
    let is_waiting = Arc::new(AtomicBool::new(false));
    end_when_told(engine, Arc::clone(&is_waiting));
    let code = loop {
        let prompt = prompt(engine, is_read_only);
        is_waiting.store(true, Ordering::Release);
        let read = editor.readline(&prompt);
        is_waiting.store(false, Ordering::Release);
        // A signal to a shell that has nothing to do ends nothing.
        if engine.signals().received() == Some(Exit::Interrupted) {
            engine.renew();
        }
        match read {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                remember(&mut editor, path.as_deref(), &line);
                if let Some(code) = typed(engine, &line)? {
                    break code;
                }
            }
            // Ctrl-C at the prompt drops the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break 0,
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => drop_line(),
            Err(error) => return Err(failed(error)),
        }
    };
    if let Some(path) = &path {
        // A history that stays longer than it should does no harm.
        let _ = history::trim(path);
    }
    Ok(code)
}

/// Ends the process by SIGTERM or SIGHUP while a line is waited for, which no signal ends. Nothing runs then, and what was written is as
/// it is after a kill.
fn end_when_told(engine: &Engine, is_waiting: Arc<AtomicBool>) {
    /// The interval of checks.
    const LOOK: Duration = Duration::from_millis(50);

    let signals = engine.signals();
    // The line editor changes it while it reads.
    let terminal = tcgetattr(std::io::stdin());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            // SIGINT ends the line.
            let received = signals.received().filter(|&exit| exit != Exit::Interrupted);
            if is_waiting.load(Ordering::Acquire)
                && let Some(exit) = received
            {
                if let Ok(terminal) = &terminal {
                    // The process ends whatever the terminal says.
                    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, terminal);
                }
                exit_at_once(exit);
            }
        }
    });
}

/// Drops a line that is not UTF-8, and what was typed or pasted after it: the rest of a statement may mean something else.
fn drop_line() {
    // Input that cannot be dropped is read as the next line.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    write_line(&mut std::io::stderr(), "");
    warn("the line is not UTF-8, and was dropped");
}

fn say(name: &str, version: &str, words: &str) {
    write_line(&mut std::io::stderr(), &format!("{name}{version}{words}"));
}

fn prompt(engine: &Engine, is_read_only: bool) -> String {
    let name: String = engine.call("databaseName", "", |_, value| value.get()).unwrap_or_default();
    let mark = if is_read_only { " (read-only)" } else { "" };
    format!("{name}{mark}> ")
}

fn remember(editor: &mut Editor<Assistant<'_>, MemHistory>, path: Option<&std::path::Path>, line: &str) {
    let _ = editor.history_mut().add(line);
    // The shell works without a history, as on a disk that is full.
    let _ = path.map(|path| history::add(path, line));
}

/// Runs what was typed. Returns the status of the process, if the shell ends with it.
fn typed(engine: &Engine, line: &str) -> Result<Option<i32>, Stopped> {
    let done = statement(engine, TYPED, line);
    engine.flush().map_err(Stopped::Uncaught)?;
    match done {
        Ok(()) => Ok(None),
        Err(Stopped::Uncaught(failure)) => {
            let mut out = std::io::stdout();
            write_line(&mut out, &format!("Uncaught {}", placed(&failure.message)));
            let _ = out.flush();
            Ok(None)
        }
        Err(Stopped::Signal(Exit::Interrupted)) => {
            write_line(&mut std::io::stderr(), "interrupted");
            engine.renew();
            Ok(None)
        }
        Err(stopped) => stopped.into_exit().map(Some).map_err(Stopped::Uncaught),
    }
}

/// A message without the place in what was typed, unless it is an error of syntax, whose place helps.
fn placed(message: &str) -> &str {
    let Some(rest) = message.strip_prefix(TYPED).and_then(|rest| rest.strip_prefix(':')) else {
        return message;
    };
    match rest.split_once(": ") {
        Some((_, told)) if !told.starts_with("SyntaxError") => told,
        Some(_) | None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_syntax_keep_their_place() {
        assert_eq!(placed("(shell):1:5: TypeError: x: y"), "TypeError: x: y");
        assert_eq!(placed("(shell):1:5: SyntaxError: x"), "(shell):1:5: SyntaxError: x");
        assert_eq!(placed("a.js:1:5: TypeError: x"), "a.js:1:5: TypeError: x");
    }
}
