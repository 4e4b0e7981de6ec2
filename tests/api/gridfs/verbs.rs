//! Finding, renaming and removing files.

use cairndb::bson::{Bson, DateTime, doc};
use cairndb::{GridFsBucketOptions, GridFsErrorKind, GridFsFileIdentifier};

use super::{Files, count, download, refusal};

/// A file with three revisions, each a day younger than the one before, and another file.
fn revisions() -> (Files, Vec<Bson>) {
    let files = Files::new();
    let mut ids = Vec::new();
    for (day, text) in [&b"oldest"[..], b"middle", b"newest"].into_iter().enumerate() {
        let id = files.upload("name", text, 4);
        let date = DateTime::from_millis(i64::try_from(day).expect("it is small") * 86_400_000);
        let dated = doc! { "$set": { "uploadDate": date } };
        files.files().update_one(doc! { "_id": id.clone() }, dated).run().expect("updated");
        ids.push(id);
    }
    files.upload("other", b"other", 4);
    (files, ids)
}

#[test]
fn a_revision_is_counted_from_either_end() {
    use std::io::Read;
    let (files, _) = revisions();
    let read = |revision: Option<i32>| {
        let open = files.bucket.open_download_stream_by_name("name");
        let open = match revision {
            Some(revision) => open.revision(revision),
            None => open,
        };
        let mut text = String::new();
        open.run().map(|mut stream| stream.read_to_string(&mut text).map(|_| text).expect("read"))
    };
    for (revision, text) in [
        (None, "newest"),
        (Some(-1), "newest"),
        (Some(-2), "middle"),
        (Some(-3), "oldest"),
        (Some(0), "oldest"),
        (Some(1), "middle"),
        (Some(2), "newest"),
    ] {
        assert_eq!(read(revision).expect("opened"), text, "{revision:?}");
    }
    for wrong in [3, -4, i32::MAX, i32::MIN] {
        let missing = refusal(read(Some(wrong)));
        assert!(matches!(missing, GridFsErrorKind::RevisionNotFound { revision, .. } if revision == wrong));
    }
    let missing = refusal(files.bucket.open_download_stream_by_name("no such name").revision(5).run());
    let GridFsErrorKind::FileNotFound { identifier, .. } = missing else { panic!("{missing:?}") };
    assert_eq!(identifier, GridFsFileIdentifier::Filename("no such name".to_owned()));
}

#[test]
fn a_file_goes_with_its_chunks_and_nothing_else() {
    let (files, ids) = revisions();
    files.bucket.delete(ids[1].clone()).run().expect("deleted");
    assert_eq!((count(&files.files()), count(&files.chunks())), (3, 6));
    let missing = refusal(files.bucket.delete(ids[1].clone()).run());
    let GridFsErrorKind::FileNotFound { identifier, .. } = missing else { panic!("{missing:?}") };
    assert_eq!(identifier, GridFsFileIdentifier::Id(ids[1].clone()));
    files.bucket.delete_by_name("name").run().expect("deleted");
    assert_eq!((count(&files.files()), count(&files.chunks())), (1, 2));
    assert!(matches!(
        refusal(files.bucket.delete_by_name("name").run()),
        GridFsErrorKind::FileNotFound { .. }
    ));
    assert_eq!(files.bucket.find(doc! {}).run().expect("found").count(), 1);
    files.bucket.drop().run().expect("dropped");
    assert!(files.client.database("test").list_collection_names().run().expect("listed").is_empty());
}

#[test]
fn a_name_is_changed_for_one_file_or_for_all() {
    let (files, ids) = revisions();
    files.bucket.rename(ids[0].clone(), "alone").run().expect("renamed");
    // The same name is a name, too.
    files.bucket.rename(ids[0].clone(), "alone").run().expect("renamed");
    files.bucket.rename_by_name("name", "pair").run().expect("renamed");
    let named = |name: &str| files.bucket.find(doc! { "filename": name }).run().expect("found").count();
    assert_eq!((named("alone"), named("pair"), named("name"), named("other")), (1, 2, 0, 1));
    assert!(matches!(
        refusal(files.bucket.rename(7.into(), "x").run()),
        GridFsErrorKind::FileNotFound { .. }
    ));
    let refused = refusal(files.bucket.rename_by_name("name", "x").run());
    assert!(matches!(refused, GridFsErrorKind::FileNotFound { .. }));
}

#[test]
fn files_are_found_with_options() {
    let (files, ids) = revisions();
    let found =
        files.bucket.find(doc! { "filename": "name" }).sort(doc! { "uploadDate": -1 }).skip(1).limit(1);
    let found: Vec<_> = found.run().expect("found").collect::<Result<_, _>>().expect("files");
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].id, found[0].length, found[0].chunk_size_bytes), (&ids[1], 6, 4));
    let first =
        files.bucket.find_one(doc! {}).sort(doc! { "length": 1 }).run().expect("found").expect("a file");
    assert_eq!(first.filename.as_deref(), Some("other"));
    assert!(files.bucket.find_one(doc! { "filename": "none" }).run().expect("searched").is_none());
    assert!(files.bucket.find(doc! { "$no": 1 }).run().is_err());
}

#[test]
fn an_id_is_a_value_and_no_query() {
    let files = Files::new();
    let kept = files.upload("kept", b"kept", 4);
    for id in [
        Bson::Document(doc! { "$gt": 0 }),
        Bson::Document(doc! { "$exists": true }),
        Bson::try_from(serde_json::json!({ "$regularExpression": { "pattern": ".*", "options": "" } }))
            .unwrap(),
        Bson::Null,
        Bson::Array(vec![kept.clone()]),
        Bson::Undefined,
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Double(f64::NAN),
    ] {
        assert!(files.bucket.delete(id.clone()).run().is_err(), "{id}");
        assert!(files.bucket.rename(id.clone(), "x").run().is_err(), "{id}");
        assert!(files.bucket.open_download_stream(id).run().is_err());
    }
    assert_eq!(download(&files.bucket, kept).expect("read"), b"kept");
}

#[test]
fn ids_of_every_type_name_files() {
    let files = Files::new();
    for id in [
        Bson::Int32(7),
        "name".into(),
        doc! { "a": 1 }.into(),
        Bson::Boolean(true),
        Bson::Null,
        DateTime::MIN.into(),
    ] {
        let mut upload =
            files.bucket.open_upload_stream("a").id(id.clone()).chunk_size_bytes(2).run().expect("opened");
        std::io::Write::write_all(&mut upload, b"abc").expect("written");
        upload.close().expect("closed");
        assert_eq!(download(&files.bucket, id.clone()).expect("read"), b"abc", "{id}");
        files.bucket.delete(id).run().expect("deleted");
    }
    assert_eq!(count(&files.chunks()), 0);
}

#[test]
fn buckets_know_nothing_of_each_other() {
    let files = Files::new();
    files.upload("a", b"one", 4);
    let options = GridFsBucketOptions::builder().bucket_name("a.b".to_owned()).build();
    let other = files.client.database("test").gridfs_bucket(options);
    assert_eq!(other.find(doc! {}).run().expect("found").count(), 0);
    super::upload(&other, "a", b"other", 4);
    other.drop().run().expect("dropped");
    assert_eq!(
        files.client.database("test").list_collection_names().run().unwrap(),
        ["fs.chunks", "fs.files"]
    );
}
