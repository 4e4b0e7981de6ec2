//! The other side of a connection, as `currentOp` shows it.

use std::sync::OnceLock;

use cairndb::bson::{Document, RawDocument, RawDocumentBuf};

/// The client of a connection.
pub(crate) struct RemoteClient {
    /// The number of the connection.
    pub(crate) connection: i32,
    pub(crate) address: String,
    metadata: OnceLock<Metadata>,
}

/// What a client says of itself in its first `hello`.
struct Metadata {
    document: RawDocumentBuf,
    /// The name of its program.
    application: Option<String>,
}

impl RemoteClient {
    pub(crate) fn new(connection: i32, address: String) -> Self {
        Self { connection, address, metadata: OnceLock::new() }
    }

    /// Keeps what the client says of itself. Returns `false` if it had said something before: of two hellos at the same time only one is
    /// the first.
    pub(crate) fn note(&self, metadata: &RawDocument, application: Option<String>) -> bool {
        self.metadata.set(Metadata { document: metadata.to_owned(), application }).is_ok()
    }

    /// The name of the client's program.
    pub(crate) fn application(&self) -> Option<&str> {
        self.metadata.get()?.application.as_deref()
    }

    /// Adds the fields of the client to a document of `currentOp`.
    pub(crate) fn show(&self, shown: &mut Document) {
        shown.insert("connectionId", self.connection);
        shown.insert("client", self.address.as_str());
        if let Some(Metadata { document, application }) = self.metadata.get() {
            if let Some(application) = application {
                shown.insert("appName", application.as_str());
            }
            // Commands are checked as a whole before their fields are read.
            shown.insert("clientMetadata", Document::try_from(document.as_ref()).unwrap_or_default());
        }
    }
}
