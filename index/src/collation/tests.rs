//! Collations by what MongoDB documents of them, and sort keys beside the comparison that they represent.

use bson::{Bson, Document, RawBson, RawDocumentBuf, bson, doc};
use proptest::prelude::*;

use super::*;
use crate::key::{Direction, encode};
use crate::proptest_support::{Raw, any_value};

fn collation(document: &Document) -> Collation {
    parsed(document).unwrap_or_else(|error| panic!("{document}: {error}"))
}

fn parsed(document: &Document) -> Result<Collation, Error> {
    Collation::parse(&RawDocumentBuf::try_from(document).expect("a document"))
}

/// Checks that the texts ascend, each strictly above the one before.
#[track_caller]
fn check(document: &Document, ascending: &[&str]) {
    let collation = collation(document);
    for (low, high) in ascending.iter().zip(ascending.iter().skip(1)) {
        assert!(collation.compare_texts(low, high).is_lt(), "{document}: {low} {high}");
        assert!(collation.key_text(low) < collation.key_text(high), "{document}: {low} {high}");
    }
}

#[track_caller]
fn check_equal(document: &Document, left: &str, right: &str, expected: bool) {
    let collation = collation(document);
    assert_eq!(collation.compare_texts(left, right).is_eq(), expected, "{document}: {left} {right}");
    assert_eq!(collation.key_text(left) == collation.key_text(right), expected, "{document}: {left} {right}");
}

#[track_caller]
fn refused(document: &Document, part: &str) {
    let error = parsed(document).expect_err("refused");
    assert!(error.to_string().contains(part), "{document}: {error}");
}

#[test]
fn strength_says_which_differences_count() {
    for (strength, accents, case) in [(1, true, true), (2, false, true), (3, false, false), (5, false, false)]
    {
        let document = doc! { "locale": "en_US", "strength": strength };
        check_equal(&document, "cafe", "café", accents);
        check_equal(&document, "Cafe", "cafe", case);
        check_equal(&document, "cafe", "cafes", false);
    }
    let with_case = doc! { "locale": "en", "strength": 1, "caseLevel": true };
    check_equal(&with_case, "Cafe", "cafe", false);
    check_equal(&with_case, "cafe", "café", true);
}

#[test]
fn options_change_the_order() {
    check(&doc! { "locale": "en" }, &["1", "10", "2", "a", "A", "b"]);
    check(&doc! { "locale": "en", "numericOrdering": true }, &["1", "2", "10", "a"]);
    check(&doc! { "locale": "en", "caseFirst": "upper" }, &["A", "a", "B", "b"]);
    check(&doc! { "locale": "en", "caseFirst": "lower" }, &["a", "A", "b", "B"]);
    check(&doc! { "locale": "fr" }, &["cote", "coté", "côte", "côté"]);
    check(&doc! { "locale": "fr", "backwards": true }, &["cote", "côte", "coté", "côté"]);
    check(&doc! { "locale": "fr_CA" }, &["cote", "côte", "coté", "côté"]);
    check(&doc! { "locale": "fr_CA", "backwards": false }, &["cote", "coté", "côte", "côté"]);
    check(&doc! { "locale": "en" }, &["black bird", "black-bird", "blackbird"]);
    check_equal(&doc! { "locale": "en", "alternate": "shifted" }, "black-bird", "blackbird", true);
    check_equal(
        &doc! { "locale": "en", "alternate": "shifted", "strength": 4 },
        "black-bird",
        "blackbird",
        false,
    );
    let spaces = doc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" };
    check_equal(&spaces, "black bird", "blackbird", true);
    check_equal(&spaces, "black-bird", "blackbird", false);
}

#[test]
fn languages_have_orders_of_their_own() {
    check(&doc! { "locale": "sv" }, &["z", "å", "ä", "ö"]);
    check(&doc! { "locale": "de" }, &["a", "ä", "o", "ö", "z"]);
    check(&doc! { "locale": "de@collation=phonebook" }, &["ad", "ä", "af"]);
    check(&doc! { "locale": "es" }, &["lz", "ma", "n", "ñ", "o"]);
    check(&doc! { "locale": "es@collation=traditional" }, &["cz", "ch", "d"]);
    check(&doc! { "locale": "da" }, &["z", "æ", "ø", "å"]);
    check_equal(&doc! { "locale": "tr", "strength": 2 }, "I", "i", false);
    check_equal(&doc! { "locale": "en", "strength": 2 }, "I", "i", true);
    check(&doc! { "locale": "zh" }, &["啊", "北", "中"]);
}

#[test]
fn every_language_has_rules() {
    for name in names() {
        let document = doc! { "locale": &name };
        assert!(!collation(&document).is_simple(), "{document}");
    }
}

/// All languages with their kinds of order.
fn names() -> impl Iterator<Item = String> {
    locale::all().map(|named| {
        let kind = named.kind.map(|code| match code {
            "phonebk" => "@collation=phonebook".to_owned(),
            "trad" => "@collation=traditional".to_owned(),
            "dict" => "@collation=dictionary".to_owned(),
            code => format!("@collation={code}"),
        });
        format!("{}{}", named.locale.name, kind.unwrap_or_default())
    })
}

#[test]
fn the_document_says_everything() {
    let own = collation(&doc! { "locale": "en_US", "strength": 2.0 });
    let expected = doc! {
        "locale": "en_US", "caseLevel": false, "caseFirst": "off", "strength": 2, "numericOrdering": false,
        "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false,
        "version": "57.1",
    };
    assert_eq!(Document::try_from(own.document().unwrap()).unwrap(), expected);
    assert_eq!(collation(&expected), own);
    assert_ne!(collation(&doc! { "locale": "en_US" }), own);
    assert_ne!(Collation::simple(), own);
}

/// Indexes are stored and dumped with that document. Some languages bring options of their own that could not be given
/// together with a strength, and the next open would have rejected such an index.
#[test]
fn the_document_can_be_given_back() {
    for locale in names() {
        for strength in 1..=5 {
            for case_level in [false, true] {
                let first =
                    collation(&doc! { "locale": &locale, "strength": strength, "caseLevel": case_level });
                let again = Collation::parse(first.document().unwrap()).unwrap();
                assert_eq!(again.document(), first.document(), "{locale} {strength}");
                for (left, right) in [("a", "A"), ("cote\u{301}", "co\u{302}te"), ("a b", "ab")] {
                    assert_eq!(again.key_text(left), first.key_text(left), "{locale} {strength}");
                    assert_eq!(
                        again.compare_texts(left, right),
                        first.compare_texts(left, right),
                        "{locale}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    refused(&doc! {}, "locale");
    refused(&doc! { "locale": 5 }, "locale");
    refused(&doc! { "locale": "" }, "locale");
    refused(&doc! { "locale": "elvish" }, "elvish");
    refused(&doc! { "locale": "en-US" }, "Did you mean 'en_US'");
    refused(&doc! { "locale": "en_GB" }, "Did you mean 'en'");
    refused(&doc! { "locale": "simple", "strength": 1 }, "strength");
    refused(&doc! { "locale": "en", "bogus": 1 }, "bogus");
    refused(&doc! { "locale": "en", "strength": 6 }, "'6'");
    refused(&doc! { "locale": "en", "strength": 1.5 }, "'1.5'");
    refused(&doc! { "locale": "en", "strength": "1" }, "strength");
    refused(&doc! { "locale": "en", "caseFirst": "both" }, "both");
    refused(&doc! { "locale": "en", "caseLevel": 1 }, "caseLevel");
    refused(&doc! { "locale": "en", "caseFirst": "upper", "strength": 2 }, "caseFirst");
    refused(&doc! { "locale": "en", "backwards": true, "strength": 1 }, "backwards");
    refused(&doc! { "locale": "sv", "backwards": true }, "backwards");
    refused(&doc! { "locale": "de@collation=search" }, "search");
    refused(&doc! { "locale": "de@collation=bogus" }, "bogus");
    refused(&doc! { "locale": "en", "version": "58" }, "58");
}

/// Sort keys are stored. The hash that names the rules is of fewer languages: these are all.
#[test]
fn sort_keys_are_those_of_the_version() {
    let texts = [
        "",
        "a",
        "Ada",
        "ä",
        "å",
        "ø",
        "ñ",
        "ch",
        "ß",
        "i",
        "I",
        "ı",
        "İ",
        "é",
        "œ",
        "東京",
        "서울",
        "Москва",
        "ไทย",
        "שלום",
        "مرحبا",
        "नमस्ते",
        "10",
        "9",
        "a-b",
        "a b",
        "😀",
        "\u{0}",
        "\u{fffd}",
        "e\u{301}",
        "①",
    ];
    let mut sum = 0_u64;
    for named in locale::all().filter(|named| named.kind.is_none()) {
        let collation = collation(&doc! { "locale": named.locale.name });
        for text in texts {
            // FNV, which needs no library.
            for byte in key_bytes(&collation.key_text(text)) {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    assert_eq!((version::of_rules(), sum), (Some("icu4x-2.4.0"), SUM));
}

const SUM: u64 = 16_631_497_397_384_481_460;

/// Runs of combining marks without an end: the time of the rules grew with the square of their length.
#[test]
fn hostile_texts_take_time_by_their_length() {
    let collation = collation(&doc! { "locale": "en", "strength": 2 });
    for unit in ["\u{301}", "\u{301}\u{323}", "\u{f71}\u{f72}", "\u{3099}\u{334}\u{301}", "a\u{301}", "9"] {
        let text = unit.repeat((1 << 20) / unit.len());
        let longer = format!("{text}x");
        assert!(collation.compare_texts(&text, &longer).is_lt());
        let key = collation.key_text(&text);
        assert!(key < collation.key_text(&longer) && key.len() < 8 * text.len(), "{unit:?} {}", key.len());
    }
}

fn any_collation() -> impl Strategy<Value = Collation> {
    let locales =
        ["en", "fr_CA", "sv", "de@collation=phonebook", "th", "ja", "ko", "lt", "zh", "da", "vi", "tr", "km"];
    let options = (1..=5_i32, any::<bool>(), any::<bool>(), any::<bool>());
    (prop::sample::select(locales.to_vec()), options).prop_map(|(locale, (strength, numeric, shifted, case))| {
        let strength = if locale == "fr_CA" { strength.max(2) } else { strength };
        let alternate = if shifted { "shifted" } else { "non-ignorable" };
        collation(&doc! {
            "locale": locale, "strength": strength, "numericOrdering": numeric, "alternate": alternate, "caseLevel": case,
        })
    })
}

fn any_text() -> impl Strategy<Value = String> {
    let letters = "aAbBzZäÄåéeœßñiIıİ019 -_.\u{0}\u{1}\u{301}\u{323}\u{308}\u{f71}\u{f72}\u{e40}ก東가\u{1100}\u{1161}\u{11a8}あアｱ\u{fffe}\u{fffd}\u{10ffff}😀\u{34f}";
    let letters: Vec<char> = letters.chars().collect();
    prop_oneof![
        4 => prop::collection::vec(prop::sample::select(letters), 0..8).prop_map(String::from_iter),
        1 => any::<String>(),
        1 => (1..80_usize).prop_map(|count| "a\u{301}\u{323}".repeat(count)),
        1 => (1..80_usize).prop_map(|count| "\u{323}\u{301}".repeat(count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn sort_keys_order_as_the_rules_compare(collation in any_collation(), left in any_text(), right in any_text()) {
        let by_keys = collation.key_text(&left).cmp(&collation.key_text(&right));
        prop_assert_eq!(collation.compare_texts(&left, &right), by_keys, "{:?}", collation.document());
    }

    #[test]
    fn packed_keys_order_as_their_bytes(left in any::<Vec<u8>>(), right in any::<Vec<u8>>()) {
        let (packed, other) = (key_form::pack(&left), key_form::pack(&right));
        prop_assert_eq!(packed.cmp(&other), left.cmp(&right));
        prop_assert_eq!(key_bytes(&packed), left);
    }

    #[test]
    fn key_forms_encode_in_the_order_of_the_values(left in any_value(), right in any_value()) {
        let collation = collation(&doc! { "locale": "en", "strength": 2 });
        let (left, right) = (Raw::new(&left), Raw::new(&right));
        let key = |value| {
            let mut key = Vec::new();
            encode(collation.key_form(value).value(), Direction::Ascending, &mut key);
            key
        };
        let expected = collation.compare(left.value(), right.value());
        prop_assert_eq!(key(left.value()).cmp(&key(right.value())), expected);
    }
}

#[test]
fn texts_inside_are_compared_too() {
    let collation = collation(&doc! { "locale": "en", "strength": 2 });
    let equal = |left: Bson, right: Bson| {
        collation.compare(Raw::new(&left).value(), Raw::new(&right).value()).is_eq()
    };
    assert!(equal(bson!({ "a": ["X", { "b": "É" }] }), bson!({ "a": ["x", { "b": "é" }] })));
    assert!(equal(bson!("x"), Bson::Symbol("X".to_owned())));
    // Names of fields are compared by their bytes.
    assert!(!equal(bson!({ "a": 1 }), bson!({ "A": 1 })));
}

#[test]
fn a_collation_remembers_whether_it_was_given() {
    let inherited = Collation::simple().as_default();
    assert!(inherited.is_default() && !inherited.clone().as_given().is_default());
    assert_eq!(inherited, Collation::simple());
    assert!(!Collation::simple().is_default());
}

#[test]
fn texts_are_found_inside_of_values() {
    let value = |value: Bson| has_text(RawBson::try_from(value).expect("a value").as_raw_bson_ref());
    assert!(value(bson!("a")) && value(bson!({ "a": [1, "b"] })));
    assert!(!value(bson!({ "a": [1, 2] })) && !value(bson!(1)));
}

#[test]
fn keys_are_those_of_the_key_form() {
    let english = collation(&doc! { "locale": "en", "strength": 2 });
    let key = |text| {
        let mut key = Vec::new();
        english.encode(RawBsonRef::String(text), Direction::Ascending, &mut key);
        key
    };
    assert_eq!(key("ada"), key("ADA"));
    assert!(key("ada") < key("bob"));
}

proptest! {
    /// Three places had lists of such types of their own, and two left out the types that are rare as an `_id`.
    #[test]
    fn a_value_that_its_key_finds_is_equal_to_what_has_its_key(one in any_value(), other in any_value()) {
        let (one, other) = (Raw::new(&one), Raw::new(&other));
        let key = |value| {
            let mut key = Vec::new();
            SIMPLE.encode(value, Direction::Ascending, &mut key);
            key
        };
        if SIMPLE.finds_by_key(one.value()) {
            let is_equal = SIMPLE.compare(one.value(), other.value()).is_eq();
            prop_assert_eq!(key(one.value()) == key(other.value()), is_equal);
        }
    }
}
