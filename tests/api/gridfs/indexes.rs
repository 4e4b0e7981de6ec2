//! The indexes of a bucket: made by the first upload to a bucket without files, and never twice.

use cairndb::bson::{Document, doc};
use cairndb::{Collection, IndexModel};

use super::{Files, count};

#[track_caller]
fn keys(collection: &Collection<Document>) -> Vec<Document> {
    let indexes = collection.list_indexes().run().expect("listed");
    indexes.map(|index| index.expect("an index").keys).collect()
}

#[test]
fn an_upload_makes_both() {
    let files = Files::new();
    let mut upload = files.bucket.open_upload_stream("a").run().expect("opened");
    assert!(
        files.client.database("test").list_collection_names().run().unwrap().is_empty(),
        "not before it writes"
    );
    upload.close().expect("closed");
    assert_eq!(keys(&files.files()), [doc! { "_id": 1 }, doc! { "filename": 1, "uploadDate": 1 }]);
    assert_eq!(keys(&files.chunks()), [doc! { "_id": 1 }, doc! { "files_id": 1, "n": 1 }]);
    let chunk = || doc! { "files_id": 1, "n": 0 };
    files.chunks().insert_one(chunk()).run().expect("inserted");
    let again = files.chunks().insert_one(chunk()).run().expect_err("the index is unique");
    assert!(again.is_duplicate_key());
}

#[test]
fn reads_and_removals_make_none() {
    let files = Files::new();
    assert!(files.bucket.delete(1.into()).run().is_err());
    assert!(files.bucket.rename(1.into(), "b").run().is_err());
    assert!(files.bucket.open_download_stream(1.into()).run().is_err());
    files.bucket.drop().run().expect("nothing to drop");
    assert!(files.client.database("test").list_collection_names().run().unwrap().is_empty());
}

#[test]
fn those_of_other_clients_are_as_good() {
    let files = Files::new();
    for (collection, keys) in [
        (files.files(), doc! { "filename": 1.0, "uploadDate": 1_i64 }),
        (files.chunks(), doc! { "files_id": 1_i64, "n": 1.0 }),
    ] {
        collection.create_index(IndexModel::builder().keys(keys).build()).run().expect("made");
    }
    files.upload("a", b"x", 4);
    assert_eq!((keys(&files.files()).len(), keys(&files.chunks()).len()), (2, 2));
}

#[test]
fn a_bucket_with_files_is_left_as_it_is() {
    let files = Files::new();
    files.files().insert_one(doc! { "_id": 1 }).run().expect("inserted");
    files.upload("a", b"x", 4);
    assert_eq!((keys(&files.files()).len(), keys(&files.chunks()).len()), (1, 1));
}

#[test]
fn a_dropped_bucket_gets_them_again() {
    let files = Files::new();
    files.upload("a", b"x", 4);
    files.bucket.drop().run().expect("dropped");
    files.upload("b", b"x", 4);
    assert_eq!((keys(&files.chunks()).len(), count(&files.files())), (2, 1));
}

#[test]
fn chunks_are_read_by_their_index() {
    let files = Files::new();
    files.upload("a", &[0; 100], 4);
    let explained = files
        .client
        .database("test")
        .run_command(
            doc! { "explain": { "find": "fs.chunks", "filter": {}, "sort": { "files_id": 1, "n": 1 },
            "projection": { "_id": 1, "files_id": 1, "n": 1 } } },
        )
        .run()
        .expect("explained")
        .to_string();
    assert!(explained.contains("PROJECTION_COVERED") && !explained.contains("\"SORT\""), "{explained}");
    let id = files.files().find_one(doc! {}).run().unwrap().unwrap().get("_id").cloned().unwrap();
    let filter = doc! { "files_id": { "$eq": id }, "n": { "$gte": 3 } };
    let explained = files
        .client
        .database("test")
        .run_command(doc! { "explain": { "find": "fs.chunks", "filter": filter, "sort": { "n": 1 } } })
        .run()
        .expect("explained")
        .to_string();
    assert!(explained.contains("IXSCAN") && !explained.contains("\"SORT\""), "{explained}");
}
