//! Applying a projection: one walk over the bytes of the document, which copies what stays.
//!
//! The rules are MongoDB's. A path goes through arrays, and through arrays inside of arrays. Fields keep the
//! order of the document, and computed fields follow in the order of the projection. A value that is no
//! object is replaced by an object if a field below it is computed. In MongoDB `$slice` and `.$` are steps of
//! their own: neither goes through an array inside of an array, and `.$` applies to the first array of its
//! path.

use bson::spec::ElementType;
use bson::{RawDocument, RawDocumentBuf};
use index::validate::{DOCUMENT_BYTES_MAX, NESTING_MAX};
use index::writer::{Mark, Writer};

use crate::expression::Variables;
use crate::filter::Filter;
use crate::projection::error::Error;
use crate::projection::tree::{Action, Child, Mode, Node, Tree};
use crate::raw::{Field, Fields, Malformed, Operand};

/// The most levels of a document: as many as an insert accepts, and one more for an empty object at the
/// deepest level.
const DEPTH_MAX: usize = NESTING_MAX + 1;

/// The largest result in bytes. MongoDB allows a little more than for a stored document, because a result is
/// not stored.
const RESULT_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 16 * 1024;

/// The bytes that are allocated in advance for an inclusion, which mostly keeps a few small fields.
const INCLUDED_BYTES_GUESS: usize = 256;

/// Applies a projection to a document.
pub(super) fn apply(
    tree: &Tree,
    document: &RawDocument,
    variables: &Variables,
) -> Result<RawDocumentBuf, Error> {
    variables.operation().pass(document.as_bytes().len())?;
    // An exclusion keeps most bytes, so it gets room for all of them at once.
    let capacity = match tree.mode {
        Mode::Inclusion => document.as_bytes().len().min(INCLUDED_BYTES_GUESS),
        Mode::Exclusion => document.as_bytes().len(),
    };
    let out = Writer::with_capacity(capacity);
    let mut walk = Walk { tree, root: document, variables, out, depth: 0 };
    let open = walk.out.open();
    walk.document(&tree.root, document, Nesting::Objects)?;
    walk.close(open)?;
    RawDocumentBuf::from_bytes(walk.out.into_bytes()).map_err(|_| Error::InvalidDocument)
}

/// The walk over one document.
struct Walk<'w> {
    tree: &'w Tree,
    /// The whole document, which expressions and filters need at any depth.
    root: &'w RawDocument,
    variables: &'w Variables,
    out: Writer,
    depth: usize,
}

/// Which containers are between the whole document and the current value. A later variant includes the
/// earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nesting {
    /// Only objects.
    Objects,
    /// Arrays of objects as well.
    Arrays,
    /// An array directly in an array.
    ArrayInArray,
}

impl<'w> Walk<'w> {
    /// Writes the fields of a document that stay, and those that are added.
    fn document(&mut self, node: &'w Node, document: &'w RawDocument, nesting: Nesting) -> Result<(), Error> {
        self.descend()?;
        for element in Fields::of(document) {
            let element = element?;
            match (node.action(element.name()), self.tree.mode) {
                (Some(action), _) => self.field(action, &element, nesting)?,
                (None, Mode::Exclusion) => self.out.copy(element.whole()),
                (None, Mode::Inclusion) => {}
            }
        }
        for child in node.additions() {
            // The `$elemMatch` of an exclusion is written in place of the field.
            let is_written =
                matches!(child.action, Action::ElemMatch(_)) && self.tree.mode == Mode::Exclusion;
            if !is_written {
                self.add(child, document)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Writes what stays of a field with an action. Fields that are added come later: see `add`.
    fn field(&mut self, action: &'w Action, element: &Field<'w>, nesting: Nesting) -> Result<(), Error> {
        let is_array = element.kind() == ElementType::Array;
        match action {
            Action::Slice(slice) if is_array && nesting < Nesting::ArrayInArray => {
                let array = element.container()?;
                let kept = slice.range(Fields::of(array).count());
                let elements = Fields::of(array).skip(kept.start).take(kept.len());
                self.array(element.name(), elements)
            }
            // Below an array the first array of the path was found already, and this one is copied whole.
            Action::Positional if is_array && nesting == Nesting::Objects => {
                let found = self.positional_element(element)?;
                self.array(element.name(), std::iter::once(Ok(found)))
            }
            Action::Include | Action::Slice(_) | Action::Positional => {
                self.out.copy(element.whole());
                Ok(())
            }
            // Only with `$slice`: alone it makes an inclusion.
            Action::ElemMatch(filter) if self.tree.mode == Mode::Exclusion => {
                self.elem_match(element, filter)
            }
            Action::Exclude | Action::ElemMatch(_) | Action::Computed(_) => Ok(()),
            Action::Nested(node) => self.nested(node, element, nesting),
        }
    }

    /// Writes a field with actions on fields below it.
    fn nested(&mut self, node: &'w Node, element: &Field<'w>, nesting: Nesting) -> Result<(), Error> {
        if element.kind() != ElementType::Array || !node.has_positional() || nesting != Nesting::Objects {
            self.value(node, element.name(), element, nesting)?;
            return Ok(());
        }
        // This is the first array of a path with `.$`: only the element found stays, and the rest of the path
        // applies to it.
        let found = self.positional_element(element)?;
        self.out.header(ElementType::Array, element.name());
        let open = self.out.open();
        if !self.value(node, "0", &found, Nesting::Arrays)? {
            return Err(mismatch(element, 0));
        }
        self.close(open)
    }

    /// Writes what stays of a value as the field `name`. Returns `false` if nothing stays.
    fn value(
        &mut self,
        node: &'w Node,
        name: &str,
        element: &Field<'w>,
        nesting: Nesting,
    ) -> Result<bool, Error> {
        let is_array = element.kind() == ElementType::Array;
        if is_array || element.kind() == ElementType::EmbeddedDocument {
            let nested = element.container()?;
            self.out.header(element.kind(), name);
            let open = self.out.open();
            if is_array {
                self.elements(node, nested, nesting)?;
            } else {
                self.document(node, nested, nesting)?;
            }
            self.close(open)?;
        } else if self.tree.mode == Mode::Exclusion {
            // A value without fields has none to exclude, so it stays as it is.
            self.copy_as(name, element);
        } else if node.adds() {
            self.new_object(name, node)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Writes what stays of the elements of an array.
    fn elements(&mut self, node: &'w Node, array: &'w RawDocument, nesting: Nesting) -> Result<(), Error> {
        self.descend()?;
        // Elements may disappear, so those that stay are numbered again.
        let mut position = ElementPosition::default();
        for element in Fields::of(array) {
            let element = element?;
            let is_array = element.kind() == ElementType::Array;
            let nesting = if is_array { Nesting::ArrayInArray } else { nesting.max(Nesting::Arrays) };
            if self.value(node, position.name(), &element, nesting)? {
                position.advance();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Writes an array of whole elements.
    fn array(
        &mut self,
        name: &str,
        elements: impl Iterator<Item = Result<Field<'w>, Malformed>>,
    ) -> Result<(), Error> {
        self.out.header(ElementType::Array, name);
        let open = self.out.open();
        let mut position = ElementPosition::default();
        for element in elements {
            self.copy_as(position.name(), &element?);
            position.advance();
        }
        self.close(open)
    }

    /// Writes an array with the first element that matches, or nothing if none does.
    fn elem_match(&mut self, element: &Field<'w>, filter: &Filter) -> Result<(), Error> {
        if element.kind() != ElementType::Array {
            return Ok(());
        }
        let Some(position) = filter.array_position(self.root, self.variables.operation())? else {
            return Ok(());
        };
        let found = Fields::of(element.container()?).nth(position);
        match found {
            Some(found) => self.array(element.name(), std::iter::once(found)),
            None => Ok(()),
        }
    }

    /// Writes a field that the document may lack.
    fn add(&mut self, child: &'w Child, document: &'w RawDocument) -> Result<(), Error> {
        match &child.action {
            Action::Computed(expression) => {
                if let Some(value) = expression.evaluate(self.root, self.variables)? {
                    self.out.stored(&child.name, Operand::new(value.as_raw_bson_ref()).stored());
                }
                Ok(())
            }
            Action::ElemMatch(filter) => match find(document, &child.name)? {
                Some(element) => self.elem_match(&element, filter),
                None => Ok(()),
            },
            // If the document has the field, it was written with its additions already.
            Action::Nested(node) => match find(document, &child.name)? {
                Some(_) => Ok(()),
                None => self.new_object(&child.name, node),
            },
            Action::Include | Action::Exclude | Action::Slice(_) | Action::Positional => Ok(()),
        }
    }

    /// Writes an object that has only computed fields.
    fn new_object(&mut self, name: &str, node: &'w Node) -> Result<(), Error> {
        self.out.header(ElementType::EmbeddedDocument, name);
        let open = self.out.open();
        // There is no document at this path, so nothing is found in an empty one.
        for child in node.additions() {
            self.add(child, RawDocument::from_bytes(EMPTY).map_err(|_| Error::InvalidDocument)?)?;
        }
        self.close(open)
    }

    /// The element of an array that `.$` means.
    fn positional_element(&self, array: &Field<'w>) -> Result<Field<'w>, Error> {
        let filter = self.tree.filter.as_ref();
        let position =
            filter.map_or(Ok(None), |filter| filter.array_position(self.root, self.variables.operation()))?;
        let position = position.ok_or_else(|| Error::NoPosition { path: array.name().to_owned() })?;
        // The filter may have found the position in another array, which can be longer than this one.
        let element = Fields::of(array.container()?).nth(position);
        Ok(element.ok_or_else(|| mismatch(array, position))??)
    }

    /// Writes a value under another name.
    fn copy_as(&mut self, name: &str, element: &Field<'_>) {
        self.out.header(element.kind(), name);
        self.out.copy(element.bytes());
    }

    /// Ends a document or array, and checks the size of the result so far.
    fn close(&mut self, mark: Mark) -> Result<(), Error> {
        self.out.close(mark);
        let length = self.out.len();
        if length > RESULT_BYTES_MAX {
            return Err(Error::TooLarge { length, limit: RESULT_BYTES_MAX });
        }
        Ok(())
    }

    /// Counts a level, so that stored bytes that are nested without end cannot exhaust the stack.
    fn descend(&mut self) -> Result<(), Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooDeep { limit: DEPTH_MAX });
        }
        self.depth += 1;
        Ok(())
    }
}

/// A document without fields.
const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

/// The position of the next array element and its text, which is the element's field name in BSON.
#[derive(Default)]
struct ElementPosition {
    next: usize,
    name: String,
}

impl ElementPosition {
    fn name(&mut self) -> &str {
        use std::fmt::Write as _;

        // One buffer for all names of an array, instead of an allocation for each element.
        self.name.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.name, "{}", self.next);
        &self.name
    }

    fn advance(&mut self) {
        self.next += 1;
    }
}

fn mismatch(array: &Field<'_>, position: usize) -> Error {
    Error::PositionMismatch { path: array.name().to_owned(), position }
}

/// The first field of this name.
fn find<'d>(document: &'d RawDocument, name: &str) -> Result<Option<Field<'d>>, Error> {
    for element in Fields::of(document) {
        let element = element?;
        if element.name() == name {
            return Ok(Some(element));
        }
    }
    Ok(None)
}
