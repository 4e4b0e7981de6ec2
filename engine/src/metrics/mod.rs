//! The counts and times of a store: the meters, and a client's report of them.
//!
//! A verb starts a [`watch`](watch::Watch) and ends it with its result. What happens below it, where no caller is known, is
//! left in the thread's [`notes`], which the watch reads. Each thread counts by itself, so that threads do not slow each other
//! down; a report adds them up. Waits and syncs, which are rare, are timed where they happen, by a shared
//! [`Timing`](timing::Timing).

pub(crate) mod recorder;
pub(crate) mod shape;
#[cfg(feature = "opentelemetry")]
pub(crate) mod spans;
#[cfg(not(feature = "opentelemetry"))]
#[path = "no_spans.rs"]
pub(crate) mod spans;
pub(crate) mod verb;
pub(crate) mod watch;
