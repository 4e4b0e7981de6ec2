//! The collection of an action: as its handle is, or within a session, or with a token.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::collection::handle::Handle;
use crate::outcomes::token::Token;
use crate::session::ClientSession;

/// The collection of an action.
pub(super) enum Scope<'a> {
    Plain(&'a Handle),
    /// With what the action is known by, if it is to happen exactly once.
    WithToken(&'a Handle, Token),
    /// The session is the action's until it has run.
    Own(Box<Own>, PhantomData<&'a mut ClientSession>),
}

/// A handle of the action's own.
pub(super) struct Own {
    handle: Handle,
    /// The token of the action, if it is to happen exactly once.
    token: Option<Token>,
}

impl<'a> Scope<'a> {
    pub(super) fn of(collection: &'a Handle) -> Self {
        Self::Plain(collection)
    }

    /// The same collection within a session.
    pub(super) fn within(self, session: &'a mut ClientSession) -> Self {
        let own = Own { handle: self.in_session(session), token: self.token().cloned() };
        Self::Own(Box::new(own), PhantomData)
    }

    /// The same collection for an action that is to happen exactly once.
    pub(super) fn with_token(self, token: Token) -> Self {
        match self {
            Self::Plain(collection) | Self::WithToken(collection, _) => Self::WithToken(collection, token),
            Self::Own(own, session) => Self::Own(Box::new(Own { token: Some(token), ..*own }), session),
        }
    }

    /// The token of the action, if it is to happen exactly once.
    #[inline]
    pub(super) fn token(&self) -> Option<&Token> {
        match self {
            Self::Plain(_) => None,
            Self::WithToken(_, token) => Some(token),
            Self::Own(own, _) => own.token.as_ref(),
        }
    }
}

impl Deref for Scope<'_> {
    type Target = Handle;

    #[inline]
    fn deref(&self) -> &Handle {
        match self {
            Self::Plain(collection) | Self::WithToken(collection, _) => collection,
            Self::Own(own, _) => &own.handle,
        }
    }
}
