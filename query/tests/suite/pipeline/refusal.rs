//! Three errors that are not mixed: a name that is unknown, one that is not here, and an argument that is wrong.

use bson::{Bson, Document, doc};

use crate::pipeline::{check_error, parse};

#[track_caller]
fn refused(stage: &Document, code: i32) {
    let error = parse(std::slice::from_ref(stage)).expect_err("a stage that is refused");
    assert_eq!(error.code(), code, "{stage}: {error}");
}

#[test]
fn unknown_names_are_told_from_those_that_are_not_here() {
    let stage = |name: &str| [doc! { "$match": {} }, doc! { name: {} }];
    check_error(&stage("$nothing"), &[], 40_324, "stage 1: Unrecognized pipeline stage name: '$nothing'");
    check_error(&stage("match"), &[], 40_324, "stage 1: Unrecognized pipeline stage name: 'match'");
    for name in ["$geoNear", "$search", "$changeStream"] {
        check_error(&stage(name), &[], 238, &format!("stage 1: stage {name} is not supported"));
    }
    let group = |name: &str| [doc! { "$group": { "_id": 1, "x": { name: 1 } } }];
    check_error(&group("$nothing"), &[], 15_952, "stage 0: unknown group operator '$nothing'");
    check_error(&group("$rank"), &[], 15_952, "stage 0: unknown group operator '$rank'");
    check_error(&group("$accumulator"), &[], 238, "stage 0: accumulator $accumulator is not supported");
}

#[test]
fn a_stage_has_one_field() {
    let text = "stage 0: a pipeline stage specification object must contain exactly one field";
    check_error(&[doc! {}], &[], 40_323, text);
    check_error(&[doc! { "$match": {}, "$limit": 1 }], &[], 40_323, text);
}

#[test]
fn sources_stand_first_and_alone() {
    for name in ["$collStats", "$indexStats", "$currentOp"] {
        let text = format!("stage 1: {name} is only valid as the first stage in a pipeline");
        check_error(&[doc! { "$match": {} }, doc! { name: {} }], &[], 40_602, &text);
        let text =
            format!("stage 0: in 'a', stage 0: {name} is not allowed to be used within a $facet stage");
        check_error(&[doc! { "$facet": { "a": [{ name: {} }] } }], &[], 40_600, &text);
    }
    let text = "stage 0: in 'a', stage 0: $facet is not allowed to be used within a $facet stage";
    check_error(&[doc! { "$facet": { "a": [{ "$facet": { "b": [] } }] } }], &[], 40_600, text);
}

#[test]
fn faults_inside_of_stages_keep_their_numbers() {
    refused(&doc! { "$match": { "a": { "$nothing": 1 } } }, 2);
    refused(&doc! { "$match": { "$where": "1" } }, 238);
    refused(&doc! { "$set": { "a": { "$nothing": 1 } } }, 168);
    refused(&doc! { "$project": {} }, 51_272);
    refused(&doc! { "$sort": { "a": 2 } }, 15_975);
    refused(&doc! { "$sort": { "a": "x" } }, 15_974);
    refused(&doc! { "$group": { "_id": "$$nothing" } }, 17_276);
}

#[test]
fn malformed_bytes_are_an_error() {
    let mut bytes = crate::pipeline::raw(&doc! { "$match": { "a": 1 } }).into_bytes();
    let place = bytes.len() - 9;
    bytes[place] = 0x7e;
    let stage = bson::RawDocumentBuf::from_bytes(bytes).expect("the frame is whole");
    let error = cairndb_query::pipeline::Pipeline::parse(&[stage], &crate::pipeline::variables())
        .expect_err("malformed");
    assert_eq!(error.code(), 22, "{error}");
}

#[test]
fn the_default_bucket_lies_outside() {
    let bucket =
        |default: i32| doc! { "$bucket": { "groupBy": "$a", "boundaries": [0, 10], "default": default } };
    refused(&bucket(5), 40_199);
    refused(&bucket(0), 40_199);
    assert!(parse(&[bucket(10)]).is_ok());
    assert!(parse(&[bucket(-1)]).is_ok());
    let mixed = doc! { "$bucket": { "groupBy": "$a", "boundaries": [0, "x"], "default": Bson::Null } };
    refused(&mixed, 40_193);
}
