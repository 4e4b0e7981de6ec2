//! Auto-increment fields: which fields are allowed, what an insert does with a value that a document brings,
//! and the options of a call.
//!
//! The rules are SequoiaDB's. This module knows no documents: the caller walks them and calls
//! [`Field::decide`] for each value at the field's path.

use crate::attributes::{OptionValue, Options, boolean, choice, text, unknown};
use crate::error::{SequenceError, shorten};

/// The limit of auto-increment fields in a collection, as many as it may have indexes in MongoDB: every insert goes
/// through all of them. SequoiaDB names no limit.
pub const FIELDS_MAX: usize = 64;

/// The treatment of a value that the document brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generated {
    /// Replaces the value by a generated one.
    Always,
    /// Rejects the document.
    AlwaysStrict,
    /// Keeps the value, of any type. An integer moves the sequence.
    #[default]
    Default,
    /// Keeps a 32-bit or 64-bit integer, which moves the sequence. Rejects a document with any other value.
    Strict,
}

/// The effect of truncating the collection on a field's sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTruncate {
    /// The sequence starts again at `StartValue`.
    #[default]
    Restart,
    /// The sequence goes on.
    Continue,
}

/// The options of a call that makes or changes an auto-increment field.
///
/// ```
/// use cairndb_sequence::attributes::OptionValue;
/// use cairndb_sequence::auto_increment::{FieldOptions, Generated};
///
/// let mut options = FieldOptions::default();
/// options.set("Field", OptionValue::Text("order.number"))?;
/// options.set("Generated", OptionValue::Text("strict"))?;
/// assert_eq!((options.path()?, options.generated), ("order.number", Some(Generated::Strict)));
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldOptions {
    /// The field's dotted path. Required.
    pub field: Option<String>,
    /// The treatment of a value that the document brings. Default [`Generated::Default`].
    pub generated: Option<Generated>,
    /// Whether an explicit null counts as no value. Default false.
    pub generate_on_null: Option<bool>,
    /// Whether to start after the greatest integer that the collection has in the field. Only when the field
    /// is made. Default false.
    pub start_from_existing: Option<bool>,
    /// The effect of truncating the collection. Default [`OnTruncate::Restart`].
    pub on_truncate: Option<OnTruncate>,
    /// The options of the field's sequence.
    pub sequence: Options,
}

/// An auto-increment field: its path and its mode.
///
/// ```
/// use cairndb_sequence::auto_increment::{Brought, Decision, Field, FieldOptions};
///
/// let options = FieldOptions {
///     field: Some("number".into()),
///     generate_on_null: Some(true),
///     ..FieldOptions::default()
/// };
/// assert_eq!(Field::create(&options)?.decide(Brought::Null)?, Decision::Generate);
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    path: String,
    /// The treatment of a value that the document brings.
    pub generated: Generated,
    /// Whether an explicit null counts as no value.
    pub generate_on_null: bool,
    /// The effect of truncating the collection.
    pub on_truncate: OnTruncate,
}

/// A value that a document brings, with the types that the rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// A 32-bit or 64-bit integer.
    Integer(i64),
    /// Null.
    Null,
    /// Any other type, by name.
    Other(&'static str),
}

/// The decision of an insert about the value of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The value stays and is announced to the sequence, which continues beyond it.
    Announce(i64),
    /// The value stays.
    Keep,
    /// A generated value replaces it.
    Generate,
}

impl Generated {
    /// Every mode with its name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("always", Self::Always),
        ("alwaysStrict", Self::AlwaysStrict),
        ("default", Self::Default),
        ("strict", Self::Strict),
    ];

    /// The name, as options and lists spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::AlwaysStrict => "alwaysStrict",
            Self::Default => "default",
            Self::Strict => "strict",
        }
    }
}

impl OnTruncate {
    /// Every choice with its name.
    pub const ALL: [(&'static str, Self); 2] = [("restart", Self::Restart), ("continue", Self::Continue)];

    /// The name, as options spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Continue => "continue",
        }
    }
}

impl FieldOptions {
    /// Sets one option by its name in documents. Options of the sequence are accepted too.
    ///
    /// # Errors
    /// As [`Options::set`].
    pub fn set(&mut self, name: &str, value: OptionValue<'_>) -> Result<(), SequenceError> {
        match name {
            "Field" => self.field = Some(text("Field", value)?.to_owned()),
            "Generated" => self.generated = Some(choice("Generated", value, &Generated::ALL)?),
            "GenerateOnNull" => self.generate_on_null = Some(boolean("GenerateOnNull", value)?),
            "StartFromExisting" => self.start_from_existing = Some(boolean("StartFromExisting", value)?),
            "OnTruncate" => self.on_truncate = Some(choice("OnTruncate", value, &OnTruncate::ALL)?),
            // Sequences reject `_id` as an option that only the engine sets; the message must name the field
            // here.
            "_id" => return Err(unknown(name, "an auto-increment field")),
            _ => return self.sequence.set(name, value, "an auto-increment field"),
        }
        Ok(())
    }

    /// The field's path, which must be given.
    ///
    /// # Errors
    /// [`SequenceError::MissingOption`].
    pub fn path(&self) -> Result<&str, SequenceError> {
        self.field.as_deref().ok_or(SequenceError::MissingOption { option: "Field" })
    }
}

impl Field {
    /// The field that the options describe.
    ///
    /// # Errors
    /// [`SequenceError::MissingOption`] without a path, [`SequenceError::Field`] for one that is not allowed.
    pub fn create(options: &FieldOptions) -> Result<Self, SequenceError> {
        let path = options.path()?;
        check_path(path)?;
        Ok(Self {
            path: path.to_owned(),
            generated: options.generated.unwrap_or_default(),
            generate_on_null: options.generate_on_null.unwrap_or(false),
            on_truncate: options.on_truncate.unwrap_or_default(),
        })
    }

    /// The field after a change of its options.
    ///
    /// # Errors
    /// [`SequenceError::FixedOption`] for an option that is only allowed when the field is made.
    pub fn altered(&self, options: &FieldOptions) -> Result<Self, SequenceError> {
        let fixed = [
            ("StartFromExisting", options.start_from_existing.is_some()),
            ("UsedUpTo", options.sequence.used_up_to.is_some()),
        ];
        // Both set where the sequence starts, and it has started.
        if let Some((option, _)) = fixed.into_iter().find(|(_, is_given)| *is_given) {
            return Err(SequenceError::FixedOption { option, place: "when a field is changed" });
        }
        Ok(Self {
            path: self.path.clone(),
            generated: options.generated.unwrap_or(self.generated),
            generate_on_null: options.generate_on_null.unwrap_or(self.generate_on_null),
            on_truncate: options.on_truncate.unwrap_or(self.on_truncate),
        })
    }

    /// The field for documents that are stored unchanged, like those of a restored dump: they keep their
    /// values in every mode.
    #[must_use]
    pub fn bypassed(&self) -> Self {
        Self { generated: Generated::Default, generate_on_null: false, ..self.clone() }
    }

    /// The dotted path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The names of the path, from the top.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.path.split('.')
    }

    /// Whether both paths name the same field, or one field is inside the other.
    pub fn conflicts_with(&self, other: &str) -> bool {
        // Only the longer path can lie inside the shorter one. The dot keeps "a" and "ab" apart.
        let (short, long) = if self.path.len() <= other.len() {
            (self.path.as_str(), other)
        } else {
            (other, self.path.as_str())
        };
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Decides what an insert does with a value that a document brings.
    ///
    /// # Errors
    /// [`SequenceError::FieldValue`] if the mode rejects the value.
    pub fn decide(&self, brought: Brought) -> Result<Decision, SequenceError> {
        let refuse = |expected| {
            let found = brought.type_name();
            Err(SequenceError::FieldValue { field: self.path.clone(), expected, found })
        };
        // Before the mode: a null that counts as no value is replaced in the strict modes too.
        if brought == Brought::Null && self.generate_on_null {
            return Ok(Decision::Generate);
        }
        // Every pair by name, so a new mode or type has to be decided here.
        match (self.generated, brought) {
            (Generated::Always, _) => Ok(Decision::Generate),
            (Generated::AlwaysStrict, _) => refuse("absent, because its values are always generated"),
            (Generated::Default | Generated::Strict, Brought::Integer(value)) => {
                Ok(Decision::Announce(value))
            }
            (Generated::Default, Brought::Null | Brought::Other(_)) => Ok(Decision::Keep),
            (Generated::Strict, Brought::Null | Brought::Other(_)) => {
                refuse("a 32-bit or 64-bit integer, or absent")
            }
        }
    }
}

impl Brought {
    fn type_name(self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Null => "null",
            Self::Other(name) => name,
        }
    }
}

/// Checks the name of a sequence that a user makes.
///
/// # Errors
/// [`SequenceError::Name`] with the rule that it breaks.
pub fn check_name(name: &str) -> Result<(), SequenceError> {
    let refuse = |reason| Err(SequenceError::Name { name: shorten(name), reason });
    if name.is_empty() {
        return refuse("it is empty");
    }
    if name.starts_with([' ', '\t']) {
        return refuse("it starts with a space or a tab");
    }
    if name.starts_with('$') {
        return refuse("it starts with $");
    }
    // A user's sequence of such a name could collide with that of a field that is made later.
    if is_internal_name(name) {
        return refuse("names that start with SYS belong to auto-increment fields");
    }
    Ok(())
}

/// Whether the name is reserved for the sequences of auto-increment fields.
pub fn is_internal_name(name: &str) -> bool {
    name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("SYS"))
}

fn check_path(path: &str) -> Result<(), SequenceError> {
    let refuse = |reason| Err(SequenceError::Field { field: shorten(path), reason });
    // SequoiaDB's rules. A number would be a position in an array, which an insert does not look into.
    for segment in path.split('.') {
        if segment.is_empty() {
            return refuse("a name in it is empty");
        }
        if segment.starts_with('$') {
            return refuse("a name in it starts with $");
        }
        if segment.starts_with(' ') {
            return refuse("a name in it starts with a space");
        }
        if segment.bytes().all(|byte| byte.is_ascii_digit()) {
            return refuse("a name in it is a number");
        }
        if segment.contains('\0') {
            return refuse("a name in it holds a zero character");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn field(path: &str, generated: Generated) -> Field {
        let options = FieldOptions {
            field: Some(path.to_owned()),
            generated: Some(generated),
            ..FieldOptions::default()
        };
        Field::create(&options).unwrap()
    }

    #[test]
    fn modes_and_choices_have_the_names_that_options_spell() {
        for (name, mode) in Generated::ALL {
            assert_eq!(mode.name(), name);
        }
        for (name, choice) in OnTruncate::ALL {
            assert_eq!(choice.name(), name);
        }
    }

    #[test]
    fn names_of_sequences() {
        for allowed in ["orders", "序列", "s", "sy", "my SYS", "a$", "order numbers"] {
            assert_eq!(check_name(allowed), Ok(()), "{allowed:?}");
        }
        for refused in ["", " a", "\ta", "$a", "SYS", "sys_1_a_SEQ", "SyS1"] {
            assert_eq!(check_name(refused).map_err(|error| error.sequoia_code()), Err(-6), "{refused:?}");
        }
    }

    #[test]
    fn paths_of_fields() {
        for allowed in ["id", "a.b.c", "1a", "a.1b", "id$7", "id 8", "a.b 1", "é"] {
            assert_eq!(check_path(allowed), Ok(()), "{allowed:?}");
        }
        for refused in
            ["", ".", "a.", ".a", "a..b", "$a", "a.$b", " a", "a. b", "1", "a.1", "007", "c.1.d", "a\0"]
        {
            assert_eq!(check_path(refused).map_err(|error| error.sequoia_code()), Err(-6), "{refused:?}");
        }
    }

    #[test]
    fn fields_conflict_with_themselves_and_their_parents() {
        let field = field("a.aa", Generated::Default);
        for (other, expected) in [
            ("a.aa", true),
            ("a", true),
            ("a.aa.aaa", true),
            ("a.bb", false),
            ("a.aab", false),
            ("a.a", false),
            ("b", false),
        ] {
            assert_eq!(field.conflicts_with(other), expected, "{other}");
        }
        assert_eq!(field.segments().collect::<Vec<_>>(), ["a", "aa"]);
    }

    #[test]
    fn what_becomes_of_a_brought_value() {
        #[track_caller]
        fn check(generated: Generated, expected: [Option<Decision>; 3]) {
            let brought = [Brought::Integer(7), Brought::Null, Brought::Other("a string")];
            let decided = brought.map(|value| field("id", generated).decide(value).ok());
            assert_eq!(decided, expected, "{generated:?}");
        }
        let (announce, keep, generate) =
            (Some(Decision::Announce(7)), Some(Decision::Keep), Some(Decision::Generate));
        check(Generated::Always, [generate, generate, generate]);
        check(Generated::AlwaysStrict, [None, None, None]);
        check(Generated::Default, [announce, keep, keep]);
        check(Generated::Strict, [announce, None, None]);
    }

    #[test]
    fn a_bypassed_field_keeps_what_is_brought() {
        for (_, generated) in Generated::ALL {
            let field = Field { generate_on_null: true, ..field("id", generated) }.bypassed();
            let brought = [Brought::Integer(7), Brought::Null, Brought::Other("a string")];
            let decided = brought.map(|value| field.decide(value));
            assert_eq!(decided, [Ok(Decision::Announce(7)), Ok(Decision::Keep), Ok(Decision::Keep)]);
        }
    }

    #[test]
    fn a_null_may_count_as_no_value() {
        for (_, generated) in Generated::ALL {
            let field = Field { generate_on_null: true, ..field("id", generated) };
            assert_eq!(field.decide(Brought::Null), Ok(Decision::Generate), "{generated:?}");
        }
    }

    #[test]
    fn a_refusal_names_field_and_type() {
        let refused = field("a.id", Generated::Strict).decide(Brought::Other("a double")).unwrap_err();
        let expected =
            "the auto-increment field a.id must be a 32-bit or 64-bit integer, or absent, not a double";
        assert_eq!(refused.to_string(), expected);
        assert_eq!(refused.sequoia_code(), -6);
    }

    #[test]
    fn options_of_fields() {
        let mut options = FieldOptions::default();
        assert!(matches!(options.path(), Err(SequenceError::MissingOption { option: "Field" })));
        for (name, value) in [
            ("Field", OptionValue::Text("id")),
            ("Generated", OptionValue::Text("alwaysStrict")),
            ("GenerateOnNull", OptionValue::Boolean(true)),
            ("OnTruncate", OptionValue::Text("continue")),
            ("Increment", OptionValue::Integer(5)),
        ] {
            assert_eq!(options.set(name, value), Ok(()), "{name}");
        }
        let field = Field::create(&options).unwrap();
        assert_eq!(
            (field.path(), field.generated, field.generate_on_null),
            ("id", Generated::AlwaysStrict, true)
        );
        assert_eq!((field.on_truncate, options.sequence.increment), (OnTruncate::Continue, Some(5)));
    }

    #[test]
    fn options_of_fields_are_checked() {
        #[track_caller]
        fn check(name: &str, value: OptionValue<'_>, code: i32) {
            let refused = FieldOptions::default().set(name, value).unwrap_err();
            assert_eq!((refused.code(), refused.sequoia_code()), (code, -6), "{refused}");
        }
        check("Field", OptionValue::Integer(1), 14);
        check("Field", OptionValue::Other("an array"), 14);
        check("Generated", OptionValue::Boolean(true), 14);
        check("Generated", OptionValue::Text("Always"), 2);
        check("Generated", OptionValue::Text(""), 2);
        check("OnTruncate", OptionValue::Text("stop"), 2);
        check("Cycle", OptionValue::Boolean(true), 2);
        check("Initial", OptionValue::Boolean(true), 2);
        check("_id", OptionValue::Other("an ObjectId"), 2);
    }

    #[test]
    fn a_changed_field_keeps_what_is_not_given() {
        let own = Field { generate_on_null: true, ..field("id", Generated::Strict) };
        let change = FieldOptions { on_truncate: Some(OnTruncate::Continue), ..FieldOptions::default() };
        assert_eq!(own.altered(&change), Ok(Field { on_truncate: OnTruncate::Continue, ..own.clone() }));
        let late = FieldOptions { start_from_existing: Some(true), ..FieldOptions::default() };
        assert!(matches!(own.altered(&late), Err(SequenceError::FixedOption { .. })));
    }

    #[test]
    fn names_of_the_sequences_of_fields_are_known() {
        assert!(is_internal_name("SYS_4_id") && !is_internal_name("invoices"));
    }
}
