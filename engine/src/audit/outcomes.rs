//! The rows by which repeated writes are answered: every row can be read, no statement of a command was done by two commits, and tokens are of
//! generations that are known and have results of their calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::error::Result;
use bson::{Bson, Document};
use store::keys::META_TOKENS;
use store::scan::{CacheUse, Scan};
use store::{Database, Family};

use crate::audit::findings::Findings;
use crate::audit::watch::{Damage, Watch};
use crate::audit::{Subject, family_name};
use crate::outcomes::generations;
use crate::outcomes::once;
use crate::outcomes::retryable;
use crate::outcomes::row::{Kind, Row, SessionKey};
use crate::outcomes::token_row::{self, TokenRow};

/// A command that may be sent again, by the rows of its commits up to one of them.
struct RepeatableCommand {
    session: Option<SessionKey>,
    number: i64,
    /// The kind of its first commit.
    kind: Kind,
    statements: BTreeSet<u32>,
}

impl RepeatableCommand {
    /// The command whose first row this is.
    fn of(session: Option<SessionKey>, row: &Row) -> Self {
        Self { session, number: row.number, kind: row.kind, statements: BTreeSet::new() }
    }
}

/// Why the result of a token's row is none of its call.
pub(crate) fn damage_of_result(row: TokenRow, damage: Damage) -> Option<&'static str> {
    let mut answer = Document::try_from(row.result).unwrap_or_default();
    match answer.remove(once::CALL) {
        // Salvage has found out that the result is lost.
        Some(Bson::String(call)) if call == once::LOST => None,
        Some(Bson::String(call)) => damage(&call, answer),
        Some(_) | None => Some("it names no call"),
    }
}

pub(super) fn audit(
    subject: &Subject,
    database: &Arc<Database>,
    watch: &mut Watch<'_>,
    damage: Damage,
    findings: &mut Findings,
) -> Result<()> {
    // A folder of an older format that is opened for reading has no such rows.
    if !database.has(Family::Outcomes) {
        return Ok(());
    }
    let everything = (Vec::new(), None);
    let mut scan =
        Scan::open(&subject.snapshot, Family::Outcomes, everything, CacheUse::Bypass, &subject.operation);
    let mut before: Option<RepeatableCommand> = None;
    let generations = generations::stored(&subject.snapshot, &subject.operation);
    while scan.advance()? {
        watch.pace.spend((scan.key().len() + scan.value().len()) as u64)?;
        let mut add =
            |problem: String| findings.add(family_name(Family::Outcomes), None, scan.key(), problem);
        if token_row::is_of_token(scan.key()) {
            let generation = token_row::generation_of(scan.key());
            let is_known = |number| generations.iter().flatten().any(|(known, _)| Some(*known) == number);
            match TokenRow::decode(scan.key(), scan.value()) {
                Err(error) => add(error.to_string()),
                Ok(_) if !is_known(generation) => {
                    add("the token is of a generation that is not known".to_owned());
                }
                Ok(row) => {
                    if let Some(damage) = damage_of_result(row, damage) {
                        add(format!("the result is none of its call: {damage}"));
                    }
                }
            }
            continue;
        }
        let row = match Row::decode(scan.key(), scan.value()) {
            Ok(row) => row,
            Err(error) => {
                add(error.to_string());
                continue;
            }
        };
        let statements = match retryable::statements_of(scan.key(), &row) {
            Ok(statements) => statements,
            Err(error) => {
                add(error.to_string());
                continue;
            }
        };
        let session = SessionKey::of_row(scan.key());
        let is_same =
            |command: &RepeatableCommand| command.session == session && command.number == row.number;
        let begun = before.take().filter(is_same);
        let mut command = begun.unwrap_or_else(|| RepeatableCommand::of(session, &row));
        if !command.kind.can_be_with(row.kind) {
            add(format!("number {} is of two commands", row.number));
        } else if let Some(twice) = statements.into_iter().find(|one| !command.statements.insert(*one)) {
            add(format!("statement {twice} of number {} was done twice", row.number));
        }
        before = Some(command);
    }
    if let Err(error) = generations {
        findings.add(family_name(Family::Meta), None, &[META_TOKENS], error.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use store::write::{Batch, CommitLevel};

    use super::*;
    use crate::client::Client;
    use crate::outcomes::generations::meta_key;

    /// A damaged generation is named with its key, by an audit and by the next life of the store, and a salvaged store works.
    #[test]
    fn damaged_generations_of_tokens_are_named() {
        let no_number = (vec![META_TOKENS, 1], vec![0; 8]);
        for (key, value) in [(meta_key(1), b"no time".to_vec()), (meta_key(1), Vec::new()), no_number] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("db");
            let client = Client::open(&path).expect("made");
            let things = client.database("test").collection::<Document>("things");
            things.insert_one(doc! { "_id": 1 }).exactly_once("first").run().expect("stored");
            let database = client.shared().store.enter().expect("open");
            let mut batch = Batch::new(&database);
            batch.put(Family::Meta, &key, &value);
            client.shared().store.commit(batch, CommitLevel::Buffered).expect("stored");
            drop((database, things));
            let found = client.verify().expect("audited").findings;
            let is_named = found.iter().any(|finding| finding.problem.contains("generation of tokens"));
            assert!(is_named, "{found:?}");
            client.close().expect("closed");
            let error = Client::open(&path).expect_err("damaged");
            assert!(error.is_corruption() && error.to_string().contains("generation of tokens"), "{error}");
            let salvaged = folder.path().join("salvaged");
            crate::salvage(&path, &salvaged).run().expect("salvaged");
            let client = Client::open(&salvaged).expect("opened");
            assert!(client.verify().expect("audited").is_clean());
            let things = client.database("test").collection::<Document>("things");
            assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 1);
            things.insert_one(doc! { "_id": 2 }).exactly_once("second").run().expect("stored");
        }
    }
}
