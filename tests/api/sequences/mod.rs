//! Sequences that users make: what they may be, which values they give, and what changes them.

mod change;
mod crash;
mod ledger;
mod life;
mod options;
mod refusals;
mod values;

use cairndb::bson::Document;
use cairndb::{Client, Database, Error, Sequence, SequenceOptions, SequenceSnapshot};
use cairndb_tests::scratch::Scratch;

pub(crate) use crate::auto_increment::{crashed_into, sequence_refuses, shows};

/// A database with one sequence.
struct Numbers {
    // Dropped first: the folder goes last.
    sequence: Sequence,
    db: Database,
    client: Client,
    scratch: Scratch,
}

impl Numbers {
    #[track_caller]
    fn with(options: Document) -> Self {
        let scratch = Scratch::new();
        let client = scratch.open();
        let db = client.database("test");
        let options = SequenceOptions::try_from(options).expect("well-formed options");
        db.create_sequence("numbers").with_options(options).run().expect("allowed options");
        Self::of(client, scratch)
    }

    fn of(client: Client, scratch: Scratch) -> Self {
        let db = client.database("test");
        Self { sequence: db.sequence("numbers"), db, client, scratch }
    }

    /// The same after a clean close.
    #[track_caller]
    fn reopened(self) -> Self {
        let Self { client, scratch, .. } = self;
        client.close().expect("a clean close");
        Self::of(scratch.open(), scratch)
    }

    /// The state that a process finds that opens the database after this one was killed.
    #[track_caller]
    fn killed(&self) -> Self {
        let (client, scratch) = crashed_into(&self.scratch);
        Self::of(client, scratch)
    }

    #[track_caller]
    fn next(&self) -> i64 {
        self.sequence.next_value().run().expect("a value")
    }

    #[track_caller]
    fn take(&self, count: usize) -> Vec<i64> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Acquires a whole block: its first value and its length.
    #[track_caller]
    fn block(&self) -> (i64, i32) {
        let fetched = self.sequence.fetch(2_147_483_647).run().expect("values");
        (fetched.next_value, fetched.return_num)
    }

    #[track_caller]
    fn alter(&self, options: Document) {
        self.try_alter(options).expect("an allowed change");
    }

    fn try_alter(&self, options: Document) -> Result<(), Error> {
        self.sequence.alter(SequenceOptions::try_from(options)?).run()
    }

    #[track_caller]
    fn snapshot(&self) -> SequenceSnapshot {
        self.sequence.snapshot().run().expect("a snapshot")
    }

    /// The snapshot has these fields with these values, types included.
    #[track_caller]
    fn shows(&self, fields: Document) {
        shows(&self.snapshot(), fields);
    }

    /// No value is left.
    #[track_caller]
    fn is_used_up(&self) {
        sequence_refuses(self.sequence.next_value().run(), -325, "no value left");
    }

    /// Other handles with blocks of their own.
    fn acquirers<const COUNT: usize>(&self) -> [Sequence; COUNT] {
        std::array::from_fn(|_| self.client.acquirer().database("test").sequence("numbers"))
    }
}
