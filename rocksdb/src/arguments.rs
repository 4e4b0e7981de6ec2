//! The command line. Written by hand, because a parser would need longer to compile than all the rest.

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Builds the RocksDB that this project links, once for each machine.

Usage: cairndb-rocksdb [OPTIONS]

It prints what the shell needs, as in  eval \"$(cairndb-rocksdb)\".

Options:
      --write                 Add the lines to the project's .cargo/config.toml instead of printing them
      --portable              Use no instructions that a processor of the target may lack: checksums are slower
      --manifest-path <FILE>  Cargo.toml of the project [default: the one of this folder or above]
      --target <TRIPLE>       Build for this target [default: this machine]
      --features <NAMES>      Features of the project, as cargo takes them
      --all-features          All features of the project
      --no-default-features   No default features of the project
      --locked                Fail if the project's Cargo.lock is not up to date
      --libclang              Only look for libclang, and print LIBCLANG_PATH if it has to be set
  -h, --help                  Print this
  -V, --version               Print the version

Environment:
  CAIRNDB_CACHE   Where the archive is kept [default: $XDG_CACHE_HOME/cairndb or ~/.cache/cairndb]
  CXX, CXXFLAGS, AR, RUSTFLAGS, LIBCLANG_PATH   as for the crate's own build
";

/// The request of the command line.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Build(Arguments),
    FindLibclang,
    Help,
    Version,
}

/// The options of the build, and its project.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) write: bool,
    pub(crate) portable: bool,
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) target: Option<String>,
    /// Handed on to `cargo metadata`.
    pub(crate) for_cargo: Vec<String>,
}

pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Request, String> {
    let mut arguments = Arguments::default();
    let mut words = words.map(text);
    while let Some(word) = words.next() {
        let word = word?;
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            Some(_) | None => (word.as_str(), None),
        };
        if ["--manifest-path", "--target", "--features"].contains(&name) {
            let value = match attached {
                Some(value) => value,
                None => words.next().ok_or_else(|| format!("{name} needs a value"))??,
            };
            match name {
                "--manifest-path" => arguments.manifest = Some(value.into()),
                "--target" => arguments.target = Some(value),
                _ => arguments.for_cargo.extend([name.to_owned(), value]),
            }
            continue;
        }
        if let Some(value) = attached {
            return Err(format!("{name} takes no value, but '{value}' was given"));
        }
        match name {
            "--write" => arguments.write = true,
            "--portable" => arguments.portable = true,
            "--locked" | "--all-features" | "--no-default-features" => arguments.for_cargo.push(word),
            "--libclang" => return Ok(Request::FindLibclang),
            "-h" | "--help" => return Ok(Request::Help),
            "-V" | "--version" => return Ok(Request::Version),
            other => return Err(format!("'{other}' is not an option; --help lists them")),
        }
    }
    Ok(Request::Build(arguments))
}

/// `value` as one word of a shell.
pub(crate) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

fn text(word: OsString) -> Result<String, String> {
    word.into_string().map_err(|word| format!("'{}' is not UTF-8", word.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[track_caller]
    fn check_refused(line: &str, expected: &str) {
        assert_eq!(parsed(line), Err(expected.to_owned()));
    }

    #[test]
    fn options_are_read_in_both_spellings() {
        let expected = Arguments {
            write: true,
            portable: true,
            manifest: Some("a/Cargo.toml".into()),
            target: Some("x".to_owned()),
            for_cargo: ["--locked", "--features", "f,g", "--no-default-features"].map(str::to_owned).into(),
        };
        let line = "--write --portable --locked --manifest-path=a/Cargo.toml --target x --features f,g \
                    --no-default-features";
        assert_eq!(parsed(line), Ok(Request::Build(expected)));
        assert_eq!(parsed(""), Ok(Request::Build(Arguments::default())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        check_refused("--writ", "'--writ' is not an option; --help lists them");
        check_refused("here", "'here' is not an option; --help lists them");
        check_refused("--target", "--target needs a value");
        check_refused("--write=yes", "--write takes no value, but 'yes' was given");
    }

    #[test]
    fn a_quoted_value_is_one_word_of_a_shell() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
