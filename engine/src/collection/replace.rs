//! `replace_one`.

use std::borrow::Borrow;

use bson::{Bson, Document, RawDocument};
use index::validate::ValidDocument;
use query::filter::Filter;
use serde::Serialize;

use crate::collection::Collection;
use crate::collection::find::parse_filter;
use crate::document::build::{self, Drafts};
use crate::error::{Error, Result};
use crate::execute::matches::Matches;
use crate::options::{Hint, ReplaceOptions, WriteConcern};
use crate::plan::bounds::{check_hint, upsert_id};
use crate::results::UpdateResult;
use crate::storage::snapshot::Snapshot;
use crate::write::Target;
use crate::write::duplicate::is_of_id;
use crate::write::insert;
use crate::write::replace::{self, Replaced, immutable_id, validate_replacement};

/// How often an upsert looks again after another writer took its `_id` in between.
const UPSERT_ATTEMPTS: usize = 100;

impl<T: Serialize> Collection<T> {
    /// Puts `replacement` in the place of the first document that matches, in the order of `_id`s.
    ///
    /// The `_id` stays; a replacement with another one fails with code 66, one with a top-level `$` name with
    /// code 52. With `upsert(true)` the replacement is inserted when nothing matches, under the `_id` that the
    /// filter asks for if it does.
    ///
    /// Auto-increment fields that the replacement does not name are kept, as SequoiaDB keeps them: a nested one if the
    /// replacement does not name its outermost parent. An upsert fills them in as any insert does.
    pub fn replace_one<D: Borrow<T>>(&self, filter: Document, replacement: D) -> ReplaceOne<'_, T, D> {
        ReplaceOne { collection: self, filter, replacement, options: ReplaceOptions::default() }
    }
}

/// A `replace_one` that is done by [`run`](Self::run).
#[must_use = "the replacement is done by run()"]
pub struct ReplaceOne<'a, T, D> {
    collection: &'a Collection<T>,
    filter: Document,
    replacement: D,
    options: ReplaceOptions,
}

setters!(ReplaceOne<'a, T, D>, ReplaceOptions, {
    /// Accepted: there are no validators yet that it could bypass.
    bypass_document_validation: bool,
    /// Insert the replacement when nothing matches.
    upsert: bool,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T: Serialize, D: Borrow<T>> ReplaceOne<'_, T, D> {
    /// Replaces the document.
    pub fn run(self) -> Result<UpdateResult> {
        let bytes = bson::serialize_to_vec(self.replacement.borrow())?;
        let replacement = validate_replacement(&bytes)?;
        let filter = parse_filter(&self.filter)?;
        let concern = self.options.write_concern.as_ref();
        let hint = self.options.hint.as_ref();
        if self.options.upsert != Some(true) {
            let replaced = self
                .collection
                .write_existing(concern, |target| replace(target, hint, &filter, &replacement))?;
            return Ok(result(replaced.unwrap_or(Replaced::Nothing), None));
        }
        let wanted = upsert_id(&self.filter)?;
        self.collection.check_before_creation(|| {
            check_hint(hint, &[])?;
            insert::check_one(&Drafts::of_bytes(&upserted(&replacement, wanted.as_ref())?))
        })?;
        // Two upserts of one `_id` can both find nothing; the one whose insert comes second looks again.
        let mut attempts = if wanted.is_some() { UPSERT_ATTEMPTS } else { 1 };
        self.collection.write(concern, |target| {
            loop {
                let replaced = replace(target, hint, &filter, &replacement)?;
                if replaced != Replaced::Nothing {
                    return Ok(result(replaced, None));
                }
                let mut draft = Drafts::of_bytes(&upserted(&replacement, wanted.as_ref())?);
                attempts -= 1;
                match insert::insert_one(target, &self.collection.shared().generator, &mut draft) {
                    Ok(inserted) => return Ok(result(Replaced::Nothing, Some(inserted.id))),
                    Err(error) if is_of_id(&error) && attempts > 0 => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

fn replace(
    target: Target<'_>,
    hint: Option<&Hint>,
    filter: &Filter,
    replacement: &ValidDocument<'_>,
) -> Result<Replaced> {
    check_hint(hint, target.indexes)?;
    let snapshot = Snapshot::take(target.database);
    let mut matches = Matches::open(snapshot, target.collection.id, filter.clone(), None)?;
    replace::replace_one(target, &mut matches, replacement)
}

/// The replacement with the `_id` that the filter asks for.
fn upserted(replacement: &ValidDocument<'_>, wanted: Option<&Bson>) -> Result<Vec<u8>> {
    let Some(wanted) = wanted else { return Ok(replacement.as_bytes().to_vec()) };
    let element = bson::serialize_to_vec(&bson::doc! { "_id": wanted.clone() })?;
    let wanted = RawDocument::from_bytes(&element)?.get("_id")?;
    if let (Some(wanted), Some(own)) = (wanted, replacement.id()) {
        if index::order::compare(wanted, own).is_ne() {
            return Err(Error::write(immutable_id(own)));
        }
        return Ok(replacement.as_bytes().to_vec());
    }
    let element = element.get(4..element.len() - 1).unwrap_or_default();
    Ok(build::with_id_element(replacement, element))
}

fn result(replaced: Replaced, upserted_id: Option<Bson>) -> UpdateResult {
    UpdateResult {
        matched_count: u64::from(replaced != Replaced::Nothing),
        modified_count: u64::from(replaced == Replaced::Changed),
        upserted_id,
    }
}
