//! Wall-clock time in whole seconds, the only resolution an `ObjectId` has.
//!
//! [`SystemClock`] reads the coarse clock where the system has one: it is several times cheaper than the
//! precise clock and lags by at most one timer tick (1 to 10 milliseconds). The time may step back;
//! [`Generator`](crate::generator::Generator) handles that.

use std::sync::Arc;

/// A source of wall-clock time.
///
/// ```
/// use cairndb_sequence::clock::Clock;
/// use cairndb_sequence::generator::Generator;
/// use cairndb_sequence::object_id::Layout;
///
/// struct Frozen;
///
/// impl Clock for Frozen {
///     fn seconds(&self) -> u64 { 1_700_000_000 }
/// }
///
/// let generator = Generator::with_clock(Layout::Random, Frozen);
/// assert_eq!(generator.generate().timestamp(), 1_700_000_000);
/// ```
pub trait Clock: Send + Sync {
    /// Whole seconds since 1970-01-01T00:00:00Z; 0 for any moment before it.
    fn seconds(&self) -> u64;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn seconds(&self) -> u64 {
        self.as_ref().seconds()
    }
}

/// The operating system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    #[inline]
    fn seconds(&self) -> u64 {
        // The coarse clock is a read of shared memory without a system call.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        now.tv_sec.try_into().unwrap_or(0)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    fn seconds(&self) -> u64 {
        // A clock before 1970 counts as 1970.
        use std::time::SystemTime;
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_system_clock_agrees_with_the_precise_one() {
        let precise = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let before = precise();
        let seconds = SystemClock.seconds();
        let after = precise();
        assert!(before <= seconds + 1 && seconds <= after, "{before} {seconds} {after}");
    }
}
