//! Sessions: who makes calls that belong together, and their transactions.

pub(crate) mod again;
pub(crate) mod commit;
mod cursor;
mod handle;
pub(crate) mod once;
mod options;
mod start;

pub use self::cursor::{SessionCursor, SessionCursorIter};
pub use self::handle::{AbortTransaction, ClientSession, CommitTransaction};
pub use self::once::StartTransactionOnce;
pub use self::options::{ReadConcern, TransactionOptions};
pub use self::start::{StartSession, StartTransaction};
