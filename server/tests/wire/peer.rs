//! A client of the server that knows nothing but its protocol.

use std::borrow::Borrow;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use cairndb::bson::{Document, RawDocument, RawDocumentBuf};
use cairndb_server::frame::header::{HEADER_BYTES, Header, OP_MSG};
use cairndb_server::frame::message::{DocumentSequence, Message};

use crate::PATIENCE;

pub(crate) struct Peer {
    stream: TcpStream,
}

/// The reaction of the server to the bytes of a peer.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// The connection was closed.
    Closed,
    /// A document with this code; 0 for one without.
    Document(i32),
}

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream }
    }

    /// Sends bytes. Returns `false` if the connection is closed.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Closes the sending half of the connection.
    pub(crate) fn shut_down_writing(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("it was open");
    }

    /// The next message. Returns `None` if the connection is closed.
    pub(crate) fn receive(&mut self) -> Option<(Header, Bytes)> {
        let mut front = [0; HEADER_BYTES];
        if let Err(error) = self.stream.read_exact(&mut front) {
            let is_end = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
            assert!(is_end, "neither an answer nor an end: {error}");
            return None;
        }
        let header = Header::parse(&front).expect("a header");
        let mut rest = vec![0; header.length - HEADER_BYTES];
        self.stream.read_exact(&mut rest).expect("a whole message");
        Some((header, [front.to_vec(), rest].concat().into()))
    }

    /// Sends bytes. Returns what the server does with them.
    pub(crate) fn answer(&mut self, bytes: &[u8]) -> Answer {
        self.send(bytes);
        match self.receive() {
            None => Answer::Closed,
            Some((header, message)) => {
                assert_eq!(header.opcode, OP_MSG);
                let reply = decode(&Message::parse(&message).expect("an answer").body);
                Answer::Document(reply.get_i32("code").unwrap_or(0))
            }
        }
    }

    /// Sends bytes to a side that does not speak this protocol, and reads its answer up to the end.
    pub(crate) fn answer_or_close(&mut self, bytes: &[u8]) -> Answer {
        self.send(bytes);
        let mut said = Vec::new();
        match self.stream.read_to_end(&mut said) {
            Ok(_) => Answer::Closed,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Answer::Closed,
            Err(error) => panic!("the connection was not closed: {error}"),
        }
    }

    /// Runs a command. Returns its reply.
    #[track_caller]
    pub(crate) fn run(&mut self, command: Document) -> Document {
        self.run_message(&message(command))
    }

    /// Runs a command with a sequence of documents. Returns its reply.
    #[track_caller]
    pub(crate) fn run_with(&mut self, command: Document, field: &str, documents: &[Document]) -> Document {
        let documents: Vec<u8> = documents.iter().flat_map(encode).collect();
        let sequences = vec![DocumentSequence { field: field.to_owned(), documents: documents.into() }];
        self.run_message(&Message { sequences, ..message(command) })
    }

    #[track_caller]
    pub(crate) fn run_message(&mut self, message: &Message) -> Document {
        assert!(self.send(&message.bytes(77, 0)), "the connection is closed");
        let (header, answer) = self.receive().expect("an answer");
        assert_eq!((header.response_to, header.opcode), (77, OP_MSG));
        reply(&answer)
    }
}

pub(crate) fn message(command: impl Borrow<Document>) -> Message {
    Message { flags: 0, body: encode(command.borrow()).into(), sequences: Vec::new() }
}

/// The document of an answer.
pub(crate) fn reply(answer: &Bytes) -> Document {
    decode(&Message::parse(answer).expect("an answer").body)
}

pub(crate) fn encode(document: &Document) -> Vec<u8> {
    RawDocumentBuf::try_from(document).expect("encoded").into_bytes()
}

pub(crate) fn decode(bytes: &[u8]) -> Document {
    Document::try_from(RawDocument::from_bytes(bytes).expect("a document")).expect("decoded")
}
