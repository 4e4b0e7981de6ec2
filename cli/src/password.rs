//! Passwords: from a file, the environment or the terminal, and never from the command line, which every process of the
//! machine can read.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use crate::failure::{Exit, Failure};

/// The longest password, in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;
/// The environment variable that may hold a password.
const VARIABLE: &str = "CAIRN_PASSWORD";

/// The password from the first line of the file, else from the environment. Returns `None` if neither is given.
pub(crate) fn given(file: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(path) = file else { return Ok(std::env::var(VARIABLE).ok()) };
    let name = path.display().to_string();
    let opened = std::fs::File::open(path).map_err(|error| Failure::io(&name, &error))?;
    first_line(&name, opened).map(Some)
}

/// The password that a person types. Returns `None` if standard input is no terminal.
pub(crate) fn asked(prompt: &str) -> Result<Option<String>, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    rpassword::prompt_password(prompt).map(Some).map_err(|error| Failure::io("the password", &error))
}

/// The first line of what is read from `name`.
pub(crate) fn first_line(name: &str, from: impl Read) -> Result<String, Failure> {
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
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_end() {
        for text in ["a b \n", "a b \r\n", "a b ", "a b \nmore"] {
            assert_eq!(first_line("x", text.as_bytes()).unwrap(), "a b ");
        }
        assert_eq!(first_line("x", &b""[..]).unwrap(), "");
    }

    #[test]
    fn a_password_has_as_many_bytes_as_are_allowed() {
        let longest = "p".repeat(4096);
        for end in ["", "\n", "\r\n"] {
            assert_eq!(first_line("x", format!("{longest}{end}").as_bytes()).unwrap(), longest);
        }
        let error = first_line("words.txt", format!("{longest}p\n").as_bytes()).unwrap_err();
        assert_eq!(error.message, "words.txt: the password is longer than 4096 bytes");
    }
}
