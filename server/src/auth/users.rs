//! Users: documents of the store in MongoDB's shape, in a collection that no command can reach.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, doc};
use cairndb::{Client, Collection, SystemCollection};

use crate::auth::credentials::{Credentials, ITERATIONS, Key, MECHANISM, PasswordError, SALT_BYTES};

/// The database of all users.
pub(crate) const DATABASE: &str = "admin";

const NAME_BYTES_MAX: usize = 128;
/// The document of `system.keys` with the secret from which unknown users get their salts.
const SECRET: &str = "unknownUsers";

/// The rights of a user. There are no other roles, and no roles for single databases.
///
/// ```
/// use cairndb_server::Role;
///
/// assert_eq!(Role::parse("root")?, Role::Root);
/// assert!(Role::parse("dbOwner").is_err());
/// # Ok::<(), cairndb_server::UserError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// May do everything: MongoDB's `root`.
    Root,
    /// May read in every database: MongoDB's `readAnyDatabase`.
    ReadAnyDatabase,
}

/// A user that may log in, as [`Users::list`] returns it.
///
/// ```
/// # use cairndb::Client;
/// # use cairndb_server::{Role, Users};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let users = Users::of(&Client::open(folder.path().join("shop"))?);
/// users.add("ada", "correct horse", Role::Root)?;
/// let ada = users.list()?.remove(0);
/// assert_eq!((ada.name.as_str(), ada.role), ("ada", Role::Root));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// The name. Two names are the same if all their bytes are.
    pub name: String,
    /// The rights of the user.
    pub role: Role,
}

/// The reason why a user cannot be added, read or removed.
///
/// ```
/// # use cairndb::Client;
/// # use cairndb_server::{Role, UserError, Users};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let users = Users::of(&Client::open(folder.path().join("shop"))?);
/// assert!(matches!(users.add("ada", "", Role::Root), Err(UserError::Password(_))));
/// assert!(matches!(users.remove("bob"), Err(UserError::Unknown(name)) if name == "bob"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// A user of this name exists already.
    #[error("there is a user {0:?} already")]
    Exists(String),
    /// No user has this name.
    #[error("there is no user {0:?}")]
    Unknown(String),
    /// The name is not allowed.
    #[error("a user cannot be called {0:?}: a name has 1 to 128 bytes and no control characters")]
    Name(String),
    /// The password is not allowed.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The role does not exist here.
    #[error("there is no role {0:?}: a user has the role root or readAnyDatabase")]
    Role(String),
    /// A stored document does not have the shape of a user.
    #[error("the stored user {name:?} is damaged: {fault}")]
    Damaged {
        /// The document's `_id`.
        name: String,
        /// The flaw.
        fault: String,
    },
    /// The system provides no random numbers, and a secret cannot be made of anything else.
    #[error("the system provides no random numbers: {0}")]
    Random(String),
    /// The store cannot be read or written.
    #[error("the store of the users cannot be read or written")]
    Store(#[from] cairndb::Error),
}

/// The users of a store.
///
/// ```
/// use cairndb::Client;
/// use cairndb_server::{Role, Users};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let client = Client::open(folder.path().join("shop"))?;
/// let users = Users::of(&client);
/// users.add("ada", "correct horse", Role::ReadAnyDatabase)?;
/// assert_eq!(users.list()?[0].name, "ada");
/// assert!(users.add("ada", "other", Role::Root).is_err());
/// users.remove("ada")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Users {
    users: Collection<Document>,
    keys: Collection<Document>,
}

impl Role {
    /// MongoDB's name of the role.
    ///
    /// ```
    /// use cairndb_server::Role;
    ///
    /// assert_eq!(Role::ReadAnyDatabase.name(), "readAnyDatabase");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::ReadAnyDatabase => "readAnyDatabase",
        }
    }

    /// The role with MongoDB's name `name`.
    ///
    /// # Errors
    /// [`UserError::Role`] for every other name.
    pub fn parse(name: &str) -> Result<Self, UserError> {
        [Self::Root, Self::ReadAnyDatabase]
            .into_iter()
            .find(|role| role.name() == name)
            .ok_or_else(|| UserError::Role(name.to_owned()))
    }
}

impl Users {
    /// The users of a client's store.
    pub fn of(client: &Client) -> Self {
        Self {
            users: client.system_collection(SystemCollection::Users),
            keys: client.system_collection(SystemCollection::Keys),
        }
    }

    /// Adds a user. The password is not stored, only what is needed to check it.
    ///
    /// The example of [`Users`] adds one.
    ///
    /// # Errors
    /// A name that is taken or not allowed, a password that is not allowed, a store that cannot be written.
    pub fn add(&self, name: &str, password: &str, role: Role) -> Result<(), UserError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(UserError::Name(name.to_owned()));
        }
        self.insert(name, role, &fresh_credentials(password)?)
    }

    /// Gives a user another password. Connections that the user has logged in stay logged in.
    ///
    /// # Errors
    /// [`UserError::Unknown`] if no user has this name, a password that is not allowed, a store that cannot be written.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # use cairndb_server::{Role, UserError, Users};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let users = Users::of(&Client::open(folder.path().join("shop"))?);
    /// users.add("ada", "correct horse", Role::Root)?;
    /// users.set_password("ada", "battery staple")?;
    /// assert!(matches!(users.set_password("bob", "secret"), Err(UserError::Unknown(name)) if name == "bob"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_password(&self, name: &str, password: &str) -> Result<(), UserError> {
        let credentials = fresh_credentials(password)?.to_document();
        let changed = doc! { "$set": { "credentials": { MECHANISM: credentials } } };
        let updated = self.users.update_one(doc! { "_id": id_of(name) }, changed).run()?;
        if updated.matched_count == 0 { Err(UserError::Unknown(name.to_owned())) } else { Ok(()) }
    }

    /// Adds a user as a dump has it: MongoDB's document, with what the password is checked by. Fields that users do not have
    /// here are left out.
    ///
    /// # Errors
    /// As [`add`](Self::add), and [`UserError::Damaged`] for a document that is not a user of CairnDB.
    ///
    /// ```
    /// # use cairndb::{Client, SystemCollection, bson::{Document, doc}};
    /// # use cairndb_server::{Role, Users};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (one, other) = (Client::open(folder.path().join("a"))?, Client::open(folder.path().join("b"))?);
    /// Users::of(&one).add("ada", "correct horse", Role::Root)?;
    /// let stored = one.system_collection::<Document>(SystemCollection::Users).find_one(doc! {}).run()?;
    /// Users::of(&other).restore(&stored.expect("there is one"))?;
    /// assert_eq!(Users::of(&other).list()?[0].name, "ada");
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore(&self, document: &Document) -> Result<(), UserError> {
        let (user, credentials) = parse(document)?;
        self.insert(&user.name, user.role, &credentials)
    }

    fn insert(&self, name: &str, role: Role, credentials: &Credentials) -> Result<(), UserError> {
        // With the first user: until then every name is unknown, and there is nothing to hide.
        if self.load_secret()?.is_none() {
            let key = Binary { subtype: BinarySubtype::Generic, bytes: random_key()?.to_vec() };
            self.keys.insert_one(doc! { "_id": SECRET, "key": key }).run()?;
        }
        let user = doc! {
            "_id": id_of(name),
            "user": name,
            "db": DATABASE,
            "credentials": { MECHANISM: credentials.to_document() },
            "roles": [{ "role": role.name(), "db": DATABASE }],
        };
        // The unique `_id` decides, so two calls at the same time cannot both add the user.
        match self.users.insert_one(user).run() {
            Ok(_) => Ok(()),
            Err(error) if error.is_duplicate_key() => Err(UserError::Exists(name.to_owned())),
            Err(error) => Err(error.into()),
        }
    }

    /// All users, ascending by name.
    ///
    /// # Errors
    /// A store that cannot be read, or a document that is not a user.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # use cairndb_server::{Role, Users};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let users = Users::of(&Client::open(folder.path().join("shop"))?);
    /// assert!(users.list()?.is_empty());
    /// users.add("bob", "battery staple", Role::ReadAnyDatabase)?;
    /// assert_eq!(users.list()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self) -> Result<Vec<User>, UserError> {
        self.users.find(doc! {}).run()?.map(|user| Ok(parse(&user?)?.0)).collect()
    }

    /// Removes a user. Connections that the user has logged in stay logged in.
    ///
    /// # Errors
    /// [`UserError::Unknown`] if no user has this name, or a store that cannot be written.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # use cairndb_server::{Role, Users};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let users = Users::of(&Client::open(folder.path().join("shop"))?);
    /// users.add("bob", "battery staple", Role::ReadAnyDatabase)?;
    /// users.remove("bob")?;
    /// assert!(users.remove("bob").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove(&self, name: &str) -> Result<(), UserError> {
        let removed = self.users.delete_one(doc! { "_id": id_of(name) }).run()?;
        if removed.deleted_count == 0 { Err(UserError::Unknown(name.to_owned())) } else { Ok(()) }
    }

    /// The user of this name, with the credentials that check the password.
    pub(crate) fn find(&self, name: &str) -> Result<Option<(User, Credentials)>, UserError> {
        self.users.find_one(doc! { "_id": id_of(name) }).run()?.map(|user| parse(&user)).transpose()
    }

    /// The secret from which unknown users get their salts. It is stored with the first user. Before that
    /// every login fails for the same reason, so any secret will do.
    pub(crate) fn secret(&self) -> Result<Key, UserError> {
        self.load_secret()?.map_or_else(random_key, Ok)
    }

    fn load_secret(&self) -> Result<Option<Key>, UserError> {
        let Some(stored) = self.keys.find_one(doc! { "_id": SECRET }).run()? else { return Ok(None) };
        // A damaged secret is an error: with a new one, salts would change and show which users are unknown.
        let key = stored.get_binary_generic("key").ok().and_then(|key| Key::try_from(key.as_slice()).ok());
        let damaged = || UserError::Damaged { name: SECRET.to_owned(), fault: "it has no key".to_owned() };
        key.map(Some).ok_or_else(damaged)
    }
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

/// A random nonce, in base64.
pub(crate) fn nonce() -> Result<String, UserError> {
    Ok(BASE64.encode(random_key()?))
}

fn id_of(name: &str) -> String {
    format!("{DATABASE}.{name}")
}

fn random_key() -> Result<Key, UserError> {
    let mut key = Key::default();
    getrandom::fill(&mut key).map_err(|error| UserError::Random(error.to_string()))?;
    Ok(key)
}

/// The stored form of a new password.
fn fresh_credentials(password: &str) -> Result<Credentials, UserError> {
    // A salt of its own for each: equal passwords must not look equal in the store.
    let salt: Vec<u8> = random_key()?.into_iter().take(SALT_BYTES).collect();
    Ok(Credentials::derive(password, &salt, ITERATIONS)?)
}

fn parse(document: &Document) -> Result<(User, Credentials), UserError> {
    let id = document.get_str("_id").unwrap_or_default();
    let damaged = |fault: &str| UserError::Damaged { name: id.to_owned(), fault: fault.to_owned() };
    let name = document.get_str("user").map_err(|_| damaged("it has no name"))?;
    // A login finds the user by `_id`, so the name inside must be the same one.
    if id != id_of(name) {
        return Err(damaged("its name does not match its _id"));
    }
    let roles = document.get_array("roles").map_err(|_| damaged("it has no roles"))?;
    // Users of a MongoDB server may have several roles. Here such a user is damaged and not partly
    // understood.
    let [Bson::Document(role)] = roles.as_slice() else {
        return Err(damaged("it does not have exactly one role"));
    };
    let role = Role::parse(role.get_str("role").map_err(|_| damaged("its role has no name"))?);
    let role = role.map_err(|error| damaged(&error.to_string()))?;
    let credentials = document.get_document("credentials").and_then(|all| all.get_document(MECHANISM));
    let credentials = credentials.ok().and_then(Credentials::of_document);
    let credentials = credentials.ok_or_else(|| damaged("its credentials are malformed"))?;
    Ok((User { name: name.to_owned(), role }, credentials))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> (Users, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("a store");
        (Users::of(&client), folder)
    }

    #[test]
    fn users_are_told_apart_by_every_byte_of_their_names() {
        let (users, _folder) = users();
        for name in ["IX", "\u{2168}", "ix", "admin.ix"] {
            users.add(name, "secret", Role::Root).expect("added");
            assert!(matches!(users.add(name, "secret", Role::Root), Err(UserError::Exists(_))), "{name}");
        }
        assert_eq!(users.list().expect("listed").len(), 4);
        users.remove("ix").expect("removed");
        assert!(matches!(users.remove("ix"), Err(UserError::Unknown(_))));
        assert!(users.find("IX").expect("read").is_some());
        assert!(users.find("ix").expect("read").is_none());
    }

    #[test]
    fn names_and_passwords_that_cannot_be_are_refused() {
        let (users, _folder) = users();
        for name in ["", "a\nb", &"n".repeat(129)] {
            assert!(matches!(users.add(name, "secret", Role::Root), Err(UserError::Name(_))), "{name}");
        }
        assert!(matches!(users.add("a", "", Role::Root), Err(UserError::Password(_))));
        assert!(users.list().expect("listed").is_empty());
        assert_eq!(
            Role::parse("dbOwner").expect_err("refused").to_string().matches("\"dbOwner\"").count(),
            1
        );
    }

    #[test]
    fn another_password_has_another_salt_and_the_same_role() {
        let (users, _folder) = users();
        users.add("ada", "secret", Role::ReadAnyDatabase).expect("added");
        let find = || users.find("ada").expect("read").expect("there");
        let (before, old) = find();
        assert!(matches!(users.set_password("ada", ""), Err(UserError::Password(_))));
        assert!(find().1 == old);
        users.set_password("ada", "secret").expect("changed");
        let (after, new) = find();
        assert!(before == after && new.salt != old.salt && new.stored_key != old.stored_key);
        assert!(matches!(users.set_password("Ada", "secret"), Err(UserError::Unknown(_))));
        assert_eq!(users.list().expect("listed").len(), 1);
    }

    #[test]
    fn the_secret_stays_from_the_first_user_on() {
        let (users, _folder) = users();
        assert_ne!(users.secret().expect("made"), users.secret().expect("made"));
        users.add("ada", "secret", Role::Root).expect("added");
        let secret = users.secret().expect("stored");
        users.add("bob", "secret", Role::Root).expect("added");
        users.remove("ada").expect("removed");
        assert_eq!(users.secret().expect("stored"), secret);
    }

    #[test]
    fn a_document_that_is_no_user_s_is_named() {
        let (users, _folder) = users();
        users.add("ada", "secret", Role::Root).expect("added");
        let stored = users.users.find_one(doc! {}).run().expect("read").expect("there");
        for field in ["user", "roles", "credentials"] {
            let mut broken = stored.clone();
            broken.remove(field);
            let error = parse(&broken).map(|(user, _)| user).expect_err("refused").to_string();
            assert!(error.starts_with("the stored user \"admin.ada\" is damaged"), "{error}");
        }
    }
}
