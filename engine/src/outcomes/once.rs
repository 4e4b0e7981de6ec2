//! A call that is to happen exactly once: what it has done, and the row that it is answered from when it comes again.
//!
//! The result of a row is a document: `o` the call, to distinguish it from another one with the same token, and beside it what the verb
//! needs. Of a write of one document, which commits by itself, that is put together here: `i` the `_id` of an insert or an upsert, `g` its
//! generated values; `n` how many documents matched, `m` how many were changed, `v` the document that was shown.

use std::sync::Arc;

use base::error::{Error, ErrorKind, Result};
use base::generated::GeneratedValues;
use base::once_error::ExactlyOnceError;
use base::sync::Mutex;
use bson::raw::CStr;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, cstr, rawdoc};
use query::code::Code;
use store::Database;
use store::write::Batch;

use crate::options::PlantedFault;
use crate::outcomes::digest::DIGEST_BYTES;
use crate::outcomes::generations::{Generations, NewRow};
use crate::outcomes::row::now_millis;
use crate::outcomes::token::Token;
use crate::outcomes::token_row::{self, TokenRow};

/// The field of a result that says which call it is of.
const CALL: &CStr = cstr!("o");

/// A call, as its token knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Its name, and its collection if it has one.
    pub(crate) name: String,
    pub(crate) digest: [u8; DIGEST_BYTES],
}

/// A call with a token that runs.
pub(crate) struct Once {
    token: Token,
    call: Call,
    generations: Arc<Generations>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest generation when the token was looked up.
    seen: u32,
    /// The effect of the next commit.
    effect: Option<RawDocumentBuf>,
    shown: Option<RawDocumentBuf>,
    generated: RawDocumentBuf,
    /// The answer of another call with the token, that came first.
    found: Option<Document>,
    is_stored: bool,
}

impl Once {
    pub(crate) fn new(token: Token, call: Call, generations: &Arc<Generations>) -> Self {
        Self { token, call, generations: Arc::clone(generations), state: Mutex::default() }
    }

    /// By what the token is latched.
    pub(crate) fn hash(&self) -> u64 {
        store::latch::hash_of(&token_row::key(&self.token, 0))
    }

    /// The answer of the call when it came before. Fails if another call had the token, if it is too old, or if there is no room.
    pub(crate) fn look_up(&self, database: &Database) -> Result<Option<Document>> {
        let (row, seen) = self.generations.look_up(database, &self.token)?;
        if let Some(row) = row {
            return self.answer(row).map(Some);
        }
        self.generations.admit()?;
        self.state.lock().seen = seen;
        Ok(None)
    }

    /// The answer of another call with the token that came first, while this one ran.
    pub(crate) fn take_found(&self) -> Option<Document> {
        self.state.lock().found.take()
    }

    /// Whether it is known that another call with the token came first.
    pub(crate) fn has_found(&self) -> bool {
        self.state.lock().found.is_some()
    }

    /// Whether the row was committed.
    pub(crate) fn is_stored(&self) -> bool {
        self.state.lock().is_stored
    }

    /// Forgets what an attempt has shown, and was about to do, that came to nothing.
    pub(crate) fn forget_attempt(&self) {
        let mut state = self.state.lock();
        (state.effect, state.shown) = (None, None);
    }

    /// Keeps what the call shows.
    pub(crate) fn show(&self, document: &RawDocumentBuf) {
        self.state.lock().shown = Some(document.clone());
    }

    /// Keeps the values that were generated for the document of an insert.
    pub(crate) fn note_generated(&self, values: &GeneratedValues) {
        let mut generated = RawDocumentBuf::new();
        for (field, value) in values.iter() {
            if let Ok(field) = <&CStr>::try_from(field) {
                generated.append(field, value);
            }
        }
        self.state.lock().generated = generated;
    }

    /// Says that the next commit changes a document.
    pub(crate) fn expect_change(&self) {
        self.state.lock().effect = Some(rawdoc! { "n": 1_i64, "m": 1_i64 });
    }

    /// Says that the next commit removes a document.
    pub(crate) fn expect_removal(&self) {
        self.state.lock().effect = Some(rawdoc! { "n": 1_i64 });
    }

    /// Says that the next commit stores a new document, which has its `_id`.
    pub(crate) fn expect_new(&self, document: &RawDocument) {
        let mut effect = RawDocumentBuf::new();
        if let Ok(Some(id)) = document.get("_id") {
            effect.append(cstr!("i"), id);
        }
        let mut state = self.state.lock();
        let generated = std::mem::take(&mut state.generated);
        if !generated.is_empty() {
            effect.append(cstr!("g"), generated);
        }
        state.effect = Some(effect);
    }

    /// Says what the call is answered, which its next commit stores.
    pub(crate) fn expect_answer(&self, answer: &Document) -> Result<()> {
        let answer = RawDocumentBuf::try_from(answer)?;
        let mut state = self.state.lock();
        (state.effect, state.shown) = (Some(answer), None);
        Ok(())
    }

    /// Whether the next commit has the row.
    pub(crate) fn is_expecting(&self) -> bool {
        self.state.lock().effect.is_some()
    }

    /// Looks up again whether another call with the token came first, as [`commit`](Self::commit) does.
    pub(crate) fn refuse_second(&self, database: &Database) -> Result<()> {
        if database.fault() == PlantedFault::TokensNotLookedUp {
            return Ok(());
        }
        match self.generations.look_up(database, &self.token)? {
            (None, _) => Ok(()),
            (Some(found), _) => self.note_found(found),
        }
    }

    /// Writes a batch with the row, unless another call with the token came first: then nothing is written, and
    /// [`take_found`](Self::take_found) has what that one was answered. The latch of the token is held.
    pub(crate) fn commit<'b>(
        &self,
        batch: Batch<'b>,
        write: impl FnOnce(Batch<'b>) -> Result<()>,
        write_apart: &dyn Fn(Batch<'_>) -> Result<()>,
    ) -> Result<()> {
        let (row, seen) = {
            let mut state = self.state.lock();
            let mut result = state.effect.take().unwrap_or_default();
            result.append(CALL, self.call.name.as_str());
            if let Some(shown) = state.shown.take() {
                result.append(cstr!("v"), shown);
            }
            (TokenRow { digest: self.call.digest, millis: now_millis(), result }, state.seen)
        };
        let row = NewRow { token: &self.token, row, seen, write_apart };
        match self.generations.commit(batch, &row, write)? {
            None => {
                self.state.lock().is_stored = true;
                Ok(())
            }
            Some(found) => self.note_found(found),
        }
    }

    fn note_found(&self, found: TokenRow) -> Result<()> {
        let answer = self.answer(found)?;
        self.state.lock().found = Some(answer);
        Err(superseded())
    }

    /// The result of a row, if it is of this call.
    fn answer(&self, row: TokenRow) -> Result<Document> {
        let TokenRow { digest, result, .. } = row;
        let mut result = Document::try_from(result)?;
        let first = result.remove(CALL.as_str());
        if digest == self.call.digest {
            return Ok(result);
        }
        let first = match first {
            Some(Bson::String(first)) => first,
            Some(_) | None => "another call".to_owned(),
        };
        let reused = ExactlyOnceError::reused(first, self.call.name.clone());
        Err(Error::new(ErrorKind::ExactlyOnce(reused)))
    }
}

/// The error of a call that another one with its token was faster than. No caller sees it.
#[cold]
fn superseded() -> Error {
    Error::command(Code::WRITE_CONFLICT, "another call with the token was faster")
}
