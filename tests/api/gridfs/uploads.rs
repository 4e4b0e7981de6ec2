//! Uploads that do not end well, and those that race: nothing of them stays, and nothing of others goes.

use std::io::{self, Write};

use cairndb::bson::{Bson, doc};
use cairndb::{CancellationToken, Client, ErrorKind, GridFsBucketOptions, GridFsErrorKind, WriteConcern};
use cairndb_tests::scratch::small;

use super::{Files, bucket, content, count, download, refusal, upload};

/// More than a batch, so that chunks are stored before the end.
const LARGE: usize = 9 << 20;

#[test]
fn an_upload_that_is_dropped_leaves_nothing() {
    let files = Files::new();
    let mut stream = files.bucket.open_upload_stream("dropped").run().expect("opened");
    stream.write_all(&content(LARGE)).expect("written");
    assert!(count(&files.chunks()) > 0, "some are stored");
    drop(stream);
    assert_eq!((count(&files.chunks()), count(&files.files())), (0, 0));
}

#[test]
fn an_aborted_upload_leaves_nothing_and_takes_nothing() {
    let files = Files::new();
    let kept = files.upload("kept", b"kept", 4);
    let mut stream = files.bucket.open_upload_stream("aborted").run().expect("opened");
    stream.write_all(&content(LARGE)).expect("written");
    stream.abort().expect("aborted");
    assert_eq!((count(&files.chunks()), count(&files.files())), (1, 1));
    for error in [stream.write_all(b"more"), stream.flush()] {
        let refused = refusal(error.map_err(Into::into));
        assert!(matches!(refused, GridFsErrorKind::UploadStreamClosed), "{refused:?}");
    }
    assert!(matches!(refusal(stream.close()), GridFsErrorKind::UploadStreamClosed));
    assert!(matches!(refusal(stream.abort()), GridFsErrorKind::UploadStreamClosed));
    assert_eq!(download(&files.bucket, kept).expect("read"), b"kept");
}

#[test]
fn a_closed_upload_takes_no_more() {
    let files = Files::new();
    let mut stream = files.bucket.open_upload_stream("closed").run().expect("opened");
    stream.write_all(b"all").expect("written");
    stream.close().expect("closed");
    assert!(stream.write_all(b"more").is_err() && stream.close().is_err() && stream.abort().is_err());
    let id = stream.id().clone();
    drop(stream);
    assert_eq!(download(&files.bucket, id).expect("read"), b"all");
}

#[test]
fn an_id_that_is_taken_leaves_the_file_that_has_it() {
    let files = Files::new();
    for length in [0, 10, LARGE] {
        let original = content(length);
        let mut first = files.bucket.open_upload_stream_with_id("id".into(), "first").run().expect("opened");
        first.write_all(&original).expect("written");
        first.close().expect("closed");
        for other in [0, 5, LARGE] {
            let mut second = files.bucket.open_upload_stream("second").id("id".into()).run().expect("opened");
            let ended = second.write_all(&content(other)).map_err(cairndb::Error::from);
            let ended = ended.and_then(|()| second.close());
            // By its first chunk, or by its document.
            let error = ended.expect_err("the id is taken");
            assert!(error.is_duplicate_key(), "{error:?}");
            drop(second);
            assert!(download(&files.bucket, "id".into()).expect("read") == original, "{length}, {other}");
            assert_eq!(files.bucket.find_orphans().run().expect("searched").count(), 0);
        }
        files.bucket.delete("id".into()).run().expect("deleted");
        assert_eq!(count(&files.chunks()), 0);
    }
}

#[test]
fn an_id_has_one_upload_at_a_time() {
    let files = Files::new();
    let id = || Bson::Int32(1);
    let mut stream = files.bucket.open_upload_stream("a").id(id()).run().expect("opened");
    // Other handles, and numbers that are the same `_id`, too.
    let again = bucket(&files.client, None).open_upload_stream("b").id(1.0.into()).run();
    assert!(matches!(refusal(again), GridFsErrorKind::UploadRunning { .. }));
    stream.write_all(&content(LARGE)).expect("written");
    assert!(matches!(refusal(files.bucket.delete(id()).run()), GridFsErrorKind::UploadRunning { .. }));
    assert!(matches!(refusal(files.bucket.drop().run()), GridFsErrorKind::UploadRunning { .. }));
    // Another bucket has other files.
    let options = GridFsBucketOptions::builder().bucket_name("other".to_owned()).build();
    let other = files.client.database("test").gridfs_bucket(options);
    other.open_upload_stream("a").id(id()).run().expect("opened").close().expect("closed");
    other.drop().run().expect("dropped");
    stream.close().expect("closed");
    assert!(download(&files.bucket, id()).expect("read") == content(LARGE));
    files.bucket.delete(id()).run().expect("deleted");
}

#[test]
fn options_that_no_file_can_have_are_refused_by_name() {
    let files = Files::new();
    for (size, word) in [(0, "0"), (16 << 20, "16777216"), (u32::MAX, "4294967295")] {
        let error = files.bucket.open_upload_stream("a").chunk_size_bytes(size).run().expect_err("refused");
        let text = error.to_string();
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
        assert!(text.contains("chunk_size_bytes") && text.contains(word), "{text}");
    }
    let wrong = bucket(&files.client, Some(0)).open_upload_stream("a").run().expect_err("refused");
    assert!(wrong.to_string().contains("chunk_size_bytes"));
    for id in [Bson::Array(Vec::new()), Bson::Undefined, doc! { "$a": 1 }.into()] {
        let error = files.bucket.open_upload_stream("a").id(id).run().expect_err("refused");
        assert!([Some(53), Some(52)].contains(&error.code()), "{error:?}");
    }
    let large = doc! { "text": "x".repeat(16 << 20) };
    let error = files.bucket.open_upload_stream("a").metadata(large).run().expect_err("refused");
    assert!(error.to_string().contains("too large"), "{error}");
    for name in ["", "$x", "system.", "a\0b"] {
        let options = GridFsBucketOptions::builder().bucket_name(name.to_owned()).build();
        let ended = files.client.database("test").gridfs_bucket(options).open_upload_stream("a").run();
        let ended = ended.and_then(|mut stream| stream.close());
        assert!(name == "system." || ended.is_err(), "{name:?}");
    }
    assert_eq!(count(&files.chunks()), 0);
}

#[test]
fn the_largest_chunks_are_stored() {
    let files = Files::new();
    // With an ObjectId as `files_id` a chunk has 66 bytes besides its data.
    let largest = (1..200).map(|less| (16 << 20) - less);
    let largest = largest
        .into_iter()
        .find(|size| files.bucket.open_upload_stream("a").chunk_size_bytes(*size).run().is_ok());
    let largest = largest.expect("some size fits");
    let content = content(largest as usize + 1);
    let id = files.upload("a", &content, largest);
    assert!(download(&files.bucket, id).expect("read") == content);
}

#[test]
fn a_cancelled_upload_fails_and_is_removed() {
    let files = Files::new();
    let token = CancellationToken::new();
    let cancelled = files.client.database("test").with_cancellation(&token).gridfs_bucket(None);
    let mut stream = cancelled.open_upload_stream("cancelled").run().expect("opened");
    stream.write_all(&content(LARGE)).expect("written");
    assert!(count(&files.chunks()) > 0);
    token.cancel();
    let error = stream.close().expect_err("cancelled");
    assert_eq!(error.code(), Some(11_601));
    assert!(matches!(refusal(stream.close()), GridFsErrorKind::UploadStreamClosed));
    // The token does not keep the chunks from being removed.
    drop(stream);
    assert_eq!((count(&files.chunks()), count(&files.files())), (0, 0));
}

#[test]
fn the_error_of_a_stream_is_the_store_s() {
    let files = Files::new();
    let mut stream = files.bucket.open_upload_stream("a").chunk_size_bytes(4).run().expect("opened");
    stream.write_all(b"12345678").expect("gathered");
    stream.flush().expect("stored");
    files.client.clone().close().expect("closed");
    let error = stream.write_all(&content(LARGE)).expect_err("the client is closed");
    assert_eq!(error.kind(), io::ErrorKind::Other);
    assert!(matches!(cairndb::Error::from(error).kind(), ErrorKind::Closed));
    assert!(matches!(stream.abort().expect_err("the chunks cannot be removed").kind(), ErrorKind::Closed));
}

#[test]
fn a_folder_that_is_only_read_takes_no_files() {
    let files = Files::new();
    let id = files.upload("a", b"content", 4);
    let Files { bucket: open, client, scratch } = files;
    drop(open);
    client.close().expect("closed");
    let reader = Client::builder().read_only(true).open(scratch.path()).expect("opened");
    let read_only = bucket(&reader, None);
    assert_eq!(download(&read_only, id).expect("read"), b"content");
    let mut stream = read_only.open_upload_stream("b").run().expect("opened");
    stream.write_all(b"more").expect("gathered");
    assert!(matches!(stream.close().expect_err("refused").kind(), ErrorKind::ReadOnly));
}

#[test]
fn a_write_concern_holds_for_the_whole_file() {
    let files = Files::new();
    let options = GridFsBucketOptions::builder().write_concern(WriteConcern::journaled()).build();
    let journaled = files.client.database("test").gridfs_bucket(options);
    let id = upload(&journaled, "a", &content(LARGE), 255 * 1024);
    assert_eq!(files.client.durable_seq(), files.client.written_seq().expect("known"));
    journaled.rename(id.clone(), "b").run().expect("renamed");
    journaled.delete(id).run().expect("deleted");
    assert_eq!(files.client.durable_seq(), files.client.written_seq().expect("known"));
    let mut wrong = WriteConcern::default();
    wrong.w = Some(cairndb::Acknowledgment::Nodes(2));
    let options = GridFsBucketOptions::builder().write_concern(wrong).build();
    let refused = files.client.database("test").gridfs_bucket(options).open_upload_stream("a").run();
    assert!(refused.expect("opened").close().is_err());
}

#[test]
fn many_threads_upload_to_one_bucket() {
    let scratch = cairndb_tests::scratch::Scratch::new();
    let client = scratch.open_with(small());
    let files = bucket(&client, Some(1000));
    let ids: Vec<(usize, Bson)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8_usize)
            .map(|thread| {
                let files = &files;
                scope.spawn(move || (thread, upload(files, "same name", &content(100_000 + thread), 1000)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for (thread, id) in ids {
        assert!(download(&files, id).expect("read") == content(100_000 + thread));
    }
    let indexes = client.database("test").collection::<cairndb::bson::Document>("fs.chunks");
    assert_eq!(indexes.list_index_names().run().expect("listed").len(), 2);
}
