//! `verify`: what it counts, and its report as data.

use cairndb::VerifyReport;
use cairndb::bson::doc;

use crate::Fixture;

#[test]
fn a_report_counts_what_it_looked_at() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": [1, 2] }, doc! { "_id": 2 }]);
    fixture.client.database("test").create_collection("empty").run().unwrap();
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    fixture.things.create_index(by_a).run().unwrap();
    let report = fixture.client.verify().unwrap();
    assert_eq!((report.collections, report.documents, report.indexes, report.entries), (2, 2, 1, 3));
    let bytes =
        fixture.stored().into_iter().map(|stored| cairndb::bson::serialize_to_vec(&stored).unwrap().len());
    assert_eq!(report.document_bytes, bytes.sum::<usize>() as u64);
    assert!(report.is_clean() && report.findings_omitted == 0);
}

#[test]
fn a_report_is_machine_readable() {
    let report = Fixture::with([doc! { "_id": 1 }]).client.verify().unwrap();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<VerifyReport>(&text).unwrap(), report);
    let with_finding = text.replace(
        r#""findings":[]"#,
        r#""findings":[{"place":"test.things","index":null,"key":"00","problem":"the entry is missing"}]"#,
    );
    let report: VerifyReport = serde_json::from_str(&with_finding).unwrap();
    assert!(!report.is_clean());
    assert_eq!(report.findings[0].problem, "the entry is missing");
}

#[test]
fn verifying_does_not_disturb_writers() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for id in 0..2000 {
                fixture.things.insert_one(doc! { "_id": id }).run().expect("stored");
                fixture.things.delete_one(doc! { "_id": id - 50 }).run().expect("deleted");
            }
        });
        let mut looks = 0;
        while !writer.is_finished() || looks == 0 {
            fixture.verify_clean();
            looks += 1;
        }
        writer.join().unwrap();
    });
    assert_eq!(fixture.stored().len(), 50);
}
