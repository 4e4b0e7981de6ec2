//! Approximate percentiles of many numbers, as a table: another release of the library that computes them may give other ones,
//! and then answers of the same documents would change with an update.

use bson::doc;

use super::check;

/// More than are kept one by one. 7919 is prime, so that all remainders come, each once and in no order.
const COUNT: i32 = 20_011;

#[test]
fn approximate_percentiles_are_those_of_the_table() {
    let documents: Vec<_> = (0..COUNT).map(|number| doc! { "n": number * 7_919 % COUNT }).collect();
    let percentile =
        doc! { "input": "$n", "p": [0.0, 0.001, 0.25, 0.5, 0.9, 0.999, 1.0], "method": "approximate" };
    let group = doc! { "$group": { "_id": null, "p": { "$percentile": percentile } } };
    let expected = doc! { "_id": null, "p": [0.0, 20.0, 5_001.114_219_114_219, 10_005.102_564_102_564, 18_008.823_529_411_762, 19_990.0, 20_010.0] };
    check(&[group], &documents, &[expected]);
}
