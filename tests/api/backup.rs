//! `backup`: a copy that is a database, verified, while the original goes on.

use cairndb::BackupReport;
use cairndb::ErrorKind;
use cairndb::bson::doc;
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::{small, things};

use crate::{Fixture, all, verify_clean};

#[test]
fn a_copy_holds_the_moment_and_both_go_on() {
    let fixture = Fixture::with((0..500).map(|id| doc! { "_id": id, "a": id % 7 }));
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    fixture.things.create_index(by_a).run().unwrap();
    let path = fixture.scratch.folder().join("copy");
    let report = fixture.client.backup(&path).unwrap();
    assert_eq!(
        (report.path.as_path(), report.verified.documents, report.verified.entries),
        (path.as_path(), 500, 500)
    );
    assert!(report.verified.is_clean() && report.bytes > 0);

    fixture.things.insert_one(doc! { "_id": 500 }).run().unwrap();
    let copy = small().open(&path).unwrap();
    things(&copy).insert_one(doc! { "_id": -1 }).run().unwrap();
    assert_eq!((all(&things(&copy)).len(), fixture.stored().len()), (501, 501));
    assert!(things(&copy).find_one(doc! { "_id": 500 }).run().unwrap().is_none());
    verify_clean(&copy);
    fixture.verify_clean();
}

#[test]
fn a_copy_of_a_copy_and_of_a_reader_is_a_database() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let (first, second, third) = ("first", "second", "third");
    let at = |name: &str| fixture.scratch.folder().join(name);
    fixture.client.backup(at(first)).unwrap();
    let copy = small().open(at(first)).unwrap();
    copy.backup(at(second)).unwrap();
    copy.close().unwrap();
    let reader = small().read_only(true).open(at(second)).unwrap();
    reader.backup(at(third)).unwrap();
    assert_eq!(all(&things(&small().open(at(third)).unwrap())), [doc! { "_id": 1 }]);
}

#[test]
fn a_copy_does_not_lie_in_the_database() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    for path in [fixture.scratch.path().join("copy"), fixture.scratch.folder().join("db/./copy")] {
        let error = fixture.client.backup(&path).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
        assert!(!path.exists());
    }
    fixture.client.backup(fixture.scratch.folder().join("db-copy")).expect("beside it");
}

#[test]
fn a_slash_after_the_name_of_a_copy_changes_nothing() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let named = fixture.scratch.folder().join("copy/");
    assert!(named.as_os_str().as_encoded_bytes().ends_with(b"/"));
    fixture.client.backup(&named).expect("made");
    verify_clean(&small().open(fixture.scratch.folder().join("copy")).expect("it is a database"));
    fixture.client.close().expect("closed");
    let salvaged = fixture.scratch.folder().join("salvaged/");
    cairndb::salvage(fixture.scratch.path(), &salvaged).run().expect("made");
    let salvaged = small().open(fixture.scratch.folder().join("salvaged")).expect("it is a database");
    assert_eq!(all(&things(&salvaged)), [doc! { "_id": 1 }]);
}

#[test]
fn an_existing_target_is_refused_and_untouched() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let target = fixture.scratch.folder().join("copy");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("notes.txt"), b"mine").unwrap();
    let error = fixture.client.backup(&target).expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 1);
    let error = fixture.client.backup(fixture.scratch.path()).expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
    fixture.verify_clean();
}

#[test]
fn a_copy_is_made_while_writing_goes_on() {
    let fixture = Fixture::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&stop);
        let writer = scope.spawn(|| {
            let mut id = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fixture.things.insert_one(doc! { "_id": id }).run().expect("stored");
                id += 1;
            }
        });
        for number in 0..5 {
            let report =
                fixture.client.backup(fixture.scratch.folder().join(format!("copy{number}"))).unwrap();
            assert!(report.verified.is_clean());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
    });
    for number in 0..5 {
        let copy = small().open(fixture.scratch.folder().join(format!("copy{number}"))).unwrap();
        let ids: Vec<i32> = all(&things(&copy)).iter().map(|stored| stored.get_i32("_id").unwrap()).collect();
        assert!(ids.iter().copied().eq(0..i32::try_from(ids.len()).unwrap()), "a copy has a hole");
    }
}

#[test]
fn a_report_is_machine_readable() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let report = fixture.client.backup(fixture.scratch.folder().join("copy")).unwrap();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<BackupReport>(&text).unwrap(), report);
}

/// A copy that was made while an index was being built held entries that belong to no index yet, and did not verify.
#[test]
fn a_copy_beside_an_index_build_verifies() {
    let fixture =
        Fixture::with((0..20_000).map(|number| doc! { "_id": number, "a": number % 997, "b": number }));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = SetWhenDropped(&done);
            for round in 0..6 {
                let keys = doc! { "a": 1, format!("b{round}"): 1, "b": -1 };
                let model = cairndb::IndexModel::builder().keys(keys).build();
                fixture.things.create_index(model).run().expect("an index");
            }
        });
        let mut copies = 0;
        while copies == 0 || !done.load(std::sync::atomic::Ordering::Acquire) {
            let target = fixture.scratch.folder().join(format!("copy-{copies}"));
            fixture.client.backup(&target).expect("a copy that verifies");
            copies += 1;
        }
    });
    fixture.verify_clean();
}

/// A copy that is written to goes another way than its original, whose tokens it does not accept any more. One that is only read does.
#[test]
fn a_copy_that_goes_its_own_way_refuses_tokens_of_its_original() {
    for is_independent in [false, true] {
        let fixture = Fixture::with([doc! { "_id": 1 }]);
        let token = fixture.things.watch().run().unwrap().resume_token();
        fixture.things.insert_one(doc! { "_id": 2 }).run().unwrap();
        let path = fixture.scratch.folder().join("copy");
        if is_independent {
            fixture.client.independent_backup(&path).run().unwrap();
        } else {
            fixture.client.backup(&path).unwrap();
        }
        let next = |client: &cairndb::Client, token: &Option<cairndb::ResumeToken>| {
            let mut stream = things(client).watch().start_after(token.clone()).run()?;
            stream.next().expect("it waits").map(|event| event.document_key.unwrap().get_i32("_id").unwrap())
        };
        let reader = small().read_only(true).open(&path).unwrap();
        assert_eq!(next(&reader, &token).unwrap(), 2);
        reader.close().unwrap();
        let copy = small().open(&path).unwrap();
        let refused = next(&copy, &token).expect_err("of the original");
        assert_eq!(refused.code(), Some(260), "{refused}");
        assert!(refused.to_string().contains("a copy that goes its own way"), "{refused}");
        let own = things(&copy).watch().run().unwrap().resume_token();
        things(&copy).insert_one(doc! { "_id": 3 }).run().unwrap();
        verify_clean(&copy);
        copy.close().unwrap();
        // Its own are accepted by each later opening, and by a copy of the copy until that is written to.
        for _ in 0..2 {
            let copy = small().open(&path).unwrap();
            assert_eq!(next(&copy, &own).unwrap(), 3);
            copy.close().unwrap();
        }
        assert_eq!(next(&fixture.client, &token).unwrap(), 2);
        assert_eq!(next(&fixture.client, &own).expect_err("of the copy").code(), Some(260));
    }
}
