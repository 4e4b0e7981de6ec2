//! The process is killed at every storage operation of a workload. The system lives on, so that every acknowledgement must
//! hold but those of writes that may stay in the memory of the process for a while, and nothing may be half done.

use std::collections::BTreeMap;
use std::time::Instant;

use cairndb_tests::choices::{Choices, SEED_VARIABLE, mix, number_from_environment, part, seed};
use cairndb_tests::race::on_lanes;

use crate::power::cuts::{operations_at_most, stop_at};
use crate::power::disk::{Aftermath, Image};
use crate::power::life::{Level, Task, live};
use crate::power::mount::is_possible;
use crate::power::say;

/// The process dies at one operation of so many, at each level.
const EACH_DEFAULT: u64 = 16;

#[test]
fn nothing_acknowledged_is_lost_at_whichever_operation_the_process_dies() {
    if !is_possible() {
        return;
    }
    let (seed, started) = (seed(), Instant::now());
    let each = number_from_environment("CAIRNDB_DEATHS_EACH", EACH_DEFAULT).max(1);
    let task = Task::small(&mut Choices::seeded(mix(seed)));
    let (operations, levels) = (operations_at_most(&task), Level::ALL.len() as u64);
    let deaths = on_lanes(operations.div_ceil(each) * levels, |number| {
        let (step, level) = (number / levels, Level::of(number));
        let at = 1 + step * each + part(seed, step) % each;
        let died = die(&Task { level, ..task }, at);
        died.unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, death at {at}, {level:?}: {fault}"))
    });
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    for met in deaths.iter().flatten() {
        *places.entry(met.clone()).or_default() += 1;
    }
    let total: u64 = places.values().sum();
    let mut places: Vec<(String, u64)> = places.into_iter().collect();
    places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let places: Vec<String> = places.into_iter().map(|(place, count)| format!("{place} {count}")).collect();
    say(&format!(
        "power: deaths: {total} at {levels} levels of {operations} operations in {:.0} s: {}; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64(),
        places.join(", ")
    ));
    assert!(total > 0 && places.len() > 5, "the deaths are of few kinds: {places:?}");
}

/// The end of the process, unless its work was done before.
fn die(task: &Task, at: u64) -> Result<Option<String>, String> {
    let lived = live(&Image::default(), task, Some(stop_at(at)))?;
    lived.judge(&mut task.oracle_of_process(), &Aftermath::Killed)?;
    Ok(lived.state.met)
}
