//! No update and no document panics; what an update leaves is a well-formed document within the limits; and its `_id`
//! stays what it was.

#![no_main]

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, RawBson, RawDocument, Timestamp, doc};
use cairndb_fuzz::Input;
use index::validate::validate;
use libfuzzer_sys::fuzz_target;
use query::expression::Variables;
use query::filter::Filter;
use query::update::{Context, Phase, Update, UpsertStart, is_replacement, upsert_base};

const OPERATORS: [&str; 16] = [
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$setOnInsert",
    "$currentDate",
    "$push",
    "$addToSet",
    "$pop",
    "$pull",
    "$pullAll",
    "$bit",
    "$foo",
];
const STAGES: [&str; 8] =
    ["$set", "$unset", "$project", "$replaceWith", "$replaceRoot", "$addFields", "$match", "$fill"];
const COMPONENTS: [&str; 12] = ["a", "b", "_id", "0", "1", "12", "$", "$[]", "$[x]", "$[y]", "", "$a"];
const NAMES: [&str; 16] = [
    "$each",
    "$position",
    "$slice",
    "$sort",
    "$type",
    "$in",
    "$gt",
    "$or",
    "$elemMatch",
    "and",
    "xor",
    "_id",
    "newRoot",
    "$add",
    "a",
    "b.x",
];
const TEXTS: [&str; 8] = ["a", "b.0", "timestamp", "$a", "_id", "x", "$$ROOT", "$a.b"];
const DEPTH_MAX: u32 = 6;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.byte() == 0xff {
        return check_malformed(input.rest());
    }
    let update = update(&mut input);
    let filters = match input.byte() % 4 {
        0 => vec![],
        1 => vec![raw(&doc! { "x": value(&mut input, 4) })],
        2 => vec![raw(&doc! { "x": { "$gt": 0 } }), raw(&doc! { "y.a": 1 })],
        _ => vec![raw(&document(&mut input, 4))],
    };
    let position = Some(usize::from(input.byte() % 4)).filter(|position| *position < 3);
    let target = raw(&document(&mut input, 0));
    match Update::parse(&raw(&update), &filters) {
        Ok(parsed) => check(&parsed, &target, position),
        Err(error) => {
            assert!(error.code().number() > 0);
            assert!(error.to_string().len() < 10_000, "{error}");
        }
    }
    let stages =
        (0..input.byte() % 3).map(|_| raw(&doc! { pick(&mut input, &STAGES): value(&mut input, 1) }));
    if let Ok(parsed) = Update::parse_pipeline(&stages.collect::<Vec<_>>(), &[], &Variables::default()) {
        check(&parsed, &target, None);
    }
    let _ = is_replacement(&raw(&update));
    if let Ok(filter) = Filter::parse(&target)
        && let Ok(base) = upsert_base(&filter, UpsertStart::Update)
    {
        let _ = validate(base.as_bytes()).expect("an upsert starts from a well-formed document");
    }
});

fn check(parsed: &Update, target: &RawDocument, position: Option<usize>) {
    let is_valid = validate(target.as_bytes()).is_ok();
    for phase in [Phase::Modify, Phase::Insert] {
        let context = context(phase).with_position(position);
        match parsed.apply(target, &context) {
            Ok(None) => {}
            Ok(Some(changed)) => {
                assert_ne!(changed.as_bytes(), target.as_bytes());
                assert!(!is_valid || validate(changed.as_bytes()).is_ok());
                let id = |document: &RawDocument| document.get("_id").ok().flatten().map(RawBson::from);
                let before = id(target);
                assert!(before.is_none() || format!("{before:?}") == format!("{:?}", id(&changed)));
            }
            Err(error) => assert!(error.code().number() > 0),
        }
    }
}

/// Bytes as update and as document at once, framed so that the outside is whole.
fn check_malformed(elements: &[u8]) {
    let Ok(length) = i32::try_from(elements.len() + 5) else { return };
    let bytes = [length.to_le_bytes().as_slice(), elements, &[0]].concat();
    let Ok(document) = RawDocument::from_bytes(&bytes) else { return };
    let _ = is_replacement(document);
    if let Ok(parsed) = Update::parse(document, &[document.to_owned()]) {
        let _ = parsed.apply(document, &context(Phase::Modify));
    }
    for update in [
        doc! { "$set": { "a.b.0": 1 }, "$inc": { "c": 1 } },
        doc! { "$push": { "a": { "$each": [1], "$sort": { "b": 1 }, "$slice": 2 } }, "$rename": { "b": "c" } },
        doc! { "$pull": { "a": { "$gt": 1 } }, "$addToSet": { "b": { "$each": [1, 2] } }, "$pop": { "c": -1 } },
        doc! { "$set": { "a.$[].b": 1 }, "$min": { "b.$": 3 } },
    ] {
        let parsed = Update::parse(&raw(&update), &[]).expect("an update");
        let _ = parsed.apply(document, &context(Phase::Modify).with_position(Some(0)));
    }
}

fn context(phase: Phase) -> Context {
    Context::new(phase, DateTime::from_millis(0), Timestamp { time: 1, increment: 1 })
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap_or_default()
}

fn update(input: &mut Input<'_>) -> Document {
    let count = input.byte() % 4;
    (0..count).map(|_| (pick(input, &OPERATORS), fields(input))).collect()
}

fn fields(input: &mut Input<'_>) -> Bson {
    let count = input.byte() % 4;
    Bson::Document((0..count).map(|_| (path(input), value(input, 0))).collect())
}

fn path(input: &mut Input<'_>) -> String {
    let count = 1 + input.byte() % 4;
    (0..count).map(|_| pick(input, &COMPONENTS)).collect::<Vec<_>>().join(".")
}

fn document(input: &mut Input<'_>, depth: u32) -> Document {
    let count = input.byte() % 4;
    (0..count).map(|_| (pick(input, &NAMES), value(input, depth))).collect()
}

fn value(input: &mut Input<'_>, depth: u32) -> Bson {
    match input.byte() % 8 {
        0 | 1 if depth < DEPTH_MAX => Bson::Document(document(input, depth + 1)),
        2 | 3 if depth < DEPTH_MAX => {
            let count = input.byte() % 4;
            Bson::Array((0..count).map(|_| value(input, depth + 1)).collect())
        }
        4 => Bson::Int32(i32::from(input.byte()) - 8),
        5 => Bson::String(pick(input, &TEXTS)),
        _ => Bson::try_from(RawBson::from(input.value().get())).unwrap_or(Bson::Null),
    }
}

fn pick(input: &mut Input<'_>, texts: &[&str]) -> String {
    texts.get(usize::from(input.byte()) % texts.len()).copied().unwrap_or_default().to_owned()
}
