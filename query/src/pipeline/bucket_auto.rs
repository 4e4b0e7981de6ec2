//! `$bucketAuto`: sorts documents by a value, and divides them into a number of groups of about equal size.
//!
//! Documents with equal values are never divided. A bucket ends where the next one begins; with a granularity it ends at
//! a number of that series instead. Accumulators see the documents of a bucket in the order in which they came.

use std::vec::IntoIter;

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::key::{Direction, encode};
use index::order::compare;
use index::path::FieldPath;

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::numeric::Numeric;
use crate::pipeline::collect::Collector;
use crate::pipeline::error::Fault;
use crate::pipeline::granularity::{Granularity, Toward, named};
use crate::pipeline::group::{GroupFields, GroupStates};
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::options::{object, options};
use crate::value::{content_bytes, describe, integer};

const STAGE: &str = "$bucketAuto";

/// The argument of a `$bucketAuto`.
#[derive(Clone, Debug)]
pub(super) struct BucketAuto {
    group_by: Expression,
    buckets: usize,
    granularity: Option<Granularity>,
    fields: GroupFields,
}

impl BucketAuto {
    /// Parses the argument of `$bucketAuto`.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        let names = ["groupBy", "buckets", "output", "granularity"];
        let [group_by, buckets, output, granularity] =
            options(STAGE, names, operand, Code::BUCKET_AUTO_NOT_OBJECT, Code::BUCKET_AUTO_UNKNOWN_OPTION)?;
        let missing =
            |option| Fault::OptionMissing { stage: STAGE, option, code: Code::BUCKET_AUTO_OPTION_MISSING };
        let group_by = group_by.ok_or_else(|| missing("groupBy"))?;
        let buckets = read_count(buckets.ok_or_else(|| missing("buckets"))?)?;
        // A constant would put all documents into one bucket, and an object of fields is no operator: MongoDB refuses
        // both.
        let is_path = group_by.as_str().is_some_and(|text| text.len() > 1 && text.starts_with('$'));
        let first = group_by.as_document().and_then(|document| document.iter().next()?.ok());
        if !is_path && !first.is_some_and(|(name, _)| name.as_str().starts_with('$')) {
            return Err(wrong("a path or an expression as 'groupBy'", group_by, Code::BUCKET_AUTO_GROUP_BY));
        }
        let group_by = Expression::parse(group_by, variables)?;
        // Everything else is checked by its own type.
        let granularity = granularity.map(read_granularity).transpose()?;
        let output = output.map(|output| object(STAGE, output, Code::BUCKET_AUTO_OUTPUT_TYPE)).transpose()?;
        // MongoDB counts by default, also if `output` is empty.
        let output = output.filter(|output| !output.is_empty());
        let output = output.map_or_else(|| rawdoc! { "count": { "$sum": 1 } }, RawDocument::to_owned);
        let fields = GroupFields::parse(&output, variables)?;
        if fields.have_varying_count() {
            let expected = "accumulators whose 'n' is constant";
            return Err(wrong(expected, RawBsonRef::Document(&output), Code::BUCKET_AUTO_GROUP_KEY));
        }
        Ok(Self { group_by, buckets, granularity, fields })
    }

    /// Adds the fields that the value and the accumulators read. Returns `None` if one of them may read any field.
    pub(super) fn collect_fields(&self, paths: &mut Vec<FieldPath>) -> Option<()> {
        self.group_by.collect_fields(paths)?;
        self.fields.collect_fields(paths)
    }
}

fn read_count(operand: RawBsonRef<'_>) -> Result<usize, Fault> {
    if index::number::Number::of(operand).is_none() {
        return Err(wrong("a number as 'buckets'", operand, Code::BUCKET_AUTO_BUCKETS_TYPE));
    }
    // A double without a fraction is a whole number too.
    let count = integer(operand).and_then(|count| i32::try_from(count).ok());
    let expected = "an integer of 32 bits as 'buckets'";
    let count = count.ok_or_else(|| wrong(expected, operand, Code::BUCKET_AUTO_BUCKETS_NOT_INTEGER))?;
    let positive = usize::try_from(count).ok().filter(|&count| count > 0);
    positive.ok_or_else(|| wrong("a 'buckets' above 0", operand, Code::BUCKET_AUTO_BUCKETS_NOT_POSITIVE))
}

fn read_granularity(operand: RawBsonRef<'_>) -> Result<Granularity, Fault> {
    let name = operand.as_str();
    let name = name.ok_or_else(|| wrong("a text as 'granularity'", operand, Code::GRANULARITY_TYPE))?;
    named(name).ok_or_else(|| wrong("a known 'granularity'", operand, Code::GRANULARITY_UNKNOWN))
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}

/// The documents while they come, and the buckets afterwards.
pub(super) struct BucketingAuto {
    stage: BucketAuto,
    variables: Variables,
    entries: Vec<Entry>,
    sorted: std::iter::Peekable<IntoIter<Entry>>,
    /// How many documents a bucket has at least.
    size: usize,
    /// How many buckets were made.
    made: usize,
    /// Where the bucket before ended.
    end: Option<RawBson>,
    memory: StageMemory,
}

/// A document with its value.
struct Entry {
    key: Box<[u8]>,
    /// The number of the document in the order in which they came.
    number: usize,
    value: RawBson,
    document: RawDocumentBuf,
}

impl BucketingAuto {
    pub(super) fn new(stage: BucketAuto, variables: Variables) -> Self {
        let memory = StageMemory::new(STAGE, STAGE_BYTES_MAX, variables.operation());
        let sorted = Vec::new().into_iter().peekable();
        Self { stage, variables, entries: Vec::new(), sorted, size: 1, made: 0, end: None, memory }
    }

    /// The next document of the current bucket: one of its first `size`, one with the value of the last, or, with a
    /// granularity, one below the boundary that follows from the last.
    fn next_of_bucket(&mut self, taken: &[Entry]) -> Option<Entry> {
        let next = self.sorted.peek()?;
        let is_last_bucket = self.made == self.stage.buckets;
        let Some(last) = taken.last().filter(|_| taken.len() >= self.size && !is_last_bucket) else {
            return self.sorted.next();
        };
        if next.key == last.key { self.sorted.next() } else { None }
    }

    /// Moves documents below the boundary of the bucket into it.
    fn take_below(&mut self, boundary: &RawBson, taken: &mut Vec<Entry>) -> Result<(), Fault> {
        let is_below =
            |next: &Entry| compare(next.value.as_raw_bson_ref(), boundary.as_raw_bson_ref()).is_lt();
        while let Some(next) = self.sorted.next_if(is_below) {
            self.variables.operation().step()?;
            taken.push(next);
        }
        Ok(())
    }

    /// The end of a bucket: inclusive for the last one, and exclusive for the others.
    fn end_of(&mut self, taken: &mut Vec<Entry>) -> Result<RawBson, Fault> {
        let last = taken.last().map_or(RawBson::Null, |last| last.value.clone());
        let Some(granularity) = self.stage.granularity else {
            return Ok(self.sorted.peek().map_or(last, |next| next.value.clone()));
        };
        let boundary = granularity.round(last.as_raw_bson_ref(), Toward::Higher)?;
        self.take_below(&boundary, taken)?;
        // Zero rounds to itself. A bucket of zeros ends at the boundary before the next value instead.
        let is_zero = Numeric::of(boundary.as_raw_bson_ref()).is_some_and(|end| end.to_double() == 0.0);
        match self.sorted.peek() {
            Some(next) if is_zero => granularity.round(next.value.as_raw_bson_ref(), Toward::Lower),
            Some(_) | None => Ok(boundary),
        }
    }
}

impl Collector for BucketingAuto {
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        let value = self.stage.group_by.evaluate(document, &self.variables)?;
        if self.stage.granularity.is_some() {
            check_rounded(value.as_ref())?;
        }
        // A missing value is null, as in a `$group`.
        let value = value.unwrap_or(RawBson::Null);
        // Sorted by its bytes later: comparing keys is cheaper than comparing values.
        let mut key = Vec::new();
        encode(value.as_raw_bson_ref(), Direction::Ascending, &mut key);
        let bytes = key.len() + content_bytes(value.as_raw_bson_ref()) + document.as_bytes().len();
        self.memory.grow(bytes + size_of::<Entry>())?;
        let (key, document) = (key.into_boxed_slice(), document.to_owned());
        self.entries.push(Entry { key, number: self.entries.len(), value, document });
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let mut entries = std::mem::take(&mut self.entries);
        // The numbers make all entries different, so the order is stable.
        entries.sort_unstable_by(|one, other| (&one.key, one.number).cmp(&(&other.key, other.number)));
        // Rounded to the nearest number, a half up.
        let (count, buckets) = (entries.len(), self.stage.buckets);
        let rest = count % buckets;
        self.size = (count / buckets + usize::from(rest >= buckets - rest && rest > 0)).max(1);
        self.sorted = entries.into_iter().peekable();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        if self.made == self.stage.buckets || self.sorted.peek().is_none() {
            return Ok(None);
        }
        self.made += 1;
        let mut taken = Vec::new();
        // Documents are taken out of the sorted list: a bucket is the only place that holds them.
        while let Some(entry) = self.next_of_bucket(&taken) {
            self.variables.operation().step()?;
            taken.push(entry);
        }
        let first = taken.first().map_or(RawBson::Null, |first| first.value.clone());
        let start = match (self.stage.granularity, self.end.take()) {
            // Buckets of a granularity follow each other without gaps.
            (Some(_), Some(end)) => end,
            (Some(granularity), None) => granularity.round(first.as_raw_bson_ref(), Toward::Lower)?,
            (None, _) => first,
        };
        let end = self.end_of(&mut taken)?;
        self.end = Some(end.clone());
        // Accumulators such as `$first` and `$push` go by the order of the input, not by that of the values.
        taken.sort_unstable_by_key(|entry| entry.number);
        let mut states = GroupStates::start(&self.stage.fields, &self.variables, &mut self.memory)?;
        for entry in &taken {
            self.variables.operation().pass(entry.document.as_bytes().len())?;
            states.add(&self.stage.fields, &entry.document, &self.variables, &mut self.memory)?;
        }
        let mut bucket = RawDocumentBuf::new();
        bucket.append(cstr!("_id"), rawdoc! { "min": start, "max": end });
        states.finish(STAGE, &self.stage.fields, bucket).map(Some)
    }
}

/// Refuses a value that no granularity can round.
fn check_rounded(value: Option<&RawBson>) -> Result<(), Fault> {
    let value = value.map_or(RawBsonRef::Null, RawBson::as_raw_bson_ref);
    let number = Numeric::of(value).map(Numeric::to_double);
    let number =
        number.ok_or_else(|| wrong("numbers with a 'granularity'", value, Code::GRANULARITY_VALUE_TYPE))?;
    if number.is_nan() {
        return Err(wrong("numbers with a 'granularity'", value, Code::GRANULARITY_VALUE_NAN));
    }
    if number < 0.0 {
        let expected = "numbers of 0 or more with a 'granularity'";
        return Err(wrong(expected, value, Code::GRANULARITY_VALUE_NEGATIVE));
    }
    Ok(())
}
