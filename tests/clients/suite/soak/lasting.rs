//! The time that the soak lasts.

use std::time::{Duration, Instant};

/// The time by which it lasts longer, at most, on a machine that is so busy that there was nothing to see until its end.
const LONGER_MAX: Duration = Duration::from_secs(60);

/// Whether a client goes on: until the end, and then until there was something to see.
pub(crate) fn goes_on(end: Instant, is_seen: bool) -> bool {
    let now = Instant::now();
    now < end || !is_seen && now < end + LONGER_MAX
}
