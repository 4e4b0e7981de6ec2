//! By which rules sort keys are made. Sort keys are stored, and keys of other rules do not sort with them.
//!
//! The rules come with a library of which a program may link another release than the one that is tested here. Most releases
//! make the same keys. So the rules are known by what they do: a hash of the sort keys of some texts in some languages. The
//! hash that is tested has a name, which is what folders hold; any other is its own name.

use std::sync::OnceLock;

use bson::rawdoc;
use sha2::{Digest, Sha256};

use crate::collation::Collation;

/// The name of the rules whose keys have the hash [`TESTED`].
const NAME: &str = "icu4x-2.4.0";
const TESTED: &str = "ec3ade69688fb403";
/// What the names of all rules begin with.
const PREFIX: &str = "icu4x-";

/// Languages with rules of their own, with weights of their own, and with the order that all others have.
const LOCALES: [&str; 14] = [
    "en",
    "da",
    "de@collation=phonebook",
    "es@collation=traditional",
    "fr_CA",
    "ja",
    "ko",
    "lt",
    "ru",
    "sv",
    "th",
    "tr",
    "vi",
    "zh",
];

/// Texts of many scripts, with letters, signs and marks that rules distinguish.
const TEXTS: [&str; 32] = [
    "a",
    "A",
    "Ada",
    "ada",
    "ä",
    "å",
    "aa",
    "æ",
    "ø",
    "ñ",
    "ch",
    "ll",
    "ß",
    "i",
    "ı",
    "İ",
    "é",
    "œ",
    "y",
    "東京",
    "一丁",
    "ひらカタ",
    "서울",
    "Москва",
    "ไทยเก",
    "שלום",
    "مرحبا",
    "नमस्ते",
    "a-b 10",
    "😀①",
    "e\u{301}\u{323}",
    "đ ư ơ ă",
];

/// The name of the rules that this build makes sort keys by. Returns `None` if it has no rules of languages.
///
/// ```
/// use cairndb_index::collation::{HAS_RULES, version};
///
/// assert_eq!(version::of_rules().is_some(), HAS_RULES);
/// ```
pub fn of_rules() -> Option<&'static str> {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    NAMED.get_or_init(|| hash().map(|hash| named(&hash))).as_deref()
}

/// What a message says of rules: their name, and the hash of their keys if the name is not the hash.
///
/// ```
/// use cairndb_index::collation::version::described;
///
/// assert_eq!(described("icu4x-0123456789abcdef"), "icu4x-0123456789abcdef");
/// ```
pub fn described(name: &str) -> String {
    if name == NAME { format!("{name} (keys {TESTED})") } else { name.to_owned() }
}

fn named(hash: &str) -> String {
    if hash == TESTED { NAME.to_owned() } else { format!("{PREFIX}{hash}") }
}

/// The hash of the sort keys of the texts, in hexadecimal. Returns `None` if a language is not in this build.
fn hash() -> Option<String> {
    let mut digest = Sha256::new();
    for locale in LOCALES {
        for strength in [1, 3, 4] {
            let collation = Collation::parse(&rawdoc! { "locale": locale, "strength": strength }).ok()?;
            for text in TEXTS {
                let key = collation.key_text(text);
                digest.update(u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes());
                digest.update(key.as_bytes());
            }
        }
    }
    let bytes = digest.finalize();
    let first = bytes.as_slice().first_chunk::<8>()?;
    Some(format!("{:016x}", u64::from_be_bytes(*first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, this build makes other sort keys than those of folders that exist: they refuse it with code 161.
    #[cfg(feature = "collation")]
    #[test]
    fn the_rules_of_this_build_are_those_that_folders_name() {
        assert_eq!(hash().as_deref(), Some(TESTED));
        assert_eq!(of_rules(), Some("icu4x-2.4.0"));
    }

    #[test]
    fn rules_with_other_keys_have_another_name() {
        assert_eq!(named(TESTED), NAME);
        assert_eq!(named("0123456789abcdef"), "icu4x-0123456789abcdef");
        assert_eq!(described(NAME), format!("icu4x-2.4.0 (keys {TESTED})"));
    }

    #[cfg(not(feature = "collation"))]
    #[test]
    fn a_build_without_rules_names_none() {
        assert_eq!(of_rules(), None);
    }
}
