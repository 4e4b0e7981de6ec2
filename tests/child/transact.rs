//! Commits transactions, and does writes that can be sent again, until the process is killed.

use cairndb_tests::transacting::{THREADS, VERSIONS_PER_LIFE, command, is_transaction, make, transact};

use crate::versions::Work;

pub(crate) const WORK: Work = Work {
    threads: THREADS,
    versions_per_life: VERSIONS_PER_LIFE,
    make: |client| Ok(make(client)?),
    write: |client, tag, version, is_journaled| {
        if is_transaction(tag, version) {
            transact(client, tag, version, is_journaled)?;
        } else {
            command(client, tag, version, is_journaled)?;
        }
        Ok(None)
    },
};
