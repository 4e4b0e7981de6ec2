//! Sequences in memory: their names, and the auto-increment fields that they number.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::error::Result;
use base::sync::RwLock;
use sequence::acquirer::Acquirer;
use sequence::allocator::Sequence;
use sequence::auto_increment::Field;
use sequence::slot::Slot;
use sequence::store::Record;
use store::keys::CollectionId;

use crate::catalog::sequence_entry::Identity;
use crate::document::field_tree::FieldTree;

/// A sequence under a name. After a rename the sequence has another state with the same id.
pub(crate) struct SequenceState {
    pub(crate) identity: Identity,
    pub(crate) sequence: Arc<Sequence>,
}

/// Every sequence by database and name, also those of auto-increment fields.
#[derive(Default)]
pub(crate) struct Sequences {
    by_name: RwLock<BTreeMap<(String, String), Arc<SequenceState>>>,
}

/// An auto-increment field of a collection, with its sequence.
#[derive(Clone)]
pub(crate) struct AutoField {
    pub(crate) field: Field,
    pub(crate) name: Arc<str>,
    pub(crate) state: Arc<SequenceState>,
    is_outermost: bool,
}

/// The auto-increment fields of a collection, ascending by path.
#[derive(Clone, Default)]
pub(crate) struct AutoFields {
    list: Vec<AutoField>,
    tree: FieldTree,
    /// Positions in `list`, ascending by the id of the sequence: the one order in which writers take turns.
    turns: Vec<usize>,
    /// The fields for documents that are stored with the values that they have. `None` if there are no
    /// fields.
    bypassed: Option<Arc<AutoFields>>,
}

/// The slot for blocks of the shared acquirer, or of a handle's own one.
pub(crate) enum SlotOf<'a> {
    Shared(&'a Slot),
    Own(Arc<Slot>),
}

impl SequenceState {
    /// The state of a stored sequence.
    pub(crate) fn restore(identity: Identity, record: Record) -> Self {
        Self { identity, sequence: Arc::new(Sequence::restore(record)) }
    }

    /// The slot that `acquirer` has in this sequence. Without an acquirer it is the shared one.
    #[inline]
    pub(crate) fn slot<'a>(&'a self, acquirer: Option<&Acquirer>) -> SlotOf<'a> {
        match acquirer {
            None => SlotOf::Shared(self.sequence.shared()),
            Some(acquirer) => SlotOf::Own(acquirer.slot(self.identity.id.0, &self.sequence)),
        }
    }
}

impl std::ops::Deref for SlotOf<'_> {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        match self {
            Self::Shared(slot) => slot,
            Self::Own(slot) => slot,
        }
    }
}

impl Sequences {
    pub(crate) fn find(&self, db: &str, name: &str) -> Option<Arc<SequenceState>> {
        self.by_name.read().get(&(db.to_owned(), name.to_owned())).cloned()
    }

    /// The sequences of a database, ascending by name.
    pub(crate) fn of_database(&self, db: &str) -> Vec<Arc<SequenceState>> {
        // The databases are one after the other in this map, so one database is a range of it.
        let by_name = self.by_name.read();
        // The empty name is the lowest key of the database.
        let from = (db.to_owned(), String::new());
        by_name
            .range(from..)
            .take_while(|((own, _), _)| own == db)
            .map(|(_, state)| Arc::clone(state))
            .collect()
    }

    /// The databases that have a sequence.
    pub(crate) fn database_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.by_name.read().keys().map(|(db, _)| db.clone()).collect();
        names.dedup();
        names
    }

    pub(crate) fn all(&self) -> Vec<Arc<SequenceState>> {
        self.by_name.read().values().cloned().collect()
    }

    pub(crate) fn insert(&self, state: &Arc<SequenceState>) {
        let key = (state.identity.db.clone(), state.identity.name.clone());
        self.by_name.write().insert(key, Arc::clone(state));
    }

    pub(crate) fn remove(&self, identity: &Identity) {
        self.by_name.write().remove(&(identity.db.clone(), identity.name.clone()));
    }

    /// Replaces a sequence by the renamed one, in one step for readers: they find it by one of the two names.
    pub(crate) fn exchange(&self, old: &Identity, renamed: &Arc<SequenceState>) {
        let mut by_name = self.by_name.write();
        by_name.remove(&(old.db.clone(), old.name.clone()));
        by_name.insert((old.db.clone(), renamed.identity.name.clone()), Arc::clone(renamed));
    }
}

impl AutoField {
    pub(crate) fn new(field: Field, state: Arc<SequenceState>) -> Self {
        // The name is shared with every result that reports a generated value.
        Self { name: field.path().into(), is_outermost: !field.path().contains('.'), field, state }
    }
}

impl AutoFields {
    pub(crate) fn new(list: Vec<AutoField>) -> Self {
        // Made here, once for each change of the fields, and not for each document.
        let bypassed =
            list.iter().map(|field| AutoField { field: field.field.bypassed(), ..field.clone() }).collect();
        let bypassed = (!list.is_empty()).then(|| Arc::new(Self::of(bypassed)));
        Self { bypassed, ..Self::of(list) }
    }

    fn of(mut list: Vec<AutoField>) -> Self {
        list.sort_by(|a, b| a.field.path().cmp(b.field.path()));
        // The tree refers to fields by their positions in the sorted list.
        let tree = FieldTree::new(list.iter().map(|field| field.field.path()));
        let mut turns: Vec<usize> = (0..list.len()).collect();
        // By id: ids order the sequences of all collections, and paths only those of one.
        turns.sort_by_key(|position| list.get(*position).map(|field| field.state.identity.id));
        Self { list, tree, turns, bypassed: None }
    }

    /// The fields for documents that are stored with the values that they have: these stay, whatever the
    /// fields' modes are.
    pub(crate) fn bypassed(&self) -> &Self {
        self.bypassed.as_deref().unwrap_or(self)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, AutoField> {
        self.list.iter()
    }

    /// The field, if it is the only one and at the top level. An insert has a shorter way for it.
    #[inline]
    pub(crate) fn single(&self) -> Option<&AutoField> {
        match self.list.as_slice() {
            [only] if only.is_outermost => Some(only),
            _ => None,
        }
    }

    pub(crate) fn at(&self, position: usize) -> &AutoField {
        self.list.get(position).expect("positions of fields come from the same list")
    }

    pub(crate) fn tree(&self) -> &FieldTree {
        &self.tree
    }

    pub(crate) fn turns(&self) -> &[usize] {
        &self.turns
    }

    pub(crate) fn find(&self, path: &str) -> Option<&AutoField> {
        self.list.iter().find(|field| field.field.path() == path)
    }
}

/// The name of the sequence of an auto-increment field.
pub(crate) fn internal_name(owner: CollectionId, field: &str) -> String {
    format!("SYS_{owner}_{field}_SEQ")
}

/// Ends the use of the fields' sequences by `commit`, which removes them from the disk. The caller keeps
/// writers away, but the background may be about to write a reserve, which must not be written after the
/// removal.
pub(crate) fn end_sequences(
    fields: &[AutoField],
    commit: Box<dyn FnOnce() -> Result<()> + '_>,
) -> Result<()> {
    match fields.split_first() {
        // All sequences are held by now, one inside of the other, and none can write a reserve.
        None => commit(),
        Some((first, rest)) => first.state.sequence.end(|| end_sequences(rest, commit)),
    }
}
