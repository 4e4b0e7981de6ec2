//! The findings of an audit in stores that were damaged on purpose.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use bson::doc;
use index::multikey::ArrayComponents;
use query::operation::OperationContext;
use store::Family;
use store::pace::Pace;
use store::write::{Batch, CommitLevel};

use crate::audit::{Watch, verify};
use crate::catalog::entry;
use crate::catalog::indexes::Index;
use crate::catalog::multikey::IndexArrays;
use crate::fixture::Fixture;
use crate::options::IndexModel;

/// The time that an audit of few documents may need, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn an_array_that_the_catalog_does_not_know_of_is_found() {
    let fixture = Fixture::filled(|client| {
        let things = client.database("test").collection("things");
        things.create_index(IndexModel::builder().keys(doc! { "a.b": 1 }).build()).run().expect("made");
        things.insert_one(doc! { "a": [{ "b": 1 }, { "b": [2] }] }).run().expect("stored");
    });
    let Fixture { shared, database, .. } = &fixture;
    let state = fixture.collection("things").expect("there");
    let findings = || {
        let operation = OperationContext::unlimited();
        let mut watch = Watch::new(Pace::new(None, &|| Ok(())), &operation, None);
        verify(shared, database, &mut watch, |_, _| None).expect("audited").findings
    };
    assert_eq!(findings(), []);
    let indexes = state.indexes();
    let known = indexes.iter().map(|index| index.arrays.announced()).collect::<Vec<_>>();
    assert_eq!(known, [[ArrayComponents::from_bits(3)]], "both components were arrays, and this was kept");
    for missing in [0, 1, 2] {
        let arrays = Arc::new(IndexArrays::of([ArrayComponents::from_bits(missing)]));
        let forgetful: Vec<Index> =
            indexes.iter().map(|index| Index { arrays: Arc::clone(&arrays), ..index.clone() }).collect();
        let definition = state.definition().with_indexes(forgetful);
        let value = entry::encode(&state.namespace, &definition).expect("an entry");
        let mut batch = Batch::new(database);
        batch.put(Family::Meta, &state.id.catalog_key(), &value);
        shared.store.commit(batch, CommitLevel::Buffered).expect("committed");
        let found = findings();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found.iter().all(|finding| finding.problem.contains("array")), "{found:?}");
    }
}

/// An audit once acquired the gates of all collections: it waited for the slowest writer, and all others waited for it.
#[test]
fn an_audit_waits_for_no_writer() {
    let fixture = Fixture::filled(|client| {
        for name in ["things", "others"] {
            client.database("test").collection(name).insert_one(doc! { "_id": 1 }).run().expect("stored");
        }
    });
    let state = fixture.collection("things").expect("there");
    // A writer in the middle of its call.
    let writing = state.enter(&OperationContext::default()).expect("unlimited").expect("it was not dropped");
    let (told, is_told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let operation = OperationContext::unlimited();
            let mut watch = Watch::new(Pace::new(None, &|| Ok(())), &operation, None);
            told.send(verify(&fixture.shared, &fixture.database, &mut watch, |_, _| None))
                .expect("it is waited for");
        });
        let report = is_told.recv_timeout(PATIENCE);
        // Given back before anything can fail: the scope waits for the audit.
        drop(writing);
        let report = report.expect("no audit waits for a writer").expect("audited");
        assert_eq!((report.documents, report.findings), (2, Vec::new()));
    });
}
