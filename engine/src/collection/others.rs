//! The collections and views that a pipeline reads besides its own collection, all at one moment.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base::codes::refused;
use base::error::Result;
use base::namespace::Namespace;
use bson::RawDocumentBuf;
use index::collation::Collation;
use query::code::Code;
use query::expression::Variables;
use query::operation::OperationContext;
use query::pipeline::Pipeline;
use store::Database;

use crate::catalog::collection::CollectionState;
use crate::catalog::names::Catalog;
use crate::catalog::views::ViewSet;
use crate::execute::foreign::{Derived, ForeignViews};
use crate::execute::read_view::{FoundCollection, ReadView};
use crate::transaction::{Open, names_changed};

/// The names that a pipeline reads besides its own.
pub(super) struct Others<'p> {
    names: Vec<&'p str>,
    /// For the pipelines of views: the clock and the operation of the pipeline, and none of its variables.
    variables: Variables,
}

/// The pipeline's own collection, if there is one, at the moment of the others.
pub(super) type Own<'a> = Option<(FoundCollection<'a>, ReadView)>;

impl<'p> Others<'p> {
    pub(super) fn of(pipeline: &'p Pipeline) -> Self {
        let variables = pipeline.variables();
        let own = Variables::new(variables.clock())
            .within(variables.operation().clone())
            .with_collation(variables.collation().clone());
        Self { names: pipeline.foreign_collections(), variables: own }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The pipeline's limits of time and memory.
    pub(super) fn operation(&self) -> &OperationContext {
        self.variables.operation()
    }

    /// The pipeline's comparison of strings.
    pub(super) fn collation(&self) -> &Collation {
        self.variables.collation()
    }

    /// Makes one snapshot of all names, and of the collection that `find_own` looks up.
    pub(super) fn take<'a>(
        &self,
        catalog: &Catalog,
        database: &Arc<Database>,
        db: &str,
        find_own: &dyn Fn() -> Result<Option<FoundCollection<'a>>>,
    ) -> Result<(Own<'a>, ForeignViews)> {
        self.refuse_names(db)?;
        let among = || catalog.views_among(db, self.names.iter().copied());
        let mut views = among();
        loop {
            let bases = self.bases(&views);
            let namespaces: Vec<Namespace> = bases.iter().map(|name| Namespace::new(db, *name)).collect();
            // The own collection comes first.
            let find = |position: usize| match position.checked_sub(1).and_then(|at| namespaces.get(at)) {
                None => find_own(),
                Some(namespace) => Ok(catalog.find(namespace).map(Cow::Owned)),
            };
            let mut taken = ReadView::take_together(database, namespaces.len() + 1, find)?.into_iter();
            let own = taken.next().flatten();
            let read =
                bases.iter().zip(taken).filter_map(|(name, taken)| Some(((*name).to_owned(), taken?.1)));
            let foreign = ForeignViews::new(read.collect(), self.derived(&views)?);
            // A view that was changed meanwhile could be read by its old definition on what its new one left. Looked at after
            // the snapshot: what is the same before and after it was the same at that moment.
            let now = among();
            if now.is_same(&views) {
                return Ok((own, foreign));
            }
            self.variables.operation().look()?;
            views = now;
        }
    }

    /// Reads all names, and the collection that `find_own` looks up, as a transaction reads them.
    pub(super) fn take_within<'a>(
        &self,
        catalog: &Catalog,
        open: &Open,
        db: &str,
        find_own: &dyn Fn() -> Result<Option<FoundCollection<'a>>>,
    ) -> Result<(Own<'a>, ForeignViews)> {
        self.refuse_names(db)?;
        let views = catalog.views_among(db, self.names.iter().copied());
        let bases = self.bases(&views);
        let snapshot = open.snapshot();
        let view = |found: &Arc<CollectionState>| {
            let view = ReadView::of_snapshot(Arc::clone(&snapshot), found);
            open.check(found)?;
            // A stage may read any of it.
            open.note_read(found, None).map(|()| view)
        };
        let own = find_own()?.map(|found| view(&found).map(|view| (found, view))).transpose()?;
        let mut read = HashMap::new();
        let mut has_all = own.is_some();
        for name in bases {
            let name_in_db = Namespace::new(db, name);
            if let Some(found) = open.made.find(&name_in_db).or_else(|| catalog.find(&name_in_db)) {
                read.insert(name.to_owned(), view(&found)?);
            } else {
                open.note_absent(&name_in_db)?;
                has_all = false;
            }
        }
        if !views.is_empty() {
            open.note_view()?;
        }
        // A collection that is absent now may have been there, and a view may have been another one.
        if !(has_all && views.is_empty() || catalog.names_are_as_of(open.sequence())) {
            return Err(names_changed());
        }
        Ok((own, ForeignViews::new(read, self.derived(&views)?)))
    }

    /// Rejects a name that is not allowed, before anything is read; also that of a system collection.
    fn refuse_names(&self, db: &str) -> Result<()> {
        self.names.iter().try_for_each(|name| Namespace::parse(db, name).map(|_| ()))
    }

    /// The collections that the names lead to. A set, because several views may be on one collection, which is read once.
    fn bases<'n>(&'n self, views: &'n ViewSet) -> BTreeSet<&'n str> {
        let own = self.names.iter().copied().filter(|name| !views.contains(name));
        own.chain(views.bases()).collect()
    }

    /// The pipelines of the views.
    fn derived(&self, views: &ViewSet) -> Result<HashMap<String, Derived>> {
        let mut derived = HashMap::new();
        for name in views.names() {
            // Each is parsed once for the whole pipeline, however often a stage reads it.
            let Some(resolved) = views.resolve(name)? else { continue };
            refuse_override(&self.variables, &resolved.collation)?;
            let stages = resolved.stages.iter().map(|stage| Ok(RawDocumentBuf::try_from(stage)?));
            let pipeline = Pipeline::parse(&stages.collect::<Result<Vec<_>>>()?, &self.variables)?;
            derived.insert(name.to_owned(), Derived::new(resolved.base, pipeline));
        }
        Ok(derived)
    }
}

/// Does not read a view, which compares texts by the collation that it was made with, by another one.
pub(super) fn refuse_override(variables: &Variables, of_view: &Collation) -> Result<()> {
    // As in MongoDB: the documents of a view do not depend on who reads it.
    if variables.collation() == of_view {
        return Ok(());
    }
    Err(refused(Code::OPTION_NOT_SUPPORTED_ON_VIEW, "Cannot override a view's default collation"))
}
