//! From a collation's document to its options: all checks that need no rules of a language.

use bson::{Bson, RawBsonRef, RawDocument};

use crate::collation::error::Error;
use crate::collation::locale::{Found, Named, find, may_be_backwards};
use crate::order::{TypeClass, compare, type_class};

/// The version that MongoDB lists with every collation: that of its library. What is listed here can be given to a MongoDB.
pub(super) const LISTED_VERSION: &str = "57.1";

/// The name of the collation that compares bytes.
const SIMPLE: &str = "simple";

/// The options of a collation as they were given. What is absent is for the language to say.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "collation"), expect(dead_code, reason = "there are no rules that ask for it"))]
pub(super) struct Wanted {
    /// The locale as it was given.
    pub(super) name: String,
    pub(super) named: Named,
    pub(super) case_level: Option<bool>,
    pub(super) case_first: Option<CaseFirst>,
    pub(super) strength: Option<u8>,
    pub(super) numeric_ordering: Option<bool>,
    pub(super) is_shifted: Option<bool>,
    pub(super) spaces_only: Option<bool>,
    pub(super) normalization: Option<bool>,
    pub(super) backwards: Option<bool>,
}

/// Which of two letters that differ in case comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseFirst {
    Upper,
    Lower,
    Off,
}

/// Parses a collation's document. Returns `None` for the simple collation.
pub(super) fn parse(document: &RawDocument) -> Result<Option<Wanted>, Error> {
    let mut locale = None;
    let mut other = None;
    let mut options = Options::default();
    for element in document.iter_elements().map_while(Result::ok) {
        let Ok(value) = element.value() else { break };
        match element.key().as_str() {
            "locale" => locale = Some(text("locale", value)?),
            name => {
                options.take(name, value)?;
                other.get_or_insert_with(|| name.to_owned());
            }
        }
    }
    // Options may come before the locale, so it is asked for last.
    let locale = locale.ok_or(Error::LocaleMissing)?;
    if locale == SIMPLE {
        return other.map_or(Ok(None), |field| Err(Error::SimpleWithOptions { field }));
    }
    options.check()?;
    let named = match find(locale) {
        Found::Known(named) => named,
        Found::KindUnsupported => {
            let reason = ", only the usual order of the language and its other kinds are";
            return Err(Error::Unsupported { what: format!("locale '{locale}'"), reason });
        }
        Found::Unknown { suggestion } => {
            let suggestion = suggestion.map(str::to_owned);
            return Err(Error::UnknownLocale { locale: locale.to_owned(), suggestion });
        }
    };
    // The library has this direction as a property of one language, whose rules are those of all others without their own.
    if options.backwards == Some(true) && !may_be_backwards(named) {
        let what = format!("'backwards' and locale '{locale}'");
        let reason = ", only languages without rules of their own, such as 'fr' and 'en', have it";
        return Err(Error::Unsupported { what, reason });
    }
    let Options {
        case_level,
        case_first,
        strength,
        numeric_ordering,
        is_shifted,
        spaces_only,
        normalization,
        backwards,
        ..
    } = options;
    Ok(Some(Wanted {
        name: locale.to_owned(),
        named,
        case_level,
        case_first,
        strength,
        numeric_ordering,
        is_shifted,
        spaces_only,
        normalization,
        backwards,
    }))
}

/// The options besides the locale.
#[derive(Default)]
struct Options {
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<u8>,
    numeric_ordering: Option<bool>,
    is_shifted: Option<bool>,
    spaces_only: Option<bool>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    version: Option<String>,
}

impl Options {
    /// Reads one field. Of a field that is there twice the last one counts.
    fn take(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<(), Error> {
        match name {
            "caseLevel" => self.case_level = Some(boolean("caseLevel", value)?),
            "caseFirst" => {
                let allowed =
                    [("upper", CaseFirst::Upper), ("lower", CaseFirst::Lower), ("off", CaseFirst::Off)];
                self.case_first = Some(one_of("caseFirst", value, &allowed, "'upper', 'lower' or 'off'")?);
            }
            "strength" => self.strength = Some(strength(value)?),
            "numericOrdering" => self.numeric_ordering = Some(boolean("numericOrdering", value)?),
            "alternate" => {
                let allowed = [("non-ignorable", false), ("shifted", true)];
                self.is_shifted = Some(one_of("alternate", value, &allowed, "'non-ignorable' or 'shifted'")?);
            }
            "maxVariable" => {
                let allowed = [("punct", false), ("space", true)];
                self.spaces_only = Some(one_of("maxVariable", value, &allowed, "'punct' or 'space'")?);
            }
            "normalization" => self.normalization = Some(boolean("normalization", value)?),
            "backwards" => self.backwards = Some(boolean("backwards", value)?),
            "version" => self.version = Some(text("version", value)?.to_owned()),
            // A misspelled option would be ignored without a word.
            unknown => return Err(Error::UnknownField { field: unknown.to_owned() }),
        }
        Ok(())
    }

    /// Rejects options that have no effect together, as MongoDB does.
    fn check(&self) -> Result<(), Error> {
        if self.backwards == Some(true) && self.strength == Some(1) {
            let reason = "with a 'strength' of 1, which compares no accents";
            return Err(Error::Combination { field: "backwards", reason });
        }
        // Below the third level case counts only by a level of its own.
        let orders_case = matches!(self.case_first, Some(CaseFirst::Upper | CaseFirst::Lower));
        if orders_case && self.case_level != Some(true) && self.strength.is_some_and(|strength| strength < 3)
        {
            let reason = "unless 'caseLevel' is on or 'strength' is greater than 2";
            return Err(Error::Combination { field: "caseFirst", reason });
        }
        match &self.version {
            Some(found) if found != LISTED_VERSION => {
                Err(Error::Version { found: found.clone(), available: LISTED_VERSION })
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn strength(value: RawBsonRef<'_>) -> Result<u8, Error> {
    const EXPECTED: &str = "an integer from 1 to 5";
    if type_class(value) != TypeClass::Number {
        return Err(wrong_type("strength", value, "number"));
    }
    // Numbers of all types that are equal are one.
    let is_level = |level: &u8| compare(value, RawBsonRef::Int32(i32::from(*level))).is_eq();
    (1..=5).find(is_level).ok_or_else(|| {
        let found = Bson::try_from(value).map(|value| value.to_string()).unwrap_or_default();
        Error::Value { field: "strength", found, expected: EXPECTED }
    })
}

fn one_of<T: Copy>(
    field: &'static str,
    value: RawBsonRef<'_>,
    allowed: &[(&str, T)],
    expected: &'static str,
) -> Result<T, Error> {
    let found = text(field, value)?;
    let chosen = allowed.iter().find(|(name, _)| *name == found);
    chosen.map(|(_, value)| *value).ok_or_else(|| Error::Value { field, found: found.to_owned(), expected })
}

fn text<'a>(field: &'static str, value: RawBsonRef<'a>) -> Result<&'a str, Error> {
    value.as_str().ok_or_else(|| wrong_type(field, value, "string"))
}

fn boolean(field: &'static str, value: RawBsonRef<'_>) -> Result<bool, Error> {
    value.as_bool().ok_or_else(|| wrong_type(field, value, "bool"))
}

fn wrong_type(field: &'static str, value: RawBsonRef<'_>, expected: &'static str) -> Error {
    Error::WrongType { field, found: format!("{:?}", value.element_type()).to_lowercase(), expected }
}
