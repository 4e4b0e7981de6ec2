//! `salvage`: what is whole in a damaged folder comes into the new one, the rest is reported, and nothing is changed.

use std::fs;
use std::path::Path;

use cairndb::bson::{Document, doc};
use cairndb::{
    AutoIncrement, CancellationToken, Client, Compression, Durability, ErrorKind, IndexModel, IndexOptions,
    PlantedFault, SalvageReport, salvage,
};
use cairndb_tests::files::{change, contents, is_log, is_table, manifest, newest_log, records};
use cairndb_tests::scratch::{Scratch, small};

const DOCUMENTS: i32 = 3000;

/// A closed database: `app.people` with indexes and an auto-increment field, `app.things` of which every third document
/// was deleted, `app.gone`, which was dropped, and a sequence. Most is in tables, and the last documents are in the log.
fn victim(compression: Compression) -> Scratch {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().compression(compression).durability(Durability::Journaled));
    fill(&client);
    client.close().expect("closed");
    scratch
}

fn fill(client: &Client) {
    let app = client.database("app");
    let people = app.collection::<Document>("people");
    let unique = IndexOptions::builder().unique(true).build();
    people
        .create_index(IndexModel::builder().keys(doc! { "n": 1 }).options(unique).build())
        .run()
        .expect("made");
    people.create_index(IndexModel::builder().keys(doc! { "text": -1 }).build()).run().expect("made");
    people.create_auto_increment(AutoIncrement::builder().field("number").build()).run().expect("made");
    app.create_sequence("tickets").run().expect("made");
    app.sequence("tickets").fetch(10).run().expect("fetched");
    for name in ["people", "things", "gone"] {
        let documents = (0..DOCUMENTS).map(|n| doc! { "_id": n, "n": n, "text": format!("{n:0200}") });
        app.collection(name).insert_many(documents).run().expect("stored");
    }
    client.flush().expect("flushed");
    let things = app.collection::<Document>("things");
    things.delete_many(doc! { "n": { "$mod": [3, 0] } }).run().expect("deleted");
    app.collection::<Document>("gone").drop().run().expect("dropped");
    client.flush().expect("flushed");
    for n in 0..50 {
        people.insert_one(doc! { "_id": format!("late {n}"), "n": DOCUMENTS + n }).run().expect("stored");
    }
    people.update_one(doc! { "_id": 7 }, doc! { "$set": { "text": "changed" } }).run().expect("updated");
    things.delete_one(doc! { "_id": 1 }).run().expect("deleted");
}

struct Salvaged {
    report: SalvageReport,
    client: Client,
    // Dropped last.
    _folder: Scratch,
}

/// Salvages the folder, and looks at what must hold whatever was damaged: the folder is what it was, and the new one is whole.
#[track_caller]
fn salvaged(scratch: &Scratch) -> Salvaged {
    let before = contents(&scratch.path());
    let folder = Scratch::new();
    let report = salvage(scratch.path(), folder.path()).run().expect("salvaged");
    assert_eq!(contents(&scratch.path()), before, "the damaged folder was changed");
    assert!(!folder.folder().join("db.partial").exists());
    assert!(report.verified.is_clean());
    let client = folder.open();
    assert!(client.verify().expect("verified").is_clean());
    Salvaged { report, client, _folder: folder }
}

impl Salvaged {
    fn count(&self, collection: &str) -> u64 {
        let app = self.client.database("app");
        app.collection::<Document>(collection).count_documents(doc! {}).run().expect("counted")
    }

    /// Nothing that was acknowledged is missing, and nothing that was deleted is back.
    #[track_caller]
    fn check_all(&self) {
        let app = self.client.database("app");
        let people = app.collection::<Document>("people");
        let things = app.collection::<Document>("things");
        assert_eq!((self.count("people"), self.count("things"), self.count("gone")), (3050, 1999, 0));
        assert_eq!(
            people
                .find_one(doc! { "_id": 7 })
                .run()
                .expect("done")
                .expect("done")
                .get_str("text")
                .expect("done"),
            "changed"
        );
        assert_eq!(things.find_one(doc! { "n": { "$mod": [3, 0] } }).run().expect("done"), None);
        let names = people.list_index_names().run().expect("done");
        assert_eq!(names, ["_id_", "n_1", "text_-1"]);
        assert!(
            people.insert_one(doc! { "_id": "x", "n": 5 }).run().expect_err("refused").is_duplicate_key()
        );
        // Values go on after all that were handed out.
        let late = people.find_one(doc! { "_id": "late 49" }).run().expect("done").expect("done");
        people.insert_one(doc! { "_id": "new", "n": -1 }).run().expect("done");
        let new = people.find_one(doc! { "_id": "new" }).run().expect("done").expect("done");
        assert!(
            new.get_i64("number").expect("done") > late.get_i64("number").expect("done"),
            "{new} after {late}"
        );
        assert!(app.sequence("tickets").next_value().run().expect("done") > 10);
    }
}

#[test]
fn a_whole_folder_is_copied_whole() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let salvaged = salvaged(&victim(compression));
        assert!(salvaged.report.is_complete(), "{:?}", salvaged.report);
        salvaged.check_all();
    }
}

#[test]
fn files_that_only_name_others_cost_nothing() {
    let scratch = victim(Compression::None);
    for name in ["CURRENT", "CAIRNDB", "CAIRNDB.witness"] {
        let copy = scratch.killed();
        fs::remove_file(copy.path().join(name)).unwrap();
        let salvaged = salvaged(&copy);
        assert!(!salvaged.report.notes.is_empty(), "{name}");
        salvaged.check_all();
        assert!(salvaged.report.collections.iter().all(|collection| collection.may_be_old == 0));
    }
}

/// Without a MANIFEST all tables are used. What was deleted may be back then, and the report says so; nothing is missing.
#[test]
fn a_folder_without_a_manifest_is_salvaged_from_all_its_tables() {
    let scratch = victim(Compression::None);
    fs::remove_file(scratch.path().join(manifest(&scratch.path()))).unwrap();
    let salvaged = salvaged(&scratch);
    assert!(
        salvaged.report.notes.iter().any(|note| note.contains("can be back")),
        "{:?}",
        salvaged.report.notes
    );
    assert_eq!(salvaged.count("people"), 3050);
    assert!(salvaged.count("things") >= 1999);
}

/// The files that are left if a process ends between a compaction and the sync of what says so: a MANIFEST that names
/// tables that are gone, and not those that came in their place.
#[test]
fn a_manifest_that_is_older_than_the_tables_costs_nothing() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().durability(Durability::Journaled));
    fill(&client);
    // No compaction is under way then, whose tables the copy could have with a MANIFEST that does not name them.
    client.compact().run().expect("compacted");
    let early = scratch.killed();
    let tables: Vec<String> = contents(&early.path()).into_keys().filter(|name| is_table(name)).collect();
    let people = client.database("app").collection::<Document>("people");
    let compacted = (0..2000).any(|round| {
        people.update_one(doc! { "_id": 8 }, doc! { "$set": { "round": round } }).run().expect("updated");
        client.flush().expect("flushed");
        tables.iter().any(|name| !scratch.path().join(name).exists())
    });
    assert!(compacted, "{tables:?}");
    let late = scratch.killed();
    for name in [manifest(&early.path()), "CAIRNDB.witness".to_owned()] {
        fs::copy(early.path().join(&name), late.path().join(&name)).unwrap();
    }
    let salvaged = salvaged(&late);
    let notes = &salvaged.report.notes;
    assert!(notes.iter().any(|note| note.contains("older than the folder")), "{notes:?}");
    assert_eq!(salvaged.count("people"), 3050);
    assert!(salvaged.count("things") >= 1999);
}

fn largest_table(folder: &Path) -> (String, usize) {
    let tables = contents(folder).into_iter().filter(|(name, _)| is_table(name));
    tables.map(|(name, bytes)| (name, bytes.len())).max_by_key(|(_, bytes)| *bytes).expect("a table")
}

/// Each case: a byte of the largest table, in thousandths.
#[test]
fn a_damaged_block_costs_the_documents_in_it() {
    let scratch = victim(Compression::None);
    for part in [0, 300, 600] {
        let copy = scratch.killed();
        let (name, bytes) = largest_table(&copy.path());
        change(&copy.path(), &name, |content| content[bytes * part / 1000 + 100] ^= 1);
        let Salvaged { report, client, _folder } = salvaged(&copy);
        assert_eq!(report.unreadable.len(), 1, "{report:?}");
        let damage = &report.unreadable[0];
        assert!(
            damage.file.ends_with(&name)
                && damage.place.as_deref().is_some_and(|place| place.contains("app.")),
            "{damage:?}"
        );
        let lost = damage.keys.expect("the table says how many keys it has");
        // A block has 16 KiB, and a document here 230 bytes.
        assert!(lost > 20 && lost < 120, "{damage:?}");
        let app = client.database("app");
        let people = app.collection::<Document>("people").count_documents(doc! {}).run().unwrap();
        let things = app.collection::<Document>("things").count_documents(doc! {}).run().unwrap();
        assert!(
            people + things >= 3050 + 1999 - lost && people + things < 3050 + 1999,
            "{people} {things} {lost}"
        );
    }
}

/// A table whose index, footer or list of meta blocks is lost still has all of its blocks.
#[test]
fn a_table_without_its_index_costs_nothing() {
    let scratch = victim(Compression::Lz4);
    for cut in [10, 53] {
        let copy = scratch.killed();
        let (name, _) = largest_table(&copy.path());
        change(&copy.path(), &name, |content| {
            let from = content.len() - cut;
            content[from..].fill(0x55);
        });
        let salvaged = salvaged(&copy);
        assert!(!salvaged.report.unreadable.is_empty(), "{cut}");
        assert_eq!((salvaged.count("people"), salvaged.count("things")), (3050, 1999), "{cut}");
        // Without its footer a table could have deleted ranges that nothing leads to.
        let doubtful = salvaged.report.collections.iter().any(|collection| collection.may_be_old > 0);
        assert_eq!(doubtful, cut <= 53, "{:?}", salvaged.report);
    }
}

#[test]
fn a_flipped_bit_in_a_log_costs_one_write() {
    let scratch = victim(Compression::None);
    let log = newest_log(&scratch.path());
    let starts = records(&contents(&scratch.path())[&log]);
    let at = starts[starts.len() / 2] + 20;
    change(&scratch.path(), &log, |content| content[at] ^= 1);
    assert!(small().open(scratch.path()).unwrap_err().is_corruption());
    let salvaged = salvaged(&scratch);
    assert_eq!(salvaged.count("people"), 3049);
    assert_eq!(salvaged.report.lost_writes.len(), 1, "{:?}", salvaged.report);
    let damage = &salvaged.report.unreadable[0];
    assert!(
        damage.file.ends_with(&log)
            && damage.offset <= at as u64
            && at as u64 <= damage.offset + damage.bytes
    );
}

#[test]
fn writes_of_a_log_that_is_gone_are_counted() {
    let scratch = victim(Compression::None);
    for (name, _) in contents(&scratch.path()).iter().filter(|(name, _)| is_log(name)) {
        fs::remove_file(scratch.path().join(name)).unwrap();
    }
    let salvaged = salvaged(&scratch);
    assert_eq!(salvaged.count("people"), 3000);
    assert_eq!(salvaged.report.lost_writes.len(), 1, "{:?}", salvaged.report);
    let lost = salvaged.report.lost_writes[0];
    assert!(lost.to - lost.from + 1 >= 52, "{lost:?}");
}

/// The catalog is in a small table, every block of which is damaged: collections come back under numbers.
#[test]
fn collections_without_a_catalog_get_names_with_their_numbers() {
    let scratch = victim(Compression::None);
    // The only tables that have a key of the catalog's form are those of its family.
    for (name, bytes) in contents(&scratch.path()).into_iter().filter(|(name, _)| is_table(name)) {
        if bytes.windows(11).any(|part| part == b"StartValue\0") {
            change(&scratch.path(), &name, |content| content[60] ^= 1);
        }
    }
    for name in contents(&scratch.path()).into_keys().filter(|name| is_log(name)) {
        change(&scratch.path(), &name, Vec::clear);
    }
    let Salvaged { report, client, _folder } = salvaged(&scratch);
    let documents: Vec<(&str, bool, u64)> = report
        .collections
        .iter()
        .map(|collection| (collection.namespace.as_str(), collection.is_renamed, collection.documents))
        .collect();
    assert!(documents.contains(&("salvaged.collection_1", true, 3000)), "{documents:?}");
    let names = client.database("salvaged").list_collection_names().run().unwrap();
    assert_eq!(names.len(), report.collections.len());
    // A new collection gets a number that none of these has.
    client.database("app").create_collection("new").run().unwrap();
    assert!(client.verify().unwrap().is_clean());
}

#[test]
fn of_whole_documents_none_is_refused() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().compression(Compression::None));
    let things = client.database("app").collection::<Document>("things");
    things.insert_many((0..10).map(|n| doc! { "_id": n })).run().unwrap();
    client.close().unwrap();
    let salvaged = salvaged(&scratch);
    assert!(salvaged.report.is_complete());
    assert_eq!(salvaged.report.collections[0].refused, 0);
    assert_eq!(salvaged.count("things"), 10);
}

/// A salvaged folder begins a log of its own: what was read from the old one would not be the same there.
#[test]
fn the_resume_tokens_of_a_folder_are_not_those_of_its_salvage() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = |client: &Client| client.database("app").collection::<Document>("things");
    let mut stream = things(&client).watch().run().unwrap();
    things(&client).insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().unwrap();
    let token = stream.next().unwrap().unwrap().id;
    drop(stream);
    let resume =
        |client: &Client| things(client).watch().resume_after(token.clone()).run().map(|mut s| s.next());
    let next = resume(&client).unwrap().unwrap().unwrap();
    assert_eq!(next.document_key, Some(doc! { "_id": 2 }));
    client.close().unwrap();
    let folder = scratch.folder().join("salvaged");
    salvage(scratch.path(), &folder).run().unwrap();
    let client = small().open(&folder).unwrap();
    assert_eq!(resume(&client).map(drop).unwrap_err().code(), Some(260));
    let mut stream = things(&client).watch().run().unwrap();
    things(&client).insert_one(doc! { "_id": 3 }).run().unwrap();
    assert_eq!(stream.next().unwrap().unwrap().document_key, Some(doc! { "_id": 3 }));
    drop(stream);
    client.close().unwrap();
}

#[test]
fn a_salvage_that_ignores_deletions_is_found_out() {
    let scratch = victim(Compression::None);
    let folder = Scratch::new();
    let fault = PlantedFault::DeletionsNotSalvaged;
    let report = salvage(scratch.path(), folder.path()).planted_fault(fault).run().expect("salvaged");
    let things = report.collections.iter().find(|collection| collection.namespace == "app.things");
    assert!(things.expect("it is there").documents > 1999, "{report:?}");
}

#[test]
fn what_cannot_be_salvaged_is_refused_and_leaves_nothing() {
    let scratch = victim(Compression::None);
    let folder = scratch.folder().join("new");
    let refused = |to: &Path| salvage(scratch.path(), to).run().unwrap_err();
    assert!(matches!(refused(&scratch.path().join("new")).kind(), ErrorKind::InvalidArgument { .. }));
    fs::create_dir(&folder).unwrap();
    assert!(matches!(refused(&folder).kind(), ErrorKind::InvalidArgument { .. }));
    fs::remove_dir(&folder).unwrap();
    // The leftover of a killed salvage is neither a database nor mistaken for one.
    fs::create_dir(folder.with_extension("partial")).unwrap();
    assert!(refused(&folder).to_string().contains("new.partial"));
    fs::remove_dir(folder.with_extension("partial")).unwrap();
    let client = scratch.open();
    assert!(refused(&folder).is_already_open());
    client.close().unwrap();
    let token = CancellationToken::new();
    token.cancel();
    let cancelled = salvage(scratch.path(), &folder).cancellation(&token).run().unwrap_err();
    assert_eq!(cancelled.code(), Some(11_601));
    let empty = scratch.folder().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(matches!(salvage(&empty, &folder).run().unwrap_err().kind(), ErrorKind::NotADatabase { .. }));
    fs::write(scratch.path().join("CAIRNDB"), "CairnDB format 99\n").unwrap();
    assert!(matches!(refused(&folder).kind(), ErrorKind::UnsupportedFormat { .. }));
    assert!(!folder.exists() && !folder.with_extension("partial").exists());
}

/// Nothing of a salvage that is cut short can be opened for the finished database.
#[test]
fn an_unfinished_salvage_cannot_be_opened() {
    let scratch = victim(Compression::None);
    let folder = scratch.folder().join("new");
    let mut looked = 0;
    let tell = |_| {
        looked += 1;
        assert!(!folder.exists());
        let refused = small().open(folder.with_extension("partial")).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::NotADatabase { .. }), "{refused}");
    };
    salvage(scratch.path(), &folder).progress(tell).run().unwrap();
    assert!(looked > 0 && folder.exists());
}

#[test]
fn a_report_is_machine_readable() {
    let scratch = victim(Compression::None);
    fs::remove_file(scratch.path().join("CURRENT")).unwrap();
    let report = salvage(scratch.path(), scratch.folder().join("new")).run().unwrap();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<SalvageReport>(&text).unwrap(), report);
}
