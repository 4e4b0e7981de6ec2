//! The setters that actions of a collection have beside their options: `session` and `exactly_once`.

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

/// Implements `exactly_once` of actions that write, and have a field `collection`.
///
/// After each action comes a call that makes one.
macro_rules! exactly_once {
    ($($action:ident<$($parameter:tt),*> = $call:literal),+ $(,)?) => {$(
        impl<$($parameter),*> $action<$($parameter),*> {
            /// Gives the call a token: it happens once, however often it is made with this token, also after a crash. A call that has
            /// happened before changes nothing, and returns what it returned the first time.
            ///
            /// A call that is rejected does not spend its token. See [the page on exactly once](crate::guide::exactly_once): what is
            /// remembered, for how long, and which calls are one transaction with a token.
            ///
            /// Fails with code 72 if another call had the token, with 225 if the token is older than those that are remembered, and with 146 if
            /// they have as many bytes as they may. It cannot be given to a statement of a transaction, which has a token of its own.
            ///
            /// ```
            /// # use cairndb::{Client, bson::{Document, doc}};
            /// # fn main() -> cairndb::Result<()> {
            /// # let folder = tempfile::tempdir()?;
            /// # let client = Client::open(folder.path().join("db"))?;
            /// let people = client.database("app").collection::<Document>("people");
            /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
            #[doc = concat!(" let first = ", $call, ".exactly_once(\"request 17\").run()?;")]
            #[doc = concat!(" let again = ", $call, ".exactly_once(\"request 17\").run()?;")]
            /// # let _ = (first, again);
            /// # Ok(())
            /// # }
            /// ```
            pub fn exactly_once(mut self, token: impl Into<crate::outcomes::token::Token>) -> Self {
                self.collection = self.collection.with_token(token.into());
                self
            }
        }
    )+};
}
