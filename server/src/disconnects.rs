//! Ends the commands of clients that disconnected.
//!
//! A connection's task reads nothing while its command runs, so one task for all connections looks at the
//! sockets of the commands that have run for a while. It asks the system for the state of a socket and reads
//! nothing from it: bytes that a client sent ahead stay there for the connection. It ends a command by its
//! number, never a connection, so it cannot end the next command of a connection by mistake.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use cairndb::Interruption;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::operations::Operations;

/// The time between two looks at the sockets, and how long a command runs before its socket is looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// The number of sockets in one system call.
const SOCKETS_PER_POLL: usize = 256;
/// The events of a closed socket: the client closed its half or all of it. Systems that do not report a
/// closed half report only the whole.
#[cfg(target_os = "linux")]
const DISCONNECTED: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);
#[cfg(not(target_os = "linux"))]
const DISCONNECTED: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

/// A second file descriptor of a connection's socket, for [`watch`]. The socket stays open until both are
/// closed.
pub(crate) fn duplicate(stream: &impl AsFd) -> std::io::Result<Arc<OwnedFd>> {
    stream.as_fd().try_clone_to_owned().map(Arc::new)
}

/// Ends the commands of clients that disconnected, for as long as it is polled. It sleeps while no command
/// runs.
pub(crate) async fn watch(operations: Arc<Operations>) {
    loop {
        operations.wait_for_watched().await;
        // Most commands end within this time and never cost a look at their sockets.
        tokio::time::sleep(INTERVAL).await;
        for id in disconnected(&operations.watched(INTERVAL)) {
            tracing::debug!(operation = id, "ended a command whose client went away");
            operations.interrupt(id, Interruption::ClientDisconnected);
        }
    }
}

/// The numbers of the commands whose sockets the client has closed.
fn disconnected(watched: &[(i64, Arc<OwnedFd>)]) -> Vec<i64> {
    let mut found = Vec::new();
    // In parts, so that the list of the kernel stays small however many commands run.
    for part in watched.chunks(SOCKETS_PER_POLL) {
        let mut sockets: Vec<_> = part.iter().map(|(_, socket)| PollFd::new(socket, DISCONNECTED)).collect();
        // After an error the sockets are looked at again in the next interval.
        if let Err(error) = poll(&mut sockets, Some(&Timespec::default())) {
            // Tried again after the interval.
            tracing::warn!(%error, "the sockets of running commands could not be looked at");
            continue;
        }
        let closed =
            part.iter().zip(&sockets).filter(|(_, socket)| socket.revents().intersects(DISCONNECTED));
        found.extend(closed.map(|((id, _), _)| *id));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn is_disconnected(socket: &impl AsFd) -> bool {
        let socket = duplicate(socket).expect("a file descriptor");
        !disconnected(&[(7, socket)]).is_empty()
    }

    /// The end of a connection needs a moment to arrive.
    fn becomes_disconnected(socket: &impl AsFd) {
        let start = std::time::Instant::now();
        while !is_disconnected(socket) {
            assert!(start.elapsed() < Duration::from_secs(10), "the end does not arrive");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn tcp() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        (near, listener.accept().expect("accepted").0)
    }

    #[test]
    fn a_closed_socket_is_disconnected() {
        let (near, far) = tcp();
        assert!(!is_disconnected(&far));
        drop(near);
        becomes_disconnected(&far);
        let (near, far) = UnixStream::pair().expect("a pair");
        assert!(!is_disconnected(&far));
        drop(near);
        becomes_disconnected(&far);
    }

    #[test]
    fn bytes_that_wait_are_no_end_and_hide_none() {
        let (mut near, far) = tcp();
        near.write_all(b"the next command").expect("sent");
        far.peek(&mut [0]).expect("it arrived");
        assert!(!is_disconnected(&far));
        drop(near);
        becomes_disconnected(&far);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_socket_of_which_a_half_is_closed_is_disconnected() {
        let (near, far) = tcp();
        near.shutdown(Shutdown::Write).expect("shut down");
        becomes_disconnected(&far);
    }

    #[test]
    fn of_many_sockets_those_that_were_closed_are_named() {
        let pairs: Vec<_> = (0..300_i64).map(|id| (id, UnixStream::pair().expect("a pair"))).collect();
        let watched = pairs.iter().map(|(id, (_, far))| (*id, duplicate(far).expect("a file descriptor")));
        let watched: Vec<_> = watched.collect();
        assert_eq!(disconnected(&watched), Vec::<i64>::new());
        for (_, (near, far)) in pairs.iter().filter(|(id, _)| matches!(id, 3 | 299)) {
            near.shutdown(Shutdown::Both).expect("shut down");
            becomes_disconnected(far);
        }
        assert_eq!(disconnected(&watched), [3, 299]);
    }
}
