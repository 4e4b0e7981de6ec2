//! An archive of files in one folder: uploads, versions of a name, a part of a file, and what a killed upload has left.
//!
//! Run it with `cargo run --release -p cairndb --example files`.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use cairndb::bson::doc;
use cairndb::{Client, GridFsBucket, GridFsBucketOptions, Result, WriteConcern};

/// No upload to this archive pauses for so long.
const DAY: Duration = Duration::from_secs(24 * 3600);

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(folder.path().join("archive"))?;
    // `close` of an upload returns when the file is on stable storage.
    let options = GridFsBucketOptions::builder()
        .bucket_name("files".to_owned())
        .write_concern(WriteConcern::journaled());
    let archive = client.database("archive").gridfs_bucket(options.build());

    // A name can be stored again: the older version stays.
    store(&archive, "notes.txt", &b"first thoughts"[..])?;
    store(&archive, "notes.txt", &b"second thoughts"[..])?;
    for file in archive.find(doc! {}).sort(doc! { "uploadDate": 1 }).run()? {
        let file = file?;
        println!("{}: {} bytes", file.filename.unwrap_or_default(), file.length);
    }

    let mut oldest = String::new();
    archive.open_download_stream_by_name("notes.txt").revision(0).run()?.read_to_string(&mut oldest)?;
    println!("it began with {oldest:?}");
    // Only the chunk with these bytes is read, however long the file is.
    let mut newest = archive.open_download_stream_by_name("notes.txt").run()?;
    newest.seek(SeekFrom::End(-8))?;
    let mut end = [0; 8];
    newest.read_exact(&mut end)?;
    println!("it ends with {:?}", String::from_utf8_lossy(&end));

    // An upload that fails, or is not closed, leaves nothing.
    let mut given_up = archive.open_upload_stream("too long").run()?;
    given_up.write_all(&vec![0; 10 << 20])?;
    drop(given_up);
    // One whose process dies leaves chunks: a program can remove them when it starts.
    let removed = archive.remove_orphans(DAY).run()?;
    println!("{} chunks of killed uploads were removed", removed.chunks);
    client.close()
}

/// Stores all that a source has.
fn store(archive: &GridFsBucket, name: &str, mut source: impl Read) -> Result<()> {
    let mut upload = archive.open_upload_stream(name).run()?;
    io::copy(&mut source, &mut upload)?;
    upload.close()
}
