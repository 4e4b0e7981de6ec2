//! The tree of an update: its actions, ordered by the components of their paths.
//!
//! Each field is in the tree once, so two operators on one field are found as a conflict when the second is added. Which
//! elements a placeholder represents is known only with a document. If several placeholders represent one element, their
//! nodes are merged, which finds conflicts by the same rule. The invariant: no branch is deeper than the longest path
//! allowed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::update::action::Action;
use crate::update::path::Component;

/// The action of an update on a value.
#[derive(Clone, Debug)]
pub(super) enum UpdateNode {
    /// It changes fields or elements inside the value.
    Branch(UpdateBranch),
    /// It changes the value as a whole.
    Leaf(Arc<Action>),
}

/// The action of an update on the fields or elements of a value. Either every component represents one of them, or
/// every component can represent several.
#[derive(Clone, Debug, Default)]
pub(super) struct UpdateBranch {
    children: BTreeMap<Component, UpdateNode>,
}

/// The path at which two merged nodes conflict, relative to the two.
pub(super) type Conflict = Vec<Component>;

impl UpdateBranch {
    /// The nodes with their components, ascending.
    pub(super) fn children(&self) -> impl ExactSizeIterator<Item = (&Component, &UpdateNode)> {
        self.children.iter()
    }

    /// Whether the components can each represent several elements of an array.
    pub(super) fn is_many(&self) -> bool {
        self.children.first_key_value().is_some_and(|(component, _)| component.is_many())
    }

    /// Adds an action at the end of a path. The error is the number of components that lead to a conflict.
    pub(super) fn add(&mut self, path: &[Component], action: Arc<Action>) -> Result<(), usize> {
        // An empty rest means that the new path ends where an earlier one goes on.
        let Some((first, rest)) = path.split_first() else { return Err(0) };
        // `$[]` next to `0` could do two things with one element, so MongoDB rejects it before it sees a document.
        if !self.children.is_empty() && self.is_many() != first.is_many() {
            return Err(0);
        }
        match self.children.entry(first.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(UpdateNode::chain(rest, action));
                Ok(())
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                UpdateNode::Branch(branch) => branch.add(rest, action).map_err(|depth| depth + 1),
                // An earlier operator has the whole value.
                UpdateNode::Leaf(_) => Err(1),
            },
        }
    }

    /// A branch that does what both do.
    fn merge(&self, other: &Self) -> Result<Self, Conflict> {
        if !self.children.is_empty() && !other.children.is_empty() && self.is_many() != other.is_many() {
            return Err(Vec::new());
        }
        let mut merged = self.clone();
        for (component, node) in &other.children {
            match merged.children.entry(component.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(node.clone());
                }
                Entry::Occupied(mut entry) => {
                    let both = entry.get().merge_below(component, node)?;
                    entry.insert(both);
                }
            }
        }
        Ok(merged)
    }
}

impl UpdateNode {
    /// A node that does what both do with one value.
    pub(super) fn merge(&self, other: &Self) -> Result<Self, Conflict> {
        match (self, other) {
            (Self::Branch(left), Self::Branch(right)) => left.merge(right).map(Self::Branch),
            // One of the two changes the whole value, so the order of the two would matter.
            (Self::Leaf(_), Self::Leaf(_) | Self::Branch(_)) | (Self::Branch(_), Self::Leaf(_)) => {
                Err(Vec::new())
            }
        }
    }

    /// Merges two nodes below `component`, which is put in front of the path of a conflict.
    fn merge_below(&self, component: &Component, other: &Self) -> Result<Self, Conflict> {
        self.merge(other).map_err(|below| [component.clone()].into_iter().chain(below).collect())
    }

    /// The node that does nothing but one action at the end of a path.
    fn chain(path: &[Component], action: Arc<Action>) -> Self {
        path.iter().rev().fold(Self::Leaf(action), |node, component| {
            Self::Branch(UpdateBranch { children: BTreeMap::from([(component.clone(), node)]) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::path::UpdatePath;

    #[track_caller]
    fn check(paths: &[&str], expected: Result<(), usize>) {
        let mut branch = UpdateBranch::default();
        let (last, before) = paths.split_last().unwrap();
        let mut add =
            |path: &str| branch.add(UpdatePath::parse(path).unwrap().components(), Arc::new(Action::Unset));
        for path in before {
            assert_eq!(add(path), Ok(()), "{path}");
        }
        assert_eq!(add(last), expected, "{paths:?}");
    }

    #[test]
    fn a_field_is_updated_once() {
        check(&["a", "b"], Ok(()));
        check(&["a.b", "a.c", "ab"], Ok(()));
        check(&["a", "a"], Err(1));
        check(&["a", "a.b"], Err(1));
        check(&["a.b", "a"], Err(1));
        check(&["a.b.c", "a.b"], Err(2));
        check(&["a.b.c", "a.b.c"], Err(3));
    }

    #[test]
    fn placeholders_for_many_exclude_single_parts() {
        check(&["a.$", "a.0"], Ok(()));
        check(&["a.$[]", "a.$[i]", "a.$[j]"], Ok(()));
        check(&["a.$[i]", "a.$"], Err(1));
        check(&["a.0", "a.$[]"], Err(1));
        check(&["a.$[i]", "a.$[i].b"], Err(2));
    }

    #[track_caller]
    fn check_merge(left: &str, right: &str, expected: Option<&str>) {
        let node = |path: &str| {
            UpdateNode::chain(UpdatePath::parse(path).unwrap().components(), Arc::new(Action::Unset))
        };
        let conflict = node(left).merge(&node(right)).err();
        let text = conflict.map(|at| at.iter().map(Component::to_text).collect::<Vec<_>>().join("."));
        assert_eq!(text.as_deref(), expected, "{left} {right}");
    }

    #[test]
    fn merged_branches_do_the_work_of_both() {
        check_merge("a.b", "a.c", None);
        check_merge("a", "a", Some("a"));
        check_merge("a.b.c", "a.b", Some("a.b"));
        check_merge("a.$[i]", "a.$[j]", None);
        check_merge("a.$[i].b", "a.$[i].b", Some("a.$[i].b"));
        check_merge("a.$[i]", "a.b", Some("a"));
    }
}
