//! `$merge`: each document of a pipeline is one ordinary write to the target, an insert or a change of the document that has
//! its key, under the latches of every write. What was written before an error stays.

use std::borrow::Cow;

use base::codes::refused;
use base::error::{Error, ErrorKind, Result};
use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::{Bson, Document, RawBson, RawDocument, doc};
use index::collation::{Collation, SIMPLE};
use query::code::Code;
use query::expression::Variables;
use query::operation::OperationContext;
use query::pipeline::error::{Error as PipelineError, Fault};
use query::pipeline::merge::{Merge, WhenMatched, WhenNotMatched};
use query::update::Update;

use crate::catalog::indexes::Index;
use crate::collection::change::{ChangeOptions, ChangeRequest};
use crate::collection::handle::{Handle, Terms};
use crate::document::draft::Drafts;
use crate::options::{UpdateModifications, WriteConcern};
use crate::plan::bounds::ID_FIELD;
use crate::plan::order::Order;
use crate::plan::selector::{Moment, Selector};
use crate::write::change::Change;
use crate::write::find::DocumentSearch;
use crate::write::insert;
use crate::write::modified::Shown;
use crate::write::update;

/// The settings of a `$merge`.
#[derive(Clone, Copy)]
pub(super) struct MergeTerms<'a> {
    pub(super) concern: Option<&'a WriteConcern>,
    /// Whether no document is checked by the validator of the target.
    pub(super) bypass: Option<bool>,
}

/// A `$merge` at work.
pub(super) struct Merging<'a> {
    merge: &'a Merge,
    target: Handle,
    /// The position of the stage, for errors.
    position: usize,
    /// The variables of the command.
    variables: &'a Variables,
    terms: MergeTerms<'a>,
    /// The stages of `whenMatched`, read once. `None` for the other modes.
    stages: Option<Update>,
    order: Order,
}

impl<'a> Merging<'a> {
    /// Checks what can be checked before there is a document: the stages of `whenMatched`, and that an index says that the
    /// fields of `on` identify a document.
    pub(super) fn begin(
        merge: &'a Merge,
        target: Handle,
        position: usize,
        variables: &'a Variables,
        terms: MergeTerms<'a>,
    ) -> Result<Self> {
        let mut stages = None;
        if let WhenMatched::Pipeline(given) = merge.when_matched() {
            // Read without values, which each document has of its own: so a wrong stage is rejected even if there is none.
            let names = merge.names(variables).map_err(|fault| at(position, fault))?;
            stages = Some(Update::parse_pipeline(given, &[], &names)?);
        }
        // Records are stored under their `_id`s, so these need no other index.
        if !merge.is_by_id() {
            let indexes = target.find_state()?.map(|state| state.visible_indexes());
            if !indexes.is_some_and(|indexes| {
                indexes.iter().any(|index| identifies(index, merge, variables.collation()))
            }) {
                let message = "Cannot find index to verify that join fields will be unique";
                return Err(refused(Code::MERGE_ON_NOT_UNIQUE, message).in_namespace(&target.given));
            }
        }
        Ok(Self { merge, target, position, variables, terms, stages, order: Order::default() })
    }

    /// Merges one document.
    pub(super) fn merge(&self, document: &RawDocument) -> Result<()> {
        let document = self.with_id(document)?;
        let filter = self.filter(&document)?;
        let operation = self.variables.operation();
        let is_found = match (self.merge.when_matched(), &self.stages) {
            (WhenMatched::Fail, _) => return self.insert(&document, operation).map_err(named),
            (WhenMatched::Replace, _) => self.change(&filter, &Change::of_replacement(document.as_bytes())?),
            (WhenMatched::KeepExisting, _) => self.set("$setOnInsert", &document, &filter),
            // A pipeline was read when the merge began, so it is never without its stages.
            (WhenMatched::Merge | WhenMatched::Pipeline(_), None) | (WhenMatched::Merge, Some(_)) => {
                self.set("$set", &document, &filter)
            }
            (WhenMatched::Pipeline(_), Some(stages)) => {
                let variables = self.merge.variables(&document, self.variables);
                let variables = variables.map_err(|fault| at(self.position, fault))?;
                // If none is found the document itself is inserted, and not what the stages make of nothing.
                self.change(&filter, &Change::again(stages, &variables, document.as_bytes()))
            }
        };
        if is_found.map_err(named)? || self.merge.when_not_matched() != WhenNotMatched::Fail {
            return Ok(());
        }
        let message = "$merge could not find a matching document in the target collection for at least one document \
            in the source collection";
        Err(refused(Code::MERGE_STAGE_NO_MATCHING_DOCUMENT, message).in_namespace(&self.target.given))
    }

    /// The document with an `_id`, if it is found by one.
    fn with_id<'d>(&self, document: &'d RawDocument) -> Result<Cow<'d, RawDocument>> {
        let is_needed = self.merge.on().any(|path| path.as_str() == ID_FIELD);
        if !is_needed || document.get(ID_FIELD)?.is_some() {
            return Ok(Cow::Borrowed(document));
        }
        let mut numbered = document.to_owned();
        let id = self.target.shared().generator.generate();
        numbered.append(cstr!("_id"), ObjectId::from_bytes(id.bytes()));
        Ok(Cow::Owned(numbered))
    }

    /// The filter for the document that has the same key.
    fn filter(&self, document: &RawDocument) -> Result<Document> {
        let key = self.merge.key(document).map_err(|fault| at(self.position, fault))?;
        let mut filter = Document::new();
        for (path, value) in self.merge.on().zip(key) {
            // These could be read as operators and as a pattern.
            let is_explicit = matches!(value, RawBson::Document(_) | RawBson::RegularExpression(_));
            let value = Bson::try_from(value)?;
            let value = if is_explicit { Bson::Document(doc! { "$eq": value }) } else { value };
            filter.insert(path.as_str(), value);
        }
        Ok(filter)
    }

    /// Changes the document that is found by an operator over the fields of `document`.
    fn set(&self, operator: &str, document: &RawDocument, filter: &Document) -> Result<bool> {
        let update = UpdateModifications::Document(doc! { operator: Document::try_from(document)? });
        self.change(filter, &Change::of_update(&update, None, self.variables)?)
    }

    /// Changes the document that is found, or inserts one. Returns whether one of both was done.
    fn change(&self, filter: &Document, change: &Change<'_>) -> Result<bool> {
        let operation = self.variables.operation();
        let moment = Moment {
            now: self.variables.clock(),
            operation: operation.clone(),
            // The fields of `on` are looked for as the unique index has them.
            collation: self.collation(),
        };
        let selector = Selector::parse_at(filter, None, moment)?;
        let search = DocumentSearch { selector: &selector, order: &self.order };
        // If nothing is inserted, a collection that does not exist is not created either.
        let upsert = Some(self.merge.when_not_matched() == WhenNotMatched::Insert);
        let MergeTerms { concern, bypass } = self.terms;
        let options = ChangeOptions { upsert, hint: None, concern, bypass, preview: None };
        let collation = &self.collation();
        let request = ChangeRequest { filter, change, options, operation, collation };
        let done = self.target.write_change(request, |target, walk| {
            let matched = update::update_one(target, search, walk, change, Shown::NOTHING)?;
            Ok(matched.map(|matched| matched.counts()))
        })?;
        Ok(done.is_some())
    }

    /// The comparison of the fields of `on`: as the command compares strings, and `_id`s by their bytes, as records
    /// have them. To the target it is given, whatever the target has by default.
    fn collation(&self) -> Collation {
        let collation = if self.merge.is_by_id() { &SIMPLE } else { self.variables.collation() };
        collation.clone().as_given()
    }

    fn insert(&self, document: &RawDocument, operation: &OperationContext) -> Result<()> {
        let mut drafts = Drafts::of_bytes(document.as_bytes());
        // A rejected document must not leave an empty collection.
        self.target.check_before_creation(|| insert::check_one(&drafts))?;
        let MergeTerms { concern, bypass } = self.terms;
        let terms = Terms { concern, operation };
        self.target.write(terms, |target| insert::insert_one(target.unchecked(bypass), &mut drafts))?;
        Ok(())
    }
}

/// Whether an index has just the fields of `on`, and each key once, with texts compared by a collation.
fn identifies(index: &Index, merge: &Merge, collation: &Collation) -> bool {
    // A partial index says nothing of the documents that it leaves out.
    let is_whole = index.spec.is_unique() && index.settings.partial.is_none();
    let fields = index.spec.fields();
    let is_among = |path: &str| merge.on().any(|on| on.as_str() == path);
    let is_whole = is_whole && index.spec.collation() == collation;
    is_whole && fields.len() == merge.on().count() && fields.iter().all(|field| is_among(field.path.as_str()))
}

fn at(position: usize, fault: Fault) -> Error {
    PipelineError::Stage { position, fault }.into()
}

/// The error of a write in MongoDB's words for this stage. It fails the command, and is not a rejection of a single write.
fn named(error: Error) -> Error {
    let error = error.into_command();
    let ErrorKind::Command(refused) = error.kind() else { return error };
    let what = match Code::of(refused.code) {
        Code::IMMUTABLE_FIELD => {
            "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?"
        }
        Code::DUPLICATE_KEY => "$merge failed due to a DuplicateKey error",
        _ => return error,
    };
    // The details stay: a caller reads the existing key from them.
    let message = format!("{what} :: caused by :: {}", refused.message);
    let mut renamed = refused.clone();
    renamed.message = message;
    let renamed = Error::new(ErrorKind::Command(renamed));
    match error.namespace() {
        Some(namespace) => renamed.in_namespace(namespace),
        None => renamed,
    }
}
