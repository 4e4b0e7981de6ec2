//! The statements of earlier shells: a file for this user alone, without lines that may have a password.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The limit of kept statements.
pub(super) const LEN_MAX: usize = 1000;
/// Of a longer file only its end is read.
const BYTES_MAX: usize = 4 << 20;
const MODE: u32 = 0o600;
/// Words of which one is in every line that brings a password, in lower case.
const SECRETS: [&str; 7] = ["password", "passwd", "pwd", "secret", "createuser", "updateuser", "auth("];

/// The file of the statements: `$XDG_STATE_HOME/cairn/history`, by default below `~/.local/state`.
pub(super) fn path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("cairn").join("history"))
}

/// The statements of the file, the earliest first. A file that cannot be read has none.
pub(super) fn load(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let start = bytes.len().saturating_sub(BYTES_MAX);
    let text = String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned();
    // The first line of a part may be cut.
    let lines: Vec<&str> = text.lines().skip(usize::from(start > 0)).collect();
    lines.iter().skip(lines.len().saturating_sub(LEN_MAX)).map(|line| unescaped(line)).collect()
}

/// Adds a statement, unless it may have a password.
pub(super) fn add(path: &Path, statement: &str) -> std::io::Result<()> {
    if has_secret(statement) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
    // Another program may have made it for everyone to read.
    file.set_permissions(Permissions::from_mode(MODE))?;
    // One call, so that two shells do not mix their lines.
    file.write_all(format!("{}\n", escaped(statement)).as_bytes())
}

/// Drops the earliest statements of a file that has many more than are kept.
pub(super) fn trim(path: &Path) -> std::io::Result<()> {
    let count = std::fs::read(path)?.split(|&byte| byte == b'\n').count();
    if count <= 2 * LEN_MAX {
        return Ok(());
    }
    let mut kept = load(path).iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\n");
    kept.push('\n');
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&partial)?;
    file.write_all(kept.as_bytes())?;
    std::fs::rename(&partial, path)
}

/// Whether a statement may have a password: by a word, or by a URI with a user.
pub(super) fn has_secret(statement: &str) -> bool {
    let lower = statement.to_lowercase();
    let has_user = lower.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    has_user || SECRETS.iter().any(|word| lower.contains(word))
}

fn escaped(statement: &str) -> String {
    statement.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => text.push('\n'),
                other => text.extend(other),
            },
            (other, false) => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_come_back_and_passwords_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cairn/history");
        for statement in
            ["db.a.find(\n  /\\n/\n)", "db.auth('ada', 'x')", "x = {pwd: 'y'}", "f('mongodb://ada:x@b/')"]
        {
            add(&path, statement).unwrap();
        }
        assert_eq!(load(&path), ["db.a.find(\n  /\\n/\n)"]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
    }

    #[test]
    fn a_long_file_keeps_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let lines: Vec<String> = (0..=2 * LEN_MAX).map(|line| line.to_string()).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        trim(&path).unwrap();
        let kept = load(&path);
        assert_eq!((kept.len(), kept.last().map(String::as_str)), (LEN_MAX, Some("2000")));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), LEN_MAX);
    }

    #[test]
    fn an_absent_file_has_no_statements() {
        assert!(load(Path::new("/absent/history")).is_empty());
    }
}
