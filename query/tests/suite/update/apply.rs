//! A naive reading of MongoDB's rules for descriptions of updates. The fuzz target of descriptions has this file too.

use bson::{Bson, Document, RawDocumentBuf};

/// A part of a path: a field or a position.
fn parts(description: &Document, path: &str) -> Vec<Bson> {
    if let Ok(known) = description.get_document("disambiguatedPaths").and_then(|known| known.get_array(path))
    {
        return known.clone();
    }
    // `01` and `-1` are names.
    let part = |part: &str| match part.parse::<u16>() {
        Ok(position) if position.to_string() == part => Bson::Int32(position.into()),
        _ => Bson::String(part.to_owned()),
    };
    path.split('.').map(part).collect()
}

fn number(number: i32) -> usize {
    usize::try_from(number).expect("not negative")
}

fn inner<'a>(value: &'a mut Bson, part: &Bson) -> &'a mut Bson {
    match (value, part) {
        (Bson::Document(document), Bson::String(name)) => document.get_mut(name).expect("a field"),
        (Bson::Array(array), Bson::Int32(at)) => array.get_mut(number(*at)).expect("an element"),
        (value, part) => panic!("{value} has no part {part}"),
    }
}

fn reach<'a>(mut value: &'a mut Bson, parts: &[Bson]) -> &'a mut Bson {
    for part in parts {
        value = inner(value, part);
    }
    value
}

fn set(value: &mut Bson, part: &Bson, new: Bson) {
    match (value, part) {
        (Bson::Document(document), Bson::String(name)) => drop(document.insert(name.clone(), new)),
        (Bson::Array(array), Bson::Int32(at)) if number(*at) == array.len() => array.push(new),
        (value, part) => *inner(value, part) = new,
    }
}

/// Applies a description to the document before it.
///
/// # Panics
/// If a path leads nowhere.
pub(crate) fn apply(old: &Document, description: &Document) -> RawDocumentBuf {
    let mut whole = Bson::Document(old.clone());
    for cut in description.get_array("truncatedArrays").expect("a list") {
        let cut = cut.as_document().expect("a document");
        let path = parts(description, cut.get_str("field").expect("a path"));
        let array = reach(&mut whole, &path).as_array_mut().expect("an array");
        let len = number(cut.get_i32("newSize").expect("a number"));
        assert!(array.len() > len);
        array.truncate(len);
    }
    for path in description.get_array("removedFields").expect("a list") {
        let path = parts(description, path.as_str().expect("a path"));
        let (last, before) = path.split_last().expect("not empty");
        let document = reach(&mut whole, before).as_document_mut().expect("a document");
        assert!(document.remove(last.as_str().expect("a field")).is_some());
    }
    for (path, new) in description.get_document("updatedFields").expect("a document") {
        let path = parts(description, path);
        let (last, before) = path.split_last().expect("not empty");
        set(reach(&mut whole, before), last, new.clone());
    }
    RawDocumentBuf::try_from(whole.as_document().expect("a document")).expect("it was one before")
}
