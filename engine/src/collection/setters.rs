//! The setters of actions: `with_options`, and one setter for each field of the action's options struct.

/// Implements `session` of actions that have a field `collection`.
///
/// After each action comes a call that makes one.
macro_rules! in_session {
    ($($action:ident<$($parameter:tt),*> = $call:literal),+ $(,)?) => {$(
        impl<$($parameter),*> $action<$($parameter),*> {
            /// Makes the action a statement of a session: a part of its transaction, if it has started one.
            ///
            /// Within a transaction it reads the state that the transaction began with and what the transaction has written, and what
            /// it writes is stored by the commit, or not at all. An error that it meets in the store aborts the transaction.
            ///
            /// ```
            /// # use cairndb::{Client, bson::{Document, doc}};
            /// # fn main() -> cairndb::Result<()> {
            /// # let folder = tempfile::tempdir()?;
            /// # let client = Client::open(folder.path().join("db"))?;
            /// let people = client.database("app").collection::<Document>("people");
            /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
            /// let mut session = client.start_session().run()?;
            /// session.start_transaction().run()?;
            #[doc = concat!(" ", $call, ".session(&mut session).run()?;")]
            /// session.commit_transaction().run()?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn session(mut self, session: &'a mut crate::session::ClientSession) -> Self {
                self.collection = self.collection.within(session);
                self
            }
        }
    )+};
}

/// Implements the setters of an action that has a field `options`.
///
/// After the options struct comes a call that `with_options` is shown with. Each setter has the lines of an example, which
/// runs after two documents were inserted into `people`.
macro_rules! setters {
    ($action:ident<$($parameter:tt),*>, $options:ident, $call:literal, {
        $($(#[doc = $doc:literal])+ $name:ident: $value:ty = [$($example:literal),+ $(,)?],)*
    }) => {
        impl<$($parameter),*> $action<$($parameter),*> {
            #[doc = concat!(" Sets all options at once, as [`", stringify!($options), "`](crate::", stringify!($options), ").")]
            ///
            /// ```
            /// # use cairndb::{Client, InsertOneModel, bson::{Document, doc}};
            /// # fn main() -> cairndb::Result<()> {
            /// # let folder = tempfile::tempdir()?;
            /// # let client = Client::open(folder.path().join("db"))?;
            /// let people = client.database("app").collection::<Document>("people");
            #[doc = concat!(" let mut options = cairndb::", stringify!($options), "::default();")]
            /// options.max_time = Some(std::time::Duration::from_secs(5));
            #[doc = concat!(" ", $call, ".with_options(options).run()?;")]
            /// # Ok(())
            /// # }
            /// ```
            pub fn with_options(mut self, options: impl Into<Option<$options>>) -> Self {
                // `None` stands for the defaults, as in MongoDB's driver.
                self.options = options.into().unwrap_or_default();
                self
            }

            $(
                $(#[doc = $doc])+
                ///
                /// ```
                /// # use std::time::Duration;
                /// # use cairndb::{AutoIncrement, Client, Collation, CursorType, Generated, Hint, InsertOneModel, ReturnDocument};
                /// # use cairndb::{UpdateOneModel, WriteConcern, bson::{Bson, Document, doc}};
                /// # fn main() -> cairndb::Result<()> {
                /// # let folder = tempfile::tempdir()?;
                /// # let client = Client::open(folder.path().join("db"))?;
                /// # let people = client.database("app").collection::<Document>("people");
                /// let (ada, grace) = (doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" });
                /// people.insert_many([&ada, &grace]).run()?;
                ///
                $(#[doc = concat!(" ", $example)])+
                /// # Ok(())
                /// # }
                /// ```
                pub fn $name(mut self, $name: $value) -> Self {
                    self.options.$name = Some($name);
                    self
                }
            )*
        }
    };
}
