//! The write path. `insert` is the straight line that the others follow: prepare, extract, latch, refuse
//! duplicates, stage, commit. `numbered` goes in front of it for collections with auto-increment fields, `lacking` where
//! one document lacks the only one.

pub(crate) mod build;
pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod duplicate;
pub(crate) mod entries;
pub(crate) mod existing;
pub(crate) mod first;
pub(crate) mod insert;
pub(crate) mod lacking;
pub(crate) mod numbered;
pub(crate) mod numbering;
pub(crate) mod prepare;
pub(crate) mod update;
pub(crate) mod upsert;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use sequence::acquirer::Acquirer;

use crate::catalog::change::Storage;
use crate::catalog::collection::{Absence, CollectionState};
use crate::catalog::indexes::Index;
use crate::catalog::sequences::AutoFields;
use crate::error::Result;
use crate::execute::read_view::ReadView;
use crate::plan::selector::Selector;
use crate::storage::scan::last_key;
use crate::storage::snapshot::Snapshot;
use crate::storage::write::CommitLevel;
use crate::storage::{Database, Family, Store};

/// What a write works on. The collection's gate is held shared for as long as this lives.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a Arc<Database>,
    pub(crate) collection: &'a CollectionState,
    pub(crate) indexes: &'a [Index],
    pub(crate) fields: &'a AutoFields,
    /// Whose blocks values are taken from; the shared acquirer's if there is none.
    pub(crate) acquirer: Option<&'a Acquirer>,
    pub(crate) level: CommitLevel,
}

impl<'a> Target<'a> {
    fn storage(&self) -> Storage<'a> {
        Storage { store: self.store, database: self.database }
    }

    /// What a search by `selector` reads. Catalog and store cannot part, for the gate is held.
    pub(crate) fn view(&self, selector: &Selector) -> Result<ReadView> {
        ReadView::behind_gate(self.database, self.collection, selector)
    }

    /// Admits a latched record key and says whether it needs to be looked for.
    #[inline]
    fn admit(&self, record_key: &[u8]) -> Result<Absence> {
        self.collection.admission.admit(record_key, || {
            let id = self.collection.id;
            last_key(&Snapshot::take(self.database), Family::Records, &id.prefix(), id.end())
        })
    }

    #[inline]
    fn exists(&self, family: Family, key: &[u8]) -> Result<bool> {
        Ok(self.database.get(family, key)?.is_some())
    }
}
