//! Which components of an index's paths have led to arrays, and whether keys were shortened.
//!
//! An index without arrays at its fields has one entry for each document, and a matching document meets all
//! bounds with that one entry. With arrays, a document has several entries, and different entries may meet
//! different bounds. So the planner must know which components of which paths have led to an array.
//!
//! Two shortened keys with one beginning are not in the order of their values. So the planner must know as well whether a field
//! ever had one.
//!
//! The invariant: no array and no shortened key is missed. A mark may still be there after the last of them is gone.

use crate::path::{self, FieldPath};

/// The limit of a path's components, one bit each. All later components share the last of them.
const COMPONENTS_MAX: usize = 63;

/// The bit of shortened keys. Where no key is shortened, a component from the 64th on may have it: see
/// [`ArrayComponents::from_bits_of_whole_keys`].
const SHORTENED: u64 = 1 << COMPONENTS_MAX;

/// The components of one dotted path that have led to an array, in any document of an index, and whether any key of the field
/// was shortened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArrayComponents {
    bits: u64,
}

impl ArrayComponents {
    /// No component has led to an array.
    pub const NONE: Self = Self { bits: 0 };
    /// Every component may have led to an array, and any key may be shortened.
    pub const ALL: Self = Self { bits: u64::MAX };
    /// No component has led to an array, and any key may be shortened.
    pub const SHORTENED: Self = Self { bits: SHORTENED };

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

    /// The components that were stored with keys that are whole. There the highest bit is that of the components from the 64th on.
    ///
    /// ```
    /// use cairndb_index::multikey::ArrayComponents;
    ///
    /// let components = ArrayComponents::from_bits_of_whole_keys(1 << 63);
    /// assert!(components.contains(70) && !components.has_shortened());
    /// ```
    pub fn from_bits_of_whole_keys(bits: u64) -> Self {
        Self { bits: bits & !SHORTENED | (bits & SHORTENED) >> 1 }
    }

    /// One bit for each component, the first component having the lowest; the highest bit is that of shortened keys.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Marks that a component, counted from 0, led to an array.
    pub fn insert(&mut self, component: usize) {
        self.bits |= bit(component);
    }

    /// Marks that a key was shortened.
    pub fn insert_shortened(&mut self) {
        self.bits |= SHORTENED;
    }

    /// Whether a key may be shortened.
    pub fn has_shortened(self) -> bool {
        self.bits & SHORTENED != 0
    }

    /// Whether each document has one key, which is not shortened. Then the keys are in the order of the values, and equal where
    /// they are.
    pub fn has_exact_keys(self) -> bool {
        self.bits == 0
    }

    /// Whether a component may have led to an array.
    pub fn contains(self, component: usize) -> bool {
        self.bits & bit(component) != 0
    }

    /// Whether no component has led to an array, so that every document has one value at the path.
    pub fn is_empty(self) -> bool {
        self.bits & !SHORTENED == 0
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
    /// If the shared last bit is set, every component that it may represent counts as marked. The mark of shortened keys stays.
    pub fn from_component(self, first: usize) -> Self {
        if first == 0 || self.is_empty() {
            return self;
        }
        let (shortened, components) = (self.bits & SHORTENED, self.bits & !SHORTENED);
        let kept = if first >= COMPONENTS_MAX { 0 } else { components >> first };
        // The last bit represents all later components. Any of them may be the marked one, and a mark that is
        // missing would give wrong results, so all are marked.
        let has_last = self.contains(COMPONENTS_MAX - 1);
        let unknown = if has_last { u64::MAX << COMPONENTS_MAX.saturating_sub(first + 1) } else { 0 };
        Self { bits: kept | unknown & !SHORTENED | shortened }
    }

    /// Whether any of the first `count` components may have led to an array.
    pub fn has_any_of_first(self, count: usize) -> bool {
        // A shift by all 64 bits would overflow.
        let mask = if count >= COMPONENTS_MAX { !SHORTENED } else { bit(count) - 1 };
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
        assert!(of(&[200]).contains(62) && of(&[200]).contains(64) && !of(&[200]).contains(61));
    }

    #[test]
    fn a_shorter_path_keeps_its_own_components() {
        assert_eq!(of(&[0, 2]).from_component(1), of(&[1]));
        assert_eq!(of(&[0, 2]).from_component(0), of(&[0, 2]));
        assert_eq!(of(&[0]).from_component(1), ArrayComponents::NONE);
        assert_eq!(of(&[2]).from_component(64), ArrayComponents::NONE);
    }

    #[test]
    fn shortened_keys_are_no_arrays() {
        let mut both = of(&[62]);
        both.insert_shortened();
        for first in [0, 1, 61, 62, 63, 64, 200] {
            let rest = both.from_component(first);
            assert!(rest.has_shortened() && rest.contains(62), "{first}");
            assert!(!of(&[62]).from_component(first).has_shortened(), "{first}");
            let rest = ArrayComponents::SHORTENED.from_component(first);
            assert!(rest.is_empty() && !rest.has_exact_keys() && !rest.has_any_of_first(200), "{first}");
        }
        assert_eq!(ArrayComponents::from_bits_of_whole_keys(0b101), of(&[0, 2]));
        assert_eq!(ArrayComponents::from_bits_of_whole_keys(1 << 63 | 1), of(&[0, 99]));
    }

    #[test]
    fn what_is_not_told_apart_counts_wherever_it_may_be() {
        let shifted = of(&[70]).from_component(3);
        assert!((59..70).all(|component| shifted.contains(component)) && !shifted.contains(58));
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
