//! The process dies, or the power fails, at every operation of the upgrade of an older folder: it opens after as an old one or as
//! a new one, with the same documents.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cairndb::bson::{Document, doc};
use cairndb::{Client, WriteConcern};
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Scratch, small};

use crate::power::disk::{Aftermath, Disk, Image};
use crate::power::mount::{Mounted, is_possible};
use crate::power::say;

/// Folders of older formats, and the marker that each has.
const OLDER: [(&str, &str); 6] = [
    ("format_3", "CairnDB format 3\n"),
    ("format_4", "CairnDB format 4\n"),
    ("format_4_options", "CairnDB format 4\n"),
    ("format_4_long", "CairnDB format 4\n"),
    ("format_5", "CairnDB format 5\n"),
    ("format_6", "CairnDB format 6\n"),
];
const NEW_MARKER: &str = "CairnDB format 7\n";

/// A folder as the folder `db` of a disk.
pub(crate) fn image_of(folder: &Path) -> Image {
    let mut image = Image::default();
    image.entries.insert(PathBuf::from("db"), None);
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let entry = entry.expect("an entry");
        let bytes = fs::read(entry.path()).expect("read");
        image.entries.insert(Path::new("db").join(entry.file_name()), Some(bytes));
    }
    image
}

/// All documents of all collections, in their order, and the indexes.
fn described(client: &Client) -> Vec<String> {
    let mut lines = Vec::new();
    for database in client.list_database_names().run().expect("listed") {
        let database = client.database(&database);
        for name in database.list_collection_names().run().expect("listed") {
            let collection = database.collection::<Document>(&name);
            // A view has none.
            lines.push(format!("{name}: {:?}", collection.list_index_names().run().ok()));
            let found = collection.find(doc! {}).sort(doc! { "_id": 1 }).run().expect("a cursor");
            lines.extend(found.map(|document| document.expect("a document").to_string()));
        }
    }
    lines
}

/// The disk before each of its changes while a writer opens the folder and closes it, and after them.
pub(crate) fn moments(image: &Image, syncs_names: bool) -> Vec<Disk> {
    let disk = Mounted::new(image, syncs_names, None, std::sync::mpsc::channel().0).expect("mounted");
    let moments: Arc<Mutex<Vec<Disk>>> = Arc::default();
    let seen = Arc::clone(&moments);
    disk.watch(Some(Box::new(move |disk| seen.lock().expect("no watch panics").push(disk.clone()))));
    let client = small().open(disk.folder().join("db")).expect("opened");
    client.close().expect("closed");
    disk.watch(None);
    let last = disk.disk();
    disk.end().expect("unmounted");
    let moments = Arc::into_inner(moments).expect("nothing watches any more");
    let mut moments = moments.into_inner().expect("no watch panics");
    moments.push(last);
    moments
}

/// Opens what is left, for reading and then for writing. Returns whether it was the old format.
fn judge(left: &Image, old_marker: &str, expected: &[String]) -> Result<bool, String> {
    let scratch = Scratch::new();
    left.write_to(scratch.folder()).map_err(|error| error.to_string())?;
    let marker = || fs::read_to_string(scratch.path().join("CAIRNDB")).map_err(|error| error.to_string());
    let found = marker()?;
    if found != old_marker && found != NEW_MARKER {
        return Err(format!("the marker says {found:?}"));
    }
    for (is_reader, options) in [(true, small().read_only(true)), (false, small()), (false, small())] {
        let client = match options.open(scratch.path()) {
            Ok(client) => client,
            // The leftover of a crash is set aside by a writer, and a reader says so.
            Err(error)
                if is_reader && error.to_string().contains("opening the database for writing once") =>
            {
                continue;
            }
            Err(error) => return Err(format!("it does not open: {error:?}")),
        };
        let described = described(&client);
        if described != expected {
            return Err(format!("it has {described:?}"));
        }
        let report = client.verify().map_err(|error| error.to_string())?;
        if !report.is_clean() {
            return Err(format!("verify found {:?}", report.findings));
        }
        client.close().map_err(|error| format!("it does not close: {error:?}"))?;
    }
    check_newer_parts(&scratch.path())?;
    // The writers opened it in any case.
    if marker()? != NEW_MARKER {
        return Err("the writer did not upgrade it".to_owned());
    }
    Ok(found == old_marker)
}

/// What older formats do not have works after the upgrade: a call with a token, and a stream that shows it.
fn check_newer_parts(folder: &Path) -> Result<(), String> {
    let failed = |error: cairndb::Error| format!("after the upgrade: {error:?}");
    let client = small().open(folder).map_err(failed)?;
    let made_later = client.database("later").collection::<Document>("made");
    let mut stream = made_later.watch().run().map_err(failed)?;
    for expected in [false, true] {
        let insert = made_later.insert_one(doc! { "_id": 1 }).exactly_once("first");
        let done = insert.write_concern(WriteConcern::journaled()).run().map_err(failed)?;
        if done.was_replayed != expected {
            return Err(format!("a call with a token said {done:?}"));
        }
    }
    let shown = stream.next_if_any().map_err(failed)?.and_then(|event| event.full_document);
    if shown != Some(doc! { "_id": 1 }) {
        return Err(format!("a stream shows {shown:?}"));
    }
    drop(stream);
    client.close().map_err(failed)
}

#[test]
fn an_upgrade_that_ends_at_any_operation_loses_nothing() {
    if !is_possible() {
        return;
    }
    for (name, old_marker) in OLDER {
        let image = image_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("api/folders").join(name));
        let untouched = Scratch::new();
        image.write_to(untouched.folder()).expect("written");
        let client = small().read_only(true).open(untouched.path()).expect("opened");
        let expected = described(&client);
        client.close().expect("closed");
        assert!(expected.len() > 3, "{expected:?}");
        let (mut old, mut new, mut ends) = (0, 0, 0);
        // A disk on which the sync of a file makes its name durable, and one on which it does not.
        for syncs_names in [true, false] {
            let moments = moments(&image, syncs_names);
            ends += moments.len();
            let are_old = on_lanes(3 * moments.len() as u64, |case| {
                let at = usize::try_from(case / 3).expect("few");
                let aftermaths = [Aftermath::Killed, Aftermath::Synced, Aftermath::Some { seed: case }];
                let aftermath = aftermaths.into_iter().nth(usize::try_from(case % 3).expect("small"));
                let (disk, aftermath) =
                    (moments.get(at).expect("a moment"), aftermath.expect("one of three"));
                judge(&disk.left(&aftermath), old_marker, &expected).unwrap_or_else(|fault| {
                    panic!("{name}, before operation {at} of {}, {aftermath:?}: {fault}", moments.len())
                })
            });
            old += are_old.iter().filter(|is_old| **is_old).count();
            new += are_old.iter().filter(|is_old| !**is_old).count();
        }
        say(&format!(
            "power: upgrade: {name} ended before {ends} operations: {old} times old, {new} times new"
        ));
        assert!(old > 0 && new > 0, "{old} old and {new} new of {ends}");
    }
}
