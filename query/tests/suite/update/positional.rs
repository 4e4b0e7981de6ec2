//! The placeholders `$`, `$[]` and `$[name]`, and array filters.

use bson::{Document, RawDocumentBuf, doc};
use cairndb_query::operation::OperationContext;
use cairndb_query::update::error::Error;
use cairndb_query::update::{Phase, Update};

use crate::update::{check_error, check_unchanged, context, filter, raw};

fn apply_matched(
    query: &Document,
    update: &Document,
    document: &Document,
) -> Result<Option<Document>, Error> {
    let parsed = Update::parse(&raw(update), &[])?;
    assert!(parsed.is_positional());
    let position = filter(query)
        .array_position(&raw(document), &OperationContext::default())
        .expect("the filter has an answer");
    let changed = parsed.apply(&raw(document), &context(Phase::Modify).with_position(position))?;
    Ok(changed.map(|changed| Document::try_from(&changed).expect("a well-formed result")))
}

#[track_caller]
fn check_matched(query: &Document, update: &Document, before: &Document, after: &Document) {
    assert_eq!(apply_matched(query, update, before), Ok(Some(after.clone())), "{update} of {before}");
}

#[track_caller]
fn check_filtered(update: &Document, filters: &[Document], before: &Document, after: &Document) {
    assert_eq!(apply_filtered(update, filters, before), Ok(Some(raw(after))), "{update} of {before}");
}

fn apply_filtered(
    update: &Document,
    filters: &[Document],
    document: &Document,
) -> Result<Option<RawDocumentBuf>, Error> {
    let filters = filters.iter().map(raw).collect::<Vec<_>>();
    Update::parse(&raw(update), &filters)?.apply(&raw(document), &context(Phase::Modify))
}

#[track_caller]
fn check_filter_error(update: &Document, filters: &[Document], document: &Document, code: i32, text: &str) {
    let error = apply_filtered(update, filters, document).expect_err("an update that is refused");
    assert_eq!((error.code().number(), error.to_string().as_str()), (code, text), "{update}");
}

// $.

#[test]
fn the_matched_element_is_updated() {
    check_matched(
        &doc! { "a": 5 },
        &doc! { "$set": { "a.$": 9 } },
        &doc! { "a": [1, 5, 5] },
        &doc! { "a": [1, 9, 5] },
    );
    check_matched(
        &doc! { "a.b": 2 },
        &doc! { "$inc": { "a.$.b": 1 }, "$set": { "a.$.c": 0 } },
        &doc! { "a": [{ "b": 1 }, { "b": 2 }] },
        &doc! { "a": [{ "b": 1 }, { "b": 3, "c": 0 }] },
    );
    check_matched(
        &doc! { "a": 5 },
        &doc! { "$set": { "b.$": 1 } },
        &doc! { "a": [0, 5] },
        &doc! { "a": [0, 5], "b": { "1": 1 } },
    );
}

#[test]
fn a_position_and_the_same_number_are_merged() {
    let before = doc! { "a": [{ "b": 1 }] };
    check_matched(
        &doc! { "a.b": 1 },
        &doc! { "$set": { "a.$.b": 2, "a.0.c": 3 } },
        &before,
        &doc! { "a": [{ "b": 2, "c": 3 }] },
    );
    let conflict = apply_matched(&doc! { "a.b": 1 }, &doc! { "$set": { "a.$.b": 2, "a.0.b": 3 } }, &before);
    let error = conflict.unwrap_err();
    assert_eq!(
        (error.code().number(), error.to_string().as_str()),
        (40, "Update created a conflict at 'a.0.b'")
    );
}

#[test]
fn without_a_match_there_is_no_position() {
    let text = "The positional operator did not find the match needed from the query.";
    check_error(&doc! { "$set": { "a.$": 1 } }, &doc! { "a": [1] }, 2, text);
    check_error(&doc! { "$set": { "a.$.b": 1 } }, &doc! {}, 2, text);
    let unmatched =
        apply_matched(&doc! { "b": 1 }, &doc! { "$set": { "a.$": 1 } }, &doc! { "a": [1], "b": 1 });
    assert_eq!(unmatched, Err(Error::PositionMissing));
}

// $[].

#[test]
fn all_elements_are_updated() {
    let update = doc! { "$inc": { "a.$[]": 1 } };
    check_filtered(&update, &[], &doc! { "a": [1, 2] }, &doc! { "a": [2, 3] });
    check_unchanged(&update, &doc! { "a": [] });
    check_filtered(
        &doc! { "$set": { "a.$[].b.$[]": 0, "a.$[].c": 1 } },
        &[],
        &doc! { "a": [{ "b": [1, 2] }, { "b": [], "d": 0 }] },
        &doc! { "a": [{ "b": [0, 0], "c": 1 }, { "b": [], "d": 0, "c": 1 }] },
    );
    check_filtered(
        &doc! { "$unset": { "a.$[]": 1 } },
        &[],
        &doc! { "a": [1] },
        &doc! { "a": [(bson::Bson::Null)] },
    );
}

#[test]
fn array_updates_need_an_array() {
    let update = doc! { "$set": { "a.$[]": 1 } };
    check_error(&update, &doc! { "a": 5 }, 2, "Cannot apply array updates to non-array element a: 5");
    check_error(
        &update,
        &doc! { "a": { "b": 1 } },
        2,
        "Cannot apply array updates to non-array element a: an object",
    );
    let missing =
        |path: &str| format!("The path '{path}' must exist in the document in order to apply array updates.");
    check_error(&update, &doc! {}, 2, &missing("a"));
    check_error(&doc! { "$unset": { "a.b.$[].c": 1 } }, &doc! {}, 2, &missing("a.b"));
    check_error(&doc! { "$unset": { "a.b.$[].c": 1 } }, &doc! { "a": 5 }, 2, &missing("a.b"));
    check_error(&doc! { "$set": { "a.3.$[].c": 1 } }, &doc! { "a": [1] }, 2, &missing("a.3"));
}

// $[name].

#[test]
fn filtered_elements_are_updated() {
    check_filtered(
        &doc! { "$set": { "a.$[x]": 9 } },
        &[doc! { "x": { "$gt": 1 } }],
        &doc! { "a": [1, 2, 3] },
        &doc! { "a": [1, 9, 9] },
    );
    check_filtered(
        &doc! { "$inc": { "a.$[x].n.$[y]": 1 } },
        &[doc! { "x.b": 1 }, doc! { "$or": [{ "y": 0 }, { "y": 5 }] }],
        &doc! { "a": [{ "b": 1, "n": [0, 1, 5] }, { "b": 2, "n": [0] }] },
        &doc! { "a": [{ "b": 1, "n": [1, 1, 6] }, { "b": 2, "n": [0] }] },
    );
    check_filtered(
        &doc! { "$set": { "a.$[x].p": 1, "a.$[y].q": 2, "a.$[].r": 3 } },
        &[doc! { "x.b": 1 }, doc! { "y.b": { "$lt": 3 }, "y.c": { "$exists": false } }],
        &doc! { "a": [{ "b": 1 }, { "b": 2 }, { "b": 3 }] },
        &doc! { "a": [{ "b": 1, "p": 1, "q": 2, "r": 3 }, { "b": 2, "q": 2, "r": 3 }, { "b": 3, "r": 3 }] },
    );
    check_filtered(
        &doc! { "$pull": { "a.$[x].b": 1 } },
        &[doc! { "x.b": { "$size": 1 } }],
        &doc! { "a": [{ "b": [1] }, { "b": [1, 1] }] },
        &doc! { "a": [{ "b": [] }, { "b": [1, 1] }] },
    );
}

#[test]
fn filters_that_meet_in_one_element_conflict() {
    let update = doc! { "$set": { "a.$[x]": 1, "a.$[y]": 2 } };
    let filters = [doc! { "x": 0 }, doc! { "y": { "$lt": 5 } }];
    check_filter_error(&update, &filters, &doc! { "a": [3, 0] }, 40, "Update created a conflict at 'a.1'");
    check_filtered(
        &update,
        &[doc! { "x": 0 }, doc! { "y": 1 }],
        &doc! { "a": [0, 1] },
        &doc! { "a": [1, 2] },
    );
    let update = doc! { "$set": { "a.$[x].b.$[z].c": 1, "a.$[y].b.$[z].c": 2 } };
    let filters = [doc! { "x.n": 0 }, doc! { "y.n": 0 }, doc! { "z.m": 0 }];
    check_filter_error(
        &update,
        &filters,
        &doc! { "a": [{ "n": 0, "b": [] }] },
        40,
        "Update created a conflict at 'a.0.b.$[z].c'",
    );
}

#[test]
fn filters_and_paths_name_each_other() {
    let update = doc! { "$set": { "a.$[x]": 1 } };
    let text = "No array filter found for identifier 'x' in path 'a.$[x]'";
    check_filter_error(&update, &[], &doc! {}, 2, text);
    check_filter_error(&update, &[doc! { "y": 1 }], &doc! {}, 2, text);
    let text = "array filter 1: The array filter for identifier 'y' was not used in the update";
    check_filter_error(&update, &[doc! { "x": 1 }, doc! { "y": 1 }], &doc! {}, 9, text);
    let text = "array filter 1: Found multiple array filters with the same top-level field name x";
    check_filter_error(&update, &[doc! { "x": 1 }, doc! { "x": 2 }], &doc! {}, 9, text);
}

#[test]
fn array_filters_are_checked() {
    let check = |filter: Document, code: i32, fault: &str| {
        let text = format!("array filter 0: {fault}");
        check_filter_error(&doc! { "$set": { "a.$[x]": 1 } }, &[filter], &doc! {}, code, &text);
    };
    check(doc! {}, 9, "no top-level field name is used");
    check(doc! { "x": 1, "y": 2 }, 9, "expected a single top-level field name, found 'x' and 'y'");
    check(
        doc! { "$or": [{ "x.b": 1 }, { "y": 1 }] },
        9,
        "expected a single top-level field name, found 'x' and 'y'",
    );
    let identifier = "the top-level field name must be alphanumeric and begin with a lowercase letter";
    check(doc! { "X": 1 }, 2, &format!("{identifier}, found 'X'"));
    check(doc! { "1x": 1 }, 2, &format!("{identifier}, found '1x'"));
    check(doc! { "x_": 1 }, 2, &format!("{identifier}, found 'x_'"));
    check(doc! { "": 1 }, 2, &format!("{identifier}, found ''"));
    check(doc! { "x": { "$foo": 1 } }, 2, "unknown operator: $foo of 'x'");
    check(doc! { "$jsonSchema": {} }, 224, "$jsonSchema is not allowed in this context");
    check(doc! { "$expr": true, "x": 1 }, 224, "$expr is not allowed in this context");
}
