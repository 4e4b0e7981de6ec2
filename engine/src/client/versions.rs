//! The versions of what a program with this library is made of, as far as they decide what a folder holds and what a query means.

use store::format::{FORMAT_VERSION, ROCKSDB_VERSION};

use crate::client::handle::Client;

/// The versions of what this program is made of: [`Client::versions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versions {
    /// This library.
    pub cairndb: &'static str,
    /// The format of folders that it makes: [`FORMAT_VERSION`](crate::FORMAT_VERSION).
    pub format: u32,
    /// The linked RocksDB.
    pub rocksdb: &'static str,
    /// The linked PCRE2, which matches regular expressions.
    pub pcre2: &'static str,
    /// The rules of languages by which sort keys are made, by the name that folders hold. `None` in a build without the feature
    /// `collation`.
    pub collation_rules: Option<&'static str>,
}

impl Client {
    /// Returns the versions of what this program is made of, for a log or a report of a problem.
    ///
    /// ```
    /// use cairndb::Client;
    ///
    /// let versions = Client::versions();
    /// assert_eq!(versions.rocksdb, cairndb::ROCKSDB_VERSION);
    /// println!("RocksDB {}, PCRE2 {}", versions.rocksdb, versions.pcre2);
    /// ```
    pub fn versions() -> Versions {
        Versions {
            cairndb: env!("CARGO_PKG_VERSION"),
            format: FORMAT_VERSION,
            rocksdb: ROCKSDB_VERSION,
            pcre2: query::library::pcre2_version(),
            collation_rules: index::collation::version::of_rules(),
        }
    }
}
