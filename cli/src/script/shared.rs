//! State shared by the engine of scripts and the functions that it gives them: the store, the output, and the reason
//! why scripts are to end.

use std::cell::RefCell;

use cairndb::bson::{Document, RawDocument, RawDocumentBuf};
use rquickjs::{Ctx, Object};

use crate::failure::Failure;
use crate::look::Look;
use crate::output::{Output, Written};
use crate::signals::Signals;
use crate::store::{Documents, Store, StoreSession};

/// The global that has what this folder's scripts share, by a name that no script can write by accident.
pub(super) const CAIRN: &str = "\0cairn";
/// The function of this folder's scripts that says whether scripts are to end.
pub(super) const IS_TO_STOP: &str = "isToStop";

/// The reason why scripts end before their end.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// `exit(n)` was called.
    Exit(i32),
    /// The reader of standard output is gone.
    NotWanted,
    /// Standard output failed.
    Failed(Failure),
}

/// State shared by the engine and its functions.
pub(super) struct Shared {
    pub(super) store: RefCell<Box<dyn Store>>,
    pub(super) store_name: String,
    pub(super) database: String,
    pub(super) output: RefCell<Output>,
    pub(super) look: Look,
    pub(super) ended: RefCell<Option<Ended>>,
    pub(super) signals: RefCell<Signals>,
    pub(super) keeps_read: bool,
    pub(super) last_read: RefCell<Option<RawDocumentBuf>>,
    /// Promises that failed and that nothing waits for, each with its number.
    pub(super) rejected: RefCell<Vec<(u32, Failure)>>,
}

impl Shared {
    pub(super) fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        self.store.borrow().run(database, command)
    }

    pub(super) fn stream(
        &self,
        database: &str,
        command: RawDocumentBuf,
    ) -> Result<Box<dyn Documents>, Failure> {
        self.store.borrow().stream(database, command)
    }

    pub(super) fn start_session(&self) -> Result<Box<dyn StoreSession>, Failure> {
        self.store.borrow().start_session()
    }

    /// Writes what a script prints to standard output. A person sees it at once, and a program when there is more or the
    /// statement ends.
    pub(super) fn write(&self, text: &str) -> Result<Written, Failure> {
        let mut output = self.output.borrow_mut();
        let written = output.write(self.look.text(text).as_bytes())?;
        if self.look.is_terminal && written == Written::Whole { output.flush() } else { Ok(written) }
    }

    /// Ends scripts as soon as the engine looks.
    pub(super) fn end(&self, ended: Ended) {
        self.ended.borrow_mut().get_or_insert(ended);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    pub(super) fn is_to_stop(&self) -> bool {
        self.is_ended() || self.signals.borrow().received().is_some()
    }

    /// Keeps the document as it is stored, for who prints what was read without a change.
    pub(super) fn note_read(&self, document: &RawDocument) {
        if self.keeps_read {
            *self.last_read.borrow_mut() = Some(document.to_owned());
        }
    }
}

/// State shared by this folder's scripts.
pub(crate) fn cairn<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    ctx.globals().get(CAIRN)
}
