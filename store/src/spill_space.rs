//! The bytes of all temporary files of a store together, and their limit. Files may outlive the open database, so
//! they share this with it.

// Plain atomics: they are also read when a database is dropped, which can be after the end of a checker's scenario.
use std::sync::atomic::{AtomicU64, Ordering};

use base::error::{Error, ErrorKind, Result};

/// The limit of temporary files that are open at a time. A sort has one for each three dozen memories full, a group
/// one for each time that it is divided, and a join one besides those of a sort. Other files need to be opened too.
const FILES_MAX: u64 = 512;

/// The bytes of all temporary files of a store, and the limit for them.
#[derive(Debug)]
pub(crate) struct SpillSpace {
    limit: u64,
    used: AtomicU64,
    /// The number of created files.
    made: AtomicU64,
    /// The number of bytes written to files.
    written: AtomicU64,
    /// The number of dropped files.
    freed: AtomicU64,
}

impl SpillSpace {
    /// A space of at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        let [used, made, written, freed] = [0; 4].map(AtomicU64::new);
        Self { limit, used, made, written, freed }
    }

    /// The bytes that temporary files have now.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// The number of created temporary files.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// The number of bytes written to temporary files.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The number of dropped temporary files.
    pub(super) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Acquire)
    }

    /// Reserves bytes, if they are left.
    pub(super) fn take(&self, bytes: u64) -> Result<()> {
        // Added first and given back if that was too much: two files cannot both get the last bytes.
        let before = self.used.fetch_add(bytes, Ordering::AcqRel);
        if before.saturating_add(bytes) <= self.limit {
            self.written.fetch_add(bytes, Ordering::Relaxed);
            return Ok(());
        }
        self.give_back(bytes);
        // The caller learns which option it is, because the disk may have room.
        let limit = self.limit;
        let message = format!(
            "temporary files of sorts, groups and joins would have more than {limit} bytes together \
             (`temporary_space`)"
        );
        Err(Error::new(ErrorKind::NoSpace { message, during_commit: false }))
    }

    /// Notes a new file, and returns its number.
    pub(super) fn count_file(&self) -> Result<u64> {
        let number = self.made.fetch_add(1, Ordering::AcqRel);
        if number.saturating_sub(self.freed()) < FILES_MAX {
            return Ok(number);
        }
        // The number is not used, but counting it as dropped keeps the difference right.
        self.free(0);
        let message =
            format!("more than {FILES_MAX} temporary files of sorts, groups and joins would be open");
        Err(Error::new(ErrorKind::NoSpace { message, during_commit: false }))
    }

    /// Gives back the bytes of a file that was dropped.
    pub(super) fn free(&self, bytes: u64) {
        self.give_back(bytes);
        self.freed.fetch_add(1, Ordering::AcqRel);
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_up_to_the_limit_and_come_back() {
        let space = SpillSpace::new(100);
        space.take(60).expect("there is room");
        assert!(space.take(41).is_err_and(|error| error.is_no_space()));
        space.take(40).expect("what was refused was not taken");
        space.free(60);
        assert_eq!((space.used(), space.written(), space.freed()), (40, 100, 1));
        assert!(space.take(u64::MAX).is_err() && space.take(60).is_ok());
    }

    #[test]
    fn files_are_counted_up_to_the_limit_and_come_back() {
        let space = SpillSpace::new(100);
        assert!((0..FILES_MAX).all(|number| space.count_file().is_ok_and(|made| made == number)));
        assert!(space.count_file().is_err_and(|error| error.is_no_space()));
        assert!(space.count_file().is_err(), "a refusal makes no room");
        space.free(0);
        space.count_file().expect("there is room for one");
        assert!(space.count_file().is_err());
    }
}
