//! The state of a client: for each counter the rest of the block that it drew last, and for each collection its
//! auto-increment fields.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bson::Document;
use mongodb::sync::{ClientSession, Collection};
use sequence::error::SequenceError;

use crate::cluster::counter::{Contract, Counter, Run};
use crate::cluster::take::{pass, read, take};
use crate::error::{ErrorKind, Result};

/// The fields of a collection that number themselves, as counters.
pub(super) type Fields = Arc<Vec<Counter>>;

/// State shared by all handles of a client.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// By the namespace of the counters and the `_id`.
    slots: Mutex<HashMap<(String, String), SharedSlot>>,
    /// By the namespace of the collection.
    fields: Mutex<HashMap<String, Fields>>,
}

type SharedSlot = Arc<Mutex<Slot>>;

/// A counter as it was read last, and what is left of the block.
#[derive(Debug, Default)]
struct Slot {
    counter: Option<Counter>,
    run: Run,
}

impl Blocks {
    /// Draws values of a counter, at least one and at most `count`. A gapless one gives no more than is asked for, and within
    /// a transaction only if `session` is one.
    pub(super) fn take(
        &self,
        counters: &Collection<Document>,
        id: &str,
        count: u64,
        mut session: Option<&mut ClientSession>,
    ) -> Result<Vec<i64>> {
        if count == 0 {
            let (expected, value) = ("1 or more".to_owned(), "0".to_owned());
            return Err(SequenceError::OptionRange { option: "count", expected, value }.into());
        }
        let slot = self.slot(counters, id);
        // Held while the block is drawn: a thread that waits here needs a value of it.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match slot.counter.take() {
            Some(known) => known,
            None => read(counters, id, session.as_deref_mut())?,
        };
        match known.contract {
            Contract::Ordered => return Err(ordered(id).into()),
            // Values that a transaction draws are returned if it does not commit, so none of them is kept here.
            Contract::Gapless => {
                let (counter, mut run) = take(counters, known, count, session)?;
                slot.counter = Some(counter);
                return Ok(run.take(count));
            }
            Contract::Fast => {}
        }
        if slot.run.left == 0 {
            let block = known.block;
            let (counter, run) = take(counters, known, block, None)?;
            (slot.counter, slot.run) = (Some(counter), run);
        } else {
            slot.counter = Some(known);
        }
        Ok(slot.run.take(count))
    }

    /// Passes a value that a document brings.
    pub(super) fn pass(
        &self,
        counters: &Collection<Document>,
        counter: &Counter,
        value: i64,
        session: Option<&mut ClientSession>,
    ) -> Result<()> {
        if counter.contract == Contract::Ordered {
            return Err(ordered(&counter.id).into());
        }
        let slot = self.slot(counters, &counter.id);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.run.pass(value);
        let session = session.filter(|_| counter.contract == Contract::Gapless);
        pass(counters, counter, value, session)
    }

    /// Gives up what is left of a block.
    pub(super) fn give_up(&self, counters: &Collection<Document>, id: &str) {
        let slot = self.slot(counters, id);
        slot.lock().unwrap_or_else(PoisonError::into_inner).run.left = 0;
    }

    /// The fields of a collection that number themselves. They are read once.
    pub(super) fn fields(
        &self,
        namespace: &str,
        read: impl FnOnce() -> Result<Vec<Counter>>,
    ) -> Result<Fields> {
        let known = self.fields.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = Arc::new(read()?);
        let mut fields = self.fields.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(fields.entry(namespace.to_owned()).or_insert(found)))
    }

    fn slot(&self, counters: &Collection<Document>, id: &str) -> SharedSlot {
        let key = (counters.namespace().to_string(), id.to_owned());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key).or_default())
    }
}

fn ordered(id: &str) -> ErrorKind {
    ErrorKind::Unsupported(format!(
        "the contract of {id} is ordered, which has no counterpart in a cluster: follow its change streams instead"
    ))
}
