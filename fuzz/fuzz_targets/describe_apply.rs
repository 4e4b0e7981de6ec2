//! The description of an update, applied to the document before it by a naive reading of MongoDB's rules, gives the one after it to the
//! byte; and no documents make a panic.

#![no_main]

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, RawBson};
use cairndb_fuzz::Input;
use index::validate::validate;
use libfuzzer_sys::fuzz_target;
use query::update::describe;

#[path = "../../query/tests/suite/update/apply.rs"]
mod apply;

/// Names that make paths which can be read in several ways.
const NAMES: [&str; 10] = ["a", "b", "_id", "0", "1", "12", "a.b", "$a", "", "01"];
const DEPTH_MAX: u32 = 5;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let old = document(&mut input, 0);
    // Another one, or the same one with a part that differs.
    let new = if input.byte() % 4 == 0 { document(&mut input, 0) } else { changed(&mut input, &old, 0) };
    let [before, after] = [&old, &new].map(|state| RawDocumentBuf::try_from(state).unwrap_or_default());
    let Some(description) = describe(&before, &after) else { return };
    let _ = validate(description.as_bytes()).expect("a description is a well-formed document");
    let description = Document::try_from(&*description).expect("it can be read");
    assert_eq!(apply::apply(&old, &description).as_bytes(), after.as_bytes(), "{old} -> {new}: {description}");
});

fn document(input: &mut Input<'_>, depth: u32) -> Document {
    let count = input.byte() % 5;
    (0..count).map(|_| (name(input), value(input, depth))).collect()
}

fn value(input: &mut Input<'_>, depth: u32) -> Bson {
    match input.byte() % 6 {
        0 | 1 if depth < DEPTH_MAX => Bson::Document(document(input, depth + 1)),
        2 | 3 if depth < DEPTH_MAX => {
            let count = input.byte() % 5;
            Bson::Array((0..count).map(|_| value(input, depth + 1)).collect())
        }
        4 => Bson::Int32(i32::from(input.byte() % 4)),
        _ => Bson::try_from(RawBson::from(input.value().get())).unwrap_or(Bson::Null),
    }
}

/// A document with some fields that are left out, are others, or are new.
fn changed(input: &mut Input<'_>, old: &Document, depth: u32) -> Document {
    let mut new = Document::new();
    for (name, value) in old {
        match input.byte() % 8 {
            0 => {}
            1 => drop(new.insert(name, self::value(input, depth))),
            2 | 3 => drop(new.insert(name, changed_value(input, value, depth))),
            _ => drop(new.insert(name, value.clone())),
        }
    }
    if input.byte() % 4 == 0 {
        new.insert(name(input), value(input, depth));
    }
    new
}

fn changed_value(input: &mut Input<'_>, old: &Bson, depth: u32) -> Bson {
    match old {
        Bson::Document(inner) => Bson::Document(changed(input, inner, depth + 1)),
        Bson::Array(elements) => {
            let kept = usize::from(input.byte()) % (elements.len() + 1);
            let mut array: Vec<Bson> = elements.iter().take(kept.max(1)).cloned().collect();
            if let Some(first) = array.first_mut().filter(|_| input.byte() % 2 == 0) {
                *first = changed_value(input, &first.clone(), depth + 1);
            }
            if input.byte() % 4 == 0 {
                array.push(value(input, depth));
            }
            Bson::Array(array)
        }
        _ => value(input, depth),
    }
}

fn name(input: &mut Input<'_>) -> String {
    NAMES.get(usize::from(input.byte()) % NAMES.len()).copied().unwrap_or_default().to_owned()
}
