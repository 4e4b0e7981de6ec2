//! Which languages a collation may name, and the kinds of order that some of them have.
//!
//! The names are MongoDB's, which accepts no other spelling: `en_US`, but not `en-us`.

/// A language, with what is known of its rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locale {
    /// MongoDB's name.
    pub(super) name: &'static str,
    /// Kinds of order besides the usual one: MongoDB's names and those of BCP 47.
    kinds: &'static [(&'static str, &'static str)],
}

/// A parsed name: a language, and perhaps a kind of order after `@collation=`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) locale: Locale,
    /// The kind by its name of BCP 47.
    pub(super) kind: Option<&'static str>,
}

/// The result of looking up a name.
pub(super) enum Found {
    Known(Named),
    /// MongoDB has it, and this library has no rules for it.
    KindUnsupported,
    Unknown {
        suggestion: Option<&'static str>,
    },
}

const TRADITIONAL: (&str, &str) = ("traditional", "trad");
const UNIHAN: (&str, &str) = ("unihan", "unihan");

/// The languages without kinds of their own.
const PLAIN: &str = "af am as az be bg bo bs bs_Cyrl ca ceb chr cs cy da dsb dz ee el en en_US en_US_POSIX eo et fa fa_AF \
    fil fo fr fr_CA ga gl gu ha haw he hi hr hsb hu hy id ig is it ka kk kl km kok ku ky lb lkt ln lo lt lv mk ml mn mr ms \
    mt my nb ne nl nn no om or pa pl ps pt ro ru se sk sl smn sq sr sr_Latn sw ta te th tk to tr ug uk ur uz wae wo xh yi \
    yo zu";

/// The languages with kinds of order to choose from.
const WITH_KINDS: &[Locale] = &[
    Locale { name: "ar", kinds: &[("compat", "compat")] },
    Locale { name: "bn", kinds: &[TRADITIONAL] },
    Locale { name: "de", kinds: &[("phonebook", "phonebk")] },
    Locale { name: "de_AT", kinds: &[("phonebook", "phonebk")] },
    Locale { name: "es", kinds: &[TRADITIONAL] },
    Locale { name: "fi", kinds: &[TRADITIONAL] },
    Locale { name: "ja", kinds: &[UNIHAN] },
    Locale { name: "kn", kinds: &[TRADITIONAL] },
    Locale { name: "ko", kinds: &[UNIHAN] },
    Locale { name: "si", kinds: &[("dictionary", "dict")] },
    Locale { name: "sv", kinds: &[TRADITIONAL] },
    Locale { name: "vi", kinds: &[TRADITIONAL] },
    Locale { name: "zh", kinds: CHINESE },
    Locale { name: "zh_Hans", kinds: CHINESE },
    Locale { name: "zh_Hant", kinds: CHINESE },
];

const CHINESE: &[(&str, &str)] = &[("pinyin", "pinyin"), ("stroke", "stroke"), ("zhuyin", "zhuyin"), UNIHAN];

/// The kinds of order that MongoDB has and this library has no rules for.
const UNSUPPORTED_KINDS: [&str; 6] = ["big5han", "gb2312han", "phonetic", "reformed", "search", "searchjl"];

/// The languages whose order is that of all languages together, without a rule of their own. Only for these the rules for
/// accents from behind, which are those of `fr_CA`, are the same with another direction.
const ROOT: &str =
    "bo ca de de_AT dz en en_US fr fr_CA ga haw id it kl lb lkt ln ms nl pt se smn sw wae xh yi zu";

/// Looks up what a collation calls its locale.
pub(super) fn find(given: &str) -> Found {
    let (language, keywords) = given.split_once('@').map_or((given, None), |(name, rest)| (name, Some(rest)));
    let Some(locale) = locale(language) else {
        // As MongoDB suggests: the language without its country, or with another spelling.
        let spelled = language.replace('-', "_");
        let start = spelled.split('_').next().unwrap_or_default().to_ascii_lowercase();
        // The whole name in the other spelling is nearer than its language.
        let found = locale(&spelled).or_else(|| locale(&start));
        return Found::Unknown { suggestion: found.map(|locale| locale.name) };
    };
    // ICU has more keywords, which MongoDB does not accept.
    let Some(keywords) = keywords else { return Found::Known(Named { locale, kind: None }) };
    let Some(kind) = keywords.strip_prefix("collation=") else {
        return Found::Unknown { suggestion: Some(locale.name) };
    };
    // The usual order has a name too.
    if kind == "standard" {
        return Found::Known(Named { locale, kind: None });
    }
    if let Some((_, code)) = locale.kinds.iter().find(|(name, _)| *name == kind) {
        return Found::Known(Named { locale, kind: Some(code) });
    }
    // MongoDB accepts these, so they are not a mistake of the caller.
    if UNSUPPORTED_KINDS.contains(&kind) {
        return Found::KindUnsupported;
    }
    Found::Unknown { suggestion: Some(locale.name) }
}

/// Whether the language has the common order, so that accents can be compared from behind.
pub(super) fn may_be_backwards(named: Named) -> bool {
    named.kind.is_none() && ROOT.split_ascii_whitespace().any(|name| name == named.locale.name)
}

fn locale(name: &str) -> Option<Locale> {
    // Looked for once for a call, so a list is fast enough.
    let plain = PLAIN.split_ascii_whitespace().find(|known| *known == name);
    let plain = plain.map(|name| Locale { name, kinds: &[] });
    plain.or_else(|| WITH_KINDS.iter().find(|locale| locale.name == name).copied())
}

/// All languages, for tests.
#[cfg(all(test, feature = "collation"))]
pub(super) fn all() -> impl Iterator<Item = Named> {
    let plain =
        PLAIN.split_ascii_whitespace().map(|name| Named { locale: Locale { name, kinds: &[] }, kind: None });
    plain.chain(WITH_KINDS.iter().flat_map(|locale| {
        let kinds = locale.kinds.iter().map(|(_, code)| Some(*code));
        std::iter::once(None).chain(kinds).map(|kind| Named { locale: *locale, kind })
    }))
}
