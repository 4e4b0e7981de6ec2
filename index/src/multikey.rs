//! Which components of an index's paths have led to arrays.
//!
//! An index without arrays at its fields has one entry for each document, and a matching document meets all
//! bounds with that one entry. With arrays, a document has several entries, and different entries may meet
//! different bounds. So the planner must know which components of which paths have led to an array.
//!
//! The invariant: no array is missed. A component may still be marked after its last array is gone.

use crate::path::{self, FieldPath};

/// How many components of a path have a bit of their own. All later ones share the last bit.
const COMPONENTS_MAX: usize = 64;

/// The components of one dotted path that have led to an array, in any document of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArrayComponents {
    bits: u64,
}

impl ArrayComponents {
    /// No component has led to an array.
    pub const NONE: Self = Self { bits: 0 };
    /// Every component may have led to an array.
    pub const ALL: Self = Self { bits: u64::MAX };

    /// The components that [`bits`](Self::bits) returned earlier.
    ///
    /// ```
    /// use cairndb_index::multikey::ArrayComponents;
    ///
    /// let mut components = ArrayComponents::NONE;
    /// components.insert(2);
    /// assert_eq!(components.bits(), 0b100);
    /// assert_eq!(ArrayComponents::from_bits(0b100), components);
    /// ```
    pub fn from_bits(bits: u64) -> Self {
        Self { bits }
    }

    /// One bit for each component; the first component has the lowest bit.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Marks that a component, counted from 0, led to an array.
    pub fn insert(&mut self, component: usize) {
        self.bits |= bit(component);
    }

    /// Whether a component may have led to an array.
    pub fn contains(self, component: usize) -> bool {
        self.bits & bit(component) != 0
    }

    /// Whether no component has led to an array, so that every document has one value at the path.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The components that are in `self`, in `other`, or in both.
    pub fn union(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits }
    }

    /// Whether all components of `other` are in `self` as well.
    pub fn covers(self, other: Self) -> bool {
        other.bits & !self.bits == 0
    }

    /// The components from `first` on, counted from 0 again, for the rest of a path that starts there.
    ///
    /// If the shared last bit is set, every component that it may stand for counts as marked.
    pub fn from_component(self, first: usize) -> Self {
        if first == 0 || self.bits == 0 {
            return self;
        }
        let has_last = self.contains(COMPONENTS_MAX - 1);
        let kept = if first >= COMPONENTS_MAX { 0 } else { self.bits >> first };
        // The last bit stands for all later components. Any of them may be the marked one, and a mark that is
        // missing would give wrong results, so all are marked.
        let unknown = if has_last { u64::MAX << COMPONENTS_MAX.saturating_sub(first + 1).min(63) } else { 0 };
        Self { bits: kept | unknown }
    }

    /// Whether any of the first `count` components may have led to an array.
    pub fn has_any_of_first(self, count: usize) -> bool {
        // A shift by all 64 bits would overflow.
        let mask = if count >= COMPONENTS_MAX { u64::MAX } else { bit(count) - 1 };
        self.bits & mask != 0
    }
}

/// Whether a path has a component that may be a position in an array: digits, and not the first component.
pub fn has_position(path: &FieldPath) -> bool {
    path.components().skip(1).any(|name| path::array_index(name).is_some())
}

fn bit(component: usize) -> u64 {
    1 << component.min(COMPONENTS_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(components: &[usize]) -> ArrayComponents {
        let mut all = ArrayComponents::default();
        for component in components {
            all.insert(*component);
        }
        all
    }

    #[test]
    fn late_components_share_the_last_place() {
        assert!(of(&[200]).contains(63) && of(&[200]).contains(64) && !of(&[200]).contains(62));
    }

    #[test]
    fn a_shorter_path_keeps_its_own_components() {
        assert_eq!(of(&[0, 2]).from_component(1), of(&[1]));
        assert_eq!(of(&[0, 2]).from_component(0), of(&[0, 2]));
        assert_eq!(of(&[0]).from_component(1), ArrayComponents::NONE);
        assert_eq!(of(&[2]).from_component(64), ArrayComponents::NONE);
    }

    #[test]
    fn what_is_not_told_apart_counts_wherever_it_may_be() {
        let shifted = of(&[70]).from_component(3);
        assert!((60..70).all(|component| shifted.contains(component)) && !shifted.contains(59));
        assert!(of(&[70]).from_component(70).contains(0));
    }

    #[test]
    fn a_prefix_has_its_own_components_only() {
        assert!(!of(&[1]).has_any_of_first(1) && of(&[1]).has_any_of_first(2));
        assert!(!of(&[0]).has_any_of_first(0) && of(&[99]).has_any_of_first(99));
        assert!(!of(&[]).has_any_of_first(64));
    }

    #[test]
    fn one_covers_another_if_nothing_is_missing() {
        assert!(of(&[0, 1]).covers(of(&[1])) && !of(&[1]).covers(of(&[0, 1])));
        assert_eq!(of(&[0]).union(of(&[1])), of(&[0, 1]));
    }

    #[test]
    fn digits_behind_a_dot_may_be_a_position() {
        let has = |path: &str| has_position(&FieldPath::parse(path).unwrap());
        assert!(has("a.0") && has("a.12.b") && !has("0") && !has("a.b") && !has("a.01") && !has("0.a"));
    }
}
