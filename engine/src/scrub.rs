//! The scrub: a thread that slowly reads the checksums of all files, again and again, so that damage is found while there
//! still is a backup without it.
//!
//! Between two files it holds nothing, and within one only that file, which it lets go of when a compaction has deleted it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};
use bson::DateTime;
use query::operation::CancellationToken;
use store::checksums::FileSet;
use store::pace::Pace;

use crate::audit;
use crate::periodic::PeriodicThread;
use crate::progress::ScrubStatus;
use crate::results::VerifyReport;
use crate::shared::{Engine, Shared};

/// The interval in which the thread checks whether a pass is due.
const TICK: Duration = Duration::from_millis(100);
/// The pause after a pass. A small database is not read again and again.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// Starts the thread. It reads `bytes_per_second` bytes a second at most, and begins at once.
pub(crate) fn start(shared: &Shared, bytes_per_second: u64) -> Result<()> {
    // Weak, though the thread is stopped before the database is closed: it must not be what closes it.
    let engine = Arc::downgrade(shared.engine());
    let mut due = Instant::now();
    let thread = PeriodicThread::start("cairndb-scrub", TICK, move |token| {
        let Some(engine) = engine.upgrade().filter(|_| Instant::now() >= due) else { return };
        match pass(&engine, bytes_per_second, token) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Closed) || token.is_cancelled() => {}
            Err(error) => tracing::error!(%error, "the scrub could not read the files to their end"),
        }
        due = Instant::now() + PAUSE;
    })?;
    *shared.scrub.lock() = Some(thread);
    Ok(())
}

/// Reads all files once.
fn pass(engine: &Engine, bytes_per_second: u64, token: &CancellationToken) -> Result<()> {
    let look = || {
        if token.is_cancelled() {
            return Err(Error::new(ErrorKind::Closed));
        }
        engine.store.refuse_closing()
    };
    let mut pace = Pace::new(Some(bytes_per_second), &look);
    let mut files = FileSet::list(&engine.options.path, audit::folder_view(engine))?;
    // The findings of the last pass stay until this one has read as far as they are.
    let mut found = VerifyReport { files: files.listed_by(), ..VerifyReport::default() };
    loop {
        for flaw in files.flaws.drain(..) {
            let (file, offset, problem) = (flaw.path.display(), flaw.offset, flaw.problem.as_str());
            tracing::error!(%file, offset, problem, "the scrub has found a damaged file");
            audit::add_flaw(engine, &flaw, &mut found);
            let mut status = engine.scrub.lock();
            status.findings.clone_from(&found.findings);
            status.findings_omitted = found.findings_omitted;
        }
        let read = files.step(&mut pace, &mut |bytes| engine.scrub.lock().bytes += bytes)?;
        let Some(read) = read else { break };
        found.files += read.files;
    }
    let mut status = engine.scrub.lock();
    let ScrubStatus { passes, bytes, .. } = *status;
    *status = ScrubStatus {
        passes: passes + 1,
        bytes,
        files: found.files,
        finished_at: Some(DateTime::now()),
        findings: found.findings,
        findings_omitted: found.findings_omitted,
    };
    Ok(())
}
