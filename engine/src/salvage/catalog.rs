//! The collections and sequences that a damaged folder still knows, and the catalog of the new folder.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use base::error::{Error, ErrorKind, Result};
use base::namespace::Namespace;
use bson::{Bson, Document, RawDocument};
use index::key::LongKeys;
use sequence::attributes::Attributes;
use sequence::auto_increment::Field;
use sequence::state::{Mark, State};
use store::Family;
use store::format::{FORMAT_VERSION, FORMAT_VERSION_OLDEST, is_readable};
use store::keys::{
    CollectionId, META_COLLECTION, META_FORMAT, META_GAP, META_MARK, META_NEXT_ID, META_NEXT_SEQUENCE,
    META_SEQUENCE, META_TOKENS, SequenceId, split_sequence, tagged_id,
};
use store::salvage::Newest;
use store::write::Batch;

use crate::catalog::capped::Capped;
use crate::catalog::entry::{self, CollectionEntry, Entry, SortKeyRules, ViewEntry};
use crate::catalog::indexes::Index;
use crate::catalog::sequence_entry::{Identity, decode_definition, decode_gap, decode_mark, encode_mark};
use crate::salvage::report::SalvagedCollection;

/// The database of collections whose names are lost.
const MADE_UP_DATABASE: &str = "salvaged";

/// A collection of the new folder.
pub(super) struct FoundCollection {
    pub(super) namespace: Namespace,
    /// The entry as it was stored; `None` if it is lost.
    stored: Option<Document>,
    pub(super) indexes: Vec<Index>,
    pub(super) fields: Vec<NumberedField>,
    pub(super) capped: Option<Capped>,
    /// The form of long `_id`s in the keys of records. `None` as long as no key has shown it: the entry is lost.
    pub(super) long_keys: Option<LongKeys>,
    /// Whether a record has a shortened key.
    pub(super) has_shortened: bool,
    pub(super) report: SalvagedCollection,
}

/// An auto-increment field, and the lowest and highest value that documents have in it.
pub(super) struct NumberedField {
    pub(super) field: Field,
    sequence: SequenceId,
    pub(super) found: Option<(i64, i64)>,
}

struct FoundSequence {
    stored: Vec<u8>,
    identity: Identity,
    attributes: Attributes,
    version: i64,
}

/// A view, which is nothing but its entry.
struct FoundView {
    namespace: Namespace,
    stored: Vec<u8>,
}

/// The findings of the catalog.
#[derive(Default)]
pub(super) struct FoundCatalog {
    /// The damaged folder.
    path: PathBuf,
    pub(super) collections: BTreeMap<u32, FoundCollection>,
    /// Collections that were dropped: what is left of their documents is not to come back.
    pub(super) dropped: BTreeSet<u32>,
    views: BTreeMap<u32, FoundView>,
    sequences: BTreeMap<SequenceId, FoundSequence>,
    marks: BTreeMap<SequenceId, Mark>,
    gaps: Vec<(Vec<u8>, Vec<u8>)>,
    /// The begin of each generation of tokens.
    pub(super) generations: BTreeMap<u32, u64>,
    /// The highest ids that were met.
    highest_id: u32,
    highest_sequence: u64,
    pub(super) notes: Vec<String>,
}

impl FoundCatalog {
    /// The catalog of a folder, of which nothing was found yet.
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    /// Reads a key of family `meta`. What cannot be read is noted.
    pub(super) fn take(&mut self, found: &Newest<'_>) -> Result<()> {
        let tag = found.key.first().copied().unwrap_or_default();
        let number = split_sequence(found.key);
        let Some(value) = found.value else {
            // A deletion of a catalog entry is that of its collection.
            if let Some(id) = tagged_id(found.key).filter(|_| tag == META_COLLECTION) {
                self.meet(id);
                self.dropped.insert(id);
            }
            return Ok(());
        };
        match (tag, number) {
            _ if found.key == META_FORMAT => return check_format(&self.path, value),
            _ if found.key == META_NEXT_ID => {
                let next = value.try_into().map_or(0, u32::from_be_bytes);
                self.highest_id = self.highest_id.max(next.saturating_sub(1));
            }
            _ if found.key == META_NEXT_SEQUENCE => {
                let next = value.try_into().map_or(0, u64::from_be_bytes);
                self.highest_sequence = self.highest_sequence.max(next.saturating_sub(1));
            }
            (META_COLLECTION, _) => self.take_collection(found.key, value),
            (META_SEQUENCE, Some((id, []))) => self.take_sequence(id, value),
            (META_MARK, Some((id, []))) => match decode_mark(id, value) {
                Ok(mark) => drop(self.marks.insert(id, mark)),
                Err(error) => self.notes.push(error.to_string()),
            },
            (META_GAP, Some(_)) => self.gaps.push((found.key.to_vec(), value.to_vec())),
            (META_TOKENS, _) => {
                let began = <[u8; 8]>::try_from(value).ok().map(u64::from_be_bytes);
                self.generations.extend(tagged_id(found.key).zip(began));
            }
            // Counters are counted again, and builds of indexes begun again.
            _ => {}
        }
        if found.may_be_old && matches!(tag, META_COLLECTION | META_SEQUENCE | META_MARK) {
            self.notes.push("an entry of the catalog may be older than it was".to_owned());
            self.notes.dedup();
        }
        Ok(())
    }

    /// The collection of a record. One whose entry is lost gets a made-up name.
    pub(super) fn collection(&mut self, id: u32) -> &mut FoundCollection {
        self.meet(id);
        let taken = |name: &Namespace, all: &BTreeMap<u32, FoundCollection>| {
            all.values().any(|collection| collection.namespace == *name)
        };
        if !self.collections.contains_key(&id) {
            let mut namespace = Namespace::new(MADE_UP_DATABASE, format!("collection_{id}"));
            while taken(&namespace, &self.collections) {
                namespace.coll.push('_');
            }
            let report = SalvagedCollection { is_renamed: true, ..named(&namespace) };
            let unnamed = FoundCollection { report, ..FoundCollection::unnamed(namespace) };
            self.collections.insert(id, unnamed);
        }
        self.collections.get_mut(&id).expect("it is there or was just added")
    }

    /// The ids of the insertion orders of capped collections.
    pub(super) fn orders(&self) -> BTreeSet<u32> {
        let capped = self.collections.values().filter_map(|collection| collection.capped);
        capped.map(|capped| capped.order.0).collect()
    }

    /// Gives names that two collections have to the younger one: the other was dropped, or renamed, and is back.
    pub(super) fn separate_names(&mut self) {
        let mut taken = HashSet::new();
        for (id, collection) in self.collections.iter_mut().rev() {
            if taken.insert(collection.namespace.clone()) {
                continue;
            }
            let namespace = Namespace::new(MADE_UP_DATABASE, format!("collection_{id}"));
            self.notes.push(format!(
                "another collection is named {} too; this one is {namespace}",
                collection.namespace
            ));
            collection.report = SalvagedCollection { is_renamed: true, ..named(&namespace) };
            taken.insert(namespace.clone());
            collection.namespace = namespace;
        }
    }

    /// Puts the catalog into a batch: collections without their indexes, and sequences beyond every value that was found.
    /// Returns the number of sequences.
    pub(super) fn stage(&mut self, batch: &mut Batch<'_>) -> Result<u64> {
        let mut kept: BTreeMap<SequenceId, Option<(i64, i64)>> = BTreeMap::new();
        for (id, collection) in &mut self.collections {
            let owner = CollectionId(*id);
            let sequences = &self.sequences;
            let is_whole = |field: &NumberedField| {
                sequences.get(&field.sequence).is_some_and(|sequence| sequence.identity.owner == Some(owner))
            };
            for field in collection.fields.iter().filter(|field| !is_whole(field)) {
                let path = field.field.path();
                self.notes.push(format!(
                    "{}: the sequence of field {path} is lost, and it is not an auto-increment field any more",
                    collection.namespace
                ));
            }
            collection.fields.retain(is_whole);
            kept.extend(collection.fields.iter().map(|field| (field.sequence, field.found)));
            batch.put(Family::Meta, &owner.catalog_key(), &collection.entry()?);
        }
        self.stage_views(batch);
        // A sequence of a user has no field. Of two with one name the younger one is kept.
        let mut names = HashSet::new();
        for (id, sequence) in self.sequences.iter().rev() {
            let Identity { owner, db, name, .. } = &sequence.identity;
            if owner.is_none() && names.insert((db, name)) {
                kept.insert(*id, None);
            }
        }
        for (id, found) in &kept {
            let Some(sequence) = self.sequences.get(id) else { continue };
            let mark = self.mark(*id, sequence, *found);
            batch.put(Family::Meta, &id.definition_key(), &sequence.stored);
            batch.put(Family::Meta, &id.mark_key(), &encode_mark(&mark));
            self.stage_gaps(batch, *id, &mark);
        }
        let next_id = self.highest_id.saturating_add(1);
        batch.put(Family::Meta, META_NEXT_ID, &next_id.to_be_bytes());
        batch.put(Family::Meta, META_NEXT_SEQUENCE, &self.highest_sequence.saturating_add(1).to_be_bytes());
        let without_mark = kept.keys().filter(|id| !self.marks.contains_key(*id)).count();
        if without_mark > 0 {
            self.notes.push(format!(
                "the positions of {without_mark} sequences are lost: they continue after the values in documents"
            ));
        }
        Ok(kept.len() as u64)
    }

    /// Stages the views whose names no collection and no younger view has.
    fn stage_views(&mut self, batch: &mut Batch<'_>) {
        let mut taken: HashSet<Namespace> =
            self.collections.values().map(|collection| collection.namespace.clone()).collect();
        // The younger one of two with the same name, as for sequences. A collection has documents to lose, and comes first.
        for (id, view) in self.views.iter().rev() {
            if taken.insert(view.namespace.clone()) {
                batch.put(Family::Meta, &CollectionId(*id).catalog_key(), &view.stored);
            } else {
                self.notes.push(format!("the name of the view {} is in use; it is left out", view.namespace));
            }
        }
    }

    fn take_collection(&mut self, key: &[u8], value: &[u8]) {
        let Some(id) = tagged_id(key) else { return };
        self.meet(id);
        // The decoding validates the bytes, so they are a document then.
        // Entries of indexes are made again, so it does not matter by which rules these were made.
        let decoded = entry::decode_made_by(SortKeyRules::Any, CollectionId(id), value);
        let decoded = decoded.and_then(|entry| {
            let mut stored = Document::try_from(RawDocument::from_bytes(value)?)?;
            // The new folder has no log.
            entry::forget_log(&mut stored);
            Ok((entry, stored))
        });
        let (entry, stored) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return self.notes.push(error.to_string()),
        };
        let entry = match entry {
            Entry::Collection(entry) => entry,
            Entry::View(ViewEntry { namespace, .. }) => {
                self.views.insert(id, FoundView { namespace, stored: value.to_vec() });
                return;
            }
        };
        let CollectionEntry {
            namespace,
            indexes,
            fields,
            capped,
            record_keys,
            validation: _,
            collation: _,
            clustered: _,
            is_logged: _,
            keeps_images: _,
        } = entry;
        for index in &indexes {
            self.meet(index.id.0);
        }
        if let Some(Capped { order, .. }) = capped {
            self.meet(order.0);
        }
        let fields =
            fields.into_iter().map(|(field, sequence)| NumberedField { field, sequence, found: None });
        let (fields, report) = (fields.collect(), named(&namespace));
        let (long_keys, has_shortened) = (Some(record_keys.long_keys), false);
        let stored = Some(stored);
        let found =
            FoundCollection { namespace, stored, indexes, fields, capped, long_keys, has_shortened, report };
        self.collections.insert(id, found);
    }

    fn take_sequence(&mut self, id: SequenceId, value: &[u8]) {
        self.highest_sequence = self.highest_sequence.max(id.0);
        match decode_definition(id, value) {
            Ok((identity, attributes, version)) => {
                let stored = value.to_vec();
                self.sequences.insert(id, FoundSequence { stored, identity, attributes, version });
            }
            Err(error) => self.notes.push(error.to_string()),
        }
    }

    /// The mark of a sequence, moved beyond the values that documents have.
    fn mark(&self, id: SequenceId, sequence: &FoundSequence, found: Option<(i64, i64)>) -> Mark {
        let FoundSequence { attributes, version, .. } = sequence;
        let stored = self.marks.get(&id).copied().unwrap_or_else(|| Mark {
            // Gaps of the lost mark are numbered below this one.
            next_gap: self.gaps_of(id).map(|(number, _)| number + 1).max().unwrap_or(0),
            ..State::new(attributes.clone()).mark()
        });
        let Some((lowest, highest)) = found else { return stored };
        let state = State::restore(attributes.clone(), *version, &stored);
        // A sequence that starts again hands out values a second time by what it is.
        let beyond = if attributes.is_cycled() {
            return stored;
        } else if attributes.increment() > 0 {
            state.beyond(highest)
        } else {
            state.beyond(lowest)
        };
        if beyond == state {
            return stored;
        }
        let Mark { reservations, lost, next_gap, .. } = stored;
        Mark { reservations, lost, next_gap, ..beyond.mark() }
    }

    fn stage_gaps(&self, batch: &mut Batch<'_>, id: SequenceId, mark: &Mark) {
        for (number, (key, value)) in self.gaps_of(id) {
            if number < mark.next_gap && decode_gap(key, value).is_ok() {
                batch.put(Family::Meta, key, value);
            }
        }
    }

    /// The gaps of a sequence, with their numbers.
    fn gaps_of(&self, id: SequenceId) -> impl Iterator<Item = (u64, &(Vec<u8>, Vec<u8>))> {
        self.gaps.iter().filter_map(move |gap| {
            let (_, number) = split_sequence(&gap.0).filter(|(of, _)| *of == id)?;
            Some((number.try_into().map(u64::from_be_bytes).ok()?, gap))
        })
    }

    fn meet(&mut self, id: u32) {
        self.highest_id = self.highest_id.max(id);
    }
}

impl FoundCollection {
    /// A collection of which nothing is known but documents.
    fn unnamed(namespace: Namespace) -> Self {
        let report = named(&namespace);
        Self {
            namespace,
            stored: None,
            indexes: Vec::new(),
            fields: Vec::new(),
            capped: None,
            long_keys: None,
            has_shortened: false,
            report,
        }
    }

    /// The stored form without indexes, which are built again.
    fn entry(&self) -> Result<Vec<u8>> {
        let mut stored = self.stored.clone().unwrap_or_default();
        let kept = |field: &Bson| {
            let path = field.as_document().and_then(|field| field.get_str("field").ok());
            self.fields.iter().any(|kept| Some(kept.field.path()) == path)
        };
        let fields = stored
            .get_array("autoIncrement")
            .map(|fields| fields.iter().filter(|field| kept(field)).cloned());
        let fields: Vec<Bson> = fields.map(Iterator::collect).unwrap_or_default();
        stored.insert("db", &self.namespace.db);
        stored.insert("name", &self.namespace.coll);
        stored.insert(entry::indexes_field(&stored), Vec::<Bson>::new());
        entry::renew_rules(&mut stored);
        // Without a key that shows it the collection is as a new one.
        let long_keys = self.long_keys.unwrap_or(LongKeys::Shortened);
        entry::note_keys(&mut stored, long_keys, self.has_shortened);
        stored.insert("autoIncrement", fields);
        Ok(stored.to_vec()?)
    }
}

fn named(namespace: &Namespace) -> SalvagedCollection {
    SalvagedCollection { namespace: namespace.to_string(), ..SalvagedCollection::default() }
}

/// Rejects a format that is not known: its keys could mean anything.
fn check_format(path: &Path, value: &[u8]) -> Result<()> {
    match value.try_into().map(u32::from_be_bytes) {
        Ok(version) if !is_readable(version) => {
            let found = version.to_string();
            let path = path.to_owned();
            Err(Error::new(ErrorKind::UnsupportedFormat {
                path,
                found,
                oldest: FORMAT_VERSION_OLDEST,
                supported: FORMAT_VERSION,
            }))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
