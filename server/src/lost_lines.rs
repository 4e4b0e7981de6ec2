//! Lines of the log that were lost: the embedding program counts them, because it writes the log, and the server shows the number.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::server::ServerBuilder;

impl ServerBuilder {
    /// Sets the counter in which the program counts lines of its log that it could not write. The number is shown by
    /// `serverStatus` and on the page of metrics, because a log that accepts no lines cannot say so itself.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::AtomicU64;
    /// # use cairndb::Client;
    /// # use cairndb_server::Server;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let lost = Arc::new(AtomicU64::new(0));
    /// let builder = Server::builder(Client::in_memory()?).log_lines_lost(Arc::clone(&lost));
    /// # drop(builder);
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_lines_lost(mut self, lost: Arc<AtomicU64>) -> Self {
        self.settings.log_lines_lost = lost;
        self
    }
}
