//! Damage that tests do on purpose.

use base::error::Result;
use store::Family;
use store::write::{Batch, CommitLevel};

use crate::client::Client;

impl Client {
    /// Stores bytes as a row of the family `outcomes`, whatever they are, to show that what reads rows stands any bytes.
    ///
    /// ```
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = cairndb::Client::open(folder.path().join("db"))?;
    /// client.plant_outcome(b"no key", b"no row")?;
    /// assert_eq!(client.verify()?.findings.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn plant_outcome(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let database = self.shared.store.enter()?;
        let mut batch = Batch::new(&database);
        batch.put(Family::Outcomes, key, value);
        self.shared.store.commit(batch, CommitLevel::Delayed)
    }
}
