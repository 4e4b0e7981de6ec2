//! The name of the collection that `$out` and `$merge` write to, as it was given.

use bson::RawBsonRef;

use crate::code::Code;
use crate::pipeline::error::Fault;
use crate::value::describe;

/// The collection that a stage writes to. Its name was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteTarget {
    /// The database. `None` is that of the pipeline.
    pub db: Option<String>,
    /// The collection.
    pub coll: String,
}

/// Parses the name of a database or a collection, the option `db` or `coll` of a stage.
pub(super) fn name(
    stage: &'static str,
    option: &'static str,
    given: RawBsonRef<'_>,
) -> Result<String, Fault> {
    let expected = if option == "db" { "a string as 'db'" } else { "a string as 'coll'" };
    let wrong = || Fault::Operand { stage, expected, found: describe(given), code: Code::TYPE_MISMATCH };
    given.as_str().map(str::to_owned).ok_or_else(wrong)
}
