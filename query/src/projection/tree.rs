//! The tree of a projection: for each name, what happens to the field.
//!
//! While it is built, children stand as the projection names them. Then [`Node::seal`] sorts them for look-ups and
//! notes what has to be added at the end. Parsing bounds the depth, so recursion here is safe.

use crate::expression::Expression;
use crate::filter::Filter;
use crate::projection::error::Fault;
use crate::projection::slice::Slice;

/// What happens to the fields of a document.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// Ascending by name, once sealed.
    children: Vec<Child>,
    /// Places of the children that may add a field, as the projection names them.
    additions: Vec<usize>,
    /// Whether an array at or below this node is cut down to the element that the filter found.
    has_positional: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) name: String,
    pub(super) action: Action,
}

/// What happens to a field.
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
    /// The value is computed, whatever there was.
    Computed(Box<Expression>),
    /// Something happens to fields below.
    Nested(Node),
}

impl Node {
    /// Adds an action at the end of a path.
    pub(super) fn insert(&mut self, path: &str, action: Action) -> Result<(), Fault> {
        match path.split_once('.') {
            None if self.children.iter().any(|child| child.name == path) => Err(Fault::Collision),
            None => {
                self.children.push(Child { name: path.to_owned(), action });
                Ok(())
            }
            Some((name, rest)) => self.nested(name, rest)?.insert(rest, action),
        }
    }

    /// Whether something happens to the field at the end of a path that is not done by fields below it.
    pub(super) fn has_leaf(&self, path: &str) -> bool {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        match (self.children.iter().find(|child| child.name == name).map(|child| &child.action), rest) {
            (Some(Action::Nested(node)), Some(rest)) => node.has_leaf(rest),
            (Some(Action::Nested(_)), None) | (None, _) => false,
            (Some(_), _) => rest.is_none(),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.children.retain(|child| child.name != name);
    }

    /// Ends building.
    pub(super) fn seal(&mut self) {
        let mut additions = Vec::new();
        for child in &mut self.children {
            let (adds, has_positional) = match &mut child.action {
                Action::Nested(node) => {
                    node.seal();
                    (!node.additions.is_empty(), node.has_positional)
                }
                Action::ElemMatch(_) | Action::Computed(_) => (true, false),
                Action::Positional => (false, true),
                Action::Include | Action::Exclude | Action::Slice(_) => (false, false),
            };
            self.has_positional |= has_positional;
            if adds {
                additions.push(child.name.clone());
            }
        }
        self.children.sort_by(|left, right| left.name.cmp(&right.name));
        self.additions = additions.iter().filter_map(|name| self.place(name)).collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    pub(super) fn has_positional(&self) -> bool {
        self.has_positional
    }

    /// Whether fields may be added that a document does not have.
    pub(super) fn adds(&self) -> bool {
        !self.additions.is_empty()
    }

    /// What happens to a field, once sealed.
    pub(super) fn action(&self, name: &str) -> Option<&Action> {
        self.children.get(self.place(name)?).map(|child| &child.action)
    }

    /// The children that may add a field, as the projection names them, once sealed.
    pub(super) fn additions(&self) -> impl Iterator<Item = &Child> {
        self.additions.iter().filter_map(|place| self.children.get(*place))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.children.binary_search_by(|child| child.name.as_str().cmp(name)).ok()
    }

    /// The node below a name, which is made if there is none.
    fn nested(&mut self, name: &str, rest: &str) -> Result<&mut Node, Fault> {
        let place = self.children.iter().position(|child| child.name == name).unwrap_or_else(|| {
            self.children.push(Child { name: name.to_owned(), action: Action::Nested(Node::default()) });
            self.children.len() - 1
        });
        match self.children.get_mut(place).map(|child| &mut child.action) {
            Some(Action::Nested(node)) => Ok(node),
            Some(_) | None => Err(Fault::CollisionAbove { rest: rest.to_owned() }),
        }
    }
}
