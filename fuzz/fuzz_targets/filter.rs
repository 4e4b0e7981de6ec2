//! No filter and no document panics; negations are exact complements; and what a filter tells about the values of a
//! field holds for every document that it matches.

#![no_main]

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, doc};
use cairndb_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use query::expression::Variables;
use query::filter::{Arrays, Filter};

const NAMES: [&str; 32] = [
    "$all",
    "$and",
    "$bitsAllClear",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$bitsAnySet",
    "$comment",
    "$elemMatch",
    "$eq",
    "$exists",
    "$gt",
    "$gte",
    "$id",
    "$in",
    "$lt",
    "$lte",
    "$mod",
    "$ne",
    "$nin",
    "$nor",
    "$not",
    "$options",
    "$or",
    "$ref",
    "$regex",
    "$size",
    "$type",
    "$where",
    "a",
    "a.b",
    "0",
    "",
];
const DEPTH_MAX: u32 = 8;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.byte() == 0xff {
        return check_malformed(input.rest());
    }
    let filter = document(&mut input, 0);
    let target = raw(&document(&mut input, 0));
    let Ok(filter) = RawDocumentBuf::try_from(&filter) else { return };
    match Filter::parse(&filter) {
        Ok(parsed) => check(&filter, &parsed, &target),
        Err(error) => {
            assert!(error.code().number() > 0);
            assert!(error.to_string().len() < 4_000, "{error}");
        }
    }
});

fn check(filter: &RawDocument, parsed: &Filter, target: &RawDocument) {
    let variables = Variables::default();
    // A regular expression may have no answer within its limits.
    let Ok(is_match) = parsed.try_matches(target, &variables) else { return };
    assert!(!parsed.is_empty() || is_match);
    let negated = bson::rawdoc! { "$nor": [filter.to_owned()] };
    // One level more may be one too many.
    if let Ok(negated) = Filter::parse(&negated) {
        assert!(negated.try_matches(target, &variables).is_ok_and(|negation| negation != is_match));
    }
    let Ok(value) = target.get("a") else { return };
    let has_array = matches!(value, Some(RawBsonRef::Array(_)));
    if is_match && !has_array {
        let value = value.unwrap_or(RawBsonRef::Null);
        assert!(parsed.intervals("a", Arrays::Absent).contains(value));
        assert!(parsed.intervals("a", Arrays::Possible).contains(value));
    }
}

/// Bytes as filter and as document at once, framed so that the outside is whole.
fn check_malformed(elements: &[u8]) {
    let Ok(length) = i32::try_from(elements.len() + 5) else { return };
    let bytes = [length.to_le_bytes().as_slice(), elements, &[0]].concat();
    let Ok(document) = RawDocument::from_bytes(&bytes) else { return };
    if let Ok(parsed) = Filter::parse(document) {
        let _ = parsed.matches(document);
        let _ = parsed.intervals("a", Arrays::Possible);
    }
    for filter in [doc! { "a.b.0": { "$ne": 1 } }, doc! { "a": { "$elemMatch": { "b": { "$size": 1 } } } }] {
        let _ = Filter::parse(&raw(&filter)).expect("a filter").matches(document);
    }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap_or_default()
}

fn document(input: &mut Input<'_>, depth: u32) -> Document {
    let count = input.byte() % 4;
    (0..count).map(|_| (name(input), value(input, depth))).collect()
}

fn name(input: &mut Input<'_>) -> String {
    NAMES.get(usize::from(input.byte()) % NAMES.len()).copied().unwrap_or_default().to_owned()
}

fn value(input: &mut Input<'_>, depth: u32) -> Bson {
    match input.byte() % 8 {
        0 | 1 if depth < DEPTH_MAX => Bson::Document(document(input, depth + 1)),
        2 | 3 if depth < DEPTH_MAX => {
            let count = input.byte() % 4;
            Bson::Array((0..count).map(|_| value(input, depth + 1)).collect())
        }
        4 => Bson::Int32(i32::from(input.byte()) - 8),
        5 => text(input),
        _ => Bson::try_from(RawBson::from(input.value().get())).unwrap_or(Bson::Null),
    }
}

/// A text that may be a pattern, or a pattern itself.
fn text(input: &mut Input<'_>) -> Bson {
    let letters = br"ab^$()[]{}*+?|.\dwsbB-,1:i! ".as_slice();
    let length = input.byte() % 16;
    let letter = |input: &mut Input<'_>| letters.get(usize::from(input.byte()) % letters.len()).copied();
    let text = (0..length).filter_map(|_| letter(input)).map(char::from).collect::<String>();
    let options = ["", "i", "m", "imsx"].get(usize::from(input.byte()) % 8).copied();
    match (bson::raw::CString::try_from(text.as_str()), options.map(bson::raw::CString::try_from)) {
        (Ok(pattern), Some(Ok(options))) => Bson::RegularExpression(bson::Regex { pattern, options }),
        _ => Bson::String(text),
    }
}
