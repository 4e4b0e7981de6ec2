//! Makes calls with tokens, until the process is killed.

use cairndb_tests::journal::Record;
use cairndb_tests::spending::{Answer, THREADS, VERSIONS_PER_LIFE, call, course, make};

use crate::versions::Work;

pub(crate) const WORK: Work = Work {
    threads: THREADS,
    versions_per_life: VERSIONS_PER_LIFE,
    make: |client| Ok(make(client)?),
    write: |client, tag, version, is_journaled| {
        let Answer { value, .. } = call(client, tag, version, is_journaled)?;
        Ok(Some(Record::Taken { course: course(tag, version), value }))
    },
};
