//! The page with metrics, in the text format of Prometheus (`OpenMetrics`), over HTTP on loopback.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairndb::{Metrics, StoreState, Times};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::places::Holder;
use crate::shared::Shared;

/// The path of the page.
const PATH: &str = "/metrics";
/// The type of the page, by the format's specification.
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The number of readers that are served at once. Prometheus is one; more are closed.
const READERS_MAX: usize = 16;
/// The limit for a reader's request, and then for the answer.
const TIME_MAX: Duration = Duration::from_secs(10);
/// The bytes of a request: its line and its headers.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// The pause of accepting after an error of the system.
const REST: Duration = Duration::from_millis(100);
/// The powers of two of microseconds at which buckets end, as in [`cairndb::Bucket`].
const BUCKET_POWERS: u32 = 27;
const MICROS: f64 = 1e-6;

/// Answers readers until the server stops.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    let (readers, mut running) = (Arc::new(Semaphore::new(READERS_MAX)), JoinSet::new());
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => break,
            // Ended tasks are collected, or their results would pile up.
            Some(_) = running.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        // Mostly no file descriptor is left.
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(REST).await;
            continue;
        };
        // Dropping the stream closes it.
        let Ok(permit) = Arc::clone(&readers).try_acquire_owned() else { continue };
        let shared = Arc::clone(&shared);
        running.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&shared), request));
            let mut builder = http1::Builder::new();
            // One request for each connection, so that an idle reader holds nothing.
            builder.timer(TokioTimer::new()).header_read_timeout(TIME_MAX).keep_alive(false);
            builder.max_buf_size(REQUEST_BYTES_MAX);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            // A reader that breaks off is not an error of the server.
            let _ = tokio::time::timeout(2 * TIME_MAX, connection).await;
            drop(permit);
        });
    }
    // Readers get no time to end: the page can be asked for again.
    running.shutdown().await;
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() != PATH {
        return Ok(refused(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"));
    }
    if request.method() != Method::GET {
        let mut refused = refused(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        refused.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET"));
        return Ok(refused);
    }
    let source = Arc::clone(&shared);
    // RocksDB's numbers are behind its lock, and a thread of the runtime must not wait for it.
    let page = shared.pool.look(Holder::default(), None, move || page(&source)).await;
    Ok(match page {
        Ok(Ok(page)) => {
            let mut response = Response::new(Full::new(Bytes::from(page)));
            response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(TYPE));
            response
        }
        // The store is closed, or the server stops.
        Ok(Err(_)) | Err(_) => refused(StatusCode::SERVICE_UNAVAILABLE, "the store is closed\n"),
    })
}

fn refused(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = status;
    response
}

fn page(shared: &Arc<Shared>) -> cairndb::Result<String> {
    let numbers = Numbers { metrics: shared.client.metrics()?, shared: Arc::clone(shared) };
    // Made again for each reader: the numbers are of one moment.
    let mut registry = Registry::with_prefix("cairndb");
    registry.register_collector(Box::new(numbers));
    let mut page = String::new();
    // Writing to a text cannot fail.
    let _ = text::encode(&mut page, &registry);
    Ok(page)
}

/// The numbers of one moment.
struct Numbers {
    metrics: Metrics,
    shared: Arc<Shared>,
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbers").finish_non_exhaustive()
    }
}

impl Collector for Numbers {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page { encoder };
        self.operations(&mut page)?;
        self.waits(&mut page)?;
        self.storage(&mut page)?;
        self.server(&mut page)
    }
}

impl Numbers {
    fn operations(&self, page: &mut Page<'_>) -> fmt::Result {
        let metrics = &self.metrics;
        // Verbs that were never called are absent: there is no end of combinations to show as 0.
        let verbs = || metrics.operations.iter();

        page.times(
            "operation",
            "the calls of each verb",
            "verb",
            verbs().map(|(name, calls)| (name.as_str(), &calls.times)),
        )?;
        let failed = verbs().map(|(name, calls)| (name.as_str(), calls.failed));
        page.counters("operation_failures", "the calls of each verb that failed", "verb", failed)?;

        let documents = &metrics.documents;
        let passed = [
            ("inserted", documents.inserted),
            ("updated", documents.updated),
            ("deleted", documents.deleted),
            ("returned", documents.returned),
        ];
        page.counters("documents", "the documents that passed", "way", passed)?;
        let bytes = [("returned", documents.bytes_returned), ("written", documents.bytes_written)];
        page.counters(
            "document_bytes",
            "the bytes of returned documents, and those given to RocksDB",
            "way",
            bytes,
        )?;

        let searches = &metrics.searches;
        let plans = [
            ("lookup", searches.lookups),
            ("index_scan", searches.index_scans),
            ("collection_scan", searches.collection_scans),
        ];
        page.counters("searches", "searches by what they read", "plan", plans)?;
        let examined = [("keys", searches.keys_examined), ("documents", searches.documents_examined)];
        page.counters("examined", "what searches have read", "what", examined)?;
        let blocks = [("cache", searches.cache_hits), ("file", searches.cache_misses)];
        page.counters("blocks", "the blocks that reads needed, by where they were found", "from", blocks)?;

        let cursors = &metrics.cursors;
        page.gauge("cursors_open", "open cursors of finds and aggregations", cursors.open)?;
        page.gauge("snapshots_open", "snapshots that cursors and calls hold", cursors.snapshots)?;
        let oldest = cursors.oldest_snapshot_seconds.unwrap_or(0);
        page.gauge(
            "oldest_snapshot_age_seconds",
            "the age of the oldest snapshot, 0 if there is none",
            oldest,
        )?;

        Ok(())
    }

    fn waits(&self, page: &mut Page<'_>) -> fmt::Result {
        let metrics = &self.metrics;
        let waits = &metrics.waits;
        let waited = [("latch", &waits.latches), ("stall", &waits.stalls), ("sync", &waits.syncs)];
        page.times("wait", "what writers waited for", "for", waited)?;

        let sequences = &metrics.sequences;
        page.counter("sequence_reserves", "changes of sequences that were written", sequences.reserves)?;
        page.counter("sequence_gaps", "gaps that were noted in ledgers", sequences.gaps)?;

        let tokens = &metrics.tokens;
        page.counter("token_replays", "calls that had happened before, by their token", tokens.replays)?;
        page.gauge("token_bytes", "bytes of the tokens that are remembered", tokens.bytes)?;

        let log = &metrics.change_log;
        page.gauge("change_log_bytes", "bytes of the events of the log of changes", log.bytes)?;
        let oldest = log.oldest_event_seconds;
        page.gauge("change_log_oldest_event_seconds", "the age of its oldest events", oldest)?;
        page.gauge("change_streams", "open change streams", log.streams)?;
        page.gauge("change_stream_lag_seconds", "how far what they show is behind", log.lag_seconds)
    }

    fn storage(&self, page: &mut Page<'_>) -> fmt::Result {
        let metrics = &self.metrics;
        let storage = &metrics.storage;
        page.gauge("memtable_bytes", "the memory of memtables", storage.memtable_bytes)?;
        page.gauge("cache_bytes", "the memory of cached blocks", storage.cache_bytes)?;
        page.gauge("cache_capacity_bytes", "what the cache may have", storage.cache_capacity_bytes)?;
        page.gauge(
            "record_cache_bytes",
            "the memory of records and leaves kept",
            storage.record_cache_bytes,
        )?;
        page.counter("record_cache_hits", "look-ups that found one there", storage.record_cache_hits)?;
        page.counter("record_cache_misses", "look-ups that did not", storage.record_cache_misses)?;
        page.gauge("key_filter_bytes", "the memory of filters of new ids", storage.key_filter_bytes)?;
        page.gauge("table_bytes", "live table files", storage.table_bytes)?;
        page.gauge("table_files", "how many live table files there are", storage.table_files)?;
        let ended = storage.flushes_and_compactions;
        page.counter("flushes_and_compactions", "flushes and compactions that ended", ended)?;
        page.gauge("flushes_and_compactions_running", "those that run", storage.running)?;
        let pending = storage.pending_compaction_bytes;
        page.gauge("pending_compaction_bytes", "what compactions have yet to rewrite", pending)?;
        page.counter("background_errors", "flushes and compactions that failed", storage.background_errors)?;
        let temporary = storage.temporary_bytes;
        page.gauge("temporary_bytes", "temporary files of sorts, groups and joins", temporary)?;
        page.counter("temporary_files", "temporary files that were made", storage.temporary_files)?;
        let written = storage.temporary_bytes_written;
        page.counter("temporary_bytes_written", "what was written to temporary files", written)?;
        if let Some(quota) = &storage.quota {
            page.gauge("quota_limit_bytes", "what the folder may have on the disk", quota.limit_bytes)?;
            page.gauge("quota_used_bytes", "what the folder has on the disk", quota.used_bytes)?;
        }
        if let Some(scrub) = &metrics.scrub {
            page.counter("scrub_passes", "how often the scrub has read all files", scrub.passes)?;
            page.counter("scrub_read_bytes", "what the scrub has read", scrub.bytes_read)?;
            page.gauge("scrub_findings", "what the scrub has found damaged", scrub.findings)?;
        }
        let states = [
            (StoreState::Open, "open"),
            (StoreState::Full, "full"),
            (StoreState::Poisoned, "poisoned"),
            (StoreState::Damaged, "damaged"),
            (StoreState::ReadOnly, "read_only"),
        ];
        let states = states.map(|(state, name)| (name, u64::from(state == metrics.state)));
        // One line for each state, as alerts ask for one of them.
        page.gauges("state", "1 for the state of the store", "state", states)
    }

    fn server(&self, page: &mut Page<'_>) -> fmt::Result {
        let counters = &self.shared.counters;
        // Each is right for a moment of its own.
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        page.gauge("connections", "open connections", number(&counters.connections))?;
        page.counter(
            "connections_accepted",
            "connections that were accepted",
            number(&counters.connections_total),
        )?;
        page.counter(
            "connections_refused",
            "connections beyond the limit",
            number(&counters.connections_refused),
        )?;
        let network = [("in", number(&counters.bytes_in)), ("out", number(&counters.bytes_out))];
        page.counters("network_bytes", "bytes of messages", "direction", network)?;
        let commands = [
            ("insert", number(&counters.inserts)),
            ("query", number(&counters.queries)),
            ("update", number(&counters.updates)),
            ("delete", number(&counters.deletes)),
            ("getmore", number(&counters.get_mores)),
            ("command", number(&counters.commands)),
        ];
        page.counters("commands", "commands by the kinds of serverStatus", "kind", commands)?;
        let held = self.shared.client.operation_bytes();
        page.gauge("operation_bytes", "memory of operations and cursors, beside the store's", held)?;
        page.counter("commands_refused", "commands that were rejected", number(&counters.refusals))?;
        let lost = number(&self.shared.settings.log_lines_lost);
        page.counter("log_lines_lost", "lines of the log that could not be written", lost)
    }
}

/// The page that is written.
struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Page<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    fn counters<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (of, value) in values {
            let labels = [(label, of)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of, value) in values {
            metric.encode_family(&[(label, of)])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// A histogram in seconds, with all its buckets: a set of buckets that grows would confuse what adds them up.
    fn times<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, &'v Times)>,
    ) -> fmt::Result {
        // The base unit of Prometheus, whatever is measured.
        let unit = Unit::Seconds;
        let mut metric = self.encoder.encode_descriptor(name, help, Some(&unit), MetricType::Histogram)?;
        for (of, times) in values {
            let count_below = |below| {
                times
                    .buckets
                    .iter()
                    .find(|bucket| bucket.below_micros == below)
                    .map_or(0, |bucket| bucket.count)
            };
            let bounds = (0..BUCKET_POWERS).map(|power| 1_u32 << power);
            let buckets =
                bounds.map(|micros| (f64::from(micros) * MICROS, count_below(Some(u64::from(micros)))));
            let buckets: Vec<_> = buckets.chain([(f64::INFINITY, count_below(None))]).collect();
            let sum = Duration::from_micros(times.total_micros).as_secs_f64();
            let labels = [(label, of)];
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                sum,
                times.count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}
