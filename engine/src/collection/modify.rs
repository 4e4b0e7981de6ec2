//! One document that is changed, and returned as it was or as it is then: what the commands and the verbs of `find_and_modify` have
//! in common.

use std::cell::RefCell;

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use query::code::Code;
use query::projection::Projection;

use crate::collection::change::{ChangeOptions, ChangeRequest};
use crate::collection::explain::ExplainedWrite;
use crate::collection::find::parse_projection;
use crate::collection::handle::Handle;
use crate::execute::explain::{Depth, Explained};
use crate::options::{FindOneAndReplaceOptions, FindOneAndUpdateOptions, Hint, ReturnDocument, WriteConcern};
use crate::plan::order::Order;
use crate::plan::selector::Selector;
use crate::write::Preview;
use crate::write::change::Change;
use crate::write::find::DocumentSearch;
use crate::write::modified::{Image, Shown};
use crate::write::update;
use crate::write::upsert::Upserted;

/// The result of a find-and-modify.
pub(crate) struct Modified {
    /// A document matched.
    pub(crate) is_found: bool,
    /// The state of the document that was asked for, projected.
    pub(crate) document: Option<RawDocumentBuf>,
    /// The `_id` of the document that was inserted.
    pub(crate) upserted_id: Option<Bson>,
    /// Whether it was done before, by its token: then this is what it did then.
    pub(crate) was_replayed: bool,
}

/// A find-and-modify whose filter and change are parsed.
pub(super) struct ModifyRequest<'a> {
    pub(super) filter: &'a Document,
    pub(super) selector: &'a Selector,
    pub(super) change: &'a Change<'a>,
    pub(super) options: ModifyOptions<'a>,
}

/// The options that updates and replacements have in common.
pub(super) struct ModifyOptions<'a> {
    upsert: Option<bool>,
    projection: Option<&'a Document>,
    image: Image,
    sort: Option<&'a Document>,
    hint: Option<&'a Hint>,
    write_concern: Option<&'a WriteConcern>,
    bypass: Option<bool>,
}

impl<'a> ModifyOptions<'a> {
    fn change_options(&self) -> ChangeOptions<'a> {
        let Self { upsert, hint, write_concern: concern, bypass, .. } = *self;
        ChangeOptions { upsert, hint, concern, bypass, preview: None }
    }

    /// Parses the projection. A positional one cannot be applied to the changed document: the array element that matched
    /// the filter may be gone.
    fn projection(&self, selector: &Selector) -> Result<Option<Projection>> {
        let projection = parse_projection(self.projection, selector)?;
        // As in MongoDB: `$` is an element that matched in the old document, and the new one may not have it.
        if self.image == Image::After && projection.as_ref().is_some_and(Projection::is_positional) {
            return Err(refused(
                Code::BAD_VALUE,
                "cannot use a positional projection and return the new document",
            ));
        }
        Ok(projection)
    }

    pub(super) fn of_update(options: &'a FindOneAndUpdateOptions) -> Self {
        Self {
            upsert: options.upsert,
            projection: options.projection.as_ref(),
            image: image(options.return_document),
            sort: options.sort.as_ref(),
            hint: options.hint.as_ref(),
            write_concern: options.write_concern.as_ref(),
            bypass: options.bypass_document_validation,
        }
    }

    pub(super) fn of_replacement(options: &'a FindOneAndReplaceOptions) -> Self {
        Self {
            upsert: options.upsert,
            projection: options.projection.as_ref(),
            image: image(options.return_document),
            sort: options.sort.as_ref(),
            hint: options.hint.as_ref(),
            write_concern: options.write_concern.as_ref(),
            bypass: options.bypass_document_validation,
        }
    }
}

impl Handle {
    pub(super) fn find_and_change(&self, request: &ModifyRequest<'_>) -> Result<Modified> {
        let ModifyRequest { filter, selector, change, options } = request;
        let projection = options.projection(selector)?;
        let order = Order::collated(options.sort, options.hint, selector.variables().collation())?;
        let search = DocumentSearch { selector, order: &order };
        // The projection runs before the commit: if it fails, nothing is written.
        let show = |bytes: &[u8]| Ok(self.shown(projected(bytes, projection.as_ref(), selector)?));
        let shown = Shown { image: options.image, show: &show };
        // An upserted document is returned as it will be stored, with its generated values. Only the insert knows these.
        let upserted = RefCell::new(None);
        let preview = |bytes: &[u8]| {
            *upserted.borrow_mut() = Some(show(bytes)?);
            Ok(())
        };
        // Before an upsert there is no document to show, so only `After` needs the bytes of the insert.
        let preview = (options.image == Image::After).then_some(&preview as Preview<'_>);
        let request = ChangeRequest {
            filter,
            change,
            options: ChangeOptions { preview, ..options.change_options() },
            operation: search.operation(),
            collation: selector.variables().collation(),
        };
        let done = self
            .write_change(request, |target, walk| update::update_one(target, search, walk, change, shown))?;
        // MongoDB's `updatedExisting` is false for an upsert, even if it returns a document.
        let is_found = matches!(done, Some(Upserted::Changed(_)));
        let (document, upserted_id) = match done {
            None => (None, None),
            Some(Upserted::Changed(matched)) => (matched.shown, None),
            // With `Before` the cell is empty, which is right: there was no document.
            Some(Upserted::Inserted(inserted)) => (upserted.take(), Some(inserted.id)),
        };
        Ok(Modified { is_found, document, upserted_id, was_replayed: false })
    }

    /// The document that a find-and-modify returns, which is kept if the command may be repeated.
    pub(super) fn shown(&self, document: RawDocumentBuf) -> RawDocumentBuf {
        if let Some(retryable) = &self.caller().retryable {
            retryable.show(&document);
        }
        if let Some(once) = &self.caller().once {
            once.show(&document);
        }
        document
    }

    pub(super) fn explain_find_and_change(
        &self,
        request: &ModifyRequest<'_>,
        depth: Depth,
    ) -> Result<Explained> {
        let ModifyRequest { filter, selector, change, options } = request;
        let projection = options.projection(selector)?;
        let order = Order::collated(options.sort, options.hint, selector.variables().collation())?;
        let search = DocumentSearch { selector, order: &order };
        // One document at most is changed, so the search may end at its first match.
        let write = ExplainedWrite { filter, search, options: options.change_options(), limit: Some(1) };
        let (explained, effect) = self.explain_change(write, change, depth)?;
        // The rows are the documents that the caller would get: an upsert returns one only after the change.
        let inserted = if options.image == Image::After { effect.upserted } else { 0 };
        let explained = explained.under("UPDATE", effect.matched + inserted, effect.to_document());
        Ok(under_projection(explained, projection.as_ref()))
    }
}

/// Adds the stage of the projection, if there is one.
pub(super) fn under_projection(explained: Explained, projection: Option<&Projection>) -> Explained {
    // An empty projection returns whole documents, so it is not a stage of the plan.
    if projection.is_none_or(Projection::is_empty) {
        return explained;
    }
    let rows = explained.rows();
    explained.under("PROJECTION_DEFAULT", rows, doc! {})
}

fn image(return_document: Option<ReturnDocument>) -> Image {
    match return_document {
        // The default of MongoDB's option `new` is false.
        None | Some(ReturnDocument::Before) => Image::Before,
        Some(ReturnDocument::After) => Image::After,
    }
}

/// The document that the caller gets.
pub(super) fn projected(
    bytes: &[u8],
    projection: Option<&Projection>,
    selector: &Selector,
) -> Result<RawDocumentBuf> {
    match projection {
        Some(projection) => Ok(projection.apply(RawDocument::from_bytes(bytes)?, selector.variables())?),
        // A copy: the bytes are the storage's, and are lent only until the write ends.
        None => Ok(RawDocumentBuf::from_bytes(bytes.to_vec())?),
    }
}
