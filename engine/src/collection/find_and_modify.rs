//! `find_one_and_update`, `find_one_and_replace` and `find_one_and_delete`: one document, changed and given in one step.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::time::Duration;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use query::code::Code;
use query::projection::Projection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codes::refused;
use crate::collection::explain::Write;
use crate::collection::find::parse_projection;
use crate::collection::update::Manner;
use crate::collection::{Collection, Terms};
use crate::document::decode::decode_owned;
use crate::error::{Error, Result};
use crate::execute::explain::{Depth, Explained};
use crate::options::{
    Collation, FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, Hint,
    ReturnDocument, UpdateModifications, WriteConcern,
};
use crate::plan::order::{Order, check_collation, check_hint};
use crate::plan::selector::Selector;
use crate::results::number;
use crate::write::change::Change;
use crate::write::delete;
use crate::write::find::DocumentSearch;
use crate::write::update::{self, Image, Shown};
use crate::write::upsert::Upserted;
use crate::write::{Preview, Target};

impl<T> Collection<T> {
    /// Changes the first document that matches and gives it as it was, or as it is with
    /// `return_document(ReturnDocument::After)`. Nobody else writes the document in between, so of many threads that
    /// count up a number each gets one of its own.
    ///
    /// ```
    /// # use cairndb::{Client, ReturnDocument, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let counters = client.database("shop").collection::<Document>("counters");
    /// let next = || {
    ///     counters
    ///         .find_one_and_update(doc! { "_id": "orders" }, doc! { "$inc": { "last": 1 } })
    ///         .upsert(true)
    ///         .return_document(ReturnDocument::After)
    ///         .run()
    /// };
    /// assert_eq!(next()?, Some(doc! { "_id": "orders", "last": 1 }));
    /// assert_eq!(next()?, Some(doc! { "_id": "orders", "last": 2 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_one_and_update(
        &self,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> FindOneAndUpdate<'_, T> {
        let options = FindOneAndUpdateOptions::default();
        FindOneAndUpdate { collection: self, filter, update: update.into(), options }
    }

    /// Replaces the first document that matches and gives it as it was, or as it is with
    /// `return_document(ReturnDocument::After)`.
    pub fn find_one_and_replace<D: Borrow<T>>(
        &self,
        filter: Document,
        replacement: D,
    ) -> FindOneAndReplace<'_, T, D> {
        let options = FindOneAndReplaceOptions::default();
        FindOneAndReplace { collection: self, filter, replacement, options }
    }

    /// Removes the first document that matches and gives it.
    pub fn find_one_and_delete(&self, filter: Document) -> FindOneAndDelete<'_, T> {
        FindOneAndDelete { collection: self, filter, options: FindOneAndDeleteOptions::default() }
    }
}

/// A `find_one_and_update` that is done by [`run`](Self::run).
#[must_use = "the update is done by run()"]
pub struct FindOneAndUpdate<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    update: UpdateModifications,
    options: FindOneAndUpdateOptions,
}

/// A `find_one_and_replace` that is done by [`run`](Self::run).
#[must_use = "the replacement is done by run()"]
pub struct FindOneAndReplace<'a, T, D> {
    collection: &'a Collection<T>,
    filter: Document,
    replacement: D,
    options: FindOneAndReplaceOptions,
}

/// A `find_one_and_delete` that is done by [`run`](Self::run).
#[must_use = "the delete is done by run()"]
pub struct FindOneAndDelete<'a, T> {
    collection: &'a Collection<T>,
    filter: Document,
    options: FindOneAndDeleteOptions,
}

setters!(FindOneAndUpdate<'a, T>, FindOneAndUpdateOptions, {
    /// Which elements `$[name]` stands for.
    array_filters: Vec<Document>,
    /// Accepted: there are no validators yet that it could bypass.
    bypass_document_validation: bool,
    /// Give up with code 50 after this long, unless the document is being written by then.
    max_time: Duration,
    /// Which fields are shown, and which are computed.
    projection: Document,
    /// The document as it was before, the default, or as it is afterwards.
    return_document: ReturnDocument,
    /// Which of several matching documents comes first.
    sort: Document,
    /// Insert a document when nothing matches.
    upsert: bool,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Kept with the operation for tracing.
    comment: Bson,
});

setters!(FindOneAndReplace<'a, T, D>, FindOneAndReplaceOptions, {
    /// Accepted: there are no validators yet that it could bypass.
    bypass_document_validation: bool,
    /// Give up with code 50 after this long, unless the document is being written by then.
    max_time: Duration,
    /// Which fields are shown, and which are computed.
    projection: Document,
    /// The document as it was before, the default, or as it is afterwards.
    return_document: ReturnDocument,
    /// Which of several matching documents comes first.
    sort: Document,
    /// Insert a document when nothing matches.
    upsert: bool,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Kept with the operation for tracing.
    comment: Bson,
});

setters!(FindOneAndDelete<'a, T>, FindOneAndDeleteOptions, {
    /// Give up with code 50 after this long, unless the document is being written by then.
    max_time: Duration,
    /// Which fields are shown, and which are computed.
    projection: Document,
    /// Which of several matching documents comes first.
    sort: Document,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T: DeserializeOwned + 'static> FindOneAndUpdate<'_, T> {
    /// Changes the document.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.modify().map_err(Error::into_command)?;
        found.document.map(decode_owned).transpose()
    }
}

impl<T> FindOneAndUpdate<'_, T> {
    /// What was found and changed, undecoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let (selector, change) = self.prepare()?;
        let shape = Shape::of_update(&self.options);
        self.collection.find_and_change((&self.filter, &selector), &change, &shape)
    }

    /// What `run` does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let (selector, change) = self.prepare()?;
        let shape = Shape::of_update(&self.options);
        self.collection.explain_find_and_change((&self.filter, &selector), &change, &shape, depth)
    }

    fn prepare(&self) -> Result<(Selector, Change<'static>)> {
        let FindOneAndUpdateOptions { array_filters, let_vars, .. } = &self.options;
        let selector =
            Selector::parse(&self.filter, let_vars.as_ref(), self.collection.begin(self.options.max_time))?;
        let change = Change::of_update(&self.update, array_filters.as_deref(), selector.variables())?;
        Ok((selector, change))
    }
}

impl<T: Serialize + DeserializeOwned + 'static, D: Borrow<T>> FindOneAndReplace<'_, T, D> {
    /// Replaces the document.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.modify().map_err(Error::into_command)?;
        found.document.map(decode_owned).transpose()
    }
}

impl<T: Serialize, D: Borrow<T>> FindOneAndReplace<'_, T, D> {
    /// What was found and replaced, undecoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let bytes = bson::serialize_to_vec(self.replacement.borrow())?;
        let change = Change::of_replacement(&bytes)?;
        let shape = Shape::of_replacement(&self.options);
        let operation = self.collection.begin(self.options.max_time);
        let selector = Selector::parse(&self.filter, self.options.let_vars.as_ref(), operation)?;
        self.collection.find_and_change((&self.filter, &selector), &change, &shape)
    }

    /// What `run` does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let bytes = bson::serialize_to_vec(self.replacement.borrow())?;
        let change = Change::of_replacement(&bytes)?;
        let shape = Shape::of_replacement(&self.options);
        let operation = self.collection.begin(self.options.max_time);
        let selector = Selector::parse(&self.filter, self.options.let_vars.as_ref(), operation)?;
        self.collection.explain_find_and_change((&self.filter, &selector), &change, &shape, depth)
    }
}

impl<T: DeserializeOwned + 'static> FindOneAndDelete<'_, T> {
    /// Removes the document.
    pub fn run(self) -> Result<Option<T>> {
        let found = self.modify().map_err(Error::into_command)?;
        found.document.map(decode_owned).transpose()
    }
}

impl<T> FindOneAndDelete<'_, T> {
    /// What was found and removed, undecoded.
    pub(crate) fn modify(self) -> Result<Modified> {
        let options = &self.options;
        let (prepared, projection) = self.prepare()?;
        let search = DocumentSearch { selector: &prepared.0, order: &prepared.1 };
        let terms = Terms { concern: options.write_concern.as_ref(), operation: search.operation() };
        let deleted = self.collection.write_existing(terms, |target| {
            check_hint(options.hint.as_ref(), target.indexes)?;
            delete::delete_one(target, search, |bytes| shown(bytes, projection.as_ref(), search.selector))
        })?;
        let document = deleted.flatten();
        Ok(Modified { is_found: document.is_some(), document, upserted_id: None })
    }

    /// What `run` does.
    pub(crate) fn explain(self, depth: Depth) -> Result<Explained> {
        let options = &self.options;
        let ((selector, order), projection) = self.prepare()?;
        let search = DocumentSearch { selector: &selector, order: &order };
        let (hint, concern) = (options.hint.as_ref(), options.write_concern.as_ref());
        let manner = Manner { upsert: None, hint, concern, preview: None };
        let write = Write { filter: &self.filter, search, manner, limit: Some(1) };
        let explained = self.collection.explain_delete(write, depth)?;
        let rows = explained.rows();
        let explained = explained.under("DELETE", rows, doc! { "nWouldDelete": number(rows) });
        Ok(projected(explained, projection.as_ref()))
    }

    fn prepare(&self) -> Result<((Selector, Order), Option<Projection>)> {
        let options = &self.options;
        check_collation(options.collation.as_ref())?;
        let operation = self.collection.begin(options.max_time);
        let selector = Selector::parse(&self.filter, options.let_vars.as_ref(), operation)?;
        let projection = parse_projection(options.projection.as_ref(), &selector)?;
        let order = Order::of(options.sort.as_ref(), options.hint.as_ref())?;
        Ok(((selector, order), projection))
    }
}

/// What a find-and-modify did.
pub(crate) struct Modified {
    /// A document matched.
    pub(crate) is_found: bool,
    /// What is shown of the state that was asked for.
    pub(crate) document: Option<RawDocumentBuf>,
    /// The `_id` of the document that was inserted.
    pub(crate) upserted_id: Option<Bson>,
}

/// What is asked beside the filter and the change.
struct Shape<'a> {
    upsert: Option<bool>,
    projection: Option<&'a Document>,
    image: Image,
    sort: Option<&'a Document>,
    hint: Option<&'a Hint>,
    collation: Option<&'a Collation>,
    write_concern: Option<&'a WriteConcern>,
}

impl<'a> Shape<'a> {
    fn manner(&self) -> Manner<'a> {
        Manner { upsert: self.upsert, hint: self.hint, concern: self.write_concern, preview: None }
    }

    /// What is shown, unless it cannot be: after a change the element that made the document match may be gone.
    fn projection(&self, selector: &Selector) -> Result<Option<Projection>> {
        let projection = parse_projection(self.projection, selector)?;
        if self.image == Image::After && projection.as_ref().is_some_and(Projection::is_positional) {
            return Err(refused(
                Code::BAD_VALUE,
                "cannot use a positional projection and return the new document",
            ));
        }
        Ok(projection)
    }

    fn of_update(options: &'a FindOneAndUpdateOptions) -> Self {
        Self {
            upsert: options.upsert,
            projection: options.projection.as_ref(),
            image: image(options.return_document),
            sort: options.sort.as_ref(),
            hint: options.hint.as_ref(),
            collation: options.collation.as_ref(),
            write_concern: options.write_concern.as_ref(),
        }
    }

    fn of_replacement(options: &'a FindOneAndReplaceOptions) -> Self {
        Self {
            upsert: options.upsert,
            projection: options.projection.as_ref(),
            image: image(options.return_document),
            sort: options.sort.as_ref(),
            hint: options.hint.as_ref(),
            collation: options.collation.as_ref(),
            write_concern: options.write_concern.as_ref(),
        }
    }
}

impl<T> Collection<T> {
    fn find_and_change(
        &self,
        (filter, selector): (&Document, &Selector),
        change: &Change<'_>,
        shape: &Shape<'_>,
    ) -> Result<Modified> {
        check_collation(shape.collation)?;
        let projection = shape.projection(selector)?;
        let order = Order::of(shape.sort, shape.hint)?;
        let search = DocumentSearch { selector, order: &order };
        let show = |bytes: &[u8]| shown(bytes, projection.as_ref(), selector);
        let shown = Shown { image: shape.image, show: &show };
        let look = |target: Target<'_>| update::update_one(target, search, change, shown);
        // An upsert's document is shown as it will be stored, with what was generated for it.
        let upserted = RefCell::new(None);
        let preview = |bytes: &[u8]| {
            *upserted.borrow_mut() = Some(show(bytes)?);
            Ok(())
        };
        let preview = (shape.image == Image::After).then_some(&preview as Preview<'_>);
        let manner = Manner { preview, ..shape.manner() };
        let done = self.write_change((filter, change), (manner, search.operation()), look)?;
        let is_found = matches!(done, Some(Upserted::Changed(_)));
        let (document, upserted_id) = match done {
            None => (None, None),
            Some(Upserted::Changed(matched)) => (matched.shown, None),
            Some(Upserted::Inserted(inserted)) => (upserted.take(), Some(inserted.id)),
        };
        Ok(Modified { is_found, document, upserted_id })
    }

    fn explain_find_and_change(
        &self,
        (filter, selector): (&Document, &Selector),
        change: &Change<'_>,
        shape: &Shape<'_>,
        depth: Depth,
    ) -> Result<Explained> {
        check_collation(shape.collation)?;
        let projection = shape.projection(selector)?;
        let order = Order::of(shape.sort, shape.hint)?;
        let search = DocumentSearch { selector, order: &order };
        let write = Write { filter, search, manner: shape.manner(), limit: Some(1) };
        let (explained, foretold) = self.explain_change(write, change, depth)?;
        let inserted = if shape.image == Image::After { foretold.upserted } else { 0 };
        let explained = explained.under("UPDATE", foretold.matched + inserted, foretold.tell());
        Ok(projected(explained, projection.as_ref()))
    }
}

/// Under what shows the document, if it is not shown as it is.
fn projected(explained: Explained, projection: Option<&Projection>) -> Explained {
    if projection.is_none_or(Projection::is_empty) {
        return explained;
    }
    let rows = explained.rows();
    explained.under("PROJECTION_DEFAULT", rows, doc! {})
}

fn image(return_document: Option<ReturnDocument>) -> Image {
    match return_document {
        None | Some(ReturnDocument::Before) => Image::Before,
        Some(ReturnDocument::After) => Image::After,
    }
}

fn shown(bytes: &[u8], projection: Option<&Projection>, selector: &Selector) -> Result<RawDocumentBuf> {
    match projection {
        Some(projection) => Ok(projection.apply(RawDocument::from_bytes(bytes)?, selector.variables())?),
        None => Ok(RawDocumentBuf::from_bytes(bytes.to_vec())?),
    }
}
