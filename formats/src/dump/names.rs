//! The names of the files of a dump: collection names, escaped so that each is one part of a path, on any file
//! system.
//!
//! The rules are those of Go's `url.QueryEscape`, by which mongodump names files. An escaped name has no slash and no
//! dot but those of the collection's own name, to which an ending is always added: so no name leads out of its folder.

use std::fmt::Write as _;

use data_encoding::BASE64URL_NOPAD;
use sha1::{Digest, Sha1};

/// A longer name is shortened: with its endings it would be too long for a file system.
pub const FILE_NAME_BYTES_MAX: usize = 238;
/// The number of bytes of a shortened name that stay.
const KEPT_BYTES: usize = 208;
/// The mark between the rest of a shortened name and its hash. No collection has a dollar in its name.
const MARK: &str = "%24";
/// The hash: 20 bytes in base64.
const HASH_BYTES: usize = FILE_NAME_BYTES_MAX - KEPT_BYTES - MARK.len();

/// The collection that a file's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The collection's name.
    Whole(String),
    /// The name was shortened, so only the collection's metadata has it.
    Shortened,
}

/// The name of a collection's files, without their endings.
pub fn file_name(collection: &str) -> String {
    let mut escaped = escape(collection);
    if escaped.len() > FILE_NAME_BYTES_MAX {
        // Every character is one byte now, so this is not a place within one.
        escaped.truncate(KEPT_BYTES);
        escaped.push_str(MARK);
        BASE64URL_NOPAD.encode_append(&Sha1::digest(collection.as_bytes()), &mut escaped);
    }
    escaped
}

/// The collection whose files have this name. Returns `None` if mongodump gives no file such a name.
///
/// ```
/// use cairndb_formats::dump::names::{Named, collection_name, file_name};
///
/// assert_eq!(collection_name("odd+name%25"), Some(Named::Whole("odd name%".into())));
/// assert_eq!(collection_name(&file_name(&"x".repeat(250))), Some(Named::Shortened));
/// assert_eq!(collection_name("50%"), None);
/// ```
pub fn collection_name(file_name: &str) -> Option<Named> {
    if is_shortened(file_name) {
        return Some(Named::Shortened);
    }
    let mut name = Vec::with_capacity(file_name.len());
    let mut bytes = file_name.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => name.push(b' '),
            b'%' => name.push(digit(bytes.next()?)? << 4 | digit(bytes.next()?)?),
            // Older releases of mongodump left some of them as they are.
            _ => name.push(byte),
        }
    }
    String::from_utf8(name).ok().map(Named::Whole)
}

fn is_shortened(file_name: &str) -> bool {
    file_name.len() == FILE_NAME_BYTES_MAX
        && file_name.get(KEPT_BYTES..).and_then(|end| end.strip_prefix(MARK)).is_some_and(is_hash)
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH_BYTES && BASE64URL_NOPAD.decode(text.as_bytes()).is_ok()
}

fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            b' ' => escaped.push('+'),
            // Writing to a string cannot fail.
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

fn digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        let escaped = file_name(name);
        assert_eq!(escaped, expected);
        assert_eq!(collection_name(&escaped), Some(Named::Whole(name.to_owned())));
    }

    #[test]
    fn names_are_escaped_as_in_a_query_of_a_url() {
        check("orders", "orders");
        check("A-z_0.9~", "A-z_0.9~");
        check("a b+c", "a+b%2Bc");
        check("../..", "..%2F..");
        check("%2F", "%252F");
        check("ümlaut", "%C3%BCmlaut");
        check("\\:*?\"<>|\n", "%5C%3A%2A%3F%22%3C%3E%7C%0A");
    }

    /// The hash was computed by another program: `printf x…x | sha1sum`, in base64 for URLs.
    #[test]
    fn long_names_are_cut_and_told_apart_by_their_hash() {
        assert_eq!(file_name(&"x".repeat(238)), "x".repeat(238));
        let escaped = file_name(&"x".repeat(239));
        let hash = escaped.strip_prefix(&format!("{}%24", "x".repeat(208))).unwrap();
        assert_eq!(hash, SHA1_OF_239_X);
        assert_ne!(file_name(&"x".repeat(240)), escaped);
        // Three bytes for each of these, and 238 is within one.
        assert_eq!(file_name(&"ü".repeat(120)).len(), 238);
    }

    const SHA1_OF_239_X: &str = "Nq75d-cu3iRxNs-ce3Tvf9gagoU";

    #[test]
    fn names_that_are_none_are_refused() {
        for name in ["%", "%2", "%zz", "%ff", "%+1"] {
            assert_eq!(collection_name(name), None, "{name}");
        }
    }
}
