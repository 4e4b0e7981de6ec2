//! The objects that are carried from one side to the other, those that cannot be, and the reasons that keep a
//! migration from beginning. All of it is found by reading.

use std::collections::{HashMap, HashSet};

use cairndb::bson::doc;

use crate::command::raw;
use crate::dump::catalog::{Catalog, sequences};
use crate::failure::Failure;
use crate::listing::databases;
use crate::migrate::cluster::{Cluster, Topology, fits_shard_key, shard_key};
use crate::migrate::compare::conflicts;
use crate::migrate::counters::{COLLECTION, CountedField, Counter};
use crate::migrate::numbers::{self, Numbered};
use crate::migrate::options::{Arguments, Direction};
use crate::migrate::planned::Moved;
use crate::migrate::remark::{Level, Remark};
use crate::migrate::rule::Made;
use crate::migrate::state::State;
use crate::migrate::trial::Trial;
use crate::patterns::renamed;
use crate::restore::load::has_documents;
use crate::store::Store;

/// Both stores. A folder that is to be made is not there while it is planned for.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) source: &'a dyn Store,
    pub(super) target: Option<&'a dyn Store>,
}

/// The work of a migration.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Collections first, then views.
    pub(super) moved: Vec<Moved>,
    pub(super) counters: Vec<Counter>,
    pub(super) numbered: Vec<Numbered>,
    pub(super) remarks: Vec<Remark>,
    pub(super) cluster: Cluster,
}

impl Plan {
    pub(super) fn of(ends: Ends<'_>, arguments: &Arguments, state: &State) -> Result<Self, Failure> {
        let direction = arguments.direction();
        let cluster = match direction {
            Direction::ToCluster => ends.target.map(Cluster::ask).transpose()?.unwrap_or_default(),
            Direction::FromCluster => Cluster::ask(ends.source)?,
        };
        let mut plan = Self { cluster, ..Self::default() };
        let catalog = Catalog::read(ends.source, &arguments.namespaces)?;
        catalog.check_chosen(ends.source, &arguments.namespaces)?;
        for left_out in &catalog.left_out {
            // It begins with the namespace, which is the subject.
            let (subject, what) = left_out.split_once(": ").unwrap_or(("the source", left_out));
            plan.remarks.push(Remark::unsupported(subject, what));
        }
        let of_catalog = catalog.databases;
        for found in catalog.found {
            let mut moved = Moved::of(ends.source, found, &arguments.rename)?;
            match moved.planned.rename_what_it_reads(&moved.found.database, &arguments.rename)? {
                Ok(()) => plan.moved.push(moved),
                Err(reason) => plan.remarks.push(Remark::unsupported(&moved.planned.source, reason)),
            }
        }
        plan.moved.sort_by_key(Moved::is_view);
        match direction {
            Direction::ToCluster => {
                plan.judge_by_cluster(ends)?;
                plan.count(ends.source, arguments, &of_catalog)?;
            }
            Direction::FromCluster => {
                plan.judge_by_trial()?;
                plan.number(ends.source, arguments)?;
            }
        }
        if !state.is_new() {
            let advice = format!("it continues from {}", state.path().display());
            plan.remarks.push(Remark::note("the migration", "it was begun before", advice));
        }
        plan.check_names();
        if let Some(target) = ends.target {
            plan.check_target(target, state)?;
        }
        plan.note_what_stays(direction);
        plan.remarks.sort_by_key(|remark| remark.level);
        Ok(plan)
    }

    pub(super) fn collections(&self) -> impl Iterator<Item = &Moved> {
        self.moved.iter().filter(|moved| !moved.is_view())
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &Moved> {
        self.moved.iter().filter(|moved| moved.is_view())
    }

    /// The number of remarks of a level.
    pub(super) fn count_of(&self, level: Level) -> u64 {
        self.remarks.iter().filter(|remark| remark.level == level).count() as u64
    }

    /// The objects that the cluster's version and topology do not support.
    fn judge_by_cluster(&mut self, ends: Ends<'_>) -> Result<(), Failure> {
        if !self.cluster.is_writable {
            let advice = "give the URI of the primary, or of the whole replica set";
            self.remarks.push(Remark::blocker("the target", "it is not a writable primary", advice));
        }
        let is_sharded = self.cluster.topology == Topology::Sharded;
        for moved in self.moved.iter_mut().filter(|moved| !moved.is_view()) {
            if let Some(what) = moved.leave_order_out()? {
                self.remarks.push(Remark::unsupported(&moved.planned.source, what));
            }
            let indexes = moved.planned.metadata()?.indexes;
            let sharded_by = match ends.target.filter(|_| is_sharded) {
                Some(target) => shard_key(target, &moved.planned.database, &moved.planned.name)?,
                None => None,
            };
            let mut refused = HashSet::new();
            for index in &indexes {
                if index.contains_key("expireAfterSeconds") {
                    let name = index.get_str("name").unwrap_or_default();
                    let what = format!("the cluster removes documents by its index {name} as they expire");
                    let advice = "what expires before the comparison is a difference";
                    self.remarks.push(Remark::note(&moved.planned.source, what, advice));
                }
                let unfit = || sharded_by.as_ref().filter(|by| !fits_shard_key(index, by));
                let reason = self.cluster.lacks(index).map(str::to_owned);
                let reason = reason.or_else(|| {
                    let by: Vec<&str> = unfit()?.keys().map(String::as_str).collect();
                    Some(format!("a unique index must begin with the shard key {}", by.join(", ")))
                });
                if let Some(reason) = reason {
                    let name = index.get_str("name").unwrap_or_default();
                    let what = format!("index {name}: {reason}");
                    self.remarks.push(Remark::unsupported(&moved.planned.source, what));
                    refused.insert(name.to_owned());
                }
            }
            if !refused.is_empty() {
                moved
                    .retain(|index| !refused.contains(index.get_str("name").unwrap_or_default()), |_| true)?;
            }
        }
        Ok(())
    }

    /// The objects that this version of CairnDB does not support.
    fn judge_by_trial(&mut self) -> Result<(), Failure> {
        let trial = Trial::begin()?;
        let mut kept = Vec::new();
        for mut moved in std::mem::take(&mut self.moved) {
            if trial.judge(&mut moved, &mut self.remarks)? {
                kept.push(moved);
            }
        }
        self.moved = kept;
        Ok(())
    }

    /// Finds the sequences, which become counters.
    fn count(
        &mut self,
        source: &dyn Store,
        arguments: &Arguments,
        databases: &[String],
    ) -> Result<(), Failure> {
        let named = arguments.counters()?;
        let place = |database: &str| match named {
            Some((database, collection)) => (database.to_owned(), collection.to_owned()),
            None => (database.to_owned(), COLLECTION.to_owned()),
        };
        let mut counters = Vec::new();
        for moved in self.collections() {
            let Moved { found, planned, .. } = moved;
            for declared in found.numbered(source)? {
                let path = declared.get_str("Field").unwrap_or_default();
                let snapshot = declared.get_document("snapshot").cloned().unwrap_or_default();
                let (id, shown) =
                    (format!("{}.{path}", planned.name), format!("{}, field {path}", planned.source));
                let counter = Counter::of(place(&planned.database), id, shown, &snapshot);
                let mut counter = counter.of_field((&planned.database, &planned.name), &declared);
                let field =
                    CountedField { database: &found.database, collection: &found.name, declared: &declared };
                counter.pass_documents(source, &field)?;
                counters.push(counter);
            }
        }
        for (database, snapshots) in sequences(source, databases, &arguments.namespaces)? {
            for snapshot in snapshots {
                let name = snapshot.get_str("Name").unwrap_or_default();
                let (to, id) = renamed(&arguments.rename, &database, name)?;
                let shown = format!("{database}, sequence {name}");
                counters.push(Counter::of(place(&to), id, shown, &snapshot));
            }
        }
        self.judge_counters(&counters);
        self.counters = counters;
        Ok(())
    }

    fn judge_counters(&mut self, counters: &[Counter]) {
        let mut taken = HashMap::new();
        let mut places = HashSet::new();
        for counter in counters {
            let name = counter.name();
            if let Some(other) = taken.insert(name.clone(), &counter.shown) {
                let what = format!("it and {other} would both be the counter {name}");
                let advice = "migrate them one by one, each with --counters of its own";
                self.remarks.push(Remark::blocker(&counter.shown, what, advice));
            }
            places.insert((&counter.database, &counter.collection));
            let Some(last) = counter.last else {
                let what = "its first value has no integer before it, which its counter could have";
                self.remarks.push(Remark::unsupported(&counter.shown, what));
                continue;
            };
            let advice = format!("it becomes the counter {name}, at {last}, for cairndb-counters");
            self.remarks.push(Remark::note(&counter.shown, "MongoDB has no sequences", advice));
            let (what, advice) = match counter.contract.as_str() {
                "ordered" => (
                    "its contract ordered has no counterpart there",
                    "cairndb-counters rejects it: follow the cluster's change streams in its place",
                ),
                "gapless" if self.cluster.topology == Topology::Standalone => (
                    "its contract gapless needs transactions, which a standalone has not",
                    "use a replica set, or cairndb-counters rejects it",
                ),
                "gapless" => (
                    "its contract gapless needs a transaction for each insert there",
                    "one writer at a time, and several round trips each",
                ),
                _ => continue,
            };
            self.remarks.push(Remark::note(&counter.shown, what, advice));
        }
        let namespaces: HashSet<(&String, &String)> =
            self.moved.iter().map(|moved| (&moved.planned.database, &moved.planned.name)).collect();
        for (database, collection) in places.into_iter().filter(|place| namespaces.contains(place)) {
            let subject = format!("{database}.{collection}");
            let what = "it is a collection of the store, and would be that of the counters";
            self.remarks.push(Remark::blocker(&subject, what, "name another one by --counters"));
        }
    }

    /// Finds the counters that become fields and sequences.
    fn number(&mut self, source: &dyn Store, arguments: &Arguments) -> Result<(), Failure> {
        for rule in arguments.number.iter().chain(&arguments.sequence) {
            let (shown, counter) = (rule.made.shown(), rule.counter());
            let subject = format!("{shown}, of the counter {counter}");
            if let Made::Field { database, collection, .. } = &rule.made {
                let is_it =
                    |moved: &Moved| moved.found.database == *database && moved.found.name == *collection;
                if !self.collections().any(is_it) {
                    let advice = "name a collection as the cluster does, and one that is included";
                    self.remarks.push(Remark::blocker(&subject, "no such collection is copied", advice));
                    continue;
                }
            }
            match numbers::read(source, rule)? {
                Err(reason) => {
                    let advice = "correct the counter, or the option that names it";
                    self.remarks.push(Remark::blocker(&subject, reason, advice));
                }
                Ok(field) => {
                    let next = field.get_document("snapshot").map(|snapshot| {
                        let used = snapshot.get_i64("UsedUpTo").map(|used| format!("after {used}"));
                        used.unwrap_or_else(|_| "with its first value".to_owned())
                    });
                    let advice = format!("it continues {}", next.unwrap_or_default());
                    self.remarks.push(Remark::note(&subject, "it replaces the counter", advice));
                    self.numbered.push(Numbered::of(rule, field, &arguments.rename)?);
                }
            }
        }
        Ok(())
    }

    /// Two collections that would become one.
    fn check_names(&mut self) {
        let mut taken: HashMap<String, &str> = HashMap::new();
        let mut remarks = Vec::new();
        for moved in &self.moved {
            let Moved { planned, .. } = moved;
            if let Some(other) = taken.insert(planned.namespace(), &planned.source) {
                let what = format!("it and {other} would both be {}", planned.namespace());
                remarks.push(Remark::blocker(&planned.source, what, "change --rename"));
            }
        }
        self.remarks.extend(remarks);
    }

    /// The objects that exist already. What the state names was made by this migration.
    fn check_target(&mut self, target: &dyn Store, state: &State) -> Result<(), Failure> {
        let mut wanted: Vec<&str> = self.moved.iter().map(|moved| moved.planned.database.as_str()).collect();
        wanted.extend(self.counters.iter().map(|counter| counter.database.as_str()));
        wanted.sort_unstable();
        wanted.dedup();
        let there = databases(target)?;
        let mut remarks = Vec::new();
        let mut kinds = HashMap::new();
        for database in wanted {
            let other = |name: &&String| name.as_str() != database && name.eq_ignore_ascii_case(database);
            if let Some(other) = there.iter().find(other) {
                let what = format!("the target has a database {other}, whose name differs in case alone");
                remarks.push(Remark::blocker(database, what, "give another name by --rename"));
            }
            if there.iter().any(|name| name == database) {
                for (name, kind) in kinds_of(target, database)? {
                    kinds.insert((database.to_owned(), name), kind);
                }
            }
        }
        for moved in self.moved.iter().filter(|moved| !state.has(&moved.planned.namespace())) {
            if let Some(kind) = kinds.get(&moved.planned.key()) {
                check_one(target, moved, kind, &mut remarks)?;
            }
        }
        self.remarks.extend(remarks);
        Ok(())
    }

    /// The objects that are of another kind there, or are not moved, whatever is in the collections.
    fn note_what_stays(&mut self, direction: Direction) {
        let from_cairn = direction == Direction::FromCluster && self.cluster.has_sequences;
        if from_cairn {
            let what = "it is a store of CairnDB, whose sequences are not carried";
            let advice = "between two such stores use cairn dump and cairn restore";
            self.remarks.push(Remark::note("the source", what, advice));
        }
        let advice = "make them there, before applications log in";
        self.remarks.push(Remark::note("users and roles", "they are never moved", advice));
        let what = "values that are equal across types, such as 1 and 1.0, are one _id on both sides";
        self.remarks.push(Remark::note("_id", what, "nothing is to be done"));
    }
}

/// The collections and views of a database, with their types.
pub(super) fn kinds_of(store: &dyn Store, database: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut listed = store.stream(database, raw(&doc! { "listCollections": 1, "nameOnly": true })?)?;
    let mut found = Vec::new();
    while listed.advance()? {
        let one = listed.current();
        let (name, kind) =
            (one.get_str("name").unwrap_or_default(), one.get_str("type").unwrap_or("collection"));
        found.push((name.to_owned(), kind.to_owned()));
    }
    Ok(found)
}

fn check_one(
    target: &dyn Store,
    moved: &Moved,
    kind: &str,
    remarks: &mut Vec<Remark>,
) -> Result<(), Failure> {
    let planned = &moved.planned;
    let namespace = planned.namespace();
    let advice = "drop it there, give another name by --rename, or leave it out by --exclude";
    if moved.is_view() != (kind == "view") {
        let what = format!("the target has a {kind} of this name");
        remarks.push(Remark::blocker(&namespace, what, advice));
        return Ok(());
    }
    if !moved.is_view() && has_documents(target, &planned.database, &planned.name)? {
        remarks.push(Remark::blocker(&namespace, "it has documents in the target", advice));
        return Ok(());
    }
    // A missing part is created; an additional one would be a difference in the end.
    let conflicts = conflicts(target, moved)?;
    remarks.extend(conflicts.into_iter().map(|what| Remark::blocker("the target", what, advice)));
    Ok(())
}
