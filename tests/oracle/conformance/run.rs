//! Cases through the crate `query`: what an engine does with documents in memory, and nothing else.
//!
//! The clock stands still. An inserted document that has no `_id` of its own gets an `ObjectId` of zeros.

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, RawBson, RawDocument, RawDocumentBuf, Timestamp};
use query::distinct::Distinct;
use query::expression::{Expression, Metadata, Variables};
use query::filter::Filter;
use query::operation::OperationContext;
use query::pipeline::stream::Given;
use query::pipeline::{Pipeline, Source};
use query::projection::Projection;
use query::sort::Sort;
use query::sort::collect::Sorter;
use query::update::{Context, Phase, Update, UpsertStart, is_replacement, upsert_base};

use crate::conformance::corpus::{Change, Command, Find, Modification, Reach, Upsert};
use crate::conformance::expectation::Outcome;
use crate::conformance::foreign::OtherCollections;
use crate::conformance::value::raw;

/// The first moment of 2024.
pub(crate) const NOW: DateTime = DateTime::from_millis(1_704_067_200_000);
pub(crate) const STAMP: Timestamp = Timestamp { time: 1_704_067_200, increment: 1 };
const SORT_BYTES_MAX: usize = 100 * 1024 * 1024;

/// An error's number and text.
struct Refusal {
    code: i32,
    text: String,
}

/// The result of a command over documents. A pipeline may read other collections.
pub(crate) fn run(documents: &[Document], others: &OtherCollections, command: &Command) -> Outcome {
    let documents: Vec<RawDocumentBuf> = documents.iter().map(raw).collect();
    let outcome = match command {
        Command::Find(find) => found(&documents, find).map(Outcome::Documents),
        Command::Update(change) => changed(&documents, change).map(Outcome::Documents),
        Command::Distinct { path, filter } => distinct(&documents, path, filter).map(Outcome::Values),
        Command::Aggregate { stages, variables } => {
            aggregated(documents, others, stages, variables).map(Outcome::Documents)
        }
        Command::Expression { expression, variables } => {
            evaluated(&documents, expression, variables).map(Outcome::Values)
        }
    };
    outcome.unwrap_or_else(|Refusal { code, text }| Outcome::Refused { code, text })
}

macro_rules! refusals {
    ($($error:ty),*) => {$(
        impl From<$error> for Refusal {
            fn from(error: $error) -> Self {
                Self { code: error.code().number(), text: with_sources(&error) }
            }
        }
    )*};
}

refusals!(
    query::error::Error,
    query::expression::error::Error,
    query::pipeline::error::Error,
    query::projection::error::Error,
    query::sort::error::Error,
    query::update::error::Error,
    query::distinct::Error
);

/// The text of an error and of what caused it.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn variables(defined: &Document) -> Result<Variables, Refusal> {
    Ok(Variables::new(NOW).with_let(&raw(defined))?)
}

fn found(documents: &[RawDocumentBuf], find: &Find) -> Result<Vec<Document>, Refusal> {
    let variables = variables(&find.variables)?;
    let filter = Filter::parse_with(&raw(&find.filter), &variables)?;
    let sort = find.sort.as_ref().map(|sort| Sort::parse(&raw(sort))).transpose()?;
    let projection = find.projection.as_ref();
    let mut shown_with = variables.clone().with_metadata();
    let projection =
        projection.map(|shown| Projection::parse(&raw(shown), Some(&filter), &shown_with)).transpose()?;
    let limit = find.limit.unwrap_or(usize::MAX);
    let matching = matching(documents, &filter, &variables)?;
    let shown = sorted(matching, sort, find.skip.saturating_add(limit))?.into_iter().skip(find.skip);
    let shown = shown.take(limit).map(|document| match &projection {
        Some(projection) => {
            // Documents in memory are found by no index.
            let record_id = document.get("_id").ok().flatten().map(RawBson::from);
            shown_with.set_metadata(Some(Metadata { record_id, ..Metadata::default() }));
            Ok(plain(&projection.apply(&document, &shown_with)?))
        }
        None => Ok(plain(&document)),
    });
    shown.collect()
}

fn matching(
    documents: &[RawDocumentBuf],
    filter: &Filter,
    variables: &Variables,
) -> Result<Vec<RawDocumentBuf>, Refusal> {
    let mut matching = Vec::new();
    for document in documents {
        if filter.try_matches(document, variables)? {
            matching.push(document.clone());
        }
    }
    Ok(matching)
}

fn sorted(
    mut documents: Vec<RawDocumentBuf>,
    sort: Option<Sort>,
    limit: usize,
) -> Result<Vec<RawDocumentBuf>, Refusal> {
    let Some(sort) = sort else { return Ok(documents) };
    if sort.natural() == Some(index::key::Direction::Descending) {
        documents.reverse();
    }
    let mut sorter = Sorter::new(sort, Some(limit), SORT_BYTES_MAX);
    for document in documents {
        sorter.push(&document, || document.clone())?;
    }
    Ok(sorter.into_sorted_iter().collect())
}

fn distinct(
    documents: &[RawDocumentBuf],
    path: &str,
    filter: &Document,
) -> Result<Vec<Option<Bson>>, Refusal> {
    let variables = Variables::new(NOW);
    let filter = Filter::parse_with(&raw(filter), &variables)?;
    let mut distinct = Distinct::new(path)?;
    for document in matching(documents, &filter, &variables)? {
        distinct.add(&document)?;
    }
    Ok(distinct.into_values().into_iter().map(|value| Some(decoded(value))).collect())
}

fn evaluated(
    documents: &[RawDocumentBuf],
    expression: &Bson,
    defined: &Document,
) -> Result<Vec<Option<Bson>>, Refusal> {
    let variables = variables(defined)?;
    let holder = raw(&bson::doc! { "expression": expression });
    let expression = holder.get("expression").ok().flatten().expect("it was put there");
    let expression = Expression::parse(expression, &variables)?;
    let values = documents.iter().map(|document| Ok(expression.evaluate(document, &variables)?.map(decoded)));
    values.collect()
}

/// The whole pipeline over the documents, without what an engine would plan. Of a collection that describes itself there
/// is nothing here.
fn aggregated(
    documents: Vec<RawDocumentBuf>,
    others: &OtherCollections,
    stages: &[Document],
    defined: &Document,
) -> Result<Vec<Document>, Refusal> {
    let stages: Vec<RawDocumentBuf> = stages.iter().map(raw).collect();
    let pipeline = Pipeline::parse(&stages, &variables(defined)?)?;
    let documents = match pipeline.source() {
        Source::Collection => documents,
        Source::Documents(documents) => documents.clone(),
        // The state of an engine, or of its clients.
        Source::CollStats(_)
        | Source::IndexStats
        | Source::CurrentOp(_)
        | Source::ListLocalSessions(_)
        | Source::PlanCacheStats => Vec::new(),
    };
    let input = Given::new(documents.into_iter().map(Ok::<_, query::pipeline::error::Error>));
    pipeline.run_with(input, &others.shared()).map(|document| Ok(plain(&document?))).collect()
}

/// An update's way over all documents.
struct Changing<'c> {
    change: &'c Change,
    filter: Filter,
    update: Option<Update>,
    variables: Variables,
}

fn changed(documents: &[RawDocumentBuf], change: &Change) -> Result<Vec<Document>, Refusal> {
    let variables = variables(&change.variables)?;
    let filter = Filter::parse_with(&raw(&change.filter), &variables)?;
    let array_filters: Vec<RawDocumentBuf> = change.array_filters.iter().map(raw).collect();
    let update = match &change.update {
        Modification::Operators(update) if is_replacement(&raw(update))? => None,
        Modification::Operators(update) => Some(Update::parse(&raw(update), &array_filters)?),
        Modification::Pipeline(stages) => {
            let stages: Vec<RawDocumentBuf> = stages.iter().map(raw).collect();
            Some(Update::parse_pipeline(&stages, &array_filters, &variables)?)
        }
    };
    let changing = Changing { change, filter, update, variables };
    let mut after = Vec::new();
    let mut matched = 0;
    for document in documents {
        let is_reached = change.reach == Reach::Many || matched == 0;
        if is_reached && changing.filter.try_matches(document, &changing.variables)? {
            matched += 1;
            after.push(plain(&changing.modified(document)?));
        } else {
            after.push(plain(document));
        }
    }
    if matched == 0 && change.upsert == Upsert::Yes {
        after.push(changing.inserted()?);
    }
    Ok(after)
}

impl Changing<'_> {
    fn modified(&self, document: &RawDocument) -> Result<RawDocumentBuf, Refusal> {
        let Some(update) = &self.update else { return Ok(self.replaced(document)) };
        let position = update
            .is_positional()
            .then(|| {
                self.filter
                    .array_position(document, &OperationContext::default())
                    .expect("the filter has answered")
            })
            .flatten();
        let context = Context::new(Phase::Modify, NOW, STAMP).with_position(position);
        Ok(update.apply(document, &context)?.unwrap_or_else(|| document.to_owned()))
    }

    fn inserted(&self) -> Result<Document, Refusal> {
        let start = if self.update.is_some() { UpsertStart::Update } else { UpsertStart::Replacement };
        let base = upsert_base(&self.filter, start)?;
        let context = Context::new(Phase::Insert, NOW, STAMP);
        let made = match &self.update {
            Some(update) => update.apply(&base, &context)?.unwrap_or(base),
            None => self.replaced(&base),
        };
        let made = plain(&made);
        let id = made.get("_id").cloned().unwrap_or(Bson::ObjectId(ObjectId::from_bytes([0; 12])));
        let mut document = bson::doc! { "_id": id };
        document.extend(made.into_iter().filter(|(name, _)| name != "_id"));
        Ok(document)
    }

    /// The replacement under the `_id` of what it replaces.
    fn replaced(&self, document: &RawDocument) -> RawDocumentBuf {
        let Modification::Operators(replacement) = &self.change.update else { return document.to_owned() };
        let mut replaced = Document::new();
        if let Some(id) = plain(document).get("_id") {
            replaced.insert("_id", id.clone());
        }
        replaced.extend(replacement.clone());
        raw(&replaced)
    }
}

fn plain(document: &RawDocument) -> Document {
    Document::try_from(document).expect("what comes out is well-formed")
}

fn decoded(value: RawBson) -> Bson {
    Bson::try_from(value).expect("what comes out is well-formed")
}
