//! The groups of a `$group`, in memory as far as they fit, and in temporary files.
//!
//! Keys are divided into parts by a hash. When memory is short, half of the parts that are in memory are moved out: the
//! states of their groups go to a run of their part, and later documents of the part follow them there. At the end each
//! run is read into a table of its own, which divides its keys by another hash if they do not fit either. A group is
//! always in one place, and its documents are added in their order, so what it gives does not depend on its way.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::vec::IntoIter;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};

use crate::expression::Variables;
use crate::operation::{Reservation, RunSink, RunSource, SpillFailure, TemporaryFile, TemporaryFiles};
use crate::pipeline::error::Fault;
use crate::pipeline::group::{Group, GroupStates};
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::stream::nothing;
use crate::raw::Malformed;
use crate::sort::spilling::SpillingSorter;
use crate::value::content_bytes;

/// The number of parts into which the keys of a table are divided.
const PARTS: usize = 16;
/// The limit of the depth of tables of parts. By then even equal parts would be a sixteen-millionth of all groups.
const LEVELS_MAX: u32 = 6;
/// So much memory of groups is given back at a time while their results are made.
const GIVEN_BYTES: usize = 64 << 10;
/// The memory that a table needs before it can move anything out.
const HEADROOM_BYTES: usize = 4 << 20;
/// From this size on, the copy of a group that is moved to a file counts as memory too.
const COPIED_BYTES_MIN: usize = 1 << 20;
/// The memory of a run while it is written.
const SINK_BYTES: usize = 64 << 10;

const STATE: u8 = 0;
const DOCUMENT: u8 = 1;
/// The kind of a record and the number of the document that it represents.
const RECORD_PREFIX: usize = 1 + size_of::<u64>();

/// A file gave back what was not written to it.
#[derive(Debug, thiserror::Error)]
#[error("a temporary file of a group is damaged")]
struct DamagedGroup;

/// The common state of all tables of a stage.
pub(super) struct Grouper {
    /// The name under which the stage was given, for errors: `$bucket` becomes a group as well.
    pub(super) stage: &'static str,
    pub(super) group: Group,
    pub(super) variables: Variables,
    hasher: RandomState,
    files: Option<Arc<dyn TemporaryFiles>>,
    /// The fields of documents that are moved to a file. Absent for all.
    needed: Option<Vec<String>>,
}

impl Grouper {
    pub(super) fn new(stage: &'static str, group: Group, variables: Variables) -> Self {
        let files = variables.operation().temporary_files();
        let mut paths = Vec::new();
        let needed = group.collect_fields(&mut paths).map(|()| {
            let first = paths.iter().filter_map(|path| path.components().next().map(str::to_owned));
            first.collect()
        });
        Self { stage, group, variables, hasher: RandomState::new(), files, needed }
    }

    /// The document without fields that the group does not read.
    fn trimmed(&self, document: &RawDocument) -> Result<Option<RawDocumentBuf>, Fault> {
        let Some(needed) = &self.needed else { return Ok(None) };
        let mut trimmed = RawDocumentBuf::new();
        // Expressions read no other fields, so they find what they would find in the whole document.
        for field in document {
            let (name, value) = field.map_err(Malformed::from)?;
            if needed.iter().any(|needed| needed == name.as_str()) {
                trimmed.append(name, value);
            }
        }
        Ok(Some(trimmed))
    }
}

/// One group: its key, and a state for each accumulator.
pub(super) struct Grouped {
    id: RawBson,
    states: GroupStates,
    /// The number of its first document. Groups come out in this order.
    number: u64,
    /// The bytes that are counted for it.
    bytes: usize,
}

impl Grouped {
    /// The group's document.
    pub(super) fn finish(self, grouper: &Grouper) -> Result<RawDocumentBuf, Fault> {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), self.id);
        self.states.finish(grouper.stage, grouper.group.fields(), document)
    }
}

/// A document, or the state of a group, with the encoded key of the group.
#[derive(Clone, Copy)]
struct Record<'a> {
    kind: u8,
    number: u64,
    key: &'a [u8],
    value: &'a [u8],
}

fn damaged() -> Fault {
    Fault::Spill(SpillFailure::new(DamagedGroup))
}

/// Groups by their keys.
pub(super) struct GroupTable {
    grouper: Arc<Grouper>,
    level: u32,
    /// Positions in `groups` by the encoded keys.
    positions: HashMap<Box<[u8]>, usize>,
    groups: Vec<Grouped>,
    memory: StageMemory,
    /// The parts below this number are in memory.
    resident: usize,
    /// The part that was moved out. Absent if that is nothing.
    file: Option<Box<dyn TemporaryFile>>,
    /// The runs of the parts in the file. Absent for those that nothing was moved to.
    sinks: Vec<Option<Box<dyn RunSink>>>,
    /// The memory for writing the runs.
    sink_room: Reservation,
    record: Vec<u8>,
}

impl GroupTable {
    /// A table whose keys are divided by the hash of a level.
    pub(super) fn new(grouper: Arc<Grouper>, level: u32) -> Self {
        let memory = StageMemory::new(grouper.stage, STAGE_BYTES_MAX, grouper.variables.operation());
        let sink_room = Reservation::of(grouper.variables.operation());
        let memory = if grouper.files.is_some() { memory.spilling() } else { memory };
        Self {
            grouper,
            level,
            positions: HashMap::new(),
            groups: Vec::new(),
            memory,
            resident: PARTS,
            file: None,
            sinks: Vec::new(),
            sink_room,
            record: Vec::new(),
        }
    }

    /// Adds the document of a number to the group with an encoded key.
    pub(super) fn add(&mut self, number: u64, key: &[u8], document: &RawDocument) -> Result<(), Fault> {
        if let Some(part) = self.moved_part(key) {
            let trimmed = self.grouper.trimmed(document)?;
            let value = trimmed.as_deref().unwrap_or(document).as_bytes();
            return self.write(part, Record { kind: DOCUMENT, number, key, value });
        }
        // All that it adds belongs to this group, and is given back with the group.
        let before = self.memory.bytes();
        let position = self.position(number, key, document)?;
        // The `else` is never reached: the position is that of a group.
        let Some(grouped) = self.groups.get_mut(position) else { return Ok(()) };
        let Grouper { group, variables, .. } = &*self.grouper;
        grouped.states.add(group.fields(), document, variables, &mut self.memory)?;
        grouped.bytes = (grouped.bytes + self.memory.bytes()).saturating_sub(before);
        self.make_room()
    }

    /// Whether all groups are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.sinks.is_empty()
    }

    /// Gives the groups that are in memory, in the order of their first documents.
    pub(super) fn into_groups(self) -> IntoIter<Grouped> {
        // The keys and their positions are dropped here. The groups are removed one by one, so their memory shrinks meanwhile.
        self.groups.into_iter()
    }

    /// Gives the documents of all groups to a sorter, by the numbers of their first documents.
    pub(super) fn finish(self, results: &mut SpillingSorter<RawDocumentBuf>) -> Result<(), Fault> {
        let Self { grouper, level, positions, groups, mut memory, sinks, sink_room: _sink_room, .. } = self;
        drop(positions);
        let mut given = 0;
        for grouped in groups {
            // The results use the memory of the groups while they are made.
            given += grouped.bytes;
            if given >= GIVEN_BYTES {
                memory.release(std::mem::take(&mut given));
            }
            let number = grouped.number.to_be_bytes();
            let document = grouped.finish(&grouper)?;
            results.push_after(&number, nothing(), || document)?;
        }
        // The next tables have this memory.
        drop(memory);
        for sink in sinks.into_iter().flatten() {
            let mut run = sink.finish().map_err(Fault::Spill)?;
            // Results are in memory as far as they may be, and the next table needs some of it in any case.
            let mut headroom = Reservation::of(grouper.variables.operation());
            if !headroom.try_grow_to(HEADROOM_BYTES) {
                results.make_room()?;
            }
            drop(headroom);
            let mut table = Self::new(Arc::clone(&grouper), level + 1);
            table.read(&mut *run)?;
            // Its file is gone before those that were made of it are read.
            drop(run);
            table.finish(results)?;
        }
        Ok(())
    }

    /// Adds what was moved to a file.
    fn read(&mut self, run: &mut dyn RunSource) -> Result<(), Fault> {
        let operation = self.grouper.variables.operation().clone();
        let _room = operation.reserve(run.memory_bytes())?;
        while run.advance().map_err(Fault::Spill)? {
            // Reading is work too, and there can be more of it than of documents.
            operation.pass(run.value().len())?;
            let record = Record::of(run).ok_or_else(damaged)?;
            let value = RawDocument::from_bytes(record.value).map_err(|_| damaged())?;
            match record.kind {
                STATE => self.restore(record, value)?,
                _ => self.add(record.number, record.key, value)?,
            }
        }
        Ok(())
    }

    /// The position of the group with an encoded key. A new group is created with the key of `document`.
    fn position(&mut self, number: u64, key: &[u8], document: &RawDocument) -> Result<usize, Fault> {
        if let Some(position) = self.positions.get(key) {
            return Ok(*position);
        }
        // The encoded key does not distinguish types that compare as equal, so the value is evaluated once more.
        let Grouper { group, variables, .. } = &*self.grouper;
        let id = group.id().evaluate(document, variables)?.unwrap_or(RawBson::Null);
        self.insert(number, key, id)
    }

    /// Inserts a group without documents.
    fn insert(&mut self, number: u64, key: &[u8], id: RawBson) -> Result<usize, Fault> {
        let frame = size_of::<Grouped>() + size_of::<(Box<[u8]>, usize)>();
        self.memory.grow(key.len() + content_bytes(id.as_raw_bson_ref()) + frame)?;
        // MongoDB lets `n` of an accumulator depend on the fields of the group's key, and on nothing else.
        let fields = id.as_document().unwrap_or_else(|| nothing());
        let Grouper { group, variables, .. } = &*self.grouper;
        let states = GroupStates::start_with(fields, group.fields(), variables, &mut self.memory)?;
        // The caller knows what the first document adds.
        self.groups.push(Grouped { id, states, number, bytes: 0 });
        self.positions.insert(key.into(), self.groups.len() - 1);
        Ok(self.groups.len() - 1)
    }

    /// Adds a group as it was when it was moved to a file. It comes before all documents of the group that follow it.
    fn restore(&mut self, record: Record<'_>, saved: &RawDocument) -> Result<(), Fault> {
        if let Some(part) = self.moved_part(record.key) {
            return self.write(part, record);
        }
        let before = self.memory.bytes();
        // An array is a document whose names are positions. The key of the group comes first, and its states follow.
        let mut values = saved.into_iter().map_while(Result::ok).map(|(_, value)| value);
        let id = values.next().ok_or_else(damaged)?;
        let position = self.insert(record.number, record.key, id.into())?;
        let Some(grouped) = self.groups.get_mut(position) else { return Ok(()) };
        grouped.states.restore(&mut values, &mut self.memory)?.ok_or_else(damaged)?;
        grouped.bytes = self.memory.bytes().saturating_sub(before);
        self.make_room()
    }

    /// The part of a key, if it is not in memory.
    #[inline]
    fn moved_part(&self, key: &[u8]) -> Option<usize> {
        // Most groups fit into memory, and then nothing is hashed twice.
        if self.resident == PARTS {
            return None;
        }
        Some(self.part(key)).filter(|part| *part >= self.resident)
    }

    fn part(&self, key: &[u8]) -> usize {
        // Keys of one part have hashes that differ in the next level.
        let hash = self.grouper.hasher.hash_one((self.level, key));
        usize::try_from(hash % PARTS as u64).unwrap_or_default()
    }

    /// Moves groups to files until what is left has its memory.
    fn make_room(&mut self) -> Result<(), Fault> {
        while self.memory.is_short() {
            self.move_half()?;
        }
        Ok(())
    }

    #[cold]
    fn move_half(&mut self) -> Result<(), Fault> {
        let (stage, limit) = (self.grouper.stage, self.memory.limit());
        // A file would not help: it is read into memory as a whole.
        if self.groups.len() <= 1 {
            return Err(Fault::GroupTooLarge { stage, limit });
        }
        if self.level == LEVELS_MAX {
            return Err(Fault::MemoryExceeded { stage, limit });
        }
        let operation = self.grouper.variables.operation().clone();
        operation.note_spill();
        self.sinks.resize_with(PARTS, || None);
        self.resident /= 2;
        let groups = std::mem::take(&mut self.groups);
        let mut keys: Vec<_> = std::mem::take(&mut self.positions).into_iter().collect();
        // In the order of the groups, so that those that stay keep it.
        keys.sort_unstable_by_key(|(_, position)| *position);
        let mut moved = 0;
        for (grouped, (key, _)) in groups.into_iter().zip(keys) {
            // A group that stays gets a new position, since those before it may be gone.
            if let Some(part) = self.moved_part(&key) {
                moved += grouped.bytes;
                self.write_group(part, &key, grouped)?;
            } else {
                self.positions.insert(key, self.groups.len());
                self.groups.push(grouped);
            }
        }
        // Without groups nothing is held, whatever they were counted with.
        self.memory.release(if self.groups.is_empty() { self.memory.bytes() } else { moved });
        // Only now: before, there may have been no memory left for it. If there still is none, more has to be moved.
        if !self.sink_room.try_grow_to(PARTS * SINK_BYTES) {
            if self.groups.len() <= 1 {
                self.sink_room.grow_to(PARTS * SINK_BYTES)?;
            } else {
                self.memory.lack();
            }
        }
        Ok(())
    }

    fn write_group(&mut self, part: usize, key: &[u8], grouped: Grouped) -> Result<(), Fault> {
        let Grouped { id, states, number, bytes } = grouped;
        // Large states are copied on their way. Of small ones the copy is not felt.
        let copied = if bytes < COPIED_BYTES_MIN { 0 } else { bytes };
        let _room = self.grouper.variables.operation().reserve(copied)?;
        let mut saved = RawArrayBuf::new();
        saved.push(id);
        states.save_into(&mut saved);
        self.write(part, Record { kind: STATE, number, key, value: saved.as_bytes() })
    }

    fn write(&mut self, part: usize, record: Record<'_>) -> Result<(), Fault> {
        let Self { grouper, file, sinks, record: bytes, .. } = self;
        grouper.variables.operation().pass(record.value.len())?;
        // One buffer for all keys. The number goes along, because the next table sees nothing but the record.
        bytes.clear();
        bytes.push(record.kind);
        bytes.extend_from_slice(&record.number.to_be_bytes());
        bytes.extend_from_slice(record.key);
        // Neither is ever absent: parts are moved only if there are files, and each has its place.
        let (Some(files), Some(sink)) = (&grouper.files, sinks.get_mut(part)) else { return Ok(()) };
        // A part that nothing is moved to has no run, and a table that needs no part no file.
        let file = match file {
            Some(file) => file,
            None => file.insert(files.create().map_err(Fault::Spill)?),
        };
        let sink = sink.get_or_insert_with(|| file.begin());
        sink.add(bytes, record.value).map_err(Fault::Spill)
    }
}

impl<'a> Record<'a> {
    /// The current record of a file. Returns `None` if it is none.
    fn of(run: &'a dyn RunSource) -> Option<Self> {
        let (prefix, key) = run.key().split_at_checked(RECORD_PREFIX)?;
        let (kind, number) = prefix.split_first()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        Some(Self { kind: *kind, number, key, value: run.value() })
    }
}
