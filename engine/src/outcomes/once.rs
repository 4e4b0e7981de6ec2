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
use bson::spec::ElementType;
use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use index::element::elements;
use index::writer::{StoredValue, Writer};
use query::code::Code;
use store::write::Batch;
use store::{Database, Family};

use crate::options::PlantedFault;
use crate::outcomes::digest::DIGEST_BYTES;
use crate::outcomes::generations::{Generations, NewRow};
use crate::outcomes::row::now_millis;
use crate::outcomes::token::Token;
use crate::outcomes::token_row::{self, RowWriter, TokenRow};

/// The field of a result that says which call it is of.
pub(crate) const CALL: &str = "o";

/// The call of a row whose result was lost. Its token is kept, so that the call is not run a second time.
pub(crate) const LOST: &str = "a result that was lost";

/// A call, as its token knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Its name, and its collection if it has one.
    pub(crate) name: String,
    pub(crate) digest: [u8; DIGEST_BYTES],
}

/// A part of the result of a row, or what is wrong with it.
pub(crate) type Undamaged<T> = std::result::Result<T, &'static str>;

/// What a call was answered when it came before.
pub(crate) struct Found {
    key: Vec<u8>,
    answer: Document,
}

impl Found {
    /// Reads the answer. What makes it none is an error that names its row.
    pub(crate) fn read<R>(self, read: impl FnOnce(Document) -> Undamaged<R>) -> Result<R> {
        read(self.answer).map_err(|damage| {
            let reason = format!("the result of a token is not what was stored: {damage}");
            Error::corruption(Family::Outcomes.name(), &self.key, reason)
        })
    }
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
    effect: Option<RowWriter>,
    shown: Option<RawDocumentBuf>,
    /// The values that were generated for the document of an insert.
    generated: Option<RawDocumentBuf>,
    /// The answer of another call with the token, that came first.
    found: Option<Found>,
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
    pub(crate) fn look_up(&self, database: &Database) -> Result<Option<Found>> {
        let (row, seen) = self.generations.look_up(database, &self.token)?;
        if let Some(row) = row {
            return self.answer(row).map(Some);
        }
        self.generations.admit()?;
        self.state.lock().seen = seen;
        Ok(None)
    }

    /// The answer of another call with the token that came first, while this one ran.
    pub(crate) fn take_found(&self) -> Option<Found> {
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
        if values.is_empty() {
            self.state.lock().generated = None;
            return;
        }
        let mut generated = Writer::with_capacity(0);
        let start = generated.open();
        for (field, value) in values.iter() {
            generated.eight_bytes(ElementType::Int64, field, value.to_le_bytes());
        }
        generated.close(start);
        self.state.lock().generated = RawDocumentBuf::from_bytes(generated.into_bytes()).ok();
    }

    /// Says that the next commit changes a document.
    pub(crate) fn expect_change(&self) {
        self.expect(|result| {
            for name in ["n", "m"] {
                result.eight_bytes(ElementType::Int64, name, 1_i64.to_le_bytes());
            }
        });
    }

    /// Says that the next commit removes a document.
    pub(crate) fn expect_removal(&self) {
        self.expect(|result| result.eight_bytes(ElementType::Int64, "n", 1_i64.to_le_bytes()));
    }

    /// Says that the next commit stores a new document, which has its `_id`.
    pub(crate) fn expect_new(&self, document: &RawDocument) {
        let generated = self.state.lock().generated.take();
        self.expect(|result| {
            if let Some(id) = elements(document.as_bytes()).named(b"_id") {
                result.stored("i", StoredValue::new(id.kind, id.value));
            }
            if let Some(generated) = generated {
                result.document("g", &generated);
            }
        });
    }

    /// Says what the call is answered, which its next commit stores.
    pub(crate) fn expect_answer(&self, answer: &Document) -> Result<()> {
        let answer = RawDocumentBuf::try_from(answer)?;
        self.expect(|result| elements(answer.as_bytes()).for_each(|field| result.copy(field.whole)));
        self.state.lock().shown = None;
        Ok(())
    }

    /// Keeps the result of the next commit.
    fn expect(&self, write: impl FnOnce(&mut Writer)) {
        let mut row = RowWriter::new(&self.call.digest);
        write(row.fields());
        self.state.lock().effect = Some(row);
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
        let (mut row, shown, seen) = {
            let mut state = self.state.lock();
            let row = state.effect.take().unwrap_or_else(|| RowWriter::new(&self.call.digest));
            (row, state.shown.take(), state.seen)
        };
        row.fields().string(CALL, &self.call.name);
        if let Some(shown) = shown {
            row.fields().document("v", &shown);
        }
        let row = NewRow { token: &self.token, value: row.finish(now_millis()), seen, write_apart };
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
    fn answer(&self, row: TokenRow) -> Result<Found> {
        let TokenRow { key, digest, result, .. } = row;
        let mut answer = Document::try_from(result)?;
        let first = answer.remove(CALL);
        if first.as_ref().and_then(Bson::as_str) == Some(LOST) {
            let reason = "a call with this token has happened, and its result was damaged when the folder was salvaged";
            return Err(Error::corruption(Family::Outcomes.name(), &key, reason));
        }
        if digest == self.call.digest {
            return Ok(Found { key, answer });
        }
        let first = match first {
            Some(Bson::String(first)) => first,
            Some(_) | None => "another call".to_owned(),
        };
        let reused = ExactlyOnceError::reused(first, self.call.name.clone());
        Err(Error::new(ErrorKind::ExactlyOnce(reused)))
    }
}

/// The stored form of the row of a token that was used, and whose result is lost.
pub(crate) fn without_result(millis: u64) -> Vec<u8> {
    let mut row = RowWriter::new(&[0; DIGEST_BYTES]);
    row.fields().string(CALL, LOST);
    row.finish(millis)
}

/// The error of a call that another one with its token was faster than. No caller sees it.
#[cold]
fn superseded() -> Error {
    Error::command(Code::WRITE_CONFLICT, "another call with the token was faster")
}
