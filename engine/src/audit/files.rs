//! Files: the checksums of all of them, and what depends on what is damaged.

use std::collections::BTreeMap;

use base::error::Result;
use store::Family;
use store::checksums::{FileFlaw, FileSet, FolderView, KeySpan};
use store::keys::{ID_BYTES, split_id};

use crate::audit::findings::{Findings, Place};
use crate::audit::watch::Watch;
use crate::progress::VerifyPhase;
use crate::results::VerifyReport;
use crate::shared::Engine;

/// The number of collections that a finding names.
const NAMED_MAX: usize = 3;

/// Reads every file of the database and adds what is wrong to the report.
///
/// The store need not be entered, so `close` does not wait: it ends the reading. A store in memory has no files.
pub(crate) fn verify_files(engine: &Engine, report: &mut VerifyReport, watch: &mut Watch<'_>) -> Result<()> {
    if engine.options.mode.is_in_memory() {
        return Ok(());
    }
    let mut files = FileSet::list(&engine.options.path, folder_view(engine))?;
    watch.teller.begin(VerifyPhase::Files, files.bytes());
    let teller = &mut watch.teller;
    report.files += files.listed_by();
    loop {
        // Removed after each file: the report is bounded, and a thoroughly damaged folder has millions of flaws.
        for flaw in files.flaws.drain(..) {
            add_flaw(engine, &flaw, report);
        }
        let Some(read) = files.step(&mut watch.pace, &mut |bytes| teller.advance(bytes))? else { break };
        report.files += read.files;
        report.file_bytes += read.bytes;
    }
    teller.end();
    Ok(())
}

/// The files that the folder of a database must have.
pub(crate) fn folder_view(engine: &Engine) -> FolderView {
    // A copy that is being verified gets its witness afterwards.
    let witness = engine.options.witness && !engine.options.mode.is_unmarked();
    FolderView { witness, fault: engine.options.fault }
}

/// Adds the finding of a flaw, with the collection or index that depends on the damaged bytes, if it can be reported.
pub(crate) fn add_flaw(engine: &Engine, flaw: &FileFlaw, report: &mut VerifyReport) {
    let family = Family::ALL.into_iter().find(|family| Some(family.name()) == flaw.family.as_deref());
    let name =
        flaw.family.as_ref().map_or_else(|| "files".to_owned(), |name| format!("column family {name}"));
    let (mut place, mut problem) = (Place { name, index: None }, flaw.problem.clone());
    let owners = family.zip(flaw.keys.as_ref()).map(|(family, keys)| owners(engine, family, keys));
    match owners.unwrap_or_default().as_slice() {
        [] => {}
        [owner] => place = Place { name: owner.namespace.clone(), index: owner.index.clone() },
        all => {
            let mut names: Vec<&str> = all.iter().map(|owner| owner.namespace.as_str()).collect();
            // Indexes of one collection follow each other.
            names.dedup();
            let more = names.len().saturating_sub(NAMED_MAX);
            names.truncate(NAMED_MAX);
            problem = format!("{problem}; keys of {}", names.join(", "));
            if more > 0 {
                problem = format!("{problem} and {more} more");
            }
        }
    }
    let key = flaw.keys.as_ref().map(|keys| keys.up_to.as_slice()).unwrap_or_default();
    let mut findings = Findings::resume(report);
    findings.add_of_file(place, key, flaw, problem);
    findings.report_into(report);
}

/// The owner of keys.
struct Owner {
    namespace: String,
    index: Option<String>,
}

/// The collections or indexes that have keys in a span.
fn owners(engine: &Engine, family: Family, keys: &KeySpan) -> Vec<Owner> {
    let collections = engine.catalog.collections();
    let mut by_id = BTreeMap::new();
    for state in &collections {
        let namespace = state.namespace.to_string();
        match family {
            Family::Records => drop(by_id.insert(state.id.0, Owner { namespace, index: None })),
            Family::Entries => {
                by_id.extend(state.indexes().iter().map(|index| {
                    (index.id.0, Owner { namespace: namespace.clone(), index: Some(index.name.clone()) })
                }));
                // The insertion order of a capped collection has no name.
                by_id.extend(state.order().map(|order| (order.id.0, Owner { namespace, index: None })));
            }
            // The catalog and the changes are of all collections, and what repeated writes are answered from of none.
            Family::Meta | Family::Outcomes | Family::Changes => {}
        }
    }
    let Some((last, rest)) = split_id(&keys.up_to) else { return Vec::new() };
    // Of the first block of a table only the end is known, and where it begins is anyone's guess.
    let first = split_id(&keys.above).map_or(last, |(first, _)| first);
    // A bound that is an id and nothing more was made up by RocksDB to end the keys before that id.
    let last = if rest.is_empty() && keys.up_to.len() == ID_BYTES && first < last { last - 1 } else { last };
    let ids: Vec<u32> = by_id.range(first.min(last)..=last).map(|(id, _)| *id).collect();
    ids.into_iter().filter_map(|id| by_id.remove(&id)).collect()
}
