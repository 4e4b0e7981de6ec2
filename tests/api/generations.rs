//! `independent_backup`: copies that share nothing with the store, and generations of them that share with each other what did
//! not change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cairndb::bson::{DateTime, Document, doc};
use cairndb::{CancellationToken, Client, ErrorKind, IndependentBackupReport, IndexModel};
use cairndb_tests::choices::Choices;
use cairndb_tests::files::is_table;
use cairndb_tests::scratch::{Medium, Scratch, small, things};

use crate::{Fixture, all, refused, verify_clean};

/// The state of a store: its documents, its indexes, and the last value of a sequence that may have been used.
fn state(client: &Client) -> (Vec<Document>, Vec<String>, i64) {
    let things = things(client);
    let used = client.database("test").sequence("tickets").snapshot().run().expect("a snapshot").used_up_to;
    (all(&things), things.list_index_names().run().expect("names"), used.unwrap_or_default())
}

/// A copy has the documents and the indexes of that state, its sequence gives no value twice, and it verifies.
#[track_caller]
fn equals(copy: &Client, expected: &(Vec<Document>, Vec<String>, i64)) {
    let found = state(copy);
    // Not by `assert_eq`, which would print all documents.
    assert!(found.0 == expected.0, "{} documents and {}", found.0.len(), expected.0.len());
    assert_eq!(found.1, expected.1);
    assert!(found.2 >= expected.2, "{} and {}", found.2, expected.2);
    verify_clean(copy);
}

/// A text that no compression makes much shorter.
fn text(choices: &mut Choices) -> String {
    (0..30).map(|_| format!("{:016x}", choices.number())).collect::<Vec<_>>().concat()
}

fn open_copy(path: &Path) -> Client {
    small().read_only(true).open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("listed");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("listed").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

fn generations(folder: &Path) -> Vec<String> {
    let mut names = names(folder);
    names.retain(|name| !name.starts_with("CAIRNDB"));
    names
}

/// The present second, as a generation is named.
fn second() -> String {
    let now = DateTime::now().try_to_rfc3339_string().expect("a time of this century").replace(':', "-");
    format!("{}Z", &now[..19])
}

/// A store with 2,000 documents in tables, an index and a sequence.
fn filled() -> Fixture {
    let mut choices = Choices::seeded(3);
    let fixture =
        Fixture::with((0..2000).map(|id| doc! { "_id": id, "n": id % 97, "text": text(&mut choices) }));
    fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    fixture.client.database("test").create_sequence("tickets").run().expect("made");
    // Into the last level, where tables stay as they are.
    fixture.client.compact().run().expect("compacted");
    fixture
}

fn back_up(fixture: &Fixture, keep: usize) -> cairndb::Result<IndependentBackupReport> {
    fixture.client.independent_backup(fixture.scratch.folder().join("backups")).generations(keep).run()
}

/// The tables of a generation that the one before has as well, as files.
#[cfg(unix)]
fn shared_tables(generation: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let tables =
        names(generation).into_iter().filter(|name| is_table(name)).map(|name| generation.join(name));
    tables.filter(|path| fs::metadata(path).expect("there").nlink() > 1).collect()
}

#[test]
fn thirty_generations_each_equal_the_store_of_their_day() {
    let fixture = filled();
    let backups = fixture.scratch.folder().join("backups");
    let (mut choices, mut days) = (Choices::seeded(11), BTreeMap::new());
    let (mut linked, mut next) = (0, 2000);
    let begun = second();
    for day in 0..30 {
        for _ in 0..100 {
            next += 1;
            fixture
                .things
                .insert_one(doc! { "_id": next, "n": day, "text": text(&mut choices) })
                .run()
                .unwrap();
        }
        let from = i64::try_from(choices.below(2000)).unwrap();
        fixture.things.delete_many(doc! { "_id": { "$gte": from, "$lt": from + 100 } }).run().unwrap();
        fixture.client.database("test").sequence("tickets").fetch(3).run().unwrap();
        if day % 5 == 4 {
            fixture.things.compact().run().unwrap();
        }
        let report = back_up(&fixture, 30).unwrap();
        assert!(report.verified.is_clean() && report.removed.is_empty(), "{report:?}");
        assert_eq!(report.path.parent(), Some(backups.as_path()));
        linked += report.files_linked;
        days.insert(report.path.clone(), state(&fixture.client));
    }
    assert!(linked > 30, "{linked}");
    let made = generations(&backups);
    assert_eq!(made.len(), 30);
    // Their names are the times at which they were made; two in one second are distinguished by the next one.
    assert!(begun <= made[0] && made[0] <= second(), "{made:?}");
    for (path, expected) in &days {
        equals(&open_copy(path), expected);
    }
    // The last seven stay, and are what they were: removed generations shared tables with them.
    let report = back_up(&fixture, 8).unwrap();
    assert_eq!(report.removed.len(), 23);
    assert_eq!(report.removed, days.keys().take(23).cloned().collect::<Vec<_>>());
    assert_eq!(generations(&backups).len(), 8);
    for (path, expected) in days.iter().skip(23) {
        equals(&open_copy(path), expected);
    }
}

#[test]
fn a_generation_can_be_written_to_and_the_next_ones_are_whole() {
    let fixture = filled();
    let first = back_up(&fixture, 5).unwrap().path;
    let expected = state(&fixture.client);
    // Somebody opens the newest generation, and tables come and go in it.
    let opened = small().open(&first).unwrap();
    things(&opened).delete_many(doc! { "_id": { "$lt": 1500 } }).run().unwrap();
    opened.compact().run().unwrap();
    opened.close().unwrap();
    for _ in 0..2 {
        equals(&open_copy(&back_up(&fixture, 5).unwrap().path), &expected);
    }
    assert_eq!(all(&things(&open_copy(&first))).len(), 500);
}

#[test]
fn a_copy_on_another_file_system_shares_nothing_with_the_store() {
    let fixture = filled();
    let elsewhere = Scratch::on(Medium::Disk);
    for target in [elsewhere.folder().join("copy"), fixture.scratch.folder().join("copy")] {
        let report = fixture.client.independent_backup(&target).run().unwrap();
        assert_eq!((&report.path, report.bytes_linked, report.files_linked), (&target, 0, 0));
        assert_eq!(shared_tables(&target), Vec::<PathBuf>::new());
        let copy = small().open(&target).unwrap();
        equals(&copy, &state(&fixture.client));
        things(&copy).insert_one(doc! { "_id": "more" }).run().unwrap();
        verify_clean(&copy);
        assert!(!target.join("CAIRNDB.copying").exists());
    }
    // Neither the checkpoint beside the store nor anything else is left.
    assert_eq!(names(fixture.scratch.folder()), ["copy", "db"]);
    let backups = elsewhere.folder().join("backups");
    fixture.client.independent_backup(&backups).generations(2).run().unwrap();
    let second = fixture.client.independent_backup(&backups).generations(2).run().unwrap();
    assert!(second.files_linked > 0 && shared_tables(&second.path).len() as u64 == second.files_linked);
    equals(&open_copy(&second.path), &state(&fixture.client));
}

/// Flips a bit in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("read");
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).expect("it is there") ^= 1;
    fs::write(path, bytes).expect("written");
}

/// A table that all generations share was damaged on the disk of the backups.
#[test]
fn a_flipped_byte_in_a_shared_file_is_noticed_before_an_old_generation_is_removed() {
    let fixture = filled();
    let backups = fixture.scratch.folder().join("backups");
    let first = back_up(&fixture, 2).unwrap().path;
    let second = back_up(&fixture, 2).unwrap().path;
    let mut shared = shared_tables(&second);
    shared.sort_by_key(|path| fs::metadata(path).expect("there").len());
    let damaged = shared.pop().expect("a table is shared");
    flip(&damaged);
    let error = back_up(&fixture, 2).expect_err("the copy does not verify");
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(error.is_corruption() && error.to_string().contains(name), "{error}");
    let found = generations(&backups);
    let [one, two, partial] = found.as_slice() else { panic!("{found:?}") };
    assert!(first.ends_with(one) && second.ends_with(two) && partial.ends_with("Z.partial"), "{found:?}");
    let refused = small().create_if_missing(false).open(backups.join(partial)).expect_err("it has no marker");
    assert!(matches!(refused.kind(), ErrorKind::NotADatabase { .. }), "{refused}");
    // The next one writes the damaged table again, and so the oldest may go.
    let third = back_up(&fixture, 2).unwrap();
    assert_eq!(third.removed, [first]);
    equals(&open_copy(&third.path), &state(&fixture.client));
    assert_eq!(generations(&backups).len(), 2);
    assert!(back_up(&fixture, 2).unwrap().files_linked > 0);
}

/// The store itself is damaged: no copy of it may replace one that is whole.
#[test]
fn a_damaged_store_removes_no_generation() {
    let fixture = filled();
    let whole = [back_up(&fixture, 1).unwrap().path];
    let store = fixture.scratch.path();
    let mut tables: Vec<_> = names(&store).into_iter().filter(|name| is_table(name)).collect();
    tables.sort_by_key(|name| fs::metadata(store.join(name)).expect("there").len());
    flip(&store.join(tables.pop().expect("there is one")));
    for _ in 0..2 {
        assert!(back_up(&fixture, 1).is_err_and(|error| error.is_corruption()));
        verify_clean(&open_copy(&whole[0]));
    }
    let target = fixture.scratch.folder().join("copy");
    assert!(fixture.client.independent_backup(&target).run().is_err_and(|error| error.is_corruption()));
    assert!(!target.exists() && fixture.scratch.folder().join("copy.partial").exists());
    // A copy that did not verify stays until the next backup to the same place.
    assert!(fixture.client.independent_backup(&target).run().is_err_and(|error| error.is_corruption()));
}

#[test]
fn folders_that_hold_something_else_are_refused_and_untouched() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let folder = fixture.scratch.folder();
    let mine = folder.join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("notes.txt"), b"mine").unwrap();
    let refuse = |result: cairndb::Result<IndependentBackupReport>, words: &str| {
        let error = result.expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    };
    refuse(fixture.client.independent_backup(&mine).run(), "mine exists already");
    refuse(fixture.client.independent_backup(&mine).generations(3).run(), "holds notes.txt");
    refuse(fixture.client.independent_backup(folder.join("new")).generations(0).run(), "at least 1");
    fs::rename(&mine, folder.join("new.partial")).unwrap();
    refuse(fixture.client.independent_backup(folder.join("new")).run(), "is in the way");
    assert_eq!(names(&folder.join("new.partial")), ["notes.txt"]);
    let deep = folder.join("absent/backups");
    for result in [
        fixture.client.independent_backup(&deep).run(),
        fixture.client.independent_backup(&deep).generations(1).run(),
    ] {
        assert!(result.is_err_and(|error| matches!(error.kind(), ErrorKind::Io { .. })));
    }
    assert!(!folder.join("absent").exists());
}

/// One store must not push the backups of another one out. A copy that is opened in place of its store is that store.
#[test]
fn a_folder_of_generations_is_for_one_store() {
    let (fixture, other) = (filled(), Fixture::with([doc! { "_id": 1 }]));
    let backups = fixture.scratch.folder().join("backups");
    let first = back_up(&fixture, 1).unwrap().path;
    let error = other.client.independent_backup(&backups).generations(1).run().expect_err("refused");
    assert!(error.to_string().contains("backups of another store"), "{error}");
    verify_clean(&open_copy(&first));
    let restored = fixture.scratch.folder().join("restored");
    fixture.client.independent_backup(&restored).run().unwrap();
    let restored = small().open(&restored).unwrap();
    assert_eq!(
        restored.independent_backup(&backups).generations(2).run().unwrap().removed,
        Vec::<PathBuf>::new()
    );
}

#[test]
fn a_backup_does_not_lie_in_the_database() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    for path in [fixture.scratch.path().join("copy"), fixture.scratch.folder().join("db/./copy")] {
        for keep in [None, Some(2)] {
            let backup = fixture.client.independent_backup(&path);
            let result = keep
                .map_or_else(|| fixture.client.independent_backup(&path), |keep| backup.generations(keep));
            let error = result.run().expect_err("refused");
            assert!(error.to_string().contains("lies in the database"), "{error}");
        }
        assert!(!path.exists());
    }
    let error =
        fixture.client.independent_backup(fixture.scratch.path()).generations(2).run().expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
    fixture.verify_clean();
}

#[test]
fn a_backup_that_is_ended_leaves_nothing_and_removes_nothing() {
    let fixture = filled();
    back_up(&fixture, 1).unwrap();
    let backups = fixture.scratch.folder().join("backups");
    let before = generations(&backups);
    for phase in ["copying files", "reading documents", "reading files"] {
        let token = CancellationToken::new();
        let client = fixture.client.with_cancellation(&token);
        let end = |at: &cairndb::BackupProgress| {
            if at.phase.to_string() == phase {
                token.cancel();
            }
        };
        let ended = client.independent_backup(&backups).generations(1).progress(end).run();
        if phase == "reading files" && ended.is_ok() {
            // Its last look may have been before.
            continue;
        }
        refused(ended, 11_601, "interrupted");
        assert_eq!(generations(&backups), before, "{phase}");
    }
    let target = fixture.scratch.folder().join("copy");
    refused(
        fixture.client.independent_backup(&target).max_time(Duration::from_nanos(1)).run(),
        50,
        "time limit",
    );
    assert!(!target.exists() && !fixture.scratch.folder().join("copy.partial").exists());
    assert!(!fixture.scratch.folder().join("db.backing-up").exists());
}

#[test]
fn one_is_made_at_a_time_while_writers_go_on() {
    let fixture = filled();
    let mut refusals = 0;
    let report = fixture
        .client
        .independent_backup(fixture.scratch.folder().join("first"))
        .progress(|_| {
            let second = fixture.client.independent_backup(fixture.scratch.folder().join("second")).run();
            assert!(second.is_err_and(|error| error.to_string().contains("another backup")));
            refusals += 1;
            fixture.things.insert_one(doc! { "_id": format!("late {refusals}") }).run().expect("stored");
        })
        .run()
        .unwrap();
    assert!(refusals > 2);
    // Writes after the checkpoint are not in it.
    assert_eq!(report.verified.documents, 2000);
    fixture.client.independent_backup(fixture.scratch.folder().join("second")).run().unwrap();
}

#[test]
fn stores_in_memory_and_readers_are_backed_up() {
    let scratch = Scratch::new();
    let client = Client::in_memory().unwrap();
    things(&client).insert_many((0..500).map(|id| doc! { "_id": id })).run().unwrap();
    let backups = scratch.folder().join("backups");
    for _ in 0..3 {
        let report = client.independent_backup(&backups).generations(2).run().unwrap();
        assert_eq!((report.verified.documents, report.files_linked), (500, 0));
    }
    let found = generations(&backups);
    assert_eq!(found.len(), 2);
    let reader = open_copy(&backups.join(&found[0]));
    let again = reader.independent_backup(scratch.folder().join("again")).run().unwrap();
    assert_eq!(all(&things(&small().open(&again.path).unwrap())), all(&things(&client)));
    let text = serde_json::to_string(&again).unwrap();
    assert_eq!(serde_json::from_str::<IndependentBackupReport>(&text).unwrap(), again);
    assert_eq!(names(scratch.folder()), ["again", "backups"]);
}
