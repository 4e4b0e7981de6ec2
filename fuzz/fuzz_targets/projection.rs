//! No projection, sort or schema and no document panics; what is shown of a document is well-formed; and the key of a
//! sort does not depend on how it was drawn.

#![no_main]

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, RawBson, RawDocument, doc};
use cairndb_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use query::distinct::Distinct;
use query::expression::Variables;
use query::filter::Filter;
use query::projection::Projection;
use query::sort::Sort;
use query::sort::collect::Sorter;

const NAMES: [&str; 44] = [
    "$elemMatch",
    "$gt",
    "$id",
    "$literal",
    "$meta",
    "$natural",
    "$slice",
    "$add",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "bsonType",
    "dependencies",
    "enum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "minimum",
    "minProperties",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "type",
    "uniqueItems",
    "_id",
    "_id.a",
    "a",
    "a.b",
    "a.b.c",
    "a.$",
    "a.b.$",
    "a.$.b",
    "a.0",
    "b",
    "c",
    "0",
    "",
    "number",
];
const DEPTH_MAX: u32 = 8;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.byte() == 0xff {
        return check_malformed(input.rest());
    }
    let asked = raw(&document(&mut input, 0));
    let target = raw(&document(&mut input, 0));
    check(&asked, &target);
});

/// One document as a projection, a sort and a schema, over another one.
fn check(asked: &RawDocument, target: &RawDocument) {
    let variables = Variables::default();
    let filter = Filter::parse(&raw(&doc! { "a": { "$exists": true } })).expect("a filter");
    for parsed in
        [Projection::parse(asked, Some(&filter), &variables), Projection::parse_stage(asked, &variables)]
    {
        match parsed.and_then(|parsed| parsed.apply(target, &variables)) {
            Ok(shown) => assert!(index::validate::validate(shown.as_bytes()).is_ok()),
            Err(error) => assert!(error.code().number() > 0),
        }
    }
    if let Ok(sort) = Sort::parse(asked) {
        check_sort(sort, target);
    }
    let mut schema = RawDocumentBuf::new();
    schema.append(bson::raw::cstr!("$jsonSchema"), asked.to_owned());
    if let Ok(schema) = Filter::parse(&schema) {
        let _ = schema.matches(target);
    }
    for path in ["a", "a.b", "a.0"] {
        let mut distinct = Distinct::new(path).expect("a path");
        distinct.add(target).expect("a short document");
        let _ = distinct.into_values();
    }
}

/// The last of three equal documents is the one that a limit of two leaves out.
fn check_sort(sort: Sort, target: &RawDocument) {
    let mut sorter = Sorter::new(sort.clone(), Some(2), 1 << 20);
    for number in 0..3_u8 {
        match (sorter.push(target, || vec![number]), sort.key(target)) {
            (Ok(()), Ok(_)) => {}
            (Err(pushed), Err(drawn)) => return assert_eq!(pushed, drawn),
            (pushed, drawn) => panic!("{pushed:?} and {drawn:?}"),
        }
    }
    let numbers: Vec<_> = sorter.into_sorted_iter().collect();
    assert_eq!(numbers, [[0], [1]]);
}

/// Bytes as everything at once, framed so that the outside is whole.
fn check_malformed(elements: &[u8]) {
    let Ok(length) = i32::try_from(elements.len() + 5) else { return };
    let bytes = [length.to_le_bytes().as_slice(), elements, &[0]].concat();
    let Ok(document) = RawDocument::from_bytes(&bytes) else { return };
    let variables = Variables::default();
    for projection in [doc! { "a.b": 1, "c.d": "$a" }, doc! { "a.b": 0, "b": { "$slice": -1 } }] {
        let projection = Projection::parse(&raw(&projection), None, &variables).expect("a projection");
        let _ = projection.apply(document, &variables);
    }
    let _ =
        Projection::parse(document, None, &variables).and_then(|parsed| parsed.apply(document, &variables));
    let _ = Sort::parse(document).and_then(|sort| sort.key(document));
    let _ = Sort::parse(&raw(&doc! { "a.b": 1, "a": -1 })).and_then(|sort| sort.key(document));
    let mut schema = RawDocumentBuf::new();
    schema.append(bson::raw::cstr!("$jsonSchema"), document.to_owned());
    let _ = Filter::parse(&schema).map(|schema| schema.matches(document));
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap_or_default()
}

fn document(input: &mut Input<'_>, depth: u32) -> Document {
    let count = input.byte() % 4;
    (0..count).map(|_| (name(input).to_owned(), value(input, depth))).collect()
}

fn name(input: &mut Input<'_>) -> &'static str {
    NAMES.get(usize::from(input.byte()) % NAMES.len()).copied().unwrap_or_default()
}

fn value(input: &mut Input<'_>, depth: u32) -> Bson {
    match input.byte() % 8 {
        0 | 1 if depth < DEPTH_MAX => Bson::Document(document(input, depth + 1)),
        2 | 3 if depth < DEPTH_MAX => {
            let count = input.byte() % 4;
            Bson::Array((0..count).map(|_| value(input, depth + 1)).collect())
        }
        4 => Bson::Int32(i32::from(input.byte()) % 3 - 1),
        5 => Bson::Boolean(input.byte() & 1 == 1),
        6 => Bson::String(name(input).to_owned()),
        _ => Bson::try_from(RawBson::from(input.value().get())).unwrap_or(Bson::Null),
    }
}
