//! The parts of a dump that are restored, and their names. All of it is decided before the store is opened.

use std::collections::HashSet;

use cairndb::bson::Document;
use formats::dump::metadata::Metadata;

use crate::dumped::DumpedKind;
use crate::failure::{Exit, Failure};
use crate::patterns::{Rename, renamed_collection};
use crate::restore::options::Arguments;
use crate::restore::reading::Reading;

/// The collection of users.
const USERS: &str = "admin.system.users";

/// A collection or view as a dump has it.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) database: String,
    pub(crate) name: String,
    /// The text of its metadata. A dump of files may lack it.
    pub(crate) metadata: Option<String>,
    /// Its place, as errors name it.
    pub(crate) place: String,
    /// Its flaw, if it has one.
    pub(crate) problem: Option<Problem>,
}

/// The flaw of a collection of a dump. None of it matters if the collection is not meant.
#[derive(Debug)]
pub(crate) enum Problem {
    /// It cannot be restored, and the others can.
    LeftOut(String),
    /// It has definitions and no documents.
    WithoutDocuments(String),
    /// The dump is damaged, or not what it was.
    Refused(String),
}

/// The treatment of an object of a dump.
#[derive(Debug)]
pub(crate) struct Planned {
    /// As the dump names it.
    pub(crate) source: String,
    pub(crate) database: String,
    pub(crate) name: String,
    pub(crate) kind: DumpedKind,
    metadata: Option<String>,
    /// The part that the end of an archive's collection carries, which is newer than its metadata.
    pub(crate) numbered: Option<Vec<Document>>,
    /// The options of a view that reads what has another name now.
    view: Option<Document>,
    /// The collection that is filled, and replaces the one that is there in the end.
    pub(crate) aside: Option<String>,
}

/// The objects that are restored.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// By the positions in the dump. `None` is passed over.
    pub(crate) planned: Vec<Option<Planned>>,
    /// The objects that cannot be restored, each with the reason.
    pub(crate) left_out: Vec<String>,
    /// The first of those whose names are wrong.
    wrong: Option<String>,
}

impl Plan {
    pub(crate) fn new(described: Vec<Described>, arguments: &Arguments) -> Result<Self, Failure> {
        let mut plan = Self::default();
        let mut taken = HashSet::new();
        for one in described {
            let planned = plan.one(one, arguments)?;
            if let Some(planned) = &planned {
                let target = planned.namespace();
                if !taken.insert(target.clone()) {
                    let source = &planned.source;
                    return Err(Failure::usage(format!(
                        "{source} and another collection would both be {target}"
                    )));
                }
            }
            plan.planned.push(planned);
        }
        Ok(plan)
    }

    fn one(&mut self, one: Described, arguments: &Arguments) -> Result<Option<Planned>, Failure> {
        let source = format!("{}.{}", one.database, one.name);
        if !arguments.namespaces.has(&one.database, &one.name) {
            return Ok(None);
        }
        match &one.problem {
            None => {}
            Some(Problem::LeftOut(reason)) => {
                self.wrong.get_or_insert_with(|| reason.clone());
                self.left_out.push(reason.clone());
                return Ok(None);
            }
            // The existing collection has documents, perhaps, and would be replaced by one that has lost them.
            Some(Problem::WithoutDocuments(reason)) if arguments.drop => {
                self.left_out.push(format!("{source}: {reason}"));
                return Ok(None);
            }
            Some(Problem::WithoutDocuments(reason)) => {
                self.left_out.push(format!("{source}: {reason}: it is made without them"));
            }
            Some(Problem::Refused(reason)) => {
                let words = format!("{reason}; with --exclude '{source}' the rest is restored");
                return Err(Failure::new(Exit::Failed, words));
            }
        }
        if source == USERS && arguments.users {
            let kind = DumpedKind::Users;
            let (database, name) = (one.database, one.name);
            return Ok(Some(Planned {
                source,
                database,
                name,
                kind,
                metadata: None,
                numbered: None,
                view: None,
                aside: None,
            }));
        }
        if one.name.starts_with("system.") {
            let reason = if source == USERS { "users need --users" } else { "it is of the system" };
            // One says which version MongoDB's own collections have, which is of no use elsewhere. Servers up to 2.6 had the
            // indexes and the names in collections of the system; a dump has both in the descriptions besides.
            let is_of_no_use = source == "admin.system.version"
                || ["system.indexes", "system.namespaces"].contains(&one.name.as_str());
            if !is_of_no_use {
                self.left_out.push(format!("{source}: {reason}"));
            }
            return Ok(None);
        }
        let metadata = known(&source, &one)?;
        if metadata.kind.as_deref() == Some("timeseries") || metadata.options.contains_key("timeseries") {
            self.left_out.push(format!("{source}: time series are not supported"));
            return Ok(None);
        }
        let (database, name) = renamed_collection(&arguments.rename, &one.database, &one.name)?;
        let mut planned = Planned {
            source,
            database,
            name,
            kind: if metadata.is_view() { DumpedKind::View } else { DumpedKind::Collection },
            metadata: one.metadata,
            numbered: None,
            view: None,
            aside: None,
        };
        if let Err(reason) = planned.rename_what_it_reads(&one.database, &arguments.rename)? {
            self.left_out.push(format!("{}: {reason}", planned.source));
            return Ok(None);
        }
        Ok(Some(planned))
    }

    /// Rejects a dump of which nothing can be restored because of names that are none.
    pub(crate) fn check_any(&self) -> Result<(), Failure> {
        match &self.wrong {
            Some(reason) if self.all().next().is_none() => Err(Failure::new(Exit::Failed, reason.clone())),
            Some(_) | None => Ok(()),
        }
    }

    /// The objects that are restored, in the order of the dump.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Planned> {
        self.planned.iter().flatten()
    }

    pub(crate) fn collections(&self) -> impl Iterator<Item = &Planned> {
        self.all().filter(|planned| planned.kind == DumpedKind::Collection)
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = &Planned> {
        self.all().filter(|planned| planned.kind == DumpedKind::View)
    }
}

impl Planned {
    /// One that a store has, and no dump: `metadata` is the text that a dump would have.
    pub(crate) fn of(source: String, target: (String, String), kind: DumpedKind, metadata: String) -> Self {
        let (database, name) = target;
        let metadata = Some(metadata);
        Self { source, database, name, kind, metadata, numbered: None, view: None, aside: None }
    }

    /// The same with these auto-increment fields.
    pub(crate) fn with_numbered(mut self, numbered: Vec<Document>) -> Self {
        self.numbered = Some(numbered);
        self
    }

    /// Gives what a view of the database `from` reads the names that it has now. The inner error says why it cannot read it.
    pub(crate) fn rename_what_it_reads(
        &mut self,
        from: &str,
        rules: &[Rename],
    ) -> Result<Result<(), String>, Failure> {
        if self.kind != DumpedKind::View || rules.is_empty() {
            return Ok(Ok(()));
        }
        let mut options = self.metadata()?.options;
        let reading = Reading { rules, from, to: &self.database };
        let done = reading.rename(&mut options)?;
        self.view = Some(options);
        Ok(done)
    }

    pub(crate) fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// The name of the collection that is filled.
    pub(crate) fn filled(&self) -> &str {
        self.aside.as_deref().unwrap_or(&self.name)
    }

    /// The store's message about the collection that is filled, with the name that it gets.
    pub(crate) fn told(&self, message: &str) -> String {
        self.aside.as_deref().map_or_else(|| message.to_owned(), |aside| message.replace(aside, &self.name))
    }

    /// Database and name, as keys of a map.
    pub(crate) fn key(&self) -> (String, String) {
        (self.database.clone(), self.name.clone())
    }

    /// The metadata. It is kept as a text, which uses a tenth of the memory.
    pub(crate) fn metadata(&self) -> Result<Metadata, Failure> {
        let mut metadata = parsed(&self.source, self.metadata.as_deref())?;
        if let Some(numbered) = &self.numbered {
            metadata.numbered.clone_from(numbered);
        }
        if let Some(view) = &self.view {
            metadata.options.clone_from(view);
        }
        Ok(metadata)
    }
}

/// The metadata as a dump has it. A server says more than is known here, and a dump of it what mongodump writes.
fn known(source: &str, one: &Described) -> Result<Metadata, Failure> {
    let Some(text) = one.metadata.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(Metadata::default());
    };
    let refused = |reason: &str| {
        let words = format!("{}: {reason}; with --exclude '{source}' the rest is restored", one.place);
        Failure::new(Exit::Failed, words)
    };
    let metadata = Metadata::parse_known(text.as_bytes()).map_err(|error| refused(&error.reason))?;
    match &metadata.collection_name {
        // A file's name may be shortened, and an archive has the whole name twice.
        Some(name) if *name != one.name => {
            Err(refused(&format!("the collection is {:?}, and collectionName is {name:?}", one.name)))
        }
        Some(_) | None => Ok(metadata),
    }
}

fn parsed(source: &str, text: Option<&str>) -> Result<Metadata, Failure> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Metadata::default()) };
    Metadata::parse(text.as_bytes())
        .map_err(|error| Failure::new(Exit::Failed, format!("the metadata of {source}: {error}")))
}
