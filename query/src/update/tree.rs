//! The tree of an update: what its operators do, sorted by the components of their paths.
//!
//! Every field stands in the tree once, which is how two operators on one field are found. The elements that
//! placeholders lead to are known only beside a document; where several lead to one, their branches are merged
//! by the same rule. The invariant: no branch is deeper than a path may be long.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::update::action::Action;
use crate::update::path::Component;

/// What happens to a value.
#[derive(Clone, Debug)]
pub(super) enum UpdateNode {
    /// Something happens to parts of it.
    Branch(UpdateBranch),
    /// Something happens to the whole.
    Leaf(Arc<Action>),
}

/// What happens to the parts of a value. Either all components name single parts, or all stand for many.
#[derive(Clone, Debug, Default)]
pub(super) struct UpdateBranch {
    children: BTreeMap<Component, UpdateNode>,
}

/// Where two nodes exclude each other: components from the top, or from the nodes that were merged.
pub(super) type Conflict = Vec<Component>;

impl UpdateBranch {
    /// The parts, ascending.
    pub(super) fn children(&self) -> impl ExactSizeIterator<Item = (&Component, &UpdateNode)> {
        self.children.iter()
    }

    /// Whether the parts are any number of an array's elements.
    pub(super) fn is_many(&self) -> bool {
        self.children.first_key_value().is_some_and(|(component, _)| component.is_many())
    }

    /// Adds an action at the end of a path, or tells how many of its components lead to a conflict.
    pub(super) fn add(&mut self, path: &[Component], action: Arc<Action>) -> Result<(), usize> {
        let Some((first, rest)) = path.split_first() else { return Err(0) };
        if !self.children.is_empty() && self.is_many() != first.is_many() {
            return Err(0);
        }
        match self.children.entry(first.clone()) {
            Entry::Vacant(place) => {
                place.insert(UpdateNode::chain(rest, action));
                Ok(())
            }
            Entry::Occupied(mut known) => match known.get_mut() {
                UpdateNode::Branch(branch) => branch.add(rest, action).map_err(|depth| depth + 1),
                UpdateNode::Leaf(_) => Err(1),
            },
        }
    }

    fn merge(&self, other: &Self) -> Result<Self, Conflict> {
        if !self.children.is_empty() && !other.children.is_empty() && self.is_many() != other.is_many() {
            return Err(Vec::new());
        }
        let mut merged = self.clone();
        for (component, node) in &other.children {
            match merged.children.entry(component.clone()) {
                Entry::Vacant(place) => {
                    place.insert(node.clone());
                }
                Entry::Occupied(mut known) => {
                    let both = known.get().merge_below(component, node)?;
                    known.insert(both);
                }
            }
        }
        Ok(merged)
    }
}

impl UpdateNode {
    /// Both nodes' work on one value.
    pub(super) fn merge(&self, other: &Self) -> Result<Self, Conflict> {
        match (self, other) {
            (Self::Branch(left), Self::Branch(right)) => left.merge(right).map(Self::Branch),
            (Self::Leaf(_), Self::Leaf(_) | Self::Branch(_)) | (Self::Branch(_), Self::Leaf(_)) => {
                Err(Vec::new())
            }
        }
    }

    /// Both nodes' work on the part that `component` names.
    fn merge_below(&self, component: &Component, other: &Self) -> Result<Self, Conflict> {
        self.merge(other).map_err(|below| [component.clone()].into_iter().chain(below).collect())
    }

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
