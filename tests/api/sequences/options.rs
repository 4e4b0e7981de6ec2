//! The allowed sequences: options, their types, their rules, and names.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::spec::ElementType;
use cairndb::bson::{Bson, Decimal128, Document, bson, doc, serialize_to_document};
use cairndb::{AutoIncrement, Contract, SequenceOptions};

use super::{Numbers, sequence_refuses};

const INTEGERS: [&str; 7] =
    ["Increment", "StartValue", "MinValue", "MaxValue", "CurrentValue", "CacheSize", "AcquireSize"];

/// A sequence with these options shows these fields.
#[track_caller]
fn creates(options: Document, fields: Document) {
    Numbers::with(options).shows(fields);
}

/// No sequence has these options, and none is changed to have them.
#[track_caller]
fn refuses(options: Document, words: &str) {
    let Numbers { sequence: numbers, db, client: _client, scratch: _scratch } = Numbers::with(doc! {});
    let before = numbers.snapshot().run().expect("a snapshot");
    let options = SequenceOptions::try_from(options).expect("the types are right");
    sequence_refuses(db.create_sequence("others").with_options(options.clone()).run(), -6, words);
    assert_eq!(db.list_sequences().run().expect("a list"), ["numbers"]);
    sequence_refuses(numbers.alter(options).run(), -6, words);
    assert_eq!(numbers.snapshot().run().expect("a snapshot"), before);
}

/// A document with this option is rejected, for a sequence and for a field.
#[track_caller]
fn misspelled(option: &str, value: Bson, code: i32, words: &str) {
    let document = doc! { option: value };
    let for_sequence = SequenceOptions::try_from(document.clone());
    assert_eq!(sequence_refuses(for_sequence, -6, words).code(), Some(code));
    let for_field = AutoIncrement::try_from(document);
    assert_eq!(sequence_refuses(for_field, -6, words).code(), Some(code));
}

#[test]
fn defaults_follow_the_sign_of_the_increment() {
    let sizes = doc! { "CacheSize": 1000, "AcquireSize": 1000, "Cycled": false, "Contract": "fast" };
    creates(doc! {}, sizes.clone());
    creates(doc! { "Increment": -1 }, sizes);
    let ascending =
        doc! { "StartValue": 1_i64, "MinValue": 1_i64, "MaxValue": i64::MAX, "CurrentValue": 1_i64 };
    creates(doc! {}, doc! { "Increment": 1 });
    creates(doc! {}, ascending.clone());
    creates(doc! { "Increment": 7 }, ascending);
    let descending =
        doc! { "StartValue": -1_i64, "MinValue": i64::MIN, "MaxValue": -1_i64, "CurrentValue": -1_i64 };
    creates(doc! { "Increment": -7 }, descending);
}

#[test]
fn a_given_limit_is_kept_whatever_the_sign() {
    let kept = doc! { "StartValue": -1_i64, "MinValue": i64::MIN, "MaxValue": 50_i64 };
    creates(doc! { "Increment": -1, "MaxValue": 50 }, kept);
    let kept = doc! { "StartValue": -7_i64, "MinValue": i64::MIN, "MaxValue": -1_i64 };
    creates(doc! { "Increment": -1, "StartValue": -7 }, kept);
}

#[test]
fn turning_the_sign_later_leaves_the_limits() {
    let numbers = Numbers::with(doc! {});
    numbers.alter(doc! { "Increment": -1 });
    numbers.shows(doc! { "Increment": -1, "StartValue": 1_i64, "MinValue": 1_i64, "MaxValue": i64::MAX });
}

#[test]
fn integers_of_32_and_64_bits_are_one() {
    let narrow = doc! { "Increment": 2, "StartValue": 3, "MinValue": -4, "MaxValue": 500, "CurrentValue": 5,
    "CacheSize": 20, "AcquireSize": 10 };
    let wide: Document = narrow
        .iter()
        .map(|(name, value)| (name.clone(), bson!(i64::from(value.as_i32().unwrap()))))
        .collect();
    assert_eq!(
        SequenceOptions::try_from(narrow.clone()).unwrap(),
        SequenceOptions::try_from(wide.clone()).unwrap()
    );
    assert_eq!(AutoIncrement::try_from(narrow).unwrap(), AutoIncrement::try_from(wide).unwrap());
}

#[test]
fn a_document_and_a_builder_say_the_same() {
    let document = doc! { "Increment": 2, "StartValue": 3, "MinValue": -4, "MaxValue": 500_i64, "CurrentValue": 5,
    "CacheSize": 20, "AcquireSize": 10, "Cycled": true, "Contract": "ordered" };
    let built = SequenceOptions::builder()
        .increment(2)
        .start_value(3)
        .min_value(-4)
        .max_value(500)
        .current_value(5)
        .cache_size(20)
        .acquire_size(10)
        .cycled(true)
        .contract(Contract::Ordered)
        .build();
    assert_eq!(SequenceOptions::try_from(document).unwrap(), built);
}

#[test]
fn integer_options_take_integers_only() {
    let others: [(Bson, &str); 9] = [
        (bson!(2.0), "a double"),
        (Bson::Decimal128("2".parse::<Decimal128>().unwrap()), "a decimal"),
        (bson!("2"), "the string \"2\""),
        (Bson::Null, "null"),
        (bson!(true), "the boolean true"),
        (bson!([2]), "an array"),
        (bson!({ "a": 2 }), "a document"),
        (Bson::ObjectId(ObjectId::from_bytes([0; 12])), "a value of another type"),
        (Bson::MinKey, "a value of another type"),
    ];
    for option in INTEGERS {
        for (value, found) in others.clone() {
            let words = format!("{option} must be a 32-bit or 64-bit integer, not {found}");
            misspelled(option, value, 14, &words);
        }
    }
}

#[test]
fn cycled_takes_booleans_and_contract_the_three_names() {
    misspelled("Cycled", bson!(1), 14, "Cycled must be a boolean, not the integer 1");
    misspelled("Cycled", bson!(0_i64), 14, "Cycled must be a boolean, not the integer 0");
    misspelled("Cycled", bson!("true"), 14, "Cycled must be a boolean, not the string \"true\"");
    misspelled("Cycled", Bson::Null, 14, "Cycled must be a boolean, not null");
    misspelled("Contract", bson!(1), 14, "Contract must be a string, not the integer 1");
    misspelled("Contract", bson!("Fast"), 2, "one of \"fast\", \"ordered\", \"gapless\", not \"Fast\"");
    for contract in Contract::ALL {
        creates(doc! { "Contract": contract.name() }, doc! { "Contract": contract.name() });
    }
}

#[test]
fn unknown_options_are_refused_by_name() {
    for option in ["Cycle", "increment", "Values", "", "Increment "] {
        let error = SequenceOptions::try_from(doc! { option: 1 });
        let error = sequence_refuses(error, -6, &format!("\"{option}\" is not an option of a sequence"));
        assert_eq!(error.code(), Some(2));
    }
    let error = AutoIncrement::try_from(doc! { "Cycle": 1 });
    sequence_refuses(error, -6, "\"Cycle\" is not an option of an auto-increment field");
    sequence_refuses(SequenceOptions::try_from(doc! { "Field": "a" }), -6, "\"Field\" is not an option");
    sequence_refuses(SequenceOptions::try_from(doc! { "Generated": "always" }), -6, "\"Generated\" is not");
}

#[test]
fn what_the_engine_sets_cannot_be_given() {
    for option in ["CycledCount", "Initial", "Internal", "Version", "ID", "CLUniqueID", "_id", "Name"] {
        misspelled(option, bson!(1), 2, &format!("{option} cannot be set"));
    }
}

#[test]
fn a_current_value_cannot_be_given_to_a_new_sequence() {
    let Numbers { db, client: _client, scratch: _scratch, .. } = Numbers::with(doc! {});
    let options = SequenceOptions::builder().current_value(5).build();
    let created = db.create_sequence("others").with_options(options).run();
    sequence_refuses(created, -6, "CurrentValue cannot be set when a sequence is created");
}

#[test]
fn the_rules_between_attributes_hold_at_creation_and_change() {
    refuses(
        doc! { "MinValue": 5, "MaxValue": 5, "StartValue": 5 },
        "MinValue must be less than MaxValue 5, not 5",
    );
    refuses(doc! { "MinValue": 6, "MaxValue": 5 }, "MinValue must be less than MaxValue 5, not 6");
    refuses(doc! { "StartValue": 0 }, "StartValue must be within MinValue 1 and MaxValue");
    refuses(
        doc! { "StartValue": 9, "MaxValue": 8 },
        "StartValue must be within MinValue 1 and MaxValue 8, not 9",
    );
    refuses(doc! { "Increment": 0 }, "Increment must be within -2147483647 and 2147483647 and not 0, not 0");
    refuses(doc! { "Increment": 2_147_483_648_i64 }, "Increment must be within");
    refuses(
        doc! { "Increment": i32::MIN, "StartValue": 1, "MinValue": 1, "MaxValue": 9 },
        "Increment must be within",
    );
    refuses(doc! { "CacheSize": 0, "AcquireSize": 0 }, "CacheSize must be within 1 and 2147483647, not 0");
    refuses(
        doc! { "CacheSize": 2_147_483_648_i64 },
        "CacheSize must be within 1 and 2147483647, not 2147483648",
    );
    refuses(doc! { "AcquireSize": 0 }, "AcquireSize must be within 1 and 2147483647, not 0");
    refuses(doc! { "AcquireSize": -1 }, "AcquireSize must be within 1 and 2147483647, not -1");
    refuses(doc! { "CacheSize": 999 }, "AcquireSize must be at most CacheSize 999, not 1000");
    refuses(
        doc! { "CacheSize": 111, "AcquireSize": 112 },
        "AcquireSize must be at most CacheSize 111, not 112",
    );
    refuses(
        doc! { "MaxValue": 999 },
        "CacheSize must be at most the 999 values from MinValue to MaxValue, not 1000",
    );
    refuses(doc! { "MaxValue": 1001, "Increment": 2 }, "CacheSize must be at most the 501 values");
}

#[test]
fn rules_are_reported_in_their_order() {
    refuses(doc! { "MinValue": 5, "MaxValue": 4, "StartValue": 9, "Increment": 0 }, "MinValue must");
    refuses(doc! { "StartValue": 0, "Increment": 0 }, "StartValue must");
    refuses(doc! { "Increment": 0, "CacheSize": 0 }, "Increment must");
    refuses(doc! { "CacheSize": 0, "AcquireSize": 0 }, "CacheSize must");
    refuses(doc! { "CacheSize": 5, "AcquireSize": 0 }, "AcquireSize must be within");
    refuses(
        doc! { "MaxValue": 10, "CacheSize": 20, "AcquireSize": 21 },
        "AcquireSize must be at most CacheSize",
    );
    let numbers = Numbers::with(doc! {});
    let first = numbers.try_alter(doc! { "CurrentValue": 0, "MinValue": 5, "MaxValue": 4 });
    sequence_refuses(first, -6, "CurrentValue must be within");
}

#[test]
fn the_values_are_counted_from_least_to_greatest_without_overflow() {
    let half = doc! { "MinValue": -2_147_483_647, "MaxValue": 2_147_483_647, "CacheSize": 2_147_483_647 };
    let with = |increment: i32| {
        half.iter()
            .map(|(n, v)| (n.clone(), v.clone()))
            .chain([("Increment".to_owned(), bson!(increment))])
            .collect::<Document>()
    };
    creates(with(-2), doc! { "CacheSize": 2_147_483_647, "StartValue": -1_i64 });
    refuses(with(-3).into_iter().chain(doc! { "StartValue": 1 }).collect(), "the 1431655765 values");
    creates(doc! { "CacheSize": 111, "AcquireSize": 111 }, doc! { "AcquireSize": 111 });
    creates(doc! { "MaxValue": 1000 }, doc! { "CacheSize": 1000 });
    creates(doc! { "StartValue": 999, "MaxValue": 1000 }, doc! { "StartValue": 999_i64 });
    let whole = doc! { "MinValue": i64::MIN, "MaxValue": i64::MAX, "CacheSize": i32::MAX };
    creates(whole, doc! { "MinValue": i64::MIN, "MaxValue": i64::MAX });
}

#[test]
fn a_current_value_is_held_against_the_limits_of_its_own_call() {
    let numbers = Numbers::with(doc! {});
    let sizes = doc! { "MaxValue": 10, "CacheSize": 5, "AcquireSize": 5 };
    let with =
        |value: i32| sizes.clone().into_iter().chain(doc! { "CurrentValue": value }).collect::<Document>();
    sequence_refuses(
        numbers.try_alter(with(11)),
        -6,
        "CurrentValue must be within MinValue 1 and MaxValue 10, not 11",
    );
    numbers.alter(with(9));
    assert_eq!(numbers.next(), 10);
    numbers.is_used_up();
}

#[test]
fn a_change_of_nothing_is_none() {
    let numbers = Numbers::with(doc! {});
    assert_eq!(numbers.take(3), [1, 2, 3]);
    let before = numbers.snapshot();
    numbers.alter(doc! {});
    numbers.alter(doc! { "Increment": 1, "CacheSize": 1000_i64, "Cycled": false, "Contract": "fast" });
    assert_eq!(numbers.snapshot(), before);
    assert_eq!(numbers.next(), 4);
}

/// A name that a sequence may have, or why not.
#[track_caller]
fn names(name: &str, reason: Option<&str>) {
    let numbers = Numbers::with(doc! {});
    let created = numbers.db.create_sequence(name).run();
    let Some(reason) = reason else {
        created.expect("an allowed name");
        assert_eq!(numbers.db.sequence(name).next_value().run().expect("a value"), 1);
        return;
    };
    sequence_refuses(created, -6, reason);
    sequence_refuses(numbers.db.sequence(name).next_value().run(), -6, reason);
    // Looking is allowed at the sequences behind fields.
    let looked = if reason.contains("SYS") { (-324, "there is no sequence") } else { (-6, reason) };
    sequence_refuses(numbers.db.sequence(name).snapshot().run(), looked.0, looked.1);
    sequence_refuses(numbers.db.sequence(name).alter(SequenceOptions::default()).run(), -6, reason);
    sequence_refuses(numbers.db.drop_sequence(name).run(), -6, reason);
    sequence_refuses(numbers.db.rename_sequence(name, "others").run(), -6, reason);
    sequence_refuses(numbers.db.rename_sequence("numbers", name).run(), -6, reason);
    assert_eq!(numbers.db.list_sequences().run().expect("a list"), ["numbers"]);
}

#[test]
fn names_start_neither_with_sys_nor_with_signs() {
    names("序列", None);
    names("SY", None);
    names("order numbers", None);
    names("a$", None);
    names("", Some("it is empty"));
    names("$a", Some("it starts with $"));
    names(" a", Some("it starts with a space or a tab"));
    names("\ta", Some("it starts with a space or a tab"));
    for name in ["SYS", "sys_a", "Sys.a", "SYS_1_a_SEQ"] {
        names(name, Some("names that start with SYS belong to auto-increment fields"));
    }
}

#[test]
fn a_snapshot_has_the_names_and_types_of_the_model() {
    let numbers = Numbers::with(doc! {});
    let snapshot = serialize_to_document(&numbers.snapshot()).unwrap();
    let types: Vec<(&str, &str)> =
        snapshot.iter().map(|(name, value)| (name.as_str(), type_name(value))).collect();
    let expected = [
        ("_id", "oid"),
        ("Internal", "bool"),
        ("ID", "int64"),
        ("CLUniqueID", "int64"),
        ("Name", "string"),
        ("Version", "int64"),
        ("CurrentValue", "int64"),
        ("StartValue", "int64"),
        ("MinValue", "int64"),
        ("MaxValue", "int64"),
        ("Increment", "int32"),
        ("CacheSize", "int32"),
        ("AcquireSize", "int32"),
        ("Cycled", "bool"),
        ("CycledCount", "int32"),
        ("Initial", "bool"),
        ("Contract", "string"),
        ("LastUsed", "null"),
        ("UsedUpTo", "null"),
        ("Remaining", "int64"),
        ("Exhausted", "bool"),
        ("Reservations", "int64"),
        ("Lost", "int64"),
    ];
    assert_eq!(types, expected);
    let new = doc! { "Internal": false, "ID": 1_i64, "CLUniqueID": 0_i64, "Name": "numbers", "Version": 0_i64,
    "CycledCount": 0, "Initial": true, "Remaining": i64::MAX, "Exhausted": false, "Reservations": 0_i64, "Lost": 0_i64 };
    numbers.shows(new);
    numbers.take(3);
    let used = doc! { "Initial": false, "CurrentValue": 1000_i64, "LastUsed": 3_i64, "Reservations": 1_i64,
    "Remaining": i64::MAX - 3 };
    numbers.shows(used);
}

fn type_name(value: &Bson) -> &'static str {
    let names = [
        (ElementType::ObjectId, "oid"),
        (ElementType::Boolean, "bool"),
        (ElementType::Int32, "int32"),
        (ElementType::Int64, "int64"),
        (ElementType::String, "string"),
        (ElementType::Null, "null"),
    ];
    let name = names.into_iter().find(|(element_type, _)| *element_type == value.element_type());
    name.map_or("none of a snapshot's", |(_, name)| name)
}

#[test]
fn what_counts_as_used_is_told_when_a_sequence_is_made() {
    let numbers = Numbers::with(doc! {});
    let create = |options: Document| {
        let options = SequenceOptions::try_from(options)?;
        numbers.db.create_sequence("others").with_options(options).run()
    };
    let narrow = |value: i64| doc! { "MaxValue": 10, "CacheSize": 1, "AcquireSize": 1, "UsedUpTo": value };
    for value in [0, 11] {
        let words = format!("UsedUpTo must be within MinValue 1 and MaxValue 10, not {value}");
        sequence_refuses(create(narrow(value)), -6, &words);
    }
    assert!(create(doc! { "UsedUpTo": 1.5 }).is_err());
    assert_eq!(numbers.db.list_sequences().run().unwrap(), ["numbers"], "nothing was made");
    create(narrow(9)).unwrap();
    assert_eq!(numbers.db.sequence("others").next_value().run().unwrap(), 10);
    let altered = numbers.try_alter(doc! { "UsedUpTo": 5 });
    sequence_refuses(altered, -6, "UsedUpTo cannot be set when a sequence is changed");
}
