//! `validate`: the findings of the audit in one collection, in MongoDB's form.

use std::collections::HashSet;

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, doc};
use query::code::Code;
use store::pace::Pace;

use crate::arguments::Arguments;
use crate::audit::{self, Watch};
use crate::command::context::CommandContext;
use crate::command::repeated;
use crate::results::Finding;

/// The flags that change nothing. `scandata` is an option of early versions of MongoDB, which PyMongo still sends.
const FLAGS: [&str; 5] = ["background", "checkBSONConformance", "full", "metadata", "scandata"];

/// Runs `validate`.
///
/// It audits the whole store, as `verify` does: an entry without a record is found only by reading all entries. Writes go on
/// meanwhile. The audit is always a full one, so `full` changes nothing.
pub(super) fn validate(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&FLAGS)?;
    for flag in FLAGS {
        arguments.boolean(flag)?;
    }
    let collection = context.collection(arguments.target()?);
    let namespace = collection.namespace().to_string();
    // Before the audit, which reads the whole store: a missing collection is rejected at once.
    let keys = collection.handle.key_counts()?.ok_or_else(|| {
        refused(Code::NAMESPACE_NOT_FOUND, format!("Collection '{namespace}' does not exist to validate."))
    })?;
    // The store is given back before the reply is made: `close` waits for it.
    let report = {
        let database = context.shared.store.enter()?;
        let operation = context.operation();
        let look = || Ok(operation.look()?);
        audit::verify(
            context.shared,
            &database,
            &mut Watch::new(Pace::new(None, &look), &operation, None),
            repeated::damage,
        )?
    };
    let findings: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.place == namespace).collect();
    let broken: HashSet<&str> = findings.iter().filter_map(|finding| finding.index.as_deref()).collect();
    // A finding of an index is about an entry, so it makes no document invalid.
    let invalid = findings.iter().filter(|finding| finding.index.is_none()).count();
    let errors = findings.iter().map(|finding| {
        let index = finding.index.as_ref().map_or_else(String::new, |name| format!("index {name}: "));
        Bson::String(format!("{index}{} (key {})", finding.problem, finding.key))
    });
    let details = keys.indexes.iter().map(|(name, _)| {
        let is_valid = !broken.contains(name.as_str());
        (name.clone(), Bson::Document(doc! { "valid": is_valid }))
    });
    let counts = keys.indexes.iter().map(|(name, count)| (name.clone(), Bson::Int64(count.cast_signed())));
    let nothing = Vec::<Bson>::new;
    // Findings that are not listed may belong to this collection, so it does not count as valid.
    let warnings = match report.findings_omitted {
        0 => nothing(),
        omitted => vec![format!("{omitted} more findings of the store are not listed").into()],
    };
    Ok(doc! {
        "ns": namespace,
        "nInvalidDocuments": i64::try_from(invalid).unwrap_or(i64::MAX),
        "nNonCompliantDocuments": 0_i64,
        "nrecords": keys.documents.cast_signed(),
        "nIndexes": i32::try_from(keys.indexes.len()).unwrap_or(i32::MAX),
        "keysPerIndex": counts.collect::<Document>(),
        "indexDetails": details.collect::<Document>(),
        "valid": findings.is_empty() && report.findings_omitted == 0,
        "repaired": false,
        "warnings": warnings,
        "errors": errors.collect::<Vec<Bson>>(),
        // MongoDB lists here what a repair could use. Nothing is repaired, so all findings are in `errors`.
        "extraIndexEntries": nothing(),
        "missingIndexEntries": nothing(),
        "corruptRecords": nothing(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::Family;
    use store::write::{Batch, CommitLevel};

    use super::*;
    use crate::database::Database;
    use crate::fixture::Fixture;
    use crate::options::IndexModel;
    use crate::shared::Caller;

    #[test]
    fn an_index_without_its_entries_is_not_valid() {
        let fixture = Fixture::filled(|client| {
            let things = client.database("test").collection("things");
            for field in ["a", "b"] {
                things
                    .create_index(IndexModel::builder().keys(doc! { field: 1 }).build())
                    .run()
                    .expect("made");
            }
            things.insert_many((0..2).map(|n| doc! { "a": n, "b": n })).run().expect("stored");
            client.database("test").collection("others").insert_one(doc! {}).run().expect("stored");
        });
        let indexes = fixture.collection("things").expect("there").indexes();
        let damaged = indexes.iter().find(|index| index.name == "a_1").expect("made").id;
        let mut batch = Batch::new(&fixture.database);
        batch.delete_range(Family::Entries, &damaged.prefix(), &damaged.end());
        fixture.shared.store.commit(batch, CommitLevel::Buffered).expect("committed");

        let shared = Arc::new(fixture.shared);
        let database = Database::new(shared, Caller::default(), "test");
        let validate = |name: &str| database.run_command(doc! { "validate": name }).run().expect("a reply");
        let reply = validate("things");
        assert_eq!(reply.get_bool("valid").ok(), Some(false), "{reply}");
        let details = doc! { "_id_": { "valid": true }, "a_1": { "valid": false }, "b_1": { "valid": true } };
        assert_eq!(reply.get_document("indexDetails").ok(), Some(&details));
        let errors: Vec<&str> =
            reply.get_array("errors").expect("a list").iter().filter_map(Bson::as_str).collect();
        assert!(
            !errors.is_empty() && errors.iter().all(|error| error.starts_with("index a_1: ")),
            "{errors:?}"
        );
        // An entry that is missing makes no document invalid, and no other collection.
        assert_eq!(reply.get_i64("nInvalidDocuments").ok(), Some(0));
        assert_eq!(validate("others").get_bool("valid").ok(), Some(true));
    }
}
