//! The names that databases and collections may have. The rules are MongoDB's, checked here before a name reaches the
//! catalog.
//!
//! The rules are apart from the type [`Namespace`]: an error names a namespace, and a rejected name is an error.

use query::code::Code;

use crate::error::{Error, Result};
use crate::namespace::{Namespace, SystemCollection};

const DATABASE_BYTES_MAX: usize = 63;
const NAMESPACE_BYTES_MAX: usize = 255;

impl Namespace {
    /// The collection `coll` of the database `db`, if a caller may use these names.
    #[doc(hidden)]
    pub fn parse(db: &str, coll: &str) -> Result<Self> {
        validate_database(db)?;
        validate_collection(db, coll)?;
        Ok(Self { db: db.to_owned(), coll: coll.to_owned() })
    }

    /// Rejects names that no verb would accept, by the rules of MongoDB.
    ///
    /// # Errors
    /// [`ErrorKind::Command`](enum.ErrorKind.html#variant.Command) with the code 73 for a name that is empty, too long, has a character that is
    /// not allowed, or belongs to the system.
    ///
    /// ```
    /// use cairndb::Namespace;
    ///
    /// assert!(Namespace::new("shop", "orders.2026").validate().is_ok());
    /// assert!(Namespace::new("shop", "system.users").validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<()> {
        Self::parse(&self.db, &self.coll).map(drop)
    }

    /// The name of a collection that the catalog has: one that a caller may use, or one of the system's.
    #[doc(hidden)]
    pub fn stored(db: &str, coll: &str) -> Result<Self> {
        let mut system = SystemCollection::ALL.into_iter().map(SystemCollection::namespace);
        let named = Self::new(db, coll);
        if named.is_aside() {
            return Ok(named);
        }
        // Asked first, because `parse` rejects the names of the system.
        match system.find(|system| system.db == db && system.coll == coll) {
            Some(system) => Ok(system),
            None => Self::parse(db, coll),
        }
    }
}

/// Rejects a database's name that MongoDB rejects.
pub fn validate_database(name: &str) -> Result<()> {
    let fault = if name.is_empty() {
        "it is empty"
    } else if name.len() > DATABASE_BYTES_MAX {
        "it is longer than 63 bytes"
    } else if name.chars().any(|c| matches!(c, '/' | '\\' | '.' | '"' | '$' | '*' | ' ' | '\0')) {
        "it has one of / \\ . \" $ * space NUL"
    } else {
        return Ok(());
    };
    Err(Error::command(Code::INVALID_NAMESPACE, format!("invalid database name {}: {fault}", quoted(name))))
}

/// A name in quotes, as an error repeats it: a client may send one of megabytes, and its escaped form is longer still.
fn quoted(name: &str) -> String {
    match name.char_indices().nth(NAMESPACE_BYTES_MAX).and_then(|(end, _)| name.get(..end)) {
        Some(start) => format!("{start:?}..."),
        None => format!("{name:?}"),
    }
}

/// Rejects a collection's name that MongoDB rejects, and the names of the system.
fn validate_collection(db: &str, name: &str) -> Result<()> {
    // MongoDB keeps `$` for names such as `db.$cmd`. The dot between both names counts in the length.
    let fault = if name.is_empty() {
        "it is empty"
    } else if name.contains('$') {
        "it has a $"
    } else if name.contains('\0') {
        "it has a NUL"
    } else if name.starts_with('.') || name.ends_with('.') {
        "it starts or ends with a dot"
    } else if name.starts_with("system.") || name.contains(".system.") {
        "system collections are reserved"
    } else if db.len() + 1 + name.len() > NAMESPACE_BYTES_MAX {
        "database and collection together are longer than 255 bytes"
    } else {
        return Ok(());
    };
    Err(Error::command(Code::INVALID_NAMESPACE, format!("invalid collection name {}: {fault}", quoted(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(db: &str, coll: &str, allowed: bool) {
        assert_eq!(Namespace::parse(db, coll).is_ok(), allowed, "{db:?} {coll:?}");
    }

    #[test]
    fn names_follow_the_rules_of_mongodb() {
        check("shop", "orders", true);
        check("shop", "orders.2026", true);
        check("shop", "sales/eu west", true);
        check("", "orders", false);
        check("a b", "orders", false);
        check("a.b", "orders", false);
        check(&"d".repeat(63), "c", true);
        check(&"d".repeat(64), "c", false);
        check("shop", "", false);
        check("shop", "a$b", false);
        check("shop", "a\0b", false);
        check("shop", ".a", false);
        check("shop", "a.", false);
        check("shop", "system.users", false);
        check("shop", "a.system.b", false);
        check("shop", &"c".repeat(250), true);
        check("shop", &"c".repeat(251), false);
    }

    #[test]
    fn only_the_system_s_own_collections_are_stored_under_its_names() {
        for system in SystemCollection::ALL {
            let Namespace { db, coll } = system.namespace();
            assert!(Namespace::parse(&db, &coll).is_err());
            assert_eq!(Namespace::stored(&db, &coll).ok(), Some(system.namespace()));
            assert!(Namespace::stored("shop", &coll).is_err());
        }
        assert!(Namespace::stored("admin", "system.views").is_err());
        assert!(Namespace::stored("shop", "orders").is_ok());
    }

    #[test]
    fn a_refusal_names_the_name_and_the_reason() {
        let error = Namespace::parse("shop", "a$b").expect_err("refused");
        assert_eq!(error.code(), Some(73));
        assert!(error.to_string().starts_with("invalid collection name \"a$b\": it has a $"));
    }
}
