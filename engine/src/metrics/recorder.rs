//! The meters of a client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::metrics::notes::{self, Tally};
use base::metrics::report::{DocumentMetrics, Metrics, OperationMetrics, SearchMetrics};
use base::metrics::timing::{Counter, Timing};
use thread_local::ThreadLocal;

use crate::metrics::spans::Spans;
use crate::metrics::verb::Verb;

/// The count of blocks of files that the thread reads.
#[derive(Clone, Copy)]
pub(crate) struct BlockReads {
    /// Begins to count for this thread, if that was not done.
    pub(crate) begin: fn(),
    /// Returns how many blocks were found in the cache and how many were read from files since the last call.
    pub(crate) take: fn() -> (u64, u64),
}

/// Counts the operations of a client, each thread by itself.
pub(crate) struct Recorder {
    clock: quanta::Clock,
    is_counting: bool,
    /// Operations that need at least so long are logged.
    slow: Option<Duration>,
    spans: Option<Spans>,
    block_reads: BlockReads,
    threads: ThreadLocal<Box<ThreadMeters>>,
    /// The number of open cursors.
    cursors: AtomicU64,
}

/// The measurements of a client.
#[derive(Debug)]
pub(crate) struct RecorderOptions {
    /// Whether operations are counted and timed.
    pub(crate) is_counting: bool,
    /// Operations that need at least so long are logged.
    pub(crate) slow: Option<Duration>,
    /// Makes a span of each operation.
    pub(crate) spans: Option<Spans>,
}

impl RecorderOptions {
    /// Nothing is measured: for stores that no user has opened.
    pub(crate) const OFF: Self = Self { is_counting: false, slow: None, spans: None };
}

/// The counts of one thread. No other thread adds to it.
#[derive(Debug, Default)]
struct ThreadMeters {
    verbs: [VerbMeters; Verb::COUNT],
    tally: TallyMeters,
    cache_hits: Counter,
    cache_misses: Counter,
}

#[derive(Debug, Default)]
struct VerbMeters {
    times: Timing,
    failed: Counter,
}

/// A counter for each number of a [`Tally`].
#[derive(Debug, Default)]
struct TallyMeters {
    lookups: Counter,
    index_scans: Counter,
    collection_scans: Counter,
    keys_examined: Counter,
    documents_examined: Counter,
    documents_inserted: Counter,
    documents_updated: Counter,
    documents_deleted: Counter,
    documents_returned: Counter,
    bytes_returned: Counter,
    bytes_written: Counter,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) verb: Verb,
    pub(crate) has_failed: bool,
    pub(crate) nanoseconds: u64,
    pub(crate) tally: Tally,
    /// The blocks that were found in the cache, and those that were read.
    pub(crate) blocks: (u64, u64),
}

impl Recorder {
    pub(crate) fn new(options: RecorderOptions, block_reads: BlockReads) -> Self {
        let RecorderOptions { is_counting, slow, spans } = options;
        let (clock, threads, cursors) = (quanta::Clock::new(), ThreadLocal::new(), AtomicU64::new(0));
        Self { clock, is_counting, slow, spans, block_reads, threads, cursors }
    }

    /// The blocks that this thread has read since the last call.
    #[inline]
    pub(crate) fn take_blocks(&self) -> (u64, u64) {
        (self.block_reads.take)()
    }

    /// Whether anything is measured.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_counting || self.slow.is_some() || self.spans.is_some()
    }

    /// Begins to measure an operation of this thread. Returns the time, for [`since`](Self::since); 0 if nothing is measured.
    #[inline]
    pub(crate) fn begin(&self) -> u64 {
        // Without a reader of it the clock is not asked.
        if !self.is_on() {
            return 0;
        }
        (self.block_reads.begin)();
        self.clock.raw()
    }

    pub(crate) fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    /// The number of nanoseconds since a time of [`begin`](Self::begin).
    #[inline]
    pub(crate) fn since(&self, start: u64) -> u64 {
        self.clock.delta_as_nanos(start, self.clock.raw())
    }

    /// Whether an operation that lasted so long is logged.
    #[inline]
    pub(crate) fn is_slow(&self, nanoseconds: u64) -> bool {
        self.slow.is_some_and(|slow| u128::from(nanoseconds) >= slow.as_nanos())
    }

    pub(crate) fn cursor_opened(&self) {
        self.cursors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn cursor_ended(&self) {
        self.cursors.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts an operation.
    #[inline]
    pub(crate) fn count(&self, ended: &Ended) {
        if !self.is_counting {
            return;
        }
        // Boxed, so that threads that come and go move no meters.
        let meters = self.threads.get_or_default();
        if let Some(verb) = meters.verbs.get(ended.verb as usize) {
            // This thread alone writes here, so no atomic addition is needed.
            verb.times.record_alone(ended.nanoseconds);
            if ended.has_failed {
                verb.failed.add_alone(1);
            }
        }
        meters.tally.add(&ended.tally);
        let (hits, misses) = ended.blocks;
        // Both are 0 for what is in memtables.
        if hits + misses > 0 {
            meters.cache_hits.add_alone(hits);
            meters.cache_misses.add_alone(misses);
        }
    }

    /// Counts what this thread has noted outside of the verbs, such as deletes of what expired.
    pub(crate) fn count_notes(&self) {
        let tally = notes::take_tally();
        if self.is_counting {
            self.threads.get_or_default().tally.add(&tally);
        }
    }

    /// Adds up what all threads have counted.
    pub(crate) fn report(&self) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.cursors.open = self.cursors.load(Ordering::Relaxed);
        // Threads go on counting meanwhile. Each number is right for a moment of its own.
        for meters in &self.threads {
            for (verb, counted) in Verb::ALL.iter().zip(&meters.verbs) {
                let mut times = OperationMetrics::default();
                counted.times.add_to(&mut times.times);
                // A verb that was never called would only fill the report.
                if times.times.count == 0 {
                    continue;
                }
                let sum = metrics.operations.entry(verb.name().to_owned()).or_default();
                counted.times.add_to(&mut sum.times);
                sum.failed += counted.failed.get();
            }
            meters.tally.add_to(&mut metrics.documents, &mut metrics.searches);
            metrics.searches.cache_hits += meters.cache_hits.get();
            metrics.searches.cache_misses += meters.cache_misses.get();
        }
        metrics
    }
}

impl TallyMeters {
    #[inline]
    fn add(&self, tally: &Tally) {
        // Most are 0: a branch costs less than a store.
        let pairs = [
            (&self.lookups, tally.lookups),
            (&self.index_scans, tally.index_scans),
            (&self.collection_scans, tally.collection_scans),
            (&self.keys_examined, tally.keys_examined),
            (&self.documents_examined, tally.documents_examined),
            (&self.documents_inserted, tally.documents_inserted),
            (&self.documents_updated, tally.documents_updated),
            (&self.documents_deleted, tally.documents_deleted),
            (&self.documents_returned, tally.documents_returned),
            (&self.bytes_returned, tally.bytes_returned),
            (&self.bytes_written, tally.bytes_written),
        ];
        for (counter, count) in pairs {
            if count > 0 {
                counter.add_alone(count);
            }
        }
    }

    fn add_to(&self, documents: &mut DocumentMetrics, searches: &mut SearchMetrics) {
        documents.inserted += self.documents_inserted.get();
        documents.updated += self.documents_updated.get();
        documents.deleted += self.documents_deleted.get();
        documents.returned += self.documents_returned.get();
        documents.bytes_returned += self.bytes_returned.get();
        documents.bytes_written += self.bytes_written.get();
        searches.lookups += self.lookups.get();
        searches.index_scans += self.index_scans.get();
        searches.collection_scans += self.collection_scans.get();
        searches.keys_examined += self.keys_examined.get();
        searches.documents_examined += self.documents_examined.get();
    }
}
