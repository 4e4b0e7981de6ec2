//! The collection of an action: as its handle is, or within a session.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::collection::handle::Handle;
use crate::session::ClientSession;

/// The collection of an action.
pub(super) enum Scope<'a> {
    Plain(&'a Handle),
    /// The session is the action's until it has run.
    InSession(Box<Handle>, PhantomData<&'a mut ClientSession>),
}

impl<'a> Scope<'a> {
    pub(super) fn of(collection: &'a Handle) -> Self {
        Self::Plain(collection)
    }

    /// The same collection within a session.
    pub(super) fn within(self, session: &'a mut ClientSession) -> Self {
        Self::InSession(Box::new(self.in_session(session)), PhantomData)
    }
}

impl Deref for Scope<'_> {
    type Target = Handle;

    #[inline]
    fn deref(&self) -> &Handle {
        match self {
            Self::Plain(collection) => collection,
            Self::InSession(collection, _) => collection,
        }
    }
}
