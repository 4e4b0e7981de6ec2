//! Passwords: from a file, the environment or the terminal, and never from the command line, which every process of the
//! machine can read.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::{Exit, Failure};
use crate::interruptible::Interruptible;
use crate::signals::Signals;

/// The longest password, in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;
/// The environment variable that may hold a password.
const VARIABLE: &str = "CAIRN_PASSWORD";

/// The password from the first line of the file, else from the environment. Returns `None` if neither is given.
pub(crate) fn given(file: Option<&Path>, signals: &Signals) -> Result<Option<String>, Failure> {
    let Some(path) = file else {
        let Some(password) = std::env::var_os(VARIABLE) else { return Ok(None) };
        let unreadable = |_| Failure::usage(format!("{VARIABLE} is not UTF-8"));
        return password.into_string().map(Some).map_err(unreadable);
    };
    let name = path.display().to_string();
    let opened = Interruptible::open(path, signals).map_err(|error| Failure::io(&name, &error))?;
    first_line(&name, opened).map(|line| Some(line.unwrap_or_default()))
}

/// The password that a person types, unseen. Returns `None` if standard input is not a terminal.
pub(crate) fn asked(prompt: &str, signals: &Signals) -> Result<Option<String>, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Failure::io("the terminal", &error);
    let _unseen = Unseen::begin().map_err(failed)?;
    ask(prompt);
    let typed =
        first_line("the password", Interruptible::standard(signals).map_err(failed)?).and_then(|typed| {
            // An empty line is an answer; the end of the input is none.
            typed.ok_or_else(|| {
                Failure::new(Exit::Failed, "the password: the input has ended, and nothing was typed")
            })
        });
    if typed.is_err() {
        // The line of the prompt has no end yet.
        ask("\n");
    }
    typed.map(Some)
}

/// The first line of standard input.
pub(crate) fn standard(signals: &Signals) -> Result<String, Failure> {
    let name = "standard input";
    let input = Interruptible::standard(signals).map_err(|error| Failure::io(name, &error))?;
    first_line(name, input).map(Option::unwrap_or_default)
}

/// Writes to the terminal, also where standard error goes elsewhere.
fn ask(prompt: &str) {
    if rustix::io::write(std::io::stdin(), prompt.as_bytes()).is_err() {
        // It may be open for reading alone. A person who sees no prompt still knows what was called.
        let _ = std::io::stderr().write_all(prompt.as_bytes());
    }
}

/// The terminal as it was, while it does not show what is typed.
struct Unseen(Termios);

impl Unseen {
    fn begin() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        unseen.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &unseen)?;
        Ok(Self(before))
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// The first line of what is read from `name`. Returns `None` if it ends before there is any byte.
fn first_line(name: &str, from: impl Read) -> Result<Option<String>, Failure> {
    let mut line = String::new();
    // Two more bytes than a password has: a line may end in a carriage return and a line feed.
    let mut from = BufReader::new(from.take(PASSWORD_BYTES_MAX + 2));
    from.read_line(&mut line).map_err(|error| Failure::io(name, &error))?;
    let password = line.strip_suffix('\n').unwrap_or(&line);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.len() as u64 > PASSWORD_BYTES_MAX {
        let long = format!("{name}: the password is longer than {PASSWORD_BYTES_MAX} bytes");
        return Err(Failure::new(Exit::Failed, long));
    }
    Ok((!line.is_empty()).then(|| password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_end() {
        for text in ["a b \n", "a b \r\n", "a b ", "a b \nmore"] {
            assert_eq!(first_line("x", text.as_bytes()).unwrap().unwrap(), "a b ");
        }
        assert_eq!(first_line("x", &b"\n"[..]).unwrap().unwrap(), "");
        assert_eq!(first_line("x", &b""[..]).unwrap(), None);
    }

    #[test]
    fn a_password_has_as_many_bytes_as_are_allowed() {
        let longest = "p".repeat(4096);
        for end in ["", "\n", "\r\n"] {
            assert_eq!(first_line("x", format!("{longest}{end}").as_bytes()).unwrap().unwrap(), longest);
        }
        let error = first_line("words.txt", format!("{longest}p\n").as_bytes()).unwrap_err();
        assert_eq!(error.message, "words.txt: the password is longer than 4096 bytes");
    }
}
