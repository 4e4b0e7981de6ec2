//! The rows by which repeated writes are answered: every row can be read, no statement of a command was done by two commits, and tokens are of
//! generations that are known.

use std::sync::Arc;

use base::error::Result;
use store::keys::META_TOKENS;
use store::scan::{CacheUse, Scan};
use store::{Database, Family};

use crate::audit::findings::Findings;
use crate::audit::{Subject, family_name};
use crate::outcomes::generations;
use crate::outcomes::row::{Row, SessionKey};
use crate::outcomes::token_row::{self, TokenRow};

pub(super) fn audit(subject: &Subject, database: &Arc<Database>, findings: &mut Findings) -> Result<()> {
    // A folder of an older format that is opened for reading has no such rows.
    if !database.has(Family::Outcomes) {
        return Ok(());
    }
    let everything = (Vec::new(), None);
    let mut scan =
        Scan::open(&subject.snapshot, Family::Outcomes, everything, CacheUse::Bypass, &subject.operation);
    // The rows of the newest command of a session, which is the one of its first row. Statements of an insert ascend from commit to
    // commit.
    let mut before: Option<(Option<SessionKey>, Row)> = None;
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
        let session = SessionKey::of_row(scan.key());
        if let Some((_, last)) =
            before.as_ref().filter(|(of, last)| *of == session && last.number == row.number)
        {
            if last.kind != row.kind {
                add(format!("number {} is of two commands", row.number));
            } else if last.statements.1 >= row.statements.0 {
                add(format!("statement {} of number {} was done twice", row.statements.0, row.number));
            }
        }
        before = Some((session, row));
    }
    if let Err(error) = generations {
        findings.add(family_name(Family::Meta), None, &[META_TOKENS], error.to_string());
    }
    Ok(())
}
