//! Reads the fields of a command, each with its type, and rejects fields that the command does not know.
//!
//! Null counts as absent, as in MongoDB. Messages are MongoDB's where clients compare them.

pub(crate) mod batch;
pub(crate) mod nesting;
pub(crate) mod unsupported;

use std::borrow::Cow;
use std::time::Duration;

use base::codes::{refused, unsupported as not_supported};
use base::error::{Error, Result};
use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use query::code::Code;
use store::options::{Acknowledgment, WriteConcern};

use crate::arguments::batch::{Batch, check_batch_size};
use crate::arguments::nesting::check_nesting;

/// Fields that every command may have: MongoDB's generic arguments, ascending.
///
/// [`Database::run_command`](crate::Database::run_command) has no sessions and connections, so it ignores the fields
/// about them. A server must allow the same fields in its own commands.
///
/// ```
/// assert!(cairndb::GENERIC_COMMAND_FIELDS.contains(&"maxTimeMS"));
/// assert!(!cairndb::GENERIC_COMMAND_FIELDS.contains(&"filter"));
/// ```
pub const GENERIC_COMMAND_FIELDS: [&str; 13] = [
    "$clusterTime",
    "$db",
    "$readPreference",
    "apiDeprecationErrors",
    "apiStrict",
    "apiVersion",
    "comment",
    "lsid",
    "maxTimeMS",
    "maxTimeMSOpOnly",
    "rawData",
    "readConcern",
    "writeConcern",
];

/// The field of a write that is to happen exactly once: its token.
pub(crate) const TOKEN_FIELD: &str = "exactlyOnce";

/// The most nodes that a write concern of MongoDB can ask for.
const NODES_MAX: u32 = 50;

const READ_CONCERNS: [&str; 5] = ["available", "linearizable", "local", "majority", "snapshot"];

/// The fields of a command, or of a document within one.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    /// The name of the command, or of the document, in messages.
    name: &'a str,
    fields: &'a Document,
    /// Documents that were not decoded, and so are in no field.
    batch: Option<&'a Batch<'a>>,
}

/// A value that a field of a command can have.
pub(crate) trait FromArgument: Sized {
    /// Reads it. Returns `None` if the field is absent or null.
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>>;
}

impl FromArgument for bool {
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        arguments.boolean(field)
    }
}

impl FromArgument for u64 {
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        arguments.count(field)
    }
}

impl FromArgument for i64 {
    /// A whole number of 0 or more.
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        Ok(arguments.count(field)?.map(|count| Self::try_from(count).unwrap_or(Self::MAX)))
    }
}

impl FromArgument for Document {
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        Ok(arguments.document(field)?.cloned())
    }
}

impl FromArgument for Vec<Document> {
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        let documents = arguments.documents(field)?;
        Ok(documents.map(|documents| documents.into_iter().cloned().collect()))
    }
}

impl FromArgument for WriteConcern {
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        let Some(concern) = arguments.document(field)? else { return Ok(None) };
        let of = Arguments::of(field, concern);
        // `provenance` is for the servers of a cluster, which pass a concern on. It changes nothing here.
        of.allow_in_statement(&["fsync", "j", "w", "wtimeout", "provenance"])?;
        let w = match of.given("w") {
            None => None,
            Some(Bson::String(mode)) if mode == "majority" => Some(Acknowledgment::Majority),
            // It names tags of a replica set. It is read here, and rejected where concerns are validated.
            Some(Bson::String(mode)) => Some(Acknowledgment::Custom(mode.clone())),
            // MongoDB checks the number of nodes even where there is only one.
            Some(_) => {
                let nodes = of.integer("w")?.unwrap_or_default();
                let count = u32::try_from(nodes).ok().filter(|&nodes| nodes <= NODES_MAX);
                let wrong = || {
                    let limit = NODES_MAX;
                    refused(
                        Code::FAILED_TO_PARSE,
                        format!(
                            "w has to be a non-negative number and not greater than {limit}; found: {nodes}"
                        ),
                    )
                };
                Some(Acknowledgment::Nodes(count.ok_or_else(wrong)?))
            }
        };
        // Both fields ask for a log on stable storage. MongoDB accepts either, but not both at once.
        let journal = match (of.boolean("j")?, of.boolean("fsync")?) {
            (Some(true), Some(true)) => {
                return Err(refused(Code::FAILED_TO_PARSE, "fsync and j options cannot be used together"));
            }
            (_, Some(true)) => Some(true),
            // MongoDB treats `fsync: false` as absent.
            (journal, _) => journal,
        };
        let w_timeout = of.count("wtimeout")?.map(Duration::from_millis);
        Ok(Some(Self::new(w, w_timeout, journal)))
    }
}

impl<'a> Arguments<'a> {
    pub(crate) fn of(name: &'a str, fields: &'a Document) -> Self {
        Self { name, fields, batch: None }
    }

    /// Adds documents that were not decoded.
    pub(crate) fn with(self, batch: &'a Batch<'a>) -> Self {
        Self { batch: Some(batch), ..self }
    }

    /// Rejects all fields but `known` and those that every command may have. Options that only MongoDB has are rejected by
    /// the tables of [`unsupported`], unless they are false or null and so ask for nothing.
    pub(crate) fn allow(&self, known: &[&str]) -> Result<()> {
        self.allow_options(&[], known)
    }

    /// Rejects all fields but those of options, `known`, and those that every command may have.
    pub(crate) fn allow_options(&self, options: &[&str], known: &[&str]) -> Result<()> {
        // The first field is the command's name.
        self.check_unknown(1, |field| {
            options.contains(&field) || known.contains(&field) || GENERIC_COMMAND_FIELDS.contains(&field)
        })?;
        self.check_read_concern()
    }

    /// Rejects all fields of a document within a command but `known`. Such a document has no name of a command
    /// and none of the fields that every command may have.
    pub(crate) fn allow_in_statement(&self, known: &[&str]) -> Result<()> {
        self.allow_options_in_statement(&[], known)
    }

    /// Rejects all fields of a document within a command but those of options and `known`.
    pub(crate) fn allow_options_in_statement(&self, options: &[&str], known: &[&str]) -> Result<()> {
        self.check_unknown(0, |field| options.contains(&field) || known.contains(&field))
    }

    fn check_unknown(&self, first: usize, is_known: impl Fn(&str) -> bool) -> Result<()> {
        let mut unknown = self.fields.iter().skip(first).filter(|(field, _)| !is_known(field));
        unknown.try_for_each(|(field, value)| self.refuse(field, value))
    }

    fn refuse(&self, field: &str, value: &Bson) -> Result<()> {
        let name = self.name;
        // These are rejected even if they are false: a client that sends one relies on a transaction.
        if unsupported::is_of_transaction(field) {
            return Err(self.not_here(field));
        }
        // Distinguished from a misspelt field: 238 says that MongoDB has the option and this store does not.
        if unsupported::is_option(name, field) {
            let asks_nothing = matches!(value, Bson::Boolean(false) | Bson::Null);
            return if asks_nothing { Ok(()) } else { Err(self.not_here(field)) };
        }
        Err(refused(Code::IDL_UNKNOWN_FIELD, format!("BSON field '{name}.{field}' is an unknown field.")))
    }

    /// The error for a field, or a value of it, that only MongoDB supports.
    pub(crate) fn not_here(&self, field: &str) -> Error {
        not_supported(format!("the field '{field}' of '{}' is not supported", self.name))
    }

    /// A text that must be one of `allowed`.
    pub(crate) fn one_of(&self, field: &str, allowed: &[&str]) -> Result<Option<&'a str>> {
        match self.text(field)? {
            Some(text) if !allowed.contains(&text) => Err(refused(
                Code::BAD_VALUE,
                format!("Enumeration value '{text}' for field '{}.{field}' is not a valid value.", self.name),
            )),
            found => Ok(found),
        }
    }

    /// The value of the first field: the name of a collection or of a sequence.
    pub(crate) fn target(&self) -> Result<&'a str> {
        match self.fields.get(self.name) {
            Some(Bson::String(text)) => Ok(text),
            found => Err(refused(
                Code::INVALID_NAMESPACE,
                format!("the target of '{}' must be a name, not {}", self.name, shown(found)),
            )),
        }
    }

    pub(crate) fn text(&self, field: &str) -> Result<Option<&'a str>> {
        match self.given(field) {
            None => Ok(None),
            Some(Bson::String(text)) => Ok(Some(text)),
            found => Err(self.wrong_type(field, found, "string")),
        }
    }

    pub(crate) fn document(&self, field: &str) -> Result<Option<&'a Document>> {
        match self.given(field) {
            None => Ok(None),
            Some(Bson::Document(document)) => Ok(Some(document)),
            found => Err(self.wrong_type(field, found, "object")),
        }
    }

    // MongoDB reads numbers as flags too: 0 is false and every other number is true.
    pub(crate) fn boolean(&self, field: &str) -> Result<Option<bool>> {
        match self.given(field) {
            None => Ok(None),
            Some(Bson::Boolean(value)) => Ok(Some(*value)),
            Some(Bson::Int32(value)) => Ok(Some(*value != 0)),
            Some(Bson::Int64(value)) => Ok(Some(*value != 0)),
            Some(Bson::Double(value)) => Ok(Some(*value != 0.0)),
            found => Err(self.wrong_type(field, found, "bool")),
        }
    }

    /// A whole number of any numeric type.
    pub(crate) fn integer(&self, field: &str) -> Result<Option<i64>> {
        match self.given(field) {
            None => Ok(None),
            Some(Bson::Int32(value)) => Ok(Some((*value).into())),
            Some(Bson::Int64(value)) => Ok(Some(*value)),
            // Some shells send every number as a double. A fraction is rejected and not rounded away.
            Some(Bson::Double(value)) => whole(*value).map(Some).ok_or_else(|| {
                refused(Code::BAD_VALUE, format!("the field '{field}' must be a whole number, got {value}"))
            }),
            found => Err(self.wrong_type(field, found, "long")),
        }
    }

    /// A whole number of 0 or more.
    pub(crate) fn count(&self, field: &str) -> Result<Option<u64>> {
        let Some(value) = self.integer(field)? else { return Ok(None) };
        let count = u64::try_from(value);
        count.map(Some).map_err(|_| {
            refused(
                Code::VALUE_BELOW_MINIMUM,
                format!("BSON field '{field}' value must be >= 0, actual value '{value}'"),
            )
        })
    }

    /// The documents of an array.
    pub(crate) fn documents(&self, field: &str) -> Result<Option<Vec<&'a Document>>> {
        let Some(given) = self.given(field) else { return Ok(None) };
        let Bson::Array(items) = given else { return Err(self.wrong_type(field, Some(given), "array")) };
        let document = |item: &'a Bson| {
            item.as_document().ok_or_else(|| self.wrong_type(field, Some(item), "array of objects"))
        };
        // All or none: the documents before a wrong one must not be run without the others.
        items.iter().map(document).collect::<Result<_>>().map(Some)
    }

    /// The statements of a write: an array that must be there, with 1 to [`STATEMENTS_MAX`](self::batch) documents.
    pub(crate) fn statements(&self, field: &str) -> Result<Vec<&'a Document>> {
        let statements = self.documents(field)?.ok_or_else(|| self.missing(field))?;
        check_batch_size(statements.len())?;
        Ok(statements)
    }

    /// The only statement of a write. Several are rejected.
    pub(crate) fn only_statement(&self, field: &str) -> Result<&'a Document> {
        match self.statements(field)?.as_slice() {
            [only] => Ok(only),
            several => Err(refused(
                Code::INVALID_LENGTH,
                format!("explained write batches must be of size 1, not {}", several.len()),
            )),
        }
    }

    /// The documents of an `insert`, in raw bytes.
    pub(crate) fn raw_documents(&self, field: &str) -> Result<Vec<Cow<'a, RawDocument>>> {
        // With an empty batch the documents are in the body. An empty array is too, and is rejected below.
        if let Some(batch) = self.batch.filter(|batch| !batch.documents.is_empty()) {
            check_batch_size(batch.documents.len())?;
            // Cheap: the documents borrow the bytes of the request.
            return Ok(batch.documents.clone());
        }
        // Only a body that the caller decoded gets here, so a request in bytes is never encoded again.
        let raw = |document: &Document| Ok(Cow::Owned(RawDocumentBuf::try_from(document)?));
        self.statements(field)?.into_iter().map(raw).collect()
    }

    /// The statements of a write in raw bytes: 1 to 100,000, none of them nested too deeply to be decoded.
    pub(crate) fn raw_statements(&self, field: &str) -> Result<Vec<Cow<'a, RawDocument>>> {
        let statements = self.raw_documents(field)?;
        // All before the first is run: a command that is malformed at its end changes nothing.
        statements.iter().try_for_each(|statement| check_nesting(field, RawBsonRef::Document(statement)))?;
        Ok(statements)
    }

    /// The value of a field. Returns `None` for null.
    pub(crate) fn read<T: FromArgument>(&self, field: &str) -> Result<Option<T>> {
        T::from_argument(self, field)
    }

    /// The value of a field, of any type. Returns `None` for null.
    pub(crate) fn given(&self, field: &str) -> Option<&'a Bson> {
        self.fields.get(field).filter(|value| !matches!(value, Bson::Null))
    }

    /// The limit of time of the whole command.
    pub(crate) fn max_time(&self) -> Result<Option<Duration>> {
        Ok(self.count("maxTimeMS")?.map(Duration::from_millis))
    }

    pub(crate) fn write_concern(&self) -> Result<Option<WriteConcern>> {
        self.read("writeConcern")
    }

    /// Checks the write concern. One that cannot be met fails the command before it changes anything.
    pub(crate) fn check_write_concern(&self) -> Result<()> {
        self.write_concern()?.map_or(Ok(()), |concern| concern.validate())
    }

    /// Checks the read concern. Every read sees one moment of what was written, so every level is met but `snapshot`: it
    /// promises that several reads of a session see the same moment.
    fn check_read_concern(&self) -> Result<()> {
        let Some(concern) = self.document("readConcern")? else { return Ok(()) };
        let of = Arguments::of("readConcern", concern);
        of.allow_in_statement(&["level", "provenance"])?;
        match of.one_of("level", &READ_CONCERNS)? {
            // As a MongoDB without replication rejects it.
            Some("snapshot") => Err(refused(
                Code::NOT_A_REPLICA_SET,
                "node needs to be a replica set member to use readConcern: snapshot",
            )),
            _ => Ok(()),
        }
    }

    /// The error for a required field that is not there.
    pub(crate) fn missing(&self, field: &str) -> Error {
        refused(
            Code::IDL_FAILED_TO_PARSE,
            format!("BSON field '{}.{field}' is missing but a required field", self.name),
        )
    }

    pub(crate) fn wrong_type(&self, field: &str, found: Option<&Bson>, expected: &str) -> Error {
        let name = self.name;
        refused(
            Code::TYPE_MISMATCH,
            format!("BSON field '{name}.{field}' is the wrong type: {} instead of {expected}", shown(found)),
        )
    }
}

/// A double that is a whole number. Returns `None` for any other.
fn whole(value: f64) -> Option<i64> {
    // Above this, not every whole number is a double, so the client may have meant another one.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() != 0.0 || value.abs() > EXACT {
        return None;
    }
    // Through text, because a cast would be exact here and still need an exception to the lints.
    format!("{value:.0}").parse().ok()
}

/// A type's name for messages.
fn shown(value: Option<&Bson>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| format!("{:?}", value.element_type()).to_lowercase())
}

/// Whether the aggregation is over the database: its target is the number 1 in place of a name.
pub(crate) fn is_database(arguments: &Arguments<'_>) -> bool {
    // Drivers send the 1 as an integer, and some shells send every number as a double.
    match arguments.given("aggregate") {
        Some(Bson::Int32(target)) => *target == 1,
        Some(Bson::Int64(target)) => *target == 1,
        Some(Bson::Double(target)) => target.total_cmp(&1.0).is_eq(),
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[track_caller]
    fn check(command: &Document, expected: Option<i32>) {
        let allowed = Arguments::of("find", command).allow(&["filter"]);
        assert_eq!(allowed.err().and_then(|error| error.code()), expected, "{command}");
    }

    #[test]
    fn unknown_fields_are_told_from_those_that_are_not_here() {
        check(&doc! { "find": "a", "filter": {}, "$db": "b", "lsid": {} }, None);
        check(&doc! { "find": "a", "oplogReplay": false }, None);
        check(&doc! { "find": "a", "oplogReplay": true }, Some(238));
        check(&doc! { "find": "a", "bogus": 1 }, Some(40415));
        check(&doc! { "find": "a", "txnNumber": 1_i64 }, Some(238));
        check(&doc! { "find": "a", "readConcern": { "level": "majority" } }, None);
        check(&doc! { "find": "a", "readConcern": { "level": "some" } }, Some(2));
        check(&doc! { "find": "a", "readConcern": { "level": "snapshot" } }, Some(123));
    }

    #[track_caller]
    fn number(value: Bson, expected: std::result::Result<Option<i64>, i32>) {
        let command = doc! { "n": value };
        let read = Arguments::of("find", &command).integer("n");
        assert_eq!(read.map_err(|error| error.code().unwrap_or_default()), expected, "{command}");
    }

    #[test]
    fn whole_numbers_of_every_type_are_read() {
        number(5.into(), Ok(Some(5)));
        number(5.0.into(), Ok(Some(5)));
        number(Bson::Null, Ok(None));
        number(5.5.into(), Err(2));
        number(f64::NAN.into(), Err(2));
        number(1e300.into(), Err(2));
        number("5".into(), Err(14));
    }
}
