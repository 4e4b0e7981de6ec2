//! Updates of operators: parsing the update document into a tree of actions, and applying the tree to a document.
//!
//! All checks that need no document are made while parsing. Applying checks the result only where parsing found that it
//! could become invalid.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::validate::{NESTING_MAX, validate};

use crate::pattern::Room;
use crate::raw::Fields;
use crate::update::action::Action;
use crate::update::array_filter::ArrayFilters;
use crate::update::context::Context;
use crate::update::error::{Error, Fault};
use crate::update::operator::{Operator, OperatorCall, operator};
use crate::update::patch::{may_patch, patched};
use crate::update::path::UpdatePath;
use crate::update::rename::{self, Rename};
use crate::update::replacement::is_replacement;
use crate::update::tree::UpdateBranch;
use crate::update::walk::UpdateWalk;
use crate::value::describe;

/// An update of operators, ready to be applied.
#[derive(Clone, Debug)]
pub(super) struct Operators {
    pub(super) tree: UpdateBranch,
    pub(super) renames: Vec<Rename>,
    pub(super) filters: ArrayFilters,
    /// The first path that leads to the `_id` or into it. Absent if none does.
    pub(super) id_path: Option<String>,
    pub(super) is_positional: bool,
    /// Whether a result may be nested too deeply. (Fields that are not updated are as deep as before.)
    pub(super) may_deepen: bool,
    /// Whether it may change a document without moving a byte of it.
    pub(super) is_patch: bool,
    /// The size of the update in bytes: a guess of how much a document grows.
    pub(super) bytes: usize,
    /// The identifiers of array filters that paths refer to.
    used: BTreeSet<String>,
}

impl Operators {
    /// Parses an update document and its array filters.
    pub(super) fn parse(
        update: &RawDocument,
        array_filters: &[RawDocumentBuf],
        collation: &Collation,
    ) -> Result<Self, Error> {
        validate(update.as_bytes()).map_err(|error| Error::malformed(&error))?;
        if is_replacement(update)? {
            return Err(Error::Replacement);
        }
        // Filters come first: paths are checked against their identifiers.
        let room = Room::default();
        // They compare texts as the update does.
        let mut operators = Self::empty(ArrayFilters::parse(array_filters, &room, collation)?);
        operators.bytes = update.as_bytes().len();
        for field in Fields::of(update) {
            let field = field?;
            let (name, operator) = operator(field.name())
                .ok_or_else(|| Error::UnknownOperator { operator: field.name().to_owned() })?;
            let value = field.value()?;
            let document = value.as_document().ok_or_else(|| Error::OperandNotObject {
                operator: name.to_owned(),
                found: describe(value),
            })?;
            for field in Fields::of(document) {
                let field = field?;
                let operand = field.value()?;
                // All patterns of an update share one limit of memory.
                let call =
                    OperatorCall { operator: name, path: field.name(), operand, room: &room, collation };
                operators.read(call, operator)?;
            }
        }
        // Only now have all paths been read.
        operators.filters.check_used(&operators.used)?;
        operators.is_patch =
            operators.id_path.is_none() && !operators.may_deepen && may_patch(&operators.tree);
        Ok(operators)
    }

    /// An update without operators.
    pub(super) fn empty(filters: ArrayFilters) -> Self {
        Self {
            tree: UpdateBranch::default(),
            renames: Vec::new(),
            filters,
            id_path: None,
            is_positional: false,
            may_deepen: false,
            is_patch: false,
            bytes: 0,
            used: BTreeSet::new(),
        }
    }

    /// Applies the operators to a copy of the document, and returns its bytes.
    pub(super) fn apply(&self, document: &RawDocument, context: &Context) -> Result<Vec<u8>, Error> {
        if self.is_patch
            && let Some(bytes) = patched(&self.tree, document, context)?
        {
            return Ok(bytes);
        }
        // Renames read the document as it was, so their values are found before the walk writes anything.
        let sources = rename::sources(&self.renames, document)?;
        let mut walk =
            UpdateWalk::new(context, &self.filters, sources, document.as_bytes().len() + self.bytes);
        walk.document(&self.tree, document, None)?;
        let bytes = walk.into_bytes();
        // A validation reads the whole result once more, so it is left out where the depth cannot have grown. The walk
        // checks the size itself.
        if self.may_deepen {
            validate(&bytes).map_err(|error| Error::malformed(&error))?;
        }
        if let Some(path) = &self.id_path {
            check_id(document.as_bytes(), &bytes, path)?;
        }
        Ok(bytes)
    }

    /// Parses one operator on one field and adds it to the tree.
    fn read(&mut self, call: OperatorCall<'_>, operator: Operator) -> Result<(), Error> {
        let path = UpdatePath::parse(call.path)?;
        match call.action(operator)? {
            Some(action) => self.add(&path, action),
            None => self.rename(call, path),
        }
    }

    /// Adds an action at the end of a path, and notes what `apply` has to check for it.
    fn add(&mut self, path: &UpdatePath, action: Action) -> Result<(), Error> {
        // Removing such a field stays possible, for documents that were stored with one.
        if path.first().starts_with('$') && action.can_create() {
            return Err(Error::DollarField { name: path.first().to_owned() });
        }
        self.check_identifiers(path)?;
        self.is_positional |= path.is_positional();
        self.may_deepen |= path.components().len() + action.levels() > NESTING_MAX;
        // MongoDB accepts an update of the `_id` that leaves its value as it is, so it is checked in `apply`.
        if path.first() == "_id" && self.id_path.is_none() {
            self.id_path = Some(path.as_str().to_owned());
        }
        let added = self.tree.add(path.components(), Arc::new(action));
        added.map_err(|depth| Error::Conflict { path: path.as_str().to_owned(), at: path.prefix(depth) })
    }

    /// Adds a rename: one action that removes the old field, and one that writes the new field.
    fn rename(&mut self, call: OperatorCall<'_>, from: UpdatePath) -> Result<(), Error> {
        let target = call.operand.as_str().ok_or_else(|| call.wrong_type("a string"))?;
        let to = UpdatePath::parse(target)?;
        if from.as_str() == to.as_str() {
            return Err(call.malformed(Fault::SameName));
        }
        // Moving a value into itself, or over what contains it, would lose it.
        if from.overlaps(&to) {
            return Err(call.malformed(Fault::SamePath { target: target.to_owned() }));
        }
        for (part, path) in [("source", &from), ("destination", &to)] {
            self.check_identifiers(path)?;
            if path.is_dynamic() {
                return Err(call.malformed(Fault::Dynamic { part, path: path.as_str().to_owned() }));
            }
        }
        let number = self.renames.len();
        self.add(&from, Action::RenameFrom)?;
        self.add(&to, Action::RenameTo(number))?;
        // The depth of the renamed value is known only with a document.
        self.may_deepen = true;
        self.renames.push(Rename { from, to });
        Ok(())
    }

    /// Rejects a path that refers to an array filter which was not given, and notes which filters are used.
    fn check_identifiers(&mut self, path: &UpdatePath) -> Result<(), Error> {
        for identifier in path.identifiers() {
            let identifier = identifier.to_owned();
            if !self.filters.has(&identifier) {
                return Err(Error::IdentifierUnknown { identifier, path: path.as_str().to_owned() });
            }
            self.used.insert(identifier);
        }
        Ok(())
    }
}

/// Rejects a change of an existing `_id`. It must keep every byte: `1.0` in place of `1` is a change.
fn check_id(before: &[u8], after: &[u8], path: &str) -> Result<(), Error> {
    let id = |bytes| {
        let mut fields = Fields::of(RawDocument::from_bytes(bytes).ok()?).map_while(Result::ok);
        fields.find(|field| field.name() == "_id").map(|field| field.whole())
    };
    match id(before) {
        Some(before) if id(after) != Some(before) => Err(Error::ImmutableId { path: path.to_owned() }),
        Some(_) | None => Ok(()),
    }
}
