//! Updates against a naive model over decoded documents, and properties that hold for any update.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, bson, doc};
use cairndb_query::filter::Filter;
use cairndb_query::update::{Phase, Update, UpsertStart, is_replacement, upsert_base};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::update::{apply, context, decimal, raw};

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        (-9..9).prop_map(Bson::Int32),
        any::<f64>().prop_map(Bson::Double),
        "[a-c]{0,3}".prop_map(Bson::String),
        any::<bool>().prop_map(Bson::Boolean),
        Just(Bson::Null),
        Just(decimal("1.5")),
        Just(Bson::MaxKey),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-d]", "[a-d]", "[0-2]"]
}

fn document_of(values: impl Strategy<Value = Bson> + Clone + 'static) -> impl Strategy<Value = Document> {
    vec((name(), values), 0..5).prop_map(Document::from_iter)
}

/// Documents without arrays.
fn plain_document() -> impl Strategy<Value = Document> {
    let values = scalar().boxed().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![2 => scalar(), 1 => document_of(inner).prop_map(Bson::Document)].boxed()
    });
    document_of(values)
}

fn value() -> impl Strategy<Value = Bson> + Clone {
    scalar().boxed().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            1 => document_of(inner.clone()).prop_map(Bson::Document),
            2 => vec(inner, 0..4).prop_map(Bson::Array),
        ]
        .boxed()
    })
}

fn any_document() -> impl Strategy<Value = Document> {
    document_of(value())
}

fn plain_path() -> impl Strategy<Value = String> {
    vec(name(), 1..4).prop_map(|names| names.join("."))
}

/// The naive rules of three operators, for paths that meet no array.
fn model(operator: &str, path: &[&str], operand: &Bson, document: &mut Document) -> Result<(), i32> {
    let Some((first, rest)) = path.split_first() else { return Ok(()) };
    if !rest.is_empty() {
        if !document.contains_key(first) {
            if operator == "$unset" {
                return Ok(());
            }
            document.insert(*first, Document::new());
        }
        return match document.get_mut(first) {
            Some(Bson::Document(inner)) => model(operator, rest, operand, inner),
            _ if operator == "$unset" => Ok(()),
            _ => Err(28),
        };
    }
    match operator {
        "$unset" => {
            document.remove(first);
        }
        "$set" => {
            document.insert(*first, operand.clone());
        }
        _ => {
            let sum = match (document.get(first), operand) {
                (None, operand) => operand.clone(),
                (Some(Bson::Int32(left)), Bson::Int32(right)) => {
                    let sum = i64::from(*left) + i64::from(*right);
                    i32::try_from(sum).map_or(Bson::Int64(sum), Bson::Int32)
                }
                (Some(Bson::Int64(left)), Bson::Int32(right)) => {
                    Bson::Int64(left.checked_add(i64::from(*right)).ok_or(2)?)
                }
                (Some(Bson::Double(left)), Bson::Int32(right)) => Bson::Double(left + f64::from(*right)),
                (Some(Bson::Decimal128(_)), _) => return Err(0),
                _ => return Err(14),
            };
            document.insert(*first, sum);
        }
    }
    Ok(())
}

/// Update documents of any shape, most of them rejected.
fn any_update() -> impl Strategy<Value = Document> {
    let names = [
        "$set",
        "$unset",
        "$inc",
        "$mul",
        "$min",
        "$max",
        "$rename",
        "$setOnInsert",
        "$currentDate",
        "$push",
        "$addToSet",
        "$pop",
        "$pull",
        "$pullAll",
        "$bit",
    ];
    let component = prop_oneof![4 => name(), 1 => Just("$".to_owned()), 1 => Just("$[]".to_owned()), 1 => Just("$[x]".to_owned())];
    let path = vec(component, 1..4).prop_map(|components| components.join("."));
    let operand = prop_oneof![
        3 => value(),
        1 => vec(value(), 0..3).prop_map(|each| bson!({ "$each": each })),
        1 => (vec(value(), 0..3), -3..3, -3..3).prop_map(|(each, position, slice)| {
            bson!({ "$each": each, "$position": position, "$slice": slice, "$sort": 1 })
        }),
        1 => value().prop_map(|value| bson!({ "$gt": value })),
        1 => plain_path().prop_map(Bson::String),
        1 => Just(bson!(1)),
        1 => Just(bson!({ "or": 5 })),
        1 => Just(bson!([1, 2])),
    ];
    let fields = vec((path, operand), 1..3).prop_map(Document::from_iter);
    vec((prop::sample::select(names.to_vec()), fields), 1..3).prop_map(|operators| {
        operators.into_iter().map(|(name, fields)| (name.to_owned(), Bson::Document(fields))).collect()
    })
}

proptest! {
    #[test]
    fn plain_paths_agree_with_the_model(
        document in plain_document(),
        path in plain_path(),
        operator in prop::sample::select(vec!["$set", "$unset", "$inc"]),
        operand in any::<i32>(),
    ) {
        let operand = Bson::Int32(operand);
        let mut expected = document.clone();
        let names = path.split('.').collect::<Vec<_>>();
        let modeled = model(operator, &names, &operand, &mut expected);
        let applied = apply(&doc! { operator: { &path: operand } }, &document);
        match modeled {
            Err(0) => {}
            Err(code) => prop_assert_eq!(applied.map_err(|error| error.code().number()), Err(code)),
            Ok(()) => {
                let is_unchanged = raw(&expected) == raw(&document);
                let applied = applied.unwrap();
                prop_assert_eq!(applied.is_none(), is_unchanged);
                prop_assert_eq!(raw(&applied.unwrap_or(document)), raw(&expected));
            }
        }
    }

    #[test]
    fn added_and_subtracted_is_nothing(document in any_document(), path in plain_path(), number in any::<i32>()) {
        // Doubles round, and a number that has grown to 64 bits does not shrink again.
        let update = |number: i64| doc! { "$inc": { &path: number } };
        if let Ok(Some(changed)) = apply(&doc! { "$set": { &path: 5_i64 } }, &document) {
            let there = apply(&update(i64::from(number)), &changed).unwrap().unwrap_or(changed.clone());
            let back = apply(&update(-i64::from(number)), &there).unwrap().unwrap_or(there);
            prop_assert_eq!(raw(&back), raw(&changed));
        }
    }

    #[test]
    fn pushed_and_popped_is_nothing(document in any_document(), path in plain_path(), pushed in value(), array in vec(value(), 0..4)) {
        if let Ok(changed) = apply(&doc! { "$set": { &path: array } }, &document) {
            let before = changed.unwrap_or(document);
            for (position, end) in [(0, -1), (i32::MAX, 1)] {
                let push = doc! { "$push": { &path: { "$each": [&pushed], "$position": position } } };
                let there = apply(&push, &before).unwrap().unwrap();
                let back = apply(&doc! { "$pop": { &path: end } }, &there).unwrap().unwrap();
                prop_assert_eq!(raw(&back), raw(&before));
            }
        }
    }

    #[test]
    fn a_new_field_set_and_unset_is_nothing(document in any_document(), value in value()) {
        let there = apply(&doc! { "$set": { "new": value } }, &document).unwrap().unwrap();
        let back = apply(&doc! { "$unset": { "new": "" } }, &there).unwrap().unwrap();
        prop_assert_eq!(raw(&back), raw(&document));
    }

    #[test]
    fn a_last_field_renamed_and_renamed_back_is_nothing(document in any_document(), value in value()) {
        let mut before = document;
        before.insert("old", value);
        let there = apply(&doc! { "$rename": { "old": "new" } }, &before).unwrap().unwrap();
        let back = apply(&doc! { "$rename": { "new": "old" } }, &there).unwrap().unwrap();
        prop_assert_eq!(raw(&back), raw(&before));
    }

    #[test]
    fn an_assignment_repeated_changes_nothing(document in any_document(), path in plain_path(), value in value()) {
        for operator in ["$set", "$min", "$max", "$addToSet", "$unset"] {
            let update = doc! { operator: { &path: value.clone() } };
            if let Ok(Some(changed)) = apply(&update, &document) {
                prop_assert_eq!(apply(&update, &changed).unwrap(), None);
            }
        }
    }

    #[test]
    fn results_are_well_formed(update in any_update(), document in any_document(), position in prop::option::of(0..3_usize)) {
        let filters = [raw(&doc! { "x": { "$gt": 1 } })];
        for filters in [&filters[..0], &filters[..]] {
            let Ok(parsed) = Update::parse(&raw(&update), filters) else { continue };
            for phase in [Phase::Modify, Phase::Insert] {
                let before = raw(&document);
                if let Ok(Some(after)) = parsed.apply(&before, &context(phase).with_position(position)) {
                    prop_assert_ne!(&after, &before);
                    index::validate::validate(after.as_bytes()).unwrap();
                }
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(elements in vec(prop_oneof![0..24_u8, any::<u8>()], 0..64), update in any_update()) {
        let length = i32::try_from(elements.len() + 5).unwrap();
        let bytes = [length.to_le_bytes().as_slice(), &elements, &[0]].concat();
        let document = RawDocument::from_bytes(&bytes).unwrap();
        let _ = is_replacement(document);
        if let Ok(parsed) = Update::parse(document, &[document.to_owned()]) {
            let _ = parsed.apply(document, &context(Phase::Insert));
        }
        if let Ok(parsed) = Update::parse(&raw(&update), &[]) {
            let _ = parsed.apply(document, &context(Phase::Modify).with_position(Some(0)));
        }
    }

    #[test]
    fn what_an_upsert_starts_from_matches(values in vec((plain_path(), value()), 0..4)) {
        let query = values.into_iter().map(|(path, value)| (path, bson!({ "$eq": value }))).collect::<Document>();
        let Ok(filter) = Filter::parse(&raw(&query)) else { return Ok(()) };
        if let Ok(base) = upsert_base(&filter, UpsertStart::Update) {
            let base: RawDocumentBuf = base;
            prop_assert!(filter.matches(&base), "{} does not match {:?}", query, base);
        }
    }
}
