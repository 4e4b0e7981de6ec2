//! From a projection to its tree: all checks of paths and operators, and of parts that exclude each other.
//!
//! The invariant: the depth of the tree is bounded for every document. A path has a bounded number of
//! components, and a nested object is a longer path.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::expression::error::Error as ExpressionError;
use crate::expression::{Expression, Variables};
use crate::filter::Filter;
use crate::path::parse_path;
use crate::projection::error::{Error, Fault};
use crate::projection::slice::Slice;
use crate::projection::tree::{Action, Mode, Node, Tree};
use crate::value::{describe, is_true};

const ID: &str = "_id";

/// The context of a projection, which decides what it may use.
#[derive(Clone, Copy)]
pub(super) enum Dialect<'f> {
    /// A find command, with its filter.
    Find(Option<&'f Filter>),
    /// A stage of a pipeline.
    Stage,
}

/// The position of `.$` in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Positional {
    None,
    Inside,
    AtEnd,
}

/// The treatment of `_id`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Nothing,
    /// It is excluded or computed, or the projection names a field below it.
    Other,
    Included,
}

/// The parser with the parts that it has read.
pub(super) struct Parser<'p> {
    dialect: Dialect<'p>,
    variables: &'p Variables,
    root: Node,
    /// The mode, once a part has decided it.
    mode: Option<Mode>,
    id: Id,
    has_slice: bool,
    has_elem_match: bool,
    has_positional: bool,
}

impl<'p> Parser<'p> {
    pub(super) fn new(dialect: Dialect<'p>, variables: &'p Variables) -> Self {
        Self {
            dialect,
            variables,
            root: Node::default(),
            mode: None,
            id: Id::Nothing,
            has_slice: false,
            has_elem_match: false,
            has_positional: false,
        }
    }

    /// Parses the whole projection.
    pub(super) fn parse(mut self, projection: &RawDocument) -> Result<Tree, Error> {
        self.object("", projection)?;
        let mode = self.mode.unwrap_or_else(|| self.implied_mode());
        match mode {
            // MongoDB returns `_id` unless it is excluded by name.
            Mode::Inclusion if self.id == Id::Nothing => {
                self.root.insert(ID, Action::Include).map_err(|fault| malformed(ID, fault))?;
            }
            // In an exclusion every field that is not named stays, so `_id: 1` changes nothing.
            Mode::Exclusion if self.id == Id::Included => self.root.remove(ID),
            Mode::Inclusion | Mode::Exclusion => {}
        }
        // The last step, because positions in a sealed tree do not survive an insertion.
        self.root.seal();
        // Cloned only if it is needed: most projections have no `.$`.
        let filter = match self.dialect {
            Dialect::Find(filter) if self.has_positional => filter.cloned(),
            Dialect::Find(_) | Dialect::Stage => None,
        };
        Ok(Tree { root: self.root, mode, filter })
    }

    /// The mode of a projection in which no part decides it: it names only `_id` and parts of arrays.
    fn implied_mode(&self) -> Mode {
        // As in MongoDB: `_id: 1` implies an inclusion, and so does `$elemMatch` without `$slice`. All else
        // is an exclusion.
        if self.id == Id::Included || (self.has_elem_match && !self.has_slice) {
            Mode::Inclusion
        } else {
            Mode::Exclusion
        }
    }

    /// Parses all fields of the object at a path. The path of the whole projection is empty.
    fn object(&mut self, path: &str, object: &RawDocument) -> Result<(), Error> {
        for (position, element) in object.iter_elements().enumerate() {
            let (name, value) = element
                .and_then(|element| Ok((element.key().as_str(), element.value()?)))
                .map_err(|_| Error::InvalidBson { path: path.to_owned(), position })?;
            if !path.is_empty() {
                self.field(&format!("{path}.{name}"), value)?;
                continue;
            }
            // Naming a field below `_id` is enough to keep `_id` from being included as a whole.
            if self.id == Id::Nothing && (name == ID || name.starts_with("_id.")) {
                self.id = Id::Other;
            }
            self.field(name, value)?;
        }
        Ok(())
    }

    /// Parses what happens to the field at a path.
    fn field(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<(), Error> {
        let positional = Positional::of(path);
        // Before all other checks, since a stage rejects `.$` anywhere in a path.
        if matches!(self.dialect, Dialect::Stage) && positional != Positional::None {
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
        // Numbers and booleans include or exclude. Any other value is a constant or a field path to compute.
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

    /// Adds an inclusion. That of `_id` decides no mode, because `_id` may be included or excluded in both.
    fn include(&mut self, path: &str) -> Result<(), Error> {
        if path == ID {
            self.id = Id::Included;
        } else {
            self.require(Mode::Inclusion, path, Fault::InclusionInExclusion)?;
        }
        self.insert(path, Action::Include)
    }

    /// Adds an exclusion. That of `_id` decides no mode.
    fn exclude(&mut self, path: &str) -> Result<(), Error> {
        if path == ID {
            self.id = Id::Other;
        } else {
            self.require(Mode::Exclusion, path, Fault::ExclusionInInclusion)?;
        }
        self.insert(path, Action::Exclude)
    }

    /// Adds a path that ends with `.$`.
    fn positional(&mut self, path: &str) -> Result<(), Error> {
        if self.has_positional {
            return Err(malformed(path, Fault::PositionalTwice));
        }
        if self.has_elem_match {
            return Err(malformed(path, Fault::PositionalAfterElemMatch));
        }
        if !matches!(self.dialect, Dialect::Find(Some(_))) {
            return Err(malformed(path, Fault::PositionalWithoutFilter));
        }
        self.require(Mode::Inclusion, path, Fault::InclusionInExclusion)?;
        self.has_positional = true;
        self.insert(path.strip_suffix(".$").unwrap_or(path), Action::Positional)
    }

    /// Parses an object: an operator, an expression, or the fields below the path.
    fn object_or_expression(&mut self, path: &str, object: &RawDocument) -> Result<(), Error> {
        let mut names = object.iter_elements().map(|element| element.map(|element| element.key().as_str()));
        let first = names.next().ok_or_else(|| malformed(path, Fault::EmptyObject))?;
        let first = first.map_err(|_| Error::InvalidBson { path: path.to_owned(), position: 0 })?;
        // The parts of a database reference are field names, in spite of the dollar sign.
        let is_operator = first.starts_with('$') && !matches!(first, "$id" | "$ref" | "$db");
        if is_operator && names.next().is_none() {
            let operand = object.get(first).ok().flatten();
            let operand = operand.ok_or_else(|| Error::InvalidBson { path: path.to_owned(), position: 0 })?;
            return self.operator(path, first, operand, object);
        }
        // The path of the object is checked here, since only the paths of its fields are added to the tree.
        parse_path(path).map_err(|refusal| malformed(path, Fault::Path(refusal)))?;
        if self.root.has_leaf(path) {
            return Err(malformed(path, Fault::Collision));
        }
        self.object(path, object)
    }

    /// Parses an operator, which is the only field of `object`.
    fn operator(
        &mut self,
        path: &str,
        name: &str,
        operand: RawBsonRef<'_>,
        object: &RawDocument,
    ) -> Result<(), Error> {
        match (name, self.dialect) {
            // It is added to whatever stays, so it decides no mode. In a stage it is an expression like any other.
            ("$meta", Dialect::Find(_)) => {
                let expression = Expression::parse(RawBsonRef::Document(object), self.variables)?;
                self.insert(path, Action::Computed(Box::new(expression)))
            }
            ("$elemMatch", Dialect::Stage) => Err(malformed(path, Fault::ElemMatchInStage)),
            ("$elemMatch", Dialect::Find(_)) => self.elem_match(path, operand),
            // With other operands, and in stages, `$slice` is an expression.
            ("$slice", Dialect::Find(_)) if let Some(slice) = Slice::parse(operand) => {
                self.has_slice = true;
                self.insert(path, Action::Slice(slice))
            }
            (_, _) => {
                let value = RawBsonRef::Document(object);
                // An unknown name gets another error here than inside of an expression.
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

    /// Adds `$elemMatch`.
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
        // The operand becomes a filter of the field, whose position in a document is the element to show.
        let mut condition = RawDocumentBuf::new();
        condition.append(bson::raw::cstr!("$elemMatch"), operand);
        let name = bson::raw::CString::try_from(path).map_err(|_| Error::InvalidDocument)?;
        let mut filter = RawDocumentBuf::new();
        filter.append(&name, condition);
        let filter = Filter::parse_plain(&filter, self.variables.room(), self.variables.collation())?;
        self.has_elem_match = true;
        self.insert(path, Action::ElemMatch(Box::new(filter)))
    }

    /// Adds a computed value, which needs an inclusion. `fault` is the error if the projection is an
    /// exclusion.
    fn compute(&mut self, path: &str, value: RawBsonRef<'_>, fault: Fault) -> Result<(), Error> {
        self.require(Mode::Inclusion, path, fault)?;
        let expression = Expression::parse(value, self.variables)?;
        self.insert(path, Action::Computed(Box::new(expression)))
    }

    /// Decides the mode of the projection.
    ///
    /// # Errors
    /// `fault`, if an earlier part decided the other mode.
    fn require(&mut self, mode: Mode, path: &str, fault: Fault) -> Result<(), Error> {
        if self.mode.is_some_and(|settled| settled != mode) {
            return Err(malformed(path, fault));
        }
        self.mode = Some(mode);
        Ok(())
    }

    /// Adds an action to the tree.
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
