//! What the verbs do, told instead of done. A read is run if it is to be run; a write only reads what it would write.

use bson::{Document, doc};

use crate::collection::update::Manner;
use crate::collection::{Collection, Terms};
use crate::error::Result;
use crate::execute::explain::{Depth, Explained};
use crate::execute::rows::Search;
use crate::options::Hint;
use crate::plan::order::check_hint;
use crate::results::number;
use crate::write::change::Change;
use crate::write::find::DocumentSearch;
use crate::write::{Target, upsert};

/// A write to documents that are there.
#[derive(Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) filter: &'a Document,
    pub(super) search: DocumentSearch<'a>,
    pub(super) manner: Manner<'a>,
    /// How many documents it is to at most.
    pub(super) limit: Option<u64>,
}

/// What a write would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Foretold {
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: u64,
}

impl<'a> Write<'a> {
    fn terms(&self) -> Terms<'a> {
        Terms { concern: self.manner.concern, operation: self.search.operation() }
    }

    fn search(&self) -> Search {
        let DocumentSearch { selector, order } = self.search;
        let search = Search::of(selector.clone());
        Search { order: order.clone(), limit: self.limit, ..search }
    }

    /// The search for the documents, on the target; `look` is shown each of them.
    fn explain(
        &self,
        target: Target<'_>,
        depth: Depth,
        look: impl FnMut(&bson::RawDocument) -> Result<()>,
    ) -> Result<Explained> {
        check_hint(self.manner.hint, target.indexes)?;
        let search = self.search();
        let view = target.view(&search.selector)?;
        let explained = Explained::of(self.filter, &search, &view)?.without_limit();
        explained.run(view, search, depth, look)
    }
}

impl<T> Collection<T> {
    /// A read.
    pub(super) fn explain_search(
        &self,
        (filter, hint): (&Document, Option<&Hint>),
        search: Search,
        depth: Depth,
    ) -> Result<Explained> {
        let selector = search.selector.clone();
        let explained = self.search(&selector, |view| {
            check_hint(hint, view.indexes())?;
            let explained = Explained::of(filter, &search, &view)?;
            explained.run(view, search, depth, |_| Ok(()))
        })?;
        Ok(explained.unwrap_or_else(|| Explained::without_reading(filter, "EOF", depth)))
    }

    /// The writing of a change, and what it would do. It is refused where the write would be, but for keys that are
    /// taken: these are known to the writer only.
    pub(super) fn explain_change(
        &self,
        write: Write<'_>,
        change: &Change<'_>,
        depth: Depth,
    ) -> Result<(Explained, Foretold)> {
        let Write { filter, search, manner, .. } = write;
        let is_upsert = manner.upsert == Some(true);
        if is_upsert {
            self.check_before_creation(|| {
                check_hint(manner.hint, &[])?;
                upsert::check(filter, change)
            })?;
        }
        let mut foretold = Foretold::default();
        let explained = self.write_existing(write.terms(), |target| {
            let explained = write.explain(target, depth, |document| {
                search.operation().look()?;
                foretold.matched += 1;
                foretold.modified += u64::from(change.alters(target, search.selector, document)?);
                Ok(())
            })?;
            if is_upsert && foretold.matched == 0 {
                upsert::check(filter, change)?;
            }
            Ok(explained)
        })?;
        foretold.upserted = u64::from(is_upsert && foretold.matched == 0);
        Ok((explained.unwrap_or_else(|| Explained::without_reading(filter, "EOF", depth)), foretold))
    }

    /// A delete.
    pub(super) fn explain_delete(&self, write: Write<'_>, depth: Depth) -> Result<Explained> {
        let explained =
            self.write_existing(write.terms(), |target| write.explain(target, depth, |_| Ok(())))?;
        Ok(explained.unwrap_or_else(|| Explained::without_reading(write.filter, "EOF", depth)))
    }
}

impl Foretold {
    /// What an update says of itself.
    pub(super) fn tell(self) -> Document {
        doc! {
            "nMatched": number(self.matched),
            "nWouldModify": number(self.modified),
            "nWouldUpsert": number(self.upserted),
        }
    }
}
