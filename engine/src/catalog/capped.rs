//! Capped collections: how large they may become, and their insertion order in memory.
//!
//! Each document has a position, which ascends from insert to insert. All writes to a capped collection take turns at the lock
//! of its order, from before they look at it until their commit returned. So positions become visible in their order, and
//! readers that follow the collection miss none.
//!
//! A writer holds the lock before it acquires latches, never the other way round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;

use base::codes::refused;
use base::error::{Error, Result};
use base::lock_order::{self, Held, Place};
use base::sync::{self, AtomicBool, AtomicU64, Mutex, MutexGuard};
use bson::{Bson, Document, doc};
use bytes::{Buf, BufMut};
use query::code::Code;
use query::operation::OperationContext;
use store::handles::Storage;
use store::keys::OrderId;
use store::write::Batch;
use store::{Database, Family};

/// The names of the options, as in MongoDB's descriptions of collections.
pub(crate) const CAPPED: &str = "capped";
pub(crate) const SIZE: &str = "size";
pub(crate) const MAX: &str = "max";
/// The name of the order's id in a catalog entry.
const ORDER: &str = "order";

/// Sizes are multiples of this many bytes.
const SIZE_STEP: u64 = 256;
/// The largest size, 1 PB as in MongoDB.
const SIZE_MAX: u64 = 1 << 50;
/// The largest number of documents that can be asked for. MongoDB treats the next one as no limit.
const DOCUMENTS_MAX: u64 = (1 << 31) - 1;
/// The length of an order's state.
const STATE_BYTES: usize = 32;

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CappedLimits {
    /// The bytes of all documents together.
    pub(crate) size: u64,
    /// The number of documents. Absent for no limit.
    pub(crate) documents_max: Option<u64>,
}

/// The requested limits of a capped collection, not checked yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CappedRequest {
    pub(crate) capped: bool,
    pub(crate) size: Option<i64>,
    pub(crate) max: Option<i64>,
}

/// The declaration of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capped {
    pub(crate) limits: CappedLimits,
    /// The id of the stored order.
    pub(crate) order: OrderId,
}

/// The state of a capped collection. Stored with each of its writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderState {
    /// No document has a position below this one.
    pub(crate) first: u64,
    /// The position of the next document.
    pub(crate) next: u64,
    pub(crate) documents: u64,
    /// The bytes of all documents.
    pub(crate) bytes: u64,
}

/// The insertion order of a capped collection, in memory.
pub(crate) struct InsertionOrder {
    pub(crate) id: OrderId,
    /// `None` until it was read, and after a commit that failed.
    state: Mutex<Option<OrderState>>,
    /// All documents below this position were removed to make room for others. Raised before the commit.
    room_made: AtomicU64,
    /// Whether a reader waits. Writers look here first.
    has_waiting: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// The readers that wait for the next document.
#[derive(Default)]
struct Waiting {
    last: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// A reader that waits until this is dropped.
pub(crate) struct WaitingReader {
    order: Arc<InsertionOrder>,
    number: u64,
}

/// The lock of an order, which a writer holds, with the state that its commit will leave.
pub(crate) struct OrderTurn<'a> {
    order: &'a InsertionOrder,
    /// Absent once the turn ends.
    held: Option<MutexGuard<'a, Option<OrderState>>>,
    _place: Held,
    pub(crate) state: OrderState,
    /// `room_made` before this turn, if it was raised.
    raised_from: Option<u64>,
    /// Whether readers have yet to be woken for a commit of this turn.
    is_to_wake: bool,
}

impl CappedRequest {
    /// The limits that are asked for. Returns `None` if no capped collection is.
    pub(crate) fn limits(self) -> Result<Option<CappedLimits>> {
        let Self { capped, size, max } = self;
        // The words are those by which programs recognize the rejection of a MongoDB server.
        let invalid = |message: &str| Err(refused(Code::INVALID_OPTIONS, message));
        match (capped, size) {
            (false, None) if max.is_none() => Ok(None),
            (false, _) => invalid(
                "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
            ),
            (true, None) => invalid("the 'size' field is required when 'capped' is true"),
            (true, Some(size)) => Ok(Some(CappedLimits {
                size: checked_size(SIZE, size)?,
                documents_max: checked_max(MAX, max)?,
            })),
        }
    }
}

/// A size in bytes, rounded up as MongoDB does. `field` is its name in messages.
pub(crate) fn checked_size(field: &str, size: i64) -> Result<u64> {
    // The words of MongoDB's parser of commands, which clients compare.
    let wrong = |code, rule: String| {
        Err(refused(code, format!("BSON field '{field}' value must be {rule}, actual value '{size}'")))
    };
    match u64::try_from(size) {
        Ok(1..=SIZE_MAX) => Ok(size.cast_unsigned().next_multiple_of(SIZE_STEP)),
        Ok(1..) => wrong(Code::VALUE_BELOW_MINIMUM, format!("<= {SIZE_MAX}")),
        Ok(0) | Err(_) => wrong(Code::VALUE_BELOW_MINIMUM, ">= 1".to_owned()),
    }
}

/// A number of documents. As in MongoDB none and less is not a limit. `field` is its name in messages.
pub(crate) fn checked_max(field: &str, max: Option<i64>) -> Result<Option<u64>> {
    match max.and_then(|max| u64::try_from(max).ok()) {
        None | Some(0 | DOCUMENTS_MAX) => Ok(None),
        Some(max) if max < DOCUMENTS_MAX => Ok(Some(max)),
        Some(max) => {
            let message = format!("{field} in a capped collection has to be < 2^31 or not set, and is {max}");
            Err(refused(Code::BAD_VALUE, message))
        }
    }
}

impl CappedLimits {
    /// Adds the options by which `create` makes such a collection.
    pub(crate) fn describe(&self, description: &mut Document) {
        description.insert(CAPPED, true);
        description.insert(SIZE, self.size.cast_signed());
        if let Some(max) = self.documents_max {
            description.insert(MAX, max.cast_signed());
        }
    }

    /// Adds its statistics: 0 documents mean no limit, and the size is divided by `scale`.
    pub(crate) fn describe_stats(&self, description: &mut Document, scale: u64) {
        description.insert(MAX, self.documents_max.unwrap_or(0).cast_signed());
        description.insert("maxSize", self.size.checked_div(scale).unwrap_or(0).cast_signed());
    }

    /// Whether a number of documents with these bytes together is too much.
    pub(crate) fn are_exceeded(&self, documents: u64, bytes: u64) -> bool {
        bytes > self.size || self.documents_max.is_some_and(|max| documents > max)
    }
}

impl Capped {
    /// The stored form.
    pub(crate) fn encode(&self) -> Document {
        let mut stored = doc! { SIZE: self.limits.size.cast_signed() };
        if let Some(max) = self.limits.documents_max {
            stored.insert(MAX, max.cast_signed());
        }
        stored.insert(ORDER, i64::from(self.order.0));
        stored
    }

    /// Reads what [`encode`](Self::encode) wrote. The error says what is wrong.
    pub(crate) fn decode(stored: &Bson) -> std::result::Result<Self, String> {
        let stored = stored.as_document().ok_or("capped is not a document")?;
        let number = |field: &str| {
            let number = stored.get_i64(field).ok().and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| format!("{field} of capped is not a number of 64 bits that is 0 or above"))
        };
        // Stored as a wider integer, because BSON has none without a sign.
        let order = u32::try_from(number(ORDER)?).map_err(|_| "order of capped is not of 32 bits")?;
        let documents_max = stored.contains_key(MAX).then(|| number(MAX)).transpose()?;
        let limits = CappedLimits { size: number(SIZE)?, documents_max };
        Ok(Self { limits, order: OrderId(order) })
    }
}

impl OrderState {
    /// The state of a collection that never had a document.
    pub(crate) fn empty() -> Self {
        Self { first: 1, next: 1, documents: 0, bytes: 0 }
    }

    pub(crate) fn encode(&self) -> [u8; STATE_BYTES] {
        // Big-endian, like every number in keys and fixed values.
        let mut bytes = [0; STATE_BYTES];
        let mut rest = &mut bytes[..];
        for number in [self.first, self.next, self.documents, self.bytes] {
            rest.put_u64(number);
        }
        bytes
    }

    pub(crate) fn decode(order: OrderId, value: &[u8]) -> Result<Self> {
        let mut rest = value;
        if rest.len() != STATE_BYTES {
            let reason = format!("the state of an order has {STATE_BYTES} bytes, not {}", value.len());
            return Err(Error::corruption(Family::Entries.name(), &order.state_key(), reason));
        }
        Ok(Self {
            first: rest.get_u64(),
            next: rest.get_u64(),
            documents: rest.get_u64(),
            bytes: rest.get_u64(),
        })
    }

    /// Adds it to a batch.
    pub(crate) fn stage(&self, batch: &mut Batch<'_>, order: OrderId) {
        batch.put(Family::Entries, &order.state_key(), &self.encode());
    }
}

impl InsertionOrder {
    pub(crate) fn new(id: OrderId) -> Self {
        Self {
            id,
            state: Mutex::new(None),
            room_made: AtomicU64::new(0),
            has_waiting: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Waits for the turn of a write, unless the operation must end before. The caller holds no latch.
    pub(crate) fn turn(&self, database: &Database, operation: &OperationContext) -> Result<OrderTurn<'_>> {
        let place = lock_order::take(Place::Order);
        let mut held = sync::lock_for(operation, &self.state)?;
        // Read once in the life of the store, and again after a commit whose outcome is not known.
        let state = match *held {
            Some(state) => state,
            None => *held.insert(self.load(database)?),
        };
        Ok(OrderTurn {
            order: self,
            held: Some(held),
            _place: place,
            state,
            raised_from: None,
            is_to_wake: false,
        })
    }

    fn load(&self, database: &Database) -> Result<OrderState> {
        let key = self.id.state_key();
        let missing = || Error::corruption(Family::Entries.name(), &key, "the state of an order is missing");
        OrderState::decode(self.id, &database.get(Family::Entries, &key)?.ok_or_else(missing)?)
    }

    /// All documents below this position were removed, or will be by a commit that is made now, for others to have room.
    pub(crate) fn room_made(&self) -> u64 {
        self.room_made.load(Ordering::Acquire)
    }

    /// Wakes the reader by `waker` after the next insert, or when the collection ends, unless what is returned is dropped before.
    /// A reader that was woken and goes on to wait calls this again before it looks: no insert wakes the same reader twice.
    pub(crate) fn wait(self: &Arc<Self>, waker: Waker) -> WaitingReader {
        let mut waiting = self.waiting.lock();
        // Numbered, because two readers may have the same waker.
        waiting.last += 1;
        let number = waiting.last;
        waiting.wakers.insert(number, waker);
        self.has_waiting.store(true, Ordering::SeqCst);
        // The caller looks at the store next, and a writer here after its commit: one of the two sees the other.
        fence(Ordering::SeqCst);
        WaitingReader { order: Arc::clone(self), number }
    }

    /// Wakes all readers that wait.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.has_waiting.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        // Removed, so that the inserts that come before a reader has looked find no reader to wake.
        let wakers = {
            let mut waiting = self.waiting.lock();
            self.has_waiting.store(false, Ordering::SeqCst);
            std::mem::take(&mut waiting.wakers)
        };
        // Without the lock: a waker may run code of another crate.
        wakers.into_values().for_each(Waker::wake);
    }
}

impl Drop for WaitingReader {
    fn drop(&mut self) {
        let mut waiting = self.order.waiting.lock();
        waiting.wakers.remove(&self.number);
        // Under the lock, so that a reader that comes now is not mistaken for none.
        self.order.has_waiting.store(!waiting.wakers.is_empty(), Ordering::SeqCst);
    }
}

impl OrderTurn<'_> {
    pub(crate) fn id(&self) -> OrderId {
        self.order.id
    }

    /// Announces that the documents below a position are removed by the next commit.
    pub(crate) fn make_room_below(&mut self, position: u64) {
        // The largest of all turns: a position that is below it is gone for ever.
        let before = self.order.room_made.fetch_max(position, Ordering::AcqRel);
        self.raised_from.get_or_insert(before);
    }

    /// Adds the state to a batch, makes the commit, and keeps the state if it succeeds.
    pub(crate) fn commit<'b>(
        &mut self,
        mut batch: Batch<'b>,
        commit: impl FnOnce(Batch<'b>) -> Result<()>,
    ) -> Result<()> {
        // Those of the commit before must not wait for this one.
        if std::mem::replace(&mut self.is_to_wake, true) {
            self.order.wake();
        }
        // In the same batch: a state that is not of its documents would be found by no reader.
        self.state.stage(&mut batch, self.order.id);
        let committed = commit(batch);
        match &committed {
            Ok(()) => self.hold(Some(self.state)),
            // It may have been made or not: the next write reads the state again.
            Err(error) => {
                self.hold(None);
                // Nothing was removed, so no reader has to learn that it was overtaken.
                if let Some(before) = self.raised_from.filter(|_| !error.is_commit_unknown()) {
                    self.order.room_made.store(before, Ordering::Release);
                }
            }
        }
        self.raised_from = None;
        committed
    }

    fn hold(&mut self, state: Option<OrderState>) {
        if let Some(held) = &mut self.held {
            **held = state;
        }
    }
}

impl Drop for OrderTurn<'_> {
    fn drop(&mut self) {
        // First: there may be thousands of readers, and the next writer need not wait for them.
        self.held = None;
        // Also after a commit that failed: what could not be synced is seen all the same.
        if self.is_to_wake {
            self.order.wake();
        }
    }
}

/// Removes everything that is stored of an order that is not complete, with its mark.
pub(crate) fn discard(storage: Storage<'_>, order: OrderId) -> Result<()> {
    let mut batch = Batch::new(storage.database);
    batch.delete_ended_entries(&order.prefix(), &order.end());
    batch.delete(Family::Meta, &order.building_key());
    storage.store.commit_definition(batch)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;
    use crate::database::Database;
    use crate::fixture::Fixture;
    use crate::shared::Caller;

    fn limits(
        capped: bool,
        size: Option<i64>,
        max: Option<i64>,
    ) -> std::result::Result<Option<CappedLimits>, i32> {
        CappedRequest { capped, size, max }.limits().map_err(|error| error.code().unwrap_or(0))
    }

    /// The number of times that a reader was woken, and whether the order was locked then.
    #[derive(Default)]
    struct Reader {
        woken: AtomicUsize,
        order: OnceLock<Arc<InsertionOrder>>,
    }

    impl Wake for Reader {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
            let order = self.order.get().expect("it waits for one");
            assert!(order.state.try_lock().is_some(), "the next writer waits for the readers");
        }
    }

    /// Each insert woke every reader again, with the lock of the order: those that had not looked yet, too.
    #[test]
    fn a_reader_is_woken_once_for_each_look_and_no_writer_waits_for_it() {
        let fixture = Fixture::filled(|client| {
            let database = client.database("test");
            database.create_collection("log").capped(true).size(1 << 20).run().expect("made");
        });
        let order = Arc::clone(fixture.collection("log").expect("there").order().expect("it is capped"));
        let readers: Vec<Arc<Reader>> = (0..100).map(|_| Arc::default()).collect();
        let shared = Arc::new(fixture.shared);
        let log = Database::new(shared, Caller::default(), "test").collection::<Document>("log");
        let mut waiting = Vec::new();
        for looks in 1..=3 {
            waiting.clear();
            for reader in &readers {
                reader.order.get_or_init(|| Arc::clone(&order));
                waiting.push(order.wait(Arc::clone(reader).into()));
            }
            log.insert_many((0..3).map(|_| doc! {})).run().expect("stored");
            log.insert_one(doc! {}).run().expect("stored");
            assert!(readers.iter().all(|reader| reader.woken.load(Ordering::Relaxed) == looks), "{looks}");
        }
        // A reader that gives up is not woken.
        waiting.clear();
        waiting.push(order.wait(Arc::clone(&readers[0]).into()));
        drop(waiting);
        log.insert_one(doc! {}).run().expect("stored");
        assert!(readers.iter().all(|reader| reader.woken.load(Ordering::Relaxed) == 3));
    }

    #[test]
    fn sizes_are_rounded_up_and_limits_are_mongodbs() {
        let of = |size, documents_max| Ok(Some(CappedLimits { size, documents_max }));
        assert_eq!(limits(false, None, None), Ok(None));
        assert_eq!(limits(true, Some(1), None), of(256, None));
        assert_eq!(limits(true, Some(256), Some(3)), of(256, Some(3)));
        assert_eq!(limits(true, Some(257), Some(0)), of(512, None));
        assert_eq!(limits(true, Some(1 << 50), Some(-1)), of(1 << 50, None));
        assert_eq!(limits(true, Some(4096), Some((1 << 31) - 1)), of(4096, None));
        assert_eq!(limits(true, None, None), Err(72));
        assert_eq!(limits(false, Some(4096), None), Err(72));
        assert_eq!(limits(false, None, Some(4)), Err(72));
        assert_eq!(limits(true, Some(0), None), Err(51024));
        assert_eq!(limits(true, Some(-5), None), Err(51024));
        assert_eq!(limits(true, Some((1 << 50) + 1), None), Err(51024));
        assert_eq!(limits(true, Some(4096), Some(1 << 31)), Err(2));
    }

    #[test]
    fn what_is_stored_comes_back() {
        for documents_max in [None, Some(7)] {
            let capped = Capped { limits: CappedLimits { size: 4096, documents_max }, order: OrderId(9) };
            assert_eq!(Capped::decode(&Bson::Document(capped.encode())), Ok(capped));
        }
        assert!(Capped::decode(&Bson::Document(doc! { "size": 4096_i64 })).is_err());
        let state = OrderState { first: 1, next: 9, documents: 3, bytes: 700 };
        assert_eq!(OrderState::decode(OrderId(1), &state.encode()).ok(), Some(state));
        assert!(OrderState::decode(OrderId(1), &[0; 31]).is_err());
    }
}
