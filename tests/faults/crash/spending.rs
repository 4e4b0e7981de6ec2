//! Processes that make calls with tokens are killed, and each call that they have begun is made again: it is applied once, an
//! answer that was given is given again, and no number of an invoice is missing or there twice.

use std::collections::BTreeMap;
use std::time::Instant;

use cairndb::Client;
use cairndb_tests::choices::{SEED_VARIABLE, number_from_environment, seed};
use cairndb_tests::following::Follower;
use cairndb_tests::journal::{Record, Step};
use cairndb_tests::spending::{self, Answer, KINDS, THREADS, kind};

use crate::crash::kill::{Audited, fault_of_early_answers, fault_of_flaw, kill_in_folders};
use crate::crash::say;

const KILLS_DEFAULT: u64 = 400;
/// The number of calls of a life that are made again, the last ones of each thread: more than can be lost with
/// delayed durability.
const AGAIN_MAX: usize = 400;

/// The effects that must be there, and counts of the kills.
#[derive(Default)]
struct Spent {
    /// By thread and kind, how many calls were applied.
    done: BTreeMap<u64, [u64; KINDS]>,
    /// The calls that were begun in the life that was killed, by thread.
    begun: BTreeMap<u64, Vec<u64>>,
    /// The answers that were given in it.
    answers: BTreeMap<u64, i64>,
    /// The last call of each thread that was acknowledged.
    acknowledged: BTreeMap<u64, u64>,
    answered: u64,
    follower: Option<Follower>,
    /// Calls without an answer that had happened, and that had not.
    kept: u64,
    lost: u64,
}

impl Audited for Spent {
    const WORK: &'static str = "spend";

    fn hear(&mut self, record: Record) -> Result<(), String> {
        if let Record::Taken { course, value } = record {
            self.answers.insert(course, value);
        }
        let Some(Step { tag, version, is_done }) = record.step()? else { return Ok(()) };
        if is_done {
            self.acknowledged.insert(tag, version);
            self.answered += 1;
        } else {
            self.begun.entry(tag).or_default().push(version);
        }
        Ok(())
    }

    fn audit(&mut self, client: &Client) -> Result<(), String> {
        spending::make(client).map_err(|error| error.to_string())?;
        spending::check_numbers(client)?;
        for tag in 0..THREADS {
            let begun = self.begun.remove(&tag).unwrap_or_default();
            let mut expected = self.done.get(&tag).copied().unwrap_or_default();
            for version in &begun {
                if let Some(count) = expected.get_mut(kind(tag, *version)) {
                    *count += 1;
                }
            }
            // A call without effect is counted by no collection.
            if let Some(last) = expected.last_mut() {
                *last = 0;
            }
            let acknowledged = self.acknowledged.remove(&tag).unwrap_or_default();
            // Those before are there, or else the counts below are too low: nothing but an end of the writes can be lost.
            for version in begun.iter().rev().take(AGAIN_MAX).rev() {
                self.again(client, tag, *version, *version <= acknowledged)?;
            }
            let state = spending::state(client, tag)?;
            if state != expected {
                return Err(format!(
                    "thread {tag}: {expected:?} were begun and repeated, {state:?} are there"
                ));
            }
            self.done.insert(tag, state);
        }
        spending::check_numbers(client)?;
        self.answers.clear();
        match &mut self.follower {
            Some(follower) => follower.follow(client, spending::check_copy)?,
            none => *none = Some(Follower::begin(client, spending::DATABASE)?),
        }
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if report.is_clean() { Ok(()) } else { Err(format!("verify found: {:?}", report.findings)) }
    }
}

impl Spent {
    /// Makes a call twice, as a client does that got no answer.
    fn again(
        &mut self,
        client: &Client,
        tag: u64,
        version: u64,
        is_acknowledged: bool,
    ) -> Result<(), String> {
        let call = || {
            let done = spending::call(client, tag, version, false);
            done.map_err(|error| format!("thread {tag}, version {version}, made again: {error:?}"))
        };
        let Answer { value, was_replayed } = call()?;
        let told = self.answers.get(&spending::course(tag, version));
        if told.is_some_and(|told| *told != value) {
            return Err(format!(
                "thread {tag}, version {version}: {told:?} was answered first, and {value} now"
            ));
        }
        if is_acknowledged && was_replayed == Some(false) {
            return Err(format!("thread {tag}, version {version} was acknowledged, and had not happened"));
        }
        if told.is_none() {
            self.kept += u64::from(was_replayed == Some(true));
            self.lost += u64::from(was_replayed == Some(false));
        }
        let second = call()?;
        if second.value != value || second.was_replayed == Some(false) {
            return Err(format!(
                "thread {tag}, version {version}: {value} was answered, and then {second:?}"
            ));
        }
        Ok(())
    }
}

#[test]
fn what_has_a_token_happens_once_however_often_it_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT);
    let seed = seed();
    let started = Instant::now();
    let oracles = kill_in_folders::<Spent>(seed, 48, kills);
    let sum = |part: fn(&Spent) -> u64| oracles.iter().map(part).sum::<u64>();
    let (answered, kept, lost) =
        (sum(|oracle| oracle.answered), sum(|oracle| oracle.kept), sum(|oracle| oracle.lost));
    let followed = sum(|oracle| oracle.follower.as_ref().map_or(0, |follower| follower.applied));
    say(&format!(
        "spending: {kills} kills; {answered} answered, of those without an answer {kept} had happened and {lost} had not, {followed} events followed, in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
    assert!(answered > kills, "the children hardly wrote");
    assert!(kept > 0 && lost > 0, "no kill fell within a call");
    assert!(followed > answered / 2, "the streams hardly showed anything");
}

#[test]
fn a_call_that_is_answered_before_it_happens_is_found_out() {
    let fault = fault_of_early_answers::<Spent>(seed()).expect("a call was lost");
    assert!(fault.contains("was acknowledged"), "{fault}");
}

#[test]
fn planted_rows_of_tokens_that_come_after_their_writes_are_found_out() {
    let fault = fault_of_flaw::<Spent>(seed(), "tokens-apart").expect("a call happened twice");
    assert!(fault.contains("are there") || fault.contains("answered"), "{fault}");
}
