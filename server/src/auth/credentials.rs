//! The credentials that the server keeps of a password, by RFC 5802: enough to check a proof, not enough to
//! make one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use cairndb::bson::{Document, doc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use stringprep::saslprep;

/// The iterations of the derivation, as many as MongoDB's.
pub(crate) const ITERATIONS: u32 = 15_000;
/// The length of a salt, as in MongoDB: with its counter it fills one block of the derivation.
pub(crate) const SALT_BYTES: usize = 28;

/// The name of the mechanism, also that of its credentials in a user's document.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

/// A key of the mechanism.
pub(crate) type Key = [u8; 32];

/// The reason why a password is not allowed.
///
/// ```
/// # use cairndb::Client;
/// # use cairndb_server::{PasswordError, Role, UserError, Users};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let users = Users::of(&Client::open(folder.path().join("shop"))?);
/// let refused = users.add("ada", "a\u{7}", Role::Root);
/// assert!(matches!(refused, Err(UserError::Password(PasswordError::Prohibited))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// The password has no characters.
    #[error("the password is empty")]
    Empty,
    /// The password has a character that `SASLprep` prohibits.
    #[error("the password has a character that is not allowed in one, a control character for example")]
    Prohibited,
}

/// The stored form of a password. It has no `Debug`, so that it cannot reach a log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) iterations: u32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: Key,
    pub(crate) server_key: Key,
}

impl Credentials {
    pub(crate) fn derive(password: &str, salt: &[u8], iterations: u32) -> Result<Self, PasswordError> {
        if password.is_empty() {
            return Err(PasswordError::Empty);
        }
        let password = saslprep(password).map_err(|_| PasswordError::Prohibited)?;
        // `SASLprep` removes some characters, and may leave none.
        if password.is_empty() {
            return Err(PasswordError::Empty);
        }
        // The slow step: its iterations make guessing from stolen credentials expensive.
        let salted: Key = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, iterations);
        let stored_key = Sha256::digest(authenticate(&salted, b"Client Key")).into();
        let server_key = authenticate(&salted, b"Server Key");
        Ok(Self { iterations, salt: salt.to_vec(), stored_key, server_key })
    }

    /// The credentials of a user who does not exist: one and no other for each name, of the shape of
    /// real ones. No password fits them.
    pub(crate) fn decoy(secret: &Key, name: &str) -> Self {
        // From a secret of the store: a salt that changed with each login would show that the user does not
        // exist.
        let [salt, stored_key, server_key] = [b"salt ".as_slice(), b"stored ", b"server "]
            .map(|purpose| authenticate(secret, &[purpose, name.as_bytes()].concat()));
        let salt = salt.into_iter().take(SALT_BYTES).collect();
        Self { iterations: ITERATIONS, salt, stored_key, server_key }
    }

    /// The credentials as a user's document stores them under the mechanism's name.
    pub(crate) fn to_document(&self) -> Document {
        doc! {
            "iterationCount": i32::try_from(self.iterations).unwrap_or(i32::MAX),
            "salt": BASE64.encode(&self.salt),
            "storedKey": BASE64.encode(self.stored_key),
            "serverKey": BASE64.encode(self.server_key),
        }
    }

    /// Reads stored credentials. Returns `None` if the document does not have their shape.
    pub(crate) fn of_document(document: &Document) -> Option<Self> {
        let bytes = |field: &str| BASE64.decode(document.get_str(field).ok()?).ok();
        let iterations = u32::try_from(document.get_i32("iterationCount").ok()?).ok()?;
        Some(Self {
            // 0 iterations would make the password's hash worthless.
            iterations: Some(iterations).filter(|&iterations| iterations > 0)?,
            salt: bytes("salt").filter(|salt| !salt.is_empty())?,
            stored_key: bytes("storedKey")?.try_into().ok()?,
            server_key: bytes("serverKey")?.try_into().ok()?,
        })
    }
}

/// The HMAC of a message with SHA-256.
pub(crate) fn authenticate(key: &[u8], message: &[u8]) -> Key {
    let mut code = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    code.update(message);
    code.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_come_back_from_a_document() {
        let credentials = Credentials::derive("pencil", b"salt", 2).expect("derived");
        let document = credentials.to_document();
        assert!(Credentials::of_document(&document) == Some(credentials));
        for field in document.keys() {
            let mut broken = document.clone();
            broken.insert(field, 0);
            assert!(Credentials::of_document(&broken).is_none(), "{field}");
            broken.insert(field, "AA==");
            assert!(field == "salt" || Credentials::of_document(&broken).is_none(), "{field}");
        }
    }

    #[test]
    fn passwords_are_prepared() {
        let of = |password| Credentials::derive(password, b"salt", 1).map(|found| found.stored_key);
        assert_eq!(of("IX"), of("I\u{ad}X"));
        assert_eq!(of("IX"), of("\u{2168}"));
        assert_ne!(of("IX"), of("ix"));
        assert_eq!(of(""), Err(PasswordError::Empty));
        assert_eq!(of("\u{ad}"), Err(PasswordError::Empty));
        assert_eq!(of("a\u{7}"), Err(PasswordError::Prohibited));
    }

    #[test]
    fn a_decoy_is_always_the_same() {
        let of = |secret: u8, name| Credentials::decoy(&[secret; 32], name);
        assert!(of(1, "ada") == of(1, "ada"));
        assert!(of(1, "ada").salt != of(1, "bob").salt && of(1, "ada").salt != of(2, "ada").salt);
        assert_eq!((of(1, "ada").salt.len(), of(1, "ada").iterations), (SALT_BYTES, ITERATIONS));
    }
}
