//! `$bucketAuto`: sorts documents by a value, and divides them into a number of groups of about equal size.
//!
//! Documents with equal values are never divided. A bucket ends where the next one begins; with a granularity it ends at
//! a number of that series instead. Accumulators see the documents of a bucket in the order in which they came.

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::key::Direction;
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
use crate::pipeline::stream::nothing;
use crate::sort::error::Error as SortError;
use crate::sort::spilling::{SortedPayloads, SpillingSorter};
use crate::value::{describe, integer};

const STAGE: &str = "$bucketAuto";
/// The fields of an entry, which are the names in [`Entry::new`].
const NUMBER: &str = "number";
const VALUE: &str = "value";
const DOCUMENT: &str = "document";

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
        // A constant would put all documents into one bucket, and an object of fields is not an operator: MongoDB rejects
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
    let name = name.ok_or_else(|| wrong("a string as 'granularity'", operand, Code::GRANULARITY_TYPE))?;
    named(name).ok_or_else(|| wrong("a known 'granularity'", operand, Code::GRANULARITY_UNKNOWN))
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}

/// The documents while they come, and the buckets afterwards.
pub(super) struct BucketingAuto {
    stage: BucketAuto,
    variables: Variables,
    /// Absent after the last document.
    sorter: Option<SpillingSorter<RawDocumentBuf>>,
    /// The entries that are left, by their values. Absent until all documents are there.
    sorted: Option<SortedPayloads<RawDocumentBuf>>,
    /// The first of them.
    ahead: Option<Entry>,
    /// The number of pushed documents.
    pushed: u64,
    /// The smallest number of documents in a bucket.
    size: u64,
    /// The number of finished buckets.
    made: usize,
    /// The end of the bucket before.
    end: Option<RawBson>,
    memory: StageMemory,
}

/// A document with its value and its number in the order in which they came.
struct Entry {
    /// The three of them as one document, so that they can be moved to a file.
    parts: RawDocumentBuf,
}

impl Entry {
    fn new(number: u64, value: RawBsonRef<'_>, document: &RawDocument) -> Self {
        let mut parts = RawDocumentBuf::new();
        // There are fewer documents than an `i64` counts.
        parts.append(cstr!("number"), i64::try_from(number).unwrap_or(i64::MAX));
        parts.append(cstr!("value"), value);
        parts.append(cstr!("document"), RawBsonRef::Document(document));
        Self { parts }
    }

    fn number(&self) -> i64 {
        self.parts.get_i64(NUMBER).unwrap_or_default()
    }

    fn value(&self) -> RawBsonRef<'_> {
        self.parts.get(VALUE).ok().flatten().unwrap_or(RawBsonRef::Null)
    }

    fn document(&self) -> &RawDocument {
        self.parts.get_document(DOCUMENT).unwrap_or_else(|_| nothing())
    }
}

/// The documents of a bucket.
struct Bucket {
    /// Sorts them by their numbers.
    sorter: SpillingSorter<RawDocumentBuf>,
    count: u64,
    first: RawBson,
    last: RawBson,
}

impl Bucket {
    fn take(&mut self, entry: Entry) -> Result<(), Fault> {
        let value: RawBson = entry.value().into();
        if self.count == 0 {
            self.first = value.clone();
        }
        // The last value stays at hand: it says whether the next document belongs to the bucket.
        (self.count, self.last) = (self.count + 1, value);
        let number = entry.number().to_be_bytes();
        self.sorter.push_after(&number, nothing(), || entry.parts).map_err(of_sort)
    }
}

impl BucketingAuto {
    pub(super) fn new(stage: BucketAuto, variables: Variables) -> Self {
        let memory = StageMemory::new(STAGE, STAGE_BYTES_MAX, variables.operation());
        let sorter = Some(SpillingSorter::by_prefix(STAGE_BYTES_MAX, variables.operation()));
        Self {
            stage,
            sorter,
            variables,
            sorted: None,
            ahead: None,
            pushed: 0,
            size: 1,
            made: 0,
            end: None,
            memory,
        }
    }

    /// Removes and returns the first entry that is left.
    fn take(&mut self) -> Result<Option<Entry>, Fault> {
        self.variables.operation().step()?;
        let next = self.sorted.as_mut().map(SortedPayloads::next).transpose().map_err(of_sort)?.flatten();
        Ok(std::mem::replace(&mut self.ahead, next.map(|parts| Entry { parts })))
    }

    /// The next document of the current bucket: one of its first `size`, one with the value of the last, or, with a
    /// granularity, one below the boundary that follows from the last.
    fn next_of_bucket(&mut self, taken: &Bucket) -> Result<Option<Entry>, Fault> {
        let Some(next) = &self.ahead else { return Ok(None) };
        let is_last_bucket = self.made == self.stage.buckets;
        if taken.count < self.size || is_last_bucket {
            return self.take();
        }
        // Documents with equal values are never divided, so the bucket may become larger than the others.
        let is_equal = self.variables.collation().compare(next.value(), taken.last.as_raw_bson_ref()).is_eq();
        if is_equal { self.take() } else { Ok(None) }
    }

    /// Moves documents below the boundary of the bucket into it.
    fn take_below(&mut self, boundary: &RawBson, taken: &mut Bucket) -> Result<(), Fault> {
        let is_below = |next: &Entry| compare(next.value(), boundary.as_raw_bson_ref()).is_lt();
        while self.ahead.as_ref().is_some_and(is_below)
            && let Some(next) = self.take()?
        {
            taken.take(next)?;
        }
        Ok(())
    }

    /// The end of a bucket: inclusive for the last one, and exclusive for the others.
    fn end_of(&mut self, taken: &mut Bucket) -> Result<RawBson, Fault> {
        let last = taken.last.clone();
        let Some(granularity) = self.stage.granularity else {
            return Ok(self.ahead.as_ref().map_or(last, |next| next.value().into()));
        };
        let boundary = granularity.round(last.as_raw_bson_ref(), Toward::Higher)?;
        self.take_below(&boundary, taken)?;
        // Zero rounds to itself. A bucket of zeros ends at the boundary before the next value instead.
        let is_zero = Numeric::of(boundary.as_raw_bson_ref()).is_some_and(|end| end.to_double() == 0.0);
        match &self.ahead {
            Some(next) if is_zero => granularity.round(next.value(), Toward::Lower),
            Some(_) | None => Ok(boundary),
        }
    }
}

/// The fault of a sort, in the name of this stage.
fn of_sort(error: SortError) -> Fault {
    if let SortError::MemoryExceeded { limit } = error {
        return Fault::MemoryExceeded { stage: STAGE, limit };
    }
    error.into()
}

impl Collector for BucketingAuto {
    fn push(&mut self, document: &RawDocument) -> Result<(), Fault> {
        let value = self.stage.group_by.evaluate(document, &self.variables)?;
        if self.stage.granularity.is_some() {
            check_rounded(value.as_ref())?;
        }
        // A missing value is null, as in a `$group`.
        let value = value.unwrap_or(RawBson::Null);
        let mut key = Vec::new();
        self.variables.collation().encode(value.as_raw_bson_ref(), Direction::Ascending, &mut key);
        // Number and value go along, so that neither is computed again.
        let entry = Entry::new(self.pushed, value.as_raw_bson_ref(), document);
        self.pushed += 1;
        let Some(sorter) = &mut self.sorter else { return Ok(()) };
        sorter.push_after(&key, nothing(), || entry.parts).map_err(of_sort)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        self.sorted = self.sorter.take().map(SpillingSorter::sort).transpose().map_err(of_sort)?;
        // Rounded to the nearest number, a half up.
        let buckets = self.stage.buckets as u64;
        let rest = self.pushed % buckets;
        self.size = (self.pushed / buckets + u64::from(rest >= buckets - rest && rest > 0)).max(1);
        self.take().map(drop)
    }

    fn next(&mut self) -> Result<Option<RawDocumentBuf>, Fault> {
        if self.made == self.stage.buckets || self.ahead.is_none() {
            return Ok(None);
        }
        self.made += 1;
        // The states of the bucket before are gone.
        self.memory.clear();
        let sorter = SpillingSorter::by_prefix(STAGE_BYTES_MAX, self.variables.operation());
        let mut taken = Bucket { sorter, count: 0, first: RawBson::Null, last: RawBson::Null };
        while let Some(entry) = self.next_of_bucket(&taken)? {
            taken.take(entry)?;
        }
        let first = taken.first.clone();
        let start = match (self.stage.granularity, self.end.take()) {
            // Buckets of a granularity follow each other without gaps.
            (Some(_), Some(end)) => end,
            (Some(granularity), None) => granularity.round(first.as_raw_bson_ref(), Toward::Lower)?,
            (None, _) => first,
        };
        let end = self.end_of(&mut taken)?;
        self.end = Some(end.clone());
        // Accumulators such as `$first` and `$push` go by the order of the input, not by that of the values.
        let mut documents = taken.sorter.sort().map_err(of_sort)?;
        let mut states = GroupStates::start(&self.stage.fields, &self.variables, &mut self.memory)?;
        while let Some(parts) = documents.next().map_err(of_sort)? {
            let entry = Entry { parts };
            self.variables.operation().pass(entry.parts.as_bytes().len())?;
            states.add(&self.stage.fields, entry.document(), &self.variables, &mut self.memory)?;
        }
        let mut bucket = RawDocumentBuf::new();
        bucket.append(cstr!("_id"), rawdoc! { "min": start, "max": end });
        states.finish(STAGE, &self.stage.fields, bucket).map(Some)
    }
}

/// Rejects a value that no granularity can round.
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
