//! The rules of a language, by ICU4X: comparing two texts, and making a sort key of one.
//!
//! A run of combining marks without an end makes that library need time with the square of its length. In sort keys such a
//! run is broken after [`MARKS_MAX`] marks, by the joiner that Unicode has for it (UAX #15, Stream-Safe Text Format): it has no
//! weight, and no text of a language comes near the limit.

use std::borrow::Cow;
use std::cmp::Ordering;

use bson::{RawDocumentBuf, rawdoc};
use icu_collator::options::{
    AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, ResolvedCollatorOptions, Strength,
};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering, CollationType};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;

use crate::collation::error::Error;
use crate::collation::key_form::pack;
use crate::collation::parse::{CaseFirst, LISTED_VERSION, Wanted};

/// The longest text, in bytes, that is compared without its sort key. The library compares faster than it makes keys, but
/// needs time with the square of the length for some texts, such as two long ones that are equal up to an accent.
const COMPARED_MAX: usize = 256;

/// The limit of combining marks that may follow each other.
const MARKS_MAX: usize = 30;

/// The end of a run of combining marks: a character without weight and without combining class.
const JOINER: char = '\u{34f}';

/// The language with the rules for accents that are compared from behind.
const BACKWARDS: &str = "fr-CA";

/// The rules of a language.
#[derive(Debug)]
pub(super) struct Rules {
    collator: CollatorBorrowed<'static>,
}

impl Rules {
    /// Loads the rules, and the document that names them in full.
    pub(super) fn load(wanted: &Wanted) -> Result<(Self, RawDocumentBuf), Error> {
        let is_backwards = wanted.backwards.unwrap_or(wanted.named.locale.name == "fr_CA");
        let language = match (is_backwards, wanted.named.locale.name) {
            (true, _) => BACKWARDS.to_owned(),
            // The same rules without the direction.
            (false, "fr_CA") => "fr".to_owned(),
            (false, "en_US_POSIX") => "en-US-posix".to_owned(),
            (false, name) => name.replace('_', "-"),
        };
        let unknown = || Error::UnknownLocale { locale: wanted.name.clone(), suggestion: None };
        // The table has only names that parse, so this fails for none of them.
        let locale: Locale = language.parse().map_err(|_| unknown())?;
        let mut preferences = CollatorPreferences::from(&locale);
        preferences.collation_type =
            wanted.named.kind.map(|code| kind(code).ok_or_else(unknown)).transpose()?;
        preferences.case_first = wanted.case_first.map(of_case_first);
        preferences.numeric_ordering = wanted.numeric_ordering.map(|is_on| {
            if is_on { CollationNumericOrdering::True } else { CollationNumericOrdering::False }
        });
        let collator = CollatorBorrowed::try_new(preferences, options(wanted)).map_err(|_| unknown())?;
        let document = document(wanted, collator.resolved_options(), is_backwards);
        Ok((Self { collator }, document))
    }

    /// Compares two texts.
    #[inline]
    pub(super) fn compare(&self, left: &str, right: &str) -> Ordering {
        // Most of the texts that are compared for equality are equal.
        if left == right {
            return Ordering::Equal;
        }
        // Either way the order is the same; this one is linear.
        if left.len().max(right.len()) > COMPARED_MAX {
            return self.key(left).cmp(&self.key(right));
        }
        // Bounded as sort keys are, so that both agree.
        self.collator.compare(&bounded(left), &bounded(right))
    }

    /// The text that sorts by its bytes as `text` sorts by the rules.
    pub(super) fn key_text(&self, text: &str) -> String {
        pack(&self.key(text))
    }

    fn key(&self, text: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(text.len() + 16);
        // Writing to a vector cannot fail.
        let Ok(()) = self.collator.write_sort_key_to(&bounded(text), &mut key);
        key
    }
}

/// The strengths by their number, from 1 on.
const STRENGTHS: [Strength; 5] =
    [Strength::Primary, Strength::Secondary, Strength::Tertiary, Strength::Quaternary, Strength::Identical];

/// The options for the library.
fn options(wanted: &Wanted) -> CollatorOptions {
    let mut options = CollatorOptions::default();
    let level = wanted.strength.map(|strength| usize::from(strength) - 1);
    options.strength = level.and_then(|level| STRENGTHS.get(level).copied());
    let case_level = |is_on| if is_on { CaseLevel::On } else { CaseLevel::Off };
    options.case_level = wanted.case_level.map(case_level);
    let alternate = |is_shifted| {
        if is_shifted { AlternateHandling::Shifted } else { AlternateHandling::NonIgnorable }
    };
    options.alternate_handling = wanted.is_shifted.map(alternate);
    let max_variable = |spaces_only| if spaces_only { MaxVariable::Space } else { MaxVariable::Punctuation };
    options.max_variable = wanted.spaces_only.map(max_variable);
    options
}

fn of_case_first(first: CaseFirst) -> CollationCaseFirst {
    match first {
        CaseFirst::Upper => CollationCaseFirst::Upper,
        CaseFirst::Lower => CollationCaseFirst::Lower,
        CaseFirst::Off => CollationCaseFirst::False,
    }
}

/// The document with every field, in MongoDB's order: what was given, and what the language says otherwise.
fn document(wanted: &Wanted, resolved: ResolvedCollatorOptions, is_backwards: bool) -> RawDocumentBuf {
    let level = STRENGTHS.iter().position(|strength| *strength == resolved.strength).unwrap_or(2);
    let case_first = if resolved.case_first == CollationCaseFirst::Upper {
        "upper"
    } else if resolved.case_first == CollationCaseFirst::Lower {
        "lower"
    } else {
        "off"
    };
    let is_shifted = resolved.alternate_handling == AlternateHandling::Shifted;
    // A language may bring options that have no effect at a strength, where they are rejected if they are given. Without them
    // the document can be given back, and means the same.
    let has_case = level >= 2 || resolved.case_level == CaseLevel::On;
    let case_first = if has_case { case_first } else { "off" };
    let is_backwards = is_backwards && level > 0;
    rawdoc! {
        "locale": wanted.name.as_str(),
        "caseLevel": resolved.case_level == CaseLevel::On,
        "caseFirst": case_first,
        "strength": i32::try_from(level + 1).unwrap_or(3),
        "numericOrdering": resolved.numeric == CollationNumericOrdering::True,
        "alternate": if is_shifted { "shifted" } else { "non-ignorable" },
        "maxVariable": if resolved.max_variable == MaxVariable::Space { "space" } else { "punct" },
        "normalization": wanted.normalization.unwrap_or(false),
        "backwards": is_backwards,
        "version": LISTED_VERSION,
    }
}

/// A kind of order by its name of BCP 47.
fn kind(code: &str) -> Option<CollationType> {
    Some(match code {
        "compat" => CollationType::Compat,
        "dict" => CollationType::Dict,
        "phonebk" => CollationType::Phonebk,
        "pinyin" => CollationType::Pinyin,
        "stroke" => CollationType::Stroke,
        "trad" => CollationType::Trad,
        "unihan" => CollationType::Unihan,
        "zhuyin" => CollationType::Zhuyin,
        _ => return None,
    })
}

/// The text with long runs of combining marks broken, which only hostile texts have.
fn bounded(text: &str) -> Cow<'_, str> {
    // Every mark uses two bytes or more, so short texts have no long run. ASCII has none at all.
    // Nearly every text ends here, without a copy.
    if text.len() <= 2 * MARKS_MAX || text.is_ascii() || !has_long_run(text) {
        return Cow::Borrowed(text);
    }
    let mut broken = String::with_capacity(text.len() + text.len() / MARKS_MAX);
    let mut run = 0;
    for letter in text.chars() {
        run = if is_mark(letter) { run + 1 } else { 0 };
        // The mark begins the next run.
        if run > MARKS_MAX {
            broken.push(JOINER);
            run = 1;
        }
        broken.push(letter);
    }
    Cow::Owned(broken)
}

fn has_long_run(text: &str) -> bool {
    let mut run = 0;
    text.chars().any(|letter| {
        run = if is_mark(letter) { run + 1 } else { 0 };
        run > MARKS_MAX
    })
}

/// Whether a letter is a mark that combines with what is before it.
#[inline]
fn is_mark(letter: char) -> bool {
    // The first mark of all.
    letter >= '\u{300}' && CanonicalCombiningClassMapBorrowed::new().get_u8(letter) != 0
}
