//! Operators on arrays.

use bson::{Bson, bson, doc};

#[cfg(feature = "collation")]
use crate::update::{Phase, context, raw};
use crate::update::{check, check_error, check_unchanged};

// $push.

#[track_caller]
fn check_push(array: &Bson, clauses: impl Into<Bson>, expected: &Bson) {
    let (before, after) = (doc! { "x": 0, "a": array, "z": 1 }, doc! { "x": 0, "a": expected, "z": 1 });
    check(&doc! { "$push": { "a": clauses.into() } }, &before, &after);
}

#[test]
fn push_appends_a_value() {
    check_push(&bson!([1]), 2, &bson!([1, 2]));
    check_push(&bson!([]), bson!([2, 3]), &bson!([[2, 3]]));
    check_push(&bson!([1]), bson!({ "b": 1 }), &bson!([1, { "b": 1 }]));
    check_push(&bson!([1]), bson!({ "$slice": 1 }), &bson!([1, { "$slice": 1 }]));
    check(&doc! { "$push": { "a.b": 1 } }, &doc! {}, &doc! { "a": { "b": [1] } });
    check(&doc! { "$push": { "a.0": 1 } }, &doc! { "a": [[0]] }, &doc! { "a": [[0, 1]] });
    check(&doc! { "$push": { "a": { "$each": [] } } }, &doc! {}, &doc! { "a": [] });
    check_unchanged(&doc! { "$push": { "a": { "$each": [] } } }, &doc! { "a": [3, 1] });
}

#[test]
fn values_go_to_a_position() {
    let at = |position: i64| bson!({ "$each": [8, 9], "$position": position });
    check_push(&bson!([1, 2, 3]), at(0), &bson!([8, 9, 1, 2, 3]));
    check_push(&bson!([1, 2, 3]), at(1), &bson!([1, 8, 9, 2, 3]));
    check_push(&bson!([1, 2, 3]), at(3), &bson!([1, 2, 3, 8, 9]));
    check_push(&bson!([1, 2, 3]), at(i64::MAX), &bson!([1, 2, 3, 8, 9]));
    check_push(&bson!([1, 2, 3]), at(-1), &bson!([1, 2, 8, 9, 3]));
    check_push(&bson!([1, 2, 3]), at(-3), &bson!([8, 9, 1, 2, 3]));
    check_push(&bson!([1, 2, 3]), at(i64::MIN), &bson!([8, 9, 1, 2, 3]));
    check_push(&bson!([]), at(1), &bson!([8, 9]));
}

#[test]
fn a_slice_keeps_one_end() {
    let slice = |slice: i64| bson!({ "$each": [3, 4], "$slice": slice });
    check_push(&bson!([1, 2]), slice(3), &bson!([1, 2, 3]));
    check_push(&bson!([1, 2]), slice(0), &bson!([]));
    check_push(&bson!([1, 2]), slice(-3), &bson!([2, 3, 4]));
    check_push(&bson!([1, 2]), slice(9), &bson!([1, 2, 3, 4]));
    check_push(&bson!([1, 2]), slice(i64::MIN), &bson!([1, 2, 3, 4]));
    check_push(&bson!([1, 2, 3]), bson!({ "$each": [], "$slice": 1.0 }), &bson!([1]));
}

#[test]
fn elements_are_sorted_before_they_are_cut() {
    check_push(&bson!([3, 1]), bson!({ "$each": [2], "$sort": 1 }), &bson!([1, 2, 3]));
    check_push(&bson!([3, 1]), bson!({ "$each": [2], "$sort": -1, "$slice": 2 }), &bson!([3, 2]));
    check_push(
        &bson!([3, "x", 1]),
        bson!({ "$each": [null, [0]], "$sort": 1 }),
        &bson!([null, 1, 3, "x", [0]]),
    );
    check_push(
        &bson!([{ "b": 2, "c": 1 }, { "b": 1, "c": 2 }]),
        bson!({ "$each": [{ "b": 1, "c": 1 }], "$sort": { "b": 1, "c": -1 } }),
        &bson!([{ "b": 1, "c": 2 }, { "b": 1, "c": 1 }, { "b": 2, "c": 1 }]),
    );
    check_push(
        &bson!([{ "b": { "c": 2 } }, 5, { "b": [{ "c": 0 }] }]),
        bson!({ "$each": [{ "b": { "c": 1 } }], "$sort": { "b.c": 1 } }),
        &bson!([5, { "b": [{ "c": 0 }] }, { "b": { "c": 1 } }, { "b": { "c": 2 } }]),
    );
    check_push(
        &bson!([{ "b": [2] }, { "b": [1] }]),
        bson!({ "$each": [], "$sort": { "b.0": 1 } }),
        &bson!([{ "b": [1] }, { "b": [2] }]),
    );
}

#[test]
fn equal_elements_stay_in_order() {
    check_push(
        &bson!([{ "b": 1, "c": 1 }, { "b": 0 }, { "b": 1.0, "c": 2 }]),
        bson!({ "$each": [{ "b": 1, "c": 3 }], "$sort": { "b": -1 } }),
        &bson!([{ "b": 1, "c": 1 }, { "b": 1.0, "c": 2 }, { "b": 1, "c": 3 }, { "b": 0 }]),
    );
}

#[test]
fn push_is_checked() {
    let check_clauses = |clauses: Bson, fault: &str| {
        check_error(
            &doc! { "$push": { "a": clauses } },
            &doc! {},
            2,
            &format!("malformed $push of 'a': {fault}"),
        );
    };
    check_clauses(bson!({ "$each": 5 }), "$each must be an array, not 5");
    check_clauses(bson!({ "$each": [], "$foo": 1 }), "unrecognized clause $foo");
    check_clauses(bson!({ "$each": [], "b": 1 }), "unrecognized clause b");
    check_clauses(bson!({ "$each": [], "$slice": 1.5 }), "$slice must be an integer, not 1.5");
    check_clauses(bson!({ "$each": [], "$position": "x" }), "$position must be an integer, not \"x\"");
    let sort = "1 or -1, or an object of fields with 1 or -1";
    check_clauses(bson!({ "$each": [], "$sort": 2 }), &format!("$sort must be {sort}, not 2"));
    check_clauses(bson!({ "$each": [], "$sort": {} }), &format!("$sort must be {sort}, not an object"));
    check_clauses(bson!({ "$each": [], "$sort": { "b": "x" } }), &format!("$sort must be {sort}, not \"x\""));
    check_clauses(
        bson!({ "$each": [], "$sort": { "b..c": 1 } }),
        "$sort must be an object of paths without empty parts, not 'b..c'",
    );
    check_error(&doc! { "$push": { "a": 1 } }, &doc! { "a": 5 }, 2, "$push needs an array, but 'a' is 5");
}

// $addToSet.

#[test]
fn a_set_takes_what_it_lacks() {
    check(&doc! { "$addToSet": { "a": 2 } }, &doc! { "a": [1] }, &doc! { "a": [1, 2] });
    check(&doc! { "$addToSet": { "a": [1] } }, &doc! { "a": [1] }, &doc! { "a": [1, [1]] });
    check(
        &doc! { "$addToSet": { "a": { "$each": [3, 3.0, 1, 2] } } },
        &doc! { "a": [1, 1] },
        &doc! { "a": [1, 1, 3, 2] },
    );
    check(&doc! { "$addToSet": { "a.b": { "$each": [1, 1] } } }, &doc! {}, &doc! { "a": { "b": [1] } });
    check(
        &doc! { "$addToSet": { "a": { "b": 1, "$each": [1] } } },
        &doc! { "a": [] },
        &doc! { "a": [{ "b": 1, "$each": [1] }] },
    );
    check_unchanged(&doc! { "$addToSet": { "a": 1.0 } }, &doc! { "a": [1] });
    check_unchanged(&doc! { "$addToSet": { "a": { "$each": [] } } }, &doc! { "a": [1] });
}

#[test]
fn add_to_set_is_checked() {
    let text = |fault: &str| format!("malformed $addToSet of 'a': {fault}");
    check_error(
        &doc! { "$addToSet": { "a": { "$each": 1 } } },
        &doc! {},
        14,
        &text("$each needs an array, not 1"),
    );
    check_error(
        &doc! { "$addToSet": { "a": { "$each": [], "$slice": 1 } } },
        &doc! {},
        2,
        &text("unrecognized clause $slice"),
    );
    check_error(
        &doc! { "$addToSet": { "a": 1 } },
        &doc! { "a": "x" },
        2,
        "$addToSet needs an array, but 'a' is \"x\"",
    );
}

// $pop.

#[test]
fn pop_takes_from_either_end() {
    check(&doc! { "$pop": { "a": 1 } }, &doc! { "a": [1, 2, 3] }, &doc! { "a": [1, 2] });
    check(&doc! { "$pop": { "a": -1.0 } }, &doc! { "a": [1, 2, 3] }, &doc! { "a": [2, 3] });
    check(&doc! { "$pop": { "a.0.b": 1_i64 } }, &doc! { "a": [{ "b": [1] }] }, &doc! { "a": [{ "b": [] }] });
    check_unchanged(&doc! { "$pop": { "a": 1, "b": -1 } }, &doc! { "a": [], "b": [] });
}

#[test]
fn pop_needs_an_array_or_nothing() {
    check_unchanged(
        &doc! { "$pop": { "a": 1, "b.c": 1, "d.5": 1, "d.7.e": 1 } },
        &doc! { "b": {}, "d": [1] },
    );
    check_error(&doc! { "$pop": { "a": 1 } }, &doc! { "a": 5 }, 14, "$pop needs an array, but 'a' is 5");
    let text =
        |element: &str| format!("cannot use the part (b) of (a.b) to traverse the element {{a: {element}}}");
    check_error(&doc! { "$pop": { "a.b": 1 } }, &doc! { "a": 5 }, 28, &text("5"));
    check_error(&doc! { "$pop": { "a.b": 1 } }, &doc! { "a": [1] }, 28, &text("an array"));
    check_error(&doc! { "$pop": { "a": 2 } }, &doc! {}, 9, "malformed $pop of 'a': 1 or -1 is needed, not 2");
    check_error(
        &doc! { "$pop": { "a": "1" } },
        &doc! {},
        9,
        "malformed $pop of 'a': 1 or -1 is needed, not \"1\"",
    );
}

// $pull, $pullAll.

#[track_caller]
fn check_pull(array: &Bson, condition: impl Into<Bson>, expected: &Bson) {
    check(
        &doc! { "$pull": { "a": condition.into() } },
        &doc! { "a": array, "z": 1 },
        &doc! { "a": expected, "z": 1 },
    );
}

#[test]
fn pull_removes_equal_values() {
    check_pull(&bson!([1, 2, 1.0, "x"]), 1, &bson!([2, "x"]));
    check_pull(&bson!([1, [1], [1, 2]]), bson!([1]), &bson!([1, [1, 2]]));
    check_pull(&bson!([1, null]), Bson::Null, &bson!([1]));
    check_unchanged(&doc! { "$pull": { "a": 9 } }, &doc! { "a": [1, 2] });
    check_unchanged(&doc! { "$pull": { "a": 9, "b.c": 1 } }, &doc! { "a": [] });
}

#[test]
fn pull_asks_objects_by_their_fields() {
    check_pull(&bson!([{ "b": 1, "c": 2 }, { "b": 2 }, 1]), bson!({ "b": 1 }), &bson!([{ "b": 2 }, 1]));
    check_pull(
        &bson!([{ "b": 1, "c": 2 }, { "b": 2 }]),
        bson!({ "b": { "$gte": 2 } }),
        &bson!([{ "b": 1, "c": 2 }]),
    );
    check_pull(&bson!([{ "b": 1 }, { "c": 1 }, 5]), bson!({ "$or": [{ "b": 1 }, { "c": 1 }] }), &bson!([5]));
    check_pull(&bson!([{ "b": [1, 2] }, { "b": [3] }]), bson!({ "b": 2 }), &bson!([{ "b": [3] }]));
    check_pull(&bson!([{ "b": 1 }, 5, []]), bson!({}), &bson!([5, []]));
}

#[test]
fn pull_asks_elements_by_operators() {
    check_pull(&bson!([1, 5, 10, "x"]), bson!({ "$gte": 5 }), &bson!([1, "x"]));
    check_pull(&bson!([1, 5, 10]), bson!({ "$in": [1, 10] }), &bson!([5]));
    check_pull(&bson!([1, null, "x"]), bson!({ "$ne": 1 }), &bson!([1]));
    check_pull(&bson!([[1, 9], [2], 3]), bson!({ "$gt": 5 }), &bson!([[2], 3]));
    check_pull(&bson!([[1, 9], [2], 3]), bson!({ "$size": 1 }), &bson!([[1, 9], 3]));
    check_pull(&bson!(["ab", "b", 1]), crate::update::regex("^a"), &bson!(["b", 1]));
    check_pull(
        &bson!([[{ "b": 1 }], [{ "b": 2 }]]),
        bson!({ "$elemMatch": { "b": 1 } }),
        &bson!([[{ "b": 2 }]]),
    );
}

#[test]
fn pull_all_removes_equal_values() {
    check(
        &doc! { "$pullAll": { "a": [1, "x", [2]] } },
        &doc! { "a": [1, 2, "x", 1_i64, [2]] },
        &doc! { "a": [2] },
    );
    check_unchanged(&doc! { "$pullAll": { "a": [] } }, &doc! { "a": [1] });
    check_unchanged(&doc! { "$pullAll": { "a": [{ "b": 1 }] } }, &doc! { "a": [{ "b": 1, "c": 2 }] });
    check_error(
        &doc! { "$pullAll": { "a": 1 } },
        &doc! {},
        2,
        "malformed $pullAll of 'a': an array is needed, not 1",
    );
}

#[test]
fn pulling_needs_an_array_or_nothing() {
    check_error(&doc! { "$pull": { "a": 1 } }, &doc! { "a": 1 }, 2, "$pull needs an array, but 'a' is 1");
    check_error(
        &doc! { "$pullAll": { "a": [1] } },
        &doc! { "a": {} },
        2,
        "$pullAll needs an array, but 'a' is an object",
    );
    check_unchanged(&doc! { "$pullAll": { "a": [1] } }, &doc! {});
    check_error(&doc! { "$pull": { "a": { "$foo": 1 } } }, &doc! {}, 2, "malformed $pull of 'a'");
}

#[cfg(feature = "collation")]
#[test]
fn a_collation_says_which_elements_are_pulled() {
    let english = raw(&doc! { "locale": "en", "strength": 2 });
    let english = index::collation::Collation::parse(&english).expect("a collation");
    let pull = raw(&doc! { "$pull": { "tags": "RED" } });
    let update = cairndb_query::update::Update::parse_collated(&pull, &[], &english).expect("an update");
    let changed = update.apply(&raw(&doc! { "tags": ["red", "blue"] }), &context(Phase::Modify));
    assert_eq!(changed.expect("applied"), Some(raw(&doc! { "tags": ["blue"] })));
}
