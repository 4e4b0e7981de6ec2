//! Files that PyMongo writes over a server and the embedded API reads, and the other way round. Servers and uploads are killed
//! in between.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use cairndb::{Client, GridFsBucket};
use cairndb_clients::cairn::Cairn;
use cairndb_clients::script;
use cairndb_tests::scratch::Scratch;

const SCRIPT: &str = "gridfs_exchange.py";
/// As in the script.
const SIZES: [usize; 6] = [0, 1, 999, 1000, 1001, 12_345];
const LARGE: usize = 3_000_000;

#[test]
fn pymongo_and_the_embedded_api_read_each_other_s_files() {
    let scratch = Arc::new(Scratch::new());
    // Killed, not stopped: what was reported to PyMongo as stored is stored.
    let cairn = Cairn::start_in(&scratch, &[]);
    script::python_with(&cairn, SCRIPT, &["write"]);
    cairn.kill();
    let client = scratch.open();
    read_python_files(&bucket(&client));
    write_rust_files(&bucket(&client));
    client.close().expect("closed");

    // The server dies in the midst of an upload by PyMongo.
    let cairn = Cairn::start_in(&scratch, &[]);
    script::python_with(&cairn, SCRIPT, &["die", &cairn.process_id().to_string()]);
    cairn.kill();
    let client = scratch.open();
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.orphans.len(), 1, "{report:?}");
    let left = report.orphans.first().expect("one").chunks;
    assert!((30..=40).contains(&left), "{report:?}");
    // For all that is known here PyMongo might go on with it.
    let spared = bucket(&client).remove_orphans(Duration::from_secs(3600)).run().expect("removed");
    assert_eq!(spared.chunks, 0);
    let removed = bucket(&client).remove_orphans(Duration::ZERO).run().expect("removed");
    assert_eq!((removed.uploads, removed.chunks), (1, left));

    // And an upload of the embedded API is killed: the copy is what would be left then.
    let mut upload =
        bucket(&client).open_upload_stream("rust killed").chunk_size_bytes(1000).run().expect("opened");
    upload.write_all(&content(50_000)).expect("written");
    upload.flush().expect("stored");
    let killed = Arc::new(scratch.killed());
    drop(upload);
    let cairn = Cairn::start_in(&killed, &[]);
    script::python_with(&cairn, SCRIPT, &["read"]);
    cairn.kill();
    let client = killed.open();
    let report = client.verify().expect("verified");
    assert!(report.is_clean() && report.orphans.len() == 1, "{report:?}");
    let bucket = bucket(&client);
    assert_eq!(bucket.remove_orphans(Duration::ZERO).run().expect("removed").chunks, 50);
    assert_eq!(read(&bucket, "renamed by python"), content(1000));
    assert!(bucket.open_download_stream_by_name("rust 1001").run().is_err());
    read_python_files(&bucket);
}

#[test]
fn the_rust_driver_and_the_embedded_api_read_each_other_s_files() {
    use mongodb::sync::gridfs::GridFsBucket as Driver;
    let scratch = Arc::new(Scratch::new());
    let connect = |cairn: &Cairn| mongodb::sync::Client::with_uri_str(cairn.uri()).expect("the URI is one");
    let of_driver =
        |client: &mongodb::sync::Client| -> Driver { client.database("media").gridfs_bucket(None) };

    let cairn = Cairn::start_in(&scratch, &[]);
    let driver = connect(&cairn);
    for size in SIZES {
        let name = format!("driver {size}");
        let mut upload =
            of_driver(&driver).open_upload_stream(name).chunk_size_bytes(1000).run().expect("opened");
        upload.write_all(&content(size)).expect("written");
        upload.close().expect("closed");
    }
    driver.shutdown().run();
    cairn.kill();
    let client = scratch.open();
    for size in SIZES {
        assert!(read(&bucket(&client), &format!("driver {size}")) == content(size), "{size}");
    }
    write_rust_files(&bucket(&client));
    client.close().expect("closed");

    let cairn = Cairn::start_in(&scratch, &[]);
    let driver = connect(&cairn);
    let files = of_driver(&driver);
    for size in SIZES.into_iter().chain([LARGE]) {
        let name = format!("rust {size}");
        let mut found = Vec::new();
        let mut stream = files.open_download_stream_by_name(&name).run().expect("opened");
        stream.read_to_end(&mut found).expect("read");
        assert!(found == content(size), "{name}");
        files.rename_by_name(&name, "renamed").run().expect("renamed");
    }
    files.delete_by_name("renamed").run().expect("deleted");
    assert_eq!(files.find(doc! {}).run().expect("found").count(), SIZES.len());
    driver.shutdown().run();
    cairn.kill();
    let report = scratch.open().verify().expect("verified");
    assert!(report.is_clean() && report.orphans.is_empty(), "{report:?}");
}

fn bucket(client: &Client) -> GridFsBucket {
    client.database("media").gridfs_bucket(None)
}

#[track_caller]
fn read(bucket: &GridFsBucket, name: &str) -> Vec<u8> {
    let mut found = Vec::new();
    let mut stream =
        bucket.open_download_stream_by_name(name).run().unwrap_or_else(|error| panic!("{name}: {error}"));
    stream.read_to_end(&mut found).unwrap_or_else(|error| panic!("{name}: {error}"));
    found
}

#[track_caller]
fn read_python_files(bucket: &GridFsBucket) {
    for size in SIZES {
        let name = format!("python {size}");
        assert!(read(bucket, &name) == content(size), "{name}");
        let file = bucket.find_one(doc! { "filename": &name }).run().expect("found").expect("it is there");
        assert_eq!(file.metadata, Some(doc! { "size": i32::try_from(size).expect("it is small") }));
    }
    assert!(read(bucket, "python large") == content(100_000).repeat(30));
    assert!(read(bucket, "python legacy") == content(5000));
    assert!(bucket.open_download_stream("own id".into()).run().is_ok());
}

fn write_rust_files(bucket: &GridFsBucket) {
    for size in SIZES.into_iter().chain([LARGE]) {
        let size_number = i64::try_from(size).expect("it is small");
        let open = bucket.open_upload_stream(format!("rust {size}")).metadata(doc! { "size": size_number });
        let mut upload = open.chunk_size_bytes(1000).run().expect("opened");
        upload.write_all(&content(size)).expect("written");
        upload.close().expect("closed");
    }
}

/// As in the script.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| u8::try_from(place * 31 % 251).expect("below 251")).collect()
}
