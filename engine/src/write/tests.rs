//! What commits hold: counted here, because the public API shows only that they were done.

use bson::{Document, doc};
use query::operation::OperationContext;

use crate::execute::matches::Matches;
use crate::fixture::Fixture;
use crate::options::IndexModel;
use crate::plan::order::Order;
use crate::plan::selector::Selector;
use crate::storage::write::CommitLevel;
use crate::write::Target;
use crate::write::delete::{Done, delete_batch};

const DOCUMENTS: i32 = 6;

/// A document of a thousand entries of 4,000 bytes each.
fn of_many_entries(id: i32) -> Document {
    doc! { "_id": id, "long": "x".repeat(4000), "each": (0..1000).collect::<Vec<i32>>() }
}

/// A thousand documents were removed in one commit, whatever entries they had: gigabytes of it at the limits.
#[test]
fn a_commit_of_a_delete_ends_where_it_is_large_enough() {
    let fixture = Fixture::filled(|client| {
        let things = client.database("test").collection("things");
        things.insert_many((0..DOCUMENTS).map(of_many_entries)).run().expect("stored");
        let keys = doc! { "long": 1, "each": 1 };
        things.create_index(IndexModel::builder().keys(keys).build()).run().expect("made");
    });
    let Fixture { shared, database, .. } = &fixture;
    let state = fixture.collection("things").expect("the collection");
    let definition = state.enter().expect("not dropped");
    let operation = OperationContext::default();
    let target = Target {
        store: &shared.store,
        database,
        collection: &state,
        definition: &definition,
        indexes: &definition.indexes,
        fields: &definition.fields,
        acquirer: None,
        generator: &shared.generator,
        level: CommitLevel::Buffered,
        preview: None,
        checks: None,
        operation: &operation,
    };
    let everything = Selector::everything().expect("a filter");
    let found = || {
        let view = target.view(&everything).expect("a view");
        let mut matches = Matches::open(view, &everything, &Order::default()).expect("a walk");
        let mut found = Vec::new();
        while matches.advance().expect("a step") {
            found.push(matches.record_key().to_vec());
        }
        found
    };
    let all = found();
    // Two documents have nearly 8 MiB of entries, and the third passes the limit.
    let done = delete_batch(target, &everything, &all).expect("deleted");
    assert_eq!(done, Done { looked_at: 3, deleted: 3 });
    assert_eq!(found(), all[3..]);
    // What is gone already is looked at, and costs nothing.
    let done = delete_batch(target, &everything, &all).expect("deleted");
    assert_eq!(done, Done { looked_at: 6, deleted: 3 });
    assert_eq!(state.count.known(), Some(0));
}
