//! `$setWindowFields` and `$fill` against naive versions that look at the whole window for each document.

#![expect(clippy::indexing_slicing, reason = "a wrong place is a failure of the test")]

use std::cmp::Ordering;

use bson::{Bson, Document, RawBson, doc};
use proptest::prelude::*;

use crate::run;

fn compare(left: &Bson, right: &Bson) -> Ordering {
    let [left, right] =
        [left, right].map(|value| RawBson::try_from(value.clone()).expect("a value that can be written"));
    index::order::compare(left.as_raw_bson_ref(), right.as_raw_bson_ref())
}

/// The bounds of a window, as numbers.
#[derive(Clone, Copy, Debug)]
enum Window {
    Documents(Option<i64>, Option<i64>),
    Range(Option<i64>, Option<i64>),
}

impl Window {
    fn given(self) -> Document {
        let bound = |bound: Option<i64>| bound.map_or(Bson::from("unbounded"), Bson::Int64);
        match self {
            Self::Documents(lower, upper) => doc! { "documents": [bound(lower), bound(upper)] },
            Self::Range(lower, upper) => doc! { "range": [bound(lower), bound(upper)] },
        }
    }

    /// Whether the document at `other` is in the window of the one at `current`.
    fn holds(self, sorted: &[Document], current: usize, other: usize) -> bool {
        let place = |place: usize| i64::try_from(place).expect("few documents");
        let (lower, upper, distance) = match self {
            Self::Documents(lower, upper) => (lower, upper, place(other) - place(current)),
            Self::Range(lower, upper) => {
                let t = |at: usize| sorted[at].get_i64("t").expect("a number");
                (lower, upper, t(other) - t(current))
            }
        };
        lower.is_none_or(|lower| lower <= distance) && upper.is_none_or(|upper| distance <= upper)
    }
}

const OPERATORS: [&str; 17] = [
    "$sum",
    "$avg",
    "$min",
    "$max",
    "$push",
    "$addToSet",
    "$count",
    "$first",
    "$last",
    "$minN",
    "$topN",
    "$stdDevPop",
    "$covariancePop",
    "$median",
    "$percentile",
    "$concatArrays",
    "$setUnion",
];

fn argument(operator: &str) -> Bson {
    match operator {
        "$count" => doc! {}.into(),
        "$minN" => doc! { "n": 2, "input": "$v" }.into(),
        "$topN" => doc! { "n": 2, "output": "$n", "sortBy": { "v": -1 } }.into(),
        "$covariancePop" => vec!["$t", "$v"].into(),
        "$median" => doc! { "input": "$v", "method": "approximate" }.into(),
        "$percentile" => doc! { "input": "$v", "p": [0.3, 1], "method": "continuous" }.into(),
        // Of one group there is no array at all.
        "$concatArrays" | "$setUnion" => {
            doc! { "$cond": [{ "$eq": ["$k", 1] }, "$none", ["$v", "$t", 1]] }.into()
        }
        _ => "$v".into(),
    }
}

/// The number of a value. The values of this test are integers, null or missing.
fn integer(document: &Document) -> Option<i64> {
    document.get("v").and_then(Bson::as_i32).map(i64::from)
}

#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn naive(operator: &str, window: &[&Document]) -> Bson {
    let numbers: Vec<i64> = window.iter().filter_map(|document| integer(document)).collect();
    let count = numbers.len() as f64;
    let present: Vec<Bson> = window.iter().filter_map(|document| document.get("v").cloned()).collect();
    let mut values: Vec<Bson> =
        numbers.iter().map(|number| Bson::Int32(i32::try_from(*number).expect("small and there"))).collect();
    values.sort_by(compare);
    let small = |number: i64| Bson::Int32(i32::try_from(number).expect("a small number"));
    let value = |document: Option<&&Document>| {
        document.and_then(|document| document.get("v").cloned()).unwrap_or(Bson::Null)
    };
    if numbers.is_empty() && ["$avg", "$stdDevPop", "$covariancePop", "$median"].contains(&operator) {
        return Bson::Null;
    }
    match operator {
        "$sum" => small(numbers.iter().sum()),
        "$avg" => Bson::Double(numbers.iter().sum::<i64>() as f64 / count),
        "$min" => values.first().cloned().unwrap_or(Bson::Null),
        "$max" => values.last().cloned().unwrap_or(Bson::Null),
        "$push" => present.into(),
        "$addToSet" => {
            let mut distinct = present;
            distinct.sort_by(compare);
            distinct.dedup_by(|one, other| compare(one, other).is_eq());
            distinct.into()
        }
        "$count" => small(i64::try_from(window.len()).expect("small and there")),
        "$first" => value(window.first()),
        "$last" => value(window.last()),
        "$minN" => values.into_iter().take(2).collect::<Vec<_>>().into(),
        "$topN" => {
            let mut sorted: Vec<&&Document> = window.iter().collect();
            sorted.sort_by(|one, other| compare(&value(Some(other)), &value(Some(one))));
            sorted
                .into_iter()
                .take(2)
                .map(|document| document.get("n").cloned().expect("small and there"))
                .collect::<Vec<_>>()
                .into()
        }
        "$stdDevPop" => {
            let mean = numbers.iter().sum::<i64>() as f64 / count;
            let squares: f64 = numbers.iter().map(|number| (*number as f64 - mean).powi(2)).sum();
            Bson::Double((squares / count).sqrt())
        }
        "$median" | "$percentile" => naive_percentile(operator, numbers),
        "$concatArrays" | "$setUnion" => naive_elements(operator, window),
        "$covariancePop" => {
            let pairs: Vec<(f64, f64)> = window
                .iter()
                .filter_map(|document| Some((document.get_i64("t").ok()? as f64, integer(document)? as f64)))
                .collect();
            let means =
                pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0 / count, sum.1 + pair.1 / count));
            let products: f64 = pairs.iter().map(|pair| (pair.0 - means.0) * (pair.1 - means.1)).sum();
            Bson::Double(products / count)
        }
        other => panic!("{other} has no naive version"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn naive_percentile(operator: &str, mut numbers: Vec<i64>) -> Bson {
    numbers.sort_unstable();
    let Some(last) = numbers.len().checked_sub(1) else { return vec![Bson::Null; 2].into() };
    if operator == "$median" {
        return Bson::Double(numbers[last / 2] as f64);
    }
    // The place of the share 0.3 among the distances between the numbers, in tenths.
    let (whole, tenths) = (3 * last / 10, 3 * last % 10);
    let next = numbers[(whole + 1).min(last)] - numbers[whole];
    vec![numbers[whole] as f64 + next as f64 * tenths as f64 / 10.0, numbers[last] as f64].into()
}

fn naive_elements(operator: &str, window: &[&Document]) -> Bson {
    let arrays = window.iter().filter(|document| document.get_i32("k").is_ok_and(|k| k != 1));
    let elements = arrays.flat_map(|document| {
        let of = |name: &str| document.get(name).cloned().unwrap_or(Bson::Null);
        [of("v"), of("t"), Bson::Int32(1)]
    });
    let mut elements: Vec<Bson> = elements.collect();
    if operator == "$setUnion" {
        elements.sort_by(compare);
        elements.dedup_by(|one, other| compare(one, other).is_eq());
    }
    elements.into()
}

fn is_same(found: &Bson, expected: &Bson) -> bool {
    match (found, expected) {
        (Bson::Double(found), Bson::Double(expected)) => (found - expected).abs() < 1e-9,
        (Bson::Array(found), Bson::Array(expected)) if found.len() == expected.len() => {
            found.iter().zip(expected).all(|(found, expected)| is_same(found, expected))
        }
        // A sum that never moved may be of any type of integers.
        _ => compare(found, expected).is_eq(),
    }
}

fn documents() -> impl Strategy<Value = Vec<Document>> {
    let value = proptest::option::of(proptest::option::of(-5..5_i32));
    let document = (0..3_i32, 0..12_i64, value);
    proptest::collection::vec(document, 0..40).prop_map(|rows| {
        let rows = rows.into_iter().enumerate().map(|(n, (k, t, v))| {
            let mut document = doc! { "n": i32::try_from(n).expect("few documents"), "k": k, "t": t };
            if let Some(v) = v {
                document.insert("v", v.map_or(Bson::Null, Bson::Int32));
            }
            document
        });
        rows.collect()
    })
}

fn window() -> impl Strategy<Value = Window> {
    let bound = || proptest::option::of(-4..5_i64);
    let ordered = (bound(), bound()).prop_map(|(one, other)| match (one, other) {
        (Some(one), Some(other)) => (Some(one.min(other)), Some(one.max(other))),
        other => other,
    });
    (ordered, any::<bool>()).prop_map(|((lower, upper), by_documents)| {
        if by_documents { Window::Documents(lower, upper) } else { Window::Range(lower, upper) }
    })
}

/// The partitions in the order in which they come out, each sorted by `t`.
fn partitions(documents: &[Document]) -> Vec<Vec<Document>> {
    let of = |k: i32| {
        let mut sorted: Vec<Document> = documents
            .iter()
            .filter(|document| document.get_i32("k").is_ok_and(|found| found == k))
            .cloned()
            .collect();
        sorted.sort_by_key(|document| document.get_i64("t").expect("a number"));
        sorted
    };
    (0..3).map(of).filter(|partition| !partition.is_empty()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn windows_give_what_naive_ones_give(documents in documents(), window in window(), at in 0..OPERATORS.len()) {
        let operator = OPERATORS[at];
        let output = doc! { operator: argument(operator), "window": window.given() };
        let stage = doc! { "$setWindowFields": {
            "partitionBy": { "$add": ["$k", 0] }, "sortBy": { "t": 1 }, "output": { "x": output },
        } };
        let found = run(&[stage], &documents).expect("windows");
        let mut expected = Vec::new();
        for sorted in partitions(&documents) {
            for current in 0..sorted.len() {
                let holds = |other: &usize| window.holds(&sorted, current, *other);
                let inside: Vec<&Document> = (0..sorted.len()).filter(holds).map(|other| &sorted[other]).collect();
                expected.push((sorted[current].clone(), naive(operator, &inside)));
            }
        }
        prop_assert_eq!(found.len(), expected.len());
        for (mut found, (document, expected)) in found.into_iter().zip(expected) {
            let mut x = found.remove("x").expect("it was computed");
            // The order of a set is not specified.
            if let (Bson::Array(values), "$addToSet" | "$setUnion") = (&mut x, operator) {
                values.sort_by(compare);
            }
            prop_assert_eq!(&found, &document);
            prop_assert!(is_same(&x, &expected), "{operator} {window:?}: {x} and not {expected}");
        }
    }

    #[test]
    fn numbers_and_shifts_give_what_naive_ones_give(documents in documents(), by in -3..4_i64) {
        let stage = doc! { "$setWindowFields": { "partitionBy": "$k", "sortBy": { "t": 1 }, "output": {
            "rank": { "$rank": {} }, "dense": { "$denseRank": {} }, "number": { "$documentNumber": {} },
            "shift": { "$shift": { "output": "$n", "by": by, "default": "none" } }, "last": { "$locf": "$v" },
        } } };
        let found = run(&[stage], &documents).expect("windows");
        let mut expected = Vec::new();
        for sorted in partitions(&documents) {
            let t = |at: usize| sorted[at].get_i64("t").expect("a number");
            for at in 0..sorted.len() {
                let small = |count: usize| i32::try_from(count).expect("few documents");
                let before = (0..at).filter(|other| t(*other) < t(at)).count();
                let steps = (1..=at).filter(|other| t(*other) != t(*other - 1)).count();
                let shifted = usize::try_from(i64::try_from(at).expect("small and there") + by).ok().and_then(|to| sorted.get(to));
                let last = sorted[..=at].iter().rev().find_map(integer);
                let mut document = sorted[at].clone();
                document.insert("rank", small(before + 1));
                document.insert("dense", small(steps + 1));
                document.insert("number", small(at + 1));
                document.insert("shift", shifted.map_or("none".into(), |to| to.get("n").cloned().expect("small and there")));
                document.insert("last", last.map_or(Bson::Null, |last| Bson::Int32(i32::try_from(last).expect("small and there"))));
                expected.push(document);
            }
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn fillings_give_what_naive_ones_give(documents in documents()) {
        // A line needs different values to sort by: the number of the document.
        let stage = doc! { "$fill": { "partitionByFields": ["k"], "sortBy": { "n": 1 }, "output": {
            "v": { "method": "linear" }, "w": { "value": "$v" },
        } } };
        let last = doc! { "$fill": { "partitionByFields": ["k"], "sortBy": { "n": 1 }, "output": {
            "v": { "method": "locf" },
        } } };
        let lines = run(&[stage], &documents).expect("lines");
        let lasts = run(&[last], &documents).expect("last values");
        let mut at = 0;
        for k in 0..3 {
            let of = |document: &&Document| document.get_i32("k").is_ok_and(|found| found == k);
            let sorted: Vec<&Document> = documents.iter().filter(of).collect();
            for current in 0..sorted.len() {
                let (line, last) = (&lines[at], &lasts[at]);
                at += 1;
                let expected = naive_line(&sorted, current);
                let value = |document: &Document, name: &str| document.get(name).cloned().expect("it was filled");
                prop_assert!(is_same(&value(line, "v"), &expected), "{line} and not {expected}");
                prop_assert!(is_same(&value(line, "w"), &expected), "{line} and not {expected}");
                let expected = sorted[..=current].iter().rev().find_map(|document| integer(document));
                let found = value(last, "v");
                prop_assert_eq!(found.as_i32().map(i64::from), expected);
            }
        }
        prop_assert_eq!((at, at), (lines.len(), lasts.len()));
    }
}

/// The value of a document on the line between the values on both sides of it.
fn naive_line(sorted: &[&Document], current: usize) -> Bson {
    let x = |document: &Document| f64::from(document.get_i32("n").expect("a number"));
    let point = |document: &&Document| document.get_i32("v").ok().map(|y| (x(document), f64::from(y)));
    if let Some(value) = sorted[current].get("v").filter(|value| value.as_i32().is_some()) {
        return value.clone();
    }
    let left = sorted[..current].iter().rev().find_map(point);
    let right = sorted[current..].iter().find_map(point);
    match (left, right) {
        (Some(left), Some(right)) => {
            let slope = (right.1 - left.1) / (right.0 - left.0);
            Bson::Double(left.1 + (x(sorted[current]) - left.0) * slope)
        }
        _ => Bson::Null,
    }
}
