//! Processes that fill a capped collection, and convert another, are killed: the numbers of the first are the newest ones, without
//! a gap and in their order, up to the one that was acknowledged or further; the second is converted as a whole or not at
//! all.

use std::collections::BTreeSet;
use std::time::Instant;

use cairndb::Client;
use cairndb_tests::capping::{self, CONVERTED};
use cairndb_tests::choices::{SEED_VARIABLE, number_from_environment, seed};
use cairndb_tests::journal::{Record, Step};

use crate::crash::kill::{Audited, fault_of_early_answers, kill_in_folders};
use crate::crash::say;

const KILLS_DEFAULT: u64 = 200;
/// One kill of so many falls to these.
const KILLS_PER_CAPPING: u64 = 5;

/// The expected content, and the result of killing.
#[derive(Default)]
struct Numbered {
    /// The numbers that may be the last one. Empty before the first.
    last: BTreeSet<u64>,
    acknowledged: u64,
    is_converting: bool,
    kills_in_conversions: u64,
}

impl Audited for Numbered {
    const WORK: &'static str = "cap";

    fn hear(&mut self, record: Record) -> Result<(), String> {
        let Some(Step { tag, version, is_done }) = record.step()? else { return Ok(()) };
        if tag == CONVERTED {
            self.is_converting = !is_done;
        } else if is_done {
            self.acknowledged += 1;
            self.last = BTreeSet::from([version]);
        } else {
            self.last.insert(version);
        }
        Ok(())
    }

    fn audit(&mut self, client: &Client) -> Result<(), String> {
        self.kills_in_conversions += u64::from(std::mem::take(&mut self.is_converting));
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if !report.is_clean() {
            return Err(format!("verify found: {:?}", report.findings));
        }
        let last = capping::last(client)?;
        let is_known = self.last.contains(&last) || (last == 0 && self.acknowledged == 0);
        if !is_known {
            return Err(format!("the last number is {last}, one of {:?} was acknowledged", self.last));
        }
        self.last = BTreeSet::from([last]);
        capping::check_converted(client)
    }
}

#[test]
fn the_newest_documents_are_there_in_their_order_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT).div_ceil(KILLS_PER_CAPPING);
    let seed = seed();
    let started = Instant::now();
    let oracles = kill_in_folders::<Numbered>(seed, 32, kills);
    let sum = |part: fn(&Numbered) -> u64| oracles.iter().map(part).sum::<u64>();
    let (acknowledged, in_conversions) =
        (sum(|oracle| oracle.acknowledged), sum(|oracle| oracle.kills_in_conversions));
    say(&format!(
        "capping: {kills} kills, {in_conversions} of them within conversions; {acknowledged} acknowledged inserts checked in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
    assert!(in_conversions * 4 > kills, "few kills fell within a conversion");
    assert!(acknowledged > 0, "the children wrote nothing");
}

#[test]
fn an_insert_that_is_acknowledged_before_it_is_done_is_found_out() {
    let fault = fault_of_early_answers::<Numbered>(seed()).expect("an older number was the last one");
    assert!(fault.contains("was acknowledged"), "{fault}");
}
