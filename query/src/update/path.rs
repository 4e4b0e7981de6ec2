//! Paths of updates: field names, positions, and the three placeholders for array elements.
//!
//! A number is a position in an array and a name in a document. Which of the two it is, is known only while an update is
//! applied, so a parsed path keeps it as a name.

use std::cmp::Ordering;

use index::path::array_index;
use index::validate::NESTING_MAX;

use crate::update::error::{Error, PathFault};

/// One component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Component {
    /// The name of a field, or a position in an array.
    Name(String),
    /// `$`: the element that the filter matched.
    Matched,
    /// `$[]`: every element.
    All,
    /// `$[name]`: every element that matches the array filter of this name.
    Filtered(String),
}

/// The path of one operator.
#[derive(Clone, Debug)]
pub(super) struct UpdatePath {
    text: String,
    components: Vec<Component>,
}

impl Component {
    fn parse(text: &str) -> Self {
        if text == "$" {
            return Self::Matched;
        }
        match text.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
            Some("") => Self::All,
            // Whether it is a valid identifier is checked where the array filters are known.
            Some(identifier) => Self::Filtered(identifier.to_owned()),
            None => Self::Name(text.to_owned()),
        }
    }

    /// Whether the component can represent several elements.
    pub(super) fn is_many(&self) -> bool {
        matches!(self, Self::All | Self::Filtered(_))
    }

    /// The component as it is written in a path.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Matched => "$".to_owned(),
            Self::All => "$[]".to_owned(),
            Self::Filtered(identifier) => format!("$[{identifier}]"),
        }
    }
}

/// The order in which missing fields are created: positions by number, then names by their bytes. MongoDB has the same.
impl Ord for Component {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Name(left), Self::Name(right)) => compare_names(left, right),
            (Self::Filtered(left), Self::Filtered(right)) => left.cmp(right),
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }
}

impl PartialOrd for Component {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Component {
    /// Names come before `$`: the walk relies on it when it merges the position of `$` with those given by number.
    fn rank(&self) -> u8 {
        match self {
            Self::Name(_) => 0,
            Self::Matched => 1,
            Self::All => 2,
            Self::Filtered(_) => 3,
        }
    }
}

impl UpdatePath {
    /// Parses a path and checks what can be known without a document.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let fault = |fault| Error::Path { path: text.to_owned(), fault };
        if text.is_empty() {
            return Err(fault(PathFault::Empty));
        }
        // Most paths are one name, about which there is no more to ask.
        if !text.bytes().any(|byte| matches!(byte, b'.' | b'$' | 0)) {
            return Ok(Self { text: text.to_owned(), components: vec![Component::Name(text.to_owned())] });
        }
        // BSON ends names with this character.
        if text.contains('\0') {
            return Err(fault(PathFault::ZeroByte));
        }
        if text.split('.').any(str::is_empty) {
            return Err(fault(PathFault::EmptyComponent));
        }
        // A field at the end of a longer path could not be stored. This also limits every recursion over paths.
        if text.split('.').nth(NESTING_MAX).is_some() {
            return Err(fault(PathFault::TooLong { limit: NESTING_MAX }));
        }
        let components = text.split('.').map(Component::parse).collect::<Vec<_>>();
        // A filter yields one position only, so a second `$` would have none.
        if components.iter().filter(|component| **component == Component::Matched).count() > 1 {
            return Err(fault(PathFault::PositionTwice));
        }
        // The top level is a document, which has no elements.
        if components.first().is_some_and(|first| !matches!(first, Component::Name(_))) {
            return Err(fault(PathFault::PositionFirst));
        }
        Ok(Self { text: text.to_owned(), components })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn components(&self) -> &[Component] {
        &self.components
    }

    /// The name of the top-level field.
    pub(super) fn first(&self) -> &str {
        match self.components.first() {
            Some(Component::Name(name)) => name,
            // The parser accepts no path that starts with a placeholder.
            Some(Component::Matched | Component::All | Component::Filtered(_)) | None => "",
        }
    }

    /// Whether the path has a placeholder, so that its fields are known only with a document.
    pub(super) fn is_dynamic(&self) -> bool {
        self.components.iter().any(|component| !matches!(component, Component::Name(_)))
    }

    /// Whether the path has the placeholder `$`.
    pub(super) fn is_positional(&self) -> bool {
        self.components.contains(&Component::Matched)
    }

    /// The identifiers of array filters that the path refers to, in their order.
    pub(super) fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.components.iter().filter_map(|component| match component {
            Component::Filtered(identifier) => Some(identifier.as_str()),
            Component::Name(_) | Component::Matched | Component::All => None,
        })
    }

    /// The text of the first `components` components.
    pub(super) fn prefix(&self, components: usize) -> String {
        self.text.split('.').take(components).collect::<Vec<_>>().join(".")
    }

    /// Whether the paths are equal, or one leads into the value of the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let shared = self.components.len().min(other.components.len());
        self.components.iter().take(shared).eq(other.components.iter().take(shared))
    }
}

/// Compares two names: positions by number and before all other names. (By bytes alone, 10 would come before 9.)
pub(super) fn compare_names(left: &str, right: &str) -> Ordering {
    match (array_index(left), array_index(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], i32>) {
        let parsed = UpdatePath::parse(text);
        let texts = |path: UpdatePath| path.components().iter().map(Component::to_text).collect::<Vec<_>>();
        let expected = expected.map(|texts| texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(parsed.map(texts).map_err(|error| error.code().number()), expected, "{text}");
    }

    #[test]
    fn paths_come_apart_at_their_dots() {
        check("a", Ok(&["a"]));
        check("a.0.$.$[].$[b].c", Ok(&["a", "0", "$", "$[]", "$[b]", "c"]));
        check("a.$b.$[c", Ok(&["a", "$b", "$[c"]));
    }

    #[test]
    fn malformed_paths_are_refused() {
        check("", Err(56));
        check("a..b", Err(56));
        check(".a", Err(56));
        check("a.", Err(56));
        check("a\0", Err(2));
        check("$", Err(2));
        check("$[].a", Err(2));
        check("$[x]", Err(2));
        check("a.$.b.$", Err(2));
        check(&vec!["a"; 181].join("."), Err(15));
        assert!(UpdatePath::parse(&vec!["a"; 180].join(".")).is_ok());
    }

    #[test]
    fn positions_are_ordered_by_number() {
        let mut names = ["b", "10", "a", "9", "1a", "01", "B"];
        names.sort_by(|left, right| compare_names(left, right));
        assert_eq!(names, ["9", "10", "01", "1a", "B", "a", "b"]);
    }

    #[test]
    fn the_order_is_total() {
        let names = ["", "0", "00", "9", "10", "1a", "!", "a", "99999999999999999999999"];
        for a in names {
            for b in names {
                assert_eq!(compare_names(a, b), compare_names(b, a).reverse(), "{a} {b}");
                for c in names {
                    let is_transitive = compare_names(a, b).is_gt() || compare_names(b, c).is_gt();
                    assert!(is_transitive || compare_names(a, c).is_le(), "{a} {b} {c}");
                }
            }
        }
    }
}
