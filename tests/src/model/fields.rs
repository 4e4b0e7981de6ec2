//! Operations on auto-increment fields, on the engine and on the model.

use cairndb::OnTruncate;
use cairndb::bson::{Bson, serialize_to_document};
use cairndb::bson::{Document, doc};

use super::filter::value_at;
use super::numbering::{CONFLICT, Field, NOT_FOUND, Wishes};
use super::run::{Run, agree};
use super::state::{Collection, Refusal, refuse};

impl Collection {
    fn create_field(&mut self, path: &'static str, wishes: &Wishes) -> Result<(), Refusal> {
        let clashes = |other: &str| {
            let (short, long) = if other.len() < path.len() { (other, path) } else { (path, other) };
            long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if self.fields.iter().any(|field| clashes(field.path)) {
            return refuse(CONFLICT);
        }
        let mut field = Field::new(path, wishes)?;
        if wishes.from_existing == Some(true) {
            let integers = self.documents.values().filter_map(|document| integer_at(document, path));
            let ascends = field.numbers.increment() > 0;
            let furthest = if ascends { integers.max() } else { integers.min() };
            if let Some(value) = furthest {
                field.numbers.move_beyond(value.into());
            }
        }
        self.fields.push(field);
        Ok(())
    }

    fn alter_field(&mut self, path: &str, wishes: &Wishes) -> Result<(), Refusal> {
        let field = self.fields.iter_mut().find(|field| field.path == path);
        field.map_or(refuse(NOT_FOUND), |field| field.alter(wishes))
    }

    fn drop_field(&mut self, path: &str) -> Result<(), Refusal> {
        let before = self.fields.len();
        self.fields.retain(|field| field.path != path);
        if self.fields.len() == before { refuse(NOT_FOUND) } else { Ok(()) }
    }

    fn truncate(&mut self) -> u64 {
        for field in self.fields.iter_mut().filter(|field| field.on_truncate == OnTruncate::Restart) {
            field.numbers.restart();
        }
        let documents = self.documents.len() as u64;
        self.clear();
        documents
    }

    /// Appends what a replacement keeps of the document that it replaces: fields that it does not name.
    pub(super) fn keep_fields(&self, found: &Document, replacement: &mut Document) {
        let mut names: Vec<&str> = self.fields.iter().map(|field| field.names().0).collect();
        names.sort_unstable();
        names.dedup();
        let kept = names.into_iter().filter(|name| !replacement.contains_key(name));
        let kept: Vec<(&str, Bson)> =
            kept.filter_map(|name| Some((name, found.get(name)?.clone()))).collect();
        replacement.extend(kept.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
}

/// An integer at a path that does not go through arrays.
fn integer_at(document: &Document, path: &str) -> Option<i64> {
    let value = match path.split_once('.') {
        None => value_at(document, path)?,
        Some((outer, below)) => document.get(outer)?.as_document()?.get(below)?,
    };
    value.as_i64().or(value.as_i32().map(i64::from))
}

impl Run<'_> {
    pub(super) fn create_field(&mut self, at: &'static str, path: &'static str, wishes: &Wishes) {
        let created = self.handle(at).create_auto_increment(wishes.to_options(path)).run();
        let mut collection = self.model.get(at).cloned().unwrap_or_default();
        let expected = collection.create_field(path, wishes);
        // A rejected field makes no collection.
        if expected.is_ok() {
            self.model.insert(at, collection);
        }
        agree(created, expected);
    }

    pub(super) fn alter_field(&mut self, at: &'static str, path: &'static str, wishes: &Wishes) {
        let altered = self.handle(at).alter_auto_increment(wishes.to_options(path)).run();
        let expected = self.model.get_mut(at);
        agree(altered, expected.map_or(refuse(26), |collection| collection.alter_field(path, wishes)));
    }

    pub(super) fn drop_field(&mut self, at: &'static str, path: &'static str) {
        let dropped = self.handle(at).drop_auto_increment(path).run();
        let expected = self.model.get_mut(at);
        agree(dropped, expected.map_or(refuse(26), |collection| collection.drop_field(path)));
    }

    pub(super) fn truncate(&mut self, at: &'static str) {
        let truncated = self.handle(at).truncate().run();
        let expected = self.model.get_mut(at).map_or(refuse(26), |collection| Ok(collection.truncate()));
        if let (Ok(result), Ok(expected)) = (&truncated, &expected) {
            assert_eq!(result.deleted_count, *expected);
        }
        agree(truncated, expected);
    }

    /// The known state of each field, but for reserves, which the model does not have.
    pub(super) fn check_fields(&self) {
        for (name, expected) in &self.model {
            let collection = self.client().database(super::run::DATABASE).collection::<Document>(name);
            let listed = collection.auto_increments().run().expect("a list");
            let mut fields: Vec<&Field> = expected.fields.iter().collect();
            fields.sort_unstable_by_key(|field| field.path);
            assert_eq!(listed.len(), fields.len());
            for (listed, field) in listed.iter().zip(fields) {
                let shown = doc! {
                    "SequenceName": &listed.sequence_name, "Field": field.path,
                    "Generated": field.generated.name(), "GenerateOnNull": field.on_null,
                    "OnTruncate": field.on_truncate.name(), "SequenceID": listed.sequence_id,
                };
                assert_eq!(serialize_to_document(listed).expect("a document"), shown);
                let snapshot = collection.auto_increment(field.path).snapshot().expect("a snapshot");
                assert_eq!(snapshot.cycled_count, field.numbers.cycles());
                assert_eq!(snapshot.contract, field.numbers.contract().name());
                assert_eq!(i128::from(snapshot.increment), field.numbers.increment());
            }
        }
    }
}
