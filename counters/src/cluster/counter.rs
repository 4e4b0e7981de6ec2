//! A counter as its document says, and the arithmetic of its values. It is done in 128 bits, so nothing overflows.

use bson::{Bson, Document, doc};
use sequence::error::SequenceError;

use crate::error::{ErrorKind, Result};

/// A document of the collection of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) id: String,
    /// The last value that counts as used.
    seq: i64,
    increment: i64,
    min: i64,
    max: i64,
    is_cycled: bool,
    pub(super) contract: Contract,
    /// The number of values that a process draws at once.
    pub(super) block: u64,
    pub(super) field: Option<Field>,
}

/// The promise about the order and the gaps of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contract {
    Fast,
    Ordered,
    Gapless,
}

/// The field that a counter numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Its dotted path.
    pub(super) path: String,
    pub(super) mode: Mode,
    /// Whether null counts as no value.
    pub(super) is_for_null: bool,
}

/// The treatment of a value that a document brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Default,
    Strict,
    Always,
    AlwaysStrict,
}

/// Values that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    next: i64,
    increment: i64,
    pub(super) left: u64,
}

impl Counter {
    /// Reads the document of a counter.
    pub(super) fn parse(document: &Document) -> Result<Self> {
        let wrong = |name: &str| {
            let id = document.get("_id").map(ToString::to_string).unwrap_or_default();
            ErrorKind::Bson(format!("the counter {id} has no usable field {name}"))
        };
        let number = |name: &str| whole(document.get(name)).ok_or_else(|| wrong(name));
        let text = |name: &str| document.get_str(name).ok();
        let contract = match text("contract").unwrap_or("fast") {
            "fast" => Contract::Fast,
            "ordered" => Contract::Ordered,
            "gapless" => Contract::Gapless,
            _ => return Err(wrong("contract").into()),
        };
        let mode = match text("generated").unwrap_or("default") {
            "default" => Mode::Default,
            "strict" => Mode::Strict,
            "always" => Mode::Always,
            "alwaysStrict" => Mode::AlwaysStrict,
            _ => return Err(wrong("generated").into()),
        };
        let counter = Self {
            id: text("_id").ok_or_else(|| wrong("_id"))?.to_owned(),
            seq: number("seq")?,
            increment: number("inc")?,
            min: number("min")?,
            max: number("max")?,
            is_cycled: document.get_bool("cycled").unwrap_or(false),
            contract,
            block: u64::try_from(number("block")?).unwrap_or(0).max(1),
            field: text("field").map(|path| Field {
                path: path.to_owned(),
                mode,
                is_for_null: document.get_bool("generateOnNull").unwrap_or(false),
            }),
        };
        if counter.increment == 0 || counter.min >= counter.max {
            return Err(wrong("inc, min or max").into());
        }
        Ok(counter)
    }

    /// The number of values that are left, at most `count`, before it ends or starts over.
    pub(super) fn left(&self, count: u64) -> u64 {
        let (seq, increment) = (i128::from(self.seq), i128::from(self.increment));
        let left = (i128::from(self.limit()) - seq) / increment;
        u64::try_from(left.clamp(0, i128::from(count))).unwrap_or(0)
    }

    /// The rejection of a counter that has no value left.
    pub(super) fn exceeded(&self) -> SequenceError {
        SequenceError::Exceeded { limit: self.limit() }
    }

    /// The filter and the update by which `count` values are drawn at once. If it starts over the update is a pipeline, which
    /// draws what fits, and whose result is the document before it. The filter finds nothing if too few are left, or if the counter
    /// was declared again meanwhile.
    pub(super) fn taking(&self, count: u64) -> (Document, Update) {
        let mut filter = doc! {
            "_id": self.id.as_str(), "inc": self.increment, "min": self.min, "max": self.max, "cycled": self.is_cycled,
        };
        if self.is_cycled {
            return (filter, Update::Around(self.around(count)));
        }
        let step = self.step(count);
        let until = self.until();
        match step.and_then(|step| self.limit().checked_sub(step)) {
            Some(last) => filter.insert("seq", doc! { until: last }),
            // No integer is so far from the limit.
            None => filter.insert("seq", doc! { "$in": [] }),
        };
        (filter, Update::Add(doc! { "$inc": { "seq": step.unwrap_or(0) } }))
    }

    /// The values that were drawn, by the document after the update.
    pub(super) fn taken(&self, after: i64, count: u64) -> Run {
        let back = i128::from(self.increment) * (i128::from(count) - 1);
        let first = i64::try_from(i128::from(after) - back).unwrap_or(after);
        Run { next: first, increment: self.increment, left: count }
    }

    /// The values that a pipeline drew, by the document before it: as many as asked for, or the next one, or the first of a
    /// new round.
    pub(super) fn taken_around(&self, before: i64, count: u64) -> Run {
        let fits = |count: u64| {
            self.step(count).and_then(|step| before.checked_add(step)).filter(|end| self.is_within(*end))
        };
        let (next, left) = match (fits(count), fits(1)) {
            (Some(_), _) => (before.saturating_add(self.increment), count),
            (None, Some(next)) => (next, 1),
            (None, None) => (self.first(), self.first_of_round(count).1),
        };
        Run { next, increment: self.increment, left }
    }

    /// The update by which a value that a document brings is passed: the last term that is not beyond it counts as used.
    pub(super) fn passing(&self, value: i64) -> Document {
        let (seq, increment) = (i128::from(self.seq), i128::from(self.increment));
        // Towards the start of the progression, so that no term that is beyond the value is lost.
        let term = seq + floored(i128::from(value) - seq, increment) * increment;
        let term = i64::try_from(term).unwrap_or(value);
        let further = if self.increment < 0 { "$min" } else { "$max" };
        doc! { further: { "seq": term } }
    }

    /// Whether it starts over at its end.
    pub(super) fn is_cycled(&self) -> bool {
        self.is_cycled
    }

    /// The last value that counts as used.
    pub(super) fn seq(&self) -> i64 {
        self.seq
    }

    fn around(&self, count: u64) -> Vec<Document> {
        let until = self.until();
        let branch = |count: u64| {
            let step = self.step(count)?;
            let last = self.limit().checked_sub(step)?;
            Some(doc! { "case": { until: ["$seq", last] }, "then": { "$add": ["$seq", step] } })
        };
        let branches: Vec<Bson> = [count, 1].into_iter().filter_map(branch).map(Bson::Document).collect();
        let first = self.first_of_round(count).0;
        if branches.is_empty() {
            return vec![doc! { "$set": { "seq": first } }];
        }
        vec![doc! { "$set": { "seq": { "$switch": { "branches": branches, "default": first } } } }]
    }

    /// The end of the first `count` values of a round, or of the round if it has fewer; and their number.
    fn first_of_round(&self, count: u64) -> (i64, u64) {
        let last = self.step(count.saturating_sub(1)).and_then(|step| self.first().checked_add(step));
        match last.filter(|last| self.is_within(*last)) {
            Some(last) => (last, count),
            None => (self.first(), 1),
        }
    }

    /// The distance of `count` values.
    fn step(&self, count: u64) -> Option<i64> {
        i64::try_from(i128::from(self.increment) * i128::from(count)).ok()
    }

    /// The end of the range towards which it counts.
    fn limit(&self) -> i64 {
        if self.increment < 0 { self.min } else { self.max }
    }

    /// The other end, at which it starts over.
    fn first(&self) -> i64 {
        if self.increment < 0 { self.max } else { self.min }
    }

    fn until(&self) -> &'static str {
        if self.increment < 0 { "$gte" } else { "$lte" }
    }

    fn is_within(&self, value: i64) -> bool {
        if self.increment < 0 { value >= self.min } else { value <= self.max }
    }
}

/// The update that draws values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Update {
    /// The document after it says what was drawn.
    Add(Document),
    /// A pipeline; the document before it says what was drawn.
    Around(Vec<Document>),
}

impl Run {
    /// Draws up to `count` values.
    pub(super) fn take(&mut self, count: u64) -> Vec<i64> {
        let count = count.min(self.left);
        let value = |at: u64| i128::from(self.next) + i128::from(self.increment) * i128::from(at);
        let values: Vec<i64> = (0..count).filter_map(|at| i64::try_from(value(at)).ok()).collect();
        self.skip(count);
        values
    }

    /// Gives up the values that are not beyond one that a document has brought.
    pub(super) fn pass(&mut self, value: i64) {
        let distance = i128::from(value) - i128::from(self.next);
        // As many terms as lie between, and the one that is at the value. Without a block there is no increment.
        let passed = if self.increment == 0 { 0 } else { floored(distance, i128::from(self.increment)) + 1 };
        self.skip(u64::try_from(passed.max(0)).unwrap_or(u64::MAX).min(self.left));
    }

    fn skip(&mut self, count: u64) {
        let next = i128::from(self.next) + i128::from(self.increment) * i128::from(count);
        self.left -= count;
        // Out of the range of integers only after the last value.
        self.next = i64::try_from(next).unwrap_or(self.next);
    }
}

/// The quotient, rounded down.
fn floored(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend / divisor;
    let is_between = dividend % divisor != 0;
    if is_between && (dividend < 0) != (divisor < 0) { quotient - 1 } else { quotient }
}

/// A whole number, of whatever type a shell has given it.
fn whole(value: Option<&Bson>) -> Option<i64> {
    let value = value?;
    if let Some(number) = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15) {
        // Exact: it is whole, and in the range of integers that a double has.
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        return Some(number as i64);
    }
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(more: Document) -> Counter {
        let mut document = doc! {
            "_id": "c", "seq": 0_i64, "inc": 1_i64, "min": 1_i64, "max": 10_i64, "cycled": false, "contract": "fast",
            "block": 4_i64,
        };
        document.extend(more);
        Counter::parse(&document).unwrap()
    }

    #[test]
    fn values_are_left_up_to_the_limit() {
        assert_eq!(counter(doc! { "seq": 7_i64 }).left(9), 3);
        assert_eq!(counter(doc! { "seq": 10_i64 }).left(9), 0);
        assert_eq!(counter(doc! { "seq": 70_i64 }).left(9), 0);
        assert_eq!(counter(doc! { "seq": 7_i64, "inc": -3_i64 }).left(9), 2);
        let whole = doc! { "min": i64::MIN, "max": i64::MAX, "seq": i64::MIN };
        assert_eq!(counter(whole).left(u64::MAX), u64::MAX);
    }

    #[test]
    fn values_are_taken_by_one_update() {
        let (filter, update) = counter(doc! {}).taking(4);
        assert_eq!(filter.get_document("seq").unwrap(), &doc! { "$lte": 6_i64 });
        assert_eq!(update, Update::Add(doc! { "$inc": { "seq": 4_i64 } }));
        assert_eq!(counter(doc! {}).taken(8, 4).take(9), [5, 6, 7, 8]);
        let (filter, _) = counter(doc! { "max": i64::MAX, "inc": i64::MAX }).taking(4);
        assert_eq!(filter.get_document("seq").unwrap(), &doc! { "$in": [] });
        let down = counter(doc! { "inc": -2_i64, "seq": 10_i64 });
        assert_eq!(down.taking(2).0.get_document("seq").unwrap(), &doc! { "$gte": 5_i64 });
        assert_eq!(down.taken(6, 2).take(9), [8, 6]);
    }

    #[test]
    fn a_cycled_counter_starts_over() {
        let around = counter(doc! { "cycled": true, "inc": 3_i64 });
        assert_eq!(around.taken_around(1, 2).take(9), [4, 7]);
        assert_eq!(around.taken_around(7, 2).take(9), [10]);
        assert_eq!(around.taken_around(10, 2).take(9), [1, 4]);
        assert_eq!(around.taken_around(10, 9).take(9), [1]);
        let down = counter(doc! { "cycled": true, "inc": -3_i64 });
        assert_eq!(down.taken_around(2, 2).take(9), [10, 7]);
        let far = counter(doc! { "cycled": true, "inc": i64::MAX, "min": i64::MIN });
        assert_eq!(far.taken_around(5, 2).take(9), [i64::MIN, -1]);
        assert_eq!(far.taken_around(5, 4).take(9), [i64::MIN]);
    }

    #[test]
    fn a_value_that_is_brought_is_passed_by_the_next_term() {
        let by_five = counter(doc! { "seq": 1_i64, "inc": 5_i64, "max": 100_i64 });
        assert_eq!(by_five.passing(70), doc! { "$max": { "seq": 66_i64 } });
        assert_eq!(by_five.passing(71), doc! { "$max": { "seq": 71_i64 } });
        assert_eq!(by_five.passing(-70), doc! { "$max": { "seq": -74_i64 } });
        let down = counter(doc! { "seq": 10_i64, "inc": -3_i64 });
        assert_eq!(down.passing(5), doc! { "$min": { "seq": 7_i64 } });
        let mut run = by_five.taken(26, 5);
        run.pass(12);
        assert_eq!(run.take(9), [16, 21, 26]);
        let mut run = by_five.taken(26, 5);
        run.pass(26);
        assert_eq!(run.left, 0);
        let mut run = by_five.taken(26, 5);
        run.pass(-50);
        assert_eq!(run.left, 5);
        let mut run = down.taken(1, 3);
        run.pass(6);
        assert_eq!(run.take(9), [4, 1]);
    }

    #[test]
    fn what_is_no_counter_is_refused() {
        for wrong in [
            doc! { "seq": "1" },
            doc! { "inc": 0 },
            doc! { "contract": "other" },
            doc! { "generated": 5, "field": "n", "min": 20_i64 },
            doc! { "_id": 7 },
        ] {
            let mut document = doc! {
                "_id": "c", "seq": 0_i64, "inc": 1_i64, "min": 1_i64, "max": 10_i64, "block": 4_i64,
            };
            document.extend(wrong.clone());
            assert!(Counter::parse(&document).is_err(), "{wrong}");
        }
    }
}
