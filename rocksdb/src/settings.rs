//! Cargo's settings: the lines in the project's `.cargo/config.toml` that make cargo, and every editor that runs it,
//! link the archive, and PCRE2 as it is tested. A build that compiles RocksDB all the same, for another machine or by
//! `ROCKSDB_COMPILE`, optimizes it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};

const FILES: [&str; 2] = [".cargo/config.toml", ".cargo/config"];
const FOLDER: &str = "ROCKSDB_LIB_DIR";
const PCRE2: &str = "PCRE2_SYS_STATIC";
/// The table of RocksDB's crate in a debug build.
const PROFILE: [&str; 4] = ["profile", "dev", "package", "librocksdb-sys"];

/// Adds or renews the lines in the settings of the project in `root`, and returns the file. All else in it stays.
pub(crate) fn write(root: &Path, folder: &str, libclang: Option<&str>) -> Result<PathBuf, String> {
    let file = FILES.map(|name| root.join(name)).into_iter().find(|file| file.exists());
    let file = file.unwrap_or_else(|| root.join(".cargo/config.toml"));
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    let changed =
        with_lines(&text, folder, libclang).map_err(|message| format!("{}: {message}", file.display()))?;
    if changed == text {
        return Ok(file);
    }
    let staged = file.with_extension("toml.new");
    let parent = file.parent().unwrap_or(root);
    let done = fs::create_dir_all(parent)
        .and_then(|()| fs::write(&staged, changed))
        .and_then(|()| fs::rename(&staged, &file));
    done.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(file)
}

fn with_lines(text: &str, folder: &str, libclang: Option<&str>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
    let table = document.entry("env").or_insert_with(|| Item::Table(Table::new()));
    let table = table.as_table_like_mut().ok_or("its 'env' is not a table")?;
    let current = table.get(FOLDER).and_then(Item::as_str);
    // A folder that the user chose stays; one of an earlier run is out of date.
    if let Some(chosen) = current.filter(|chosen| siblings(chosen, folder).is_none()) {
        return Err(format!(
            "its {FOLDER} is '{chosen}', which is not from this tool: remove the line first"
        ));
    }
    let lines = [
        (FOLDER, Some(folder)),
        ("ROCKSDB_STATIC", Some("1")),
        (PCRE2, Some("1")),
        ("LIBCLANG_PATH", libclang),
    ];
    for (name, line) in lines {
        let Some(line) = line else { continue };
        if table.get(name).and_then(Item::as_str) != Some(line) {
            table.insert(name, value(line));
        }
    }
    let mut profile = document.as_table_mut();
    for name in PROFILE {
        let mut empty = Table::new();
        empty.set_implicit(true);
        let found = profile.entry(name).or_insert_with(|| Item::Table(empty));
        profile =
            found.as_table_mut().ok_or_else(|| format!("its '{}' is not a table", PROFILE.join(".")))?;
    }
    // What the user chose stays.
    if profile.is_empty() {
        profile.set_implicit(false);
        profile.insert("opt-level", value(3));
        profile.insert("debug", value(false));
    }
    Ok(document.to_string())
}

/// The folder that both lie in, if it is one.
fn siblings<'a>(one: &'a str, other: &str) -> Option<&'a Path> {
    let parent = Path::new(one).parent()?;
    (Some(parent) == Path::new(other).parent()).then_some(parent)
}

/// The flags for rustc in all settings that cargo reads for `root`: they shape the C++ too.
pub(crate) fn rust_flags(root: &Path) -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let above = root.ancestors().flat_map(|folder| FILES.map(|name| folder.join(name)));
    let own = home.into_iter().flat_map(|home| ["config.toml", "config"].map(|name| home.join(name)));
    let mut files: Vec<PathBuf> = above.chain(own).collect();
    files.sort_unstable();
    files.dedup();
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .flat_map(|text| rust_flags_in(&text))
        .collect()
}

fn rust_flags_in(text: &str) -> Vec<String> {
    let Ok(document) = text.parse::<DocumentMut>() else { return Vec::new() };
    let build = document.get("build").map(|table| ("build", table));
    let targets = document.get("target").and_then(Item::as_table_like);
    let tables = build.into_iter().chain(targets.into_iter().flat_map(|targets| targets.iter()));
    let mut lines = Vec::new();
    for (name, table) in tables {
        let Some(flags) = table.get("rustflags").map(Item::to_string) else { continue };
        let flags: Vec<&str> = flags.split_whitespace().collect();
        lines.push(format!("rustflags of {name}: {}", flags.join(" ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "[env]\nROCKSDB_LIB_DIR = \"/c/rocksdb/2\"\nROCKSDB_STATIC = \"1\"\nPCRE2_SYS_STATIC = \"1\"\n\n\
                       [profile.dev.package.librocksdb-sys]\nopt-level = 3\ndebug = false\n";

    #[track_caller]
    fn check(before: &str, after: &str) {
        assert_eq!(with_lines(before, "/c/rocksdb/2", None).as_deref(), Ok(after));
    }

    #[test]
    fn lines_are_added_to_what_is_there() {
        check("", NEW);
        check("# mine\n[build]\njobs = 2\n", &format!("# mine\n[build]\njobs = 2\n\n{NEW}"));
        check("[env]\nA = \"b\" # why\n", &NEW.replace("[env]\n", "[env]\nA = \"b\" # why\n"));
    }

    #[test]
    fn lines_of_an_earlier_run_are_renewed() {
        check(&NEW.replace("/2", "/1"), NEW);
        check(NEW, NEW);
    }

    #[test]
    fn a_profile_that_the_user_chose_stays() {
        let own = NEW.replace("opt-level = 3\ndebug = false", "opt-level = 1");
        check(&own, &own);
        let message = with_lines("profile = 1\n", "/c/rocksdb/2", None).unwrap_err();
        assert_eq!(message, "its 'profile.dev.package.librocksdb-sys' is not a table");
    }

    #[test]
    fn a_folder_that_the_user_chose_stays() {
        let before = "[env]\nROCKSDB_LIB_DIR = \"/opt/rocksdb\"\n";
        let message = with_lines(before, "/c/rocksdb/2", None).unwrap_err();
        assert_eq!(
            message,
            "its ROCKSDB_LIB_DIR is '/opt/rocksdb', which is not from this tool: remove the line first"
        );
    }

    #[test]
    fn what_is_not_toml_is_refused() {
        assert!(with_lines("[env", "/c/rocksdb/2", None).unwrap_err().starts_with("it is not TOML: "));
        assert_eq!(with_lines("env = 1\n", "/c/rocksdb/2", None).unwrap_err(), "its 'env' is not a table");
    }

    #[test]
    fn flags_for_rustc_are_found_in_all_their_places() {
        let text =
            "[build]\nrustflags = [\"-C\",\n  \"target-cpu=native\"]\n[target.x]\nrustflags = \"-g\"\n";
        assert_eq!(
            rust_flags_in(text),
            ["rustflags of build: [\"-C\", \"target-cpu=native\"]", "rustflags of x: \"-g\""]
        );
        assert!(rust_flags_in("[build]\njobs = 2\n").is_empty());
    }
}
