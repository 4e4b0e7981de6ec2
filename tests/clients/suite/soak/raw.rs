//! A connection without a driver: it sends what no driver would, and does not read what it does not like.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mongodb::bson::{Document, doc};

/// The time that an answer may need: longer than anything that is done here, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Header and flags, and the kind of the only section.
const FRONT_BYTES: usize = 21;

pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(Self(stream))
    }

    /// Sends bytes; `false` if the connection is closed.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// The reply to a command; `None` if the connection is closed.
    pub(crate) fn run(&mut self, command: &Document) -> Option<Document> {
        self.0.write_all(&message(command)).ok()?;
        self.receive()
    }

    /// The next reply; `None` if the connection is closed.
    pub(crate) fn receive(&mut self) -> Option<Document> {
        let mut front = [0; FRONT_BYTES];
        self.0.read_exact(&mut front).ok()?;
        let length = i32::from_le_bytes(*front.first_chunk()?);
        let mut body = vec![0; usize::try_from(length).ok()?.checked_sub(FRONT_BYTES)?];
        self.0.read_exact(&mut body).ok()?;
        Document::from_reader(&*body).ok()
    }

    /// Waits until the other side ends the connection, or for that long.
    pub(crate) fn linger(&mut self, time: Duration) {
        let _ = self.0.set_read_timeout(Some(time));
        let _ = self.0.read(&mut [0]);
    }
}

/// The command as a message.
pub(crate) fn message(command: &Document) -> Vec<u8> {
    let body = command.to_vec().expect("encoded");
    [&front(FRONT_BYTES + body.len())[..], &body].concat()
}

/// The beginning of a message of that length.
pub(crate) fn front(length: usize) -> Vec<u8> {
    let length = i32::try_from(length).expect("a length");
    let mut front: Vec<u8> = [length, 1, 0, 2013, 0].iter().flat_map(|field| field.to_le_bytes()).collect();
    front.push(0);
    front
}

/// A command on the database that is soaked.
pub(crate) fn on_shop(mut command: Document) -> Document {
    command.extend(doc! { "$db": "shop" });
    command
}
