//! Any bytes as the rows that repeated writes are answered from. The same is fuzzed.

use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::rows;

const DAMAGED_DEFAULT: u64 = 400;

#[test]
fn any_bytes_in_the_place_of_a_row_are_a_row_or_named() {
    let (seed, damaged) = (seed(), number_from_environment("CAIRNDB_DAMAGED_ROWS", DAMAGED_DEFAULT));
    for number in 0..damaged {
        let run = || rows::run(&mut Choices::seeded(part(seed, number)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("{SEED_VARIABLE}={seed}, number {number}");
            std::panic::resume_unwind(panic);
        }
    }
}
