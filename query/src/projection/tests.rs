//! Which fields are returned, in which order, and every rejection with its number.

use bson::{Bson, Document, RawDocumentBuf, bson, doc};

use super::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn find(filter: &Document, projection: &Document, document: &Document) -> Result<Document, Error> {
    let filter = Filter::parse(&raw(filter)).unwrap();
    let projection = Projection::parse(&raw(projection), Some(&filter), &Variables::default())?;
    let shown = projection.apply(&raw(document), &Variables::default())?;
    Ok(shown.try_into().unwrap())
}

#[track_caller]
fn check(projection: &Document, document: &Document, expected: &Document) {
    let shown = find(&doc! {}, projection, document).unwrap();
    // Documents compare without regard to the order of their fields, which matters here.
    assert_eq!(shown.to_string(), expected.to_string(), "{projection} of {document}");
}

#[track_caller]
fn check_found(filter: &Document, projection: &Document, document: &Document, expected: &Document) {
    assert_eq!(find(filter, projection, document).unwrap().to_string(), expected.to_string());
}

#[track_caller]
fn check_refused(projection: &Document, code: i32) {
    let error = Projection::parse(
        &raw(projection),
        Some(&Filter::parse(&raw(&doc! {})).unwrap()),
        &Variables::default(),
    );
    let error = error.map(drop).unwrap_err();
    assert_eq!(error.code(), code, "{projection}: {error}");
}

#[track_caller]
fn check_stage(projection: &Document, document: &Document, expected: &Document) {
    let projection = Projection::parse_stage(&raw(projection), &Variables::default()).unwrap();
    let shown = projection.apply(&raw(document), &Variables::default()).unwrap();
    assert_eq!(Document::try_from(shown).unwrap().to_string(), expected.to_string());
}

#[track_caller]
fn check_stage_refused(projection: &Document, code: i32) {
    let error = Projection::parse_stage(&raw(projection), &Variables::default()).map(drop).unwrap_err();
    assert_eq!(error.code(), code, "{projection}: {error}");
}

#[test]
fn inclusions_keep_the_order_of_the_document() {
    let document = doc! { "_id": 1, "a": 2, "b": "x", "c": [1] };
    check(&doc! { "c": 1, "a": true }, &document, &doc! { "_id": 1, "a": 2, "c": [1] });
    check(&doc! { "missing": 1 }, &document, &doc! { "_id": 1 });
    check(&doc! { "a": 0.1, "b": 5_i64 }, &document, &doc! { "_id": 1, "a": 2, "b": "x" });
    check(&doc! { "a": 1 }, &doc! { "a": 1 }, &doc! { "a": 1 });
}

#[test]
fn exclusions_keep_the_rest() {
    let document = doc! { "_id": 1, "a": 2, "b": { "c": 3, "d": 4 } };
    check(&doc! { "a": 0 }, &document, &doc! { "_id": 1, "b": { "c": 3, "d": 4 } });
    check(&doc! { "b.c": false }, &document, &doc! { "_id": 1, "a": 2, "b": { "d": 4 } });
    check(&doc! { "b": { "c": 0, "d": 0 } }, &document, &doc! { "_id": 1, "a": 2, "b": {} });
    check(&doc! { "a.x": 0 }, &document, &document);
    check(&doc! {}, &document, &document);
}

#[test]
fn ids_are_shown_unless_excluded() {
    let document = doc! { "_id": 1, "a": 2, "b": 3 };
    check(&doc! { "_id": 0 }, &document, &doc! { "a": 2, "b": 3 });
    check(&doc! { "_id": 1 }, &document, &doc! { "_id": 1 });
    check(&doc! { "_id": 0, "a": 1 }, &document, &doc! { "a": 2 });
    check(&doc! { "a": 1, "_id": 0 }, &document, &doc! { "a": 2 });
    check(&doc! { "_id": 1, "a": 0 }, &document, &doc! { "_id": 1, "b": 3 });
    check(&doc! { "a": 0, "_id": 1 }, &document, &doc! { "_id": 1, "b": 3 });
    check(&doc! { "a": 0, "_id": 0 }, &document, &doc! { "b": 3 });
    let parts = doc! { "_id": { "x": 1, "y": 2 }, "a": 1 };
    check(&doc! { "_id.x": 1 }, &parts, &doc! { "_id": { "x": 1 } });
    check(&doc! { "_id": { "x": 0 } }, &parts, &doc! { "_id": { "y": 2 }, "a": 1 });
    check(&doc! { "a": 1, "_id": { "y": 1 } }, &parts, &doc! { "_id": { "y": 2 }, "a": 1 });
    check_refused(&doc! { "_id.x": 0, "a": 1 }, 31_253);
}

#[test]
fn paths_go_through_objects_and_arrays() {
    let document = doc! { "a": { "b": 1, "c": { "d": 2, "e": 3 } }, "f": 4 };
    check(&doc! { "a.c.d": 1 }, &document, &doc! { "a": { "c": { "d": 2 } } });
    check(&doc! { "a": { "c": { "d": 1 }, "b": 1 } }, &document, &doc! { "a": { "b": 1, "c": { "d": 2 } } });
    check(&doc! { "a": { "c.d": 1 }, "a.b": 1 }, &document, &doc! { "a": { "b": 1, "c": { "d": 2 } } });
    check(&doc! { "f.x": 1 }, &document, &doc! {});
    check(&doc! { "a.x": 1 }, &document, &doc! { "a": {} });
    let arrays = doc! { "a": [1, { "b": 1, "c": 2 }, [{ "b": 3, "c": 4 }, 5], {}] };
    check(&doc! { "a.b": 1 }, &arrays, &doc! { "a": [{ "b": 1 }, [{ "b": 3 }], {}] });
    check(&doc! { "a.b": 0 }, &arrays, &doc! { "a": [1, { "c": 2 }, [{ "c": 4 }, 5], {}] });
    check(&doc! { "a.0": 1 }, &doc! { "a": [1, { "0": 2 }] }, &doc! { "a": [{ "0": 2 }] });
}

#[test]
fn values_are_computed_and_follow_the_included() {
    let document = doc! { "_id": 1, "a": 2, "b": 3 };
    check(&doc! { "x": "$a", "b": 1 }, &document, &doc! { "_id": 1, "b": 3, "x": 2 });
    check(&doc! { "y": "text", "x": { "$literal": 7 } }, &document, &doc! { "_id": 1, "y": "text", "x": 7 });
    check(&doc! { "a": "$b" }, &document, &doc! { "_id": 1, "a": 3 });
    check(&doc! { "a": "$missing" }, &document, &doc! { "_id": 1 });
    check(&doc! { "x": Bson::Null }, &document, &doc! { "_id": 1, "x": Bson::Null });
    check(&doc! { "_id": "$a", "b": 1 }, &document, &doc! { "b": 3, "_id": 2 });
}

#[test]
fn values_are_computed_below_whatever_was_there() {
    let seven = || doc! { "$literal": 7 };
    check(&doc! { "a.x": seven() }, &doc! {}, &doc! { "a": { "x": 7 } });
    check(&doc! { "a.x": "$none" }, &doc! {}, &doc! { "a": {} });
    check(&doc! { "a.x": seven() }, &doc! { "a": 5, "b": 1 }, &doc! { "a": { "x": 7 } });
    check(&doc! { "a.x": seven(), "b": 1 }, &doc! { "a": 5, "b": 1 }, &doc! { "a": { "x": 7 }, "b": 1 });
    check(
        &doc! { "a.x": seven(), "a.y": 1 },
        &doc! { "a": { "x": 1, "y": 2, "z": 3 } },
        &doc! { "a": { "y": 2, "x": 7 } },
    );
    let array = doc! { "a": [1, { "y": 2 }, [3]] };
    check(
        &doc! { "a.x": seven(), "a.y": 1 },
        &array,
        &doc! { "a": [{ "x": 7 }, { "y": 2, "x": 7 }, [{ "x": 7 }]] },
    );
    check(&doc! { "a.b.c": seven(), "a.b.d": seven() }, &doc! {}, &doc! { "a": { "b": { "c": 7, "d": 7 } } });
}

#[test]
fn slices_show_a_part_of_an_array() {
    let document = doc! { "_id": 1, "a": [1, 2, 3, 4], "b": 5 };
    check(&doc! { "a": { "$slice": 2 } }, &document, &doc! { "_id": 1, "a": [1, 2], "b": 5 });
    check(&doc! { "a": { "$slice": -1 } }, &document, &doc! { "_id": 1, "a": [4], "b": 5 });
    check(&doc! { "a": { "$slice": [1, 2] } }, &document, &doc! { "_id": 1, "a": [2, 3], "b": 5 });
    check(&doc! { "a": { "$slice": [-3, 1] } }, &document, &doc! { "_id": 1, "a": [2], "b": 5 });
    check(&doc! { "a": { "$slice": 1 }, "b": 1 }, &document, &doc! { "_id": 1, "a": [1], "b": 5 });
    check(&doc! { "a": { "$slice": 1 }, "b": 0 }, &document, &doc! { "_id": 1, "a": [1] });
    check(&doc! { "a": { "$slice": 1 }, "_id": 1 }, &document, &doc! { "_id": 1, "a": [1] });
    check(&doc! { "a": { "$slice": 1 }, "_id": 0 }, &document, &doc! { "a": [1], "b": 5 });
    check(&doc! { "b": { "$slice": 1 } }, &document, &document);
}

#[test]
fn slices_lie_below_objects_and_arrays_of_objects() {
    let document = doc! { "a": { "b": [1, 2], "c": 3 } };
    check(&doc! { "a.b": { "$slice": 1 } }, &document, &doc! { "a": { "b": [1], "c": 3 } });
    check(&doc! { "a.b": { "$slice": 1 }, "_id": 1 }, &document, &doc! { "a": { "b": [1] } });
    let arrays = doc! { "a": [{ "b": [1, 2] }, [{ "b": [3, 4] }], 5] };
    let sliced = doc! { "a": [{ "b": [1] }, [{ "b": [3, 4] }], 5] };
    check(&doc! { "a.b": { "$slice": 1 } }, &arrays, &sliced);
}

#[test]
fn elem_match_shows_the_first_element_that_matches() {
    let document = doc! { "_id": 1, "a": [{ "x": 1 }, { "x": 2, "y": 1 }, { "x": 2, "y": 2 }], "b": 5 };
    let two = || doc! { "$elemMatch": { "x": 2 } };
    check(&doc! { "a": two() }, &document, &doc! { "_id": 1, "a": [{ "x": 2, "y": 1 }] });
    check(&doc! { "a": two(), "b": 1 }, &document, &doc! { "_id": 1, "b": 5, "a": [{ "x": 2, "y": 1 }] });
    check(&doc! { "a": two(), "_id": 0 }, &document, &doc! { "a": [{ "x": 2, "y": 1 }] });
    check(&doc! { "a": two(), "b": 0 }, &document, &doc! { "_id": 1, "a": [{ "x": 2, "y": 1 }] });
    check(&doc! { "a": { "$elemMatch": { "x": 9 } }, "b": 1 }, &document, &doc! { "_id": 1, "b": 5 });
    check(&doc! { "b": two() }, &document, &doc! { "_id": 1 });
    check(&doc! { "missing": two(), "b": 0 }, &doc! { "a": 1, "b": 2 }, &doc! { "a": 1 });
    check(&doc! { "a": { "$elemMatch": { "$gt": 2 } } }, &doc! { "a": [1, 5, 7] }, &doc! { "a": [5] });
    check(
        &doc! { "a": two(), "b": { "$slice": 1 } },
        &doc! { "a": [{ "x": 2 }, 1], "b": [1, 2], "c": 3 },
        &doc! { "a": [{ "x": 2 }], "b": [1], "c": 3 },
    );
}

#[test]
fn positional_shows_what_the_filter_found() {
    let document = doc! { "_id": 1, "a": [1, 5, 7], "b": 2 };
    check_found(&doc! { "a": { "$gt": 2 } }, &doc! { "a.$": 1 }, &document, &doc! { "_id": 1, "a": [5] });
    check_found(
        &doc! { "a": 7 },
        &doc! { "b": 1, "a.$": 1 },
        &document,
        &doc! { "_id": 1, "a": [7], "b": 2 },
    );
    let objects = doc! { "a": [{ "b": 1, "c": 2 }, { "b": 3, "c": [4, 5] }] };
    check_found(&doc! { "a.b": 3 }, &doc! { "a.$": 1 }, &objects, &doc! { "a": [{ "b": 3, "c": [4, 5] }] });
    check_found(&doc! { "a.b": 3 }, &doc! { "a.c.$": 1 }, &objects, &doc! { "a": [{ "c": [4, 5] }] });
    check_found(
        &doc! { "a.b": 3 },
        &doc! { "a": { "b": 1, "c.$": 1 } },
        &objects,
        &doc! { "a": [{ "b": 3, "c": [4, 5] }] },
    );
    let below = doc! { "a": { "b": [1, 2, 3] } };
    check_found(&doc! { "a.b": 2 }, &doc! { "a.b.$": 1 }, &below, &doc! { "a": { "b": [2] } });
    check_found(&doc! { "b": 2 }, &doc! { "b.$": 1 }, &document, &doc! { "_id": 1, "b": 2 });
    check_found(&doc! { "b": 2 }, &doc! { "missing.$": 1 }, &document, &doc! { "_id": 1 });
}

#[test]
fn positional_fails_without_an_element_to_show() {
    let document = doc! { "a": [1, 2], "b": [3], "c": 4 };
    let code =
        |filter: Document, projection: Document| find(&filter, &projection, &document).unwrap_err().code();
    assert_eq!(code(doc! { "c": 4 }, doc! { "a.$": 1 }), 51_246);
    assert_eq!(code(doc! { "a": 2 }, doc! { "b.$": 1 }), 51_247);
    assert_eq!(code(doc! { "a": 2 }, doc! { "a.x.$": 1 }), 51_247);
}

#[test]
fn collisions_are_refused() {
    check_refused(&doc! { "a": 1, "a.b": 1 }, 31_249);
    check_refused(&doc! { "a.b": 1, "a": 1 }, 31_250);
    check_refused(&doc! { "a.b": 1, "a": { "b": 1 } }, 31_250);
    check_refused(&doc! { "a.b": 0, "a.b.c.d": 0 }, 31_249);
    check_refused(&doc! { "a.b": { "c": 1 }, "a": 1 }, 31_250);
    check_refused(&doc! { "a.b": 1, "a.b.$": 1 }, 31_250);
    check_refused(&doc! { "a": { "$slice": 1 }, "a.b": 1 }, 31_249);
    let mut twice = raw(&doc! { "a": 1 });
    twice.append(bson::raw::cstr!("a"), raw(&doc! { "b": 1 }));
    let error = Projection::parse(&twice, None, &Variables::default()).map(drop).unwrap_err();
    assert_eq!(error.code(), 31_250);
    let text = Projection::parse(&raw(&doc! { "a": 1, "a.b.c": 1 }), None, &Variables::default());
    assert_eq!(text.unwrap_err().to_string(), "path collision, remaining portion b.c: 'a.b.c'");
}

#[test]
fn inclusions_and_exclusions_do_not_mix() {
    check_refused(&doc! { "a": 0, "b": 1 }, 31_253);
    check_refused(&doc! { "a": 1, "b": 0 }, 31_254);
    check_refused(&doc! { "a": { "b": 1, "c": 0 } }, 31_254);
    check_refused(&doc! { "a": 0, "b": "$c" }, 31_310);
    check_refused(&doc! { "a": 0, "b": { "$literal": 1 } }, 31_252);
    check_refused(&doc! { "b": "$c", "a": 0 }, 31_254);
    check_refused(&doc! { "a": 0, "b.$": 1 }, 31_253);
}

#[test]
fn positional_has_its_place() {
    check_refused(&doc! { "a.$.b": 1 }, 31_394);
    check_refused(&doc! { "a.$.$": 1 }, 31_394);
    check_refused(&doc! { "$.a": 1 }, 31_394);
    check_refused(&doc! { "a.$": 0 }, 31_395);
    check_refused(&doc! { "a.$": { "b": 1 } }, 31_271);
    check_refused(&doc! { "a.$": { "$slice": 1 } }, 31_271);
    check_refused(&doc! { "a.$": "$b" }, 31_308);
    check_refused(&doc! { "a.$": 1, "b.$": 1 }, 31_276);
    check_refused(&doc! { "a.$": 1, "b": { "$elemMatch": { "c": 1 } } }, 31_255);
    check_refused(&doc! { "b": { "$elemMatch": { "c": 1 } }, "a.$": 1 }, 31_256);
    let alone = Projection::parse(&raw(&doc! { "a.$": 1 }), None, &Variables::default());
    assert_eq!(alone.map(drop).unwrap_err().code(), 51_050);
}

#[test]
fn operators_are_checked() {
    check_refused(&doc! { "a": {} }, 51_270);
    check_refused(&doc! { "a": { "b": {} } }, 51_270);
    check_refused(&doc! { "a": { "$elemMatch": 1 } }, 31_274);
    check_refused(&doc! { "a.b": { "$elemMatch": { "c": 1 } } }, 31_275);
    check_refused(&doc! { "a": { "b": { "$elemMatch": { "c": 1 } } } }, 31_275);
    check_refused(&doc! { "a": { "$elemMatch": { "b": { "$foo": 1 } } } }, 2);
    check_refused(&doc! { "a": { "$foo": 1 } }, 31_325);
    check_refused(&doc! { "a": { "$meta": "textScore" } }, 238);
    check_refused(&doc! { "a": { "$literal": 1, "b": 1 } }, 16_410);
    check_refused(&doc! { "a": { "$slice": [1] } }, 28_667);
    check_refused(&doc! { "a": { "$slice": "x" } }, 28_667);
    check(&doc! { "a.$id": 1 }, &doc! { "a": { "$id": 1, "b": 2 } }, &doc! { "a": { "$id": 1 } });
    check(&doc! { "a": { "$id": 1 } }, &doc! { "a": { "$id": 1, "b": 2 } }, &doc! { "a": { "$id": 1 } });
}

#[test]
fn names_that_are_no_paths_are_refused() {
    check_refused(&doc! { "": 1 }, 40_352);
    check_refused(&doc! { "a.": 1 }, 40_353);
    check_refused(&doc! { "a..b": 1 }, 15_998);
    check_refused(&doc! { "$a": 1 }, 16_410);
    check_refused(&doc! { "a": { "": 1 } }, 40_353);
    let deep = (0..250).fold(bson!(1), |value, _| bson!({ "a": value }));
    check_refused(deep.as_document().unwrap(), 15);
    check_refused(&doc! { ["a"; 250].join("."): 1 }, 15);
}

#[test]
fn stages_know_expressions_only() {
    let document = doc! { "_id": 1, "a": 2, "b": { "c": 3, "d": 4 } };
    check_stage(&doc! { "b.c": 1, "x": "$a" }, &document, &doc! { "_id": 1, "b": { "c": 3 }, "x": 2 });
    check_stage(&doc! { "b": { "c": 0 } }, &document, &doc! { "_id": 1, "a": 2, "b": { "d": 4 } });
    check_stage_refused(&doc! {}, 51_272);
    check_stage_refused(&doc! { "a.$": 1 }, 31_324);
    check_stage_refused(&doc! { "a": { "$elemMatch": { "b": 1 } } }, 168);
    check_stage_refused(&doc! { "a": { "$slice": 1 } }, 28_667);
    check_stage_refused(&doc! { "a": { "$meta": "textScore" } }, 238);
}

#[test]
fn fields_of_equal_names_are_all_shown_or_all_left_out() {
    let mut twice = raw(&doc! { "a": 1, "b": 2 });
    twice.append(bson::raw::cstr!("a"), 3);
    let show = |projection: &Document| {
        let projection = Projection::parse(&raw(projection), None, &Variables::default()).unwrap();
        projection.apply(&twice, &Variables::default()).unwrap()
    };
    assert_eq!(show(&doc! { "a": 1 }).iter().count(), 2);
    assert_eq!(show(&doc! { "a": 0 }).iter().count(), 1);
}

#[test]
fn nesting_is_bounded_and_broken_documents_are_errors() {
    let nest = |levels: usize| (0..levels).fold(bson!(1), |value, _| Bson::Array(vec![value]));
    check(
        &doc! { "a.b": 1 },
        &doc! { "a": nest(150) },
        &doc! { "a": (0..149).fold(bson!([]), |value, _| bson!([value])) },
    );
    let error = find(&doc! {}, &doc! { "a.b": 1 }, &doc! { "a": nest(190) }).unwrap_err();
    assert_eq!(error.code(), 15);
    let broken = RawDocumentBuf::from_bytes(vec![9, 0, 0, 0, 0x10, b'a', 0, 1, 0]).unwrap();
    let projection = Projection::parse(&raw(&doc! { "a": 1 }), None, &Variables::default()).unwrap();
    assert_eq!(projection.apply(&broken, &Variables::default()).unwrap_err().code(), 22);
}

#[test]
fn fields_that_are_only_included_are_told() {
    let fields = |projection: Document| {
        let projection = Projection::parse(&raw(&projection), None, &Variables::default()).unwrap();
        let paths = projection.included_fields();
        paths.map(|paths| paths.iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(fields(doc! { "_id": 0, "a.b": 1 }), Some(vec!["a.b".to_owned()]));
    assert_eq!(fields(doc! { "c": 1 }), Some(vec!["_id".to_owned(), "c".to_owned()]));
    assert_eq!(fields(doc! { "c": 0 }), None);
    assert_eq!(fields(doc! { "c": { "$slice": 1 } }), None);
    assert_eq!(fields(doc! { "c": "$d" }), None);
}
