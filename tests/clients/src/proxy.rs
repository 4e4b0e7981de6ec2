//! A proxy that lets connections die where it is set to: between a client and the server that it believes to talk to.
//!
//! A network loses connections, and what a client learns is the same whether its request was lost or the answer. The
//! proxy knows which, because it passes whole messages on: a request is answered before the next one is read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The header of a message: length, number, number of the request, operation.
const HEADER_BYTES: usize = 16;
/// More than any message may have.
const MESSAGE_BYTES_MAX: usize = 48_000_000 + HEADER_BYTES;
/// The operation of requests.
const OP_MSG: i32 = 2013;
/// The flag of a request that wants no answer, and of an answer that another one follows.
const MORE_TO_COME: u32 = 2;
/// Header, flags, kind of the section, length of the document, type of the first element.
const NAME_AT: usize = HEADER_BYTES + 4 + 1 + 4 + 1;
/// In which a client reads the answer that opens a connection. The end of the connection is another message, which it
/// may find together with that answer.
const READING_TIME: Duration = Duration::from_millis(10);

/// The treatment of a connection at one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The request and its answer pass.
    Nothing,
    /// The request is lost: the server never learns of it.
    BeforeDelivery,
    /// Half of the request reaches the server.
    WithinRequest,
    /// The request is executed, and the answer lost.
    AfterExecution,
    /// The request is executed, and half of the answer reaches the client.
    WithinReply,
}

/// A running proxy.
pub struct Proxy {
    address: SocketAddr,
    server: Arc<Destination>,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy before a server. It asks `decide` for each request, which is given the name of the command.
    pub fn start(server: SocketAddr, decide: impl Fn(&str) -> Cut + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((server.ip(), 0)).expect("loopback has free ports");
        let address = listener.local_addr().expect("it is bound");
        let stopping = Arc::new(AtomicBool::new(false));
        let decide = Arc::new(decide);
        let is_stopping = Arc::clone(&stopping);
        let server = Arc::new(Destination::of(server));
        let newest = Arc::clone(&server);
        let acceptor = thread::spawn(move || {
            for client in listener.incoming() {
                if is_stopping.load(Ordering::Relaxed) {
                    break;
                }
                let decide = Arc::clone(&decide);
                let newest = Arc::clone(&newest);
                // A connection that ends early is what this is for: no test needs to hear of it.
                thread::spawn(move || client.and_then(|client| pass(client, newest.open(), &*decide)));
            }
        });
        Self { address, server, stopping, acceptor: Some(acceptor) }
    }

    /// Lets new connections wait until [`turn_to`](Self::turn_to) names a server, because the present one is about to end. Returns
    /// once those that are being opened have got their first answer, and their clients had time to read it.
    ///
    /// A driver treats a connection that ends while it is opened as another fault than one that ends at a command, and mongosh's
    /// does not try a transaction again after it.
    pub fn hold(&self) {
        let mut known = self.server.lock();
        known.address = None;
        while known.opening > 0 {
            known = self.server.changed.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        let answered = known.answered;
        drop(known);
        if let Some(rest) = answered.and_then(|answered| READING_TIME.checked_sub(answered.elapsed())) {
            thread::park_timeout(rest);
        }
    }

    /// Passes new connections on to another server, in place of one that has ended.
    pub fn turn_to(&self, server: SocketAddr) {
        self.server.lock().address = Some(server);
        self.server.changed.notify_all();
    }

    /// The place where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // One more connection wakes the acceptor, which then ends.
        if TcpStream::connect(self.address).is_ok() {
            let _ = self.acceptor.take().map(JoinHandle::join);
        }
    }
}

/// The place where connections are passed on to.
struct Destination {
    known: Mutex<Known>,
    changed: Condvar,
}

struct Known {
    /// None while there is no server.
    address: Option<SocketAddr>,
    /// How many connections have no answer yet.
    opening: usize,
    /// When one has got its first answer, or ended without, the last time.
    answered: Option<Instant>,
}

/// A connection that has no answer yet, until this is dropped.
struct Opening {
    destination: Arc<Destination>,
    address: SocketAddr,
}

impl Destination {
    fn of(server: SocketAddr) -> Self {
        let known = Known { address: Some(server), opening: 0, answered: None };
        Self { known: Mutex::new(known), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a server to open a connection to.
    fn open(self: &Arc<Self>) -> Opening {
        let mut known = self.lock();
        loop {
            if let Some(address) = known.address {
                known.opening += 1;
                return Opening { destination: Arc::clone(self), address };
            }
            known = self.changed.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut known = self.destination.lock();
        known.opening -= 1;
        known.answered = Some(Instant::now());
        drop(known);
        self.destination.changed.notify_all();
    }
}

/// Passes messages until one side ends the connection, or the proxy does.
fn pass(mut client: TcpStream, opening: Opening, decide: &(impl Fn(&str) -> Cut + ?Sized)) -> io::Result<()> {
    let mut server = TcpStream::connect(opening.address)?;
    let mut opening = Some(opening);
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    loop {
        let request = read_message(&mut client)?;
        let cut = decide(command(&request));
        match cut {
            Cut::BeforeDelivery => return Ok(()),
            Cut::WithinRequest => return server.write_all(first_half(&request)),
            Cut::Nothing | Cut::AfterExecution | Cut::WithinReply => server.write_all(&request)?,
        }
        let mut reply = if wants_reply(&request) { read_message(&mut server)? } else { Vec::new() };
        match cut {
            Cut::Nothing => client.write_all(&reply)?,
            Cut::WithinReply => return client.write_all(first_half(&reply)),
            Cut::AfterExecution | Cut::BeforeDelivery | Cut::WithinRequest => return Ok(()),
        }
        drop(opening.take());
        // A hello that waits is answered again and again.
        while !reply.is_empty() && has_more(&reply) {
            reply = read_message(&mut server)?;
            client.write_all(&reply)?;
        }
    }
}

fn first_half(message: &[u8]) -> &[u8] {
    message.split_at(message.len() / 2).0
}

fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEADER_BYTES];
    stream.read_exact(&mut message)?;
    let length = usize::try_from(number_at(&message, 0)).unwrap_or(0);
    if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    let rest = (length - HEADER_BYTES) as u64;
    if stream.take(rest).read_to_end(&mut message)? as u64 != rest {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(message)
}

fn number_at(message: &[u8], at: usize) -> i32 {
    message.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, i32::from_le_bytes)
}

fn wants_reply(request: &[u8]) -> bool {
    !has_more(request)
}

/// Whether another message of the same sender follows, in place of an answer of the other.
fn has_more(message: &[u8]) -> bool {
    number_at(message, 12) == OP_MSG && number_at(message, HEADER_BYTES).cast_unsigned() & MORE_TO_COME != 0
}

/// The name of the command; empty for what is none, the legacy hello for one.
fn command(request: &[u8]) -> &str {
    if number_at(request, 12) != OP_MSG {
        return "";
    }
    let name = request.get(NAME_AT..).and_then(|rest| rest.split(|byte| *byte == 0).next());
    name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
}
