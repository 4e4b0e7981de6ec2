//! One connection: the server reads a message, answers it, and only then reads the next one. So it does not
//! read from a client that does not receive its answers.
//!
//! Partly read messages are bounded in bytes and in time. A client may be idle for any time between two
//! messages, but not within one. A stranger may not be idle for long at any time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cairndb::CancellationToken;
use query::code::Code;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::cursors::Owner;
use crate::dispatch::{Call, Command, Outcome, answer};
use crate::failure::Failure;
use crate::frame::compressed::{Compressed, Compressor, pack};
use crate::frame::header::{HEADER_BYTES, Header, OP_COMPRESSED, OP_MSG, OP_QUERY};
use crate::frame::message::{Message, announce_another};
use crate::frame::query::Query;
use crate::frame::{FrameError, reply};
use crate::limits::{
    Budget, Reserved, SMALL_MESSAGE_BYTES, STRANGER_MESSAGE_BYTES_MAX, UNCHARGED_BYTES, transfer_timeout,
};
use crate::reply::Reply;
use crate::shared::{Peer, Shared, count};

/// The buffer space that a message gets for its announced length alone; the system provides memory only for
/// bytes that arrive. Also the most that is reserved in the budget before bytes arrive.
const ROOM_BYTES: usize = 1 << 20;
/// The part of an answer that a client has to receive without a pause that is too long.
const WRITE_BYTES: usize = 64 << 10;
/// The limit for closing a stream.
const END: Duration = Duration::from_secs(1);

/// The reason why a connection ended, if the client did not close it between two messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("the client closed the connection within a message")]
    Torn,
    #[error("the client took too long over a message of {0} bytes")]
    Slow(usize),
    #[error("{0}")]
    Overloaded(String),
    #[error("a message of {0} bytes came before a login")]
    LargeBeforeLogin(usize),
    #[error("the client was silent and has not logged in")]
    IdleBeforeLogin,
    #[error("a fail point closed the connection")]
    FailPoint,
    #[error("too many logins failed")]
    Guessing,
}

/// Serves a connection until one side ends it.
pub(crate) async fn serve(shared: Arc<Shared>, peer: Peer, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let peer = Arc::new(peer);
    tracing::debug!(connection = peer.remote.connection, from = %peer.remote.address, "accepted a connection");
    let (id, open) = (peer.remote.connection, OpenConnection::begin(&shared, peer.remote.connection));
    let mut connection =
        Connection { responder: Responder { shared, peer }, stream, buffer: BytesMut::new() };
    let ended = connection.run().await;
    // TLS has a closing message, which informs the client that nothing was cut off. A client that is gone
    // cannot receive it, so the wait is bounded.
    let _ = timeout(END, connection.stream.shutdown()).await;
    match ended {
        Ok(()) => tracing::debug!(connection = id, "the connection ended"),
        // Not worth a line in the log of every server: clients are killed, and networks fail.
        Err(error @ (Ended::Io(_) | Ended::Torn)) => {
            tracing::debug!(connection = id, %error, "the connection broke");
        }
        Err(error) => {
            count(&open.shared.counters.malformed);
            tracing::info!(connection = id, %error, "closed a connection");
        }
    }
}

/// A connection that is served. It may also end because its task does, for example to make room for another one.
struct OpenConnection {
    shared: Arc<Shared>,
    id: i32,
}

impl OpenConnection {
    fn begin(shared: &Arc<Shared>, id: i32) -> Self {
        count(&shared.counters.connections_total);
        count(&shared.counters.connections);
        Self { shared: Arc::clone(shared), id }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        // Such a cursor has neither a timeout nor a session that could end it.
        let is_left = |owner: &Owner| owner.stays && owner.session.is_none() && owner.connection == self.id;
        self.shared.cursors.kill_where(is_left);
        self.shared.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Connection<S> {
    responder: Responder,
    stream: S,
    /// The bytes of the next message that have arrived.
    buffer: BytesMut,
}

/// Everything of a connection but its stream: it answers messages.
#[derive(Clone)]
struct Responder {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
}

/// A whole message with its header.
struct Received {
    header: Header,
    message: Bytes,
    /// The compressor of the message, which the answer uses too.
    compressor: Option<Compressor>,
    /// The memory of the message.
    reserved: Reserved,
}

/// The answer of the server to a message.
enum Response {
    Nothing,
    Message(Reply),
    /// An answer that announces another one: the command runs again, and the client receives all answers.
    Repeated(Reply, Command),
    /// An answer after which the connection is closed.
    Last(Reply),
    /// The answer to an `OP_QUERY`, with its flags.
    Legacy(Reply, u32),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> Result<(), Ended> {
        while let Some(header) = self.next_header().await? {
            let received = self.receive(header).await?;
            count(&self.responder.shared.counters.requests);
            let (mut response_to, compressor) = (received.header.request_id, received.compressor);
            let mut response = self.responder.respond(received).await?;
            // By the protocol an answer without a request of its own responds to the answer before it.
            while let Response::Repeated(reply, command) = response {
                response_to =
                    self.send(Response::Repeated(reply, command.clone()), response_to, compressor).await?;
                response = self.responder.repeat(command).await?;
            }
            // A guesser has to connect again, which costs it more than another message.
            let is_last = matches!(response, Response::Last(_));
            self.send(response, response_to, compressor).await?;
            if is_last {
                return Err(Ended::Guessing);
            }
        }
        Ok(())
    }

    /// Waits for the next message. Returns `None` at the end of the connection, or when the server stops.
    async fn next_header(&mut self) -> Result<Option<Header>, Ended> {
        if self.buffer.is_empty() {
            // An idle connection keeps no memory: the last message may have grown the buffer to its limit.
            self.buffer = BytesMut::new();
            let mut stopping = self.responder.shared.stopping.clone();
            let is_stranger = self.responder.is_stranger();
            let login_timeout = self.responder.shared.settings.login_timeout;
            let read = tokio::select! {
                // The stop is looked at first, so that a client that sends without a pause cannot keep the
                // server from stopping.
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => return Ok(None),
                read = self.stream.read_buf(&mut self.buffer) => read?,
                () = tokio::time::sleep(login_timeout), if is_stranger => return Err(Ended::IdleBeforeLogin),
            };
            if read == 0 {
                return Ok(None);
            }
        // The client has sent the next message already; a server that stops does not begin it.
        } else if *self.responder.shared.stopping.borrow() {
            return Ok(None);
        }
        self.fill(HEADER_BYTES, &mut Reserved::nothing()).await?;
        let header = self.buffer.first_chunk().ok_or(Ended::Torn)?;
        Ok(Some(Header::parse(header)?))
    }

    /// Reads until the buffer holds `bytes` bytes. The client may neither pause for too long, nor be too slow
    /// in total.
    async fn fill(&mut self, bytes: usize, reserved: &mut Reserved) -> Result<(), Ended> {
        let Self { responder, stream, buffer } = self;
        let pause_max = responder.shared.settings.message_timeout;
        let mut end = Instant::now() + transfer_timeout(bytes, pause_max);
        while buffer.len() < bytes {
            let (arrived, missing) = (buffer.len(), bytes - buffer.len());
            // A client that has sent little gets little of the budget, whatever length it announced.
            let next = missing.min(arrived.clamp(UNCHARGED_BYTES, ROOM_BYTES));
            responder.reserve(reserved, arrived + next).await?;
            if reserved.is_overdrawn() {
                // No other message can exceed the budget meanwhile, so this one has less time.
                end = end.min(Instant::now() + pause_max);
            }
            // The buffer grows with the bytes that arrived; only the first mebibyte is given for the
            // announcement.
            buffer.reserve(missing.min(arrived.max(ROOM_BYTES)));
            let pause = end.min(Instant::now() + pause_max);
            // Limited to what the budget covers: the buffer may have more room than that.
            let mut room = (&mut *buffer).limit(next);
            let read = timeout_at(pause, stream.read_buf(&mut room)).await;
            if read.map_err(|_| Ended::Slow(bytes))?? == 0 {
                return Err(Ended::Torn);
            }
        }
        Ok(())
    }

    async fn receive(&mut self, header: Header) -> Result<Received, Ended> {
        // Before a byte of the body is read: an HTTP request, for example, is rejected by its first 16 bytes.
        if !matches!(header.opcode, OP_MSG | OP_QUERY | OP_COMPRESSED) {
            return Err(FrameError::Opcode(header.opcode).into());
        }
        self.responder.check_length(header.length)?;
        let mut reserved = Reserved::nothing();
        self.fill(header.length, &mut reserved).await?;
        let message = self.buffer.split_to(header.length).freeze();
        if !self.buffer.is_empty() {
            // Copied: the few bytes of the next message would otherwise keep all the memory of this one
            // alive.
            self.buffer = BytesMut::from(&*self.buffer);
        }
        self.responder.shared.counters.bytes_in.fetch_add(header.length as u64, Ordering::Relaxed);
        if header.opcode != OP_COMPRESSED {
            return Ok(Received { header, message, compressor: None, reserved });
        }
        self.responder.unpack(message, header, reserved).await
    }

    /// Sends an answer. Returns the number of its message.
    async fn send(
        &mut self,
        response: Response,
        response_to: i32,
        compressor: Option<Compressor>,
    ) -> Result<i32, Ended> {
        let request_id = self.responder.shared.next_request_id();
        let set = self.responder.shared.settings.replica_set.as_deref();
        let timed = |reply: Reply| {
            let reply = reply.within_message();
            match set {
                Some(set) => reply.with_times(set.next_time()),
                None => reply,
            }
        };
        let (message, mut reserved) = match response {
            Response::Nothing => return Ok(request_id),
            Response::Message(reply) | Response::Last(reply) => {
                timed(reply).into_message(request_id, response_to)
            }
            Response::Repeated(reply, _) => {
                let (mut message, reserved) = timed(reply).into_message(request_id, response_to);
                announce_another(&mut message);
                (message, reserved)
            }
            Response::Legacy(reply, flags) => {
                (reply::bytes(timed(reply).document(), flags, request_id, response_to), Reserved::nothing())
            }
        };
        self.responder.charge(&mut reserved, message.len()).await?;
        let message = match compressor {
            None => message,
            Some(compressor) => {
                self.responder.offload(message.len(), move || pack(&message, compressor)).await??
            }
        };
        self.responder.shared.counters.bytes_out.fetch_add(message.len() as u64, Ordering::Relaxed);
        let pause_max = self.responder.shared.settings.message_timeout;
        // No other answer can exceed the budget while this one does, so it has less time.
        let (pause_max, time_max) = if reserved.is_overdrawn() {
            (pause_max / 10, pause_max)
        } else {
            (pause_max, transfer_timeout(message.len(), pause_max))
        };
        let slow = || Ended::Slow(message.len());
        let writing = async {
            // Part by part, so that a client that receives nothing is noticed before the time of the whole
            // answer.
            for part in message.chunks(WRITE_BYTES) {
                timeout(pause_max, self.stream.write_all(part)).await.map_err(|_| slow())??;
            }
            Ok::<(), Ended>(self.stream.flush().await?)
        };
        let written = timeout(time_max, writing).await;
        written.map_err(|_| slow())??;
        Ok(request_id)
    }
}

impl Responder {
    fn is_stranger(&self) -> bool {
        self.peer.is_stranger(&self.shared.settings)
    }

    /// Rejects a message that is too large for a stranger.
    fn check_length(&self, bytes: usize) -> Result<(), Ended> {
        if bytes > STRANGER_MESSAGE_BYTES_MAX && self.is_stranger() {
            return Err(Ended::LargeBeforeLogin(bytes));
        }
        Ok(())
    }

    /// Reserves memory for a message that is being read. Strangers have a budget of their own, so that they
    /// leave users theirs.
    async fn reserve(&self, reserved: &mut Reserved, bytes: usize) -> Result<(), Ended> {
        if bytes <= UNCHARGED_BYTES {
            return Ok(());
        }
        // The connection may have logged in since its last message, so the budget is chosen again each time.
        let Shared { requests, greetings, settings, .. } = &*self.shared;
        let budget: &Budget = if self.is_stranger() { greetings } else { requests };
        let given = budget.grow(reserved, bytes, settings.message_timeout).await;
        given.map_err(|_| Ended::Overloaded(format!("there was no memory for a message of {bytes} bytes")))
    }

    /// Reserves memory for an answer that holds none yet. The answer's bytes exist already, so few answers may
    /// wait for it.
    async fn charge(&self, reserved: &mut Reserved, bytes: usize) -> Result<(), Ended> {
        let Shared { answers, unsent, settings, .. } = &*self.shared;
        if answers.try_grow(reserved, bytes) {
            return Ok(());
        }
        let overloaded =
            || Ended::Overloaded(format!("there was no memory to send an answer of {bytes} bytes"));
        // Not waited for: those who wait here hold memory that no budget knows of.
        let _turn = unsent.try_acquire().map_err(|_| overloaded())?;
        answers.grow(reserved, bytes, settings.message_timeout).await.map_err(|_| overloaded())
    }

    /// The message inside a compressed one. The compressed bytes and their memory are held until they are
    /// unpacked.
    async fn unpack(&self, message: Bytes, header: Header, packed: Reserved) -> Result<Received, Ended> {
        let compressed = Compressed::parse(&message, &self.peer.compressors())?;
        drop(message);
        let bytes = HEADER_BYTES + usize::try_from(compressed.announced).unwrap_or(0);
        // A stranger may not evade its limit by compression.
        self.check_length(bytes)?;
        let mut reserved = Reserved::nothing();
        self.reserve(&mut reserved, bytes).await?;
        let compressor = Some(compressed.compressor);
        let unpack = move || {
            // Moved into the closure: the memory is given back with the bytes that it represents, not before.
            let _packed = packed;
            compressed.unpack(header.request_id, header.response_to)
        };
        let message = self.offload(bytes, unpack).await??;
        let header = Header::parse(message.first_chunk().ok_or(Ended::Torn)?)?;
        // Inside may also be a reply, which no client sends to a server.
        if !matches!(header.opcode, OP_MSG | OP_QUERY) {
            return Err(FrameError::Opcode(header.opcode).into());
        }
        Ok(Received { header, message, compressor, reserved })
    }

    /// Runs `work` on many bytes where it does not keep other connections waiting.
    async fn offload<R: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Ended> {
        // To hand over a small message would need longer than the work itself.
        if bytes <= SMALL_MESSAGE_BYTES {
            return Ok(work());
        }
        let holder = self.peer.holder(&self.shared.settings);
        let done = self.shared.pool.run(holder, None, work).await;
        done.map_err(|failure| {
            Ended::Overloaded(format!("a message could not be handled: code {}", failure.code()))
        })
    }

    async fn respond(&self, received: Received) -> Result<Response, Ended> {
        let Received { header, message, reserved, .. } = received;
        if header.opcode == OP_QUERY {
            return self.respond_to_query(&message).await;
        }
        let message = match Message::parse(&message) {
            Ok(message) => message,
            Err(error) => return refuse(error),
        };
        // Asked before the message becomes a command, which owns it from then on.
        let wants_no_answer = message.wants_no_answer();
        let response = match Command::of_message(message) {
            Ok(command) => {
                let again = command.repeated();
                response_of(answer(self.call(command, reserved)).await, again)?
            }
            Err(failure) => Response::Message(failure.into()),
        };
        // Even an unacknowledged command is answered when the connection is closed after it.
        Ok(if wants_no_answer && !matches!(response, Response::Last(_)) {
            Response::Nothing
        } else {
            response
        })
    }

    /// Runs a command again for a client that accepts several answers.
    async fn repeat(&self, command: Command) -> Result<Response, Ended> {
        let again = command.repeated();
        response_of(answer(self.call(command, Reserved::nothing())).await, again)
    }

    /// Answers an `OP_QUERY`: only a hello, which drivers send before they know the server's version.
    async fn respond_to_query(&self, message: &Bytes) -> Result<Response, Ended> {
        let query = Query::parse(message)?;
        // MongoDB 8.0 does not answer queries of collections in this protocol either.
        let Some(database) = query.command_database() else {
            return Err(FrameError::Opcode(OP_QUERY).into());
        };
        let reply = match Command::of_query(database, &query.document) {
            Ok(command) if matches!(command.name(), "hello" | "isMaster" | "ismaster") => {
                match answer(self.call(command, Reserved::nothing())).await {
                    Outcome::Answer(reply) | Outcome::Last(reply) => reply,
                    Outcome::Close => return Err(Ended::FailPoint),
                }
            }
            Ok(command) => {
                let name = command.name();
                let message = format!(
                    "Unsupported OP_QUERY command: {name}. The client driver may require an upgrade."
                );
                Failure::new(Code::UNSUPPORTED_OP_QUERY_COMMAND, message).into()
            }
            // The flag is how the old protocol gives a failure; a reply alone would look like a document.
            Err(failure) => return Ok(Response::Legacy(failure.into(), reply::QUERY_FAILURE)),
        };
        Ok(Response::Legacy(reply, 0))
    }

    fn call(&self, command: Command, reserved: Reserved) -> Call {
        Call {
            cancellation: CancellationToken::new(),
            operation_id: 0,
            shared: Arc::clone(&self.shared),
            peer: Arc::clone(&self.peer),
            command,
            numbered: None,
            turn: None,
            span: None,
            _reserved: reserved,
        }
    }
}

/// The response for an outcome. `again` is the command that the client wants to run again.
fn response_of(outcome: Outcome, again: Option<Command>) -> Result<Response, Ended> {
    match (outcome, again) {
        // A failure ends the series, as in MongoDB: the client would get the same failure for ever.
        (Outcome::Answer(reply), Some(again)) if reply.is_ok() => Ok(Response::Repeated(reply, again)),
        (Outcome::Answer(reply), _) => Ok(Response::Message(reply)),
        (Outcome::Last(reply), _) => Ok(Response::Last(reply)),
        (Outcome::Close, _) => Err(Ended::FailPoint),
    }
}

/// Answers a message that is whole but malformed, or ends the connection if its bytes cannot be trusted.
fn refuse(error: FrameError) -> Result<Response, Ended> {
    let code = match &error {
        FrameError::SectionKind(_) => Code::MESSAGE_UNKNOWN_SECTION,
        FrameError::Bodies(0) => Code::MESSAGE_BODY_MISSING,
        FrameError::Bodies(_) => Code::MESSAGE_BODY_TWICE,
        FrameError::SectionTwice(_) => Code::MESSAGE_SEQUENCE_TWICE,
        FrameError::Sections(_) => Code::FAILED_TO_PARSE,
        FrameError::SectionLength { .. }
        | FrameError::Name
        | FrameError::Document(_)
        | FrameError::Truncated(_) => Code::INVALID_BSON,
        // After these errors it is unknown where the next message begins, or whether the sender meant what
        // arrived.
        FrameError::MessageLength(_)
        | FrameError::Opcode(_)
        | FrameError::Flags(_)
        | FrameError::Trailing(_)
        | FrameError::Checksum { .. }
        | FrameError::Compressor(_)
        | FrameError::Decompression { .. } => return Err(error.into()),
    };
    Ok(Response::Message(Failure::new(code, error.to_string()).into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cairndb::Client;

    use super::*;
    use crate::ends::{ConnectionEnds, LocalEnd};
    use crate::server::Server;

    /// Noop compression of a message of that length.
    fn packed(bytes: usize) -> Bytes {
        let header = Header { length: HEADER_BYTES + bytes, request_id: 1, response_to: 0, opcode: OP_MSG };
        pack(&[&header.bytes()[..], &vec![0; bytes]].concat(), Compressor::Noop).expect("packed").into()
    }

    /// The reservation of a compressed message was given back while its bytes were kept: 60 connections that
    /// waited for memory for what was inside used 1.2 GB.
    #[tokio::test]
    async fn a_compressed_message_holds_its_memory_until_it_is_unpacked() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("a store");
        let server = Server::builder(client).request_bytes_max(1 << 20).unbound().expect("a server");
        let shared = Arc::clone(&server.shared);
        let ends = ConnectionEnds { client: "test".to_owned(), local: LocalEnd::Stream };
        let peer = Arc::new(shared.new_peer(ends));
        peer.agree_on(vec![Compressor::Noop]);
        let responder = Responder { shared: Arc::clone(&shared), peer };
        let patience = Duration::from_secs(10);
        let (mut held, mut rest, mut beyond) =
            (Reserved::nothing(), Reserved::nothing(), Reserved::nothing());
        assert!(shared.requests.try_grow(&mut held, 501 << 10));
        assert!(shared.requests.try_grow(&mut rest, 523 << 10));
        // Another message exceeds the budget, so that this one has to wait.
        assert!(
            shared.requests.grow(&mut beyond, 100 << 10, patience).await.is_ok() && beyond.is_overdrawn()
        );
        let message = packed(500 << 10);
        let header = Header::parse(message.first_chunk().expect("a header")).expect("a header");
        let mut unpacking = std::pin::pin!(responder.unpack(message, header, held));
        assert!(timeout(Duration::from_millis(20), &mut unpacking).await.is_err(), "there is no memory yet");
        assert!(!shared.requests.try_grow(&mut Reserved::nothing(), 100 << 10), "it still holds its memory");
        drop((rest, beyond));
        let received = timeout(patience, unpacking).await.expect("there is memory").expect("unpacked");
        assert_eq!(received.message.len(), HEADER_BYTES + (500 << 10));
        assert!(
            !shared.requests.try_grow(&mut Reserved::nothing(), 600 << 10),
            "the message holds its memory"
        );
        drop(received);
        assert!(shared.requests.try_grow(&mut Reserved::nothing(), 1 << 20));
    }
}
