//! One connection: a message is read, answered and only then the next one read, so a client that does not take its
//! answers is not read from.
//!
//! What stands half in a buffer is bounded in bytes and in time. A client may be idle for as long as it likes, but
//! between two messages, not within one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::dispatch::{Answer, Call, Command, Outcome, answer};
use crate::failure::Failure;
use crate::frame::compressed::{Compressed, Compressor, pack};
use crate::frame::header::{HEADER_BYTES, Header, OP_COMPRESSED, OP_MSG, OP_QUERY};
use crate::frame::message::Message;
use crate::frame::query::Query;
use crate::frame::{FrameError, reply};
use crate::limits::{Reserved, SMALL_MESSAGE_BYTES, transfer_timeout};
use crate::reply::Reply;
use crate::shared::{Peer, Shared, count};

/// Room that a message is given by its announcement alone. It is part of the budget, and the system gives memory only for
/// what arrives.
const ROOM_BYTES: usize = 1 << 20;
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
    _reserved: Reserved,
}

/// What is to be sent back.
enum Response {
    Nothing,
    Message(Answer),
    /// The same, and nothing after it.
    Last(Answer),
    /// To a query of old.
    Legacy(Reply, u32),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(&mut self) -> Result<(), Ended> {
        while let Some(header) = self.next_header().await? {
            let received = self.receive(header).await?;
            count(&self.desk.shared.counters.requests);
            let (header, compressor) = (received.header, received.compressor);
            let response = self.desk.respond(&received).await?;
            drop(received);
            let is_last = matches!(response, Response::Last(_));
            self.send(response, header.request_id, compressor).await?;
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
            let read = tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => return Ok(None),
                read = self.stream.read_buf(&mut self.buffer) => read?,
            };
            if read == 0 {
                return Ok(None);
            }
        } else if *self.desk.shared.stopping.borrow() {
            return Ok(None);
        }
        self.fill(HEADER_BYTES).await?;
        let header = self.buffer.first_chunk().ok_or(Ended::Torn)?;
        Ok(Some(Header::parse(header)?))
    }

    /// Reads until the buffer holds so many bytes. The client may not stand still, nor be too slow altogether.
    async fn fill(&mut self, bytes: usize) -> Result<(), Ended> {
        let Self { desk, stream, buffer } = self;
        let pause_max = desk.shared.settings.message_timeout;
        let reading = async {
            while buffer.len() < bytes {
                // The room follows what came, not what was announced, beyond what a batch needs.
                let missing = bytes - buffer.len();
                buffer.reserve(missing.min(buffer.len().max(ROOM_BYTES)));
                let read = timeout(pause_max, stream.read_buf(buffer)).await;
                if read.map_err(|_| Ended::Slow(bytes))?? == 0 {
                    return Err(Ended::Torn);
                }
            }
            Ok(())
        };
        timeout(transfer_timeout(bytes, pause_max), reading).await.map_err(|_| Ended::Slow(bytes))?
    }

    async fn receive(&mut self, header: Header) -> Result<Received, Ended> {
        if !matches!(header.opcode, OP_MSG | OP_QUERY | OP_COMPRESSED) {
            return Err(FrameError::Opcode(header.opcode).into());
        }
        let reserved = self.desk.reserve(header.length).await;
        self.fill(header.length).await?;
        let message = self.buffer.split_to(header.length).freeze();
        self.desk.shared.counters.bytes_in.fetch_add(header.length as u64, Ordering::Relaxed);
        if header.opcode != OP_COMPRESSED {
            return Ok(Received { header, message, compressor: None, _reserved: reserved });
        }
        let compressed = Compressed::parse(&message, &self.desk.peer.compressors())?;
        drop((message, reserved));
        let bytes = HEADER_BYTES + usize::try_from(compressed.announced).unwrap_or(0);
        let reserved = self.desk.reserve(bytes).await;
        let compressor = Some(compressed.compressor);
        let unpack = move || compressed.unpack(header.request_id, header.response_to);
        let message = self.desk.work(bytes, unpack).await??;
        let header = Header::parse(message.first_chunk().ok_or(Ended::Torn)?)?;
        if !matches!(header.opcode, OP_MSG | OP_QUERY) {
            return Err(FrameError::Opcode(header.opcode).into());
        }
        Ok(Received { header, message, compressor, _reserved: reserved })
    }

    async fn send(
        &mut self,
        response: Response,
        response_to: i32,
        compressor: Option<Compressor>,
    ) -> Result<(), Ended> {
        let request_id = self.desk.shared.next_request_id();
        let (message, _reserved) = match response {
            Response::Nothing => return Ok(()),
            Response::Message(Answer { reply, reserved }) | Response::Last(Answer { reply, reserved }) => {
                (reply.into_message(request_id, response_to), reserved)
            }
            Response::Legacy(reply, flags) => {
                (reply::bytes(reply.document(), flags, request_id, response_to), Reserved::nothing())
            }
        };
        let message = match compressor {
            None => message,
            Some(compressor) => self.desk.work(message.len(), move || pack(&message, compressor)).await??,
        };
        self.desk.shared.counters.bytes_out.fetch_add(message.len() as u64, Ordering::Relaxed);
        let writing = async {
            self.stream.write_all(&message).await?;
            self.stream.flush().await
        };
        let pause_max = self.desk.shared.settings.message_timeout;
        let written = timeout(transfer_timeout(message.len(), pause_max), writing).await;
        Ok(written.map_err(|_| Ended::Slow(message.len()))??)
    }
}

impl Desk {
    async fn reserve(&self, bytes: usize) -> Reserved {
        if bytes <= SMALL_MESSAGE_BYTES {
            Reserved::nothing()
        } else {
            self.shared.requests.reserve(bytes).await
        }
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

    async fn respond(&self, received: &Received) -> Result<Response, Ended> {
        if received.header.opcode == OP_QUERY {
            return self.respond_to_query(&received.message).await;
        }
        let message = match Message::parse(&received.message) {
            Ok(message) => message,
            Err(error) => return refuse(error),
        };
        let wants_no_answer = message.wants_no_answer();
        let response = match Command::of_message(message) {
            Ok(command) => match answer(self.call(command)).await {
                Outcome::Answer(answer) => Response::Message(answer),
                Outcome::Last(answer) => Response::Last(answer),
                Outcome::Close => return Err(Ended::FailPoint),
            },
            Err(failure) => {
                Response::Message(Answer { reply: failure.into(), reserved: Reserved::nothing() })
            }
        };
        Ok(if wants_no_answer && !matches!(response, Response::Last(_)) {
            Response::Nothing
        } else {
            response
        })
    }

    /// Only what drivers send before they know whom they talk to.
    async fn respond_to_query(&self, message: &Bytes) -> Result<Response, Ended> {
        let query = Query::parse(message)?;
        let Some(database) = query.command_database() else {
            return Err(FrameError::Opcode(OP_QUERY).into());
        };
        let reply = match Command::of_query(database, &query.document) {
            Ok(command) if matches!(command.name(), "hello" | "isMaster" | "ismaster") => {
                match answer(self.call(command)).await {
                    Outcome::Answer(answer) | Outcome::Last(answer) => answer.reply,
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

    fn call(&self, command: Command) -> Call {
        Call { shared: Arc::clone(&self.shared), peer: Arc::clone(&self.peer), command }
    }
}

/// A message that is whole but makes no sense: what may be answered is, what must not be believed ends the connection.
fn refuse(error: FrameError) -> Result<Response, Ended> {
    let (code, name) = match &error {
        FrameError::SectionKind(_) => (40_432, "Location40432"),
        FrameError::Bodies(0) => (40_587, "Location40587"),
        FrameError::Bodies(_) => (40_430, "Location40430"),
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
    let reply = Failure::new(code, name, error.to_string()).into();
    Ok(Response::Message(Answer { reply, reserved: Reserved::nothing() }))
}
