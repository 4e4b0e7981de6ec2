//! The formats, and which one a file has: by its name, else by its first bytes.

use std::path::Path;

use crate::boundary::{EMPTY_BYTES, bson_len, json_end, without_mark};

/// A format in which documents are in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Extended JSON, a document on each line.
    Lines,
    /// Extended JSON: one array of documents, or documents one after the other.
    Json,
    /// A table by RFC 4180.
    Csv,
    /// The same with tabs between the cells.
    Tsv,
    /// BSON, one document after the other.
    Bson,
}

impl FileFormat {
    /// The format that a file's name says. The endings `.gz` and `.zst` are passed over.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        let (_, ending) = plain.rsplit_once('.')?;
        match ending {
            "ndjson" | "jsonl" | "ldjson" => Some(Self::Lines),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "bson" => Some(Self::Bson),
            _ => None,
        }
    }

    /// The format that the first bytes of a file look like.
    ///
    /// ```
    /// use cairndb_formats::format::FileFormat;
    ///
    /// assert_eq!(FileFormat::of_bytes(b"{\"a\": 1}\n{\"a\": 2}\n"), Some(FileFormat::Lines));
    /// assert_eq!(FileFormat::of_bytes(b"{\n  \"a\": 1\n}\n"), Some(FileFormat::Json));
    /// assert_eq!(FileFormat::of_bytes(b"sku,price\n"), Some(FileFormat::Csv));
    /// assert_eq!(FileFormat::of_bytes(b"\x05\0\0\0\0"), Some(FileFormat::Bson));
    /// assert_eq!(FileFormat::of_bytes(b"nothing known"), None);
    /// ```
    pub fn of_bytes(first: &[u8]) -> Option<Self> {
        if looks_like_bson(first) {
            return Some(Self::Bson);
        }
        let text = without_mark(first).trim_ascii_start();
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
        match text.first()? {
            // A document that ends with its line is one of many lines; one that goes on was written for people.
            b'{' if json_end(line) == Some(line.len()) => Some(Self::Lines),
            b'{' | b'[' => Some(Self::Json),
            _ if line.contains(&0) => None,
            _ if line.contains(&b'\t') => Some(Self::Tsv),
            _ if line.contains(&b',') => Some(Self::Csv),
            _ => None,
        }
    }
}

/// The highest type byte between the two of the ends of the order.
const KIND_MAX: u8 = 0x13;

fn looks_like_bson(first: &[u8]) -> bool {
    let Some(len) = bson_len(first) else { return false };
    let ends = first.get(len - 1).is_none_or(|last| *last == 0);
    let begins = first.get(4).is_some_and(|kind| match kind {
        0 => len == EMPTY_BYTES,
        1..=KIND_MAX | 0x7f | 0xff => true,
        _ => false,
    });
    begins && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first: &[u8], expected: Option<FileFormat>) {
        assert_eq!(FileFormat::of_bytes(first), expected);
    }

    #[test]
    fn bytes_say_the_format() {
        check(b"\xef\xbb\xbf  [ {", Some(FileFormat::Json));
        check(b"{\"a\": \"}\\\"\"}", Some(FileFormat::Lines));
        check(b"{\"a\": 1} {\"a\": 2}\n", Some(FileFormat::Json));
        check(b"a\tb,c\n", Some(FileFormat::Tsv));
        check(b"", None);
        check(b"\n", None);
        check(bson::rawdoc! { "a": 1 }.as_bytes(), Some(FileFormat::Bson));
        check(b"\x05\0\0\0\x01", None);
    }

    #[test]
    fn names_say_the_format() {
        let of = |name: &str| FileFormat::of_name(Path::new(name));
        assert_eq!(of("a/b.JSON"), Some(FileFormat::Json));
        assert_eq!(of("b.csv.zst"), Some(FileFormat::Csv));
        assert_eq!(of("b.tsv"), Some(FileFormat::Tsv));
        assert_eq!(of("b.bson.gz"), Some(FileFormat::Bson));
        assert_eq!(of("b.txt"), None);
        assert_eq!(of(".json"), Some(FileFormat::Json));
    }
}
