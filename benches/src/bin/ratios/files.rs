//! Figures of files: what a stream costs beside an insert of the same chunks.

use std::io::Write;

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, RawDocumentBuf, doc, oid::ObjectId};
use cairndb::{Client, Collection, IndexModel, IndexOptions};
use cairndb_benches::documents::mix;
use cairndb_benches::measure::{speed_ratio, time};

/// The length of the file.
const BYTES: usize = 64 << 20;
/// The bytes that a caller gives to the stream at once.
const PIECE: usize = 64 << 10;
/// A chunk as a bucket makes it by default.
const CHUNK: usize = 255 << 10;

/// An upload of a file against `insert_many` of its chunks, which have the same bytes and the same unique index and were made
/// before.
pub(crate) fn gridfs_upload() -> f64 {
    let content: Vec<u8> = (0..BYTES as u64 / 8).flat_map(|word| mix(word).to_le_bytes()).collect();
    let chunks = chunks(&content);
    speed_ratio(
        || {
            let (_folder, client) = open();
            let bucket = client.database("bench").gridfs_bucket(None);
            // The collections and indexes are there on both sides.
            bucket.open_upload_stream("first").run().and_then(|mut first| first.close()).expect("uploaded");
            time(|| {
                let mut upload = bucket.open_upload_stream("file").run().expect("opened");
                content.chunks(PIECE).for_each(|piece| upload.write_all(piece).expect("written"));
                upload.close().expect("closed");
            })
        },
        || {
            let (_folder, client) = open();
            let collection: Collection<RawDocumentBuf> = client.database("bench").collection("fs.chunks");
            let options = IndexOptions::builder().unique(true).build();
            let keys = IndexModel::builder().keys(doc! { "files_id": 1, "n": 1 }).options(options).build();
            collection.create_index(keys).run().expect("made");
            time(|| drop(collection.insert_many(&chunks).run().expect("inserted")))
        },
    )
}

fn open() -> (tempfile::TempDir, Client) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let client = Client::open(folder.path().join("db")).expect("a new database");
    (folder, client)
}

fn chunks(content: &[u8]) -> Vec<RawDocumentBuf> {
    let file = ObjectId::new();
    let parts = content.chunks(CHUNK).enumerate();
    let documents = parts.map(|(n, part)| {
        let data = Binary { subtype: BinarySubtype::Generic, bytes: part.to_vec() };
        let n = Bson::Int32(i32::try_from(n).expect("it is small"));
        RawDocumentBuf::try_from(&doc! { "_id": ObjectId::new(), "files_id": file, "n": n, "data": data })
    });
    documents.collect::<Result<_, _>>().expect("documents")
}
