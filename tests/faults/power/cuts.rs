//! The power fails at every operation in turn, and at random ones in lives that follow each other.

use std::time::Instant;

use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::race::on_lanes;

use crate::power::disk::{Aftermath, Image};
use crate::power::life::{Level, Task, live};
use crate::power::mount::{Act, Plan, is_possible};
use crate::power::say;

/// More than any workload has operations is every operation.
const CUTS_DEFAULT: u64 = 160;
/// Lives of one folder.
const LIVES: u64 = 5;

/// The result of cutting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cuts: u64,
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
}

impl Tally {
    fn sum(tallies: &[Self]) -> Self {
        let add = |a: Self, b: &Self| Self {
            cuts: a.cuts + b.cuts,
            acknowledged: a.acknowledged + b.acknowledged,
            lost: a.lost + b.lost,
        };
        tallies.iter().fold(Self::default(), add)
    }
}

pub(crate) fn stop_at(at: u64) -> Plan {
    Plan { at, class: None, act: Act::Stop }
}

/// The number of operations that change something in a life without a fault.
pub(crate) fn operations_of(task: &Task) -> u64 {
    let lived = live(&Image::default(), task, None).unwrap_or_else(|fault| panic!("{fault}"));
    // The control: without a cut nothing may be missing, and everything is synced.
    for aftermath in [Aftermath::Killed, Aftermath::Synced] {
        let mut oracle = task.oracle();
        lived.judge(&mut oracle, &aftermath).unwrap_or_else(|fault| panic!("without a cut: {fault}"));
        assert_eq!(oracle.lost, 0, "nothing is lost without a cut");
    }
    lived.state.changes
}

/// The same at the level that has the most.
pub(crate) fn operations_at_most(task: &Task) -> u64 {
    let operations = Level::ALL.map(|level| operations_of(&Task { level, ..*task }));
    operations.into_iter().max().unwrap_or(0)
}

/// Cuts the power in several lives of one folder.
pub(crate) fn cut_lives(seed: u64, lives: u64, like: impl Fn(Task) -> Task) -> Result<Tally, String> {
    let mut choices = Choices::seeded(seed);
    let mut task = like(Task::small(&mut choices));
    let mut oracle = task.oracle();
    let (mut image, mut cuts) = (Image::default(), 0);
    for life in 1..=lives {
        task = Task { life, seed: choices.number(), operations: 4 + choices.below(20), ..task };
        // Some die while they open the folder, which is to say while they recover from the death before.
        let is_early = choices.one_in(3);
        let at = 1 + choices.below(if is_early { 50 } else { 350 });
        task.values = task.values.map(|_| 1 + choices.below(task.threads * task.operations));
        let seed = choices.number();
        let aftermath = if choices.one_in(3) { Aftermath::Synced } else { Aftermath::Some { seed } };
        let in_life = |fault: String| format!("life {life}, cut at {at}: {fault}");
        let plan = task.values.is_none().then(|| stop_at(at));
        let over = live(&image, &task, plan).map_err(in_life)?;
        cuts += u64::from(over.state.is_stopped || task.values.is_some());
        image = over.judge(&mut oracle, &aftermath).map_err(in_life)?;
    }
    Ok(Tally { cuts, acknowledged: oracle.acknowledged, lost: oracle.lost })
}

fn cut_once(seed: u64, level: Level, at: u64, is_random: bool) -> Result<Tally, String> {
    let mut choices = Choices::seeded(seed);
    let task = Task { level, ..Task::small(&mut choices) };
    let lived = live(&Image::default(), &task, Some(stop_at(at)))?;
    let aftermath = if is_random { Aftermath::Some { seed: choices.number() } } else { Aftermath::Synced };
    let mut oracle = task.oracle();
    lived.judge(&mut oracle, &aftermath)?;
    let cuts = u64::from(lived.state.is_stopped);
    Ok(Tally { cuts, acknowledged: oracle.acknowledged, lost: oracle.lost })
}

#[test]
fn nothing_durable_is_lost_wherever_the_power_is_cut() {
    if !is_possible() {
        return;
    }
    let (seed, started) = (seed(), Instant::now());
    let like = Task::small(&mut Choices::seeded(seed));
    let operations = operations_at_most(&like);
    // Each operation at each level, twice: what was not synced is gone, or some of it is there.
    let levels = Level::ALL.len() as u64;
    let cases = 2 * levels * operations;
    let cuts = number_from_environment("CAIRNDB_CUTS", CUTS_DEFAULT).min(cases);
    let tallies = on_lanes(cuts, |number| {
        let case = number * cases / cuts.max(1);
        let (at, is_random) = (1 + case / (2 * levels), case % 2 == 1);
        let level = Level::of(case / 2);
        // Every cut has a workload of its own.
        cut_once(part(seed, case), level, at, is_random).unwrap_or_else(|fault| {
            panic!("{SEED_VARIABLE}={seed}, cut at {at}, {level:?}, random: {is_random}: {fault}")
        })
    });
    tell("cuts", &tallies, cases, (seed, started));
}

#[test]
fn nothing_durable_is_lost_when_the_power_fails_again_and_again() {
    if !is_possible() {
        return;
    }
    let (seed, started) = (seed(), Instant::now());
    let folders = number_from_environment("CAIRNDB_CUTS", CUTS_DEFAULT).div_ceil(2 * LIVES);
    let tallies = on_lanes(folders, |folder| {
        // In some folders only values are drawn: what else is synced would sync their reserves too.
        let values = (folder % 4 == 3).then_some(1);
        cut_lives(part(!seed, folder), LIVES, |task| Task { values, ..task })
            .unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, folder {folder}: {fault}"))
    });
    tell("lives", &tallies, folders * LIVES, (seed, started));
}

fn tell(what: &str, tallies: &[Tally], of: u64, (seed, started): (u64, Instant)) {
    let Tally { cuts, acknowledged, lost } = Tally::sum(tallies);
    say(&format!(
        "power: {what}: {cuts} cuts of {of}; {acknowledged} acknowledged operations checked, {lost} buffered ones \
         rightly lost, in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
    assert!(cuts > 0 && acknowledged > 0, "the children hardly wrote");
}
