//! The client's side of a login, written without the server's code.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, doc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::peer::Peer;

pub(crate) const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";

/// A challenge of the server, and the password for it.
pub(crate) struct Login {
    bare: String,
    challenge: String,
    password: String,
}

pub(crate) fn payload(message: &str) -> Bson {
    Binary { subtype: BinarySubtype::Generic, bytes: message.as_bytes().to_vec() }.into()
}

pub(crate) fn text(reply: &Document) -> String {
    let payload = reply.get_binary_generic("payload").unwrap_or_else(|_| panic!("no payload in {reply}"));
    String::from_utf8(payload.clone()).expect("text")
}

pub(crate) fn start(name: &str) -> Document {
    doc! {
        "saslStart": 1,
        "mechanism": "SCRAM-SHA-256",
        "payload": payload(&format!("n,,n={name},r={NONCE}")),
        "options": { "skipEmptyExchange": true },
    }
}

/// The field with which a driver says which database it means.
pub(crate) fn on_admin(mut command: Document) -> Document {
    command.insert("$db", "admin");
    command
}

/// Logs in. Fails with the reply that rejects the login.
pub(crate) fn log_in(peer: &mut Peer, name: &str, password: &str) -> Result<(), Document> {
    let started = peer.run(on_admin(start(name)));
    if started.get_f64("ok").ok() != Some(1.0) {
        return Err(started);
    }
    let login = Login::new(name, password, &text(&started));
    let ended = peer.run(go_on(&login.proof()));
    if ended.get_f64("ok").ok() != Some(1.0) {
        return Err(ended);
    }
    assert_eq!((ended.get_bool("done").ok(), text(&ended)), (Some(true), login.signature()));
    Ok(())
}

pub(crate) fn go_on(message: &str) -> Document {
    on_admin(doc! { "saslContinue": 1, "conversationId": 1, "payload": payload(message) })
}

impl Login {
    pub(crate) fn new(name: &str, password: &str, challenge: &str) -> Self {
        let bare = format!("n={name},r={NONCE}");
        Self { bare, challenge: challenge.to_owned(), password: password.to_owned() }
    }

    pub(crate) fn proof(&self) -> String {
        let client_key = hmac(&self.salted(), "Client Key");
        let signature = hmac(&Sha256::digest(&client_key), &self.transcript());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(left, right)| left ^ right).collect();
        format!("{},p={}", self.last(), BASE64.encode(proof))
    }

    /// The server's signature.
    pub(crate) fn signature(&self) -> String {
        let key = hmac(&self.salted(), "Server Key");
        format!("v={}", BASE64.encode(hmac(&key, &self.transcript())))
    }

    fn attribute(&self, name: &str) -> &str {
        let mut attributes = self.challenge.split(',');
        attributes.find_map(|attribute| attribute.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"))
    }

    fn salted(&self) -> Vec<u8> {
        let salt = BASE64.decode(self.attribute("s=")).expect("base64");
        let iterations = self.attribute("i=").parse().expect("a number");
        pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(self.password.as_bytes(), &salt, iterations).to_vec()
    }

    fn last(&self) -> String {
        format!("c=biws,r={}", self.attribute("r="))
    }

    fn transcript(&self) -> String {
        format!("{},{},{}", self.bare, self.challenge, self.last())
    }
}

fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let mut code = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    code.update(message.as_bytes());
    code.finalize().into_bytes().to_vec()
}
