//! The versions of what a program with this library is made of, as far as they decide what a folder holds and what a query means.

use store::format::{FORMAT_VERSION, ROCKSDB_VERSION};

use crate::client::builder::ClientBuilder;
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

    /// Returns the format that the folder had before this opening has upgraded it. `None` if it had the one of
    /// [`FORMAT_VERSION`](crate::FORMAT_VERSION), or is new, or was opened for reading only.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = Client::open(folder.path().join("db"))?;
    /// if let Some(format) = client.upgraded_from() {
    ///     println!("the folder had format {format}: earlier versions of CairnDB do not open it any more");
    /// }
    /// # assert_eq!(client.upgraded_from(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgraded_from(&self) -> Option<u32> {
        self.shared.store.upgraded_from
    }
}

impl ClientBuilder {
    /// Whether a folder of an older format is upgraded when it is opened for writing. The default is `true`. With `false` it is rejected
    /// with [`ErrorKind::NotUpgraded`](crate::ErrorKind::NotUpgraded), and stays as it is: for a program that is to back up first, or
    /// that runs beside an older one. Reading upgrades nothing. An upgrade that was begun and cut short is finished with either: older
    /// versions do not open such a folder any more.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// # Client::open(&path)?.close()?;
    /// let client = Client::builder().upgrade(false).open(&path)?;
    /// assert_eq!(client.upgraded_from(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upgrade(mut self, upgrade: bool) -> Self {
        self.upgrade = upgrade;
        self
    }
}
