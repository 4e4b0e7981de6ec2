//! Counters on their way to a store of CairnDB: auto-increment fields, and sequences, in their place.

use cairndb::bson::{Bson, Document, doc};

use crate::command::raw;
use crate::failure::Failure;
use crate::migrate::rule::{Made, Rule};
use crate::patterns::{Rename, renamed, renamed_collection};
use crate::restore::integer::integer;
use crate::restore::numbers::{IfThere, Numbering, existing_fields, fields, position, snapshot_of};
use crate::restore::plan::Planned;
use crate::restore::tally::Tally;
use crate::store::Store;

/// Doubles up to here are exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The replacement of one counter.
#[derive(Debug)]
pub(super) enum Numbered {
    /// A collection with the one field.
    Field(Planned),
    Sequence(Numbering),
}

/// Reads the counter of a rule. The inner error says why it makes no sequence.
pub(super) fn read(source: &dyn Store, rule: &Rule) -> Result<Result<Document, String>, Failure> {
    let (database, collection) = &rule.counters;
    let find = doc! { "find": collection.as_str(), "filter": rule.filter(), "limit": 2 };
    let mut found = source.stream(database, raw(&find)?)?;
    if !found.advance()? {
        return Ok(Err("there is no such counter".to_owned()));
    }
    let counter = Document::try_from(found.current()).unwrap_or_default();
    if found.advance()? {
        return Ok(Err("several counters have an _id that reads so".to_owned()));
    }
    Ok(field_of(&counter))
}

/// The field that a counter makes, as `listAutoIncrements` would return it, with the snapshot of its sequence.
fn field_of(counter: &Document) -> Result<Document, String> {
    let mut field = doc! { "snapshot": snapshot(counter)? };
    for (name, told) in [("Generated", "generated"), ("GenerateOnNull", "generateOnNull")] {
        field.extend(counter.get(told).map(|value| (name.to_owned(), value.clone())));
    }
    Ok(field)
}

impl Numbered {
    /// The result of a rule, under the names that the store has.
    pub(super) fn of(rule: &Rule, mut field: Document, renames: &[Rename]) -> Result<Self, Failure> {
        match &rule.made {
            Made::Field { database, collection, field: path } => {
                field.insert("Field", path.as_str());
                let target = renamed_collection(renames, database, collection)?;
                let source = format!("{database}.{collection}");
                let kind = crate::dumped::DumpedKind::Collection;
                Ok(Self::Field(Planned::of(source, target, kind, String::new()).with_numbered(vec![field])))
            }
            Made::Sequence { database, name } => {
                let (database, name) = renamed(renames, database, name)?;
                let snapshot = field.get_document("snapshot").cloned().unwrap_or_default();
                Ok(Self::Sequence(Numbering { database, name, snapshot }))
            }
        }
    }

    /// Makes it, or moves what is there forward.
    pub(super) fn make(&self, target: &dyn Store, tally: &Tally) -> Result<(), Failure> {
        match self {
            Self::Field(planned) => fields(target, planned, tally),
            Self::Sequence(numbering) => numbering.make(target, IfThere::Advance, tally),
        }
    }

    /// Compares what is there.
    pub(super) fn compare(&self, target: &dyn Store, tally: &Tally) -> Result<(), Failure> {
        let (shown, snapshot, there) = match self {
            Self::Field(planned) => {
                let fields = planned.metadata()?.numbered;
                let Some(field) = fields.first() else { return Ok(()) };
                let path = field.get_str("Field").unwrap_or_default();
                let existing = existing_fields(target, planned)?;
                let there = existing.iter().find(|other| other.get_str("Field").ok() == Some(path));
                let name = there.and_then(|there| there.get_str("SequenceName").ok());
                let there = name.map(|name| snapshot_of(target, &planned.database, name)).transpose()?;
                let snapshot = field.get_document("snapshot").cloned().unwrap_or_default();
                (format!("{}, field {path}", planned.namespace()), snapshot, there)
            }
            Self::Sequence(numbering) => {
                let Numbering { database, name, snapshot } = numbering;
                let there = if numbering.is_there(target)? {
                    Some(snapshot_of(target, database, name)?)
                } else {
                    None
                };
                (format!("{database}, sequence {name}"), snapshot.clone(), there)
            }
        };
        let Some(there) = there else {
            tally.differ(&format!("{shown}: the target has no sequence for it"));
            return Ok(());
        };
        let increment = integer(snapshot.get("Increment")).unwrap_or(1);
        if position(&there).is_behind(position(&snapshot), increment) {
            tally.differ(&format!("{shown}: it would give values again that its counter has given"));
        }
        Ok(())
    }
}

/// The snapshot of a sequence that goes on after a counter.
fn snapshot(counter: &Document) -> Result<Document, String> {
    let number = |name: &str| {
        let wrong = || format!("its field {name} is not a whole number");
        counter.get(name).map(|value| whole(value).ok_or_else(wrong)).transpose()
    };
    let seq = number("seq")?.ok_or("it has no field seq")?;
    let increment = number("inc")?.unwrap_or(1);
    let next = seq.checked_add(increment);
    // A counter of one's own has no limits, and may begin anywhere.
    let (default_min, default_max) = if increment < 0 {
        (i64::MIN, next.unwrap_or(-1).max(-1))
    } else {
        (next.unwrap_or(1).min(1), i64::MAX)
    };
    let min = number("min")?.unwrap_or(default_min);
    let max = number("max")?.unwrap_or(default_max);
    if min >= max || increment == 0 {
        return Err(format!("its inc {increment}, min {min} and max {max} make no sequence"));
    }
    let (first, limit) = if increment < 0 { (max, min) } else { (min, max) };
    let mut snapshot = doc! {
        "Increment": increment, "MinValue": min, "MaxValue": max,
        "Cycled": counter.get_bool("cycled").unwrap_or(false),
        "Contract": counter.get_str("contract").unwrap_or("fast"),
    };
    if let Some(block) = number("block")? {
        snapshot.extend(doc! { "CacheSize": block, "AcquireSize": block });
    }
    match next.filter(|next| (min..=max).contains(next)) {
        // No value of its range was used.
        Some(next) if !(min..=max).contains(&seq) => {
            snapshot.extend(doc! { "Initial": true, "StartValue": next, "CurrentValue": next });
        }
        Some(_) => snapshot.extend(doc! { "StartValue": first, "UsedUpTo": seq }),
        None => snapshot.extend(doc! {
            "StartValue": first, "UsedUpTo": if (min..=max).contains(&seq) { seq } else { limit }
        }),
    }
    Ok(snapshot)
}

fn whole(value: &Bson) -> Option<i64> {
    if let Some(number) = value.as_f64() {
        // Exact: it is whole, and in the range of integers that a double has.
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        return (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64);
    }
    integer(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::numbers::Position;

    #[track_caller]
    fn check(counter: &Document, expected: Position) {
        let snapshot = snapshot(counter).unwrap();
        assert_eq!(position(&snapshot), expected);
    }

    #[test]
    fn a_sequence_goes_on_after_its_counter() {
        check(&doc! { "seq": 41.0 }, Position::Used(41));
        check(&doc! { "seq": 0 }, Position::Unused(1));
        check(&doc! { "seq": -7_i64 }, Position::Unused(-6));
        check(&doc! { "seq": 69_i64, "inc": 1_i64, "min": 1_i64, "max": 100_i64 }, Position::Used(69));
        check(&doc! { "seq": 500_i64, "min": 1_i64, "max": 100_i64 }, Position::Used(100));
        check(&doc! { "seq": i64::MAX }, Position::Used(i64::MAX));
        check(&doc! { "seq": -8_i64, "inc": -2 }, Position::Used(-8));
        check(&doc! { "seq": 3_i64, "inc": -1, "min": -2_i64, "max": 2_i64 }, Position::Unused(2));
    }

    #[test]
    fn what_is_no_counter_is_refused() {
        for counter in [
            doc! {},
            doc! { "seq": "5" },
            doc! { "seq": 1.5 },
            doc! { "seq": 1, "inc": 0 },
            doc! { "seq": 1, "min": 5, "max": 5 },
        ] {
            assert!(snapshot(&counter).is_err(), "{counter}");
        }
    }
}
