//! A store in a folder, opened by the engine in this process.

use std::path::Path;
use std::time::Duration;

use cairndb::bson::{Document, RawDocument, RawDocumentBuf};
use cairndb::{CancellationToken, Client, Cursor};

use crate::failure::Failure;
use crate::store::{Documents, Store};

/// How often opening is tried: another process may replace files between two steps of one attempt.
const ATTEMPTS: u32 = 5;

pub(super) struct Folder {
    client: Client,
}

impl Folder {
    /// Opens the folder as it is now, also while another process has it open. It is never made.
    pub(super) fn open_for_reading(
        path: &Path,
        memory: Option<usize>,
        token: &CancellationToken,
    ) -> Result<Self, Failure> {
        let mut attempt = 1;
        loop {
            let mut builder = Client::builder().read_only(true).create_if_missing(false).ttl_interval(None);
            if let Some(bytes) = memory {
                builder = builder.memory_budget(bytes);
            }
            match builder.open(path) {
                Ok(client) => return Ok(Self { client: client.with_cancellation(token) }),
                Err(error) if error.is_corruption() && attempt < ATTEMPTS => {
                    std::thread::sleep(Duration::from_millis(20 << attempt));
                    attempt += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Store for Folder {
    fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        Ok(self.client.database(database).run_raw_command(command).run()?)
    }

    fn stream(&self, database: &str, command: RawDocumentBuf) -> Result<Box<dyn Documents>, Failure> {
        Ok(Box::new(self.client.database(database).run_raw_cursor_command(command).run()?))
    }
}

impl Documents for Cursor<Document> {
    fn advance(&mut self) -> Result<bool, Failure> {
        Ok(Self::advance(self)?)
    }

    fn current(&self) -> &RawDocument {
        Self::current(self)
    }
}
