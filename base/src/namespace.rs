//! A collection's full name, `database.collection`, and the collections of the system.
//!
//! Which names are allowed is in `names`: errors name a namespace, so this file must not know errors.

use std::fmt;

/// A collection's full name: `database.collection`.
///
/// ```
/// use cairndb::Namespace;
///
/// let orders = Namespace::new("shop", "orders.2026");
/// assert_eq!(orders.to_string(), "shop.orders.2026");
/// assert_eq!((orders.db.as_str(), orders.coll.as_str()), ("shop", "orders.2026"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// The database's name.
    pub db: String,
    /// The collection's name.
    pub coll: String,
}

/// Collections that a server keeps for itself.
///
/// Their names are denied to all handles and commands but
/// [`Client::system_collection`](struct.Client.html#method.system_collection). Dropping the database `admin` drops them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemCollection {
    /// `admin.system.keys`: secrets of the store.
    Keys,
    /// `admin.system.users`: who may log in, in MongoDB's shape.
    Users,
}

impl SystemCollection {
    #[doc(hidden)]
    pub const ALL: [Self; 2] = [Self::Keys, Self::Users];

    #[doc(hidden)]
    pub fn namespace(self) -> Namespace {
        let coll = match self {
            Self::Keys => "system.keys",
            Self::Users => "system.users",
        };
        Namespace::new("admin", coll)
    }
}

/// The beginning of the names of collections in which `$out` gathers its documents.
const ASIDE: &str = "system.out.";

impl Namespace {
    /// Names a collection. The names are not checked here: the first verb that uses them rejects bad ones.
    ///
    /// ```
    /// use cairndb::Namespace;
    ///
    /// assert_eq!(Namespace::new("shop", "orders").to_string(), "shop.orders");
    /// ```
    pub fn new(db: impl Into<String>, coll: impl Into<String>) -> Self {
        Self { db: db.into(), coll: coll.into() }
    }

    /// The name of a collection in which a `$out` gathers its documents. No handle and no list reaches it.
    #[doc(hidden)]
    pub fn aside(db: &str, unique: &str) -> Self {
        Self { db: db.to_owned(), coll: format!("{ASIDE}{unique}") }
    }

    /// Whether a `$out` gathers its documents in this collection, or a killed one has.
    #[doc(hidden)]
    pub fn is_aside(&self) -> bool {
        Self::is_aside_name(&self.coll)
    }

    /// Whether a collection of this name, without the database's, is one of them.
    #[doc(hidden)]
    pub fn is_aside_name(coll: &str) -> bool {
        coll.starts_with(ASIDE)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}
