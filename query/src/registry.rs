//! Names and what they represent: operators, stages, commands.
//!
//! A registry is sorted when it is compiled: a table whose names do not ascend, or that has a name twice, does not
//! build. So a look-up can search by halves, and no table needs a test of its order.

/// A table of names, each with what it represents.
///
/// ```
/// use cairndb_query::registry::Registry;
///
/// const SIGNS: Registry<i32> = Registry::new(&[("minus", -1), ("plus", 1)]);
///
/// assert_eq!(SIGNS.get("minus"), Some(&-1));
/// assert_eq!(SIGNS.get("times"), None);
/// assert_eq!(SIGNS.names().collect::<Vec<_>>(), ["minus", "plus"]);
/// ```
///
/// Names that do not ascend are an error of the compiler:
///
/// ```compile_fail
/// use cairndb_query::registry::Registry;
///
/// const SIGNS: Registry<i32> = Registry::new(&[("plus", 1), ("minus", -1)]);
/// ```
#[derive(Debug)]
pub struct Registry<T: 'static> {
    entries: &'static [(&'static str, T)],
}

impl<T> Registry<T> {
    /// A registry of `entries`, which ascend by name.
    ///
    /// # Panics
    ///
    /// If the names do not ascend. Of a constant, the compiler reports it.
    pub const fn new(entries: &'static [(&'static str, T)]) -> Self {
        // A loop over slices, because iterators cannot be used where constants are made.
        let mut rest = entries;
        while let [(name, _), after @ ..] = rest {
            if let [(next, _), ..] = after {
                assert!(precedes(name.as_bytes(), next.as_bytes()), "the names of a registry must ascend");
            }
            rest = after;
        }
        Self { entries }
    }

    /// Returns what `name` represents, with the name as the table has it.
    ///
    /// Errors keep that name: it lives as long as the program, the caller's text does not.
    pub fn entry(&self, name: &str) -> Option<&'static (&'static str, T)> {
        let at = self.entries.binary_search_by_key(&name, |(known, _)| known).ok()?;
        self.entries.get(at)
    }

    /// Returns what `name` represents, or `None` if the table does not have it.
    pub fn get(&self, name: &str) -> Option<&'static T> {
        self.entry(name).map(|(_, meaning)| meaning)
    }

    /// Whether the table has `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// All names, ascending.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        self.entries.iter().map(|(name, _)| *name)
    }

    /// All names with what they represent, ascending.
    pub const fn entries(&self) -> &'static [(&'static str, T)] {
        self.entries
    }
}

/// Whether `left` is the lower of two names, byte by byte, as `str` orders them. The comparison of `str` cannot be
/// called where constants are made.
const fn precedes(left: &[u8], right: &[u8]) -> bool {
    let (mut left, mut right) = (left, right);
    while let ([first, left_after @ ..], [second, right_after @ ..]) = (left, right) {
        if *first != *second {
            return *first < *second;
        }
        left = left_after;
        right = right_after;
    }
    // One is the start of the other: the shorter is the lower, and equal names do not ascend.
    left.is_empty() && !right.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_texts_are() {
        let names = ["", "$", "$a", "$ab", "$b", "a", "é"];
        for left in names {
            for right in names {
                assert_eq!(precedes(left.as_bytes(), right.as_bytes()), left < right, "{left} {right}");
            }
        }
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        const LETTERS: Registry<u8> = Registry::new(&[("$a", 1), ("$b", 2), ("$c", 3)]);
        for (name, meaning) in LETTERS.entries() {
            assert_eq!(LETTERS.entry(name), Some(&(*name, *meaning)));
        }
        assert!(["", "$", "$A", "$bb", "$d"].into_iter().all(|name| !LETTERS.contains(name)));
        assert_eq!(Registry::<u8>::new(&[]).get("$a"), None);
    }
}
