//! That no number of the metrics goes without a test: each is listed here with the one that reads it before and after it changed.

use std::collections::BTreeMap;

use cairndb::bson::{Bson, DateTime, Document, serialize_to_document};
use cairndb::{Bucket, Metrics, OperationMetrics, QuotaMetrics, ScrubMetrics, Times};

const GAUGES: &str = include_str!("../../store/src/gauges.rs");
const HEALTH: &str = include_str!("../../store/src/health.rs");
const STALL: &str = include_str!("../../store/src/stall.rs");
const TIMING: &str = include_str!("../../base/src/metrics/timing.rs");
const CHANGE_STREAM_LOSSES: &str = include_str!("change_stream_losses.rs");
const CHANGE_STREAMS: &str = include_str!("change_streams.rs");
const EXACTLY_ONCE: &str = include_str!("exactly_once.rs");
const IO_ERRORS: &str = include_str!("io_errors.rs");
const METRICS: &str = include_str!("metrics.rs");
const QUOTA: &str = include_str!("quota.rs");
const RANDOM_IDS: &str = include_str!("random_ids.rs");
const SCRUB: &str = include_str!("scrub.rs");
const SPILLING: &str = include_str!("spilling.rs");

/// A number, by its path in the metrics as they are serialized, and a test that reads it: its file and its name. The body of the
/// test names the number.
const READ_BY: &[(&str, &str, &str)] = &[
    ("state", METRICS, "the_state_is_told_and_a_closed_client_has_no_metrics"),
    ("state", HEALTH, "each_state_is_reported"),
    ("state", IO_ERRORS, "a_failed_commit_is_unknown_and_stops_writes_but_not_reads"),
    ("operations.find.failed", METRICS, "each_verb_is_counted_with_its_failures"),
    ("operations.find.times", METRICS, "each_verb_is_counted_with_its_failures"),
    ("documents.inserted", METRICS, "documents_are_counted_as_they_pass"),
    ("documents.updated", METRICS, "documents_are_counted_as_they_pass"),
    ("documents.deleted", METRICS, "documents_are_counted_as_they_pass"),
    ("documents.returned", METRICS, "documents_are_counted_as_they_pass"),
    ("documents.bytesReturned", METRICS, "documents_are_counted_as_they_pass"),
    ("documents.bytesWritten", METRICS, "documents_are_counted_as_they_pass"),
    ("searches.lookups", METRICS, "searches_are_counted_by_their_plan"),
    ("searches.indexScans", METRICS, "searches_are_counted_by_their_plan"),
    ("searches.collectionScans", METRICS, "searches_are_counted_by_their_plan"),
    ("searches.keysExamined", METRICS, "searches_are_counted_by_their_plan"),
    ("searches.documentsExamined", METRICS, "searches_are_counted_by_their_plan"),
    ("searches.cacheHits", METRICS, "blocks_are_counted_where_they_were_found"),
    ("searches.cacheMisses", METRICS, "blocks_are_counted_where_they_were_found"),
    ("cursors.open", METRICS, "a_cursor_is_open_until_its_end_and_counted_then"),
    ("cursors.snapshots", METRICS, "a_cursor_is_open_until_its_end_and_counted_then"),
    ("cursors.oldestSnapshotSeconds", METRICS, "a_cursor_is_open_until_its_end_and_counted_then"),
    ("sequences.reserves", METRICS, "sequences_are_counted"),
    ("sequences.gaps", METRICS, "sequences_are_counted"),
    ("tokens.replays", EXACTLY_ONCE, "replays_are_counted_and_so_are_the_bytes_of_tokens"),
    ("tokens.bytes", EXACTLY_ONCE, "replays_are_counted_and_so_are_the_bytes_of_tokens"),
    ("changeLog.bytes", CHANGE_STREAMS, "the_log_and_its_streams_are_counted"),
    ("changeLog.oldestEventSeconds", CHANGE_STREAMS, "the_log_and_its_streams_are_counted"),
    ("changeLog.streams", CHANGE_STREAMS, "the_log_and_its_streams_are_counted"),
    ("changeLog.lagSeconds", CHANGE_STREAM_LOSSES, "streams_are_behind_until_the_sync_of_what_was_written"),
    ("waits.latches", METRICS, "threads_count_by_themselves_and_add_up"),
    ("waits.stalls", STALL, "writes_outlast_a_stop"),
    ("waits.syncs", METRICS, "syncs_are_counted"),
    ("storage.memtableBytes", METRICS, "memory_fills_until_it_is_flushed"),
    ("storage.cacheBytes", METRICS, "blocks_are_counted_where_they_were_found"),
    ("storage.cacheCapacityBytes", METRICS, "blocks_are_counted_where_they_were_found"),
    ("storage.recordCacheBytes", METRICS, "documents_that_are_looked_up_again_are_kept"),
    ("storage.recordCacheHits", METRICS, "documents_that_are_looked_up_again_are_kept"),
    ("storage.recordCacheMisses", METRICS, "documents_that_are_looked_up_again_are_kept"),
    (
        "storage.keyFilterBytes",
        RANDOM_IDS,
        "a_collection_under_another_name_knows_its_ids_and_an_empty_one_gives_the_memory_back",
    ),
    ("storage.tableBytes", GAUGES, "flushes_and_compactions_are_counted_and_what_they_leave_to_do"),
    ("storage.tableFiles", GAUGES, "flushes_and_compactions_are_counted_and_what_they_leave_to_do"),
    (
        "storage.flushesAndCompactions",
        GAUGES,
        "flushes_and_compactions_are_counted_and_what_they_leave_to_do",
    ),
    ("storage.running", GAUGES, "a_flush_is_told_while_it_runs"),
    (
        "storage.pendingCompactionBytes",
        GAUGES,
        "flushes_and_compactions_are_counted_and_what_they_leave_to_do",
    ),
    ("storage.backgroundErrors", GAUGES, "a_flush_that_fails_is_counted"),
    ("storage.temporaryBytes", SPILLING, "no_end_of_a_sort_leaves_a_file"),
    ("storage.temporaryFiles", SPILLING, "no_end_of_a_sort_leaves_a_file"),
    ("storage.temporaryBytesWritten", SPILLING, "no_end_of_a_sort_leaves_a_file"),
    ("storage.quota.limitBytes", QUOTA, "writes_end_below_the_quota_reads_go_on_and_deletes_make_room"),
    ("storage.quota.usedBytes", QUOTA, "writes_end_below_the_quota_reads_go_on_and_deletes_make_room"),
    ("storage.quota.isFull", QUOTA, "writes_end_below_the_quota_reads_go_on_and_deletes_make_room"),
    ("scrub.passes", SCRUB, "the_metrics_tell_of_the_scrub"),
    ("scrub.bytesRead", SCRUB, "the_metrics_tell_of_the_scrub"),
    ("scrub.files", SCRUB, "the_metrics_tell_of_the_scrub"),
    ("scrub.findings", SCRUB, "the_metrics_tell_of_the_scrub"),
    ("scrub.finishedAt", SCRUB, "the_metrics_tell_of_the_scrub"),
    // Of what is called times above.
    ("times.count", TIMING, "times_are_counted_in_the_bucket_that_they_are_below"),
    ("times.totalMicros", TIMING, "the_total_is_in_microseconds_and_keeps_the_parts_of_one"),
    ("times.buckets.belowMicros", TIMING, "times_are_counted_in_the_bucket_that_they_are_below"),
    ("times.buckets.count", TIMING, "times_are_counted_in_the_bucket_that_they_are_below"),
];

/// Metrics in which nothing is absent.
fn full() -> (Metrics, Times) {
    let mut bucket = Bucket::default();
    bucket.below_micros = Some(1);
    let mut times = Times::default();
    times.buckets.push(bucket);
    let mut metrics = Metrics::default();
    metrics.operations.insert("find".to_owned(), OperationMetrics::default());
    metrics.cursors.oldest_snapshot_seconds = Some(0);
    metrics.storage.quota = Some(QuotaMetrics::default());
    let mut scrub = ScrubMetrics::default();
    scrub.finished_at = Some(DateTime::now());
    metrics.scrub = Some(scrub);
    (metrics, times)
}

/// Notes the paths of the numbers of a document. One that has the fields of times is a number of its own.
fn walk(document: &Document, above: &str, times: &[String], paths: &mut Vec<String>) {
    for (name, value) in document {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        if let Bson::Document(below) = value
            && !below.keys().eq(times)
        {
            walk(below, &path, times, paths);
        } else if let Bson::Array(elements) = value {
            let elements = elements.iter().filter_map(Bson::as_document);
            elements.for_each(|below| walk(below, &path, times, paths));
        } else {
            assert_ne!(*value, Bson::Null, "{path} is absent: give it a value in full()");
            paths.push(path);
        }
    }
}

/// `memoryBytes` as `memory_bytes`.
fn as_in_rust(name: &str) -> String {
    let mut written = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            written.push('_');
        }
        written.push(letter.to_ascii_lowercase());
    }
    written
}

/// The body of a test, if the file has it.
fn body<'a>(file: &'a str, test: &str) -> Option<&'a str> {
    let (before, rest) = file.split_once(&format!("fn {test}() {{"))?;
    // The brace that ends it is below the word that begins it.
    let indent = before.rsplit('\n').next().unwrap_or_default();
    rest.split_once(&format!("\n{indent}}}")).map(|(body, _)| body)
}

#[test]
fn each_number_has_a_test_that_names_it() {
    let (metrics, times) = full();
    let (metrics, times) = (serialize_to_document(&metrics).unwrap(), serialize_to_document(&times).unwrap());
    let fields: Vec<_> = times.keys().cloned().collect();
    let mut paths = Vec::new();
    walk(&metrics, "", &fields, &mut paths);
    walk(&times, "times", &[], &mut paths);
    let mut tests = BTreeMap::<_, Vec<_>>::new();
    for (path, file, test) in READ_BY {
        let number = as_in_rust(path.rsplit('.').next().unwrap_or_default());
        let body = body(file, test).unwrap_or_else(|| panic!("there is no test {test}"));
        assert!(body.contains(&number), "{test} does not name {number}");
        tests.entry(*path).or_default().push(test);
    }
    for path in &paths {
        assert!(tests.remove(path.as_str()).is_some(), "{path} has no test: list the one that reads it");
    }
    assert!(tests.is_empty(), "the metrics do not have {tests:?}");
    assert!(paths.len() > 35, "{paths:?}");
}
