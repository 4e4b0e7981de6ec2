//! What the public API promises, a module for each feature. Nothing here looks behind it.

#![expect(clippy::needless_pass_by_value, reason = "a test is a line of data, made where it is passed")]

mod aggregate;
mod auto_increment;
mod backup;
mod bulk_write;
mod bulk_write_command;
mod bystanders;
mod cancellation;
mod capped;
mod change_stream_ends;
mod change_stream_losses;
mod change_stream_races;
mod change_stream_sources;
mod change_streams;
mod clock;
mod close;
mod clustered;
mod collated_indexes;
mod collation;
mod collections;
mod commands;
mod compaction;
mod concurrency;
mod count;
mod cursors;
mod default_collations;
mod definition_events;
mod delete;
mod demo;
mod distinct;
mod dumps;
mod durability;
mod entry_leaves;
mod entry_plans;
mod exactly_once;
mod exactly_once_commands;
mod examples;
mod expiry;
mod explain;
mod expression_indexes;
mod find;
mod find_and_modify;
mod find_options;
mod fork;
mod format_upgrade;
mod formats;
mod found_keys;
mod generations;
mod graph_lookup;
mod gridfs;
mod in_memory;
mod index_builds;
mod index_plans;
mod index_races;
mod index_settings;
mod indexes;
mod insert_many;
mod insert_one;
mod io_errors;
mod key_ranges;
mod later_versions;
mod live_histories;
mod live_queries;
mod long_keys;
mod lookup;
mod lookup_pipeline;
mod lookup_unwound;
mod malformed;
mod merge_model;
mod metadata;
mod metrics;
mod metrics_listed;
mod numbering_races;
mod open;
mod pipeline_writes;
mod plan_choice;
mod quota;
mod random_ids;
mod read_views;
mod record_leaves;
mod recovery;
mod refusals;
mod replace;
mod request_memory;
mod retryable;
mod salvage;
mod scrub;
mod sequence_commands;
mod sequences;
mod snapshot_sessions;
mod spans;
mod spilling;
mod spilling_joins;
mod stamp;
mod stats;
mod tailable;
mod time_limits;
mod transaction_collections;
mod transaction_commands;
mod transaction_limits;
mod transaction_numbers;
mod transaction_serializable;
mod transactions;
mod tutorials;
mod union;
mod update;
mod update_constants;
mod update_races;
mod validators;
mod verify;
mod views;
mod wildcard;
mod write_replies;

use cairndb::bson::Document;
use cairndb::{Client, Collection, Error};
use cairndb_tests::scratch::{self, Scratch};

/// An empty database with a collection, for one test.
struct Fixture {
    // Dropped first: the folder goes last.
    client: Client,
    things: Collection<Document>,
    scratch: Scratch,
}

impl Fixture {
    #[track_caller]
    fn new() -> Self {
        let scratch = Scratch::new();
        let client = scratch.open();
        let things = scratch::things(&client);
        Self { client, things, scratch }
    }

    #[track_caller]
    fn with(documents: impl IntoIterator<Item = Document>) -> Self {
        let fixture = Self::new();
        fixture.things.insert_many(documents).run().expect("the documents are stored");
        fixture
    }

    /// Every stored document.
    #[track_caller]
    fn stored(&self) -> Vec<Document> {
        all(&self.things)
    }

    #[track_caller]
    fn verify_clean(&self) {
        verify_clean(&self.client);
    }
}

#[track_caller]
fn all(collection: &Collection<Document>) -> Vec<Document> {
    let cursor = collection.find(Document::new()).run().expect("a cursor");
    cursor.collect::<Result<_, _>>().expect("documents")
}

#[track_caller]
fn verify_clean(client: &Client) {
    let report = client.verify().expect("a report");
    assert!(report.is_clean(), "{:?}", report.findings);
}

/// The error has MongoDB's number and says so in these words.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, code: i32, words: &str) -> Error {
    let error = result.expect_err("refused");
    assert_eq!(error.code(), Some(code), "{error:?}");
    assert!(error.to_string().contains(words), "{error} does not say {words:?}");
    error
}
