//! The rows by which repeated writes are answered: every row can be read, no statement of a command was done by two commits, and tokens are of
//! generations that are known.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::error::Result;
use store::keys::META_TOKENS;
use store::scan::{CacheUse, Scan};
use store::{Database, Family};

use crate::audit::findings::Findings;
use crate::audit::{Subject, family_name};
use crate::outcomes::generations;
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

pub(super) fn audit(subject: &Subject, database: &Arc<Database>, findings: &mut Findings) -> Result<()> {
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
        let mut add =
            |problem: String| findings.add(family_name(Family::Outcomes), None, scan.key(), problem);
        if token_row::is_of_token(scan.key()) {
            let generation = token_row::generation_of(scan.key());
            let is_known = |number| generations.iter().flatten().any(|(known, _)| Some(*known) == number);
            if let Err(error) = TokenRow::decode(scan.key(), scan.value()) {
                add(error.to_string());
            } else if !is_known(generation) {
                add("the token is of a generation that is not known".to_owned());
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
