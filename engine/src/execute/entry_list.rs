//! Entries with equal values, read from a list in memory. A list that is asked for again and again, and is not there, is made and kept.

use std::sync::Arc;

use base::error::Result;
use index::range::KeyRange;
use query::operation::OperationContext;
use store::Family;
use store::entry_lists::{EntryList, ListFound, ListPlace, ListSwitch};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;

/// The number of deleted entries in a row that are passed to make a list for a search that may not need all of it.
const DELETED_MAX: u64 = 64;

/// Finds lists of entries of one index on a snapshot.
pub(super) struct EntryListing<'a> {
    pub(super) snapshot: &'a Arc<Snapshot>,
    /// Of the lists of entries with as many equal fields as the prefix has.
    pub(super) switch: &'a ListSwitch,
    pub(super) operation: &'a OperationContext,
    /// Whether the prefix is the whole key of the only entry that can be there.
    pub(super) is_key: bool,
}

impl EntryListing<'_> {
    /// The list of all entries whose keys begin with `prefix`, if it is in memory or is wanted there. Returns `None` if they must be walked over.
    pub(super) fn find(&self, prefix: &[u8]) -> Result<Option<EntryList>> {
        match self.snapshot.entries_listed(prefix, self.switch) {
            ListFound::Complete(list) => Ok(Some(list)),
            ListFound::TooLong | ListFound::Absent(None) => Ok(None),
            ListFound::Absent(Some(place)) => self.read_and_keep_hurried(prefix, &place),
        }
    }

    /// The list of the first `most` entries whose keys begin with `prefix`, or of more. Returns `None` if they are too many for one.
    pub(super) fn find_or_read(&self, prefix: &[u8], most: usize) -> Result<Option<EntryList>> {
        match self.snapshot.entries_listed(prefix, self.switch) {
            ListFound::Complete(list) => Ok(Some(list)),
            ListFound::TooLong => Ok(None),
            ListFound::Absent(Some(place)) if most == usize::MAX => self.read_and_keep(prefix, &place),
            ListFound::Absent(Some(place)) => match self.read_and_keep_hurried(prefix, &place)? {
                Some(list) => Ok(Some(list)),
                None => self.read(prefix, most),
            },
            ListFound::Absent(None) => self.read(prefix, most),
        }
    }

    fn read_and_keep(&self, prefix: &[u8], place: &ListPlace) -> Result<Option<EntryList>> {
        let list = self.read(prefix, usize::MAX)?;
        self.snapshot.keep_list(place, prefix, list.as_ref());
        Ok(list)
    }

    /// As [`read_and_keep`](Self::read_and_keep), for a search that may need the first entries only: it does not pass many deleted ones for the
    /// rest. Returns `None` if it would.
    fn read_and_keep_hurried(&self, prefix: &[u8], place: &ListPlace) -> Result<Option<EntryList>> {
        if self.is_key {
            return self.read_and_keep(prefix, place);
        }
        let KeyRange { start, end } = KeyRange::prefix(prefix.to_vec());
        let mut scan = Scan::open_hurried(self.snapshot, Family::Entries, (start, end), DELETED_MAX);
        let read = scan.advance().and_then(|_| list_from(&mut scan, prefix, usize::MAX));
        // Whatever stops it here stops the walk as well, or only takes longer.
        let Ok(list) = read else { return Ok(None) };
        self.snapshot.keep_list(place, prefix, list.as_ref());
        Ok(list)
    }

    /// Reads the first `most` entries. Returns `None` if they are too many for a list.
    fn read(&self, prefix: &[u8], most: usize) -> Result<Option<EntryList>> {
        if self.is_key {
            return read_one(self.snapshot, prefix);
        }
        let KeyRange { start, end } = KeyRange::prefix(prefix.to_vec());
        let (family, cache) = (Family::Entries, CacheUse::Fill);
        let mut scan = Scan::open(self.snapshot, family, (start, end), cache, self.operation);
        scan.advance()?;
        list_from(&mut scan, prefix, most)
    }
}

/// Reads the only entry that a key can have. Returns `None` if it is too long for a list.
pub(super) fn read_one(snapshot: &Snapshot, key: &[u8]) -> Result<Option<EntryList>> {
    let mut list = EntryList::new();
    let fits = snapshot.get(Family::Entries, key)?.is_none_or(|value| list.push(&[], &value));
    Ok(fits.then_some(list))
}

/// Reads the first `most` entries that begin with `prefix` from a walk that is at the first of them, or behind them. Returns `None` if they are too
/// many for a list.
pub(super) fn list_from(scan: &mut Scan, prefix: &[u8], most: usize) -> Result<Option<EntryList>> {
    let (mut list, mut entries) = (EntryList::new(), 0);
    while let Some(rest) = scan.key().strip_prefix(prefix) {
        if !list.push(rest, scan.value()) {
            return Ok(None);
        }
        entries += 1;
        if entries >= most {
            break;
        }
        scan.advance()?;
    }
    Ok(Some(list))
}

/// A walk over the entries of a list. It is before the first one until `advance` is called.
pub(super) struct ListWalk {
    /// The key of the current entry: the beginning of all of them, and its rest. Empty before the first one and after the last.
    key: Vec<u8>,
    prefix: Vec<u8>,
    list: EntryList,
    /// The position of the current entry in the list.
    current: usize,
    next: usize,
}

impl ListWalk {
    pub(super) fn of(prefix: Vec<u8>, list: EntryList) -> Self {
        Self { key: Vec::new(), prefix, list, current: 0, next: 0 }
    }

    /// Steps to the next entry. Returns `false` at the end.
    pub(super) fn advance(&mut self) -> bool {
        self.current = self.next;
        self.key.clear();
        let Some((rest, _, next)) = self.list.at(self.current) else { return false };
        self.key.extend_from_slice(&self.prefix);
        self.key.extend_from_slice(rest);
        self.next = next;
        true
    }

    /// There is no current entry until the next step, which comes to it again if `is_repeated`.
    pub(super) fn rest(&mut self, is_repeated: bool) {
        if is_repeated && !self.key.is_empty() {
            self.next = self.current;
        }
        self.key.clear();
    }

    /// Makes the next step go on after all keys that start with the first `bytes` bytes of the current key.
    pub(super) fn skip_prefix(&mut self, bytes: usize) {
        let Some(rest) = self.key.get(self.prefix.len()..bytes.max(self.prefix.len())) else { return };
        while let Some((other, _, next)) = self.list.at(self.next)
            && (bytes <= self.prefix.len() || other.starts_with(rest))
        {
            self.next = next;
        }
    }

    /// The current key. It is empty before the first entry and after the last.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The current value. It is empty before the first entry and after the last.
    pub(super) fn value(&self) -> &[u8] {
        if self.key.is_empty() {
            return &[];
        }
        self.list.at(self.current).map_or(&[], |(_, value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_through_a_list_and_repeats_and_skips() {
        let mut list = EntryList::new();
        for (rest, value) in [(b"a1", b"x"), (b"a2", b"y"), (b"b1", b"z")] {
            assert!(list.push(rest, value));
        }
        let mut walk = ListWalk::of(b"p".to_vec(), list);
        assert_eq!((walk.key(), walk.value()), (&[][..], &[][..]));
        assert!(walk.advance());
        assert_eq!((walk.key(), walk.value()), (&b"pa1"[..], &b"x"[..]));
        walk.rest(true);
        assert!(walk.key().is_empty() && walk.value().is_empty());
        assert!(walk.advance());
        assert_eq!(walk.key(), b"pa1");
        walk.skip_prefix(2);
        assert!(walk.advance());
        assert_eq!((walk.key(), walk.value()), (&b"pb1"[..], &b"z"[..]));
        assert!(!walk.advance() && walk.key().is_empty() && walk.value().is_empty() && !walk.advance());
        walk.next = 0;
        assert!(walk.advance());
        walk.skip_prefix(1);
        assert!(!walk.advance());
    }
}
