//! Which indexes a change of a document concerns. Most updates change fields that no index has: then no entry is drawn, and
//! the record is written alone.

use bson::RawDocument;
use index::element::elements;

use crate::catalog::indexes::Index;

/// The number of fields that may have changed, or may be in another place. The name of each is compared with each
/// field of each index, so where there are more, all indexes are looked at.
const NAMES_MAX: usize = 64;

/// The fields in which two documents differ.
pub(super) struct ChangedFields<'d> {
    old: &'d RawDocument,
    new: &'d RawDocument,
    /// The names of the top-level fields that have other bytes, or may have another place. Absent if they are too many, or the bytes
    /// cannot be walked.
    names: Option<Vec<&'d [u8]>>,
}

impl<'d> ChangedFields<'d> {
    pub(super) fn between(old: &'d RawDocument, new: &'d RawDocument) -> Self {
        let (mut left, mut right) = (elements(old.as_bytes()), elements(new.as_bytes()));
        let mut names = Vec::new();
        loop {
            match (left.next(), right.next()) {
                (Some(before), Some(after)) if before.name == after.name => {
                    if before.whole != after.whole {
                        names.push(before.name);
                    }
                    if names.len() > NAMES_MAX {
                        break;
                    }
                }
                // From here on fields are in other places. An entry knows the order of its fields, so any of them counts.
                (before, after) => {
                    let here = before.into_iter().chain(after);
                    let others = here.chain(&mut left).chain(&mut right).take(NAMES_MAX);
                    names.extend(others.map(|element| element.name));
                    break;
                }
            }
        }
        // Neither is where the walk was given up.
        let names = (left.is_at_end() && right.is_at_end()).then_some(names);
        Self { old, new, names }
    }

    /// Whether the entries of the two documents in the index may differ.
    pub(super) fn concern(&self, index: &Index) -> bool {
        let Some(names) = &self.names else { return true };
        // Which fields a wildcard means is not looked at.
        if index.spec.wildcard().is_some() {
            return true;
        }
        let is_changed = |name: &str| names.contains(&name.as_bytes());
        // The filter of a partial index may have any fields. What counts is whether it holds.
        index.spec.fields().iter().any(|field| is_changed(field.path.first()))
            || index.settings.holds(self.old) != index.settings.holds(self.new)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, RawDocumentBuf, doc};
    use query::operation::OperationContext;

    use super::*;
    use crate::fixture::Fixture;
    use crate::options::{IndexModel, IndexOptions};
    use crate::write::entries::stored_entries_of;

    /// Documents of up to three fields in three orders, with values of several kinds.
    fn documents() -> Vec<RawDocumentBuf> {
        let values: [Option<Bson>; 6] = [
            None,
            Some(Bson::Int32(1)),
            Some(Bson::Double(1.0)),
            Some(Bson::Null),
            Some(Bson::Array(vec![Bson::Int32(1), Bson::Int32(2)])),
            Some(Bson::Document(doc! { "x": 1, "y": 2 })),
        ];
        let is_array = |value: &Option<Bson>| matches!(value, Some(Bson::Array(_)));
        let pairs = values.iter().flat_map(|a| values.iter().map(move |b| (a, b)));
        // Two fields with arrays cannot be in one index.
        let pairs = pairs.filter(|(a, b)| !(is_array(a) && is_array(b)));
        let orders = [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]];
        let all = pairs.flat_map(|(a, b)| orders.map(|order| (a.as_ref(), b.as_ref(), order)));
        let all = all.flat_map(|(a, b, order)| [0, 1].map(|c| document(a, b, c, order)));
        // And some with a name that occurs twice, of which an index uses the first.
        let twice =
            (1..4).map(|value| bson::rawdoc! { "_id": 7, "a": value % 2, "b": 1, "a": value, "c": 1 });
        all.chain(twice).collect()
    }

    fn document(a: Option<&Bson>, b: Option<&Bson>, c: i32, order: [&str; 3]) -> RawDocumentBuf {
        let mut document = doc! { "_id": 7 };
        for name in order {
            let value = match name {
                "a" => a.cloned(),
                "b" => b.cloned(),
                _ => Some(Bson::Int32(c)),
            };
            document.extend(value.map(|value| (name.to_owned(), value)));
        }
        RawDocumentBuf::try_from(&document).expect("well-formed")
    }

    fn models() -> Vec<IndexModel> {
        let keys: [Document; 10] = [
            doc! { "a": 1 },
            doc! { "b": -1 },
            doc! { "a": 1, "b": 1 },
            doc! { "b": 1, "c": 1 },
            doc! { "a.x": 1 },
            doc! { "a.0": 1 },
            doc! { "a.0.x": 1 },
            doc! { "a.x": 1, "c": -1 },
            doc! { "$**": 1 },
            doc! { "d": 1 },
        ];
        let plain = keys.into_iter().map(|keys| IndexModel::builder().keys(keys).build());
        let with =
            |keys: Document, options: IndexOptions| IndexModel::builder().keys(keys).options(options).build();
        let partial = |filter: Document| IndexOptions::builder().partial_filter_expression(filter).build();
        plain
            .chain([
                with(doc! { "b": 1, "a": 1 }, partial(doc! { "c": { "$gt": 0 } })),
                with(doc! { "d": -1 }, partial(doc! { "a": { "$exists": true } })),
                with(doc! { "c": 1 }, IndexOptions::builder().unique(true).build()),
                with(doc! { "a": -1 }, IndexOptions::builder().sparse(true).build()),
            ])
            .collect()
    }

    #[test]
    fn indexes_that_are_not_concerned_have_the_same_entries() {
        let fixture = Fixture::filled(|client| {
            client
                .database("test")
                .collection::<Document>("things")
                .create_indexes(models())
                .run()
                .expect("made");
        });
        let state = fixture.collection("things").expect("the collection");
        let definition = state.enter(&OperationContext::default()).expect("unlimited").expect("not dropped");
        let indexes = &definition.indexes;
        assert_eq!(indexes.len(), models().len());
        let documents = documents();
        let entries = |index: &Index, document: &RawDocument| {
            stored_entries_of([(0, index)], document, b"id").expect("indexed").entries
        };
        let (mut passed, mut changed) = (0, 0);
        for old in &documents {
            for new in &documents {
                let fields = ChangedFields::between(old, new);
                for index in indexes.iter() {
                    let is_same = entries(index, old) == entries(index, new);
                    let is_concerned = fields.concern(index);
                    assert!(is_concerned || is_same, "{}: {old:?} and {new:?}", index.name);
                    passed += u32::from(!is_concerned);
                    changed += u32::from(!is_same);
                }
            }
        }
        assert!(passed > 10_000 && changed > 10_000, "{passed} were passed over, and {changed} changed");
    }

    #[test]
    fn fields_behind_the_first_in_another_place_count_as_changed() {
        let names = |old: &Document, new: &Document| {
            let [old, new] =
                [old, new].map(|document| RawDocumentBuf::try_from(document).expect("well-formed"));
            let changed = ChangedFields::between(&old, &new).names.expect("they can be walked");
            changed.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
        };
        let old = doc! { "_id": 1, "a": 1, "b": 2 };
        assert_eq!(names(&old, &old), [""; 0]);
        assert_eq!(names(&old, &doc! { "_id": 1, "a": 5, "b": 2 }), ["a"]);
        assert_eq!(names(&old, &doc! { "_id": 1, "a": 1, "b": 2, "c": 3 }), ["c"]);
        assert_eq!(names(&old, &doc! { "_id": 1, "b": 2 }), ["a", "b", "b"]);
        assert_eq!(names(&old, &doc! { "_id": 1, "b": 2, "a": 1 }), ["a", "b", "b", "a"]);
    }

    /// A document may have two million fields, and an update that removes the first moves all of them.
    #[test]
    fn many_changed_fields_concern_every_index() {
        let wide = |value: i32, skipped: usize| {
            let names = (0..200).skip(skipped).map(|n| format!("f{n}"));
            let document: Document = names.map(|name| (name, Bson::Int32(value))).collect();
            RawDocumentBuf::try_from(&document).expect("well-formed")
        };
        for (old, new) in [(wide(1, 0), wide(2, 0)), (wide(1, 0), wide(1, 1)), (wide(1, 1), wide(1, 0))] {
            assert!(ChangedFields::between(&old, &new).names.is_none());
        }
        let (old, new) = (wide(1, 150), wide(2, 150));
        assert_eq!(ChangedFields::between(&old, &new).names.map(|names| names.len()), Some(50));
    }

    #[test]
    fn bytes_that_cannot_be_walked_concern_every_index() {
        let good = bson::rawdoc! { "_id": 1, "a": 1 };
        let mut bytes = good.as_bytes().to_vec();
        // The type of `a`, which is not a type now.
        bytes[13] = 0x7f;
        let bad = RawDocument::from_bytes(&bytes).expect("its length is right");
        for (old, new) in [(bad, &*good), (&*good, bad), (bad, bad)] {
            assert!(ChangedFields::between(old, new).names.is_none());
        }
    }
}
