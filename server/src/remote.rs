//! The other side of a connection, as `currentOp` shows it.

use std::sync::OnceLock;

use cairndb::bson::{Bson, Document};

/// No more values of metadata are kept: drivers send some fifteen, and in memory each takes many times its bytes.
const VALUES_MAX: usize = 64;

/// The client of a connection.
pub(crate) struct RemoteClient {
    /// The number of the connection.
    pub(crate) connection: i32,
    pub(crate) address: String,
    metadata: OnceLock<Metadata>,
}

/// What a client says of itself in its first `hello`.
struct Metadata {
    /// Empty if it has too many values.
    document: Document,
    /// The name of its program.
    application: Option<String>,
}

impl RemoteClient {
    pub(crate) fn new(connection: i32, address: String) -> Self {
        Self { connection, address, metadata: OnceLock::new() }
    }

    /// Keeps what the client says of itself. Returns `false` if it had said something before: of two hellos at the same time only one is
    /// the first.
    pub(crate) fn note(&self, metadata: Document, application: Option<String>) -> bool {
        let document = if values(&metadata) > VALUES_MAX { Document::new() } else { metadata };
        self.metadata.set(Metadata { document, application }).is_ok()
    }

    /// The name of the client's program.
    pub(crate) fn application(&self) -> Option<&str> {
        self.metadata.get()?.application.as_deref()
    }

    /// Adds the fields of the client to a document of `currentOp`.
    pub(crate) fn show(&self, shown: &mut Document) {
        shown.insert("connectionId", self.connection);
        shown.insert("client", self.address.as_str());
        if let Some(application) = self.application() {
            shown.insert("appName", application);
        }
    }

    /// Adds all that the client says of itself.
    pub(crate) fn show_metadata(&self, shown: &mut Document) {
        if let Some(Metadata { document, .. }) =
            self.metadata.get().filter(|found| !found.document.is_empty())
        {
            shown.insert("clientMetadata", document.clone());
        }
    }
}

/// The number of values in a document, at all levels.
fn values(document: &Document) -> usize {
    document.values().map(values_of).sum()
}

fn values_of(value: &Bson) -> usize {
    let of_scope = if let Bson::JavaScriptCodeWithScope(code) = value { values(&code.scope) } else { 0 };
    let of_array = value.as_array().map_or(0, |array| array.iter().map(values_of).sum());
    1 + of_scope + of_array + value.as_document().map_or(0, values)
}
