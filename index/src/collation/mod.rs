//! The comparison of strings: by their bytes, or by the rules of a language.
//!
//! [`Collation`] is a cheap handle that is made once of a document such as `{locale: "de", strength: 1}`. What compares
//! values uses one ([`compare`](Collation::compare)), and what sorts bytes uses the **key form** of a value: the
//! same value with the sort key of each text in the text's place. Key forms compare by their bytes as the values compare by
//! the collation, so keys, intervals and ranges need no other rule.
//!
//! Names of fields are not texts here: they are always compared by their bytes.
//!
//! The invariant: `compare_texts(a, b)` is the order of the bytes of `key_text(a)` and `key_text(b)`.

pub mod error;
mod key_form;
mod locale;
mod parse;
#[cfg(feature = "collation")]
mod rules;
pub mod version;
#[cfg(not(feature = "collation"))]
mod without_rules;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::collation::error::Error;
use crate::collation::key_form::SortKeys;
pub use crate::collation::key_form::{KeyForm, has_text, key_bytes};
#[cfg(feature = "collation")]
use crate::collation::rules::Rules;
#[cfg(not(feature = "collation"))]
use crate::collation::without_rules::Rules;
use crate::key::{self, Direction};
use crate::order::{TextOrder, compare, compare_by_texts};

/// Whether the rules of languages are in this build.
pub const HAS_RULES: bool = cfg!(feature = "collation");

/// The simple collation, for what borrows one.
pub static SIMPLE: Collation = Collation::simple();

/// The comparison of strings. By default by their bytes, which costs nothing.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_index::collation::Collation;
///
/// # #[cfg(feature = "collation")] {
/// let english = Collation::parse(&rawdoc! { "locale": "en", "strength": 2 })?;
/// assert!(english.compare_texts("ADA", "ada").is_eq());
/// # }
/// assert!(Collation::simple().compare_texts("ADA", "ada").is_lt());
/// # Ok::<(), cairndb_index::collation::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Collation {
    /// Absent for the simple collation.
    language: Option<Arc<Language>>,
    /// Whether it is the default of what it is used for.
    is_default: bool,
}

/// The rules of a language, with the document that names them in full.
struct Language {
    rules: Rules,
    document: RawDocumentBuf,
}

/// The document says everything. The rules have tables of thousands of numbers.
impl fmt::Debug for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Language").field(&self.document).finish()
    }
}

/// Two collations are equal if they have the same rules, given or by default.
impl PartialEq for Collation {
    fn eq(&self, other: &Self) -> bool {
        match (&self.language, &other.language) {
            (None, None) => true,
            // Most collations that are compared are clones of one.
            (Some(own), Some(other)) => Arc::ptr_eq(own, other) || own.document == other.document,
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

impl Eq for Collation {}

impl Collation {
    /// The collation that compares texts by their bytes.
    pub const fn simple() -> Self {
        Self { language: None, is_default: false }
    }

    /// Parses a collation's document, checks it and loads the rules.
    ///
    /// # Errors
    /// What is wrong with the document: its fields, their values, a language that is not known or not here.
    pub fn parse(document: &RawDocument) -> Result<Self, Error> {
        // Checked before any rules are loaded: what is wrong is the same in a build without them.
        let Some(wanted) = parse::parse(document)? else { return Ok(Self::simple()) };
        let (rules, document) = Rules::load(&wanted)?;
        Ok(Self { language: Some(Arc::new(Language { rules, document })), is_default: false })
    }

    /// The same collation, as one that an operation has because it was given none.
    pub fn as_default(self) -> Self {
        Self { is_default: true, ..self }
    }

    /// The same collation, as one that was given.
    pub fn as_given(self) -> Self {
        Self { is_default: false, ..self }
    }

    /// Whether an operation has it because it was given none.
    #[inline]
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// Whether texts compare by their bytes.
    #[inline]
    pub fn is_simple(&self) -> bool {
        self.language.is_none()
    }

    /// The document with every field, as MongoDB lists it. Returns `None` for the simple collation.
    pub fn document(&self) -> Option<&RawDocument> {
        self.language.as_ref().map(|language| &*language.document)
    }

    /// Compares two texts.
    #[inline]
    pub fn compare_texts(&self, left: &str, right: &str) -> Ordering {
        // One branch that always goes the same way: the simple collation costs nothing else.
        match &self.language {
            None => left.cmp(right),
            Some(language) => language.rules.compare(left, right),
        }
    }

    /// Compares two values: [`order::compare`](compare) with this collation's order of texts, within objects and arrays too.
    #[inline]
    pub fn compare(&self, left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
        match &self.language {
            None => compare(left, right),
            Some(language) => compare_by_texts(left, right, &language.rules),
        }
    }

    /// The text that represents `text` where bytes are sorted.
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_index::collation::Collation;
    ///
    /// # #[cfg(feature = "collation")] {
    /// let english = Collation::parse(&rawdoc! { "locale": "en", "strength": 1 })?;
    /// assert_eq!(english.key_text("Zoe"), english.key_text("zoë"));
    /// assert!(english.key_text("Zoe") > english.key_text("abc"));
    /// # }
    /// assert_eq!(Collation::simple().key_text("Zoe"), "Zoe");
    /// # Ok::<(), cairndb_index::collation::error::Error>(())
    /// ```
    pub fn key_text(&self, text: &str) -> String {
        match &self.language {
            None => text.to_owned(),
            Some(language) => language.rules.key_text(text),
        }
    }

    /// Appends the key bytes of a value, which sort as the collation orders values: [`key::encode`] of the key form.
    #[inline]
    pub fn encode(&self, value: RawBsonRef<'_>, direction: Direction, key: &mut Vec<u8>) {
        match &self.language {
            None => key::encode(value, direction, key),
            // A copy is made only of values with texts.
            Some(language) => key::encode(key_form::of(value, &language.rules).value(), direction, key),
        }
    }

    /// Whether a value is found by its key alone, wherever that stands: it is equal to those values, and only those, that have its
    /// key, by all that compare texts by the collation. Null is the key of missing fields too, an array has other keys than its
    /// own, an object or a regular expression may be more than a value to who asks for it, and texts are equal by rules.
    ///
    /// This is the only place that decides it.
    ///
    /// ```
    /// use bson::RawBsonRef;
    /// use cairndb_index::collation::SIMPLE;
    ///
    /// assert!(SIMPLE.finds_by_key(RawBsonRef::Int32(5)) && !SIMPLE.finds_by_key(RawBsonRef::Null));
    /// ```
    pub fn finds_by_key(&self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::String(_) => self.is_simple(),
            RawBsonRef::Double(_)
            | RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Timestamp(_)
            | RawBsonRef::Binary(_)
            | RawBsonRef::ObjectId(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::Decimal128(_) => true,
            RawBsonRef::Array(_)
            | RawBsonRef::Document(_)
            | RawBsonRef::Null
            | RawBsonRef::Undefined
            | RawBsonRef::RegularExpression(_)
            | RawBsonRef::JavaScriptCode(_)
            | RawBsonRef::JavaScriptCodeWithScope(_)
            | RawBsonRef::Symbol(_)
            | RawBsonRef::MaxKey
            | RawBsonRef::MinKey
            | RawBsonRef::DbPointer(_) => false,
        }
    }

    /// The key form of a value. It borrows the value where that has no text, or the collation is simple.
    #[inline]
    pub fn key_form<'a>(&self, value: RawBsonRef<'a>) -> KeyForm<'a> {
        match &self.language {
            None => KeyForm::Same(value),
            Some(language) => key_form::of(value, &language.rules),
        }
    }
}

impl SortKeys for Rules {
    #[inline]
    fn key_text(&self, text: &str) -> String {
        Rules::key_text(self, text)
    }
}

impl TextOrder for Rules {
    #[inline]
    fn compare(&self, left: &str, right: &str) -> Ordering {
        Rules::compare(self, left, right)
    }
}

#[cfg(all(test, feature = "collation"))]
mod tests;
