//! A forked child of a process that has a store open: every call rejects, nothing is written, closed or deleted, and
//! the parent goes on as if nothing had been.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::{Read, Write};

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Contract, Error, ErrorKind};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::{Scratch, small, things};

/// After so many seconds a child that hangs is ended by the system.
const CHILD_SECONDS: u32 = 60;

/// Runs `body` in a forked child; the names of what went wrong there.
#[expect(unsafe_code, reason = "the standard library cannot fork")]
fn in_child(body: impl FnOnce() -> Vec<&'static str>) -> Vec<String> {
    let (mut receiver, mut sender) = std::io::pipe().expect("a pipe");
    // SAFETY: the child runs `body`, writes to the pipe and leaves by `_exit`, so that it neither unwinds into the test
    // harness nor runs its exit handlers. It acquires no lock that another thread of this process may hold, which is what
    // the test is about, but the allocator's, which the C library makes usable in a child.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: `alarm` has no precondition; what it does to a child that hangs is to end it.
        unsafe { libc::alarm(CHILD_SECONDS) };
        let outcome = body().join(",");
        let status = i32::from(sender.write_all(outcome.as_bytes()).is_err());
        // SAFETY: `_exit` ends the child at once and has no precondition.
        unsafe { libc::_exit(status) };
    }
    drop(sender);
    let mut outcome = String::new();
    receiver.read_to_string(&mut outcome).expect("what the child found");
    let mut status = 0;
    // SAFETY: `status` outlives the call, and `child` is a child of this process that no other thread waits for.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((ended, status), (child, 0), "the child hung or died");
    outcome.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn is_refused<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| {
        matches!(error.kind(), ErrorKind::Forked) && error.to_string().contains("is a fork of the one")
    })
}

/// Every file of the folder with its length.
fn files(scratch: &Scratch) -> BTreeSet<(String, u64)> {
    let entries = std::fs::read_dir(scratch.path()).expect("a folder").map(|entry| {
        let entry = entry.expect("a file");
        (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("its size").len())
    });
    entries.collect()
}

/// Calls of every kind; the names of those that were not rejected.
fn call_everything(client: &Client, scratch: &Scratch) -> Vec<&'static str> {
    let (db, things) = (client.database("test"), things(client));
    let numbers = db.sequence("numbers");
    let new = db.collection::<Document>("new");
    let bucket = db.gridfs_bucket(None);
    let key = doc! { "a": 1 };
    let by_a = cairndb::IndexModel::builder().keys(key.clone()).build();
    let calls = [
        ("insert_one", is_refused(things.insert_one(doc! {}).run())),
        ("insert_many", is_refused(things.insert_many([doc! {}]).run())),
        ("insert into a new collection", is_refused(new.insert_one(doc! {}).run())),
        ("find", is_refused(things.find(doc! {}).run())),
        ("find_one", is_refused(things.find_one(doc! { "_id": 1 }).run())),
        ("count_documents", is_refused(things.count_documents(doc! {}).run())),
        ("estimated", is_refused(things.estimated_document_count().run())),
        ("aggregate", is_refused(things.aggregate([doc! { "$count": "n" }]).run())),
        ("update_many", is_refused(things.update_many(doc! {}, doc! { "$set": key.clone() }).run())),
        ("replace_one", is_refused(things.replace_one(doc! {}, doc! {}).run())),
        ("delete_many", is_refused(things.delete_many(doc! {}).run())),
        ("create_index", is_refused(things.create_index(by_a).run())),
        ("drop", is_refused(things.drop().run())),
        ("rename", is_refused(things.rename("others").run())),
        ("create_collection", is_refused(db.create_collection("c").run())),
        ("list_collection_names", is_refused(db.list_collection_names().run())),
        ("drop database", is_refused(db.drop().run())),
        ("next_value", is_refused(numbers.next_value().run())),
        ("fetch", is_refused(numbers.fetch(3).run())),
        ("snapshot", is_refused(numbers.snapshot().run())),
        ("restart", is_refused(numbers.restart(1).run())),
        ("create_sequence", is_refused(db.create_sequence("more").run())),
        ("run_command", is_refused(db.run_command(doc! { "insert": "things", "documents": [{}] }).run())),
        ("upload", is_refused(bucket.open_upload_stream("a").run())),
        ("download", is_refused(bucket.open_download_stream(1.into()).run())),
        ("find_orphans", is_refused(bucket.find_orphans().run())),
        ("delete a file", is_refused(bucket.delete(1.into()).run())),
        ("drop a bucket", is_refused(bucket.drop().run())),
        ("verify", is_refused(client.verify())),
        ("backup", is_refused(client.backup(scratch.folder().join("copy")))),
        ("sync", is_refused(client.sync())),
        ("flush", is_refused(client.flush())),
        ("open", is_refused(Client::open(scratch.folder().join("other")).map(drop))),
        ("open the same", is_refused(Client::open(scratch.path()).map(drop))),
        ("close", is_refused(client.clone().close())),
    ];
    calls.into_iter().filter(|(_, is_refused)| !is_refused).map(|(name, _)| name).collect()
}

#[test]
fn a_forked_child_is_refused_everything_and_harms_nothing() {
    let scratch = Scratch::new();
    // With a witness the background may append a stamp to the log between the two listings of the folder.
    let client = scratch.open_with(small().witness(false));
    let db = client.database("test");
    db.create_sequence("numbers").run().unwrap();
    let numbers = db.sequence("numbers");
    let acquirer = client.acquirer();
    let own = acquirer.database("test").sequence("numbers");
    assert_eq!((numbers.next_value().run().unwrap(), own.next_value().run().unwrap()), (1, 1001));
    things(&client).insert_many((0..100).map(|id| doc! { "_id": id })).run().unwrap();
    let mut cursor = things(&client).find(doc! {}).run().unwrap();
    assert!(cursor.advance().unwrap());
    client.sync().unwrap();
    let before = files(&scratch);

    let mut open = Some((client, db, numbers, own, acquirer, cursor));
    let wrong = in_child(|| {
        let (client, db, numbers, own, acquirer, mut cursor) = open.take().expect("all is there");
        let mut wrong = call_everything(&client, &scratch);
        if !is_refused(cursor.advance()) {
            wrong.push("advance");
        }
        // The last handles: what closes a store elsewhere.
        drop((cursor, own, acquirer, numbers, db, client));
        wrong
    });
    assert_eq!(wrong, [""; 0]);
    assert_eq!(files(&scratch), before, "the child wrote or deleted");

    let (client, _, numbers, own, acquirer, mut cursor) = open.expect("the parent has all");
    assert!(cursor.advance().unwrap());
    assert_eq!((numbers.next_value().run().unwrap(), own.next_value().run().unwrap()), (2, 1002));
    things(&client).insert_one(doc! {}).run().unwrap();
    let second = Client::open(scratch.path()).map(drop);
    assert!(second.is_err_and(|error| error.is_already_open()), "the child gave up the folder's lock");
    drop((cursor, numbers, own, acquirer));
    crate::verify_clean(&client);
    client.close().unwrap();
    assert_eq!(things(&scratch.open()).count_documents(doc! {}).run().unwrap(), 101);
}

#[test]
fn a_forked_child_leaves_the_streams_of_files_to_its_parent() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().witness(false));
    let bucket = client.database("test").gridfs_bucket(None);
    let mut upload = bucket.open_upload_stream("a").chunk_size_bytes(4).run().unwrap();
    upload.write_all(b"0123456789").unwrap();
    upload.flush().unwrap();
    // The background finds nothing to sync, and so writes nothing.
    client.sync().unwrap();
    let before = files(&scratch);
    let mut open = Some((client, upload));
    let wrong = in_child(|| {
        let (client, mut upload) = open.take().expect("all is there");
        let mut wrong = Vec::new();
        for (name, refused) in [
            // Bytes are only gathered until a chunk is stored.
            ("write", upload.write_all(b"more and more").is_ok() && upload.flush().is_err()),
            ("close the stream", upload.close().is_err()),
        ] {
            if !refused {
                wrong.push(name);
            }
        }
        // Elsewhere this removes the chunks.
        drop((upload, client));
        wrong
    });
    assert_eq!(wrong, [""; 0]);
    assert_eq!(files(&scratch), before, "the child wrote or deleted");
    let (client, mut upload) = open.expect("the parent has all");
    upload.close().unwrap();
    let mut found = String::new();
    bucket.open_download_stream(upload.id().clone()).run().unwrap().read_to_string(&mut found).unwrap();
    assert_eq!(found, "0123456789");
    crate::verify_clean(&client);
}

/// Threads of the parent hold locks at the moment of the fork.
#[test]
fn a_child_of_a_busy_process_does_not_hang() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let db = client.database("test");
    let options = cairndb::SequenceOptions::try_from(doc! { "CacheSize": 2, "AcquireSize": 2 }).unwrap();
    db.create_sequence("numbers").with_options(options).run().unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let over = || is_over.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_over);
        let writers = [0, 1].map(|writer| {
            let (db, things) = (&db, things(&client));
            scope.spawn(move || {
                let mut round = 0;
                while !over() {
                    db.sequence("numbers").next_value().run().unwrap();
                    drop(db.gridfs_bucket(None).open_upload_stream("a").run().unwrap());
                    things.insert_one(doc! {}).run().unwrap();
                    db.collection::<Document>(&format!("c{writer}-{round}"))
                        .insert_one(doc! {})
                        .run()
                        .unwrap();
                    round += 1;
                }
            })
        });
        for _ in 0..10 {
            let copy = client.clone();
            let wrong = in_child(|| {
                let wrong = call_everything(&copy, &scratch);
                drop(copy);
                wrong
            });
            assert_eq!(wrong, [""; 0]);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        for writer in writers {
            writer.join().unwrap();
        }
    });
    crate::verify_clean(&client);
}

/// A thread of the parent waits for the turn that a transaction keeps, and holds its locks where the fork finds it.
#[test]
fn a_child_leaves_transactions_and_their_turns_to_its_parent() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let number = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
    client.database("test").create_collection("things").auto_increment(number).run().expect("made");
    let things = things(&client);
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().run().expect("started");
    let staged = things.insert_one(doc! {}).session(&mut session).run().expect("staged");
    let mut reader = client.start_session().snapshot(true).run().expect("started");
    assert_eq!(things.count_documents(doc! {}).session(&mut reader).run().expect("counted"), 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| things.insert_one(doc! {}).run());
        for _ in 0..20 {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        // The parent drops the sessions when the child has ended, and its transaction aborts.
        let things = &things;
        let wrong = in_child(move || {
            let mut wrong = Vec::new();
            if !is_refused(things.insert_one(doc! {}).session(&mut session).run()) {
                wrong.push("insert");
            }
            if !is_refused(things.count_documents(doc! {}).session(&mut reader).run()) {
                wrong.push("count");
            }
            if !is_refused(session.commit_transaction().run()) {
                wrong.push("commit");
            }
            drop((session, reader));
            wrong
        });
        assert_eq!(wrong, Vec::<String>::new());
        let stored = waiting.join().expect("no panic").expect("it gets its turn");
        assert_eq!((staged.generated.get("n"), stored.generated.get("n")), (Some(1), Some(1)));
    });
    crate::verify_clean(&client);
}
