//! Applying a projection: one walk over the document's bytes, which copies what stays.
//!
//! The rules of MongoDB that shape it: arrays are gone through, arrays in arrays as well; fields keep the order of the
//! document, and computed ones follow in the order of the projection; a value that is no object gives way to one if
//! something is computed below it. `$slice` and `.$` are steps of their own in MongoDB, which do not look into
//! arrays in arrays, and of which `.$` takes the first array on its path.

use bson::spec::ElementType;
use bson::{RawDocument, RawDocumentBuf};
use index::validate::{DOCUMENT_BYTES_MAX, NESTING_MAX};

use crate::expression::Variables;
use crate::filter::Filter;
use crate::projection::error::Error;
use crate::projection::tree::{Action, Child, Node};
use crate::projection::{Mode, Projection};
use crate::raw::{Field, Fields, Malformed, Mark, Operand, Writer};

/// How many levels are gone through: what an insert accepts, and an empty object below it.
const DEPTH_MAX: usize = NESTING_MAX + 1;

/// How many bytes a result may have: a little more than a stored document, as it is never stored.
const RESULT_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 16 * 1024;

/// How many bytes are set aside for the fields that stay; more are found when they are needed.
const INCLUDED_BYTES_GUESS: usize = 256;

/// Applies a projection to a document.
pub(super) fn apply(
    projection: &Projection,
    document: &RawDocument,
    variables: &Variables,
) -> Result<RawDocumentBuf, Error> {
    variables.operation().pass(document.as_bytes().len())?;
    let capacity = match projection.mode {
        Mode::Inclusion => document.as_bytes().len().min(INCLUDED_BYTES_GUESS),
        Mode::Exclusion => document.as_bytes().len(),
    };
    let out = Writer::with_capacity(capacity);
    let mut walk = Walk { projection, root: document, variables, out, depth: 0 };
    let open = walk.out.open();
    walk.document(&projection.root, document, Way::Objects)?;
    walk.close(open)?;
    RawDocumentBuf::from_bytes(walk.out.into_bytes()).map_err(|_| Error::InvalidDocument)
}

struct Walk<'w> {
    projection: &'w Projection,
    root: &'w RawDocument,
    variables: &'w Variables,
    out: Writer,
    depth: usize,
}

/// What lies between the root and where the walk is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Objects alone.
    Objects,
    /// Arrays of objects, too.
    Arrays,
    /// An array directly in an array.
    ArrayInArray,
}

impl<'w> Walk<'w> {
    /// Writes what stays of a document's fields, and what is added to them.
    fn document(&mut self, node: &'w Node, document: &'w RawDocument, way: Way) -> Result<(), Error> {
        self.descend()?;
        for element in Fields::of(document) {
            let element = element?;
            match (node.action(element.name()), self.projection.mode) {
                (Some(action), _) => self.field(action, &element, way)?,
                (None, Mode::Exclusion) => self.out.copy(element.whole()),
                (None, Mode::Inclusion) => {}
            }
        }
        if self.projection.mode == Mode::Inclusion {
            for child in node.additions() {
                self.add(child, document)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn field(&mut self, action: &'w Action, element: &Field<'w>, way: Way) -> Result<(), Error> {
        let is_array = element.kind() == ElementType::Array;
        match action {
            Action::Slice(slice) if is_array && way < Way::ArrayInArray => {
                let array = element.container()?;
                let kept = slice.range(Fields::of(array).count());
                let elements = Fields::of(array).skip(kept.start).take(kept.len());
                self.array(element.name(), elements)
            }
            Action::Positional if is_array && way == Way::Objects => {
                let found = self.positional_element(element)?;
                self.array(element.name(), std::iter::once(Ok(found)))
            }
            Action::Include | Action::Slice(_) | Action::Positional => {
                self.out.copy(element.whole());
                Ok(())
            }
            Action::ElemMatch(filter) if self.projection.mode == Mode::Exclusion => {
                self.elem_match(element, filter)
            }
            Action::Exclude | Action::ElemMatch(_) | Action::Computed(_) => Ok(()),
            Action::Nested(node) => self.nested(node, element, way),
        }
    }

    /// Writes a field that something happens below of.
    fn nested(&mut self, node: &'w Node, element: &Field<'w>, way: Way) -> Result<(), Error> {
        if element.kind() != ElementType::Array || !node.has_positional() || way != Way::Objects {
            self.value(node, element.name(), element, way)?;
            return Ok(());
        }
        let found = self.positional_element(element)?;
        self.out.header(ElementType::Array, element.name());
        let open = self.out.open();
        if !self.value(node, "0", &found, Way::Arrays)? {
            return Err(mismatch(element, 0));
        }
        self.close(open)
    }

    /// Writes what stays of a value, under a name, unless nothing does.
    fn value(&mut self, node: &'w Node, name: &str, element: &Field<'w>, way: Way) -> Result<bool, Error> {
        let is_array = element.kind() == ElementType::Array;
        if is_array || element.kind() == ElementType::EmbeddedDocument {
            let nested = element.container()?;
            self.out.header(element.kind(), name);
            let open = self.out.open();
            if is_array {
                self.elements(node, nested, way)?;
            } else {
                self.document(node, nested, way)?;
            }
            self.close(open)?;
        } else if self.projection.mode == Mode::Exclusion {
            self.copy_as(name, element);
        } else if node.adds() {
            self.new_object(name, node)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Writes what stays of an array's elements.
    fn elements(&mut self, node: &'w Node, array: &'w RawDocument, way: Way) -> Result<(), Error> {
        self.descend()?;
        let mut position = Position::default();
        for element in Fields::of(array) {
            let element = element?;
            let is_array = element.kind() == ElementType::Array;
            let way = if is_array { Way::ArrayInArray } else { way.max(Way::Arrays) };
            if self.value(node, position.name(), &element, way)? {
                position.advance();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Writes elements as they are, as an array.
    fn array(
        &mut self,
        name: &str,
        elements: impl Iterator<Item = Result<Field<'w>, Malformed>>,
    ) -> Result<(), Error> {
        self.out.header(ElementType::Array, name);
        let open = self.out.open();
        let mut position = Position::default();
        for element in elements {
            self.copy_as(position.name(), &element?);
            position.advance();
        }
        self.close(open)
    }

    /// Writes the first element of an array that a filter finds, unless there is none.
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

    /// Writes a field that the document need not have.
    fn add(&mut self, child: &'w Child, document: &'w RawDocument) -> Result<(), Error> {
        match &child.action {
            Action::Computed(expression) => {
                if let Some(value) = expression.evaluate(self.root, self.variables)? {
                    self.out.operand(&child.name, &Operand::new(value.as_raw_bson_ref()));
                }
                Ok(())
            }
            Action::ElemMatch(filter) => match find(document, &child.name)? {
                Some(element) => self.elem_match(&element, filter),
                None => Ok(()),
            },
            Action::Nested(node) => match find(document, &child.name)? {
                Some(_) => Ok(()),
                None => self.new_object(&child.name, node),
            },
            Action::Include | Action::Exclude | Action::Slice(_) | Action::Positional => Ok(()),
        }
    }

    /// Writes an object of nothing but computed fields.
    fn new_object(&mut self, name: &str, node: &'w Node) -> Result<(), Error> {
        self.out.header(ElementType::EmbeddedDocument, name);
        let open = self.out.open();
        for child in node.additions() {
            self.add(child, RawDocument::from_bytes(EMPTY).map_err(|_| Error::InvalidDocument)?)?;
        }
        self.close(open)
    }

    /// The element of an array that the query's filter found.
    fn positional_element(&self, array: &Field<'w>) -> Result<Field<'w>, Error> {
        let filter = self.projection.filter.as_ref();
        let position =
            filter.map_or(Ok(None), |filter| filter.array_position(self.root, self.variables.operation()))?;
        let position = position.ok_or_else(|| Error::NoPosition { path: array.name().to_owned() })?;
        let element = Fields::of(array.container()?).nth(position);
        Ok(element.ok_or_else(|| mismatch(array, position))??)
    }

    /// Writes a value under another name.
    fn copy_as(&mut self, name: &str, element: &Field<'_>) {
        self.out.header(element.kind(), name);
        self.out.copy(element.bytes());
    }

    /// Ends a document or array.
    fn close(&mut self, mark: Mark) -> Result<(), Error> {
        self.out.close(mark);
        let length = self.out.len();
        if length > RESULT_BYTES_MAX {
            return Err(Error::TooLarge { length, limit: RESULT_BYTES_MAX });
        }
        Ok(())
    }

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

/// The position of the next element of an array, as a name.
#[derive(Default)]
struct Position {
    next: usize,
    name: String,
}

impl Position {
    fn name(&mut self) -> &str {
        use std::fmt::Write as _;

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

/// The first element of a name.
fn find<'d>(document: &'d RawDocument, name: &str) -> Result<Option<Field<'d>>, Error> {
    for element in Fields::of(document) {
        let element = element?;
        if element.name() == name {
            return Ok(Some(element));
        }
    }
    Ok(None)
}
