//! The highest tokens of a generation, which prove those above them absent without a look-up. Tokens with a time ascend, but for those
//! that several threads or programs make at the same time.
//!
//! A commit enters its token before it writes the row, under the latch of the token. So a token above the highest one has no row, and
//! of two commits with one token the second looks it up. A token that is far ahead of the others makes those after it be looked up, until
//! its generation is gone; so does one whose commit fails.

use base::sync::Mutex;

use crate::outcomes::token::{Token, TokenKind};

/// The highest token of each kind. That of a kind without tokens is empty, and so below every token.
#[derive(Default)]
pub(super) struct HighestTokens {
    kinds: Mutex<[Vec<u8>; TokenKind::ALL.len()]>,
}

impl HighestTokens {
    /// Whether all tokens of its kind are below a token, so that no row is of it.
    pub(super) fn are_below(&self, token: &Token) -> bool {
        token.bytes() > of_kind(&mut self.kinds.lock(), token.kind()).as_slice()
    }

    /// Enters a token. Returns whether it is above all others of its kind.
    pub(super) fn enter(&self, kind: TokenKind, token: &[u8]) -> bool {
        let mut kinds = self.kinds.lock();
        let highest = of_kind(&mut kinds, kind);
        let is_above = token > highest.as_slice();
        if is_above {
            token.clone_into(highest);
        }
        is_above
    }
}

fn of_kind(kinds: &mut [Vec<u8>; TokenKind::ALL.len()], kind: TokenKind) -> &mut Vec<u8> {
    let [ids, uuids, others] = kinds;
    match kind {
        TokenKind::ObjectId => ids,
        TokenKind::TimedUuid => uuids,
        TokenKind::Other => others,
    }
}
