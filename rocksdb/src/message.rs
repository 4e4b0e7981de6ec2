//! The messages of the tool while it works.

/// Speaks to the user, on standard error: standard output is for the shell.
#[expect(clippy::print_stderr, reason = "it is a command-line tool, and this is how it speaks")]
pub(crate) fn say(message: &str) {
    eprintln!("cairndb-rocksdb: {message}");
}
