//! The comparison of strings in a call: the options of MongoDB's collations.

use base::error::Result;
use bson::{Document, RawDocumentBuf, doc};
use index::collation::Collation as Rules;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::arguments::{Arguments, FromArgument};

/// The rules by which strings are compared: by the simple collation their bytes, otherwise those of a language.
///
/// They hold for every comparison of strings that a call makes, within arrays and objects too: in filters, sorts, expressions,
/// groups and updates. They do not hold for regular expressions, for the names of fields, and for operators that look into a
/// string, such as `$indexOfBytes`. The rules are those of Unicode's CLDR by ICU4X.
///
/// ```
/// use cairndb::{Client, Collation, CollationStrength, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "name": "émile" }, doc! { "name": "Zoe" }, doc! { "name": "Emile" }]).run()?;
///
/// // Neither case nor accents count.
/// let base = Collation::with_locale("fr").strength(CollationStrength::Primary);
/// assert_eq!(people.count_documents(doc! { "name": "emile" }).collation(base).run()?, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collation {
    /// The language: `simple`, or a name of ICU such as `en`, `de_AT` or `es@collation=traditional`.
    pub locale: String,
    /// Which differences count. By default [`CollationStrength::Tertiary`].
    pub strength: Option<CollationStrength>,
    /// Whether case counts where accents do not, or where they do and nothing else.
    pub case_level: Option<bool>,
    /// Which of two letters that differ in case comes first.
    pub case_first: Option<CollationCaseFirst>,
    /// Whether digits are compared by the numbers that they are.
    pub numeric_ordering: Option<bool>,
    /// Whether spaces and punctuation count as letters do.
    pub alternate: Option<CollationAlternate>,
    /// The characters that do not count with [`CollationAlternate::Shifted`].
    pub max_variable: Option<CollationMaxVariable>,
    /// Accepted and kept. Texts are always compared in their normal form.
    pub normalization: Option<bool>,
    /// Whether accents are compared from the end of a string, as in Canadian French.
    pub backwards: Option<bool>,
}

/// Which differences between strings count.
///
/// ```
/// use cairndb::{Collation, CollationStrength};
///
/// let base_letters = Collation::with_locale("en").strength(CollationStrength::Primary);
/// assert_eq!(base_letters.strength, Some(CollationStrength::Primary));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CollationStrength {
    /// 1: base letters.
    Primary,
    /// 2: base letters and accents.
    Secondary,
    /// 3: base letters, accents and case.
    Tertiary,
    /// 4: as 3, and what [`CollationAlternate::Shifted`] puts aside.
    Quaternary,
    /// 5: everything.
    Identical,
}

/// Which of two letters that differ in case comes first. For its use see [`Collation::case_first`](Collation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CollationCaseFirst {
    /// The capital letter.
    Upper,
    /// The small letter.
    Lower,
    /// As the language says: nearly always the small letter.
    Off,
}

/// Whether spaces and punctuation count as letters do. For its use see [`Collation::alternate`](Collation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CollationAlternate {
    /// They count.
    NonIgnorable,
    /// They count only for [`CollationStrength::Quaternary`] and above.
    Shifted,
}

/// The characters that [`CollationAlternate::Shifted`] is about. For its use see
/// [`Collation::max_variable`](Collation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CollationMaxVariable {
    /// Spaces and punctuation.
    Punct,
    /// Spaces.
    Space,
}

/// The strengths by their number, from 1 on.
const STRENGTHS: [CollationStrength; 5] = [
    CollationStrength::Primary,
    CollationStrength::Secondary,
    CollationStrength::Tertiary,
    CollationStrength::Quaternary,
    CollationStrength::Identical,
];

impl FromArgument for Collation {
    /// An empty document is not a collation.
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        let given = arguments.document(field)?.filter(|collation| !collation.is_empty());
        given.map(Self::from_document).transpose()
    }
}

impl Collation {
    const SIMPLE: &'static str = "simple";

    /// Returns the simple collation, which compares bytes.
    ///
    /// ```
    /// # use cairndb::{Client, Collation, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let collation = Collation::simple();
    /// assert_eq!(people.find(doc! {}).collation(collation).run()?.count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn simple() -> Self {
        Self::with_locale(Self::SIMPLE)
    }

    /// Returns the collation of a language, with the language's own options. A call rejects a language that does not exist
    /// (2, `BadValue`).
    ///
    /// ```
    /// # use cairndb::{Client, Collation, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let words = client.database("app").collection::<Document>("words");
    /// words.insert_many([doc! { "_id": "zebra" }, doc! { "_id": "ärlig" }]).run()?;
    /// let first = |locale| {
    ///     words.find_one(doc! {}).sort(doc! { "_id": 1 }).collation(Collation::with_locale(locale)).run()
    /// };
    /// assert_eq!(first("de")?, Some(doc! { "_id": "ärlig" }));
    /// assert_eq!(first("sv")?, Some(doc! { "_id": "zebra" }));
    /// assert_eq!(first("elvish").unwrap_err().code(), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_locale(locale: impl Into<String>) -> Self {
        Self {
            locale: locale.into(),
            strength: None,
            case_level: None,
            case_first: None,
            numeric_ordering: None,
            alternate: None,
            max_variable: None,
            normalization: None,
            backwards: None,
        }
    }

    /// Sets which differences count.
    ///
    /// ```
    /// use cairndb::{Collation, CollationStrength};
    ///
    /// let any_case = Collation::with_locale("en").strength(CollationStrength::Secondary);
    /// assert_ne!(any_case, Collation::with_locale("en"));
    /// ```
    pub fn strength(self, strength: CollationStrength) -> Self {
        Self { strength: Some(strength), ..self }
    }

    /// Sets whether case counts apart from the strength.
    ///
    /// ```
    /// use cairndb::{Collation, CollationStrength};
    ///
    /// // Case counts, and accents do not.
    /// let cased = Collation::with_locale("en").strength(CollationStrength::Primary).case_level(true);
    /// assert_eq!(cased.case_level, Some(true));
    /// ```
    pub fn case_level(self, case_level: bool) -> Self {
        Self { case_level: Some(case_level), ..self }
    }

    /// Sets which of two letters that differ in case comes first.
    ///
    /// ```
    /// use cairndb::{Collation, CollationCaseFirst};
    ///
    /// let capitals_first = Collation::with_locale("en").case_first(CollationCaseFirst::Upper);
    /// assert_eq!(capitals_first.case_first, Some(CollationCaseFirst::Upper));
    /// ```
    pub fn case_first(self, case_first: CollationCaseFirst) -> Self {
        Self { case_first: Some(case_first), ..self }
    }

    /// Sets whether digits are compared by the numbers that they are: `a2` before `a10`.
    ///
    /// ```
    /// use cairndb::Collation;
    ///
    /// assert_eq!(Collation::with_locale("en").numeric_ordering(true).numeric_ordering, Some(true));
    /// ```
    pub fn numeric_ordering(self, numeric_ordering: bool) -> Self {
        Self { numeric_ordering: Some(numeric_ordering), ..self }
    }

    /// Sets whether spaces and punctuation count as letters do.
    ///
    /// ```
    /// use cairndb::{Collation, CollationAlternate};
    ///
    /// let letters = Collation::with_locale("en").alternate(CollationAlternate::Shifted);
    /// assert_eq!(letters.alternate, Some(CollationAlternate::Shifted));
    /// ```
    pub fn alternate(self, alternate: CollationAlternate) -> Self {
        Self { alternate: Some(alternate), ..self }
    }

    /// Sets what does not count with [`CollationAlternate::Shifted`].
    ///
    /// ```
    /// use cairndb::{Collation, CollationAlternate, CollationMaxVariable};
    ///
    /// let without_spaces = Collation::with_locale("en")
    ///     .alternate(CollationAlternate::Shifted)
    ///     .max_variable(CollationMaxVariable::Space);
    /// assert_eq!(without_spaces.max_variable, Some(CollationMaxVariable::Space));
    /// ```
    pub fn max_variable(self, max_variable: CollationMaxVariable) -> Self {
        Self { max_variable: Some(max_variable), ..self }
    }

    /// Sets an option that changes nothing here: texts are always compared in their normal form.
    ///
    /// ```
    /// use cairndb::Collation;
    ///
    /// assert_eq!(Collation::with_locale("en").normalization(true).normalization, Some(true));
    /// ```
    pub fn normalization(self, normalization: bool) -> Self {
        Self { normalization: Some(normalization), ..self }
    }

    /// Sets whether accents are compared from the end of a string. Only languages without rules of their own, such as `fr` and
    /// `en`, have this order; calls reject it for the others (238).
    ///
    /// ```
    /// use cairndb::Collation;
    ///
    /// assert_eq!(Collation::with_locale("fr").backwards(true).backwards, Some(true));
    /// ```
    pub fn backwards(self, backwards: bool) -> Self {
        Self { backwards: Some(backwards), ..self }
    }

    /// Reads the document of a command, and checks it.
    pub(crate) fn from_document(document: &Document) -> Result<Self> {
        // The options that are left out below are either checked here, or change nothing.
        let rules = Rules::parse(&RawDocumentBuf::try_from(document)?)?;
        // Each has a value that was checked above, or none.
        let text = |name| document.get_str(name).ok();
        let flag = |name| document.get_bool(name).ok();
        // The rules have read the number, whatever its type is.
        let level = rules.document().and_then(|told| told.get_i32("strength").ok());
        let level = level.filter(|_| document.contains_key("strength"));
        let strength =
            level.and_then(|level| STRENGTHS.get(usize::try_from(level).ok()?.checked_sub(1)?).copied());
        Ok(Self {
            // Without a locale the document was rejected.
            locale: text("locale").unwrap_or(Self::SIMPLE).to_owned(),
            strength,
            case_level: flag("caseLevel"),
            // The last branch is the only text that is left.
            case_first: text("caseFirst").map(|first| match first {
                "upper" => CollationCaseFirst::Upper,
                "lower" => CollationCaseFirst::Lower,
                _ => CollationCaseFirst::Off,
            }),
            numeric_ordering: flag("numericOrdering"),
            alternate: text("alternate").map(|alternate| match alternate {
                "shifted" => CollationAlternate::Shifted,
                _ => CollationAlternate::NonIgnorable,
            }),
            max_variable: text("maxVariable").map(|variable| match variable {
                "space" => CollationMaxVariable::Space,
                _ => CollationMaxVariable::Punct,
            }),
            normalization: flag("normalization"),
            backwards: flag("backwards"),
        })
    }

    /// The document of a command.
    pub(crate) fn to_document(&self) -> Document {
        // Only what was set: the language has its own values for the rest.
        let mut document = doc! { "locale": &self.locale };
        let level = (1..).zip(STRENGTHS).find(|(_, strength)| self.strength == Some(*strength));
        document.extend(level.map(|(level, _): (i32, _)| ("strength".to_owned(), level.into())));
        let texts = [
            (
                "caseFirst",
                self.case_first.map(|first| match first {
                    CollationCaseFirst::Upper => "upper",
                    CollationCaseFirst::Lower => "lower",
                    CollationCaseFirst::Off => "off",
                }),
            ),
            (
                "alternate",
                self.alternate.map(|alternate| match alternate {
                    CollationAlternate::NonIgnorable => "non-ignorable",
                    CollationAlternate::Shifted => "shifted",
                }),
            ),
            (
                "maxVariable",
                self.max_variable.map(|variable| match variable {
                    CollationMaxVariable::Punct => "punct",
                    CollationMaxVariable::Space => "space",
                }),
            ),
        ];
        document.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into()))));
        // In no order that matters: the rules list them in their own.
        let flags = [
            ("caseLevel", self.case_level),
            ("numericOrdering", self.numeric_ordering),
            ("normalization", self.normalization),
            ("backwards", self.backwards),
        ];
        document.extend(flags.into_iter().filter_map(|(name, flag)| Some((name.to_owned(), flag?.into()))));
        document
    }

    /// The rules, loaded and checked.
    pub(crate) fn rules(given: Option<&Self>) -> Result<Rules> {
        match given {
            // `simple` with options goes on to the check, which rejects it.
            Some(collation) if collation.locale != Self::SIMPLE || *collation != Self::simple() => {
                Ok(Rules::parse(&RawDocumentBuf::try_from(&collation.to_document())?)?)
            }
            Some(_) | None => Ok(Rules::simple()),
        }
    }
}

/// As the document of a command.
impl Serialize for Collation {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_document().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Collation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::from_document(&Document::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
