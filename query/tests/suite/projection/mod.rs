//! Projections compared with a naive implementation over decoded documents, and properties of every
//! projection.
//!
//! The naive implementation has only inclusion and exclusion, by sets of paths.

#![expect(clippy::wildcard_enum_match_arm, reason = "a naive projection tells apart only what has parts")]

use bson::{Bson, Document, RawDocument, RawDocumentBuf, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::filter::Filter;
use cairndb_query::projection::Projection;
use proptest::prelude::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document that can be written")
}

/// The relation of a path to the paths of a projection.
enum PathRelation {
    /// It is one of them.
    Named,
    /// One of them goes through it.
    Above,
    Unrelated,
}

fn relation(paths: &[&str], path: &str) -> PathRelation {
    if paths.contains(&path) {
        PathRelation::Named
    } else if paths.iter().any(|named| named.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))) {
        PathRelation::Above
    } else {
        PathRelation::Unrelated
    }
}

fn included(value: &Bson, paths: &[&str], path: &str) -> Option<Bson> {
    match value {
        Bson::Document(document) => Some(Bson::Document(include(document, paths, path))),
        Bson::Array(elements) => {
            Some(Bson::Array(elements.iter().filter_map(|element| included(element, paths, path)).collect()))
        }
        _ => None,
    }
}

fn include(document: &Document, paths: &[&str], prefix: &str) -> Document {
    let fields = document.iter().filter_map(|(name, value)| {
        let path = format!("{prefix}{name}");
        let value = match relation(paths, &path) {
            PathRelation::Named => Some(value.clone()),
            PathRelation::Above => included(value, paths, &format!("{path}.")),
            PathRelation::Unrelated => None,
        };
        Some((name.clone(), value?))
    });
    fields.collect()
}

fn excluded(value: &Bson, paths: &[&str], path: &str) -> Bson {
    match value {
        Bson::Document(document) => Bson::Document(exclude(document, paths, path)),
        Bson::Array(elements) => elements.iter().map(|element| excluded(element, paths, path)).collect(),
        other => other.clone(),
    }
}

fn exclude(document: &Document, paths: &[&str], prefix: &str) -> Document {
    let fields = document.iter().filter_map(|(name, value)| {
        let path = format!("{prefix}{name}");
        match relation(paths, &path) {
            PathRelation::Named => None,
            PathRelation::Above => Some((name.clone(), excluded(value, paths, &format!("{path}.")))),
            PathRelation::Unrelated => Some((name.clone(), value.clone())),
        }
    });
    fields.collect()
}

fn value() -> impl Strategy<Value = Bson> {
    let scalars =
        vec![bson!(1), bson!("x"), bson!(2.5), Bson::Null, Bson::Undefined, bson!(f64::NAN), Bson::MinKey];
    prop::sample::select(scalars).prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            2 => prop::collection::vec((name(), inner.clone()), 0..4).prop_map(|pairs| Bson::Document(pairs.into_iter().collect())),
            2 => prop::collection::vec(inner, 0..4).prop_map(Bson::Array),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "0", "_id"]).prop_map(str::to_owned)
}

fn document() -> impl Strategy<Value = Document> {
    prop::collection::vec((name(), value()), 0..5).prop_map(Document::from_iter)
}

/// Paths of which none starts with another one.
fn paths() -> impl Strategy<Value = Vec<&'static str>> {
    let all = vec!["a", "a.b", "a.b.c", "a.c", "b.a", "b.0", "b.b", "c", "c.a.a"];
    prop::sample::subsequence(all, 1..5).prop_map(|paths| {
        let is_below =
            |path: &str, other: &str| path.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'));
        let apart = paths.iter().filter(|path| !paths.iter().any(|other| is_below(path, other)));
        apart.copied().collect()
    })
}

/// The same projection with paths as objects in objects.
fn nested(paths: &[&str], switch: i32) -> Document {
    let mut projection = Document::new();
    for path in paths {
        let mut object = &mut projection;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                object.insert(name, switch);
                break;
            }
            object = object
                .entry(name.to_owned())
                .or_insert_with(|| bson!({}))
                .as_document_mut()
                .expect("no path is the beginning of another");
        }
    }
    projection
}

fn project(projection: &Document, document: &Document) -> RawDocumentBuf {
    let projection = Projection::parse(&raw(projection), None, &Variables::default()).expect("a projection");
    projection.apply(&raw(document), &Variables::default()).expect("a document")
}

/// Any value that a path may have in a projection.
fn operand() -> impl Strategy<Value = Bson> {
    let operands = vec![
        bson!(0),
        bson!(1),
        bson!(1),
        bson!(true),
        bson!("$a"),
        bson!("text"),
        bson!({ "$slice": 1 }),
        bson!({ "$slice": [-2, 1] }),
        bson!({ "$elemMatch": { "a": 1 } }),
        bson!({ "$elemMatch": { "$gt": 0 } }),
        bson!({ "$literal": { "a": [1] } }),
        bson!({ "$meta": "textScore" }),
        bson!({ "$nothing": 1 }),
        bson!({ "b": 1, "a": 1 }),
        bson!({ "b": 0 }),
        bson!({}),
        bson!(["$a", 1]),
    ];
    prop::sample::select(operands)
}

fn any_projection() -> impl Strategy<Value = Document> {
    let paths = vec!["a", "b", "a.b", "b.a", "_id", "_id.a", "a.$", "b.a.$", "c", "c.x.y", "$a", "a.$.b"];
    let path = prop::sample::select(paths).prop_map(str::to_owned);
    prop::collection::vec((path, operand()), 0..4).prop_map(Document::from_iter)
}

proptest! {
    #[test]
    fn inclusions_equal_naive_ones(paths in paths(), document in document()) {
        let with_id: Vec<_> = paths.iter().copied().chain(["_id"]).collect();
        let expected = raw(&include(&document, &with_id, ""));
        let projection = paths.iter().map(|path| ((*path).to_owned(), bson!(1))).collect();
        prop_assert_eq!(project(&projection, &document), expected.clone());
        prop_assert_eq!(project(&nested(&paths, 1), &document), expected);
    }

    #[test]
    fn exclusions_equal_naive_ones(paths in paths(), document in document()) {
        let expected = raw(&exclude(&document, &paths, ""));
        let projection = paths.iter().map(|path| ((*path).to_owned(), bson!(0))).collect();
        prop_assert_eq!(project(&projection, &document), expected.clone());
        prop_assert_eq!(project(&nested(&paths, 0), &document), expected);
    }

    #[test]
    fn a_second_projection_changes_nothing(paths in paths(), document in document(), switch in 0..2_i32) {
        let projection = paths.iter().map(|path| ((*path).to_owned(), bson!(switch))).collect::<Document>();
        let once = project(&projection, &document);
        let again = Document::try_from(once.clone()).expect("a document");
        prop_assert_eq!(project(&projection, &again), once);
    }

    #[test]
    fn any_projection_gives_a_well_formed_document_or_an_error(
        projection in any_projection(),
        document in document(),
        is_stage: bool,
    ) {
        let (variables, filter) = (Variables::default(), Filter::parse(&raw(&doc! { "a": 1 })).expect("a filter"));
        let projection = raw(&projection);
        let parsed = if is_stage {
            Projection::parse_stage(&projection, &variables)
        } else {
            Projection::parse(&projection, Some(&filter), &variables)
        };
        match parsed.and_then(|parsed| parsed.apply(&raw(&document), &variables)) {
            Ok(shown) => prop_assert!(index::validate::validate(shown.as_bytes()).is_ok()),
            Err(error) => prop_assert!(error.code().number() > 0 && error.to_string().len() < 1_000),
        }
    }

    #[test]
    fn broken_bytes_do_not_panic(
        projection in any_projection(),
        document in document(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let variables = Variables::default();
        let whole = Projection::parse(&raw(&projection), None, &variables);
        for (bytes, is_projection) in [(raw(&projection).into_bytes(), true), (raw(&document).into_bytes(), false)] {
            let mut bytes = bytes;
            let inside = 4..bytes.len() - 1;
            if let Some(place) = bytes.get_mut(inside).filter(|inside| !inside.is_empty()) {
                place[at.index(place.len())] = byte;
            }
            let broken = RawDocument::from_bytes(&bytes).expect("the outside is whole");
            if is_projection {
                let _ = Projection::parse(broken, None, &variables).map(|parsed| parsed.apply(broken, &variables));
            } else if let Ok(whole) = &whole {
                let _ = whole.apply(broken, &variables);
            }
        }
    }

    #[test]
    fn slices_keep_what_a_naive_slice_keeps(length in 0..6_i32, skip in -8..8_i32, count in 1..8_i32) {
        let array: Vec<i32> = (0..length).collect();
        let start = if skip < 0 { (length + skip).max(0) } else { skip };
        let kept: Vec<i32> = array.iter().copied().filter(|at| (start..start + count).contains(at)).collect();
        let shown = project(&doc! { "a": { "$slice": [skip, count] } }, &doc! { "a": array.clone() });
        prop_assert_eq!(shown, raw(&doc! { "a": kept }));
        let first: Vec<i32> = array.iter().copied().take(usize::try_from(count).expect("positive")).collect();
        let shown = project(&doc! { "a": { "$slice": count } }, &doc! { "a": array });
        prop_assert_eq!(shown, raw(&doc! { "a": first }));
    }
}
