//! Operations, chosen at random and printable.

use std::time::Duration;

use cairndb::bson::Document;
use cairndb::{Client, ClientBuilder, Compression, Durability};

use super::filter::Filter;
use super::numbering::Wishes;
use super::state::{Cap, Index};
use super::values;
use crate::choices::Choices;

/// The collections that all operations share.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// One step. `at` is the collection.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    InsertOne { at: &'static str, document: Document },
    InsertMany { at: &'static str, documents: Vec<Document>, ordered: bool },
    Replace { at: &'static str, filter: Filter, replacement: Document, upsert: bool },
    Delete { at: &'static str, filter: Filter, many: bool },
    Find { at: &'static str, filter: Filter, skip: usize, limit: usize },
    FindOne { at: &'static str, filter: Filter },
    Count { at: &'static str, filter: Filter },
    EstimatedCount { at: &'static str },
    CreateIndex { at: &'static str, index: Index },
    DropIndex { at: &'static str, name: String },
    DropIndexes { at: &'static str },
    CreateCollection { at: &'static str },
    CreateCapped { at: &'static str, cap: Cap },
    DropCollection { at: &'static str },
    Rename { at: &'static str, to: &'static str, drop_target: bool },
    CreateField { at: &'static str, path: &'static str, wishes: Wishes },
    AlterField { at: &'static str, path: &'static str, wishes: Wishes },
    DropField { at: &'static str, path: &'static str },
    Truncate { at: &'static str },
    OpenCursor { at: &'static str },
    DrainCursor,
    Flush,
    Sync,
    Verify,
    Backup,
    Reopen { ending: Ending, options: Options },
}

/// The way in which a client ends before the folder is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Close,
    Drop,
}

/// The way in which the folder is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    memory_budget: usize,
    compression: Compression,
    durability: Durability,
}

impl Options {
    pub(super) fn choose(choices: &mut Choices) -> Self {
        let interval = Duration::from_millis(1 + choices.below(100));
        let durability = match choices.below(4) {
            0 => Durability::Journaled,
            1 => Durability::Delayed {
                write_interval: interval / 2 + Duration::from_millis(1),
                sync_interval: interval,
            },
            _ => Durability::Buffered { sync_interval: interval },
        };
        Self {
            memory_budget: *choices.pick(&[8 << 20, 16 << 20, 64 << 20]),
            compression: *choices.pick(&[
                Compression::None,
                Compression::Lz4,
                Compression::Zstd,
                Compression::Lz4ThenZstd,
            ]),
            durability,
        }
    }

    pub(super) fn builder(self) -> ClientBuilder {
        let builder = Client::builder().memory_budget(self.memory_budget);
        // With a cache of records, with one that has no room, and with none.
        let builder = match self.memory_budget >> 20 {
            8 => builder.record_cache(256 << 10),
            16 => builder.record_cache(0),
            _ => builder,
        };
        builder.compression(self.compression).durability(self.durability)
    }
}

impl Operation {
    pub(super) fn choose(choices: &mut Choices) -> Self {
        // Most work happens in one collection, so that it fills.
        let at = if choices.one_in(4) { *choices.pick(&NAMES) } else { "a" };
        match choices.below(128) {
            0..=74 => Self::choose_on_documents(at, choices),
            75..=83 => Self::CreateIndex { at, index: values::index(choices) },
            84..=86 => Self::DropIndex { at, name: Self::choose_index_name(choices) },
            87 => Self::DropIndexes { at },
            88 | 89 => Self::CreateCollection { at },
            90 => Self::CreateCapped { at, cap: values::cap(choices) },
            91 => Self::DropCollection { at },
            92 | 93 => Self::Rename { at, to: choices.pick::<&str>(&NAMES), drop_target: choices.one_in(2) },
            94..=96 => Self::OpenCursor { at },
            97..=99 => Self::DrainCursor,
            100 | 101 => Self::Flush,
            102 | 103 => Self::Sync,
            104 => Self::Verify,
            105 if choices.one_in(4) => Self::Backup,
            106 | 107 => Self::Reopen {
                ending: if choices.one_in(2) { Ending::Drop } else { Ending::Close },
                options: Options::choose(choices),
            },
            108..=116 => Self::choose_on_fields(at, choices),
            _ => Self::InsertOne { at, document: values::document(choices) },
        }
    }

    fn choose_on_fields(at: &'static str, choices: &mut Choices) -> Self {
        let path = values::field(choices);
        match choices.below(16) {
            0..=6 => Self::CreateField { at, path, wishes: values::new_field(choices) },
            7..=12 => Self::AlterField { at, path, wishes: values::changed_field(choices) },
            13 => Self::DropField { at, path },
            _ => Self::Truncate { at },
        }
    }

    fn choose_on_documents(at: &'static str, choices: &mut Choices) -> Self {
        match choices.below(32) {
            0..=11 => Self::InsertOne { at, document: values::document(choices) },
            12..=15 => {
                let len = 1 + choices.index(12);
                let documents = (0..len).map(|_| values::document(choices)).collect();
                Self::InsertMany { at, documents, ordered: choices.one_in(2) }
            }
            16 | 17 => Self::Replace {
                at,
                filter: values::filter(choices),
                replacement: values::document(choices),
                upsert: true,
            },
            18..=20 => Self::Replace {
                at,
                filter: values::filter_or_expression(choices),
                replacement: values::document(choices),
                upsert: false,
            },
            21..=23 => Self::Delete { at, filter: values::filter_or_expression(choices), many: false },
            24 => {
                Self::Delete { at, filter: values::filter_or_expression(choices), many: !choices.one_in(4) }
            }
            25..=27 => Self::Find {
                at,
                filter: values::filter_or_expression(choices),
                skip: choices.index(4),
                limit: choices.index(6),
            },
            28 | 29 => Self::FindOne { at, filter: values::filter_or_expression(choices) },
            30 => Self::Count { at, filter: values::filter_or_expression(choices) },
            _ => Self::EstimatedCount { at },
        }
    }

    fn choose_index_name(choices: &mut Choices) -> String {
        match choices.below(8) {
            0 => "_id_".to_owned(),
            1 => "absent".to_owned(),
            _ => values::index(choices).name,
        }
    }
}
