//! Random histories: the engine against a naive model, which is compared after every operation.
//!
//! `CAIRNDB_MODEL_RUNS` says how many histories, `CAIRNDB_SEED` replays them.

mod sessions;

use std::io::{self, Write};
use std::time::Instant;

use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::model::{Outcome, run};

const RUNS_DEFAULT: u64 = 700;
const WORKERS: u64 = 2;

/// Many short histories, and a long one now and then.
fn history(seed: u64, number: u64) -> Outcome {
    let seed = part(seed, number);
    let operations = if number % 50 == 49 { 2000 } else { 20 + usize::try_from(seed % 180).expect("small") };
    run(Choices::seeded(seed), operations)
}

#[test]
fn random_histories_agree_with_the_model() {
    let runs = number_from_environment("CAIRNDB_MODEL_RUNS", RUNS_DEFAULT);
    let seed = seed();
    let started = Instant::now();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn(move || {
                    let mine = (0..runs).filter(|number| number % WORKERS == worker);
                    mine.map(|number| history(seed, number)).collect::<Vec<_>>()
                })
            })
            .collect();
        let replay = format!("replay with {SEED_VARIABLE}={seed}");
        workers.into_iter().flat_map(|worker| worker.join().expect(&replay)).collect()
    });
    let _ = writeln!(
        io::stderr(),
        "model: {} histories, {} operations, {} reopens in {:.0} s; {SEED_VARIABLE}={seed}",
        outcomes.len(),
        outcomes.iter().map(|outcome| outcome.operations).sum::<usize>(),
        outcomes.iter().map(|outcome| outcome.reopens).sum::<usize>(),
        started.elapsed().as_secs_f64()
    );
    assert_eq!(outcomes.len() as u64, runs);
}

#[test]
fn the_same_seed_leaves_the_same_documents() {
    let seed = seed();
    for number in 0..10 {
        assert_eq!(history(seed, number), history(seed, number), "{SEED_VARIABLE}={seed}, history {number}");
    }
}
