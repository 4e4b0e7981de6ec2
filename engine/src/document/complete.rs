//! Completing a document: room for the values of its auto-increment fields, in SequoiaDB's order.
//!
//! Fields that a document lacks are appended at the end of their level, ascending by name, and parents are made for
//! them; `_id` is put first. Here stands only where values go and which ones the document brings: the values
//! themselves come afterwards, all of a call in one step. Documents that are not well-formed pass through as they are,
//! for the validation that follows to refuse.

use std::ops::Range;

use bson::spec::ElementType;
use index::element::{Element, elements};
use index::validate::{NESTING_MAX, ValidDocument};
use sequence::auto_increment::{Brought, Decision, Field};
use sequence::error::SequenceError;
use smallvec::SmallVec;

use crate::document::draft::{Drafts, Facts, Timestamps};
use crate::document::validate::validate_each;
use crate::error::Refusal;

const LENGTH_BYTES: usize = 4;
/// How much of a path that is too deep an error repeats.
const PATH_CHARACTERS_SHOWN: usize = 48;

/// The paths of fields as a tree: each level of a document is walked once.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldTree {
    /// Ascending by name.
    nodes: Vec<Node>,
    /// The most bytes that the fields can add to a document.
    room: usize,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    /// The dotted path to here.
    path: String,
    /// Position of the field that ends here.
    field: Option<usize>,
    below: FieldTree,
}

/// What a document asks of the sequence behind one of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Position of the document in its call.
    pub(crate) document: usize,
    /// Position of the field among those of the collection.
    pub(crate) field: usize,
    pub(crate) wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The next value, to be written at this place of the drafts.
    Value { place: usize },
    /// Nothing: the document brings a value, which the sequence takes note of if it is an integer.
    Nothing { brought: Option<i64> },
}

/// Documents with room for their values.
#[derive(Default)]
pub(crate) struct Completion {
    pub(crate) drafts: Drafts,
    /// In the order of documents; within one, in the order of the document.
    pub(crate) events: SmallVec<[Event; 2]>,
}

impl FieldTree {
    /// The tree of paths, whose positions are their fields'.
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        let mut tree = Self::default();
        for (field, path) in paths.enumerate() {
            tree.add("", path, field);
            tree.room += path.split('.').map(|name| name.len() + 7).sum::<usize>() + 8;
        }
        tree
    }

    fn add(&mut self, above: &str, rest: &str, field: usize) {
        let (name, rest) = rest.split_once('.').map_or((rest, None), |(name, rest)| (name, Some(rest)));
        let place = match self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)) {
            Ok(place) => place,
            Err(place) => {
                let path = format!("{above}{name}");
                let node = Node { name: name.to_owned(), path, field: None, below: Self::default() };
                self.nodes.insert(place, node);
                place
            }
        };
        let Some(node) = self.nodes.get_mut(place) else { return };
        match rest {
            None => node.field = Some(field),
            Some(rest) => node.below.add(&format!("{}.", node.path), rest, field),
        }
    }

    /// A document that can be stored and has no name of the outermost level.
    #[inline]
    pub(crate) fn unmet<'a>(&self, document: &'a [u8]) -> Option<ValidDocument<'a>> {
        let (valid, met) = validate_against(self, document).ok()?;
        (!met).then_some(valid)
    }

    /// Whether an element, which starts with its type byte, has a name of the outermost level.
    #[inline]
    fn meets(&self, element: &[u8]) -> bool {
        let named = element.get(1..).unwrap_or_default();
        // The terminator first: it is one byte, and rules most names out.
        self.nodes
            .iter()
            .map(|node| node.name.as_bytes())
            .any(|name| named.get(name.len()) == Some(&0) && named.starts_with(name))
    }

    fn find(&self, name: &[u8]) -> Option<(usize, &Node)> {
        self.nodes.iter().enumerate().find(|(_, node)| node.name.as_bytes() == name)
    }
}

/// Validates a document, and tells whether it has a name of the outermost level. It stands once, so that the reading of
/// elements is compiled into it.
fn validate_against<'a>(tree: &FieldTree, document: &'a [u8]) -> Result<(ValidDocument<'a>, bool), Refusal> {
    let mut met = false;
    let valid = validate_each(document, |element| met |= tree.meets(element))?;
    Ok((valid, met))
}

/// Refuses a field that lies deeper than a document reaches: no document could be completed with it.
pub(crate) fn check_depth(field: &Field) -> Result<(), SequenceError> {
    if field.segments().nth(NESTING_MAX).is_none() {
        return Ok(());
    }
    let shown = field.path().chars().take(PATH_CHARACTERS_SHOWN).collect::<String>() + "...";
    Err(SequenceError::Field { field: shown, reason: "it lies deeper than a document reaches" })
}

impl Completion {
    /// Adds a document, completed. One that cannot be stored is added as it is, for `prepare` to refuse.
    ///
    /// # Errors
    /// What a field's mode refuses; the document is not added then.
    pub(crate) fn push<'a>(
        &mut self,
        document: &[u8],
        tree: &FieldTree,
        field: impl Fn(usize) -> &'a Field,
    ) -> Result<(), SequenceError> {
        let (position, events) = (self.drafts.len(), self.events.len());
        let Ok((valid, met)) = validate_against(tree, document) else {
            self.drafts.push_bytes(document);
            return Ok(());
        };
        let room = document.len() + tree.room;
        let facts = Facts { timestamps: Timestamps::of(&valid), id: valid.id_element() };
        let source = Source { bytes: document, met, facts };
        let completed = self.drafts.push_with(room, |buffer| {
            let mut writer = Writer { buffer, events: &mut self.events, position, field: &field, start: 0 };
            writer.outermost(source, tree)
        });
        if completed.is_err() {
            self.events.truncate(events);
        }
        completed
    }

    /// Whether a document brings a value of a field itself.
    pub(crate) fn brings_values(&self) -> bool {
        self.events.iter().any(|event| matches!(event.wanted, Wanted::Nothing { .. }))
    }
}

/// A valid document that is to be completed.
struct Source<'a> {
    bytes: &'a [u8],
    /// Whether a name of the outermost level is in it.
    met: bool,
    facts: Facts,
}

/// Writes one document. Recursion goes as deep as the paths of fields, whose depth is bounded.
struct Writer<'a, F> {
    buffer: &'a mut Vec<u8>,
    events: &'a mut SmallVec<[Event; 2]>,
    position: usize,
    field: &'a F,
    /// Where the document starts in the buffer.
    start: usize,
}

/// Which nodes of a level the document has already.
type Present = SmallVec<[bool; 8]>;

impl<'f, F: Fn(usize) -> &'f Field> Writer<'_, F> {
    /// Writes a valid document, and tells where its `_id` came to stand.
    fn outermost(&mut self, source: Source<'_>, tree: &FieldTree) -> Result<Facts, SequenceError> {
        let Source { bytes: document, met, facts } = source;
        self.start = self.buffer.len();
        self.open();
        let made = self.make_id(document, tree, facts.id.as_ref());
        let made_id = made.map(|_| LENGTH_BYTES..self.buffer.len() - self.start);
        let own_id = if facts.id.is_none() && !met {
            // The common case: the document has no name of the tree, and is copied at once.
            let body = document.get(LENGTH_BYTES..document.len() - 1);
            self.buffer.extend_from_slice(body.unwrap_or_default());
            let missing = tree.nodes.iter().enumerate().filter(|(place, _)| made != Some(*place));
            missing.for_each(|(_, node)| self.make(node));
            None
        } else {
            let mut present = Present::from_elem(false, tree.nodes.len());
            if let Some(place) = made {
                mark(&mut present, place);
            }
            self.level(document, tree, &mut present)?
        };
        self.close(self.start);
        Ok(Facts { id: made_id.or(own_id), ..facts })
    }

    /// Makes the `_id` if it is one of the fields and the document's is absent or dropped: it stands first. One that is
    /// kept stays where it is, and is moved to the front as any other document's. Gives its node's place.
    fn make_id(&mut self, document: &[u8], tree: &FieldTree, own: Option<&Range<usize>>) -> Option<usize> {
        let (place, node) = tree.find(b"_id")?;
        if own.is_some() {
            let own = elements(document).find(|element| element.name == b"_id")?;
            if !self.is_generated(node, &own) {
                return None;
            }
        }
        self.make(node);
        Some(place)
    }

    /// The elements of a level, and behind them what it lacks. Tells where an `_id` was written, from the start of the
    /// document.
    fn level(
        &mut self,
        document: &[u8],
        tree: &FieldTree,
        present: &mut Present,
    ) -> Result<Option<Range<usize>>, SequenceError> {
        let mut id = None;
        for element in elements(document) {
            let from = self.buffer.len() - self.start;
            match tree.find(element.name) {
                None => self.buffer.extend_from_slice(element.whole),
                Some((place, node)) => {
                    if !self.meet(node, &element)? {
                        continue;
                    }
                    mark(present, place);
                }
            }
            if element.name == b"_id" {
                id = Some(from..self.buffer.len() - self.start);
            }
        }
        let missing = tree.nodes.iter().zip(present.iter()).filter(|(_, present)| !**present);
        missing.for_each(|(node, _)| self.make(node));
        Ok(id)
    }

    /// An element at a field's path, or on the way to one. Says whether it was kept.
    fn meet(&mut self, node: &Node, element: &Element<'_>) -> Result<bool, SequenceError> {
        let Some(position) = node.field else {
            if element.kind != ElementType::EmbeddedDocument {
                return Err(not_a_parent(node, element));
            }
            self.name(ElementType::EmbeddedDocument, &node.name);
            let start = self.open();
            let mut present = Present::from_elem(false, node.below.nodes.len());
            self.level(element.value, &node.below, &mut present)?;
            self.close(start);
            return Ok(true);
        };
        match (self.field)(position).decide(brought(element))? {
            Decision::Generate => Ok(false),
            Decision::Keep => {
                self.buffer.extend_from_slice(element.whole);
                self.event(position, Wanted::Nothing { brought: None });
                Ok(true)
            }
            Decision::Announce(brought) => {
                self.buffer.extend_from_slice(element.whole);
                self.event(position, Wanted::Nothing { brought: Some(brought) });
                Ok(true)
            }
        }
    }

    /// A field that is lacking, with the parents that are.
    fn make(&mut self, node: &Node) {
        if let Some(position) = node.field {
            self.name(ElementType::Int64, &node.name);
            self.event(position, Wanted::Value { place: self.buffer.len() });
            self.buffer.extend_from_slice(&[0; 8]);
            return;
        }
        self.name(ElementType::EmbeddedDocument, &node.name);
        let start = self.open();
        for below in &node.below.nodes {
            self.make(below);
        }
        self.close(start);
    }

    fn is_generated(&self, node: &Node, own: &Element<'_>) -> bool {
        let decision = node.field.map(|position| (self.field)(position).decide(brought(own)));
        matches!(decision, Some(Ok(Decision::Generate)))
    }

    fn event(&mut self, field: usize, wanted: Wanted) {
        self.events.push(Event { document: self.position, field, wanted });
    }

    fn name(&mut self, element_type: ElementType, name: &str) {
        self.buffer.push(element_type as u8);
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(0);
    }

    fn open(&mut self) -> usize {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; LENGTH_BYTES]);
        start
    }

    fn close(&mut self, start: usize) {
        self.buffer.push(0);
        // A length over the limit of the format is refused by the size check that follows every build.
        let length = i32::try_from(self.buffer.len() - start).unwrap_or(i32::MAX);
        if let Some(place) = self.buffer.get_mut(start..start + LENGTH_BYTES) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }
}

fn mark(present: &mut Present, place: usize) {
    if let Some(present) = present.get_mut(place) {
        *present = true;
    }
}

fn not_a_parent(node: &Node, found: &Element<'_>) -> SequenceError {
    let mut below = node;
    while let Some(first) = below.below.nodes.first() {
        below = first;
    }
    let (parent, field) = (node.path.clone(), below.path.clone());
    SequenceError::FieldParent { parent, field, found: type_name(found.kind) }
}

fn brought(element: &Element<'_>) -> Brought {
    if element.kind == ElementType::Null {
        return Brought::Null;
    }
    let integer = if element.kind == ElementType::Int32 {
        element.value.try_into().ok().map(|bytes| i32::from_le_bytes(bytes).into())
    } else if element.kind == ElementType::Int64 {
        element.value.try_into().ok().map(i64::from_le_bytes)
    } else {
        None
    };
    integer.map_or_else(|| Brought::Other(type_name(element.kind)), Brought::Integer)
}

fn type_name(kind: ElementType) -> &'static str {
    match kind {
        ElementType::Double => "a double",
        ElementType::String => "a string",
        ElementType::EmbeddedDocument => "an embedded document",
        ElementType::Array => "an array",
        ElementType::Binary => "binary data",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "an ObjectId",
        ElementType::Boolean => "a boolean",
        ElementType::DateTime => "a date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "a regular expression",
        ElementType::DbPointer => "a DBPointer",
        ElementType::JavaScriptCode => "code",
        ElementType::Symbol => "a symbol",
        ElementType::JavaScriptCodeWithScope => "code with a scope",
        ElementType::Int32 | ElementType::Int64 => "an integer",
        ElementType::Timestamp => "a timestamp",
        ElementType::Decimal128 => "a decimal",
        ElementType::MaxKey => "the greatest key",
        ElementType::MinKey => "the least key",
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};
    use sequence::auto_increment::{FieldOptions, Generated};

    use super::*;

    fn fields(paths: &[&str], generated: Generated) -> Vec<Field> {
        let field = |path: &&str| {
            let field = Some((*path).to_owned());
            Field::create(&FieldOptions { field, generated: Some(generated), ..FieldOptions::default() })
        };
        paths.iter().map(|path| field(path).expect("an allowed path")).collect()
    }

    /// The completed document, whose values are 1, 2, 3 in the order of the document.
    fn complete(document: &RawDocumentBuf, fields: &[Field]) -> Result<RawDocumentBuf, SequenceError> {
        let tree = FieldTree::new(fields.iter().map(Field::path));
        let mut completion = Completion::default();
        completion.push(document.as_bytes(), &tree, |position| fields.get(position).expect("a field"))?;
        let mut next = 0;
        for event in completion.events.clone() {
            if let Wanted::Value { place } = event.wanted {
                next += 1;
                completion.drafts.write_value(place, next);
            }
        }
        let bytes = completion.drafts.documents().next().expect("a document").to_vec();
        Ok(RawDocumentBuf::from_bytes(bytes).expect("well-formed"))
    }

    #[track_caller]
    fn check(document: &RawDocumentBuf, paths: &[&str], expected: &RawDocumentBuf) {
        let completed = complete(document, &fields(paths, Generated::Default)).expect("completed");
        assert_eq!(completed, *expected);
        index::validate::validate(completed.as_bytes()).expect("well-formed throughout");
    }

    #[test]
    fn fields_are_appended_in_the_order_of_their_names() {
        check(&rawdoc! { "x": 1 }, &["n"], &rawdoc! { "x": 1, "n": 1_i64 });
        check(&rawdoc! {}, &["b", "a"], &rawdoc! { "a": 1_i64, "b": 2_i64 });
        check(
            &rawdoc! { "a": { "cc": 2 } },
            &["a.aa", "a.bb"],
            &rawdoc! { "a": { "cc": 2, "aa": 1_i64, "bb": 2_i64 } },
        );
        check(
            &rawdoc! { "a": { "bb": { "bbb": 3 } } },
            &["a.aa", "a.bb"],
            &rawdoc! { "a": { "bb": { "bbb": 3 }, "aa": 1_i64 } },
        );
    }

    #[test]
    fn missing_parents_are_made() {
        check(&rawdoc! { "x": 1 }, &["a.b.c"], &rawdoc! { "x": 1, "a": { "b": { "c": 1_i64 } } });
        check(&rawdoc! { "a": {} }, &["a.b.c"], &rawdoc! { "a": { "b": { "c": 1_i64 } } });
    }

    #[test]
    fn a_name_with_a_dot_is_no_path() {
        check(&rawdoc! { "a.b": 5 }, &["a.b"], &rawdoc! { "a.b": 5, "a": { "b": 1_i64 } });
    }

    #[test]
    fn a_missing_id_is_put_first() {
        check(&rawdoc! { "x": 1 }, &["_id"], &rawdoc! { "_id": 1_i64, "x": 1 });
        check(&rawdoc! { "x": 1, "_id": 7 }, &["_id"], &rawdoc! { "x": 1, "_id": 7 });
        check(&rawdoc! { "x": 1 }, &["_id.n"], &rawdoc! { "_id": { "n": 1_i64 }, "x": 1 });
    }

    #[test]
    fn always_moves_the_field_to_the_end() {
        let document = rawdoc! { "n": "own", "x": 1, "n": 2 };
        let completed = complete(&document, &fields(&["n"], Generated::Always)).expect("completed");
        assert_eq!(completed, rawdoc! { "x": 1, "n": 1_i64 });
        let document = rawdoc! { "x": 1, "_id": 7 };
        let completed = complete(&document, &fields(&["_id"], Generated::Always)).expect("completed");
        assert_eq!(completed, rawdoc! { "_id": 1_i64, "x": 1 });
    }

    #[test]
    fn a_parent_that_is_no_document_is_refused_in_every_mode() {
        for (_, generated) in Generated::ALL {
            for document in [rawdoc! { "a": 1 }, rawdoc! { "a": [{ "b": 1 }] }, rawdoc! { "a": null }] {
                let error = complete(&document, &fields(&["a.b"], generated)).expect_err("refused");
                assert_eq!(error.sequoia_code(), -6);
                assert!(error.to_string().starts_with("a must be an embedded document"), "{error}");
            }
        }
    }

    #[test]
    fn what_is_not_well_formed_passes_through() {
        let mut broken = rawdoc! { "a": 1, "s": "text" }.into_bytes();
        broken.iter_mut().skip(14).take(1).for_each(|byte| *byte = 0xff);
        for bytes in [broken.as_slice(), b"", b"\x05\0\0\0", b"\x05\0\0\0\x01"] {
            let fields = fields(&["n"], Generated::Default);
            let tree = FieldTree::new(fields.iter().map(Field::path));
            let mut completion = Completion::default();
            completion
                .push(bytes, &tree, |position| fields.get(position).expect("a field"))
                .expect("not refused");
            assert_eq!(completion.drafts.documents().collect::<Vec<_>>(), [bytes]);
            assert!(completion.events.is_empty());
        }
    }
}
