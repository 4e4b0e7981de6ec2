//! The description of an update's changes in a document, in the form of MongoDB's change events: fields with new
//! values, removed fields, and arrays that were cut.
//!
//! A description makes of the old document exactly the new one, to the byte: a field that exists keeps its place, a new one comes
//! after all others of its document. A document within the document that cannot be reported so (its fields have another order) is reported as a
//! whole. If the outermost one cannot, there is no description.

use std::collections::HashSet;

use bson::spec::ElementType;
use bson::{RawDocument, RawDocumentBuf};
use index::element::{Element, elements};
use index::path::array_index;

use index::writer::Writer;

/// The limit of changes in one value that are described. One with more is reported as a whole: its description would use
/// more memory than it does.
const CHANGES_MAX: usize = 1 << 14;

/// Compares the states of a document before and after an update. Returns `{ updatedFields, removedFields, truncatedArrays }`, and
/// `disambiguatedPaths` if a path can be read in two ways; or `None` if the new state must be reported as a whole.
///
/// ```
/// use bson::{Document, doc, rawdoc};
/// use cairndb_query::update::describe;
///
/// let old = rawdoc! { "_id": 1, "n": 1, "tags": ["a", "b", "c"], "at": { "x": 1, "y": 2 } };
/// let new = rawdoc! { "_id": 1, "tags": ["a"], "at": { "x": 5, "y": 2 }, "new": true };
/// let told = Document::try_from(describe(&old, &new).expect("it can be told"))?;
/// assert_eq!(told, doc! {
///     "updatedFields": { "at.x": 5, "new": true },
///     "removedFields": ["n"],
///     "truncatedArrays": [{ "field": "tags", "newSize": 1 }],
/// });
/// assert_eq!(describe(&rawdoc! { "a": 1, "b": 2 }, &rawdoc! { "b": 2, "a": 1 }), None);
/// # Ok::<(), bson::error::Error>(())
/// ```
pub fn describe(old: &RawDocument, new: &RawDocument) -> Option<RawDocumentBuf> {
    let mut changes = Changes::default();
    let is_told = changes.add_documents(old.as_bytes(), new.as_bytes(), &mut Vec::new());
    (is_told && changes.have_different_paths()).then(|| changes.to_document()).flatten()
}

/// A part of a path.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Field(&'a str),
    Position(usize),
}

/// A path, as it is shown.
struct Path {
    text: String,
    /// Its parts, if the text can be read in another way.
    parts: Option<Vec<OwnedPart>>,
}

enum OwnedPart {
    Field(String),
    Position(usize),
}

#[derive(Default)]
struct Changes<'a> {
    /// Each with the type and the bytes of its new value.
    updated: Vec<(Path, ElementType, &'a [u8])>,
    removed: Vec<Path>,
    /// Each with its new length.
    truncated: Vec<(Path, usize)>,
    /// About how many bytes all of this has.
    bytes: usize,
}

/// The amount that was found at a moment.
#[derive(Clone, Copy)]
struct Found {
    updated: usize,
    removed: usize,
    truncated: usize,
    bytes: usize,
}

impl<'a> Changes<'a> {
    /// Adds what differs between two documents. Returns `false` if that cannot be reported.
    fn add_documents(&mut self, old: &'a [u8], new: &'a [u8], path: &mut Vec<Part<'a>>) -> bool {
        let mut names = HashSet::new();
        if !elements(new).all(|element| names.insert(element.name)) {
            // A path means the first of several fields with one name.
            return false;
        }
        let mut removed = HashSet::new();
        let mut after = elements(new).peekable();
        let begin = self.count();
        for before in elements(old) {
            if self.count() - begin > CHANGES_MAX {
                return false;
            }
            let same = after.next_if(|after| after.name == before.name);
            let Ok(name) = str::from_utf8(before.name) else { return false };
            path.push(Part::Field(name));
            let is_told = match same {
                Some(after) => self.add_values(before, after, path),
                // Fields that stay keep their order, and new ones come after them.
                None if names.contains(before.name) => false,
                None => {
                    self.remove(path);
                    removed.insert(before.name)
                }
            };
            path.pop();
            if !is_told {
                return false;
            }
        }
        after.all(|new| {
            let Ok(name) = str::from_utf8(new.name) else { return false };
            if self.count() - begin > CHANGES_MAX {
                return false;
            }
            path.push(Part::Field(name));
            self.set(path, new);
            path.pop();
            true
        })
    }

    /// Adds what differs between two values of a field. A value can always be reported as a whole.
    fn add_values(&mut self, old: Element<'a>, new: Element<'a>, path: &mut Vec<Part<'a>>) -> bool {
        if old.kind == new.kind && old.value == new.value {
            return true;
        }
        let before = self.found();
        let is_told = match (old.kind, new.kind) {
            (ElementType::EmbeddedDocument, ElementType::EmbeddedDocument) => {
                self.add_documents(old.value, new.value, path)
            }
            (ElementType::Array, ElementType::Array) => self.add_arrays(old.value, new.value, path),
            _ => false,
        };
        if !is_told || self.bytes - before.bytes > new.value.len() {
            self.revert(before);
            self.set(path, new);
        }
        true
    }

    /// Adds what differs between two arrays. Returns `false` if that cannot be reported.
    fn add_arrays(&mut self, old: &'a [u8], new: &'a [u8], path: &mut Vec<Part<'a>>) -> bool {
        let is_numbered = |array| {
            elements(array).enumerate().all(|(at, element): (usize, Element<'_>)| {
                str::from_utf8(element.name).ok().and_then(array_index) == Some(at)
            })
        };
        if !is_numbered(old) || !is_numbered(new) {
            return false;
        }
        let (old_len, new_len) = (elements(old).count(), elements(new).count());
        if new_len < old_len {
            self.truncate(path, new_len);
        }
        let mut before = elements(old);
        let begin = self.count();
        for (at, new) in elements(new).enumerate() {
            if self.count() - begin > CHANGES_MAX {
                return false;
            }
            path.push(Part::Position(at));
            match before.next() {
                Some(old) => drop(self.add_values(old, new, path)),
                None => self.set(path, new),
            }
            path.pop();
        }
        true
    }

    fn set(&mut self, path: &[Part<'a>], new: Element<'a>) {
        let path = Path::of(path);
        self.bytes += path.text.len() + new.value.len();
        self.updated.push((path, new.kind, new.value));
    }

    fn remove(&mut self, path: &[Part<'a>]) {
        let path = Path::of(path);
        self.bytes += path.text.len();
        self.removed.push(path);
    }

    fn truncate(&mut self, path: &[Part<'a>], len: usize) {
        let path = Path::of(path);
        self.bytes += path.text.len();
        self.truncated.push((path, len));
    }

    /// The number of changes that were found.
    fn count(&self) -> usize {
        self.updated.len() + self.removed.len() + self.truncated.len()
    }

    fn found(&self) -> Found {
        let Self { updated, removed, truncated, bytes } = self;
        Found { updated: updated.len(), removed: removed.len(), truncated: truncated.len(), bytes: *bytes }
    }

    /// Forgets everything since a moment.
    fn revert(&mut self, found: Found) {
        self.updated.truncate(found.updated);
        self.removed.truncate(found.removed);
        self.truncated.truncate(found.truncated);
        self.bytes = found.bytes;
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let updated = self.updated.iter().map(|(path, ..)| path);
        updated.chain(&self.removed).chain(self.truncated.iter().map(|(path, _)| path))
    }

    /// Whether no two paths have the same text: `a.b` may be a field of `a`, or a field with a dot in its name. An array may be
    /// cut and have new elements, but those have other paths.
    fn have_different_paths(&self) -> bool {
        let mut texts = HashSet::new();
        self.paths().all(|path| texts.insert(&path.text))
    }

    fn to_document(&self) -> Option<RawDocumentBuf> {
        let mut writer = Writer::with_capacity(self.bytes + 128);
        let whole = writer.open();
        writer.header(ElementType::EmbeddedDocument, "updatedFields");
        let updated = writer.open();
        for (path, kind, value) in &self.updated {
            writer.header(*kind, &path.text);
            writer.copy(value);
        }
        writer.close(updated);
        writer.header(ElementType::Array, "removedFields");
        let removed = writer.open();
        for (at, path) in self.removed.iter().enumerate() {
            writer.indexed_header(ElementType::String, at);
            put_text(&mut writer, &path.text);
        }
        writer.close(removed);
        writer.header(ElementType::Array, "truncatedArrays");
        let truncated = writer.open();
        for (at, (path, len)) in self.truncated.iter().enumerate() {
            writer.indexed_header(ElementType::EmbeddedDocument, at);
            let array = writer.open();
            writer.header(ElementType::String, "field");
            put_text(&mut writer, &path.text);
            writer.header(ElementType::Int32, "newSize");
            put_number(&mut writer, *len);
            writer.close(array);
        }
        writer.close(truncated);
        self.put_ambiguous(&mut writer);
        writer.close(whole);
        RawDocumentBuf::from_bytes(writer.into_bytes()).ok()
    }

    fn put_ambiguous(&self, writer: &mut Writer) {
        let mut ambiguous = self.paths().filter_map(|path| Some((path, path.parts.as_ref()?))).peekable();
        if ambiguous.peek().is_none() {
            return;
        }
        writer.header(ElementType::EmbeddedDocument, "disambiguatedPaths");
        let paths = writer.open();
        for (path, parts) in ambiguous {
            writer.header(ElementType::Array, &path.text);
            let list = writer.open();
            for (at, part) in parts.iter().enumerate() {
                match part {
                    OwnedPart::Field(name) => {
                        writer.indexed_header(ElementType::String, at);
                        put_text(writer, name);
                    }
                    OwnedPart::Position(position) => {
                        writer.indexed_header(ElementType::Int32, at);
                        put_number(writer, *position);
                    }
                }
            }
            writer.close(list);
        }
        writer.close(paths);
    }
}

impl Path {
    fn of(parts: &[Part<'_>]) -> Self {
        let texts = parts.iter().map(|part| match part {
            Part::Field(name) => (*name).to_owned(),
            Part::Position(position) => position.to_string(),
        });
        let text = texts.collect::<Vec<_>>().join(".");
        // A name with a dot in it, and a name that could be a position.
        let is_ambiguous = parts.iter().any(|part| match part {
            Part::Field(name) => name.contains('.') || array_index(name).is_some(),
            Part::Position(_) => false,
        });
        let owned = |part: &Part<'_>| match part {
            Part::Field(name) => OwnedPart::Field((*name).to_owned()),
            Part::Position(position) => OwnedPart::Position(*position),
        };
        Self { text, parts: is_ambiguous.then(|| parts.iter().map(owned).collect()) }
    }
}

fn put_text(writer: &mut Writer, text: &str) {
    writer.copy(&i32::try_from(text.len() + 1).unwrap_or(i32::MAX).to_le_bytes());
    writer.copy(text.as_bytes());
    writer.copy(&[0]);
}

fn put_number(writer: &mut Writer, number: usize) {
    writer.copy(&i32::try_from(number).unwrap_or(i32::MAX).to_le_bytes());
}
