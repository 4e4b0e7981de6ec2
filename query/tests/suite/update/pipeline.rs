//! Updates by a pipeline.

use bson::{Document, RawBson, RawDocumentBuf, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::update::error::Error;
use cairndb_query::update::{Phase, Update, unknown_stage};

use crate::update::{NOW, context, raw};

fn parse(stages: &[Document]) -> Result<Update, Error> {
    let variables = Variables::new(NOW);
    let variables = variables.with_let(&raw(&doc! { "five": 5 })).expect("a variable");
    Update::parse_pipeline(&stages.iter().map(raw).collect::<Vec<_>>(), &[], &variables)
}

fn apply(stages: &[Document], document: &Document) -> Result<Option<RawDocumentBuf>, Error> {
    parse(stages)?.apply(&raw(document), &context(Phase::Modify))
}

#[track_caller]
fn check(stages: &[Document], before: &Document, after: &Document) {
    match apply(stages, before) {
        Ok(changed) => assert_eq!(changed, Some(raw(after)), "{stages:?} of {before}"),
        Err(error) => panic!("{stages:?} of {before} is refused: {error}"),
    }
}

#[track_caller]
fn check_error(stages: &[Document], document: &Document, code: i32, text: &str) {
    let error = apply(stages, document).expect_err("an update that is refused");
    assert_eq!((error.code().number(), error.to_string().as_str()), (code, text), "{stages:?} of {document}");
}

#[test]
fn stages_follow_each_other() {
    let document = doc! { "_id": 1, "a": 2, "b": 3 };
    check(
        &[doc! { "$set": { "sum": { "$add": ["$a", "$b"] } } }],
        &document,
        &doc! { "_id": 1, "a": 2, "b": 3, "sum": 5 },
    );
    check(
        &[
            doc! { "$addFields": { "c": { "$add": ["$a", "$$five"] } } },
            doc! { "$unset": ["a", "b"] },
            doc! { "$set": { "d": "$c" } },
        ],
        &document,
        &doc! { "_id": 1, "c": 7, "d": 7 },
    );
    check(&[doc! { "$project": { "b": 1 } }], &document, &doc! { "_id": 1, "b": 3 });
    check(&[doc! { "$unset": "a" }], &document, &doc! { "_id": 1, "b": 3 });
    check(&[doc! { "$set": { "at": "$$NOW" } }], &doc! { "_id": 1 }, &doc! { "_id": 1, "at": NOW });
    check(&[doc! { "$replaceWith": { "x": "$a" } }], &document, &doc! { "_id": 1, "x": 2 });
    check(
        &[doc! { "$replaceRoot": { "newRoot": { "$mergeObjects": [{ "z": 0 }, "$$ROOT"] } } }],
        &document,
        &doc! { "_id": 1, "z": 0, "a": 2, "b": 3 },
    );
}

#[test]
fn equal_bytes_are_no_change() {
    let document = doc! { "_id": 1, "a": 2 };
    assert_eq!(apply(&[], &document), Ok(None));
    assert_eq!(apply(&[doc! { "$set": { "a": 2, "_id": "$_id" } }], &document), Ok(None));
    assert_eq!(apply(&[doc! { "$unset": "b" }], &document), Ok(None));
    assert_eq!(apply(&[doc! { "$replaceWith": { "a": 2, "_id": 1 } }], &document), Ok(None));
}

#[test]
fn the_id_stays_in_front() {
    let document = doc! { "_id": 1, "a": 2 };
    check(&[doc! { "$project": { "_id": 0 , "a": "x" } }], &document, &doc! { "_id": 1, "a": "x" });
    check(&[doc! { "$replaceWith": { "b": 1, "_id": 1_i64 } }], &document, &doc! { "_id": 1, "b": 1 });
    let text = "Performing an update on the path '_id' would modify the immutable field '_id'";
    check_error(&[doc! { "$set": { "_id": 2 } }], &document, 66, text);
    let inserted = parse(&[doc! { "$set": { "b": 1, "_id": 7 } }]).unwrap();
    let inserted = inserted.apply(&raw(&doc! { "a": 1 }), &context(Phase::Insert)).unwrap();
    assert_eq!(inserted, Some(raw(&doc! { "_id": 7, "a": 1, "b": 1 })));
}

#[test]
fn stages_are_checked() {
    let check = |stage: Document, code: i32, fault: &str| {
        check_error(
            &[doc! { "$set": { "a": 1 } }, stage],
            &doc! {},
            code,
            &format!("stage 1 of the update: {fault}"),
        );
    };
    check(doc! {}, 40_323, "a pipeline stage specification object must contain exactly one field");
    check(
        doc! { "$set": {}, "$unset": "a" },
        40_323,
        "a pipeline stage specification object must contain exactly one field",
    );
    check(doc! { "$foo": 1 }, 40_324, "Unrecognized pipeline stage name: '$foo'");
    check(doc! { "set": 1 }, 40_324, "Unrecognized pipeline stage name: 'set'");
    check(doc! { "$match": {} }, 72, "$match is not allowed to be used within an update");
    check(doc! { "$lookup": {} }, 72, "$lookup is not allowed to be used within an update");
    check(doc! { "$fill": {} }, 238, "stage $fill is not supported");
    check(doc! { "$set": 1 }, 40_272, "$set needs an object, not 1");
    check(doc! { "$project": 1 }, 15_969, "$project needs an object, not 1");
    check(doc! { "$project": {} }, 51_272, "projection specification must have at least one field");
    let unset = |found: &str| format!("$unset needs a field's name or an array of such, not {found}");
    check(doc! { "$unset": 1 }, 31_002, &unset("1"));
    check(doc! { "$unset": [] }, 31_119, &unset("an array"));
    check(doc! { "$unset": ["a", 1] }, 31_120, &unset("an array"));
    check(doc! { "$replaceRoot": 1 }, 40_229, "$replaceRoot needs an object, not 1");
    check(doc! { "$replaceRoot": { "root": 1 } }, 40_415, "unrecognized option to $replaceRoot: 'root'");
    check(doc! { "$replaceRoot": {} }, 40_414, "$replaceRoot needs 'newRoot'");
    check(doc! { "$replaceWith": 5 }, 40_228, "the new root must be an object, not 5");
    check(doc! { "$replaceWith": "$b" }, 40_228, "the new root must be an object, not nothing");
    check(doc! { "$set": { "a": { "$foo": 1 } } }, 168, "Unrecognized expression '$foo'");
    check(doc! { "$set": { "a": "$$six" } }, 17_276, "Use of undefined variable: six");
}

#[test]
fn array_filters_do_not_go_with_pipelines() {
    let stages = [raw(&doc! { "$set": { "a": 1 } })];
    let refused = Update::parse_pipeline(&stages, &[raw(&doc! { "x": 1 })], &Variables::default());
    assert_eq!(refused.map(|_| ()), Err(Error::ArrayFiltersOfPipeline));
    assert_eq!(Error::ArrayFiltersOfPipeline.code(), 9);
}

#[test]
fn results_have_limits() {
    let text = "x".repeat(9 * 1024 * 1024);
    let document = doc! { "_id": 1, "a": &text };
    let double = [doc! { "$set": { "b": "$a" } }];
    assert_eq!(apply(&double, &document).map_err(|error| error.code().number()), Err(10_334));
    let nested = (0..178).fold(bson!(1), |inner, _| bson!([inner]));
    let deeper = [doc! { "$set": { "b": { "c": { "d": { "e": "$a" } } } } }];
    assert_eq!(
        apply(&deeper, &doc! { "_id": 1, "a": nested }).map_err(|error| error.code().number()),
        Err(15)
    );
}

#[test]
fn a_parsed_update_takes_other_values_of_its_variables() {
    let names = Variables::default().with("tax", None).expect("a variable");
    let update = Update::parse_pipeline(&[raw(&doc! { "$set": { "tax": "$$tax" } })], &[], &names).unwrap();
    for tax in [7, 19] {
        let values = Variables::default().with("tax", Some(RawBson::Int32(tax))).expect("a variable");
        let changed = update.with_variables(&values).apply(&raw(&doc! { "_id": 1 }), &context(Phase::Modify));
        assert_eq!(changed.unwrap(), Some(raw(&doc! { "_id": 1, "tax": tax })));
    }
}

#[test]
fn a_name_that_is_no_stage_is_found() {
    assert_eq!(unknown_stage(["$set", "$sett", "$other"]), Some("$sett"));
    assert_eq!(unknown_stage(["$set", "$group"]), None);
}
