//! The walk that applies the tree of an update to a document, and copies everything that the tree does not name.
//!
//! Existing fields keep their order; missing fields follow in the order of the tree. The recursion is as deep as the
//! longest path of the update, however deep the document is.
//!
//! All functions that write go through the stored fields once and copy the bytes between two changed fields at once.

use std::borrow::Cow;

use bson::RawDocument;
use bson::spec::ElementType;
use index::path::array_index;
use index::validate::DOCUMENT_BYTES_MAX;
use index::writer::{Mark, Writer};

use crate::raw::{FIRST_ELEMENT, Field, Fields};
use crate::update::action::{Action, IfMissing};
use crate::update::array_filter::ArrayFilters;
use crate::update::context::Context;
use crate::update::error::Error;
use crate::update::path::{Component, compare_names};
use crate::update::rename::RenameSource;
use crate::update::tree::{Conflict, UpdateBranch, UpdateNode};
use crate::value::describe;

/// The limit of nulls that may be inserted before a new element of an array. This is MongoDB's limit.
const PADDING_MAX: usize = 1_500_000;
/// The limit of names that each field of a document is compared with one by one.
const COMPARED_MAX: usize = 4;

/// The state of applying an update to one document.
pub(super) struct UpdateWalk<'w> {
    pub(super) context: &'w Context,
    filters: &'w ArrayFilters,
    /// The value of each rename, if it has found one.
    pub(super) sources: Vec<Option<RenameSource<'w>>>,
    pub(super) writer: Writer,
}

/// The container of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParentKind {
    Document,
    Array,
}

/// The path to a field, for errors. Linked to the path of its parent, so that it costs nothing while all goes well.
#[derive(Clone, Copy)]
pub(super) struct Trail<'t> {
    above: Option<&'t Trail<'t>>,
    name: &'t str,
}

/// A node of a branch with the name of its field in this document.
struct NamedChild<'n> {
    name: Cow<'n, str>,
    node: Cow<'n, UpdateNode>,
    /// Whether the field exists and has been written.
    is_done: bool,
}

impl<'n> NamedChild<'n> {
    fn new(name: Cow<'n, str>, node: &'n UpdateNode) -> Self {
        Self { name, node: Cow::Borrowed(node), is_done: false }
    }
}

impl<'t> Trail<'t> {
    fn below(above: Option<&'t Self>, name: &'t str) -> Self {
        Self { above, name }
    }

    /// The path with dots.
    pub(super) fn to_text(self) -> String {
        match self.above {
            Some(above) => format!("{}.{}", above.to_text(), self.name),
            None => self.name.to_owned(),
        }
    }
}

impl<'w> UpdateWalk<'w> {
    /// Starts a walk. `bytes` is the expected size of the result.
    pub(super) fn new(
        context: &'w Context,
        filters: &'w ArrayFilters,
        sources: Vec<Option<RenameSource<'w>>>,
        bytes: usize,
    ) -> Self {
        Self { context, filters, sources, writer: Writer::with_capacity(bytes) }
    }

    /// The bytes of the new document.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.writer.into_bytes()
    }

    /// Writes a document with the fields of a branch changed.
    pub(super) fn document(
        &mut self,
        branch: &UpdateBranch,
        document: &RawDocument,
        trail: Option<&Trail<'_>>,
    ) -> Result<(), Error> {
        let mut children = self.children(branch, trail)?;
        let mut left = children.len();
        let mark = self.writer.open();
        let bytes = document.as_bytes();
        let mut copied = FIRST_ELEMENT;
        let mut fields = Fields::of(document);
        // After the last field that changes, the rest is copied without being looked at.
        while left > 0 {
            self.pass_others(&children, &mut fields)?;
            let Some(field) = fields.next() else { break };
            let field = field?;
            let found = children.binary_search_by(|child| compare_names(&child.name, field.name())).ok();
            self.context.operation.step()?;
            // Of fields with the same name only the first is updated.
            let child = found.and_then(|index| children.get_mut(index)).filter(|child| !child.is_done);
            let Some(child) = child else { continue };
            child.is_done = true;
            left -= 1;
            self.writer.copy(bytes.get(copied..field.start()).unwrap_or_default());
            copied = field.end();
            self.existing(&child.node, &field, ParentKind::Document, Trail::below(trail, field.name()))?;
            self.check_size()?;
        }
        self.writer.copy(bytes.get(copied..bytes.len() - 1).unwrap_or_default());
        // Missing fields come last, in the order of the tree and not in that of the operators, as in MongoDB.
        for child in children.iter().filter(|child| !child.is_done) {
            self.create(&child.node, &child.name, trail)?;
        }
        self.close(mark)
    }

    /// Passes over fields that no child names. Where there are many children, each field is looked up among them instead.
    fn pass_others(&self, children: &[NamedChild<'_>], fields: &mut Fields<'_>) -> Result<(), Error> {
        if children.len() > COMPARED_MAX {
            return Ok(());
        }
        while fields.pass(|name| children.iter().any(|child| child.name.as_bytes() == name)) {
            self.context.operation.step()?;
        }
        Ok(())
    }

    fn close(&mut self, mark: Mark) -> Result<(), Error> {
        self.writer.close(mark);
        self.check_size()
    }

    /// Rejects a result that is too large. Asked after each field and not only at the end: one operand may be written into
    /// millions of elements.
    fn check_size(&self) -> Result<(), Error> {
        if self.writer.len() > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge { limit: DOCUMENT_BYTES_MAX, phase: self.context.phase });
        }
        Ok(())
    }

    /// The nodes of a branch by the names of their fields, ascending, with the position in place of `$`.
    fn children<'n>(
        &self,
        branch: &'n UpdateBranch,
        trail: Option<&Trail<'_>>,
    ) -> Result<Vec<NamedChild<'n>>, Error> {
        let mut children: Vec<NamedChild<'n>> = Vec::with_capacity(branch.children().len());
        for (component, node) in branch.children() {
            match component {
                Component::Name(name) => {
                    children.push(NamedChild::new(Cow::Borrowed(name), node));
                }
                // `$` comes after all names, so a node with the same position by number is already there.
                Component::Matched => self.add_matched(&mut children, node, trail)?,
                // `elements` applies these. A branch that has one of them has no other components.
                Component::All | Component::Filtered(_) => {}
            }
        }
        Ok(children)
    }

    /// Adds the node of `$` under the position that it represents. If the update names this position by number as well, the
    /// two nodes are merged.
    fn add_matched<'n>(
        &self,
        children: &mut Vec<NamedChild<'n>>,
        node: &'n UpdateNode,
        trail: Option<&Trail<'_>>,
    ) -> Result<(), Error> {
        let name = self.context.position.ok_or(Error::PositionMissing)?.to_string();
        let index = children.binary_search_by(|child| compare_names(&child.name, &name));
        match (index, index.ok().and_then(|index| children.get_mut(index))) {
            (Err(index), _) => {
                children.insert(index, NamedChild::new(Cow::Owned(name), node));
            }
            (Ok(_), Some(child)) => {
                let merged = node.merge(&child.node);
                let conflict = |at: Conflict| element_conflict(Trail::below(trail, &name), &at);
                child.node = Cow::Owned(merged.map_err(conflict)?);
            }
            // The search has just found this index.
            (Ok(_), None) => {}
        }
        Ok(())
    }

    /// Writes an existing field as changed by a node.
    fn existing(
        &mut self,
        node: &UpdateNode,
        field: &Field<'_>,
        container: ParentKind,
        trail: Trail<'_>,
    ) -> Result<(), Error> {
        let branch = match node {
            UpdateNode::Leaf(action) => return self.change(action, field, container, trail),
            UpdateNode::Branch(branch) => branch,
        };
        // Here it is decided whether a number in a path is a position or a name: by the type of the stored value.
        match (field.kind(), branch.is_many()) {
            (ElementType::EmbeddedDocument, false) => {
                self.writer.header(field.kind(), field.name());
                self.document(branch, field.container()?, Some(&trail))
            }
            (ElementType::Array, false) => self.positions(branch, field, trail),
            (ElementType::Array, true) => {
                self.writer.header(field.kind(), field.name());
                self.elements(branch, field.container()?, trail)
            }
            // From here on the field has nothing inside that could be updated.
            (_, true) => Err(Error::ElementsOfScalar {
                name: field.name().to_owned(),
                value: describe(field.value()?),
            }),
            (_, false) => {
                // Some actions do nothing there, and then the field stays as it is.
                for child in self.children(branch, Some(&trail))? {
                    self.refuse(&child.node, &child.name, field, trail)?;
                }
                self.writer.copy(field.whole());
                Ok(())
            }
        }
    }

    /// Writes an array whose elements are named one by one.
    fn positions(&mut self, branch: &UpdateBranch, field: &Field<'_>, trail: Trail<'_>) -> Result<(), Error> {
        let mut positions = Vec::new();
        // A name that is not a position is rejected before anything is written.
        for child in self.children(branch, Some(&trail))? {
            match array_index(&child.name) {
                Some(position) => positions.push((position, child)),
                None => self.refuse(&child.node, &child.name, field, trail)?,
            }
        }
        // They ascend, as the children do, so one pass over the array meets them in their order.
        let mut positions = positions.into_iter().peekable();
        let array = field.container()?;
        self.writer.header(field.kind(), field.name());
        let mark = self.writer.open();
        let bytes = array.as_bytes();
        let mut copied = FIRST_ELEMENT;
        let mut length = 0;
        let mut fields = Fields::of(array);
        while positions.peek().is_some()
            && let Some(element) = fields.next()
        {
            let element = element?;
            // Positions count elements; the names that elements are stored under are not looked at.
            if let Some((_, child)) = positions.next_if(|(position, _)| *position == length) {
                self.writer.copy(bytes.get(copied..element.start()).unwrap_or_default());
                copied = element.end();
                let trail = Trail::below(Some(&trail), &child.name);
                self.existing(&child.node, &element, ParentKind::Array, trail)?;
                self.check_size()?;
            }
            length += 1;
        }
        self.writer.copy(bytes.get(copied..bytes.len() - 1).unwrap_or_default());
        // The positions that are left are beyond the end. Nulls are written only for those that get an element.
        for (position, child) in positions {
            if self.creates(&child.node, &child.name, trail)? {
                self.pad(length, position, trail)?;
                self.create(&child.node, &child.name, Some(&trail))?;
                length = position + 1;
            }
        }
        self.close(mark)
    }

    /// Writes nulls from the end of an array up to a position.
    fn pad(&mut self, length: usize, position: usize, trail: Trail<'_>) -> Result<(), Error> {
        // Checked before the loop: a position near the end of the integers would never finish.
        let count = position.saturating_sub(length);
        if count > PADDING_MAX {
            return Err(Error::Padding { path: trail.to_text(), count, limit: PADDING_MAX });
        }
        for position in length..position {
            self.writer.indexed_header(ElementType::Null, position);
        }
        self.check_size()
    }

    /// Writes an array with those elements changed that `$[]` and `$[name]` represent.
    fn elements(
        &mut self,
        branch: &UpdateBranch,
        array: &RawDocument,
        trail: Trail<'_>,
    ) -> Result<(), Error> {
        let mark = self.writer.open();
        let bytes = array.as_bytes();
        let mut copied = FIRST_ELEMENT;
        for (position, element) in Fields::of(array).enumerate() {
            let element = element?;
            // Filters are evaluated for each element, so a long array must be interruptible.
            self.context.operation.step()?;
            let position = position.to_string();
            let trail = Trail::below(Some(&trail), &position);
            // Bytes of elements that stay are copied together with those before the next change.
            let Some(node) = self.element_node(branch, &element, trail)? else { continue };
            self.writer.copy(bytes.get(copied..element.start()).unwrap_or_default());
            copied = element.end();
            self.existing(&node, &element, ParentKind::Array, trail)?;
            self.check_size()?;
        }
        self.writer.copy(bytes.get(copied..bytes.len() - 1).unwrap_or_default());
        self.close(mark)
    }

    /// The node for one element: that of the placeholder which represents it, or several merged. Returns `None` if no
    /// placeholder represents it.
    fn element_node<'n>(
        &self,
        branch: &'n UpdateBranch,
        element: &Field<'_>,
        trail: Trail<'_>,
    ) -> Result<Option<Cow<'n, UpdateNode>>, Error> {
        let mut merged: Option<Cow<'n, UpdateNode>> = None;
        for (component, node) in branch.children() {
            let is_meant = match component {
                Component::All => true,
                Component::Filtered(identifier) => {
                    self.filters.matches(identifier, element, &self.context.operation)?
                }
                Component::Name(_) | Component::Matched => false,
            };
            if is_meant {
                // The common update has one placeholder, whose node is not copied for each element.
                merged = Some(match merged {
                    None => Cow::Borrowed(node),
                    Some(other) => Cow::Owned(other.merge(node).map_err(|at| element_conflict(trail, &at))?),
                });
            }
        }
        Ok(merged)
    }

    /// Writes a missing field, if the node creates it. Returns whether it does.
    fn create(&mut self, node: &UpdateNode, name: &str, above: Option<&Trail<'_>>) -> Result<bool, Error> {
        let trail = Trail::below(above, name);
        let branch = match node {
            UpdateNode::Leaf(action) => {
                let is_created = self.on_missing(action) == IfMissing::Created;
                if is_created {
                    self.create_value(action, name)?;
                    self.check_size()?;
                }
                return Ok(is_created);
            }
            UpdateNode::Branch(branch) if branch.is_many() => {
                return Err(Error::ElementsMissing { path: trail.to_text() });
            }
            UpdateNode::Branch(branch) => branch,
        };
        // Whether the document gets a field is known only after its children have been tried: `{$unset: {"a.b": 1}}` must not
        // create `a`. So it is written, and removed again if it stays empty.
        let before = self.writer.mark();
        self.writer.header(ElementType::EmbeddedDocument, name);
        let mark = self.writer.open();
        let mut is_created = false;
        for child in self.children(branch, Some(&trail))? {
            is_created |= self.create(&child.node, &child.name, Some(&trail))?;
        }
        if is_created {
            self.close(mark)?;
        } else {
            self.writer.revert(before);
        }
        Ok(is_created)
    }

    /// Whether a node creates a missing field. Asked before an array is padded, which cannot wait for the answer of
    /// `create`.
    fn creates(&self, node: &UpdateNode, name: &str, above: Trail<'_>) -> Result<bool, Error> {
        match node {
            UpdateNode::Leaf(action) => Ok(self.on_missing(action) == IfMissing::Created),
            UpdateNode::Branch(branch) => {
                let trail = Trail::below(Some(&above), name);
                if branch.is_many() {
                    return Err(Error::ElementsMissing { path: trail.to_text() });
                }
                let mut creates = false;
                for (component, node) in branch.children() {
                    creates |= self.creates(node, &component.to_text(), trail)?;
                }
                Ok(creates)
            }
        }
    }

    /// Rejects a node for `name` inside a field that cannot have it: a scalar, or an array where `name` is not a position.
    /// Actions that do nothing for a missing field are accepted.
    fn refuse(
        &self,
        node: &UpdateNode,
        name: &str,
        field: &Field<'_>,
        trail: Trail<'_>,
    ) -> Result<(), Error> {
        let action = match node {
            UpdateNode::Leaf(action) => action,
            UpdateNode::Branch(branch) if branch.is_many() => {
                let path = Trail::below(Some(&trail), name).to_text();
                return Err(Error::ElementsMissing { path });
            }
            UpdateNode::Branch(branch) => {
                let mut nodes = branch.children();
                return nodes.try_for_each(|(_, node)| self.refuse(node, name, field, trail));
            }
        };
        let (part, value) = (name.to_owned(), describe(field.value()?));
        let holder = field.name().to_owned();
        // MongoDB has two texts for the same number, by whether the operator would have created the field.
        match self.on_missing(action) {
            IfMissing::Created => Err(Error::NotViable { field: part, name: holder, value }),
            IfMissing::Checked => {
                let path = Trail::below(Some(&trail), name).to_text();
                Err(Error::NotTraversable { field: part, path, name: holder, value })
            }
            IfMissing::Ignored => Ok(()),
        }
    }

    /// The effect of an action in this document on a missing field.
    fn on_missing(&self, action: &Action) -> IfMissing {
        let is_renamed = |number: usize| self.sources.get(number).is_some_and(Option::is_some);
        action.on_missing(self.context.phase, is_renamed)
    }
}

/// The error for two nodes that conflict below an element.
fn element_conflict(trail: Trail<'_>, at: &Conflict) -> Error {
    let below = at.iter().map(Component::to_text);
    Error::ElementConflict { at: [trail.to_text()].into_iter().chain(below).collect::<Vec<_>>().join(".") }
}
