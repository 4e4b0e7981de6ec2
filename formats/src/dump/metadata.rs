//! The description of a collection: `COLLECTION.metadata.json`, or a text within an archive.
//!
//! Canonical Extended JSON, so that the numbers in options and indexes keep their types. The text is written by who
//! writes Extended JSON anyway; here is what is in it.

use bson::{Bson, Document, RawDocument, doc};

use crate::dump::known::{CARRIED, check_metadata};
use crate::parse::Parser;
use crate::refusal::Refusal;

/// The description of a collection or view in a dump.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The options of `create`.
    pub options: Document,
    /// The indexes as `listIndexes` gives them, the one on `_id` first. Views have none.
    pub indexes: Vec<Document>,
    /// The collection's UUID, 32 hexadecimal digits.
    pub uuid: Option<String>,
    /// The true name, which a file's name may not have.
    pub collection_name: Option<String>,
    /// `collection`, `view` or `timeseries`.
    pub kind: Option<String>,
    /// The auto-increment fields, as `listAutoIncrements` returns them, each with the `snapshot` of its sequence.
    pub numbered: Vec<Document>,
}

impl Metadata {
    /// Reads a description. Names that are not known are passed over, as mongorestore does.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        Self::of(parse_document(text)?)
    }

    /// Reads a description, and rejects one that has a name which no version of mongodump writes: the collection would lack what
    /// it represents.
    pub fn parse_known(text: &[u8]) -> Result<Self, Refusal> {
        let fields = parse_document(text)?;
        check_metadata(&fields)?;
        Self::of(fields)
    }

    fn of(mut fields: Document) -> Result<Self, Refusal> {
        let mut metadata = Self {
            options: document(&mut fields, "options")?.unwrap_or_default(),
            indexes: documents(&mut fields, "indexes")?,
            uuid: text_of(&mut fields, "uuid")?,
            collection_name: text_of(&mut fields, "collectionName")?,
            kind: text_of(&mut fields, "type")?,
            numbered: Vec::new(),
        };
        if let Some(mut carried) = document(&mut fields, CARRIED)? {
            metadata.numbered = documents(&mut carried, "autoIncrement")?;
        }
        Ok(metadata)
    }

    /// The document that a dump has.
    pub fn to_document(&self) -> Document {
        let indexes: Vec<Bson> = self.indexes.iter().cloned().map(Bson::Document).collect();
        let mut document = doc! { "options": self.options.clone(), "indexes": indexes };
        let texts = [("uuid", &self.uuid), ("collectionName", &self.collection_name), ("type", &self.kind)];
        for (name, text) in texts {
            if let Some(text) = text {
                document.insert(name, text.as_str());
            }
        }
        if !self.numbered.is_empty() {
            document.insert(CARRIED, doc! { "autoIncrement": self.numbered.clone() });
        }
        document
    }

    /// Whether it describes a view.
    pub fn is_view(&self) -> bool {
        self.kind.as_deref() == Some("view") || self.options.contains_key("viewOn")
    }
}

/// A document in Extended JSON.
pub(crate) fn parse_document(text: &[u8]) -> Result<Document, Refusal> {
    let mut raw = Vec::new();
    Parser::json().parse(text, &mut raw)?;
    let wrong = |error: &dyn std::fmt::Display| Refusal::not_parsed(error.to_string());
    let raw = RawDocument::from_bytes(&raw).map_err(|error| wrong(&error))?;
    Document::try_from(raw).map_err(|error| wrong(&error))
}

/// Removes a document from the fields and returns it. Null means the same as no field.
pub(crate) fn document(fields: &mut Document, name: &str) -> Result<Option<Document>, Refusal> {
    match fields.remove(name) {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::Document(document)) => Ok(Some(document)),
        Some(_) => Err(Refusal::wrong_type(format!("{name} is not a document"))),
    }
}

/// Removes an array of documents from the fields and returns it.
pub(crate) fn documents(fields: &mut Document, name: &str) -> Result<Vec<Document>, Refusal> {
    let wrong = || Refusal::wrong_type(format!("{name} is not an array of documents"));
    let items = match fields.remove(name) {
        None | Some(Bson::Null) => return Ok(Vec::new()),
        Some(Bson::Array(items)) => items,
        Some(_) => return Err(wrong()),
    };
    let document = |item| if let Bson::Document(document) = item { Ok(document) } else { Err(wrong()) };
    items.into_iter().map(document).collect()
}

/// Removes a text from the fields and returns it.
pub(crate) fn text_of(fields: &mut Document, name: &str) -> Result<Option<String>, Refusal> {
    match fields.remove(name) {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::wrong_type(format!("{name} is not a string"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, words: &str) {
        let refusal = Metadata::parse(text.as_bytes()).unwrap_err();
        assert!(refusal.to_string().contains(words), "{refusal}");
    }

    #[test]
    fn fields_that_are_missing_or_null_say_nothing() {
        assert_eq!(Metadata::parse(b"{}").unwrap(), Metadata::default());
        let nulls = br#"{"options":null,"indexes":null,"uuid":null,"collectionName":null,"cairndb":null}"#;
        assert_eq!(Metadata::parse(nulls).unwrap(), Metadata::default());
    }

    #[test]
    fn fields_of_a_wrong_type_are_named() {
        refused("[]", "");
        refused("{", "EOF");
        refused(r#"{"options":1}"#, "options is not a document");
        refused(r#"{"indexes":{}}"#, "indexes is not an array of documents");
        refused(r#"{"indexes":[1]}"#, "indexes is not an array of documents");
        refused(r#"{"collectionName":1}"#, "collectionName is not a string");
        refused(r#"{"cairndb":{"autoIncrement":7}}"#, "autoIncrement is not an array of documents");
    }

    #[test]
    fn types_and_the_order_of_fields_are_kept() {
        let text = br#"{"indexes":[{"v":{"$numberInt":"2"},"key":{"z":{"$numberInt":"1"},"a":{"$numberDouble":"-1.0"}},
            "name":"n"}],"collectionName":"c","later":1}"#;
        let metadata = Metadata::parse(text).unwrap();
        assert_eq!(metadata.indexes, [doc! { "v": 2, "key": { "z": 1, "a": -1.0 }, "name": "n" }]);
    }

    #[test]
    fn operators_are_no_types() {
        let text = br#"{"options":{"validator":{"a":{"$regex":"^x"},"b":{"$type":"int"}}}}"#;
        let options = Metadata::parse(text).unwrap().options;
        assert_eq!(options, doc! { "validator": { "a": { "$regex": "^x" }, "b": { "$type": "int" } } });
    }

    #[test]
    fn a_view_is_known_by_its_type() {
        let text = br#"{"options":{"viewOn":"orders","pipeline":[]},"indexes":[],"type":"view"}"#;
        assert!(Metadata::parse(text).unwrap().is_view() && !Metadata::default().is_view());
    }

    #[test]
    fn names_that_no_version_writes_can_be_refused() {
        let refusal = Metadata::parse_known(br#"{"idnexes":[]}"#).unwrap_err();
        assert_eq!(refusal.to_string(), "the name \"idnexes\" is not known");
        assert!(Metadata::parse_known(br#"{"indexes":[]}"#).is_ok());
    }
}
