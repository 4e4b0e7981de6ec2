//! Files that other clients have written wrongly: an error where they are wrong, and no more memory than a chunk needs.

use std::io::{Read, Seek, SeekFrom};

use cairndb::GridFsErrorKind;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, DateTime, Document, doc};

use super::{Files, content, download, refusal};

/// Four chunks, of 4, 4, 4 and 2 bytes.
const LENGTH: usize = 14;

fn file() -> (Files, Bson) {
    let files = Files::new();
    let id = files.upload("damaged", &content(LENGTH), 4);
    (files, id)
}

fn data(bytes: &[u8]) -> Bson {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }.into()
}

/// Reads the file after a change of the chunk `n`.
#[track_caller]
fn after_update(n: i32, update: Document) -> GridFsErrorKind {
    let (files, id) = file();
    let updated = files.chunks().update_one(doc! { "n": n }, update).run().expect("updated");
    assert_eq!(updated.modified_count, 1);
    refusal(download(&files.bucket, id))
}

#[test]
fn a_missing_chunk_is_named() {
    for n in 0..4 {
        let (files, id) = file();
        files.chunks().delete_one(doc! { "n": n }).run().expect("deleted");
        let missing = refusal(download(&files.bucket, id.clone()));
        let GridFsErrorKind::MissingChunk { n: named, .. } = missing else { panic!("{missing:?}") };
        assert_eq!(i32::try_from(named).unwrap(), n);
        // Chunks before it can be read, and so can those after it.
        let mut stream = files.bucket.open_download_stream(id).run().expect("opened");
        let mut before = vec![0; usize::try_from(n).unwrap() * 4];
        stream.read_exact(&mut before).expect("whole chunks");
        assert_eq!(before, content(LENGTH)[..before.len()]);
        assert!(stream.read(&mut [0]).is_err() && stream.read(&mut [0]).is_err(), "again and again");
        if n < 3 {
            stream.seek(SeekFrom::Start(13)).expect("moved");
            assert_eq!(stream.read(&mut [0; 8]).expect("the last byte"), 1);
        }
    }
}

#[test]
fn a_chunk_of_another_size_is_named() {
    for (n, bytes) in [(0, 3), (0, 5), (1, 0), (1, 100), (3, 1), (3, 3), (3, 4), (3, 0)] {
        let wrong = after_update(n, doc! { "$set": { "data": data(&content(bytes)) } });
        let GridFsErrorKind::WrongSizeChunk { actual_size, expected_size, n: named, .. } = wrong else {
            panic!("{wrong:?}")
        };
        assert_eq!(
            (actual_size, expected_size, i32::try_from(named).unwrap()),
            (bytes, if n == 3 { 2 } else { 4 }, n)
        );
    }
}

#[test]
fn a_chunk_that_is_none_is_named() {
    for update in [
        doc! { "$set": { "data": "text" } },
        doc! { "$unset": { "data": 1 } },
        doc! { "$set": { "data": [1, 2, 3, 4] } },
        doc! { "$set": { "n": 1.5 } },
    ] {
        let wrong = after_update(1, update.clone());
        assert!(matches!(wrong, GridFsErrorKind::InvalidChunk { n: 1, .. }), "{update}: {wrong:?}");
    }
    for update in [doc! { "$set": { "n": "1" } }, doc! { "$set": { "n": -1 } }, doc! { "$unset": { "n": 1 } }]
    {
        let wrong = after_update(1, update.clone());
        assert!(matches!(wrong, GridFsErrorKind::MissingChunk { n: 1, .. }), "{update}: {wrong:?}");
    }
}

#[test]
fn a_chunk_too_much_is_named() {
    for n in [Bson::Int32(4), Bson::Int64(1 << 40), Bson::Double(1000.0)] {
        let (files, id) = file();
        let extra = doc! { "files_id": id.clone(), "n": n, "data": data(b"more") };
        files.chunks().insert_one(extra).run().expect("inserted");
        assert!(matches!(
            refusal(download(&files.bucket, id)),
            GridFsErrorKind::ExtraChunk { expected_number: 4, .. }
        ));
    }
    // Without an index that prevents it.
    let (files, id) = file();
    files.chunks().drop_index("files_id_1_n_1").run().expect("dropped");
    let again = doc! { "files_id": id.clone(), "n": 1, "data": data(&content(8)[4..]) };
    files.chunks().insert_one(again).run().expect("inserted");
    let twice = refusal(download(&files.bucket, id));
    assert!(matches!(twice, GridFsErrorKind::InvalidChunk { n: 2, .. }), "{twice:?}");
}

#[test]
fn numbers_of_other_types_are_read() {
    let (files, id) = file();
    let numbers = doc! { "$set": { "length": 14.0, "chunkSize": 4_i64 } };
    files.files().update_one(doc! {}, numbers).run().expect("updated");
    for (n, other) in [(0, Bson::Int64(0)), (1, Bson::Double(1.0))] {
        files.chunks().update_one(doc! { "n": n }, doc! { "$set": { "n": other } }).run().expect("updated");
    }
    assert_eq!(download(&files.bucket, id).expect("read"), content(LENGTH));
}

#[test]
fn an_absurd_document_is_an_error_that_names_the_field() {
    for (field, values) in [
        (
            "length",
            [Bson::Int32(-1), Bson::Int64(1 << 60), Bson::Double(1e300), Bson::Double(f64::NAN), Bson::Null],
        ),
        ("chunkSize", [Bson::Int32(0), Bson::Int32(-4), Bson::Int64(1 << 60), Bson::Double(0.5), "4".into()]),
        (
            "uploadDate",
            [Bson::Null, Bson::Int64(0), "now".into(), Bson::Array(Vec::new()), Bson::Double(1.0)],
        ),
        (
            "filename",
            [
                Bson::Int32(1),
                Bson::Array(Vec::new()),
                doc! {}.into(),
                Bson::Boolean(true),
                DateTime::MIN.into(),
            ],
        ),
        (
            "metadata",
            [Bson::Int32(1), Bson::Array(Vec::new()), "x".into(), Bson::Boolean(true), DateTime::MIN.into()],
        ),
    ] {
        for value in values {
            let (files, id) = file();
            files
                .files()
                .update_one(doc! {}, doc! { "$set": { field: value.clone() } })
                .run()
                .expect("updated");
            let opened = files.bucket.open_download_stream(id).run();
            let GridFsErrorKind::InvalidFile { reason, .. } = refusal(opened) else {
                panic!("{field}: {value}")
            };
            assert!(reason.contains(field), "{reason}");
            assert!(files.bucket.find_one(doc! {}).run().is_err());
            let mut found = files.bucket.find(doc! {}).run().expect("a cursor");
            assert!(
                found.next().expect("a document").is_err_and(|error| format!("{error:?}").contains(field))
            );
            // A file that cannot be read can still be removed.
            files
                .bucket
                .delete_by_name("damaged")
                .run()
                .or_else(|_| files.bucket.drop().run())
                .expect("removed");
        }
    }
}

#[test]
fn a_document_that_is_no_file_does_not_end_a_search() {
    let files = Files::new();
    files.files().insert_one(doc! { "_id": 0 }).run().expect("inserted");
    files.upload("whole", b"content", 4);
    let found: Vec<_> = files.bucket.find(doc! {}).run().expect("a cursor").collect();
    assert_eq!(found.len(), 2);
    assert!(found.iter().any(Result::is_err));
    assert!(found.iter().flatten().any(|file| file.filename.as_deref() == Some("whole")));
}

#[test]
fn a_length_that_is_not_there_takes_no_memory() {
    let (files, id) = file();
    for (length, chunk_size) in [(1_i64 << 32, 4), (1 << 33, 4), (1 << 50, i32::MAX), ((1 << 31) * 4, 4)] {
        let numbers = doc! { "$set": { "length": length, "chunkSize": chunk_size } };
        files.files().update_one(doc! {}, numbers).run().expect("updated");
        assert!(download(&files.bucket, id.clone()).is_err(), "{length} by {chunk_size}");
        let mut stream = files.bucket.open_download_stream(id.clone()).run().expect("such a file could be");
        stream.seek(SeekFrom::End(-1)).expect("moved");
        assert!(stream.read(&mut [0; 10]).is_err(), "{length} by {chunk_size}");
    }
}

#[test]
fn an_empty_file_has_no_chunks_to_look_for() {
    let files = Files::new();
    let id = files.upload("empty", b"", 4);
    files
        .chunks()
        .insert_one(doc! { "files_id": id.clone(), "n": 0, "data": data(b"") })
        .run()
        .expect("inserted");
    assert_eq!(download(&files.bucket, id).expect("read"), b"");
}
