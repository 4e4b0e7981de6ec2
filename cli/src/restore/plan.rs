//! What of a dump is restored, and under which names. All of it is decided before the store is opened.

use std::collections::HashSet;

use cairndb::bson::Document;
use formats::dump::metadata::Metadata;

use crate::dumped::DumpedKind;
use crate::failure::{Exit, Failure};
use crate::patterns::renamed;
use crate::restore::options::Arguments;

/// Where users are.
const USERS: &str = "admin.system.users";

/// A collection or view as a dump has it.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) database: String,
    pub(super) name: String,
    /// The text of its metadata. A dump of files may lack it.
    pub(super) metadata: Option<String>,
}

/// What becomes of one that a dump has.
#[derive(Debug)]
pub(super) struct Planned {
    /// As the dump names it.
    pub(super) source: String,
    pub(super) database: String,
    pub(super) name: String,
    pub(super) kind: DumpedKind,
    metadata: Option<String>,
    /// What the end of an archive's collection carries, which is newer than its metadata.
    pub(super) numbered: Option<Vec<Document>>,
}

/// What is restored.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// By the positions in the dump. `None` is passed over.
    pub(super) planned: Vec<Option<Planned>>,
    /// What cannot be restored, each with the reason.
    pub(super) left_out: Vec<String>,
}

impl Plan {
    pub(super) fn new(described: Vec<Described>, arguments: &Arguments) -> Result<Self, Failure> {
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
        if source == USERS && arguments.users {
            let kind = DumpedKind::Users;
            let (database, name) = (one.database, one.name);
            return Ok(Some(Planned { source, database, name, kind, metadata: None, numbered: None }));
        }
        if one.name.starts_with("system.") {
            let reason = if source == USERS { "users need --users" } else { "it is of the system" };
            // One says which version MongoDB's own collections have, which is of no use elsewhere.
            if source != "admin.system.version" {
                self.left_out.push(format!("{source}: {reason}"));
            }
            return Ok(None);
        }
        let metadata = parsed(&source, one.metadata.as_deref())?;
        if metadata.kind.as_deref() == Some("timeseries") || metadata.options.contains_key("timeseries") {
            self.left_out.push(format!("{source}: time series are not supported"));
            return Ok(None);
        }
        let (database, name) = renamed(&arguments.rename, &one.database, &one.name)?;
        Ok(Some(Planned {
            source,
            database,
            name,
            kind: if metadata.is_view() { DumpedKind::View } else { DumpedKind::Collection },
            metadata: one.metadata,
            numbered: None,
        }))
    }

    /// What is restored, in the order of the dump.
    pub(super) fn all(&self) -> impl Iterator<Item = &Planned> {
        self.planned.iter().flatten()
    }

    pub(super) fn collections(&self) -> impl Iterator<Item = &Planned> {
        self.all().filter(|planned| planned.kind == DumpedKind::Collection)
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &Planned> {
        self.all().filter(|planned| planned.kind == DumpedKind::View)
    }
}

impl Planned {
    pub(super) fn namespace(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// Database and name, as keys of a map.
    pub(super) fn key(&self) -> (String, String) {
        (self.database.clone(), self.name.clone())
    }

    /// The metadata. It is kept as a text, which takes a tenth of the memory.
    pub(super) fn metadata(&self) -> Result<Metadata, Failure> {
        let mut metadata = parsed(&self.source, self.metadata.as_deref())?;
        if let Some(numbered) = &self.numbered {
            metadata.numbered.clone_from(numbered);
        }
        Ok(metadata)
    }
}

fn parsed(source: &str, text: Option<&str>) -> Result<Metadata, Failure> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Metadata::default()) };
    Metadata::parse(text.as_bytes())
        .map_err(|error| Failure::new(Exit::Failed, format!("the metadata of {source}: {error}")))
}
