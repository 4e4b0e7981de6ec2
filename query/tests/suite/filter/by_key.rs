//! Values that are found by their key alone.

use bson::{Bson, RawBson, bson, doc};
use index::collation::SIMPLE;
use index::key::{self, Direction};

use crate::filter::{parse, raw};

/// The rule that decides whether a value is found by its key alone, beside what filters mean: a document without an
/// array matches an equality if it has the key of the value, and not otherwise.
#[test]
fn an_equality_by_a_value_that_its_key_finds_means_its_key() {
    let bytes = |subtype| Bson::Binary(bson::Binary { subtype, bytes: vec![1, 2] });
    let values = [
        bson!(1),
        bson!(1.0),
        bson!(1_i64),
        bson!(f64::NAN),
        bson!(0.0),
        bson!(-0.0),
        bson!("a"),
        bson!("b"),
        bson!(true),
        bson!(null),
        bson!({}),
        bson!({ "x": 1 }),
        Bson::Undefined,
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Symbol("a".to_owned()),
        Bson::Decimal128("1.00".parse().expect("a number")),
        Bson::Decimal128("NaN".parse().expect("a number")),
        Bson::DateTime(bson::DateTime::from_millis(1)),
        Bson::Timestamp(bson::Timestamp { time: 0, increment: 1 }),
        Bson::ObjectId(bson::oid::ObjectId::from_bytes([1; 12])),
        bytes(bson::spec::BinarySubtype::Generic),
        bytes(bson::spec::BinarySubtype::BinaryOld),
        bytes(bson::spec::BinarySubtype::Uuid),
    ];
    let key = |value: &Bson| {
        let mut key = Vec::new();
        let value = RawBson::try_from(value.clone()).expect("a value");
        key::encode(value.as_raw_bson_ref(), Direction::Ascending, &mut key);
        key
    };
    let mut found = 0;
    for asked in &values {
        let value = RawBson::try_from(asked.clone()).expect("a value");
        if SIMPLE.finds_by_key(value.as_raw_bson_ref()) {
            found += 1;
            let filter = parse(&doc! { "a": asked.clone() });
            for stored in &values {
                let matches = filter.matches(&raw(&doc! { "a": stored.clone() }));
                assert_eq!(matches, key(stored) == key(asked), "{asked} {stored}");
            }
            assert!(!filter.matches(&raw(&doc! {})), "{asked}");
        }
    }
    assert_eq!(found, 17);
}
