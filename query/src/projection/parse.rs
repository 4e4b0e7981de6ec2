//! From a projection to its tree: all checks of paths, of operators, and of what may stand beside what.
//!
//! The invariant: a path has a bounded number of parts, and an object in an object is a longer path; so whatever the
//! document, the tree's depth is bounded.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::expression::error::Error as ExpressionError;
use crate::expression::{Expression, Variables};
use crate::filter::Filter;
use crate::path::parse_path;
use crate::projection::error::{Error, Fault};
use crate::projection::slice::Slice;
use crate::projection::tree::{Action, Node};
use crate::projection::{Mode, Projection};
use crate::value::{describe, is_true};

const ID: &str = "_id";

/// Where a projection stands: what it may use differs.
#[derive(Clone, Copy)]
pub(super) enum Place<'f> {
    /// A command that finds by a filter.
    Find(Option<&'f Filter>),
    /// A stage of a pipeline.
    Stage,
}

/// What a `.$` in a name means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Positional {
    None,
    Inside,
    AtEnd,
}

/// What is said of `_id`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Nothing,
    /// That it is excluded or computed, or something of a field below it.
    Other,
    Included,
}

/// What was seen so far.
pub(super) struct Parser<'p> {
    place: Place<'p>,
    variables: &'p Variables,
    root: Node,
    mode: Option<Mode>,
    id: Id,
    has_slice: bool,
    has_elem_match: bool,
    has_positional: bool,
}

impl<'p> Parser<'p> {
    pub(super) fn new(place: Place<'p>, variables: &'p Variables) -> Self {
        Self {
            place,
            variables,
            root: Node::default(),
            mode: None,
            id: Id::Nothing,
            has_slice: false,
            has_elem_match: false,
            has_positional: false,
        }
    }

    pub(super) fn parse(mut self, projection: &RawDocument) -> Result<Projection, Error> {
        self.object("", projection)?;
        let mode = self.mode.unwrap_or_else(|| self.implied_mode());
        match mode {
            Mode::Inclusion if self.id == Id::Nothing => {
                self.root.insert(ID, Action::Include).map_err(|fault| malformed(ID, fault))?;
            }
            Mode::Exclusion if self.id == Id::Included => self.root.remove(ID),
            Mode::Inclusion | Mode::Exclusion => {}
        }
        self.root.seal();
        let filter = match self.place {
            Place::Find(filter) if self.has_positional => filter.cloned(),
            Place::Find(_) | Place::Stage => None,
        };
        Ok(Projection { root: self.root, mode, filter })
    }

    /// What a projection is that names nothing but `_id` and parts of arrays.
    fn implied_mode(&self) -> Mode {
        if self.id == Id::Included || (self.has_elem_match && !self.has_slice) {
            Mode::Inclusion
        } else {
            Mode::Exclusion
        }
    }

    /// Reads all fields of an object that stands at a path, or of the whole projection.
    fn object(&mut self, path: &str, object: &RawDocument) -> Result<(), Error> {
        for (position, element) in object.iter_elements().enumerate() {
            let (name, value) = element
                .and_then(|element| Ok((element.key().as_str(), element.value()?)))
                .map_err(|_| Error::InvalidBson { path: path.to_owned(), position })?;
            if !path.is_empty() {
                self.field(&format!("{path}.{name}"), value)?;
                continue;
            }
            if self.id == Id::Nothing && (name == ID || name.starts_with("_id.")) {
                self.id = Id::Other;
            }
            self.field(name, value)?;
        }
        Ok(())
    }

    fn field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<(), Error> {
        let positional = Positional::of(path);
        if matches!(self.place, Place::Stage) && positional != Positional::None {
            return Err(malformed(path, Fault::PositionalInStage));
        }
        if positional == Positional::Inside {
            return Err(malformed(path, Fault::PositionalInside));
        }
        if let Some(object) = value.as_document() {
            return match positional {
                Positional::None => self.object_or_expression(path, object),
                Positional::Inside | Positional::AtEnd => Err(malformed(path, Fault::PositionalObject)),
            };
        }
        let is_switch = value.as_bool().is_some() || index::number::Number::of(value).is_some();
        match (is_switch, positional) {
            (true, Positional::None) if is_true(value) => self.include(path),
            (true, Positional::None) => self.exclude(path),
            (true, _) if is_true(value) => self.positional(path),
            (true, _) => Err(malformed(path, Fault::PositionalExclusion)),
            (false, Positional::None) => self.compute(path, value, Fault::ValueInExclusion),
            (false, _) => Err(malformed(path, Fault::PositionalValue)),
        }
    }

    fn include(&mut self, path: &str) -> Result<(), Error> {
        if path == ID {
            self.id = Id::Included;
        } else {
            self.require(Mode::Inclusion, path, Fault::InclusionInExclusion)?;
        }
        self.insert(path, Action::Include)
    }

    fn exclude(&mut self, path: &str) -> Result<(), Error> {
        if path == ID {
            self.id = Id::Other;
        } else {
            self.require(Mode::Exclusion, path, Fault::ExclusionInInclusion)?;
        }
        self.insert(path, Action::Exclude)
    }

    fn positional(&mut self, path: &str) -> Result<(), Error> {
        if self.has_positional {
            return Err(malformed(path, Fault::PositionalTwice));
        }
        if self.has_elem_match {
            return Err(malformed(path, Fault::PositionalAfterElemMatch));
        }
        if !matches!(self.place, Place::Find(Some(_))) {
            return Err(malformed(path, Fault::PositionalWithoutFilter));
        }
        self.require(Mode::Inclusion, path, Fault::InclusionInExclusion)?;
        self.has_positional = true;
        self.insert(path.strip_suffix(".$").unwrap_or(path), Action::Positional)
    }

    fn object_or_expression(&mut self, path: &str, object: &RawDocument) -> Result<(), Error> {
        let mut names = object.iter_elements().map(|element| element.map(|element| element.key().as_str()));
        let first = names.next().ok_or_else(|| malformed(path, Fault::EmptyObject))?;
        let first = first.map_err(|_| Error::InvalidBson { path: path.to_owned(), position: 0 })?;
        let is_operator = first.starts_with('$') && !matches!(first, "$id" | "$ref" | "$db");
        if is_operator && names.next().is_none() {
            let operand = object.get(first).ok().flatten();
            let operand = operand.ok_or_else(|| Error::InvalidBson { path: path.to_owned(), position: 0 })?;
            return self.operator(path, first, operand, object);
        }
        parse_path(path).map_err(|refusal| malformed(path, Fault::Path(refusal)))?;
        if self.root.has_leaf(path) {
            return Err(malformed(path, Fault::Collision));
        }
        self.object(path, object)
    }

    fn operator(
        &mut self,
        path: &str,
        name: &str,
        operand: RawBsonRef<'_>,
        object: &RawDocument,
    ) -> Result<(), Error> {
        match (name, self.place) {
            ("$meta", _) => Err(Error::Unsupported { path: path.to_owned(), operator: name.to_owned() }),
            ("$elemMatch", Place::Stage) => Err(malformed(path, Fault::ElemMatchInStage)),
            ("$elemMatch", Place::Find(_)) => self.elem_match(path, operand),
            ("$slice", Place::Find(_)) if let Some(slice) = Slice::parse(operand) => {
                self.has_slice = true;
                self.insert(path, Action::Slice(slice))
            }
            (_, _) => {
                let value = RawBsonRef::Document(object);
                match self.compute(path, value, Fault::ExpressionInExclusion) {
                    Err(Error::Expression(ExpressionError::UnknownOperator { operator }))
                        if operator == name =>
                    {
                        Err(malformed(path, Fault::UnknownExpression { operator }))
                    }
                    outcome => outcome,
                }
            }
        }
    }

    fn elem_match(&mut self, path: &str, operand: RawBsonRef<'_>) -> Result<(), Error> {
        if operand.as_document().is_none() {
            return Err(malformed(path, Fault::ElemMatchType { found: describe(operand) }));
        }
        if self.has_positional {
            return Err(malformed(path, Fault::ElemMatchAfterPositional));
        }
        if path.contains('.') {
            return Err(malformed(path, Fault::ElemMatchNested));
        }
        let mut condition = RawDocumentBuf::new();
        condition.append(bson::raw::cstr!("$elemMatch"), operand);
        let name = bson::raw::CString::try_from(path).map_err(|_| Error::InvalidDocument)?;
        let mut filter = RawDocumentBuf::new();
        filter.append(&name, condition);
        let filter = Filter::parse_plain(&filter, self.variables.room())?;
        self.has_elem_match = true;
        self.insert(path, Action::ElemMatch(Box::new(filter)))
    }

    fn compute(&mut self, path: &str, value: RawBsonRef<'_>, fault: Fault) -> Result<(), Error> {
        self.require(Mode::Inclusion, path, fault)?;
        let expression = Expression::parse(value, self.variables)?;
        self.insert(path, Action::Computed(Box::new(expression)))
    }

    /// Settles what the projection is, or finds that it is the other.
    fn require(&mut self, mode: Mode, path: &str, fault: Fault) -> Result<(), Error> {
        if self.mode.is_some_and(|settled| settled != mode) {
            return Err(malformed(path, fault));
        }
        self.mode = Some(mode);
        Ok(())
    }

    fn insert(&mut self, path: &str, action: Action) -> Result<(), Error> {
        parse_path(path).map_err(|refusal| malformed(path, Fault::Path(refusal)))?;
        self.root.insert(path, action).map_err(|fault| malformed(path, fault))
    }
}

impl Positional {
    fn of(path: &str) -> Self {
        if path.contains(".$.") || path.starts_with("$.") {
            Self::Inside
        } else if path.ends_with(".$") {
            Self::AtEnd
        } else {
            Self::None
        }
    }
}

fn malformed(path: &str, fault: Fault) -> Error {
    Error::Malformed { path: path.to_owned(), fault }
}
