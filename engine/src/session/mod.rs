//! Sessions: who makes calls that belong together, and their transactions.

mod cursor;
mod handle;
mod options;
mod start;

pub use self::cursor::{SessionCursor, SessionCursorIter};
pub use self::handle::{AbortTransaction, ClientSession, CommitTransaction};
pub use self::options::{ReadConcern, TransactionOptions};
pub use self::start::{StartSession, StartTransaction};
