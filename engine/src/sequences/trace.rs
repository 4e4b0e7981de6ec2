//! Traces one value of a sequence: the reason why a number is missing.

use std::sync::Arc;

use base::error::Result;
use sequence::trace::{Reach, Verdict};
use serde::{Deserialize, Serialize};
use store::Database;

use crate::catalog::sequences::SequenceState;
use crate::results::SequenceGap;
use crate::sequences::handle::Sequence;
use crate::sequences::inspect::gaps_of;

/// The number of times that the ledger is read again because it was written meanwhile.
const ATTEMPTS: u32 = 16;

/// The fate of one value of a sequence: the result of [`Sequence::trace`].
///
/// It is about the sequence as it is declared now, and since its last restart: what it was before is not remembered, but for
/// the gaps.
///
/// ```
/// # use cairndb::{Client, ValueVerdict};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let db = client.database("shop");
/// db.create_sequence("tickets").increment(10).run()?;
/// db.sequence("tickets").next_value().run()?;
/// let trace = db.sequence("tickets").trace(5).run()?;
/// assert_eq!(trace.verdict, ValueVerdict::Never, "1, 11, 21, …");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ValueTrace {
    /// The value that was asked for.
    pub value: i64,
    /// Its fate.
    pub verdict: ValueVerdict,
    /// The number of times that the sequence had started over when it passed the value. `None` if it has not passed
    /// it.
    pub round: Option<i32>,
    /// The reason why it is not a value of the sequence: `outside` of its bounds, `beforeStart`, or `between` two
    /// values. `None` if it is one.
    pub reason: Option<String>,
    /// Whether no insert is under way that may have the value. If one is, its document may be there in a moment.
    pub settled: bool,
    /// The gaps that have the value, oldest first. A sequence that was restarted or has started over may have several.
    pub gaps: Vec<SequenceGap>,
    /// The number of lost values whose gaps are not in the ledger any more: it keeps the newest thousand.
    pub unlisted: u64,
}

/// The fate of a value, besides a document that has it.
///
/// ```
/// # use cairndb::{Client, ValueVerdict};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let db = client.database("shop");
/// db.create_sequence("tickets").run()?;
/// let tickets = db.sequence("tickets");
/// tickets.next_value().run()?;
/// assert_eq!(tickets.trace(1).run()?.verdict, ValueVerdict::Used);
/// assert_eq!(tickets.trace(2).run()?.verdict, ValueVerdict::NotYet);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ValueVerdict {
    /// The sequence will come to it.
    NotYet,
    /// It is not a value of the sequence: see [`ValueTrace::reason`].
    Never,
    /// It is lost, and [`ValueTrace::gaps`] say why. After a crash the gap has all values that may be lost, and a caller
    /// may have got some of them.
    Lost,
    /// The ledger does not have it, but has dropped older gaps, which may have had it.
    LostUnlisted,
    /// It was handed out, or a document brought it. If no document has it, that was deleted, its insert failed, or the value
    /// was acquired by [`Sequence::next_value`].
    Used,
}

impl Sequence {
    /// Traces a value: the reason why a number is missing.
    ///
    /// It also works for the sequence of an auto-increment field, by its internal name;
    /// [`AutoIncrementField::trace`](crate::AutoIncrementField::trace) does the same by the field. A document that has the
    /// value is not looked for.
    ///
    /// In a store that was opened for reading while another process writes to it, all that the process has reserved counts as
    /// lost by a crash: ask that process.
    ///
    /// ```
    /// # use cairndb::{Client, ValueVerdict};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let db = client.database("shop");
    /// db.create_sequence("tickets").run()?;
    /// let tickets = db.sequence("tickets");
    /// tickets.next_value().run()?;
    /// tickets.set_current_value(5000).run()?;
    /// let trace = tickets.trace(4711).run()?;
    /// assert_eq!((trace.verdict, trace.gaps[0].cause.as_str()), (ValueVerdict::Lost, "explicitValue"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn trace(&self, value: i64) -> TraceValue<'_> {
        TraceValue { sequence: self, value }
    }
}

/// The options of [`Sequence::trace`], which is done by [`run`](Self::run).
#[must_use = "the value is looked for by run()"]
pub struct TraceValue<'a> {
    sequence: &'a Sequence,
    value: i64,
}

impl TraceValue<'_> {
    /// Looks for the value.
    pub fn run(self) -> Result<ValueTrace> {
        self.sequence.inspect(|state, storage| trace_of(state, storage.database, self.value))
    }
}

/// Traces a value of a sequence.
pub(crate) fn trace_of(state: &SequenceState, database: &Arc<Database>, value: i64) -> Result<ValueTrace> {
    let mut attempt = 1;
    let (trace, gaps) = loop {
        let trace = state.sequence.trace(value);
        let gaps = gaps_of(state, database)?;
        // Values that were lost in between are in the one and not in the other, and the two would not add up.
        if attempt == ATTEMPTS || state.sequence.trace(value) == trace {
            break (trace, gaps);
        }
        attempt += 1;
    };
    let listed: u64 = gaps.iter().map(|gap| gap.count).fold(0, u64::saturating_add);
    let unlisted = trace.lost.saturating_sub(listed);
    let gaps: Vec<SequenceGap> = gaps.into_iter().filter(|gap| gap.contains(value)).collect();
    let (round, reason) = match trace.reach {
        Reach::NotYet => (None, None),
        Reach::Passed { round } => (Some(round), None),
        Reach::Outside => (None, Some("outside")),
        Reach::BeforeStart => (None, Some("beforeStart")),
        Reach::Between => (None, Some("between")),
    };
    let verdict = match trace.verdict(!gaps.is_empty(), unlisted) {
        Verdict::NotYet => ValueVerdict::NotYet,
        Verdict::Never => ValueVerdict::Never,
        Verdict::Lost => ValueVerdict::Lost,
        Verdict::LostUnlisted => ValueVerdict::LostUnlisted,
        Verdict::Used => ValueVerdict::Used,
    };
    let reason = reason.map(str::to_owned);
    Ok(ValueTrace { value, verdict, round, reason, settled: trace.is_settled, gaps, unlisted })
}
