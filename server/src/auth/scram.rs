//! The server's side of SCRAM by RFC 5802 and RFC 7677, as pure functions from message to message.
//!
//! The client sends a name and a nonce. The server adds a nonce of its own, the salt and the number of
//! iterations. The client proves that it knows the password, and the server that it knows the credentials.
//! The time of the check depends neither on whether the proof is right nor on whether the user exists.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::auth::credentials::{Credentials, Key, authenticate};

/// The longest message of a client, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;
const PROOF: &str = ",p=";

/// The reason why a message is rejected. The client does not learn which reason it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejected {
    #[error("the message is malformed: {0}")]
    Malformed(&'static str),
    #[error("the client asks for what is not supported: {0}")]
    Unsupported(&'static str),
    #[error("the nonce is not the one of this conversation")]
    Nonce,
    #[error("the proof does not fit")]
    Proof,
}

/// The first message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientFirst<'a> {
    /// The beginning, about channel binding and acting for others, which the client repeats in its last
    /// message.
    front: &'a str,
    /// Everything after the beginning.
    bare: &'a str,
    nonce: &'a str,
    /// The name of the user.
    pub(crate) user: String,
}

/// A conversation in which the server waits for the client's proof.
pub(crate) struct Exchange {
    front: String,
    nonce: String,
    /// The messages until now, which the proof covers.
    transcript: String,
    credentials: Credentials,
    is_known: Choice,
}

impl<'a> ClientFirst<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Rejected> {
        let message = text(message)?;
        let mut parts = message.splitn(3, ',');
        let (binding, identity) = (parts.next(), parts.next());
        let bare = parts.next().ok_or(Rejected::Malformed("it has no user"))?;
        match binding {
            // With "y" the client could bind the channel, and rightly holds that the server cannot.
            Some("n" | "y") => {}
            Some(binding) if binding.starts_with("p=") => {
                return Err(Rejected::Unsupported("channel binding"));
            }
            _ => return Err(Rejected::Malformed("it does not begin with a flag of channel binding")),
        }
        if identity != Some("") {
            return Err(Rejected::Unsupported("to act for another user"));
        }
        // A slice of what the client sent: the last message repeats these bytes exactly.
        let front = message.get(..message.len() - bare.len()).unwrap_or_default();
        let mut attributes = bare.split(',');
        let user = attributes.next().unwrap_or_default();
        // By the RFC a server that does not know a mandatory extension must reject it.
        if user.starts_with("m=") {
            return Err(Rejected::Unsupported("an extension"));
        }
        let user = user.strip_prefix("n=").ok_or(Rejected::Malformed("it has no user"))?;
        // Attributes after the nonce are extensions, which the RFC lets a server ignore.
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        let nonce =
            nonce.filter(|nonce| !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic()));
        let nonce = nonce.ok_or(Rejected::Malformed("it has no nonce of printable characters"))?;
        Ok(Self { front, bare, nonce, user: unescape(user)? })
    }
}

impl Exchange {
    /// Answers a first message. Returns the challenge, and what is needed to judge the client's answer to it.
    pub(crate) fn begin(
        first: &ClientFirst<'_>,
        credentials: Credentials,
        is_known: bool,
        nonce: &str,
    ) -> (Self, String) {
        // The client must repeat both nonces, so that neither side can replay an old conversation.
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = BASE64.encode(&credentials.salt);
        let challenge = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let transcript = format!("{},{challenge}", first.bare);
        let front = first.front.to_owned();
        // A `Choice` and not a `bool`, so that the check below cannot branch on it by accident.
        let is_known = Choice::from(u8::from(is_known));
        (Self { front, nonce, transcript, credentials, is_known }, challenge)
    }

    /// Judges the client's proof. Returns the server's proof.
    pub(crate) fn finish(self, message: &[u8]) -> Result<String, Rejected> {
        let message = text(message)?;
        // The last one: an extension before the proof may contain the same characters.
        let at = message.rfind(PROOF).ok_or(Rejected::Malformed("it has no proof"))?;
        let (before, proof) = message.split_at(at);
        let proof = proof.get(PROOF.len()..).and_then(|proof| BASE64.decode(proof).ok());
        let proof = proof.and_then(|proof| Key::try_from(proof).ok());
        let proof = proof.ok_or(Rejected::Malformed("its proof has the wrong length"))?;
        let mut attributes = before.split(',');
        let front = attributes.next().and_then(|front| front.strip_prefix("c="));
        let front = front.and_then(|front| BASE64.decode(front).ok());
        if front.as_deref() != Some(self.front.as_bytes()) {
            return Err(Rejected::Malformed("it does not repeat the beginning of the first message"));
        }
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        if nonce != Some(self.nonce.as_str()) {
            return Err(Rejected::Nonce);
        }
        // The proof covers all messages, so an attacker in between cannot have changed any of them.
        let transcript = format!("{},{before}", self.transcript);
        let signature = authenticate(&self.credentials.stored_key, transcript.as_bytes());
        // The proof is the client key, combined with a signature that only this conversation has.
        let mut client_key = proof;
        for (byte, mask) in client_key.iter_mut().zip(signature) {
            *byte ^= mask;
        }
        let found: Key = Sha256::digest(client_key).into();
        // Both in constant time and joined without a branch: a wrong proof needs as long as an unknown user.
        let is_right = found.ct_eq(&self.credentials.stored_key) & self.is_known;
        // Computed for rejected proofs as well, so that the time does not distinguish them.
        let signature = authenticate(&self.credentials.server_key, transcript.as_bytes());
        if bool::from(is_right) {
            Ok(format!("v={}", BASE64.encode(signature)))
        } else {
            Err(Rejected::Proof)
        }
    }
}

fn text(message: &[u8]) -> Result<&str, Rejected> {
    // Before anything is parsed: the sender has not logged in.
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(Rejected::Malformed("it is too long"));
    }
    let text = std::str::from_utf8(message).map_err(|_| Rejected::Malformed("it is not UTF-8"))?;
    if text.contains('\0') { Err(Rejected::Malformed("it has a NUL")) } else { Ok(text) }
}

/// Decodes a name, in which `=2C` represents a comma and `=3D` for an equals sign.
fn unescape(name: &str) -> Result<String, Rejected> {
    let mut parts = name.split('=');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = if let Some(rest) = part.strip_prefix("2C") {
            (',', rest)
        } else if let Some(rest) = part.strip_prefix("3D") {
            ('=', rest)
        } else {
            return Err(Rejected::Malformed("an equals sign in the name is not escaped"));
        };
        whole.push(character);
        whole.push_str(rest);
    }
    if whole.is_empty() { Err(Rejected::Malformed("the name is empty")) } else { Ok(whole) }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 7677.
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const CHALLENGE: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SIGNATURE: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn exchange(password: &str, is_known: bool) -> Exchange {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let credentials = Credentials::derive(password, &salt, 4096).expect("derived");
        let first = ClientFirst::parse(FIRST).expect("parsed");
        assert_eq!(first.user, "user");
        let (exchange, challenge) = Exchange::begin(&first, credentials, is_known, NONCE);
        assert_eq!(challenge, CHALLENGE);
        exchange
    }

    #[test]
    fn the_example_of_the_rfc_is_admitted() {
        assert_eq!(exchange("pencil", true).finish(LAST.as_bytes()).as_deref(), Ok(SIGNATURE));
    }

    #[test]
    fn a_wrong_password_and_an_unknown_user_are_rejected() {
        assert_eq!(exchange("pencils", true).finish(LAST.as_bytes()), Err(Rejected::Proof));
        assert_eq!(exchange("pencil", false).finish(LAST.as_bytes()), Err(Rejected::Proof));
    }

    #[track_caller]
    fn refuse_last(message: &str, expected: Rejected) {
        assert_eq!(exchange("pencil", true).finish(message.as_bytes()), Err(expected));
    }

    #[test]
    fn what_is_no_answer_to_the_challenge_is_rejected() {
        refuse_last("", Rejected::Malformed("it has no proof"));
        refuse_last(&LAST.replace(",p=", ",q="), Rejected::Malformed("it has no proof"));
        refuse_last(&LAST.replace("p=dHzb", "p=dHz*"), Rejected::Malformed("its proof has the wrong length"));
        refuse_last(&LAST.replace("dVQ=", ""), Rejected::Malformed("its proof has the wrong length"));
        let front = Rejected::Malformed("it does not repeat the beginning of the first message");
        refuse_last(&LAST.replace("biws", "eSws"), front);
        refuse_last(LAST.strip_prefix("c=biws,").expect("it begins so"), front);
        refuse_last(&LAST.replace("rOprN", "rOprM"), Rejected::Nonce);
        refuse_last(&LAST.replace("hNlF$k0", "hNlF$k"), Rejected::Nonce);
        refuse_last(&LAST.replace(",p=", ",x=1,p="), Rejected::Proof);
    }

    #[track_caller]
    fn refuse_first(message: &[u8], expected: Rejected) {
        assert_eq!(ClientFirst::parse(message), Err(expected));
    }

    #[test]
    fn what_is_no_first_message_is_rejected() {
        let no_flag = Rejected::Malformed("it does not begin with a flag of channel binding");
        let no_user = Rejected::Malformed("it has no user");
        let no_nonce = Rejected::Malformed("it has no nonce of printable characters");
        refuse_first(b"", no_user);
        refuse_first(b"n,,", no_user);
        refuse_first(b"q,,n=user,r=a", no_flag);
        refuse_first(b"p=tls-unique,,n=user,r=a", Rejected::Unsupported("channel binding"));
        refuse_first(b"n,a=other,n=user,r=a", Rejected::Unsupported("to act for another user"));
        refuse_first(b"n,,m=1,n=user,r=a", Rejected::Unsupported("an extension"));
        refuse_first(b"n,,r=a,n=user", no_user);
        refuse_first(b"n,,n=user", no_nonce);
        refuse_first(b"n,,n=user,r=", no_nonce);
        refuse_first(b"n,,n=user,r=a b", no_nonce);
        refuse_first(b"n,,n=,r=a", Rejected::Malformed("the name is empty"));
        refuse_first(b"n,,n=a=2Db,r=a", Rejected::Malformed("an equals sign in the name is not escaped"));
        refuse_first(b"n,,n=a\0,r=a", Rejected::Malformed("it has a NUL"));
        refuse_first(b"n,,n=\xff,r=a", Rejected::Malformed("it is not UTF-8"));
        refuse_first(&[b'n'; MESSAGE_BYTES_MAX + 1], Rejected::Malformed("it is too long"));
    }

    #[test]
    fn names_are_unescaped() {
        let first = ClientFirst::parse(b"y,,n=a=2Cb=3D=2C,r=x,future=1").expect("parsed");
        assert_eq!((first.user.as_str(), first.nonce, first.front), ("a,b=,", "x", "y,,"));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_judged(bytes in vec(any::<u8>(), 0..100), printable in "[n,=rcpa-z0-9]{0,60}") {
            for message in [bytes.as_slice(), printable.as_bytes(), format!("n,,n=u,r={printable}").as_bytes()] {
                let _ = ClientFirst::parse(message);
                prop_assert!(exchange_of_one_round().finish(message).is_err());
            }
        }
    }

    fn exchange_of_one_round() -> Exchange {
        let credentials = Credentials::derive("pencil", b"salt", 1).expect("derived");
        Exchange::begin(&ClientFirst::parse(FIRST).expect("parsed"), credentials, true, NONCE).0
    }
}
