//! Places for calls: a bounded number of calls at once, and who gets the next place.
//!
//! A user may hold three times as many places as would then be left, so that the next user finds one: of 64 places the first
//! user gets 48 at most, and the second 12 of the other 16. Some places are for `root` alone. Of those who wait, the user who
//! holds least is the next. A call that is asked to end while it waits stops waiting.

use std::collections::{BTreeMap, HashMap};
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use cairndb::CancellationToken;
use parking_lot::Mutex;
use query::code::Code;
use tokio::sync::{Notify, oneshot};

use crate::failure::Failure;

/// A user may hold this many times the places that are left.
const SHARE: u32 = 3;

/// For whom a call runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    /// `None` for the server itself, and for all clients of a server that asks for no login.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) is_root: bool,
}

/// A number of places.
pub(crate) struct Places {
    table: Mutex<Table>,
    /// Whether users leave places to each other.
    is_shared: bool,
    emptied: Notify,
}

/// A place. Dropping it gives it back.
pub(crate) struct Place {
    places: Arc<Places>,
    holder: Holder,
    kind: PlaceKind,
}

struct Table {
    free: u32,
    free_of_root: u32,
    /// The places that are held, of both kinds.
    held: u32,
    /// The number of waiting commands, of all users together.
    waiting: usize,
    arrivals: u64,
    users: HashMap<Holder, Turns>,
    is_closed: bool,
}

/// The places that one user holds and waits for. It is in the table only as long as there is either.
#[derive(Default)]
struct Turns {
    /// Of the places for all.
    held: u32,
    held_of_root: u32,
    /// By their arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Place>>,
}

#[derive(Clone, Copy)]
enum PlaceKind {
    Common,
    OfRoot,
}

/// One who waits. Dropping it removes the entry.
struct Waiting<'a> {
    places: &'a Places,
    holder: &'a Holder,
    number: u64,
}

impl Places {
    /// Places in the order of arrival.
    pub(crate) fn new(places: u32) -> Self {
        let table = Table {
            free: places,
            free_of_root: 0,
            held: 0,
            waiting: 0,
            arrivals: 0,
            users: HashMap::new(),
            is_closed: false,
        };
        Self { table: Mutex::new(table), is_shared: false, emptied: Notify::new() }
    }

    /// Places of which users leave some to each other, and `of_root` more for `root`.
    pub(crate) fn shared(places: u32, of_root: u32) -> Self {
        let mut all = Self::new(places);
        all.is_shared = true;
        all.table.get_mut().free_of_root = of_root;
        all
    }

    /// Waits for a place, but no longer than until `ended` is cancelled.
    pub(crate) async fn take(
        self: &Arc<Self>,
        holder: Holder,
        ended: Option<&CancellationToken>,
    ) -> Result<Place, Failure> {
        let (number, mut granted) = {
            let mut table = self.table.lock();
            if table.is_closed {
                return Err(stopping());
            }
            if let Some(kind) = table.take(&holder, self.is_shared) {
                return Ok(Place { places: Arc::clone(self), holder, kind });
            }
            table.wait(holder.clone())
        };
        let _waiting = Waiting { places: self, holder: &holder, number };
        tokio::select! {
            biased;
            place = &mut granted => place.map_err(|_| stopping()),
            failure = interruption(ended) => Err(failure),
        }
    }

    /// Waits until all places were given back. No more is given then, but those who wait get theirs.
    pub(crate) async fn finish(&self) {
        loop {
            let emptied = self.emptied.notified();
            {
                let mut table = self.table.lock();
                table.is_closed = true;
                if table.is_empty() {
                    return;
                }
            }
            emptied.await;
        }
    }

    fn give_back(self: &Arc<Self>, holder: &Holder, kind: PlaceKind) {
        let mut granted = Vec::new();
        let is_empty = {
            let mut table = self.table.lock();
            table.give_back(holder, kind);
            while let Some((holder, kind, waiter)) = table.next(self.is_shared) {
                granted.push((waiter, Place { places: Arc::clone(self), holder, kind }));
            }
            table.is_empty()
        };
        // Without the lock: the place of one who stopped waiting at this moment comes back here.
        for (waiter, place) in granted {
            drop(waiter.send(place));
        }
        if is_empty {
            self.emptied.notify_waiters();
        }
    }
}

impl Table {
    /// The place that a user may get now.
    fn kind_for(&self, holder: &Holder, turns: Option<&Turns>, is_shared: bool) -> Option<PlaceKind> {
        let held = turns.map_or(0, |turns| turns.held);
        let is_within = || held == 0 || held < SHARE * (self.free - 1);
        if self.free > 0 && (!is_shared || is_within()) {
            return Some(PlaceKind::Common);
        }
        (holder.is_root && self.free_of_root > 0).then_some(PlaceKind::OfRoot)
    }

    fn take(&mut self, holder: &Holder, is_shared: bool) -> Option<PlaceKind> {
        let kind = self.kind_for(holder, self.users.get(holder), is_shared)?;
        let turns = self.users.entry(holder.clone()).or_default();
        match kind {
            PlaceKind::Common => (self.free, turns.held) = (self.free - 1, turns.held + 1),
            PlaceKind::OfRoot => {
                (self.free_of_root, turns.held_of_root) = (self.free_of_root - 1, turns.held_of_root + 1);
            }
        }
        self.held += 1;
        Some(kind)
    }

    fn give_back(&mut self, holder: &Holder, kind: PlaceKind) {
        self.held -= 1;
        // It is there: a user who holds something is in the table.
        let Some(turns) = self.users.get_mut(holder) else { return };
        match kind {
            PlaceKind::Common => (self.free, turns.held) = (self.free + 1, turns.held - 1),
            PlaceKind::OfRoot => {
                (self.free_of_root, turns.held_of_root) = (self.free_of_root + 1, turns.held_of_root - 1);
            }
        }
        self.forget(holder);
    }

    fn wait(&mut self, holder: Holder) -> (u64, oneshot::Receiver<Place>) {
        let (sender, receiver) = oneshot::channel();
        self.arrivals += 1;
        self.waiting += 1;
        self.users.entry(holder).or_default().waiting.insert(self.arrivals, sender);
        (self.arrivals, receiver)
    }

    /// The next one who waits and may have a place, with that place.
    fn next(&mut self, is_shared: bool) -> Option<(Holder, PlaceKind, oneshot::Sender<Place>)> {
        if self.waiting == 0 {
            return None;
        }
        let may = self.users.iter().filter_map(|(holder, turns)| {
            let first = turns.waiting.keys().next()?;
            self.kind_for(holder, Some(turns), is_shared).map(|_| (turns.held, *first, holder))
        });
        let (_, first, holder) = may.min_by_key(|&(held, first, _)| (held, first))?;
        let holder = holder.clone();
        let kind = self.take(&holder, is_shared)?;
        let waiter = self.users.get_mut(&holder)?.waiting.remove(&first)?;
        self.waiting -= 1;
        Some((holder, kind, waiter))
    }

    fn stop_waiting(&mut self, holder: &Holder, number: u64) {
        let Some(turns) = self.users.get_mut(holder) else { return };
        if turns.waiting.remove(&number).is_some() {
            self.waiting -= 1;
        }
        self.forget(holder);
    }

    fn forget(&mut self, holder: &Holder) {
        let is_without = |turns: &Turns| turns.held + turns.held_of_root == 0 && turns.waiting.is_empty();
        if self.users.get(holder).is_some_and(is_without) {
            self.users.remove(holder);
        }
    }

    fn is_empty(&self) -> bool {
        self.held == 0 && self.waiting == 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(&self.holder, self.kind);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let is_empty = {
            let mut table = self.places.table.lock();
            table.stop_waiting(self.holder, self.number);
            table.is_empty()
        };
        if is_empty {
            self.places.emptied.notify_waiters();
        }
    }
}

/// Waits until the token is cancelled. Returns the failure of the call.
pub(crate) async fn interruption(token: Option<&CancellationToken>) -> Failure {
    let Some(token) = token else { return pending().await };
    let mut woken = None;
    let reason = poll_fn(|context| {
        // Before the look: a cancellation between the two would wake nothing.
        woken = Some(token.wake(context.waker().clone()));
        token.reason().map_or(Poll::Pending, Poll::Ready)
    });
    let reason = reason.await;
    drop(woken);
    reason.into()
}

/// The failure of a call that comes after the end.
pub(crate) fn stopping() -> Failure {
    Failure::new(Code::SHUTDOWN_IN_PROGRESS, "the server is stopping")
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn holder(name: &str) -> Holder {
        Holder { user: Some(name.into()), is_root: name == "root" }
    }

    /// The place that a user gets without waiting.
    fn take(places: &Arc<Places>, name: &str) -> Option<Place> {
        match pin!(places.take(holder(name), None)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => place.ok(),
            Poll::Pending => None,
        }
    }

    fn take_all(places: &Arc<Places>, name: &str) -> Vec<Place> {
        std::iter::from_fn(|| take(places, name)).collect()
    }

    #[test]
    fn each_user_leaves_places_to_the_next_and_root_has_its_own() {
        let places = Arc::new(Places::shared(64, 8));
        let mut held: Vec<Vec<Place>> =
            ["a", "b", "c", "d", "e"].iter().map(|name| take_all(&places, name)).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [48, 12, 3, 1, 0]);
        assert_eq!(take_all(&places, "root").len(), 8);
        // A place that one gives back another gets.
        held[0].truncate(20);
        assert_eq!(take_all(&places, "e").len(), 21);
        drop(held);
        assert_eq!(take_all(&places, "root").len(), 48 + 8);
        assert!(places.table.lock().users.is_empty());
        // Without shares one user has everything.
        assert_eq!(take_all(&Arc::new(Places::new(5)), "a").len(), 5);
        // One place is a place.
        assert_eq!(take_all(&Arc::new(Places::shared(1, 0)), "a").len(), 1);
    }

    #[tokio::test]
    async fn who_holds_least_is_next_and_who_is_told_to_end_stops_waiting() {
        let places = Arc::new(Places::shared(4, 0));
        let mut of_a = take_all(&places, "a");
        let of_b = take_all(&places, "b");
        assert_eq!((of_a.len(), of_b.len()), (3, 1));
        let token = CancellationToken::new();
        let mut more_of_a = pin!(places.take(holder("a"), Some(&token)));
        let mut of_c = pin!(places.take(holder("c"), None));
        assert!(is_pending(more_of_a.as_mut()) && is_pending(of_c.as_mut()));
        // `a` came first, and holds two.
        of_a.pop();
        let of_c = of_c.await.map_err(|failure| failure.code());
        assert!(of_c.is_ok() && is_pending(more_of_a.as_mut()));
        token.cancel();
        assert_eq!(more_of_a.await.map(drop).map_err(|failure| failure.code()), Err(11_601));
        drop((of_a, of_b, of_c));
        assert!(places.table.lock().is_empty() && places.table.lock().users.is_empty());
    }

    fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn the_end_waits_for_those_who_wait_and_no_more_come() {
        let places = Arc::new(Places::new(1));
        let held = take(&places, "a").expect("it is free");
        let mut waiting = pin!(places.take(holder("b"), None));
        assert!(is_pending(waiting.as_mut()));
        let mut finish = pin!(places.finish());
        assert!(is_pending(finish.as_mut()));
        assert!(take(&places, "c").is_none());
        drop(held);
        assert!(is_pending(finish.as_mut()));
        drop(waiting.await);
        finish.await;
        let refused = places.take(holder("c"), None).await.map(drop);
        assert_eq!(refused.map_err(|failure| failure.code()), Err(91));
    }
}
