//! Admission of a write under a quota, as one protocol: every decision is here, and `quota` carries it out.
//!
//! ```text
//!              the credit pays it
//! Asking ───────────────────────────────────────────────▶ admitted
//!   │ ▲                                                       ▲
//!   │ │ Credit: the folder has room                           │ the credit pays it, as for every write
//!   ▼ │                                                       │
//! Measured ── Wait: something makes room, and it is early ──▶ Asking, after a nap
//!   │
//!   ├── Force, a delete: a few bytes of what is kept free ──▶ Asking
//!   └── Refuse ───────────────────────────────────────────▶ refused
//! Asking, a put ── Known: as much was refused a moment ago, and nothing has made room since ──▶ refused
//! ```
//! No state is left without a look at the folder, but by the credit and by [`is_known`]. A write waits for [`WAIT_MAX`] at most, so
//! every path ends.

use std::time::Duration;

/// The longest wait of a write for work that frees space.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(10);
/// The time after a rejection in which others follow that ask for as much or more, without a measurement, if nothing
/// was deleted meanwhile.
const REFUSED_FOR: Duration = Duration::from_millis(50);

/// The decision after a measurement of the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The folder has room: this is the new credit.
    Credit(u64),
    /// The write waits a little, and asks again.
    Wait,
    /// A delete draws this credit from what is kept free.
    Force(u64),
    Refuse,
}

/// The last rejection, as a put sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastRefusal {
    /// The bytes that it asked for.
    pub(super) bytes: u64,
    pub(super) ago: Duration,
    /// Whether room was made since.
    pub(super) is_outdated: bool,
}

/// Whether a put of that many bytes is rejected with an earlier one, without a measurement.
pub(super) fn is_known(bytes: u64, last: Option<LastRefusal>, makes_room: bool) -> bool {
    let is_refused = |last: LastRefusal| bytes >= last.bytes && last.ago < REFUSED_FOR && !last.is_outdated;
    last.is_some_and(is_refused) && !makes_room
}

/// A put that its credit did not pay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put {
    pub(super) bytes: u64,
    pub(super) limit: u64,
    pub(super) waited: Duration,
    /// Whether it has waited beside one that was rejected, and so for as long.
    pub(super) has_waited_beside: bool,
}

impl Put {
    /// The decision if the folder has `free` bytes for puts. `makes_room` says whether something runs that makes
    /// room, and asks for it.
    pub(super) fn next(self, free: u64, makes_room: impl FnOnce() -> bool) -> Next {
        if self.bytes <= free {
            return Next::Credit(free);
        }
        // Asked for even by one that is rejected: later writes find the room.
        let makes_room = makes_room();
        let is_late = self.has_waited_beside || self.waited >= WAIT_MAX || self.bytes > self.limit;
        if makes_room && !is_late { Next::Wait } else { Next::Refuse }
    }
}

/// A delete that its credit did not pay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delete {
    pub(super) bytes: u64,
    pub(super) waited: Duration,
    /// The number of bytes that are admitted at a time when nothing frees space.
    pub(super) step: u64,
    /// The most that is kept for deletes.
    pub(super) kept: u64,
}

impl Delete {
    /// The decision if the folder has `free` bytes for deletes. `makes_room` is that of [`Put::next`], and
    /// `has_room_for` says whether what is kept free has room for its argument, in bytes.
    pub(super) fn next(
        self,
        free: u64,
        makes_room: impl FnOnce() -> bool,
        has_room_for: impl FnOnce(u64) -> bool,
    ) -> Next {
        if self.bytes <= free {
            return Next::Credit(free.min(self.kept.max(self.bytes)));
        }
        if makes_room() && self.waited < WAIT_MAX {
            return Next::Wait;
        }
        if has_room_for(self.step) { Next::Force(self.step) } else { Next::Refuse }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    const LATE: Duration = Duration::from_secs(60);

    #[test]
    fn a_put_takes_every_transition() {
        let put = Put { bytes: 10, limit: 100, waited: SOON, has_waited_beside: false };
        assert_eq!(put.next(10, || unreachable!("there is room")), Next::Credit(10));
        assert_eq!(put.next(9, || true), Next::Wait);
        assert_eq!(put.next(9, || false), Next::Refuse);
        assert_eq!(Put { waited: LATE, ..put }.next(9, || true), Next::Refuse);
        assert_eq!(Put { has_waited_beside: true, ..put }.next(9, || true), Next::Refuse);
        // A request that can never have space does not wait, and one that has some is admitted however long it has
        // waited.
        assert_eq!(Put { bytes: 101, ..put }.next(9, || true), Next::Refuse);
        assert_eq!(Put { waited: LATE, ..put }.next(10, || false), Next::Credit(10));
    }

    #[test]
    fn a_delete_takes_every_transition() {
        let delete = Delete { bytes: 10, waited: SOON, step: 25, kept: 40 };
        let never = |_: u64| -> bool { unreachable!("nothing is forced") };
        assert_eq!(delete.next(10, || unreachable!("there is room"), never), Next::Credit(10));
        assert_eq!(delete.next(90, || unreachable!("there is room"), never), Next::Credit(40));
        assert_eq!(delete.next(9, || true, never), Next::Wait);
        assert_eq!(delete.next(9, || false, |bytes| bytes == 25), Next::Force(25));
        assert_eq!(delete.next(9, || false, |_| false), Next::Refuse);
        assert_eq!(Delete { waited: LATE, ..delete }.next(9, || true, |_| true), Next::Force(25));
        // A larger one than is kept is paid from what is free.
        assert_eq!(Delete { bytes: 50, ..delete }.next(60, || false, never), Next::Credit(50));
    }

    #[test]
    fn a_refusal_is_known_for_a_moment_and_only_for_as_much() {
        let last = Some(LastRefusal { bytes: 10, ago: SOON, is_outdated: false });
        assert!(is_known(10, last, false) && is_known(11, last, false));
        assert!(!is_known(9, last, false) && !is_known(10, last, true) && !is_known(10, None, false));
        let of = |ago, is_outdated| Some(LastRefusal { bytes: 10, ago, is_outdated });
        assert!(!is_known(10, of(LATE, false), false) && !is_known(10, of(SOON, true), false));
    }
}
