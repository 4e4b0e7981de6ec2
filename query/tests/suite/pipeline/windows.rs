//! `$setWindowFields` and `$fill` against naive versions that look at the whole window for each document.

use bson::{Bson, Document, doc};
use proptest::prelude::*;

use crate::pipeline::naive::{
    OPERATORS, Window, argument, compare, integer, is_same, line, of_window, partitions,
};
use crate::pipeline::run;

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
                expected.push((sorted[current].clone(), of_window(operator, &inside)));
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
                let (lined, last) = (&lines[at], &lasts[at]);
                at += 1;
                let expected = line(&sorted, current);
                let value = |document: &Document, name: &str| document.get(name).cloned().expect("it was filled");
                prop_assert!(is_same(&value(lined, "v"), &expected), "{lined} and not {expected}");
                prop_assert!(is_same(&value(lined, "w"), &expected), "{lined} and not {expected}");
                let expected = sorted[..=current].iter().rev().find_map(|document| integer(document));
                let found = value(last, "v");
                prop_assert_eq!(found.as_i32().map(i64::from), expected);
            }
        }
        prop_assert_eq!((at, at), (lines.len(), lasts.len()));
    }
}
