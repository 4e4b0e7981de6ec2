//! What a schema says of the fields of an object.

use bson::raw::RawElement;
use bson::{RawBsonRef, RawDocument};

use crate::filter::schema::{Rest, Schema};
use crate::pattern::{Pattern, Watch};

/// Schemas of fields by name and by pattern, and of all others.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    /// Ascending by name.
    pub(super) named: Vec<(String, Schema)>,
    pub(super) patterns: Vec<(Pattern, Schema)>,
    pub(super) rest: Rest,
}

/// What is asked of an object that has a field.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    pub(super) field: String,
    pub(super) demand: Demand,
}

#[derive(Clone, Debug)]
pub(super) enum Demand {
    /// These fields are there, too.
    Fields(Vec<String>),
    /// The whole object meets a schema, too.
    Schema(Schema),
}

impl Properties {
    pub(super) fn matches(&self, document: &RawDocument, watch: &Watch<'_>) -> bool {
        fields(document).all(|field| {
            let name = field.key().as_str();
            watch.goes_on() && field.value().is_ok_and(|value| self.matches_field(name, value, watch))
        })
    }

    /// Asks everything that is said of a field: by its name and by each pattern that fits.
    fn matches_field(&self, name: &str, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        let place = self.named.binary_search_by(|(known, _)| known.as_str().cmp(name));
        let named = place.ok().and_then(|place| self.named.get(place)).map(|(_, schema)| schema);
        let name = RawBsonRef::String(name);
        let fitting =
            self.patterns.iter().filter(|(pattern, _)| watch.goes_on() && pattern.matches(name, watch));
        let mut schemas = named.into_iter().chain(fitting.map(|(_, schema)| schema)).peekable();
        if schemas.peek().is_none() {
            return self.rest.matches(value, watch);
        }
        schemas.all(|schema| schema.matches(value, watch))
    }
}

impl Dependency {
    pub(super) fn matches(&self, document: &RawDocument, watch: &Watch<'_>) -> bool {
        if !has_field(document, &self.field, watch) {
            return true;
        }
        match &self.demand {
            Demand::Fields(names) => names.iter().all(|name| has_field(document, name, watch)),
            Demand::Schema(schema) => schema.matches(RawBsonRef::Document(document), watch),
        }
    }
}

/// The fields of a document up to the first malformed one.
pub(super) fn fields(document: &RawDocument) -> impl Iterator<Item = RawElement<'_>> {
    document.iter_elements().map_while(Result::ok)
}

pub(super) fn has_field(document: &RawDocument, name: &str, watch: &Watch<'_>) -> bool {
    watch.passes(document.as_bytes().len()) && fields(document).any(|field| field.key().as_str() == name)
}
