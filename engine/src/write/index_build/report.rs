//! Reports of how far a build is: to its caller, to lists of running builds, and to the log.

use std::time::{Duration, Instant};

use base::namespace::Namespace;

use crate::catalog::builds::Build;
use crate::one_line::OneLine;
use crate::progress::{IndexBuildPhase, IndexBuildProgress};

/// The shortest time between two calls of the caller's function.
const TOLD_INTERVAL: Duration = Duration::from_millis(100);
/// The time between two lines in the log.
const LOGGED_INTERVAL: Duration = Duration::from_secs(5);
/// The amount of work between two checks of the clock.
const DONE_PER_LOOK: u64 = 256;

/// The caller's function.
pub(crate) type Callback<'a> = dyn FnMut(&IndexBuildProgress) + Send + 'a;

/// Says how far a build is.
pub(super) struct Report<'a, 'c> {
    build: &'a Build,
    namespace: &'a Namespace,
    callback: Option<&'a mut Callback<'c>>,
    began: Instant,
    told: Instant,
    logged: Instant,
    phase: IndexBuildPhase,
    done: u64,
    total: u64,
    looked_at: u64,
}

impl<'a, 'c> Report<'a, 'c> {
    /// A report of a build that begins now.
    pub(super) fn begin(
        build: &'a Build,
        namespace: &'a Namespace,
        callback: Option<&'a mut Callback<'c>>,
    ) -> Self {
        let now = Instant::now();
        tracing::info!(namespace = %OneLine(namespace), index = %OneLine(&build.index.name), "index build begins");
        let (began, told, logged) = (now, now, now);
        let phase = IndexBuildPhase::default();
        Self { build, namespace, callback, began, told, logged, phase, done: 0, total: 0, looked_at: 0 }
    }

    /// Begins a phase in which there is `total` to do.
    pub(super) fn phase(&mut self, phase: IndexBuildPhase, total: u64) {
        (self.phase, self.done, self.total, self.looked_at) = (phase, 0, total, 0);
        self.tell();
    }

    /// Adds to what is done, and reports it from time to time. The caller holds no lock: the caller's function may last as
    /// long as it likes.
    pub(super) fn advance(&mut self, done: u64) {
        self.done += done;
        if self.done - self.looked_at < DONE_PER_LOOK {
            return;
        }
        self.looked_at = self.done;
        // The amount of work was counted before, and more may have been added since.
        self.total = if self.total > 0 { self.total.max(self.done) } else { 0 };
        self.build.advance(self.phase, self.done, self.total);
        if self.told.elapsed() >= TOLD_INTERVAL {
            self.tell();
        }
        if self.logged.elapsed() >= LOGGED_INTERVAL {
            self.logged = Instant::now();
            let (namespace, index) = (self.namespace, &self.build.index.name);
            tracing::info!(namespace = %OneLine(namespace), index = %OneLine(index), phase = %self.phase, done = self.done, total = self.total, "index build");
        }
    }

    /// Says that the index is there.
    pub(super) fn end(&mut self) {
        let (namespace, index, took) = (self.namespace, &self.build.index.name, self.began.elapsed());
        tracing::info!(namespace = %OneLine(namespace), index = %OneLine(index), ?took, "index build is done");
        self.tell();
    }

    fn tell(&mut self) {
        self.build.advance(self.phase, self.done, self.total);
        if let Some(callback) = &mut self.callback {
            callback(&self.build.progress(self.namespace));
        }
        // After the call, which may be slow: there is a pause between the calls whatever they do.
        self.told = Instant::now();
    }
}
