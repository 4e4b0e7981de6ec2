//! Naive versions of stages, by which the tests and the fuzz target `pipeline` judge: joins, and a search of a graph, that compare
//! every document with every value, windows that are looked at as a whole for each document, and values on a line.

#![expect(clippy::indexing_slicing, reason = "a wrong place is a failure of the test")]

use std::cmp::Ordering;

use bson::{Bson, Document, RawBson, doc};

pub(crate) fn compare(left: &Bson, right: &Bson) -> Ordering {
    let [left, right] =
        [left, right].map(|value| RawBson::try_from(value.clone()).expect("a value that can be written"));
    index::order::compare(left.as_raw_bson_ref(), right.as_raw_bson_ref())
}

pub(crate) fn is_equal(left: &Bson, right: &Bson) -> bool {
    compare(left, right).is_eq()
}

/// Whether a value of the local document finds this foreign one, by the rule of `localField` and `foreignField`.
pub(crate) fn joins(local: Option<&Bson>, foreign: Option<&Bson>) -> bool {
    let wanted = match local {
        Some(Bson::Array(values)) if !values.is_empty() => values.clone(),
        Some(Bson::Array(_)) | None => vec![Bson::Null],
        Some(value) => vec![value.clone()],
    };
    let mut offered = vec![foreign.cloned().unwrap_or(Bson::Null)];
    if let Some(Bson::Array(values)) = foreign {
        offered.extend(values.clone());
    }
    wanted.iter().any(|wanted| offered.iter().any(|offered| is_equal(wanted, offered)))
}

/// The values that a field leads to: the elements of an array, and of a missing field none.
fn leads_to(value: Option<&Bson>) -> Vec<Bson> {
    match value {
        Some(Bson::Array(elements)) => elements.clone(),
        Some(value) => vec![value.clone()],
        None => Vec::new(),
    }
}

/// Whether a field is found by a value. A missing one is found by none.
fn is_found(field: Option<&Bson>, value: &Bson) -> bool {
    let Some(field) = field else { return false };
    let elements = field.as_array().cloned().unwrap_or_default();
    std::iter::once(field).chain(&elements).any(|offered| is_equal(offered, value))
}

/// The nodes that are reached from `start`, by comparing each node with each value in each step.
pub(crate) fn reached(
    start: Option<&Bson>,
    nodes: &[Document],
    depth_max: Option<i64>,
    least: i32,
) -> Vec<Document> {
    let mut reached: Vec<Document> = Vec::new();
    let (mut values, mut depth) = (leads_to(start), 0_i64);
    while !values.is_empty() && depth_max.is_none_or(|max| depth <= max) {
        let is_new = |node: &&Document| reached.iter().all(|old| old.get("_id") != node.get("_id"));
        let matches = |node: &&Document| {
            node.get_i32("k").is_ok_and(|k| k >= least)
                && values.iter().any(|value| is_found(node.get("to"), value))
        };
        let step: Vec<Document> = nodes.iter().filter(is_new).filter(matches).cloned().collect();
        values = step.iter().flat_map(|node| leads_to(node.get("next"))).collect();
        reached.extend(step.into_iter().map(|mut node| {
            node.insert("depth", depth);
            node
        }));
        depth += 1;
    }
    reached
}

/// The bounds of a window, as numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Window {
    Documents(Option<i64>, Option<i64>),
    Range(Option<i64>, Option<i64>),
}

impl Window {
    pub(crate) fn given(self) -> Document {
        let bound = |bound: Option<i64>| bound.map_or(Bson::from("unbounded"), Bson::Int64);
        match self {
            Self::Documents(lower, upper) => doc! { "documents": [bound(lower), bound(upper)] },
            Self::Range(lower, upper) => doc! { "range": [bound(lower), bound(upper)] },
        }
    }

    /// Whether the document at `other` is in the window of the one at `current`.
    pub(crate) fn holds(self, sorted: &[Document], current: usize, other: usize) -> bool {
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

/// The operators that have a naive version.
pub(crate) const OPERATORS: [&str; 17] = [
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

/// The argument of an operator.
pub(crate) fn argument(operator: &str) -> Bson {
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
pub(crate) fn integer(document: &Document) -> Option<i64> {
    document.get("v").and_then(Bson::as_i32).map(i64::from)
}

/// The result of an operator for a window.
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
pub(crate) fn of_window(operator: &str, window: &[&Document]) -> Bson {
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

/// Whether two values are the same up to what doubles lose.
pub(crate) fn is_same(found: &Bson, expected: &Bson) -> bool {
    match (found, expected) {
        (Bson::Double(found), Bson::Double(expected)) => (found - expected).abs() < 1e-9,
        (Bson::Array(found), Bson::Array(expected)) if found.len() == expected.len() => {
            found.iter().zip(expected).all(|(found, expected)| is_same(found, expected))
        }
        // A sum that never moved may be of any type of integers.
        _ => compare(found, expected).is_eq(),
    }
}

/// The partitions in the order in which they come out, each sorted by `t`.
pub(crate) fn partitions(documents: &[Document]) -> Vec<Vec<Document>> {
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

/// The value of a document on the line between the values on both sides of it.
pub(crate) fn line(sorted: &[&Document], current: usize) -> Bson {
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
