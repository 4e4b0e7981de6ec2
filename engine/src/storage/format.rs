//! Names and versions that reach the disk. Nothing here may ever change its meaning: a new layout gets a new
//! format version, and an old folder is refused or upgraded, never guessed at. `docs/format.md` is the same
//! in prose.

/// The version of everything on disk: folder, families, key layouts, fixed values.
pub(crate) const FORMAT_VERSION: u32 = 3;

/// The family of the format stamp, catalog entries and counters.
pub(crate) const FAMILY_META: &str = "meta";
/// The family of documents.
pub(crate) const FAMILY_RECORDS: &str = "records";
/// The family of secondary index entries.
pub(crate) const FAMILY_ENTRIES: &str = "entries";

/// The file that says that a folder is a complete database. Written last when a folder is made.
pub(crate) const MARKER_FILE: &str = "CAIRNDB";
/// The same file while the folder is being made: nothing in such a folder was ever acknowledged.
pub(crate) const CREATING_FILE: &str = "CAIRNDB.creating";
/// The first words of the marker file; the version follows in decimal, then a line feed.
pub(crate) const MARKER_PREFIX: &str = "CairnDB format ";

/// The marker file's whole content.
pub(crate) fn marker_text() -> String {
    format!("{MARKER_PREFIX}{FORMAT_VERSION}\n")
}

/// The format named by a marker file's content.
pub(crate) fn parse_marker(text: &str) -> Option<&str> {
    text.strip_prefix(MARKER_PREFIX)?.strip_suffix('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_names_its_format() {
        assert_eq!(parse_marker(&marker_text()), Some("3"));
        assert_eq!(parse_marker("CairnDB format 4\n"), Some("4"));
        assert_eq!(parse_marker("CairnDB format 3"), None);
        assert_eq!(parse_marker("something else\n"), None);
    }
}
