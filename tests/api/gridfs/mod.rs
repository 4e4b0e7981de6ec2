//! Buckets of files: what is written, what is read, and what is rejected.

mod damaged;
mod indexes;
mod orphans;
mod streams;
mod uploads;
mod verbs;

use std::io::{Read, Write};

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, Error, ErrorKind, GridFsBucket, GridFsBucketOptions, GridFsErrorKind};
use cairndb_tests::scratch::Scratch;

/// A database with an empty bucket.
struct Files {
    // Dropped before the folder.
    bucket: GridFsBucket,
    client: Client,
    scratch: Scratch,
}

impl Files {
    #[track_caller]
    fn new() -> Self {
        let scratch = Scratch::new();
        let client = scratch.open();
        let bucket = bucket(&client, None);
        Self { bucket, client, scratch }
    }

    fn files(&self) -> Collection<Document> {
        self.client.database("test").collection("fs.files")
    }

    fn chunks(&self) -> Collection<Document> {
        self.client.database("test").collection("fs.chunks")
    }

    /// Uploads a file and returns its `_id`.
    #[track_caller]
    fn upload(&self, name: &str, content: &[u8], chunk_size: u32) -> Bson {
        upload(&self.bucket, name, content, chunk_size)
    }
}

fn bucket(client: &Client, chunk_size: Option<u32>) -> GridFsBucket {
    let options = GridFsBucketOptions::builder().chunk_size_bytes(chunk_size).build();
    client.database("test").gridfs_bucket(options)
}

#[track_caller]
fn upload(bucket: &GridFsBucket, name: &str, content: &[u8], chunk_size: u32) -> Bson {
    let mut upload = bucket.open_upload_stream(name).chunk_size_bytes(chunk_size).run().expect("opened");
    upload.write_all(content).expect("written");
    upload.close().expect("closed");
    upload.id().clone()
}

/// All of a file.
fn download(bucket: &GridFsBucket, id: Bson) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    bucket.open_download_stream(id).run()?.read_to_end(&mut content)?;
    Ok(content)
}

/// Bytes that differ from place to place.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|position| u8::try_from(position * 31 % 251).expect("below 251")).collect()
}

/// The kind of error of a call on a bucket.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> GridFsErrorKind {
    let error = result.expect_err("it is refused");
    let ErrorKind::GridFs(kind) = error.kind() else { panic!("not of a bucket: {error:?}") };
    kind.clone()
}

#[track_caller]
fn count(collection: &Collection<Document>) -> u64 {
    collection.count_documents(doc! {}).run().expect("counted")
}
