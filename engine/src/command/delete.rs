//! `delete`.

use bson::{DateTime, Document, doc};

use crate::codes::refused;
use crate::command::Place;
use crate::command::arguments::Arguments;
use crate::command::write_errors::{WriteErrors, number};
use crate::error::Result;
use crate::options::DeleteOptions;

pub(super) fn delete(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["deletes", "let", "ordered"], &["encryptionInformation"])?;
    arguments.no_max_time()?;
    let is_ordered = arguments.boolean("ordered")?.unwrap_or(true);
    let shared = DeleteOptions {
        let_vars: arguments.document("let")?.cloned(),
        write_concern: arguments.write_concern()?,
        ..DeleteOptions::default()
    };
    let target = arguments.target()?;
    let now = DateTime::now();
    let mut deleted = 0;
    let mut errors = WriteErrors::default();
    for (index, statement) in arguments.statements("deletes")?.into_iter().enumerate() {
        match apply(place, target, (&Arguments::of("deletes", statement), now), &shared) {
            Ok(count) => deleted += count,
            Err(error) => {
                errors.push(index, error)?;
                if is_ordered {
                    break;
                }
            }
        }
    }
    let mut reply = doc! { "n": number(deleted) };
    errors.report(&mut reply);
    Ok(reply)
}

fn apply(
    place: &Place<'_>,
    target: &str,
    (statement, now): (&Arguments<'_>, DateTime),
    shared: &DeleteOptions,
) -> Result<u64> {
    statement.allow_in_statement(&["collation", "hint", "limit", "q"], &["sampleId"])?;
    let filter = statement.document("q")?.ok_or_else(|| statement.missing("q"))?.clone();
    let options =
        DeleteOptions { collation: statement.collation()?, hint: statement.hint()?, ..shared.clone() };
    let collection = place.collection(target);
    let delete = match statement.integer("limit")?.ok_or_else(|| statement.missing("limit"))? {
        0 => collection.delete_many(filter),
        1 => collection.delete_one(filter),
        other => {
            return Err(refused(9, format!("The limit field in delete objects must be 0 or 1. Got {other}")));
        }
    };
    Ok(delete.with_options(options).at(now).run()?.deleted_count)
}
