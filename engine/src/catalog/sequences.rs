//! Sequences in memory: who they are, the auto-increment fields that they number, and how they reach the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use sequence::acquirer::Acquirer;
use sequence::allocator::Sequence;
use sequence::auto_increment::Field;
use sequence::slot::Slot;
use sequence::store::Record;

use crate::catalog::sequence_entry::Identity;
use crate::document::complete::FieldTree;
use crate::error::Result;
use crate::storage::keys::CollectionId;

/// A sequence by name. A renamed one is another state with the same id.
pub(crate) struct SequenceState {
    pub(crate) identity: Identity,
    pub(crate) sequence: Arc<Sequence>,
}

/// Every sequence by database and name, internal ones too.
#[derive(Default)]
pub(crate) struct Sequences {
    by_name: RwLock<BTreeMap<(String, String), Arc<SequenceState>>>,
}

/// An auto-increment field of a collection, bound to its sequence.
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
    /// Positions in the list, ascending by sequence: the one order in which writers take turns.
    turns: Vec<usize>,
    /// The same for documents that are stored as they come; nothing if there are no fields.
    bypassed: Option<Arc<AutoFields>>,
}

/// A place for blocks: the shared acquirer's, or one of a handle's own.
pub(crate) enum SlotOf<'a> {
    Shared(&'a Slot),
    Own(Arc<Slot>),
}

impl SequenceState {
    /// A stored sequence.
    pub(crate) fn restore(identity: Identity, record: Record) -> Self {
        Self { identity, sequence: Arc::new(Sequence::restore(record)) }
    }

    /// The place for blocks that `acquirer` has here; without one the shared acquirer's.
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
        let by_name = self.by_name.read();
        let from = (db.to_owned(), String::new());
        by_name
            .range(from..)
            .take_while(|((own, _), _)| own == db)
            .map(|(_, state)| Arc::clone(state))
            .collect()
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

    /// Puts a renamed sequence in the place of the old one: no reader sees neither.
    pub(crate) fn exchange(&self, old: &Identity, renamed: &Arc<SequenceState>) {
        let mut by_name = self.by_name.write();
        by_name.remove(&(old.db.clone(), old.name.clone()));
        by_name.insert((old.db.clone(), renamed.identity.name.clone()), Arc::clone(renamed));
    }
}

impl AutoField {
    pub(crate) fn new(field: Field, state: Arc<SequenceState>) -> Self {
        Self { name: field.path().into(), is_outermost: !field.path().contains('.'), field, state }
    }
}

impl AutoFields {
    pub(crate) fn new(list: Vec<AutoField>) -> Self {
        let bypassed =
            list.iter().map(|field| AutoField { field: field.field.bypassed(), ..field.clone() }).collect();
        let bypassed = (!list.is_empty()).then(|| Arc::new(Self::of(bypassed)));
        Self { bypassed, ..Self::of(list) }
    }

    fn of(mut list: Vec<AutoField>) -> Self {
        list.sort_by(|a, b| a.field.path().cmp(b.field.path()));
        let tree = FieldTree::new(list.iter().map(|field| field.field.path()));
        let mut turns: Vec<usize> = (0..list.len()).collect();
        turns.sort_by_key(|position| list.get(*position).map(|field| field.state.identity.id));
        Self { list, tree, turns, bypassed: None }
    }

    /// The fields as documents meet them that are stored as they come: what these bring stays, whatever the modes are.
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

    /// The field, if there is only one, and that at the outermost level.
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

/// The name of the sequence behind an auto-increment field.
pub(crate) fn internal_name(owner: CollectionId, field: &str) -> String {
    format!("SYS_{owner}_{field}_SEQ")
}

/// Ends the use of the fields' sequences by `commit`, which removes them from the disk. The caller excludes writers; the
/// background may be about to write a reserve of one of them, which must not land behind the removal.
pub(crate) fn end_sequences(
    fields: &[AutoField],
    commit: Box<dyn FnOnce() -> Result<()> + '_>,
) -> Result<()> {
    match fields.split_first() {
        None => commit(),
        Some((first, rest)) => first.state.sequence.end(|| end_sequences(rest, commit)),
    }
}
