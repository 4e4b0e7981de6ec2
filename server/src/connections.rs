//! The open connections: how many there may be, and which of them go when there are too many.
//!
//! Clients that have to log in and have not done so yet make room for new ones: those of the address that has most of them,
//! the oldest first. A client that has logged in is never closed for another one. Some connections are for the Unix socket alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::ends::LocalEnd;
use crate::portions::{Portion, TableEntry, given_up};

/// The part of the connections that is for the Unix socket, if the server listens on TCP as well.
const PART_OF_UNIX: usize = 8;

/// All connections of the listeners.
pub(crate) struct Connections {
    table: Mutex<Table>,
    all_max: usize,
    /// The limit of those by TCP.
    tcp_max: usize,
    /// Whether clients have to log in.
    requires_user: bool,
}

#[derive(Default)]
struct Table {
    last: u64,
    tcp: usize,
    /// By their arrival.
    open: BTreeMap<u64, OpenConnection>,
}

struct OpenConnection {
    host: String,
    is_unix: bool,
    since: Instant,
    login: LoginMark,
    /// Closes the connection when it is dropped.
    _open: oneshot::Sender<()>,
}

/// A connection's entry in the table. Dropping it removes the entry.
pub(crate) struct Seat {
    connections: Arc<Connections>,
    number: u64,
    login: LoginMark,
    closed: oneshot::Receiver<()>,
}

/// Whether the client of a connection has logged in. Copies are the same mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoginMark(Arc<AtomicBool>);

/// The result for a new connection.
pub(crate) enum Admitted {
    /// It has a seat, for which this number of others were closed.
    Seat(Seat, usize),
    /// There are too many, and none of them may be closed.
    Refused,
}

impl Connections {
    /// At most `connections_max` connections. With `listens_on_both` some of them are for the Unix socket.
    pub(crate) fn new(connections_max: usize, listens_on_both: bool, requires_user: bool) -> Self {
        // One at least, and one is left for TCP.
        let of_unix = (connections_max / PART_OF_UNIX).max(1);
        let tcp_max =
            if listens_on_both { connections_max.saturating_sub(of_unix).max(1) } else { connections_max };
        Self { table: Mutex::default(), all_max: connections_max, tcp_max, requires_user }
    }

    /// Gives a new connection a seat, and closes older ones for it if it has to.
    pub(crate) fn admit(self: &Arc<Self>, host: String, local: &LocalEnd) -> Admitted {
        let is_unix = matches!(local, LocalEnd::Unix(_));
        let mut closed = Vec::new();
        let mut table = self.table.lock();
        if self.is_full(&table, is_unix) && self.requires_user {
            closed = table.close_strangers(false);
            if closed.is_empty() && is_unix {
                closed = table.close_strangers(true);
            }
        }
        if self.is_full(&table, is_unix) {
            return Admitted::Refused;
        }
        table.last += 1;
        table.tcp += usize::from(!is_unix);
        let (number, login) = (table.last, LoginMark::default());
        let (open, told) = oneshot::channel();
        let connection =
            OpenConnection { host, is_unix, since: Instant::now(), login: login.clone(), _open: open };
        table.open.insert(number, connection);
        drop(table);
        let seat = Seat { connections: Arc::clone(self), number, login, closed: told };
        Admitted::Seat(seat, closed.len())
    }

    fn is_full(&self, table: &Table, is_unix: bool) -> bool {
        table.open.len() >= self.all_max || (!is_unix && table.tcp >= self.tcp_max)
    }
}

impl Table {
    /// Closes connections that have not logged in, on the Unix socket or on TCP.
    fn close_strangers(&mut self, on_unix: bool) -> Vec<OpenConnection> {
        let strangers = self
            .open
            .iter()
            .filter(|(_, connection)| connection.is_unix == on_unix && !connection.login.is_set());
        let entries = strangers.map(|(&number, connection)| TableEntry {
            key: number,
            user: connection.host.as_str(),
            portion: Portion::OfReader,
            used: Some(connection.since),
        });
        let numbers = given_up(entries);
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    fn remove(&mut self, number: u64) -> Option<OpenConnection> {
        let removed = self.open.remove(&number)?;
        self.tcp -= usize::from(!removed.is_unix);
        Some(removed)
    }
}

impl Seat {
    /// The mark that says whether the client has logged in.
    pub(crate) fn login(&self) -> LoginMark {
        self.login.clone()
    }

    /// Waits until the connection has to be closed for another one.
    pub(crate) async fn closed(&mut self) {
        // The sender never sends: it is dropped when the entry goes.
        let _ = (&mut self.closed).await;
    }
}

impl LoginMark {
    pub(crate) fn set(&self, has_logged_in: bool) {
        self.0.store(has_logged_in, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.table.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(connections: &Arc<Connections>, host: &str, local: &LocalEnd) -> Option<Seat> {
        match connections.admit(host.to_owned(), local) {
            Admitted::Seat(seat, _) => Some(seat),
            Admitted::Refused => None,
        }
    }

    fn tcp() -> LocalEnd {
        LocalEnd::Tcp("127.0.0.1:27017".parse().expect("an address"))
    }

    fn is_open(seat: &mut Seat) -> bool {
        seat.closed.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn the_oldest_stranger_of_the_address_that_has_most_goes() {
        let connections = Arc::new(Connections::new(4, false, true));
        let mut seats: Vec<Seat> = ["x", "y", "y", "y"]
            .iter()
            .map(|host| admit(&connections, host, &tcp()).expect("a seat"))
            .collect();
        // It is not a stranger any more.
        seats[1].login.set(true);
        let mut newest = admit(&connections, "z", &tcp()).expect("a seat");
        assert_eq!(seats.iter_mut().map(is_open).collect::<Vec<_>>(), [true, true, false, true]);
        assert!(is_open(&mut newest));
        // Its entry is gone already.
        drop(seats.remove(2));
        for seat in seats.iter().chain([&newest]) {
            seat.login.set(true);
        }
        assert!(admit(&connections, "z", &tcp()).is_none(), "no user is closed for a stranger");
        drop(newest);
        assert!(admit(&connections, "z", &tcp()).is_some());
    }

    #[test]
    fn some_are_for_the_unix_socket() {
        let (connections, unix) =
            (Arc::new(Connections::new(16, true, false)), LocalEnd::Unix("shop.sock".to_owned()));
        let by_tcp: Vec<Seat> = std::iter::from_fn(|| admit(&connections, "x", &tcp())).collect();
        let by_unix: Vec<Seat> = std::iter::from_fn(|| admit(&connections, "s", &unix)).collect();
        assert_eq!((by_tcp.len(), by_unix.len()), (14, 2));
        drop(by_tcp);
        // The socket may have more, if others leave them.
        let more: Vec<Seat> = std::iter::from_fn(|| admit(&connections, "s", &unix)).collect();
        assert_eq!(more.len(), 14);
        drop((by_unix, more));
        let table = connections.table.lock();
        assert_eq!((table.tcp, table.open.len()), (0, 0));
    }
}
