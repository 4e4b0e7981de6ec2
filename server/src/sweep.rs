//! Looks for cursors and sessions that were idle for too long.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::limits::SESSION_TIMEOUT;
use crate::places::Holder;
use crate::shared::Shared;

/// The longest time between two searches for idle cursors and sessions.
const SWEEP: Duration = Duration::from_secs(10);

/// Closes idle cursors and forgets idle sessions, until the server stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    // A cursor then lives for at most one and a half of its timeout, however short that is.
    let pause = SWEEP.min(shared.settings.cursor_timeout / 2).max(Duration::from_millis(10));
    while tokio::time::timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_err() {
        let sessions = shared.sessions.expire(SESSION_TIMEOUT);
        let ended = shared
            .cursors
            .expire(shared.settings.cursor_timeout, |session| shared.sessions.is_known(session));
        let has_transactions = shared.sessions.transactions.open.load(Ordering::Relaxed) > 0;
        let snapshots = shared.snapshots.expire();
        let is_empty = ended.is_empty() && sessions.is_empty() && snapshots.is_empty() && !has_transactions;
        // Dropping cursors and ending transactions may block, so the pool does it; mostly there are none, and no thread has to be
        // woken. Not among the commands: these may use all places for as long as they like.
        let swept = Arc::clone(&shared);
        let close = move || {
            drop((ended, sessions, snapshots));
            swept.cursors.close(swept.sessions.end_expired_transactions());
        };
        if !is_empty && shared.pool.look(Holder::default(), None, close).await.is_err() {
            break;
        }
    }
}
