//! The handle to a sequence: a name, and the sequence that the name was resolved to.

use std::sync::{Arc, OnceLock};

use base::error::{Error, ErrorKind, Result};
use base::names::validate_database;
use sequence::auto_increment::{check_name, is_internal_name};
use sequence::error::SequenceError;
use store::handles::Storage;

use crate::catalog::sequences::SequenceState;
use crate::shared::{Caller, Shared};

/// A sequence of a database: values that any number of threads acquire, each value once.
///
/// A handle is cheap to clone and may be used from many threads. It means a name: after the sequence was
/// dropped or renamed, verbs fail with -324 (`SDB_SEQUENCE_NOT_EXIST`) until a sequence has this name again.
///
/// ```
/// use cairndb::Client;
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let db = client.database("shop");
/// db.create_sequence("tickets").start_value(100).increment(10).run()?;
/// let tickets = db.sequence("tickets");
/// assert_eq!(tickets.next_value().run()?, 100);
/// assert_eq!(tickets.next_value().run()?, 110);
/// let three = tickets.fetch(3).run()?;
/// assert_eq!(three.values().collect::<Vec<_>>(), [120, 130, 140]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sequence {
    pub(super) handle: Arc<Handle>,
}

pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Caller,
    db: String,
    name: String,
    /// The sequence that the name was first resolved to. It is not used any more once it is retired.
    pub(super) resolved: OnceLock<Arc<SequenceState>>,
}

impl Sequence {
    pub(crate) fn new(shared: Arc<Shared>, caller: Caller, db: &str, name: &str) -> Self {
        let handle =
            Handle { shared, caller, db: db.to_owned(), name: name.to_owned(), resolved: OnceLock::new() };
        Self { handle: Arc::new(handle) }
    }

    /// The name of the sequence.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// assert_eq!(client.database("shop").sequence("tickets").name(), "tickets");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    /// Runs an operation on the sequence of this name, which a user must have made: a collection owns the
    /// sequences of its fields. If the sequence is dropped or renamed meanwhile, the name is resolved again.
    pub(super) fn on_state<R>(
        &self,
        operation: impl Fn(&Arc<SequenceState>, Storage<'_>) -> Result<R>,
    ) -> Result<R> {
        check_name(&self.handle.name)?;
        self.inspect(operation)
    }

    /// Runs an operation that changes nothing, also on the sequences of auto-increment fields.
    pub(super) fn inspect<R>(
        &self,
        operation: impl Fn(&Arc<SequenceState>, Storage<'_>) -> Result<R>,
    ) -> Result<R> {
        let shared = &self.handle.shared;
        // Held for the whole operation, all its attempts included, so that `close` waits for it.
        let database = shared.store.enter()?;
        loop {
            // In the loop: a retired sequence may have been replaced by one of the same name.
            let state = self.find()?;
            match operation(&state, shared.storage(&database)) {
                Err(error) if is_retired(&error) => {}
                done => return done,
            }
        }
    }

    fn find(&self) -> Result<Arc<SequenceState>> {
        let Handle { shared, db, name, resolved, .. } = &*self.handle;
        if let Some(state) = resolved.get().filter(|state| !state.sequence.is_retired()) {
            return Ok(Arc::clone(state));
        }
        validate_database(db)?;
        if is_internal_name(name) {
            // Not kept in the handle: a resolved sequence is one from which values may be acquired.
            return shared.catalog.named(db, name);
        }
        check_name(name)?;
        let state = shared.catalog.named(db, name)?;
        // Only the first resolution is kept. After a drop or rename the catalog is asked every time.
        let _ = resolved.set(Arc::clone(&state));
        Ok(state)
    }
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Handle { db, name, .. } = &*self.handle;
        f.debug_struct("Sequence").field("db", db).field("name", name).finish_non_exhaustive()
    }
}

fn is_retired(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Sequence(SequenceError::Retired))
}
