//! `compact`: of a collection, as MongoDB has it, and of everything, which is CairnDB's.

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, doc};
use query::code::Code;

use crate::arguments::Arguments;
use crate::command::context::CommandContext;
use crate::compaction::{Compaction, CompactionReport};

/// The database that commands of the whole store are run on.
const ADMIN: &str = "admin";

/// Runs `compact`. Its value is the name of a collection, or, on `admin`, the number 1 for all collections.
///
/// MongoDB accepts `force` on a member of a replica set. Here it has no effect.
pub(super) fn compact(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["force"])?;
    arguments.boolean("force")?;
    let report = if arguments.count("compact").ok().flatten() == Some(1) {
        if context.db != ADMIN {
            return Err(refused(
                Code::UNAUTHORIZED,
                "compact of all collections may only be run against the admin database.",
            ));
        }
        Compaction::of_everything(context.shared, &context.caller).run()?
    } else {
        context.collection(arguments.target()?).compact().run()?
    };
    let CompactionReport { bytes_before, bytes_after } = report;
    Ok(doc! {
        "bytesFreed": long(report.bytes_freed()),
        // CairnDB's own.
        "bytesBefore": long(bytes_before),
        "bytesAfter": long(bytes_after),
    })
}

fn long(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}
