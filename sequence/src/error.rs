//! The errors of this crate: text that is no `ObjectId`, and everything that a sequence rejects.
//!
//! Every variant is the caller's mistake and holds the value at fault, shortened if it is long, so that an
//! error never grows with its input. The errors of sequences have two numbers, MongoDB's and SequoiaDB's, so
//! that programs for either database can match on them.

/// The reason why a string is not an [`ObjectId`](crate::object_id::ObjectId).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text does not have 24 characters.
    #[error("\"{value}\" is not an ObjectId: it has {characters} characters, not 24")]
    ObjectIdLength {
        /// The text, shortened.
        value: String,
        /// The number of characters of the string.
        characters: usize,
    },
    /// The text holds a character that is not a hexadecimal digit.
    #[error("\"{value}\" is not an ObjectId: character {position} is '{character}', not a hexadecimal digit")]
    ObjectIdDigit {
        /// The text, shortened.
        value: String,
        /// The first character that is not a digit, escaped if it is not printable.
        character: String,
        /// The position of the character, counted from 1.
        position: usize,
    },
}

/// The reason why a sequence rejects a call, with SequoiaDB's number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SequenceError {
    /// An option that no sequence has, or that cannot be given here.
    #[error("\"{option}\" is not an option of {of}")]
    UnknownOption {
        /// The name that was given.
        option: String,
        /// The object that was to be created or changed.
        of: &'static str,
    },
    /// An option that the engine sets by itself, or that has its own call.
    #[error("{option} cannot be set {place}")]
    FixedOption {
        /// The option.
        option: &'static str,
        /// The place where it was given.
        place: &'static str,
    },
    /// An option that must be given is missing.
    #[error("{option} is required")]
    MissingOption {
        /// The option.
        option: &'static str,
    },
    /// The value of an option has the wrong type.
    #[error("{option} must be {expected}, not {found}")]
    OptionType {
        /// The option.
        option: &'static str,
        /// The types that it accepts.
        expected: &'static str,
        /// The type that was given.
        found: String,
    },
    /// The value of an option is outside of what it may be.
    #[error("{option} must be {expected}, not {value}")]
    OptionRange {
        /// The option.
        option: &'static str,
        /// The values that are allowed.
        expected: String,
        /// The value that was given.
        value: String,
    },
    /// A name that no sequence may have.
    #[error("\"{name}\" is not allowed as the name of a sequence: {reason}")]
    Name {
        /// The name, shortened.
        name: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// A path that no auto-increment field may have.
    #[error("\"{field}\" is not allowed as an auto-increment field: {reason}")]
    Field {
        /// The dotted path, shortened.
        field: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// Two auto-increment fields of one call are the same, or one lies in the other.
    #[error("the auto-increment fields {field} and {other} are the same, or one lies in the other")]
    FieldTwice {
        /// One of them.
        field: String,
        /// The other.
        other: String,
    },
    /// A collection would have more auto-increment fields than it may.
    #[error("{count} auto-increment fields are more than the {limit} that a collection may have")]
    TooManyFields {
        /// The number that there would be.
        count: usize,
        /// The limit: [`FIELDS_MAX`](crate::auto_increment::FIELDS_MAX).
        limit: usize,
    },
    /// A field that the collection has already is the same as the new one, or one lies in the other.
    #[error("the auto-increment field {field} conflicts with the field {existing} of the collection")]
    FieldConflict {
        /// The field of the call.
        field: String,
        /// The field that is there.
        existing: String,
    },
    /// The collection has no such auto-increment field.
    #[error("{field} is not an auto-increment field of the collection")]
    FieldNotFound {
        /// The field of the call, shortened.
        field: String,
    },
    /// A document has a value that the field's mode rejects.
    #[error("the auto-increment field {field} must be {expected}, not {found}")]
    FieldValue {
        /// The field's dotted path.
        field: String,
        /// The values that the mode accepts.
        expected: &'static str,
        /// The type that the document has.
        found: &'static str,
    },
    /// A parent of an auto-increment field is there, but no embedded document.
    #[error("{parent} must be an embedded document, not {found}, because {field} is an auto-increment field")]
    FieldParent {
        /// The path of the parent.
        parent: String,
        /// The field's dotted path.
        field: String,
        /// The type that the document has.
        found: &'static str,
    },
    /// A sequence of that name exists.
    #[error("the sequence {name} exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// No such sequence exists: it never was, or it was dropped or renamed.
    #[error("there is no sequence {name}")]
    NotFound {
        /// The name, shortened.
        name: String,
    },
    /// The sequence was dropped or renamed while it was in use. The caller can look its name up again.
    #[error("the sequence was dropped or renamed")]
    Retired,
    /// All values are used up and the sequence does not start over.
    #[error("the sequence has no value left: it does not go beyond {limit} and is not Cycled")]
    Exceeded {
        /// Its last possible value.
        limit: i64,
    },
    /// A current value that the sequence has passed already.
    #[error("{value} is not ahead of the sequence: {reason}")]
    ValueUsed {
        /// The value that was given.
        value: i64,
        /// The position that it is not ahead of.
        reason: String,
    },
    /// The current value of a sequence that has handed out no value.
    #[error("the sequence has not been used yet")]
    NeverUsed,
    /// The write of a gapless sequence's last value with its document failed, and may be on disk
    /// nevertheless. No value can follow until the sequence is loaded again, which shows what is on disk.
    #[error("the outcome of the last write of this gapless sequence is unknown")]
    InDoubt,
}

impl SequenceError {
    /// MongoDB's number: 14 (`TypeMismatch`) for a value of the wrong type, else 2 (`BadValue`).
    pub fn code(&self) -> i32 {
        self.mongodb().0
    }

    /// MongoDB's name for [`code`](Self::code).
    pub fn code_name(&self) -> &'static str {
        self.mongodb().1
    }

    // As in the table of codes of the crate `query`, which this crate does not know; a test of the engine compares.
    fn mongodb(&self) -> (i32, &'static str) {
        if matches!(self, Self::OptionType { .. }) { (14, "TypeMismatch") } else { (2, "BadValue") }
    }

    /// SequoiaDB's number.
    pub fn sequoia_code(&self) -> i32 {
        self.sequoia().0
    }

    /// SequoiaDB's name for [`sequoia_code`](Self::sequoia_code).
    pub fn sequoia_name(&self) -> &'static str {
        self.sequoia().1
    }

    fn sequoia(&self) -> (i32, &'static str) {
        match self {
            Self::UnknownOption { .. }
            | Self::FixedOption { .. }
            | Self::MissingOption { .. }
            | Self::OptionType { .. }
            | Self::OptionRange { .. }
            | Self::Name { .. }
            | Self::Field { .. }
            | Self::FieldTwice { .. }
            | Self::TooManyFields { .. }
            | Self::FieldValue { .. }
            | Self::FieldParent { .. } => (-6, "SDB_INVALIDARG"),
            Self::Exists { .. } => (-323, "SDB_SEQUENCE_EXIST"),
            Self::NotFound { .. } | Self::Retired => (-324, "SDB_SEQUENCE_NOT_EXIST"),
            Self::Exceeded { .. } => (-325, "SDB_SEQUENCE_EXCEEDED"),
            Self::FieldConflict { .. } => (-332, "SDB_AUTOINCREMENT_FIELD_CONFLICT"),
            Self::FieldNotFound { .. } => (-333, "SDB_AUTOINCREMENT_FIELD_NOT_EXIST"),
            Self::ValueUsed { .. } => (-361, "SDB_SEQUENCE_VALUE_USED"),
            Self::NeverUsed => (-362, "SDB_SEQUENCE_NEVER_USED"),
            Self::InDoubt => (-10, "SDB_SYS"),
        }
    }
}

/// The number of characters of a rejected value that an error repeats.
const VALUE_CHARACTERS_MAX: usize = 48;

/// The beginning of `value` for an error's text, with control characters escaped and the end of a long value
/// cut off.
pub(crate) fn shorten(value: &str) -> String {
    let mut shown = value.chars().take(VALUE_CHARACTERS_MAX).flat_map(char::escape_debug).collect::<String>();
    if value.chars().nth(VALUE_CHARACTERS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sequence_refuses_has_sequoiadbs_number_and_name() {
        #[track_caller]
        fn check(error: &SequenceError, number: i32, name: &str) {
            assert_eq!((error.sequoia_code(), error.sequoia_name()), (number, name), "{error}");
            assert_eq!((error.code(), error.code_name()), (2, "BadValue"), "{error}");
        }
        let text = || "a".to_owned();
        let (option, field, other) = (text(), text(), text());
        check(&SequenceError::UnknownOption { option, of: "a sequence" }, -6, "SDB_INVALIDARG");
        check(&SequenceError::FixedOption { option: "ID", place: "here" }, -6, "SDB_INVALIDARG");
        check(&SequenceError::MissingOption { option: "Field" }, -6, "SDB_INVALIDARG");
        let (expected, value) = (text(), text());
        check(&SequenceError::OptionRange { option: "Increment", expected, value }, -6, "SDB_INVALIDARG");
        check(&SequenceError::Name { name: text(), reason: "it is empty" }, -6, "SDB_INVALIDARG");
        check(&SequenceError::Field { field: text(), reason: "a name in it is empty" }, -6, "SDB_INVALIDARG");
        check(&SequenceError::FieldTwice { field, other }, -6, "SDB_INVALIDARG");
        check(&SequenceError::TooManyFields { count: 65, limit: 64 }, -6, "SDB_INVALIDARG");
        let (expected, found) = ("absent", "null");
        check(&SequenceError::FieldValue { field: text(), expected, found }, -6, "SDB_INVALIDARG");
        let (parent, field) = (text(), text());
        check(&SequenceError::FieldParent { parent, field, found }, -6, "SDB_INVALIDARG");
        check(&SequenceError::Exists { name: text() }, -323, "SDB_SEQUENCE_EXIST");
        check(&SequenceError::NotFound { name: text() }, -324, "SDB_SEQUENCE_NOT_EXIST");
        check(&SequenceError::Retired, -324, "SDB_SEQUENCE_NOT_EXIST");
        check(&SequenceError::Exceeded { limit: 7 }, -325, "SDB_SEQUENCE_EXCEEDED");
        let (field, existing) = (text(), text());
        check(&SequenceError::FieldConflict { field, existing }, -332, "SDB_AUTOINCREMENT_FIELD_CONFLICT");
        let missing = SequenceError::FieldNotFound { field: text() };
        check(&missing, -333, "SDB_AUTOINCREMENT_FIELD_NOT_EXIST");
        check(&SequenceError::ValueUsed { value: 1, reason: text() }, -361, "SDB_SEQUENCE_VALUE_USED");
        check(&SequenceError::NeverUsed, -362, "SDB_SEQUENCE_NEVER_USED");
        check(&SequenceError::InDoubt, -10, "SDB_SYS");
    }

    #[test]
    fn a_value_of_the_wrong_type_is_a_type_mismatch() {
        let error =
            SequenceError::OptionType { option: "Cycled", expected: "a boolean", found: "null".to_owned() };
        assert_eq!((error.code(), error.code_name(), error.sequoia_code()), (14, "TypeMismatch", -6));
    }

    #[test]
    fn short_values_are_repeated_whole() {
        assert_eq!(shorten("12ab"), "12ab");
        assert_eq!(shorten(&"x".repeat(VALUE_CHARACTERS_MAX)), "x".repeat(VALUE_CHARACTERS_MAX));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let shown = shorten(&"ö".repeat(1_000));
        assert_eq!(shown, format!("{}...", "ö".repeat(VALUE_CHARACTERS_MAX)));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shorten("a\nb\0"), "a\\nb\\0");
    }
}
