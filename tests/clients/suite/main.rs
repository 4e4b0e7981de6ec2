//! The server before MongoDB's own clients: its Rust driver here, PyMongo and mongosh by scripts that hold their own
//! assertions. Each test has a server process of its own, and each ends with proof that the store agrees with itself.

mod bulk_write;
mod counters;
mod crud;
mod cursors;
mod dump;
mod gridfs;
mod gridfs_specification;
mod indexes;
mod killed;
mod places;
mod quota;
mod refusals;
mod resilient;
mod scripts;
mod soak;
mod transactions;

use cairndb_clients::cairn::Cairn;
use mongodb::bson::Document;
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::sync::{Client, Collection};

/// A server, and the driver connected to it.
struct Served {
    cairn: Cairn,
    client: Client,
    things: Collection<Document>,
}

impl Served {
    fn start() -> Self {
        Self::over(Cairn::start())
    }

    fn over(cairn: Cairn) -> Self {
        let client = Client::with_uri_str(cairn.uri()).expect("the URI is one");
        let things = client.database("shop").collection("things");
        Self { cairn, client, things }
    }

    /// With documents in `things`.
    fn with(documents: impl IntoIterator<Item = Document>) -> Self {
        let served = Self::start();
        served.things.insert_many(documents).run().expect("they are new");
        served
    }

    /// All of `things`, by `_id`.
    fn stored(&self) -> Vec<Document> {
        let found = self.things.find(Document::new()).sort(mongodb::bson::doc! { "_id": 1 }).run();
        found.expect("a cursor").collect::<Result<_, _>>().expect("documents")
    }

    #[track_caller]
    fn stop(self) {
        self.client.shutdown().run();
        self.cairn.stop();
    }
}

/// The code and message of a rejected command.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, code: i32, words: &str) {
    let error = result.expect_err("it is refused");
    let (found, message) = if let ErrorKind::Command(error) = error.kind.as_ref() {
        (error.code, &error.message)
    } else if let ErrorKind::Write(WriteFailure::WriteError(error)) = error.kind.as_ref() {
        (error.code, &error.message)
    } else {
        panic!("neither a refused command nor a refused write: {error:?}")
    };
    assert_eq!(found, code, "{message}");
    assert!(message.contains(words), "{message:?} does not say {words:?}");
}
