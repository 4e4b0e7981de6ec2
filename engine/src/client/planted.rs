//! Settings of tests, and damage that they do on purpose.

use base::error::Result;
use store::Family;
use store::write::{Batch, CommitLevel};

use crate::client::Client;
#[cfg(any(test, feature = "planted-faults"))]
use crate::client::builder::ClientBuilder;
#[cfg(any(test, feature = "planted-faults"))]
use crate::options::PlantedFault;

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

    /// The bytes of a row of the family `outcomes`, to store them changed.
    ///
    /// ```
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = cairndb::Client::open(folder.path().join("db"))?;
    /// client.plant_outcome(b"no key", b"no row")?;
    /// assert_eq!(client.planted_outcome(b"no key")?, Some(b"no row".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(hidden)]
    pub fn planted_outcome(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let database = self.shared.store.enter()?;
        let value = database.get(Family::Outcomes, key)?;
        Ok(value.map(|value| value.to_vec()))
    }
}

#[cfg(any(test, feature = "planted-faults"))]
impl ClientBuilder {
    /// Sets the bytes of the memory budget for records that are looked up often, as many for leaves of collections, and half of it for leaves of
    /// indexes. For suites, which run with none and with too few.
    #[doc(hidden)]
    pub fn record_cache(mut self, bytes: usize) -> Self {
        self.record_cache = Some(bytes);
        self
    }

    /// Plants a fault on purpose, to show that the test suites detect it.
    #[doc(hidden)]
    pub fn planted_fault(mut self, fault: PlantedFault) -> Self {
        self.fault = fault;
        self
    }
}
