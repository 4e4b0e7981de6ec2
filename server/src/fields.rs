//! Reading the fields of the commands that the server answers itself.

use cairndb::GENERIC_COMMAND_FIELDS;
use cairndb::bson::{RawArray, RawBsonRef, RawDocument};
use query::code::Code;

use crate::failure::Failure;

/// The fields of a command, or of a document in it. `name` is how errors name it.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    name: &'a str,
    body: &'a RawDocument,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(name: &'a str, body: &'a RawDocument) -> Self {
        Self { name, body }
    }

    /// Rejects fields that the command does not have.
    pub(crate) fn allow(self, known: &[&str]) -> Result<(), Failure> {
        // The first field is the command itself.
        for field in self.body.iter().skip(1) {
            let (field, _) = field?;
            let field = field.as_str();
            if !known.contains(&field) && !Self::is_everywhere(field) {
                let name = self.name;
                let message = format!("BSON field '{name}.{field}' is an unknown field.");
                return Err(Failure::new(Code::IDL_UNKNOWN_FIELD, message));
            }
        }
        Ok(())
    }

    /// Rejects fields that a document inside of a command does not have. Unlike a command, all its fields are
    /// equal.
    pub(crate) fn allow_all(self, known: &[&str]) -> Result<(), Failure> {
        for field in self.body {
            let (field, _) = field?;
            if !known.contains(&field.as_str()) {
                let name = self.name;
                let message = format!("BSON field '{name}.{field}' is an unknown field.");
                return Err(Failure::new(Code::IDL_UNKNOWN_FIELD, message));
            }
        }
        Ok(())
    }

    /// Whether every command may have this field. The numbers of commands are checked before each command.
    pub(crate) fn is_everywhere(field: &str) -> bool {
        GENERIC_COMMAND_FIELDS.contains(&field)
            || ["autocommit", "startTransaction", "txnNumber"].contains(&field)
    }

    /// The names of all fields, in their order.
    pub(crate) fn names(self) -> Result<Vec<&'a str>, Failure> {
        self.body.iter().map(|field| Ok(field?.0.as_str())).collect()
    }

    /// The value of a field. Returns `None` if the field is absent or null.
    pub(crate) fn value(self, field: &str) -> Result<Option<RawBsonRef<'a>>, Failure> {
        Ok(self.body.get(field)?.filter(|value| value.as_null().is_none()))
    }

    /// The value of the field with the command's name.
    pub(crate) fn argument(self) -> Result<Option<RawBsonRef<'a>>, Failure> {
        self.value(self.name)
    }

    pub(crate) fn text(self, field: &str) -> Result<Option<&'a str>, Failure> {
        let Some(value) = self.value(field)? else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong_type(field, value, "string"))
    }

    pub(crate) fn document(self, field: &str) -> Result<Option<&'a RawDocument>, Failure> {
        let Some(value) = self.value(field)? else { return Ok(None) };
        value.as_document().map(Some).ok_or_else(|| self.wrong_type(field, value, "object"))
    }

    /// An array of up to `entries_max` entries. Every reader says how many: a message has room for millions of them, and what is
    /// made of each uses more memory than its bytes.
    pub(crate) fn array(self, field: &str, entries_max: usize) -> Result<Option<&'a RawArray>, Failure> {
        let Some(value) = self.value(field)? else { return Ok(None) };
        let array = value.as_array().ok_or_else(|| self.wrong_type(field, value, "array"))?;
        self.bounded(field, array, entries_max).map(Some)
    }

    /// Rejects an array of more than `entries_max` entries, which a field has among values of other types.
    pub(crate) fn bounded(
        self,
        field: &str,
        array: &'a RawArray,
        entries_max: usize,
    ) -> Result<&'a RawArray, Failure> {
        if array.into_iter().nth(entries_max).is_none() {
            return Ok(array);
        }
        let message = format!("BSON field '{}.{field}' has more than {entries_max} entries", self.name);
        Err(Failure::bad_value(message))
    }

    /// A boolean; a number counts as true unless it is 0.
    pub(crate) fn boolean(self, field: &str) -> Result<Option<bool>, Failure> {
        let Some(value) = self.value(field)? else { return Ok(None) };
        // As in MongoDB, whose shells have always sent numbers for booleans.
        let truth = value.as_bool().or_else(|| whole(value).map(|number| number != 0));
        truth.map(Some).ok_or_else(|| self.wrong_type(field, value, "bool"))
    }

    /// A whole number of any numeric type.
    pub(crate) fn integer(self, field: &str) -> Result<Option<i64>, Failure> {
        let Some(value) = self.value(field)? else { return Ok(None) };
        whole(value).map(Some).ok_or_else(|| self.wrong_type(field, value, "long"))
    }

    /// A whole number that is not negative.
    pub(crate) fn count(self, field: &str) -> Result<Option<u64>, Failure> {
        let Some(number) = self.integer(field)? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| {
            let message = format!("BSON field '{field}' value must be >= 0, actual value '{number}'");
            Failure::new(Code::VALUE_BELOW_MINIMUM, message)
        })
    }

    pub(crate) fn missing(self, field: &str) -> Failure {
        let name = self.name;
        let message = format!("BSON field '{name}.{field}' is missing but a required field");
        Failure::new(Code::IDL_FAILED_TO_PARSE, message)
    }

    pub(crate) fn wrong_type(self, field: &str, value: RawBsonRef<'_>, expected: &str) -> Failure {
        // Debug names of types, in lower case: `Int32` becomes `int32`. They are close to MongoDB's, and no
        // driver compares them.
        let (name, found) = (self.name, format!("{:?}", value.element_type()).to_lowercase());
        let message =
            format!("BSON field '{name}.{field}' is the wrong type '{found}', expected type '{expected}'");
        Failure::new(Code::TYPE_MISMATCH, message)
    }
}

/// The value of a number without a fraction.
pub(crate) fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    // Beyond 2^53 a double cannot represent every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let integer = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    integer.or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT)?;
        // By way of text: a cast of floating point would saturate silently.
        format!("{number:.0}").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{RawArrayBuf, rawdoc};

    use super::*;

    /// An array of a message can have millions of entries, and several commands made something of each.
    #[test]
    fn an_array_has_as_many_entries_as_its_reader_says() {
        for (length, is_taken) in [(0, true), (3, true), (4, false), (500, false)] {
            let array: RawArrayBuf = (0..length).collect();
            let body = rawdoc! { "killCursors": "things", "cursors": array };
            let fields = Fields::of("killCursors", &body);
            match fields.array("cursors", 3) {
                Ok(found) => assert!(is_taken && found.is_some(), "{length}"),
                Err(failure) => {
                    assert!(!is_taken && failure.code() == 2, "{length}");
                    let reply = failure.into_document();
                    let message = reply.get_str("errmsg").expect("a message");
                    assert!(message.contains("'killCursors.cursors' has more than 3 entries"), "{message}");
                }
            }
            assert!(fields.array("absent", 0).is_ok_and(|absent| absent.is_none()));
        }
    }
}
