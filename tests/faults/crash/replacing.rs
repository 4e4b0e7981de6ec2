//! Processes that replace a collection by `$out` and merge into another by `$merge` are killed: of the first, the documents
//! of one generation are there and no others, the second is at the generation that was acknowledged or further, and nothing
//! is left of what was gathered.

use std::collections::BTreeSet;
use std::time::Instant;

use cairndb::Client;
use cairndb::bson::{Document, doc};
use cairndb_tests::choices::{SEED_VARIABLE, number_from_environment, seed};
use cairndb_tests::journal::{Record, Step};
use cairndb_tests::replacing::{self, PLACED};

use crate::crash::kill::{Audited, fault_of_early_answers, kill_in_folders};
use crate::crash::say;

const KILLS_DEFAULT: u64 = 200;
/// One kill of so many falls to these.
const KILLS_PER_REPLACEMENT: u64 = 8;

/// The expected content, and the result of killing.
#[derive(Default)]
struct Replaced {
    /// The generations that may be there, of each of both collections. Empty before the first.
    placed: BTreeSet<u64>,
    merged: BTreeSet<u64>,
    /// The number of acknowledged runs of each.
    placings: u64,
    mergings: u64,
    /// Whether a `$out` was begun and not acknowledged.
    is_placing: bool,
    kills_in_out: u64,
}

impl Audited for Replaced {
    const WORK: &'static str = "replace";

    fn hear(&mut self, record: Record) -> Result<(), String> {
        let Some(Step { tag, version, is_done }) = record.step()? else { return Ok(()) };
        let (known, count) = if tag == PLACED {
            self.is_placing = !is_done;
            (&mut self.placed, &mut self.placings)
        } else {
            (&mut self.merged, &mut self.mergings)
        };
        if is_done {
            known.clear();
            *count += 1;
        }
        known.insert(version);
        Ok(())
    }

    fn audit(&mut self, client: &Client) -> Result<(), String> {
        // A child that was killed at once has made nothing.
        replacing::source(client).map_err(|error| error.to_string())?;
        self.kills_in_out += u64::from(std::mem::take(&mut self.is_placing));
        let found = replacing::placed(client)?;
        // Before the first one is done there are no documents.
        let is_known = found.map_or(self.placings == 0, |found| self.placed.contains(&found));
        if !is_known {
            return Err(format!(
                "generation {found:?} was put in place, one of {:?} was acknowledged",
                self.placed
            ));
        }
        let bounds = replacing::merged(client, self.mergings > 0)?;
        let is_known = bounds.map_or(self.mergings == 0, |(low, high)| {
            let acknowledged = self.merged.first().is_some_and(|first| low >= *first);
            acknowledged && self.merged.contains(&high)
        });
        if !is_known {
            return Err(format!(
                "generations {bounds:?} were merged, one of {:?} was acknowledged",
                self.merged
            ));
        }
        self.placed = found.into_iter().collect();
        // Runs that were cut short one after the other leave documents of all of them.
        self.merged = bounds.into_iter().flat_map(|(low, high)| [low, high]).collect();
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if !report.is_clean() {
            return Err(format!("verify found: {:?}", report.findings));
        }
        let database = client.database("crash");
        let counts = ["source", "placed", "merged"].map(|name| {
            database.collection::<Document>(name).count_documents(doc! {}).run().expect("a number")
        });
        // The gathered documents of `$out` are counted by `verify`, whatever their collection's name is.
        if report.collections != 3 || report.documents != counts.iter().sum::<u64>() {
            let (collections, documents) = (report.collections, report.documents);
            return Err(format!(
                "{documents} documents in {collections} collections, of them {counts:?} known"
            ));
        }
        let indexes = database.collection::<Document>("placed").list_index_names().run();
        match indexes {
            Ok(names) if names == ["_id_", "n_1"] => Ok(()),
            other => Err(format!("the indexes are {other:?}")),
        }
    }
}

#[test]
fn a_collection_is_replaced_as_a_whole_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT).div_ceil(KILLS_PER_REPLACEMENT);
    let seed = seed();
    let started = Instant::now();
    let oracles = kill_in_folders::<Replaced>(seed, 24, kills);
    let sum = |part: fn(&Replaced) -> u64| oracles.iter().map(part).sum::<u64>();
    let in_out = sum(|oracle| oracle.kills_in_out);
    let acknowledged = sum(|oracle| oracle.placings + oracle.mergings);
    say(&format!(
        "replacing: {kills} kills, {in_out} of them within $out; {acknowledged} acknowledged runs checked in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
    assert!(in_out * 4 > kills, "few kills fell within a $out");
    assert!(acknowledged > 0, "the children wrote nothing");
}

#[test]
fn a_replacement_that_is_acknowledged_before_it_is_done_is_found_out() {
    let fault = fault_of_early_answers::<Replaced>(seed()).expect("an older generation was there");
    assert!(fault.contains("acknowledged"), "{fault}");
}
