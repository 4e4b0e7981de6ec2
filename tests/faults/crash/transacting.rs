//! Processes that commit transactions and do writes that can be sent again are killed: each transaction is there as a whole
//! or not at all, no number of an invoice is missing or there twice, and what is sent again gets the first answer and
//! changes nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use cairndb::Client;
use cairndb_tests::choices::{SEED_VARIABLE, number_from_environment, seed};
use cairndb_tests::following::Follower;
use cairndb_tests::journal::{Record, Step};
use cairndb_tests::transacting::{self, DATABASE, State, THREADS, is_transaction};

use crate::crash::kill::{Audited, fault_of_early_answers, kill_in_folders};
use crate::crash::say;

const KILLS_DEFAULT: u64 = 400;

/// The known state of a thread.
#[derive(Clone, Default)]
struct Course {
    /// The state at the last audit.
    state: State,
    /// The versions that were begun since then, ascending.
    begun: Vec<u64>,
    /// The last one that was acknowledged.
    done: u64,
}

/// The expected content, and the result of killing.
#[derive(Default)]
struct Transacted {
    /// By thread.
    courses: BTreeMap<u64, Course>,
    acknowledged: u64,
    /// Transactions and commands that were under way when the process was killed, and are not there.
    lost: u64,
    /// Those that are there and were not acknowledged.
    kept: u64,
    /// Commands that were sent again.
    again: u64,
    /// A copy that a change stream keeps, from the first audit on.
    follower: Option<Follower>,
}

impl Audited for Transacted {
    const WORK: &'static str = "transact";

    fn hear(&mut self, record: Record) -> Result<(), String> {
        let Some(Step { tag, version, is_done }) = record.step()? else { return Ok(()) };
        let course = self.courses.entry(tag).or_default();
        if is_done {
            course.done = version;
            self.acknowledged += 1;
        } else {
            course.begun.push(version);
        }
        Ok(())
    }

    fn audit(&mut self, client: &Client) -> Result<(), String> {
        // A child that was killed at once has made nothing.
        transacting::make(client).map_err(|error| error.to_string())?;
        transacting::check_numbers(client)?;
        for tag in 0..THREADS {
            let course = self.courses.entry(tag).or_default();
            let state = transacting::state(client, tag)?;
            course.check(tag, state)?;
            self.lost += u64::from(course.begun.last().is_some_and(|begun| *begun > state.version));
            self.kept += u64::from(state.version > course.done);
            let state = course.send_again(client, tag, state)?;
            self.again += u64::from(state.version > 0);
            *course = Course { state, begun: Vec::new(), done: state.version };
        }
        match &mut self.follower {
            Some(follower) => follower.follow(client, transacting::check_copy)?,
            none => *none = Some(Follower::begin(client, DATABASE)?),
        }
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if report.is_clean() { Ok(()) } else { Err(format!("verify found: {:?}", report.findings)) }
    }
}

impl Course {
    /// Whether this can be there of a thread.
    fn check(&self, tag: u64, found: State) -> Result<(), String> {
        let is_known = found.version == self.state.version || self.begun.contains(&found.version);
        if !is_known || found.version < self.done {
            return Err(format!(
                "thread {tag} is at version {}, {} was acknowledged, and {:?} were begun",
                found.version, self.done, self.begun
            ));
        }
        let made = || self.begun.iter().filter(|version| **version <= found.version);
        let transactions = made().filter(|version| is_transaction(tag, **version)).count() as u64;
        let expected = State {
            version: found.version,
            transactions: self.state.transactions + transactions,
            commands: self.state.commands + made().count() as u64 - transactions,
        };
        if found == expected {
            Ok(())
        } else {
            Err(format!("thread {tag}: {expected:?} was made, {found:?} is there"))
        }
    }

    /// Sends the last write again, as a client does that got no answer: first the one that is there, then the one that is
    /// not. Says what is there then.
    fn send_again(&self, client: &Client, tag: u64, state: State) -> Result<State, String> {
        let failed = |error: cairndb::Error| format!("thread {tag}, sent again: {error:?}");
        let newest = client.newest_retryable_write(&transacting::write(tag, 0)).map_err(failed)?;
        let newest = newest.map(|newest| (newest.number.cast_unsigned(), newest.is_commit));
        let expected = (state.version > 0).then(|| (state.version, is_transaction(tag, state.version)));
        if newest != expected {
            return Err(format!(
                "thread {tag}: the last write is {expected:?}, and a client is told {newest:?}"
            ));
        }
        let send = |version| -> Result<State, String> {
            transacting::command(client, tag, version, true).map_err(failed)?;
            transacting::state(client, tag)
        };
        let mut state = state;
        if state.version > 0 && !is_transaction(tag, state.version) {
            let again = send(state.version)?;
            if again != state {
                return Err(format!("thread {tag}: {state:?} was sent again, and is {again:?}"));
            }
        }
        let lost = self.begun.last().filter(|begun| **begun > state.version && !is_transaction(tag, **begun));
        if let Some(version) = lost {
            let once = send(*version)?;
            let expected = State { version: *version, commands: state.commands + 1, ..state };
            let twice = send(*version)?;
            if (once, twice) != (expected, expected) {
                return Err(format!(
                    "thread {tag}: {expected:?} was sent twice, and is {once:?} and {twice:?}"
                ));
            }
            state = expected;
        }
        Ok(state)
    }
}

#[test]
fn a_transaction_is_whole_or_absent_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT);
    let seed = seed();
    let started = Instant::now();
    let oracles = kill_in_folders::<Transacted>(seed, 40, kills);
    let sum = |part: fn(&Transacted) -> u64| oracles.iter().map(part).sum::<u64>();
    let (acknowledged, lost) = (sum(|oracle| oracle.acknowledged), sum(|oracle| oracle.lost));
    let followed = sum(|oracle| oracle.follower.as_ref().map_or(0, |follower| follower.applied));
    say(&format!(
        "transacting: {kills} kills; {acknowledged} acknowledged, {lost} cut short, {} kept without an answer, {} asked for again, {followed} events followed, in {:.0} s; {SEED_VARIABLE}={seed}",
        sum(|oracle| oracle.kept),
        sum(|oracle| oracle.again),
        started.elapsed().as_secs_f64()
    ));
    assert!(acknowledged > kills, "the children hardly wrote");
    assert!(lost * 4 > kills, "few kills fell within a write");
    assert!(followed > acknowledged / 2, "the streams hardly showed anything");
}

#[test]
fn a_transaction_that_is_acknowledged_before_it_is_committed_is_found_out() {
    let fault = fault_of_early_answers::<Transacted>(seed()).expect("a version was lost");
    assert!(fault.contains("was acknowledged"), "{fault}");
}
