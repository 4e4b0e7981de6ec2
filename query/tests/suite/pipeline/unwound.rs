//! A `$lookup` with the `$unwind` of its array and the filter after both, in one stage, against the same stages kept apart.

use std::sync::Arc;

use bson::{Bson, Document, bson, doc, rawdoc};
use cairndb_query::operation::{Allowance, CancellationToken, OperationContext};
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::Error;
use cairndb_query::pipeline::foreign::Foreign;
use cairndb_query::pipeline::stream::{Given, Step, Stream};
use proptest::prelude::*;

use crate::pipeline::others::Others;
use crate::pipeline::{parse, raw, raws, variables};

/// The results of stages over `local`, with `parts` as the other collection.
fn joined(stages: &[Document], local: &[Document], parts: &[Document], has_index: bool) -> Vec<Document> {
    let parts: Arc<dyn Foreign<Error> + Send + Sync> = Others::new(raws(parts), has_index);
    let local = Given::new(raws(local).into_iter().map(Ok::<_, Error>));
    let results = parse(stages).expect("a pipeline").run_with(local, &parts);
    results.map(|result| Document::try_from(result.expect("a result")).expect("a document")).collect()
}

/// The same stages with one between all of them that does nothing, but keep them apart.
fn apart(stages: &[Document]) -> Vec<Document> {
    stages.iter().flat_map(|stage| [stage.clone(), doc! { "$skip": 0 }]).collect()
}

fn value() -> impl Strategy<Value = Option<Bson>> {
    let values = [
        bson!(0),
        bson!(1_i64),
        bson!(1.0),
        bson!("1"),
        bson!([]),
        bson!([0, 1]),
        bson!([[0], { "x": 1 }]),
        bson!({ "x": 1 }),
        bson!({ "0": 1, "x": [1, 2] }),
        bson!([{ "x": 0 }, { "x": [1] }]),
        Bson::Null,
        Bson::Undefined,
    ];
    proptest::option::weighted(0.9, proptest::sample::select(values.to_vec()))
}

/// Documents with random values in `names`.
fn documents(names: [&'static str; 3]) -> impl Strategy<Value = Vec<Document>> {
    let document = (value(), value(), value()).prop_map(move |(first, second, third)| {
        let fields = names.into_iter().zip([first, second, third]);
        fields.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Document>()
    });
    proptest::collection::vec(document, 0..7).prop_map(|mut documents| {
        for (number, document) in (0..).zip(&mut documents) {
            document.insert("_id", number);
        }
        documents
    })
}

/// A `$lookup` into `into`.
fn lookup(into: &'static str) -> impl Strategy<Value = Document> {
    let lookups = [
        doc! { "localField": "a", "foreignField": "x" },
        // A looked-up value is replaced.
        doc! { "localField": "c", "foreignField": "x" },
        doc! { "localField": "a", "foreignField": "x.x", "pipeline": [] },
        doc! { "localField": "a", "foreignField": "x", "pipeline": [{ "$match": { "y": { "$ne": 1 } } }] },
        doc! { "localField": "a", "foreignField": "x", "pipeline": [{ "$sort": { "_id": -1 } }, { "$limit": 2 }] },
        doc! { "let": { "a": "$a" }, "pipeline": [{ "$match": { "$expr": { "$eq": ["$x", "$$a"] } } }] },
        doc! { "let": { "a": "$a" }, "pipeline": [{ "$set": { "y": "$$a" } }] },
        doc! { "pipeline": [{ "$project": { "x": 1 } }] },
        doc! { "pipeline": [] },
        doc! { "pipeline": [{ "$match": { "_id": 99 } }] },
    ];
    proptest::sample::select(lookups.to_vec()).prop_map(move |mut lookup| {
        lookup.insert("from", "parts");
        lookup.insert("as", into);
        doc! { "$lookup": lookup }
    })
}

fn unwind(from: &'static str) -> impl Strategy<Value = Document> {
    let index =
        proptest::option::weighted(0.3, proptest::sample::select(vec!["i", "c", "c.i", "c.d.x", "a.x"]));
    (proptest::option::weighted(0.4, any::<bool>()), index).prop_map(move |(keeps, index)| {
        let mut unwind = doc! { "path": format!("${from}") };
        unwind.extend(keeps.map(|keeps| ("preserveNullAndEmptyArrays".to_owned(), keeps.into())));
        unwind.extend(index.map(|index| ("includeArrayIndex".to_owned(), index.into())));
        doc! { "$unwind": unwind }
    })
}

/// A condition on a field of what is found, or of the whole document.
fn condition(of: &'static str) -> impl Strategy<Value = Document> {
    let tests = [
        bson!(1),
        Bson::Null,
        bson!({ "$exists": false }),
        bson!({ "$gte": 1 }),
        bson!({ "$ne": 1 }),
        bson!({ "$in": [0, null] }),
        bson!({ "$type": "array" }),
        bson!({ "$size": 2 }),
        bson!({ "$elemMatch": { "$eq": 1 } }),
        bson!({ "$elemMatch": { "x": 1 } }),
        bson!({ "$not": { "$gt": 0 } }),
    ];
    let paths = ["x", "y", "x.x", "x.0", "_id", "z"];
    let inside = (proptest::sample::select(paths.to_vec()), proptest::sample::select(tests.to_vec()));
    let inside = inside.prop_map(move |(path, test)| doc! { format!("{of}.{path}"): test });
    let others = [
        doc! { "a": { "$ne": Bson::Null } },
        doc! { of: { "$type": "object" } },
        doc! { "$expr": { "$eq": [format!("${of}.x"), "$a"] } },
        doc! { "$expr": { "$ne": [format!("${of}.x"), 1] } },
        doc! { "$comment": "nothing" },
    ];
    let leaf = prop_oneof![5 => inside, 2 => proptest::sample::select(others.to_vec())];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let many = proptest::collection::vec(inner, 1..4);
        (proptest::sample::select(vec!["$and", "$or", "$nor"]), many)
            .prop_map(|(operator, parts)| doc! { operator: parts })
    })
}

fn pipeline() -> impl Strategy<Value = Vec<Document>> {
    proptest::sample::select(vec!["c", "c.d", "a", "new.d"]).prop_flat_map(|path| {
        let filters =
            proptest::collection::vec(condition(path).prop_map(|filter| doc! { "$match": filter }), 0..3);
        (lookup(path), unwind(path), filters)
            .prop_map(|(lookup, unwind, filters)| [lookup, unwind].into_iter().chain(filters).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_join_in_one_stage_gives_what_its_stages_give(
        stages in pipeline(),
        local in documents(["a", "c", "b"]),
        parts in documents(["x", "y", "z"]),
    ) {
        let expected = joined(&apart(&stages), &local, &parts, false);
        prop_assert_eq!(&joined(&stages, &local, &parts, false), &expected, "in a table");
        prop_assert_eq!(&joined(&stages, &local, &parts, true), &expected, "by an index");
    }
}

/// The stages as they are executed.
fn executed(stages: &[Document]) -> Vec<Document> {
    let pipeline = parse(stages).expect("a pipeline");
    let shown = (0..).zip(stages).filter_map(|(at, stage)| pipeline.executed_stage(at, &raw(stage)));
    shown.map(|stage| Document::try_from(&stage).expect("a document")).collect()
}

#[test]
fn filters_of_what_is_found_become_part_of_the_join() {
    let lookup = doc! { "from": "parts", "localField": "a", "foreignField": "x", "as": "c" };
    let with = |more: Document| {
        let mut lookup = lookup.clone();
        lookup.extend(more);
        doc! { "$lookup": lookup }
    };
    let join = [doc! { "$lookup": lookup.clone() }, doc! { "$unwind": "$c" }];
    let dropping = doc! { "preserveNullAndEmptyArrays": false };
    let of = |filter: Document| {
        executed(&[join[0].clone(), join[1].clone(), doc! { "$match": filter }, doc! { "$count": "n" }])
    };
    let count = doc! { "$count": "n" };

    let matching = doc! { "unwinding": dropping.clone(), "matching": { "y": { "$gt": 1 } } };
    assert_eq!(of(doc! { "c.y": { "$gt": 1 } }), [with(matching), count.clone()]);
    let matching = doc! { "unwinding": dropping.clone(), "matching": { "y": 1 } };
    assert_eq!(of(doc! { "c.y": 1, "a": 2 }), [with(matching), doc! { "$match": { "a": 2 } }, count.clone()]);
    let alone = doc! { "unwinding": dropping };
    let expr = doc! { "$expr": { "$eq": ["$c.y", 1] } };
    assert_eq!(of(expr.clone()), [with(alone), doc! { "$match": expr }, count]);

    // The array of a document without results is not the same before the filter and after it.
    let kept = doc! { "$unwind": { "path": "$c", "preserveNullAndEmptyArrays": true } };
    let filter = doc! { "$match": { "c.y": 1 } };
    let kept = executed(&[join[0].clone(), kept, filter.clone()]);
    assert_eq!(kept, [with(doc! { "unwinding": { "preserveNullAndEmptyArrays": true } }), filter.clone()]);
    // A position is that among all that was found.
    let numbered = doc! { "$unwind": { "path": "$c", "includeArrayIndex": "i" } };
    let numbered = executed(&[join[0].clone(), numbered, filter.clone()]);
    let unwinding = doc! { "preserveNullAndEmptyArrays": false, "includeArrayIndex": "i" };
    assert_eq!(numbered, [with(doc! { "unwinding": unwinding }), filter]);
    // Another array, and another stage in between.
    let other = [join[0].clone(), doc! { "$unwind": "$c.x" }];
    assert_eq!(executed(&other), other);
    let between = [join[0].clone(), doc! { "$limit": 3 }, join[1].clone()];
    assert_eq!(executed(&between), between);
    // Of two in a row only the first is of the array.
    let twice = executed(&[join[0].clone(), join[1].clone(), join[1].clone()]);
    assert_eq!(twice.last(), Some(&join[1]));
    assert_eq!(twice.len(), 2);
}

#[test]
fn what_is_found_need_not_fit_one_document() {
    let text = "x".repeat(1 << 20);
    let parts: Vec<Document> = (0..20).map(|number| doc! { "_id": number, "x": 1, "text": &text }).collect();
    let lookup = doc! { "$lookup": { "from": "parts", "localField": "a", "foreignField": "x", "as": "c" } };
    let unwind = doc! { "$unwind": { "path": "$c", "includeArrayIndex": "i" } };
    for has_index in [false, true] {
        let stages = [lookup.clone(), unwind.clone(), doc! { "$project": { "i": 1, "n": "$c._id" } }];
        let found = joined(&stages, &[doc! { "a": 1 }, doc! { "a": 2 }], &parts, has_index);
        let expected: Vec<Document> =
            (0..20).map(|number| doc! { "i": i64::from(number), "n": number }).collect();
        assert_eq!(found, expected);
    }
    // The array itself does not fit, and neither does a result that is larger than a document.
    let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Others::new(raws(&parts), true);
    let fails = |stages: &[Document], local: Document| {
        let local = Given::new([Ok::<_, Error>(raw(&local))].into_iter());
        let results = parse(stages).expect("a pipeline").run_with(local, &foreign);
        results.collect::<Result<Vec<_>, _>>().expect_err("too large").code().number()
    };
    assert_eq!(fails(std::slice::from_ref(&lookup), doc! { "a": 1 }), 4568);
    assert_eq!(fails(&[lookup, unwind], doc! { "a": 1, "more": text.repeat(15) + &text[..1 << 19] }), 10334);
}

#[test]
fn results_are_handed_out_one_by_one_and_can_be_interrupted() {
    let documents = vec![rawdoc! { "x": 1 }; 100_000];
    let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Others::new(documents, true);
    let operation = OperationContext::new(Allowance { bytes: Some(1 << 20), ..Allowance::default() });
    let stages = raws(&[
        doc! { "$lookup": { "from": "parts", "localField": "a", "foreignField": "x", "as": "c" } },
        doc! { "$unwind": "$c" },
    ]);
    let pipeline = Pipeline::parse(&stages, &variables().within(operation.clone())).expect("a pipeline");
    let local = Given::new([Ok::<_, Error>(rawdoc! { "a": 1 })].into_iter());
    let mut results = pipeline.run_with(local, &foreign);
    let mut seen = 0;
    while results.advance().expect("a result") == Step::Document {
        seen += 1;
    }
    // Their array would be larger than the memory of the operation.
    assert_eq!(seen, 100_000);
    assert!(operation.bytes_reserved() < 1 << 18, "{}", operation.bytes_reserved());

    let token = CancellationToken::new();
    let operation = OperationContext::new(Allowance { tokens: vec![token.clone()], ..Allowance::default() });
    let pipeline = Pipeline::parse(&stages, &variables().within(operation)).expect("a pipeline");
    let local = Given::new([Ok::<_, Error>(rawdoc! { "a": 1 })].into_iter());
    let mut results = pipeline.run_with(local, &foreign);
    assert!(results.next().expect("a result").is_ok());
    token.cancel();
    let rest = results.take_while(Result::is_ok).count();
    assert!(rest < 1_000, "{rest} results after the cancellation");
}
