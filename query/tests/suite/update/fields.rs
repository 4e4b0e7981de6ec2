//! Operators on single fields, and paths through objects and arrays.

use bson::{Bson, Document, bson, doc};
use cairndb_query::update::{Phase, Update};

use crate::update::{NOW, STAMP, check, check_error, check_unchanged, context, decimal, raw};

// $set, $unset, and paths.

#[test]
fn set_replaces_in_place_and_appends() {
    check(&doc! { "$set": { "b": 9 } }, &doc! { "a": 1, "b": 2, "c": 3 }, &doc! { "a": 1, "b": 9, "c": 3 });
    check(
        &doc! { "$set": { "b": { "x": [1] } } },
        &doc! { "b": 2, "c": 3 },
        &doc! { "b": { "x": [1] }, "c": 3 },
    );
    check(&doc! { "$set": { "c": "x" } }, &doc! { "a": 1 }, &doc! { "a": 1, "c": "x" });
    check(&doc! { "$set": { "a": 1_i64 } }, &doc! { "a": 1 }, &doc! { "a": 1_i64 });
}

#[test]
fn equal_bytes_are_no_change() {
    check_unchanged(&doc! { "$set": { "a": 1, "b.c": [1] } }, &doc! { "a": 1, "b": { "c": [1] } });
    check_unchanged(&doc! { "$set": {} }, &doc! { "a": 1 });
    check_unchanged(&doc! { "$unset": { "b": "" } }, &doc! { "a": 1 });
}

#[test]
fn parents_are_created_as_objects() {
    check(&doc! { "$set": { "a.b.c": 1 } }, &doc! {}, &doc! { "a": { "b": { "c": 1 } } });
    check(&doc! { "$set": { "a.0.b": 1 } }, &doc! {}, &doc! { "a": { "0": { "b": 1 } } });
    check(
        &doc! { "$set": { "a.c": 2 } },
        &doc! { "a": { "b": 1 }, "d": 3 },
        &doc! { "a": { "b": 1, "c": 2 }, "d": 3 },
    );
    check(&doc! { "$set": { "a.b": 1, "a.c": 2 } }, &doc! {}, &doc! { "a": { "b": 1, "c": 2 } });
}

#[test]
fn new_fields_follow_in_order() {
    check(
        &doc! { "$set": { "c": 3, "a": 1 }, "$inc": { "b": 2 } },
        &doc! { "z": 0 },
        &doc! { "z": 0, "a": 1, "b": 2, "c": 3 },
    );
    check(&doc! { "$set": { "10": 1, "9": 2, "a": 3 } }, &doc! {}, &doc! { "9": 2, "10": 1, "a": 3 });
}

#[test]
fn numbers_are_positions_of_arrays_only() {
    check(&doc! { "$set": { "a.1": 9 } }, &doc! { "a": [1, 2, 3] }, &doc! { "a": [1, 9, 3] });
    check(&doc! { "$set": { "a.1": 9 } }, &doc! { "a": { "0": 1 } }, &doc! { "a": { "0": 1, "1": 9 } });
    check(&doc! { "$set": { "a.0.b": 9 } }, &doc! { "a": [{ "b": 1 }, 2] }, &doc! { "a": [{ "b": 9 }, 2] });
    check(
        &doc! { "$set": { "a.0.1.b": 9 } },
        &doc! { "a": [[1, { "b": 1 }]] },
        &doc! { "a": [[1, { "b": 9 }]] },
    );
    check(
        &doc! { "$set": { "a.3": 9, "a.1": 8 } },
        &doc! { "a": [1] },
        &doc! { "a": [1, 8, (Bson::Null), 9] },
    );
    check(&doc! { "$set": { "a.1.b": 9 } }, &doc! { "a": [] }, &doc! { "a": [(Bson::Null), { "b": 9 }] });
    check(
        &doc! { "$set": { "a.11": 2, "a.2": 1 } },
        &doc! { "a": (0..12).collect::<Vec<_>>() },
        &doc! { "a": [0, 1, 1, 3, 4, 5, 6, 7, 8, 9, 10, 2] },
    );
}

#[test]
fn arrays_are_padded_up_to_a_limit() {
    let limit = "a.1500000";
    let parsed = Update::parse(&raw(&doc! { "$set": { limit: 1 } }), &[]).unwrap();
    let padded = parsed.apply(&raw(&doc! { "a": [] }), &context(Phase::Modify)).unwrap().unwrap();
    assert_eq!(padded.get_array("a").unwrap().into_iter().count(), 1_500_001);
    check_error(
        &doc! { "$set": { "a.1500002": 1 } },
        &doc! { "a": [1] },
        34,
        "cannot pad the array 'a' by 1500001 elements, where 1500000 are the limit",
    );
    check_unchanged(&doc! { "$unset": { "a.9999999999": 1 } }, &doc! { "a": [1] });
}

#[test]
fn padding_many_arrays_ends_at_the_size_limit() {
    let fields = (0..50).map(|field| (format!("a.{field}.1500000"), Bson::Int32(1))).collect::<Document>();
    let arrays = (0..50).map(|_| Bson::Array(Vec::new())).collect::<Vec<_>>();
    let text = "the updated document would be larger than 16777216 bytes";
    check_error(&doc! { "$set": fields }, &doc! { "a": arrays }, 17_419, text);
}

#[test]
fn paths_do_not_lead_through_scalars() {
    check_error(
        &doc! { "$set": { "a.b": 1 } },
        &doc! { "a": 5 },
        28,
        "Cannot create field 'b' in element {a: 5}",
    );
    check_error(
        &doc! { "$set": { "a.b.c": 1 } },
        &doc! { "a": (Bson::Null) },
        28,
        "Cannot create field 'b' in element {a: null}",
    );
    check_error(
        &doc! { "$inc": { "a.b": 1 } },
        &doc! { "a": [1] },
        28,
        "Cannot create field 'b' in element {a: an array}",
    );
    check_error(
        &doc! { "$set": { "a.01": 1 } },
        &doc! { "a": [1] },
        28,
        "Cannot create field '01' in element {a: an array}",
    );
    check_error(
        &doc! { "$set": { "a.0.b": 1 } },
        &doc! { "a": ["x"] },
        28,
        "Cannot create field 'b' in element {0: \"x\"}",
    );
    check_unchanged(&doc! { "$unset": { "a.b": 1 } }, &doc! { "a": 5 });
    check_unchanged(&doc! { "$unset": { "a.b.c": 1 } }, &doc! { "a": [1] });
}

#[test]
fn unset_removes_fields_and_empties_elements() {
    check(
        &doc! { "$unset": { "a": 1, "c.d": "" } },
        &doc! { "a": 1, "b": 2, "c": { "d": 1, "e": 2 } },
        &doc! { "b": 2, "c": { "e": 2 } },
    );
    check(&doc! { "$unset": { "a.1": "" } }, &doc! { "a": [1, 2, 3] }, &doc! { "a": [1, (Bson::Null), 3] });
    check(
        &doc! { "$unset": { "a.0.b": "" } },
        &doc! { "a": [{ "b": 1, "c": 2 }] },
        &doc! { "a": [{ "c": 2 }] },
    );
    check_unchanged(&doc! { "$unset": { "a.5": "" } }, &doc! { "a": [1] });
}

#[test]
fn the_first_of_two_equal_names_is_updated() {
    let mut twice = raw(&doc! { "a": 1 });
    twice.append(bson::cstr!("a"), 2);
    let parsed = Update::parse(&raw(&doc! { "$inc": { "a": 5 } }), &[]).unwrap();
    let changed = parsed.apply(&twice, &context(Phase::Modify)).unwrap().unwrap();
    let values = changed.iter().map(|field| field.unwrap().1.as_i32().unwrap());
    assert_eq!(values.collect::<Vec<_>>(), [6, 2]);
}

// $setOnInsert, $currentDate.

#[test]
fn set_on_insert_counts_on_insertion_only() {
    let update = doc! { "$setOnInsert": { "a": 1, "b.c": 2 } };
    check_unchanged(&update, &doc! { "a": 0 });
    check_unchanged(&update, &doc! { "a": 0, "b": 5 });
    let parsed = Update::parse(&raw(&update), &[]).unwrap();
    let inserted = parsed.apply(&raw(&doc! { "a": 0 }), &context(Phase::Insert)).unwrap();
    assert_eq!(inserted, Some(raw(&doc! { "a": 1, "b": { "c": 2 } })));
}

#[test]
fn the_clock_is_the_callers() {
    check(
        &doc! { "$currentDate": { "a": true, "b": { "$type": "date" }, "c": { "$type": "timestamp" }, "d": false } },
        &doc! { "a": 1 },
        &doc! { "a": NOW, "b": NOW, "c": STAMP, "d": NOW },
    );
}

// $inc, $mul.

#[test]
fn numbers_are_added_and_multiplied() {
    check(&doc! { "$inc": { "a": 5 } }, &doc! { "a": 1, "b": 2 }, &doc! { "a": 6, "b": 2 });
    check(
        &doc! { "$inc": { "a": -1.5, "b.c": 2_i64 } },
        &doc! { "a": 1 },
        &doc! { "a": -0.5, "b": { "c": 2_i64 } },
    );
    check(&doc! { "$inc": { "a": 1 } }, &doc! { "a": i32::MAX }, &doc! { "a": 2_147_483_648_i64 });
    check(
        &doc! { "$mul": { "a": 3, "b": 2, "c": 2.5 } },
        &doc! { "a": 2_i64 },
        &doc! { "a": 6_i64, "b": 0, "c": 0.0 },
    );
    check(&doc! { "$inc": { "a": decimal("0.1") } }, &doc! { "a": 1 }, &doc! { "a": decimal("1.1") });
    check_unchanged(&doc! { "$inc": { "a": 0 }, "$mul": { "b": 1 } }, &doc! { "a": 5, "b": 6.5 });
    check(&doc! { "$inc": { "a": 0_i64 } }, &doc! { "a": 5 }, &doc! { "a": 5_i64 });
}

#[test]
fn arithmetic_needs_numbers() {
    let text = "Cannot apply $inc to a value of non-numeric type: 'a' is \"x\"";
    check_error(&doc! { "$inc": { "a": 1 } }, &doc! { "a": "x" }, 14, text);
    let text = "Cannot apply $mul to a value of non-numeric type: 'a.b' is null";
    check_error(&doc! { "$mul": { "a.b": 1 } }, &doc! { "a": { "b": (Bson::Null) } }, 14, text);
    check_error(
        &doc! { "$inc": { "a": "1" } },
        &doc! {},
        14,
        "malformed $inc of 'a': a number is needed, not \"1\"",
    );
    check_error(
        &doc! { "$inc": { "a": 1 } },
        &doc! { "a": i64::MAX },
        2,
        "$inc of 'a' overflows a 64-bit integer",
    );
    check_error(
        &doc! { "$mul": { "a": 2 } },
        &doc! { "a": i64::MIN },
        2,
        "$mul of 'a' overflows a 64-bit integer",
    );
}

// $min, $max, $bit.

#[test]
fn limits_compare_across_types() {
    check(&doc! { "$min": { "a": 3 } }, &doc! { "a": 5 }, &doc! { "a": 3 });
    check_unchanged(&doc! { "$min": { "a": 7 } }, &doc! { "a": 5 });
    check(&doc! { "$max": { "a": 7 } }, &doc! { "a": 5 }, &doc! { "a": 7 });
    check_unchanged(&doc! { "$max": { "a": 3 } }, &doc! { "a": 5 });
    check_unchanged(&doc! { "$min": { "a": 5.0 }, "$max": { "b": 5_i64 } }, &doc! { "a": 5, "b": 5 });
    check(&doc! { "$max": { "a": "x" } }, &doc! { "a": 5 }, &doc! { "a": "x" });
    check(&doc! { "$min": { "a": (Bson::Null) } }, &doc! { "a": 5 }, &doc! { "a": (Bson::Null) });
    check(&doc! { "$min": { "a": 5 }, "$max": { "b": 6 } }, &doc! {}, &doc! { "a": 5, "b": 6 });
}

#[test]
fn bits_are_those_of_integers() {
    check(&doc! { "$bit": { "a": { "and": 10 } } }, &doc! { "a": 13 }, &doc! { "a": 8 });
    check(&doc! { "$bit": { "a": { "or": 5 } } }, &doc! { "a": 3 }, &doc! { "a": 7 });
    check(&doc! { "$bit": { "a": { "xor": 5_i64 } } }, &doc! { "a": 1 }, &doc! { "a": 4_i64 });
    check(&doc! { "$bit": { "a": { "or": 5, "and": 4 } } }, &doc! {}, &doc! { "a": 4 });
    check(&doc! { "$bit": { "a": { "and": 5_i64 } } }, &doc! {}, &doc! { "a": 0_i64 });
    check_unchanged(&doc! { "$bit": { "a": { "or": 1 } } }, &doc! { "a": 1 });
    let text = "Cannot apply $bit to a value of non-integral type: 'a' is 1.0";
    check_error(&doc! { "$bit": { "a": { "or": 1 } } }, &doc! { "a": 1.0 }, 2, text);
}

#[test]
fn bit_operations_are_checked() {
    let check_operand = |operand: Bson, fault: &str| {
        check_error(
            &doc! { "$bit": { "a": operand } },
            &doc! {},
            2,
            &format!("malformed $bit of 'a': {fault}"),
        );
    };
    check_operand(bson!(5), "an object of 'and', 'or' and 'xor' is needed, not 5");
    check_operand(bson!({}), "at least one of 'and', 'or' and 'xor' is needed");
    check_operand(bson!({ "not": 1 }), "unrecognized clause not");
    check_operand(bson!({ "or": 1.0 }), "a 32-bit or 64-bit integer is needed, not 1.0");
}

// $rename.

#[test]
fn rename_moves_a_value() {
    check(&doc! { "$rename": { "a": "c" } }, &doc! { "a": 1, "b": 2 }, &doc! { "b": 2, "c": 1 });
    check(&doc! { "$rename": { "a": "b" } }, &doc! { "a": 1, "c": 0, "b": 2 }, &doc! { "c": 0, "b": 1 });
    check(
        &doc! { "$rename": { "a.x": "b.y.z" } },
        &doc! { "a": { "x": [1], "w": 0 } },
        &doc! { "a": { "w": 0 }, "b": { "y": { "z": [1] } } },
    );
    check(&doc! { "$rename": { "a.x": "a.y" } }, &doc! { "a": { "x": 1 } }, &doc! { "a": { "y": 1 } });
    check(&doc! { "$rename": { "a": "b" } }, &doc! { "a": 1, "b": 1 }, &doc! { "b": 1 });
    check_unchanged(&doc! { "$rename": { "a": "b.c", "x.y": "z" } }, &doc! { "b": 5, "x": {} });
    check(
        &doc! { "$rename": { "a": "b", "c": "d" }, "$set": { "e": 1 } },
        &doc! { "a": 1, "c": 2 },
        &doc! { "b": 1, "d": 2, "e": 1 },
    );
}

#[test]
fn rename_keeps_out_of_arrays() {
    let inside = |part: &str, path: &str| {
        format!("the {part} field of $rename cannot be an array element, and '{path}' is one")
    };
    check_error(&doc! { "$rename": { "a.0": "b" } }, &doc! { "a": [1] }, 2, &inside("source", "a.0"));
    check_error(
        &doc! { "$rename": { "a.0.b": "b" } },
        &doc! { "a": [{ "b": 1 }] },
        2,
        &inside("source", "a.0.b"),
    );
    check_unchanged(&doc! { "$rename": { "a.5.b": "b" } }, &doc! { "a": [{ "b": 1 }] });
    check_error(
        &doc! { "$rename": { "b": "a.0" } },
        &doc! { "a": [1], "b": 2 },
        2,
        &inside("destination", "a.0"),
    );
    check_error(
        &doc! { "$rename": { "b": "a.c.d" } },
        &doc! { "a": { "c": [] }, "b": 2 },
        2,
        &inside("destination", "a.c.d"),
    );
    check(&doc! { "$rename": { "b": "a" } }, &doc! { "a": [1], "b": [2] }, &doc! { "a": [2] });
    let text = "cannot use the part (b) of (a.b) to traverse the element {a: an array}";
    check_error(&doc! { "$rename": { "a.b": "c" } }, &doc! { "a": [] }, 28, text);
    let text = "cannot use the part (b) of (a.b) to traverse the element {a: 5}";
    check_error(&doc! { "$rename": { "a.b.c": "c" } }, &doc! { "a": 5 }, 28, text);
    check_error(
        &doc! { "$rename": { "a": "b.c" } },
        &doc! { "a": 1, "b": 5 },
        28,
        "Cannot create field 'c' in element {b: 5}",
    );
}

#[test]
fn rename_needs_two_plain_paths() {
    let check_target = |from: &str, to: Bson, fault: &str| {
        check_error(
            &doc! { "$rename": { from: to } },
            &doc! { "a": 1 },
            2,
            &format!("malformed $rename of '{from}': {fault}"),
        );
    };
    check_target("a", bson!("a"), "source and target must differ");
    check_target("a", bson!("a.b"), "source and target 'a.b' must not be on the same path");
    check_target("a.b", bson!("a"), "source and target 'a' must not be on the same path");
    check_target("a", bson!(5), "a string is needed, not 5");
    check_target("a.$", bson!("b"), "the source field 'a.$' may not be dynamic");
    check_target("a", bson!("b.$[]"), "the destination field 'b.$[]' may not be dynamic");
    check_error(
        &doc! { "$rename": { "a": "b\0" } },
        &doc! {},
        2,
        "the update path 'b\0' contains a zero character",
    );
    check_error(&doc! { "$rename": { "a": "" } }, &doc! {}, 56, "the update path '' is empty");
}
