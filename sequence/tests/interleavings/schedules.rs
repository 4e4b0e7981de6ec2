//! The number of schedules that a run of the interleavings tries, and from which seed. The engine's suite has this
//! file too.

use std::hash::{BuildHasher, RandomState};

/// The number of schedules of each kind that a scenario gets.
const SCHEDULES_VARIABLE: &str = "CAIRNDB_SCHEDULES";
/// The seed of a run; any number unless the variable says which.
const SEED_VARIABLE: &str = "CAIRNDB_SEED";

/// The schedules of a scenario.
pub(crate) struct Schedules {
    /// Of each kind.
    pub(crate) count: usize,
    pub(crate) seed: u64,
}

impl Schedules {
    /// So many, unless the variable says otherwise. The harness prints the seed where a test fails; it tries the same ones again.
    pub(crate) fn given_or(count: usize) -> Self {
        let asked = given(SCHEDULES_VARIABLE).and_then(|given| usize::try_from(given).ok());
        let count = asked.unwrap_or(count);
        let seed = given(SEED_VARIABLE).unwrap_or_else(|| RandomState::new().hash_one(count) >> 16);
        println!("interleavings: {count} orders of each kind; {SEED_VARIABLE}={seed}");
        Self { count, seed }
    }
}

/// The number in an environment variable.
fn given(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.trim().parse().unwrap_or_else(|error| panic!("{variable}={text:?}: {error}")))
}
