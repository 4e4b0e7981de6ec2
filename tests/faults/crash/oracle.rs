//! The expected content of the database, from the journals of the processes that were killed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;

use cairndb::Client;
use cairndb::bson::{Bson, Document, doc};
use cairndb_tests::journal::Record;
use cairndb_tests::workload;

/// Everything that was acknowledged, and everything that was under way.
#[derive(Default)]
pub(crate) struct Oracle {
    /// The versions that a document may have; one, unless a write to it was under way. 0 is absent.
    versions: HashMap<u64, Vec<u64>>,
    /// Calls of `insert_many` that were under way: first tag and count.
    batches: HashSet<(u64, u64)>,
    /// The winner of a contended id.
    winners: HashMap<u64, u64>,
    /// Whether the plain index may be there, and whether it may be absent.
    plain_index: Vec<bool>,
    /// Acknowledgements seen.
    pub(crate) acknowledged: u64,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self { plain_index: vec![false], ..Self::default() }
    }

    /// Adds a record; an error if it alone is proof of a fault.
    pub(crate) fn hear(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Opened | Record::Closed => {}
            Record::Begun { tag, version } => {
                self.versions.entry(tag).or_insert_with(|| vec![0]).push(version);
            }
            Record::Done { tag, version } => {
                self.acknowledged += 1;
                self.versions.insert(tag, vec![version]);
            }
            Record::ManyBegun { first, count } => {
                self.batches.insert((first, count));
                for tag in first..first + count {
                    self.versions.insert(tag, vec![0, 1]);
                }
            }
            Record::ManyDone { first, count } => {
                self.acknowledged += 1;
                self.batches.remove(&(first, count));
                for tag in first..first + count {
                    self.versions.insert(tag, vec![1]);
                }
            }
            Record::Won { id, thread } => {
                self.acknowledged += 1;
                if let Some(other) = self.winners.insert(id, thread) {
                    return Err(format!("threads {other} and {thread} both won id {id}"));
                }
            }
            Record::IndexBegun { exists } => self.plain_index.push(exists),
            Record::IndexDone { exists } => {
                self.acknowledged += 1;
                self.plain_index = vec![exists];
            }
            Record::Taken { .. }
            | Record::PassBegun
            | Record::PassDone
            | Record::SyncBegun { .. }
            | Record::SyncDone { .. }
            | Record::Shown { .. } => {
                return Err(format!("{record:?} is no record of this suite"));
            }
            Record::Fault => return Err("the writing process met a fault".to_owned()),
        }
        Ok(())
    }

    /// Compares the database with what it must hold, and adopts what was decided for it.
    pub(crate) fn audit(&mut self, client: &Client) -> Result<(), String> {
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if !report.is_clean() {
            return Err(format!("verify found: {:?}", report.findings));
        }
        let tagged = workload::tagged(client);
        let stored = Self::read_tagged(&tagged.find(doc! {}).run().map_err(text)?.collect::<Vec<_>>())?;
        self.compare(&stored)?;
        let counted = tagged.estimated_document_count().run().map_err(text)?;
        if counted != stored.len() as u64 {
            return Err(format!("the counter says {counted}, there are {} documents", stored.len()));
        }
        self.audit_winners(client)?;
        self.audit_indexes(&tagged.list_index_names().run().map_err(text)?, stored.is_empty())?;
        self.versions = stored.into_iter().map(|(tag, version)| (tag, vec![version])).collect();
        self.batches.clear();
        Ok(())
    }

    fn read_tagged(found: &[cairndb::Result<Document>]) -> Result<HashMap<u64, u64>, String> {
        let mut stored = HashMap::new();
        let mut ids = BTreeSet::new();
        for document in found {
            let document = document.as_ref().map_err(|error| format!("{error:?}"))?;
            let (tag, version) = workload::recognize(document)?;
            if stored.insert(tag, version).is_some() {
                return Err(format!("tag {tag} is stored twice"));
            }
            if !ids.insert(document.get("_id").map(Bson::to_string)) {
                return Err(format!("the _id of tag {tag} is stored twice"));
            }
        }
        Ok(stored)
    }

    fn compare(&self, stored: &HashMap<u64, u64>) -> Result<(), String> {
        compare_versions(&self.versions, stored)?;
        for (first, count) in &self.batches {
            let there = (*first..first + count).filter(|tag| stored.contains_key(tag)).count() as u64;
            if there != 0 && there != *count {
                return Err(format!("{there} of {count} documents of one insert_many are there"));
            }
        }
        Ok(())
    }

    fn audit_winners(&self, client: &Client) -> Result<(), String> {
        let mut stored = HashMap::new();
        for document in workload::contended(client).find(doc! {}).run().map_err(text)? {
            let document = document.map_err(text)?;
            let number =
                |name| document.get_i64(name).map(i64::cast_unsigned).map_err(|error| error.to_string());
            if stored.insert(number("_id")?, number("thread")?).is_some() {
                return Err(format!("two documents have one _id: {document}"));
            }
        }
        let lost = self.winners.iter().find(|(id, thread)| stored.get(id) != Some(thread));
        lost.map_or(Ok(()), |(id, thread)| {
            Err(format!("thread {thread} won id {id}, stored is {:?}", stored.get(id)))
        })
    }

    fn audit_indexes(&mut self, names: &[String], is_empty: bool) -> Result<(), String> {
        let exists = names.iter().any(|name| name == workload::PLAIN_INDEX);
        if !self.plain_index.contains(&exists) {
            return Err(format!("the plain index exists: {exists}; acknowledged: {:?}", self.plain_index));
        }
        self.plain_index = vec![exists];
        if !is_empty && !names.iter().any(|name| name == workload::UNIQUE_INDEX) {
            return Err(format!("the unique index is gone: {names:?}"));
        }
        Ok(())
    }
}

/// Each stored version must be one of those that its document may have. 0 is absent.
pub(crate) fn compare_versions<V: Debug>(
    versions: &HashMap<u64, V>,
    stored: &HashMap<u64, u64>,
) -> Result<(), String>
where
    for<'v> &'v V: IntoIterator<Item = &'v u64>,
{
    for (tag, possible) in versions {
        let version = stored.get(tag).copied().unwrap_or(0);
        if !possible.into_iter().any(|one| *one == version) {
            return Err(format!("tag {tag} is version {version}, one of {possible:?} was acknowledged"));
        }
    }
    match stored.keys().find(|tag| !versions.contains_key(tag)) {
        Some(tag) => Err(format!("tag {tag} is stored, and was never written")),
        None => Ok(()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn text(error: cairndb::Error) -> String {
    format!("{error:?}")
}
