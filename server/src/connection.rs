//! One connection: a message is read, answered and only then the next one read, so a client that does not take its
//! answers is not read from.
//!
//! What stands half in a buffer is bounded in bytes and in time. A client may be idle for as long as it likes, but
//! between two messages, not within one; and only one that has logged in, where clients must.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cairndb::CancellationToken;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

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

/// Room that a message is given by its announcement alone: the system gives memory only for what arrives. Also the most that
/// is taken of the budget before it arrives.
const ROOM_BYTES: usize = 1 << 20;
/// How much of an answer a client has to take without a pause that is too long.
const WRITE_BYTES: usize = 64 << 10;
/// How long saying goodbye may take.
const END: Duration = Duration::from_secs(1);

/// Why a connection ended, when it was not the client who closed it between two messages.
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
    #[error("nothing was heard of the client, which has not logged in")]
    IdleBeforeLogin,
    #[error("a fail point closed the connection")]
    FailPoint,
    #[error("too many logins failed")]
    Guessing,
}

/// Serves a connection until one side ends it.
pub(crate) async fn serve(shared: Arc<Shared>, peer: Peer, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let peer = Arc::new(peer);
    tracing::debug!(connection = peer.id, from = %peer.address, "accepted a connection");
    count(&shared.counters.connections_total);
    count(&shared.counters.connections);
    let (id, counters) = (peer.id, Arc::clone(&shared));
    let mut connection = Connection { desk: Desk { shared, peer }, stream, buffer: BytesMut::new() };
    let ended = connection.run().await;
    // Nothing else would ever end a cursor without a timeout and without a session.
    counters.cursors.kill_where(|owner| owner.stays && owner.session.is_none() && owner.connection == id);
    // TLS has an end of its own, which tells the client that nothing was cut off. Who is gone does not hear it.
    let _ = timeout(END, connection.stream.shutdown()).await;
    counters.counters.connections.fetch_sub(1, Ordering::Relaxed);
    match ended {
        Ok(()) => tracing::debug!(connection = id, "the connection ended"),
        // Whoever goes away without a word is no event: clients are killed, and networks fail.
        Err(error @ (Ended::Io(_) | Ended::Torn)) => {
            tracing::debug!(connection = id, %error, "the connection broke");
        }
        Err(error) => {
            count(&counters.counters.malformed);
            tracing::info!(connection = id, %error, "closed a connection");
        }
    }
}

struct Connection<S> {
    desk: Desk,
    stream: S,
    /// What was read of the next message.
    buffer: BytesMut,
}

/// Who a connection is, and whose: all of it but the stream.
#[derive(Clone)]
struct Desk {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
}

/// A whole message with its header.
struct Received {
    header: Header,
    message: Bytes,
    /// How the answer is to be compressed.
    compressor: Option<Compressor>,
    /// What the message holds of the budget.
    reserved: Reserved,
}

/// What is to be sent back.
enum Response {
    Nothing,
    Message(Reply),
    /// The same, and then the command is run again: the client takes all answers that come.
    Repeated(Reply, Command),
    /// The same, and nothing after it.
    Last(Reply),
    /// To a query of old.
    Legacy(Reply, u32),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> Result<(), Ended> {
        while let Some(header) = self.next_header().await? {
            let received = self.receive(header).await?;
            count(&self.desk.shared.counters.requests);
            let (mut response_to, compressor) = (received.header.request_id, received.compressor);
            let mut response = self.desk.respond(received).await?;
            // An answer that was not asked for answers the one before it.
            while let Response::Repeated(reply, command) = response {
                response_to =
                    self.send(Response::Repeated(reply, command.clone()), response_to, compressor).await?;
                response = self.desk.repeat(command).await?;
            }
            let is_last = matches!(response, Response::Last(_));
            self.send(response, response_to, compressor).await?;
            if is_last {
                return Err(Ended::Guessing);
            }
        }
        Ok(())
    }

    /// Waits for the next message; nothing at the end of the connection, or of the server.
    async fn next_header(&mut self) -> Result<Option<Header>, Ended> {
        if self.buffer.is_empty() {
            // What a large message took is not kept while nothing is there.
            self.buffer = BytesMut::new();
            let mut stopping = self.desk.shared.stopping.clone();
            let is_stranger = self.desk.is_stranger();
            let login_timeout = self.desk.shared.settings.login_timeout;
            let read = tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => return Ok(None),
                read = self.stream.read_buf(&mut self.buffer) => read?,
                () = tokio::time::sleep(login_timeout), if is_stranger => return Err(Ended::IdleBeforeLogin),
            };
            if read == 0 {
                return Ok(None);
            }
        } else if *self.desk.shared.stopping.borrow() {
            return Ok(None);
        }
        self.fill(HEADER_BYTES, &mut Reserved::nothing()).await?;
        let header = self.buffer.first_chunk().ok_or(Ended::Torn)?;
        Ok(Some(Header::parse(header)?))
    }

    /// Reads until the buffer holds `bytes`. The client may not stand still, nor be too slow altogether.
    async fn fill(&mut self, bytes: usize, reserved: &mut Reserved) -> Result<(), Ended> {
        let Self { desk, stream, buffer } = self;
        let pause_max = desk.shared.settings.message_timeout;
        let mut end = Instant::now() + transfer_timeout(bytes, pause_max);
        while buffer.len() < bytes {
            let (arrived, missing) = (buffer.len(), bytes - buffer.len());
            // Who has sent little is given little of the budget, whatever was announced.
            let next = missing.min(arrived.clamp(UNCHARGED_BYTES, ROOM_BYTES));
            desk.reserve(reserved, arrived + next).await?;
            if reserved.is_overdrawn() {
                // No other message can go beyond the budget meanwhile.
                end = end.min(Instant::now() + pause_max);
            }
            // The room follows what came, not what was announced, beyond what a batch needs.
            buffer.reserve(missing.min(arrived.max(ROOM_BYTES)));
            let pause = end.min(Instant::now() + pause_max);
            let mut room = (&mut *buffer).limit(next);
            let read = timeout_at(pause, stream.read_buf(&mut room)).await;
            if read.map_err(|_| Ended::Slow(bytes))?? == 0 {
                return Err(Ended::Torn);
            }
        }
        Ok(())
    }

    async fn receive(&mut self, header: Header) -> Result<Received, Ended> {
        if !matches!(header.opcode, OP_MSG | OP_QUERY | OP_COMPRESSED) {
            return Err(FrameError::Opcode(header.opcode).into());
        }
        self.desk.admit(header.length)?;
        let mut reserved = Reserved::nothing();
        self.fill(header.length, &mut reserved).await?;
        let message = self.buffer.split_to(header.length).freeze();
        if !self.buffer.is_empty() {
            // What came of the next message would keep all of this one's memory.
            self.buffer = BytesMut::from(&*self.buffer);
        }
        self.desk.shared.counters.bytes_in.fetch_add(header.length as u64, Ordering::Relaxed);
        if header.opcode != OP_COMPRESSED {
            return Ok(Received { header, message, compressor: None, reserved });
        }
        self.desk.unpack(message, header, reserved).await
    }

    /// Sends an answer; gives its number.
    async fn send(
        &mut self,
        response: Response,
        response_to: i32,
        compressor: Option<Compressor>,
    ) -> Result<i32, Ended> {
        let request_id = self.desk.shared.next_request_id();
        let (message, mut reserved) = match response {
            Response::Nothing => return Ok(request_id),
            Response::Message(reply) | Response::Last(reply) => reply.into_message(request_id, response_to),
            Response::Repeated(reply, _) => {
                let (mut message, reserved) = reply.into_message(request_id, response_to);
                announce_another(&mut message);
                (message, reserved)
            }
            Response::Legacy(reply, flags) => {
                (reply::bytes(reply.document(), flags, request_id, response_to), Reserved::nothing())
            }
        };
        self.desk.charge(&mut reserved, message.len()).await?;
        let message = match compressor {
            None => message,
            Some(compressor) => self.desk.work(message.len(), move || pack(&message, compressor)).await??,
        };
        self.desk.shared.counters.bytes_out.fetch_add(message.len() as u64, Ordering::Relaxed);
        let pause_max = self.desk.shared.settings.message_timeout;
        // No other answer can go beyond the budget while this one does.
        let (pause_max, time_max) = if reserved.is_overdrawn() {
            (pause_max / 10, pause_max)
        } else {
            (pause_max, transfer_timeout(message.len(), pause_max))
        };
        let slow = || Ended::Slow(message.len());
        let writing = async {
            // Part by part, so that who takes nothing at all is noticed before the time of the whole is over.
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

impl Desk {
    fn is_stranger(&self) -> bool {
        self.peer.is_stranger(&self.shared.settings)
    }

    /// Refuses what is too much for somebody who has not logged in.
    fn admit(&self, bytes: usize) -> Result<(), Ended> {
        if bytes > STRANGER_MESSAGE_BYTES_MAX && self.is_stranger() {
            return Err(Ended::LargeBeforeLogin(bytes));
        }
        Ok(())
    }

    /// Takes memory for a message that is being read. Strangers have a budget of their own, so that they leave users theirs.
    async fn reserve(&self, reserved: &mut Reserved, bytes: usize) -> Result<(), Ended> {
        if bytes <= UNCHARGED_BYTES {
            return Ok(());
        }
        let Shared { requests, greetings, settings, .. } = &*self.shared;
        let budget: &Budget = if self.is_stranger() { greetings } else { requests };
        let given = budget.grow(reserved, bytes, settings.message_timeout).await;
        given.map_err(|_| Ended::Overloaded(format!("there was no memory for a message of {bytes} bytes")))
    }

    /// Takes memory for an answer that does not hold any yet. Only so many may wait for it, as they have their bytes already.
    async fn charge(&self, reserved: &mut Reserved, bytes: usize) -> Result<(), Ended> {
        let Shared { answers, unsent, settings, .. } = &*self.shared;
        if answers.try_grow(reserved, bytes) {
            return Ok(());
        }
        let overloaded =
            || Ended::Overloaded(format!("there was no memory to send an answer of {bytes} bytes"));
        let _turn = unsent.try_acquire().map_err(|_| overloaded())?;
        answers.grow(reserved, bytes, settings.message_timeout).await.map_err(|_| overloaded())
    }

    /// The message in a compressed one, whose memory is held until it is gone.
    async fn unpack(&self, message: Bytes, header: Header, packed: Reserved) -> Result<Received, Ended> {
        let compressed = Compressed::parse(&message, &self.peer.compressors())?;
        drop(message);
        let bytes = HEADER_BYTES + usize::try_from(compressed.announced).unwrap_or(0);
        self.admit(bytes)?;
        let mut reserved = Reserved::nothing();
        self.reserve(&mut reserved, bytes).await?;
        let compressor = Some(compressed.compressor);
        let unpack = move || {
            let _packed = packed;
            compressed.unpack(header.request_id, header.response_to)
        };
        let message = self.work(bytes, unpack).await??;
        let header = Header::parse(message.first_chunk().ok_or(Ended::Torn)?)?;
        if !matches!(header.opcode, OP_MSG | OP_QUERY) {
            return Err(FrameError::Opcode(header.opcode).into());
        }
        Ok(Received { header, message, compressor, reserved })
    }

    /// Does what takes long for many bytes where it does not keep other connections waiting.
    async fn work<R: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Ended> {
        if bytes <= SMALL_MESSAGE_BYTES {
            return Ok(work());
        }
        let done = self.shared.pool.run(work).await;
        done.map_err(|failure| {
            Ended::Overloaded(format!("a message was not looked at: code {}", failure.code()))
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
        let wants_no_answer = message.wants_no_answer();
        let response = match Command::of_message(message) {
            Ok(command) => {
                let again = command.repeated();
                response_of(answer(self.call(command, reserved)).await, again)?
            }
            Err(failure) => Response::Message(failure.into()),
        };
        Ok(if wants_no_answer && !matches!(response, Response::Last(_)) {
            Response::Nothing
        } else {
            response
        })
    }

    /// Runs a command again whose client takes all answers that come.
    async fn repeat(&self, command: Command) -> Result<Response, Ended> {
        let again = command.repeated();
        response_of(answer(self.call(command, Reserved::nothing())).await, again)
    }

    /// Only what drivers send before they know whom they talk to.
    async fn respond_to_query(&self, message: &Bytes) -> Result<Response, Ended> {
        let query = Query::parse(message)?;
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
                Failure::new(352, "UnsupportedOpQueryCommand", message).into()
            }
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
            _reserved: reserved,
        }
    }
}

/// What is sent for an outcome, and whether the command is to be run again.
fn response_of(outcome: Outcome, again: Option<Command>) -> Result<Response, Ended> {
    match (outcome, again) {
        (Outcome::Answer(reply), Some(again)) if reply.is_ok() => Ok(Response::Repeated(reply, again)),
        (Outcome::Answer(reply), _) => Ok(Response::Message(reply)),
        (Outcome::Last(reply), _) => Ok(Response::Last(reply)),
        (Outcome::Close, _) => Err(Ended::FailPoint),
    }
}

/// A message that is whole but makes no sense: what may be answered is, what must not be believed ends the connection.
fn refuse(error: FrameError) -> Result<Response, Ended> {
    let (code, name) = match &error {
        FrameError::SectionKind(_) => (40_432, "Location40432"),
        FrameError::Bodies(0) => (40_587, "Location40587"),
        FrameError::Bodies(_) => (40_430, "Location40430"),
        FrameError::SectionTwice(_) => (40_431, "Location40431"),
        FrameError::Sections(_) => (9, "FailedToParse"),
        FrameError::SectionLength { .. }
        | FrameError::Name
        | FrameError::Document(_)
        | FrameError::Truncated(_) => (22, "InvalidBSON"),
        FrameError::MessageLength(_)
        | FrameError::Opcode(_)
        | FrameError::Flags(_)
        | FrameError::Trailing(_)
        | FrameError::Checksum { .. }
        | FrameError::Compressor(_)
        | FrameError::Decompression { .. } => return Err(error.into()),
    };
    Ok(Response::Message(Failure::new(code, name, error.to_string()).into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cairndb::Client;

    use super::*;
    use crate::server::Server;

    /// Noop compression of a message of that length.
    fn packed(bytes: usize) -> Bytes {
        let header = Header { length: HEADER_BYTES + bytes, request_id: 1, response_to: 0, opcode: OP_MSG };
        pack(&[&header.bytes()[..], &vec![0; bytes]].concat(), Compressor::Noop).expect("packed").into()
    }

    /// The reservation of a compressed message was given back while its bytes were kept: 60 connections that waited for memory
    /// for what was inside took 1.2 GB.
    #[tokio::test]
    async fn a_compressed_message_holds_its_memory_until_it_is_unpacked() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("a store");
        let server = Server::builder(client).request_bytes_max(1 << 20).unbound().expect("a server");
        let shared = Arc::clone(&server.shared);
        let peer = Arc::new(shared.introduce("test".to_owned()));
        peer.agree_on(vec![Compressor::Noop]);
        let desk = Desk { shared: Arc::clone(&shared), peer };
        let patience = Duration::from_secs(10);
        let (mut held, mut rest, mut beyond) =
            (Reserved::nothing(), Reserved::nothing(), Reserved::nothing());
        assert!(shared.requests.try_grow(&mut held, 501 << 10));
        assert!(shared.requests.try_grow(&mut rest, 523 << 10));
        // Another message goes beyond the budget, so that this one has to wait.
        assert!(
            shared.requests.grow(&mut beyond, 100 << 10, patience).await.is_ok() && beyond.is_overdrawn()
        );
        let message = packed(500 << 10);
        let header = Header::parse(message.first_chunk().expect("a header")).expect("a header");
        let mut unpacking = std::pin::pin!(desk.unpack(message, header, held));
        assert!(timeout(Duration::from_millis(20), &mut unpacking).await.is_err(), "there is no memory yet");
        assert!(!shared.requests.try_grow(&mut Reserved::nothing(), 100 << 10), "its memory was given back");
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
