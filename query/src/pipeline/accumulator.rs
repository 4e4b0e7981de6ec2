//! Accumulators: values computed over the documents of one group.
//!
//! Their names are one sorted table. A name that is not there is unknown; one that is there as
//! [`Support::Unsupported`] exists in MongoDB and not here. The rules of sums are those of expressions.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use bson::raw::CString;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::key::Direction;
use index::path::FieldPath;

use crate::code::Code;
use crate::expression::accumulate::{Spread, Sum};
use crate::expression::{Expression, Variables};
use crate::percentile::PercentileRequest;
use crate::pipeline::count::number;
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::pipeline::options::{object, options};
use crate::pipeline::quantiles::GroupNumbers;
use crate::pipeline::ranked::{End, Ranked};
use crate::raw::Fields;
use crate::registry::Registry;
use crate::sort::Sort;
use crate::value::{content_bytes, describe, elements, integer};

/// An accumulator with its argument.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    operator: &'static str,
    kind: Kind,
    /// The value that each document contributes.
    argument: Expression,
    /// The option `n`. Absent for accumulators without it.
    wanted: Option<Expression>,
    /// The order of the documents for `$top` and the like.
    sort: Option<Sort>,
    /// The request of `$percentile` and `$median`.
    percentiles: Option<PercentileRequest>,
    /// The comparison of values with strings.
    collation: Collation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AddToSet,
    Average,
    Count,
    Deviation(Population),
    First,
    Last,
    Extreme(Ordering),
    MergeObjects,
    /// `$percentile` and `$median`.
    Percentile,
    Push,
    /// `$concatArrays`: the elements of all arrays.
    Concatenate,
    /// `$setUnion`: the different elements of all arrays.
    Union,
    Sum,
    /// `$firstN` and `$lastN`.
    Some(End),
    /// `$minN` and `$maxN`.
    Extremes(Direction),
    /// `$top` and `$bottom`.
    Best(End),
    /// `$topN` and `$bottomN`.
    BestSome(End),
}

/// The meaning of the numbers of a deviation or a covariance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Population {
    Whole,
    Sample,
}

#[derive(Clone, Copy)]
enum Support {
    Supported(Kind),
    Unsupported,
}

const ACCUMULATORS: Registry<Support> = Registry::new(&[
    ("$accumulator", Support::Unsupported),
    ("$addToSet", Support::Supported(Kind::AddToSet)),
    ("$avg", Support::Supported(Kind::Average)),
    ("$bottom", Support::Supported(Kind::Best(End::Last))),
    ("$bottomN", Support::Supported(Kind::BestSome(End::Last))),
    ("$concatArrays", Support::Supported(Kind::Concatenate)),
    ("$count", Support::Supported(Kind::Count)),
    ("$first", Support::Supported(Kind::First)),
    ("$firstN", Support::Supported(Kind::Some(End::First))),
    ("$last", Support::Supported(Kind::Last)),
    ("$lastN", Support::Supported(Kind::Some(End::Last))),
    ("$max", Support::Supported(Kind::Extreme(Ordering::Greater))),
    ("$maxN", Support::Supported(Kind::Extremes(Direction::Descending))),
    ("$median", Support::Supported(Kind::Percentile)),
    ("$mergeObjects", Support::Supported(Kind::MergeObjects)),
    ("$min", Support::Supported(Kind::Extreme(Ordering::Less))),
    ("$minN", Support::Supported(Kind::Extremes(Direction::Ascending))),
    ("$percentile", Support::Supported(Kind::Percentile)),
    ("$push", Support::Supported(Kind::Push)),
    ("$setUnion", Support::Supported(Kind::Union)),
    ("$stdDevPop", Support::Supported(Kind::Deviation(Population::Whole))),
    ("$stdDevSamp", Support::Supported(Kind::Deviation(Population::Sample))),
    ("$sum", Support::Supported(Kind::Sum)),
    ("$top", Support::Supported(Kind::Best(End::First))),
    ("$topN", Support::Supported(Kind::BestSome(End::First))),
]);

/// The state of an accumulator for one group.
#[derive(Debug)]
pub(super) enum GroupState {
    Sum(Sum),
    Average(Sum),
    Spread(Spread, Deviation),
    Count(i64),
    /// The one value that is kept of all. Absent before the first.
    One(Option<RawBson>),
    Array(RawArrayBuf),
    /// Values without repetitions. Those with the same key compare as equal.
    Set {
        keys: HashSet<Box<[u8]>>,
        values: RawArrayBuf,
        /// Which texts are equal.
        collation: Collation,
    },
    Merged(MergedObject),
    Ranked(Ranked, RankedResult),
    Percentiles(GroupNumbers),
}

/// Whether a deviation is that of the whole population or of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deviation(Population);

/// Whether the result is an array of the kept values or the only one of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum RankedResult {
    Array,
    Only,
}

/// The fields of a `$mergeObjects`, in the order in which their names first occurred.
#[derive(Debug, Default)]
pub(super) struct MergedObject {
    fields: Vec<(CString, RawBson)>,
    /// Indexes into `fields` by name.
    indexes: BTreeMap<String, usize>,
}

impl Accumulator {
    /// Adds the fields that the accumulator reads. Returns `None` if it may read any field.
    pub(super) fn collect_fields(&self, paths: &mut Vec<FieldPath>) -> Option<()> {
        self.argument.collect_fields(paths)?;
        self.wanted.iter().try_for_each(|wanted| wanted.collect_fields(paths))?;
        paths.extend(self.sort.iter().flat_map(Sort::fields).map(|(path, _)| path.clone()));
        Some(())
    }

    pub(super) fn operator(&self) -> &'static str {
        self.operator
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The value that each document contributes.
    pub(super) fn argument(&self) -> &Expression {
        &self.argument
    }

    /// The order of the documents for `$top` and the like.
    pub(super) fn sort(&self) -> Option<&Sort> {
        self.sort.as_ref()
    }

    /// The request of `$percentile` and `$median`.
    pub(super) fn percentiles(&self) -> Option<&PercentileRequest> {
        self.percentiles.as_ref()
    }

    /// Whether it merges objects, which cannot be split again.
    pub(super) fn merges_objects(&self) -> bool {
        self.kind == Kind::MergeObjects
    }

    /// Whether it has an `n` that is not constant.
    pub(super) fn has_varying_count(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.constant().is_none())
    }

    /// Whether it looks at nothing but the first document of a group.
    pub(super) fn takes_first(&self) -> bool {
        self.kind == Kind::First
    }

    /// Parses an accumulator of a group by its name and its argument.
    pub(super) fn parse(name: &str, operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        // As an expression, `[x]` would be an array of one value. As an argument MongoDB reads it as a list.
        if let Some((operator, Support::Supported(_))) = ACCUMULATORS.entry(name)
            && operand.as_array().is_some()
        {
            let expected = "one argument and no array of them";
            return Err(wrong(operator, expected, operand, Code::ACCUMULATOR_NOT_UNARY));
        }
        Self::parse_in_window(name, operand, variables)
    }

    /// Parses an accumulator of a window, which reads an array as an expression like any other.
    pub(super) fn parse_in_window(
        name: &str,
        operand: RawBsonRef<'_>,
        variables: &Variables,
    ) -> Result<Self, Fault> {
        let (operator, kind) = match ACCUMULATORS.entry(name) {
            None => return Err(Fault::UnknownAccumulator { operator: crate::value::shorten(name) }),
            Some((operator, Support::Unsupported)) => {
                return Err(Fault::UnsupportedAccumulator { operator: (*operator).to_owned() });
            }
            Some((operator, Support::Supported(kind))) => (*operator, *kind),
        };
        match kind {
            Kind::Some(_) | Kind::Extremes(_) => Self::parse_some(operator, kind, operand, variables),
            Kind::Best(_) | Kind::BestSome(_) => Self::parse_best(operator, kind, operand, variables),
            // It counts documents whatever they are, and MongoDB insists that it is given nothing.
            Kind::Count if operand.as_document().is_none_or(|argument| !argument.is_empty()) => {
                Err(wrong(operator, "an empty object", operand, Code::FAILED_TO_PARSE))
            }
            Kind::AddToSet
            | Kind::Average
            | Kind::Count
            | Kind::Deviation(_)
            | Kind::First
            | Kind::Last
            | Kind::Extreme(_)
            | Kind::MergeObjects
            | Kind::Push
            | Kind::Concatenate
            | Kind::Union
            | Kind::Sum => {
                let argument = Expression::parse(operand, variables)?;
                let collation = variables.collation().clone();
                Ok(Self { operator, kind, argument, wanted: None, sort: None, percentiles: None, collation })
            }
            Kind::Percentile => {
                let (argument, request) = Expression::parse_percentile(operator, operand, variables)?;
                let (percentiles, collation) = (Some(request), variables.collation().clone());
                Ok(Self { operator, kind, argument, wanted: None, sort: None, percentiles, collation })
            }
        }
    }

    /// Parses `$firstN`, `$lastN`, `$minN` or `$maxN`.
    fn parse_some(
        operator: &'static str,
        kind: Kind,
        operand: RawBsonRef<'_>,
        variables: &Variables,
    ) -> Result<Self, Fault> {
        let [wanted, input] = options(
            operator,
            ["n", "input"],
            operand,
            Code::N_OPERATOR_NOT_OBJECT,
            Code::N_OPERATOR_UNKNOWN_ARGUMENT,
        )?;
        let wanted = given(operator, "n", wanted, Code::N_MISSING)?;
        let input = given(operator, "input", input, Code::N_OPERATOR_INPUT_MISSING)?;
        let argument = Expression::parse(input, variables)?;
        let wanted = Some(Expression::parse(wanted, variables)?);
        let collation = variables.collation().clone();
        Self { operator, kind, argument, wanted, sort: None, percentiles: None, collation }.checked()
    }

    /// Parses `$top`, `$bottom`, `$topN` or `$bottomN`.
    fn parse_best(
        operator: &'static str,
        kind: Kind,
        operand: RawBsonRef<'_>,
        variables: &Variables,
    ) -> Result<Self, Fault> {
        // Without an `n`, the option is unknown: MongoDB rejects `n` of a `$top`.
        let (wanted, output, sort) = if matches!(kind, Kind::BestSome(_)) {
            let [wanted, output, sort] = options(
                operator,
                ["n", "output", "sortBy"],
                operand,
                Code::TOP_NOT_OBJECT,
                Code::TOP_UNKNOWN_ARGUMENT,
            )?;
            let wanted = given(operator, "n", wanted, Code::TOP_N_MISSING)?;
            (Some(Expression::parse(wanted, variables)?), output, sort)
        } else {
            let [output, sort] = options(
                operator,
                ["output", "sortBy"],
                operand,
                Code::TOP_NOT_OBJECT,
                Code::TOP_UNKNOWN_ARGUMENT,
            )?;
            (None, output, sort)
        };
        let output = given(operator, "output", output, Code::TOP_OUTPUT_MISSING)?;
        let sort = given(operator, "sortBy", sort, Code::TOP_SORT_BY_MISSING)?;
        let collation = variables.collation().clone();
        let sort = Sort::parse(object(operator, sort, Code::TOP_SORT_BY_TYPE)?)?.with_collation(&collation);
        let argument = Expression::parse(output, variables)?;
        Self { operator, kind, argument, wanted, sort: Some(sort), percentiles: None, collation }.checked()
    }

    /// Checks `n` if it is constant. Otherwise it is checked with the key of each group.
    fn checked(self) -> Result<Self, Fault> {
        if let Some(Some(wanted)) = self.wanted.as_ref().and_then(Expression::constant) {
            read_count(self.operator, wanted)?;
        }
        Ok(self)
    }

    /// The state for a new group. `id` is the group's key if that is an object, and otherwise empty: `n` may depend on its
    /// fields.
    pub(super) fn start(&self, id: &RawDocument, variables: &Variables) -> Result<GroupState, Fault> {
        let wanted = self.wanted(id, variables)?;
        if let Some(request) = &self.percentiles {
            return Ok(GroupState::Percentiles(GroupNumbers::new(request)));
        }
        Ok(match self.kind {
            Kind::Sum => GroupState::Sum(Sum::default()),
            Kind::Average => GroupState::Average(Sum::default()),
            Kind::Deviation(population) => GroupState::Spread(Spread::default(), Deviation(population)),
            Kind::Count => GroupState::Count(0),
            Kind::First | Kind::Last | Kind::Extreme(_) => GroupState::One(None),
            // Only a `$percentile` has a request, and so its state above.
            Kind::Push | Kind::Concatenate | Kind::Percentile => GroupState::Array(RawArrayBuf::new()),
            Kind::AddToSet | Kind::Union => {
                let (keys, values) = (HashSet::new(), RawArrayBuf::new());
                GroupState::Set { keys, values, collation: self.collation.clone() }
            }
            Kind::MergeObjects => GroupState::Merged(MergedObject::default()),
            Kind::Some(end) | Kind::BestSome(end) => {
                GroupState::Ranked(Ranked::new(wanted, end), RankedResult::Array)
            }
            // Their keys are encoded in the direction that is wanted, so the first are always the ones to keep.
            Kind::Extremes(_) => GroupState::Ranked(Ranked::new(wanted, End::First), RankedResult::Array),
            Kind::Best(end) => GroupState::Ranked(Ranked::new(wanted, end), RankedResult::Only),
        })
    }

    /// The comparison of values with strings.
    pub(super) fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The number of values that are wanted.
    pub(super) fn wanted(&self, id: &RawDocument, variables: &Variables) -> Result<usize, Fault> {
        match &self.wanted {
            Some(wanted) => wanted.with_value(id, variables, |wanted| {
                read_count(self.operator, wanted.unwrap_or(RawBsonRef::Null))
            })?,
            // `$top` and `$bottom` keep one value; the other accumulators do not use this.
            None => Ok(1),
        }
    }

    /// Adds a document to the state of its group.
    pub(super) fn add(
        &self,
        state: &mut GroupState,
        document: &RawDocument,
        variables: &Variables,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        // Two shortcuts for states that need no value of the document.
        if let GroupState::Count(count) = state {
            *count += 1;
            return Ok(());
        }
        if let (GroupState::One(Some(_)), Kind::First) = (&*state, self.kind) {
            return Ok(());
        }
        // The order of a `$top` is that of the documents; the values that are kept may have another.
        let key = self.sort.as_ref().map(|sort| sort.key(document)).transpose()?;
        let key = key.as_ref().map(crate::sort::SortKey::as_bytes).unwrap_or_default();
        self.argument.with_value(document, variables, |value| self.add_value(state, key, value, memory))?
    }

    /// Adds a document's value, `None` if it is missing. `key` is the sort key of the document, empty without an order.
    fn add_value(
        &self,
        state: &mut GroupState,
        key: &[u8],
        value: Option<RawBsonRef<'_>>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        // The state was made by `start` for this accumulator, so it alone says what to do.
        let or_null = value.unwrap_or(RawBsonRef::Null);
        if let Kind::Concatenate | Kind::Union = self.kind {
            // A missing array has no elements; any other value that is not an array is a mistake.
            let array = value.map(|value| array_of(self.operator, value)).transpose()?;
            let mut elements = array.into_iter().flat_map(elements);
            return elements.try_for_each(|element| keep(state, Some(element), memory));
        }
        match state {
            GroupState::Percentiles(numbers) => numbers.add(or_null, memory)?,
            GroupState::Sum(sum) | GroupState::Average(sum) => sum.add(or_null),
            GroupState::Spread(spread, _) => spread.add(or_null),
            GroupState::Count(count) => *count += 1,
            GroupState::One(kept) => self.keep_one(kept, or_null, memory)?,
            // `$push` and `$addToSet` leave out missing values; for the others they count as null.
            GroupState::Array(_) | GroupState::Set { .. } => keep(state, value, memory)?,
            GroupState::Merged(merged) => merged.add(self.operator, or_null, memory)?,
            GroupState::Ranked(ranked, _) => self.rank(ranked, key, or_null, memory)?,
        }
        Ok(())
    }

    /// Keeps a value if it is better than the one kept so far. `$first` and `$last` keep nulls, `$min` and `$max` do not.
    fn keep_one(
        &self,
        kept: &mut Option<RawBson>,
        value: RawBsonRef<'_>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        let is_better = match (self.kind, &*kept) {
            (Kind::Extreme(_), _) if is_nullish(value) => false,
            (Kind::Extreme(wanted), Some(kept)) => {
                self.collation.compare(value, kept.as_raw_bson_ref()) == wanted
            }
            // For `$first` this is the first value: `add` has returned early for the later ones.
            (_, _) => true,
        };
        if is_better {
            // Grown before the old value is given back, because both are held for a moment.
            memory.grow(content_bytes(value))?;
            if let Some(old) = kept.replace(value.into()) {
                memory.shrink(content_bytes(old.as_raw_bson_ref()));
            }
        }
        Ok(())
    }

    /// Adds a value to those of a `$firstN`, `$topN`, `$minN` or the like.
    fn rank(
        &self,
        ranked: &mut Ranked,
        key: &[u8],
        value: RawBsonRef<'_>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        // `$minN` and `$maxN` are ordered by the values themselves, and leave out nulls.
        let Kind::Extremes(direction) = self.kind else { return ranked.add(key, value, memory) };
        if is_nullish(value) {
            return Ok(());
        }
        ranked.add(&encoded(value, direction, &self.collation), value, memory)
    }
}

impl GroupState {
    /// The value for the group's document.
    pub(super) fn into_value(self) -> RawBson {
        match self {
            Self::Sum(sum) => sum.total(),
            Self::Average(sum) => sum.mean(),
            Self::Spread(spread, Deviation(population)) => deviation(&spread, population),
            Self::Count(count) => number(count),
            Self::One(kept) => kept.unwrap_or(RawBson::Null),
            Self::Array(array) => RawBson::Array(array),
            Self::Set { values, .. } => RawBson::Array(values),
            Self::Merged(merged) => merged.into_value(),
            Self::Ranked(ranked, RankedResult::Array) => ranked.into_array(),
            Self::Ranked(ranked, RankedResult::Only) => ranked.into_only(),
            Self::Percentiles(numbers) => numbers.into_value(),
        }
    }
}

impl GroupState {
    /// The value for the documents so far.
    pub(super) fn value(&self) -> RawBson {
        match self {
            Self::Sum(sum) => sum.total(),
            Self::Average(sum) => sum.mean(),
            Self::Spread(spread, Deviation(population)) => deviation(spread, *population),
            Self::Count(count) => number(*count),
            Self::One(kept) => kept.clone().unwrap_or(RawBson::Null),
            Self::Array(array) | Self::Set { values: array, .. } => RawBson::Array(array.clone()),
            Self::Merged(merged) => merged.value(),
            Self::Ranked(ranked, RankedResult::Array) => ranked.clone().into_array(),
            Self::Ranked(ranked, RankedResult::Only) => ranked.clone().into_only(),
            Self::Percentiles(numbers) => numbers.clone().into_value(),
        }
    }
}

/// Adds a value to an array or a set that is kept. A missing one adds nothing.
fn keep(
    state: &mut GroupState,
    value: Option<RawBsonRef<'_>>,
    memory: &mut StageMemory,
) -> Result<(), Fault> {
    let Some(value) = value else { return Ok(()) };
    if let GroupState::Array(array) = state {
        memory.grow(content_bytes(value))?;
        array.push(value);
    } else if let GroupState::Set { keys, values, collation } = state {
        let key = encoded(value, Direction::Ascending, collation);
        if keys.contains(key.as_slice()) {
            return Ok(());
        }
        // The key is needed to find the value again: the array of values cannot be searched.
        memory.grow(content_bytes(value) + key.len() + size_of::<Box<[u8]>>())?;
        keys.insert(key.into());
        values.push(value);
    }
    Ok(())
}

/// The array that `$concatArrays` or `$setUnion` is given.
pub(super) fn array_of<'v>(operator: &'static str, value: RawBsonRef<'v>) -> Result<&'v RawArray, Fault> {
    let wrong =
        || Fault::Value { operator, expected: "arrays", found: describe(value), code: Code::TYPE_MISMATCH };
    value.as_array().ok_or_else(wrong)
}

/// The standard deviation of numbers.
pub(super) fn deviation(spread: &Spread, population: Population) -> RawBson {
    match population {
        Population::Whole => spread.population(),
        Population::Sample => spread.sample(),
    }
}

impl MergedObject {
    /// The object so far.
    pub(super) fn value(&self) -> RawBson {
        let mut document = RawDocumentBuf::new();
        for (name, value) in &self.fields {
            document.append(name, value.clone());
        }
        RawBson::Document(document)
    }

    /// Adds the fields of an object. Null adds nothing; any other value is an error.
    pub(super) fn add(
        &mut self,
        operator: &'static str,
        value: RawBsonRef<'_>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        if is_nullish(value) {
            return Ok(());
        }
        let document = value.as_document().ok_or_else(|| Fault::Value {
            operator,
            expected: "objects",
            found: describe(value),
            code: Code::MERGE_OBJECTS_TYPE,
        })?;
        for field in Fields::of(document) {
            let field = field?;
            let value = field.value()?;
            memory.grow(content_bytes(value))?;
            // A later value replaces an earlier one, and the field stays where it first was.
            let earlier = self.indexes.get(field.name()).and_then(|index| self.fields.get_mut(*index));
            if let Some((_, slot)) = earlier {
                memory.shrink(content_bytes(slot.as_raw_bson_ref()));
                *slot = value.into();
                continue;
            }
            let name = field.name();
            // The name is stored twice: in the list and as a key of the map.
            memory.grow(2 * name.len())?;
            let name =
                CString::try_from(name).map_err(|error| Fault::InvalidBson { reason: error.to_string() })?;
            self.indexes.insert(name.as_str().to_owned(), self.fields.len());
            self.fields.push((name, value.into()));
        }
        Ok(())
    }

    fn into_value(self) -> RawBson {
        let mut document = RawDocumentBuf::new();
        for (name, value) in self.fields {
            document.append(&name, value);
        }
        RawBson::Document(document)
    }
}

pub(super) fn is_nullish(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Null | RawBsonRef::Undefined)
}

/// The bytes of a value that sort as the values do.
pub(super) fn encoded(value: RawBsonRef<'_>, direction: Direction, collation: &Collation) -> Vec<u8> {
    let mut key = Vec::new();
    collation.encode(value, direction, &mut key);
    key
}

/// Parses `n`: an integer above 0, of any number type.
fn read_count(operator: &'static str, wanted: RawBsonRef<'_>) -> Result<usize, Fault> {
    let refuse = |expected, code| Fault::Value { operator, expected, found: describe(wanted), code };
    // MongoDB has a number of its own for each of the three faults.
    if index::number::Number::of(wanted).is_none() {
        return Err(refuse("a number as 'n'", Code::N_TYPE));
    }
    let count = integer(wanted).ok_or_else(|| refuse("an integer as 'n'", Code::N_NOT_INTEGER))?;
    if count <= 0 {
        return Err(refuse("an 'n' above 0", Code::N_NOT_POSITIVE));
    }
    // More values than memory has addresses are as good as all.
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The value of an option that must be given.
fn given<'b>(
    operator: &'static str,
    option: &'static str,
    value: Option<RawBsonRef<'b>>,
    code: Code,
) -> Result<RawBsonRef<'b>, Fault> {
    value.ok_or(Fault::OptionMissing { stage: operator, option, code })
}

/// The error for a wrong argument.
fn wrong(operator: &'static str, expected: &'static str, operand: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: operator, expected, found: describe(operand), code }
}
