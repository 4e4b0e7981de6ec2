//! The probable meaning of a text that is not JSON: NaN, words of Python, and the notation of the shell.

/// Values that other notations have a word for, and what they are in Extended JSON.
const WORDS: [(&str, &str); 11] = [
    ("NaN", r#"{"$numberDouble": "NaN"}"#),
    ("nan", r#"{"$numberDouble": "NaN"}"#),
    ("Infinity", r#"{"$numberDouble": "Infinity"}"#),
    ("-Infinity", r#"{"$numberDouble": "-Infinity"}"#),
    ("inf", r#"{"$numberDouble": "Infinity"}"#),
    ("-inf", r#"{"$numberDouble": "-Infinity"}"#),
    ("undefined", "null"),
    ("None", "null"),
    ("True", "true"),
    ("False", "false"),
    ("NULL", "null"),
];
/// Calls of the shell, and what they are in Extended JSON.
const CALLS: [(&str, &str); 12] = [
    ("ObjectId", r#"{"$oid": "…"}"#),
    ("ISODate", r#"{"$date": "…"}"#),
    ("Date", r#"{"$date": "…"}"#),
    ("NumberInt", r#"{"$numberInt": "…"}"#),
    ("NumberLong", r#"{"$numberLong": "…"}"#),
    ("Long", r#"{"$numberLong": "…"}"#),
    ("NumberDecimal", r#"{"$numberDecimal": "…"}"#),
    ("Decimal128", r#"{"$numberDecimal": "…"}"#),
    ("UUID", r#"{"$uuid": "…"}"#),
    ("BinData", r#"{"$binary": {"base64": "…", "subType": "00"}}"#),
    ("Timestamp", r#"{"$timestamp": {"t": 0, "i": 0}}"#),
    ("DBRef", r#"{"$ref": "…", "$id": "…"}"#),
];

/// The probable meaning of a place where the parser has ended. Lines and columns count from 1.
pub(crate) fn meant(text: &[u8], line: usize, column: usize) -> Option<String> {
    let line = text.split(|byte| *byte == b'\n').nth(line.checked_sub(1)?)?;
    let at = column.checked_sub(1)?;
    if line.get(at) == Some(&b'\'') {
        return Some("strings and names are in double quotes in JSON".to_owned());
    }
    let (before, after) = line.split_at_checked(at)?;
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'$');
    let start = before.iter().rposition(|byte| !is_of_word(byte)).map_or(0, |at| at + 1);
    let word_at = |from: usize| {
        let rest = line.get(from..)?;
        let len = rest.iter().position(|byte| !is_of_word(byte)).unwrap_or(rest.len());
        Some((std::str::from_utf8(rest.get(..len)?).ok()?, rest.get(len..)?.trim_ascii_start()))
    };
    let (mut word, mut rest) = word_at(start)?;
    let is_new = word == "new";
    if is_new {
        (word, rest) = word_at(line.len() - rest.len())?;
    }
    if let Some((_, meant)) = WORDS.iter().find(|(known, _)| *known == word) {
        return Some(format!("{word} is not JSON: {meant} is"));
    }
    if rest.first() == Some(&b'(') {
        let known = CALLS.iter().find(|(known, _)| *known == word);
        let new = if is_new { "new " } else { "" };
        return known.map(|(_, meant)| {
            format!("{new}{word}( is the notation of the shell, and Extended JSON is read: {meant}")
        });
    }
    let is_name = rest.first() == Some(&b':') && !after.is_empty() && !word.is_empty();
    is_name.then(|| "names are in double quotes in JSON".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_a_word_says_nothing() {
        for (text, line, column) in [
            ("{\"a\": }", 1, 7),
            ("", 1, 1),
            ("{", 1, 2),
            ("{\n\n", 3, 1),
            ("{\"a\": ü}", 1, 8),
            ("x", 9, 9),
            ("{", 0, 0),
        ] {
            assert_eq!(meant(text.as_bytes(), line, column), None, "{text}");
        }
        assert_eq!(
            meant(b"{\n \"a\": nan}", 2, 8).as_deref(),
            Some(r#"nan is not JSON: {"$numberDouble": "NaN"} is"#)
        );
    }
}
