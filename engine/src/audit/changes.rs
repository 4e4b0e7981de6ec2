//! The log of changes: every event can be read, positions lie between what was forgotten and the mark, and the events of a commit are
//! numbered from 0 on.

use std::sync::Arc;

use base::error::Result;
use store::keys::{META_LOGGED, split_event_key};
use store::scan::{CacheUse, Scan};
use store::{Database, Family};

use crate::audit::findings::Findings;
use crate::audit::{Subject, family_name};
use crate::changes::event::Event;
use crate::changes::log::{Stored, scope_key, stored};

pub(super) fn audit(subject: &Subject, database: &Arc<Database>, findings: &mut Findings) -> Result<()> {
    // A folder of an older format that is opened for reading has no log.
    if !database.has(Family::Changes) {
        return Ok(());
    }
    let known = match stored(&subject.snapshot, &subject.operation) {
        Ok(known) => Some(known),
        Err(error) => {
            findings.add(family_name(Family::Meta), None, &[META_LOGGED], error.to_string());
            None
        }
    };
    if let Some(Stored { id, mark, scopes, .. }) = &known {
        let mut add = |key: &[u8], problem: &str| {
            findings.add(family_name(Family::Meta), None, key, problem.to_owned());
        };
        if id.is_none() && !scopes.is_empty() {
            add(&[META_LOGGED], "changes are logged, and the log has no id");
        }
        for (name, _) in scopes.iter().filter(|(_, began)| *began > mark) {
            add(&scope_key(name), "changes are logged since a position above the mark");
        }
    }
    audit_events(subject, known.as_ref(), findings)
}

fn audit_events(subject: &Subject, known: Option<&Stored>, findings: &mut Findings) -> Result<()> {
    let everything = (Vec::new(), None);
    let mut scan =
        Scan::open(&subject.snapshot, Family::Changes, everything, CacheUse::Bypass, &subject.operation);
    let mut before: Option<(u64, u32)> = None;
    while scan.advance()? {
        let mut add = |problem: String| findings.add(family_name(Family::Changes), None, scan.key(), problem);
        let Some((position, ordinal)) = split_event_key(scan.key()) else {
            add("the key is not a position and an ordinal".to_owned());
            continue;
        };
        if let Err(error) = Event::decode_checked(scan.key(), scan.value()) {
            add(error.to_string());
        }
        let expected = match before {
            Some((last, ordinal)) if last == position => ordinal.saturating_add(1),
            Some(_) | None => 0,
        };
        if ordinal != expected {
            add(format!("the event has the number {ordinal} in its commit, and {expected} is missing"));
        }
        if let Some(Stored { mark, low, .. }) = known {
            if position > *mark {
                add(format!("the position is above the mark, which is {mark}"));
            } else if (position, ordinal) <= *low {
                add("the event should be forgotten".to_owned());
            }
        }
        before = Some((position, ordinal));
    }
    Ok(())
}
