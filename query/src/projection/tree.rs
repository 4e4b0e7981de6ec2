//! The tree of a projection: for each field name, what happens to the field.
//!
//! While the tree is built, children are in the order of the projection. Then [`Node::seal`] sorts them for
//! searches and records which ones may add a field. Parsing bounds the depth, so recursion here is safe.

use std::collections::HashMap;

use crate::expression::Expression;
use crate::filter::Filter;
use crate::projection::error::Fault;
use crate::projection::slice::Slice;

/// A parsed projection.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) root: Node,
    pub(super) mode: Mode,
    /// The filter that finds the element for `.$`, if the projection has one.
    pub(super) filter: Option<Filter>,
}

/// The treatment of fields that a projection does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are left out.
    Inclusion,
    /// They stay.
    Exclusion,
}

/// The treatment of the fields of a document.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Ascending by name, once sealed.
    children: Vec<Child>,
    /// The position of each child until the tree is sealed, so that a projection of many fields is read in linear time.
    positions: HashMap<String, usize>,
    /// The children that may add a field, by position, in the order of the projection.
    additions: Vec<usize>,
    /// Whether this node or one below it is the end of a path with `.$`.
    has_positional: bool,
}

/// A named field and what happens to it.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) name: String,
    pub(super) action: Action,
}

/// The treatment of a field.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Include,
    Exclude,
    /// Only a part of the array stays.
    Slice(Slice),
    /// Only the first element that matches stays.
    ElemMatch(Box<Filter>),
    /// Only the element that the query's filter found stays.
    Positional,
    /// A computed value replaces the field or adds it.
    Computed(Box<Expression>),
    /// Something happens to fields below.
    Nested(Node),
}

impl Node {
    /// Adds an action at the end of a path.
    pub(super) fn insert(&mut self, path: &str, action: Action) -> Result<(), Fault> {
        match path.split_once('.') {
            // MongoDB rejects a path that is given twice, even with the same action.
            None if self.positions.contains_key(path) => Err(Fault::Collision),
            None => {
                self.push(path, action);
                Ok(())
            }
            Some((name, rest)) => self.nested(name, rest)?.insert(rest, action),
        }
    }

    /// Whether the path itself has an action, and not only paths below it.
    pub(super) fn has_leaf(&self, path: &str) -> bool {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let child = self.positions.get(name).and_then(|at| self.children.get(*at));
        match (child.map(|child| &child.action), rest) {
            (Some(Action::Nested(node)), Some(rest)) => node.has_leaf(rest),
            (Some(Action::Nested(_)), None) | (None, _) => false,
            (Some(_), _) => rest.is_none(),
        }
    }

    /// Removes what happens to a field, before the tree is sealed.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(removed) = self.positions.remove(name) {
            self.children.remove(removed);
            self.positions.values_mut().filter(|at| **at > removed).for_each(|at| *at -= 1);
        }
    }

    /// Ends the building of the tree. Searches work only afterwards.
    pub(super) fn seal(&mut self) {
        self.positions = HashMap::new();
        // By name, because the positions are known only after sorting.
        let mut additions = Vec::new();
        for child in &mut self.children {
            let (adds, has_positional) = match &mut child.action {
                Action::Nested(node) => {
                    node.seal();
                    (!node.additions.is_empty(), node.has_positional)
                }
                // MongoDB writes both after the other fields, even if the document has the field itself.
                Action::ElemMatch(_) | Action::Computed(_) => (true, false),
                Action::Positional => (false, true),
                Action::Include | Action::Exclude | Action::Slice(_) => (false, false),
            };
            self.has_positional |= has_positional;
            if adds {
                additions.push(child.name.clone());
            }
        }
        // Each field of each document is searched by name.
        self.children.sort_by(|left, right| left.name.cmp(&right.name));
        self.additions = additions.iter().filter_map(|name| self.position(name)).collect();
    }

    /// Adds the paths of the fields that are included as they are. `path` is that of the node. Returns `None` if
    /// something else happens to a field.
    pub(super) fn collect_included(&self, path: &str, paths: &mut Vec<String>) -> Option<()> {
        for child in &self.children {
            let path = if path.is_empty() { child.name.clone() } else { format!("{path}.{}", child.name) };
            match &child.action {
                Action::Include => paths.push(path),
                Action::Nested(node) => node.collect_included(&path, paths)?,
                // In an inclusion only the `_id` can be excluded.
                Action::Exclude => {}
                Action::Slice(_) | Action::ElemMatch(_) | Action::Positional | Action::Computed(_) => {
                    return None;
                }
            }
        }
        Some(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether a path with `.$` goes through this node.
    pub(super) fn has_positional(&self) -> bool {
        self.has_positional
    }

    /// Whether the projection may add fields that a document does not have.
    pub(super) fn adds(&self) -> bool {
        !self.additions.is_empty()
    }

    /// The treatment of a field. The tree must be sealed.
    pub(super) fn action(&self, name: &str) -> Option<&Action> {
        self.children.get(self.position(name)?).map(|child| &child.action)
    }

    /// The children that may add a field, in the order of the projection. The tree must be sealed.
    pub(super) fn additions(&self) -> impl Iterator<Item = &Child> {
        self.additions.iter().filter_map(|at| self.children.get(*at))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.children.binary_search_by(|child| child.name.as_str().cmp(name)).ok()
    }

    /// Adds a child, and returns its position.
    fn push(&mut self, name: &str, action: Action) -> usize {
        let at = self.children.len();
        self.children.push(Child { name: name.to_owned(), action });
        self.positions.insert(name.to_owned(), at);
        at
    }

    /// The node of a name, which is added if there is none.
    ///
    /// # Errors
    /// If the name has an action of its own. `rest` is the part of the path after it.
    fn nested(&mut self, name: &str, rest: &str) -> Result<&mut Node, Fault> {
        let at = match self.positions.get(name) {
            Some(at) => *at,
            None => self.push(name, Action::Nested(Node::default())),
        };
        match self.children.get_mut(at).map(|child| &mut child.action) {
            Some(Action::Nested(node)) => Ok(node),
            Some(_) | None => Err(Fault::CollisionAbove { rest: rest.to_owned() }),
        }
    }
}
