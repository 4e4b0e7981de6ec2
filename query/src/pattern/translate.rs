//! From PCRE, as MongoDB compiles it, to the syntax of the `regex` crate.
//!
//! The pattern is read by the `regex` crate's own parser. Where both agree it stays as it is; where they read the
//! same text differently it is edited (`\d` is ASCII in PCRE, `$` also matches before a last newline); and
//! where no edit helps it is refused. The invariant: a translated pattern finds a match in exactly the texts in which
//! PCRE finds one. What was matched, and by which group, is the same too, except for what groups called after
//! [`END_PREFIX`] took.

use std::ops::Range;

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassAsciiKind, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet,
    ClassSetItem, ClassUnicode, ClassUnicodeKind, ErrorKind, Flag, FlagsItemKind, GroupKind, HexLiteralKind,
    Literal, LiteralKind, RepetitionKind, RepetitionRange, Span, SpecialLiteralKind,
};

/// The options of a pattern; groups within it can change them.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are the independent letters i, m, s and x")]
pub(super) struct Options {
    pub(super) ignores_case: bool,
    pub(super) is_multi_line: bool,
    pub(super) dot_matches_all: bool,
    pub(super) ignores_space: bool,
}

/// A pattern that the `regex` crate understands as PCRE understands the original.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) text: String,
    /// What every matching text starts with, if anything.
    pub(super) prefix: Option<String>,
    /// Whether `^` stands for the start of each line somewhere.
    pub(super) has_line_start: bool,
}

/// Why there is no translation.
#[derive(Debug)]
pub(super) enum Refusal {
    /// PCRE refuses the pattern as well.
    Invalid(String),
    /// PCRE knows something that the `regex` crate does not, or might read differently.
    Unsupported(&'static str),
}

/// How the names of groups begin that hold the newline which `$` looks beyond. PCRE allows no dot in a name.
pub(super) const END_PREFIX: &str = "end.";

/// How deeply groups may be nested.
const NESTING_MAX: u32 = 200;

/// The letters that mean something to PCRE behind a backslash.
const PCRE_ESCAPES: &str = "aAbBcCdDeEfgGhHkKnNopPQrRsStvVwWxXzZ";

/// The general categories that both know by the same names.
const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl",
    "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// Members of a class, without brackets.
const DIGITS: &str = "0-9";
const SPACES: &str = r"\t\n\x0B\x0C\r\x20";
const WORD_CHARACTERS: &str = "0-9A-Za-z_";
const VERTICAL_SPACES: &str = r"\n\x0B\x0C\r\x{85}\x{2028}\x{2029}";

/// Translates a pattern that is to be compiled with the same options.
pub(super) fn translate(pattern: &str, options: Options) -> Result<Translated, Refusal> {
    let mut parser =
        ParserBuilder::new().nest_limit(NESTING_MAX).ignore_whitespace(options.ignores_space).build();
    let tree = parser.parse(pattern).map_err(|error| explain(pattern, &error))?;
    let mut walk = Walk { pattern, options, edits: Vec::new(), has_line_start: false, has_text_end: false };
    walk.node(&tree, Edge { leads: true, trails: true })?;
    if walk.has_line_start && walk.has_text_end {
        return Err(Refusal::Unsupported("^ of lines beside \\z or \\B"));
    }
    let prefix = if options.ignores_case || options.is_multi_line { None } else { literal_prefix(&tree) };
    Ok(Translated { text: walk.edited(), prefix, has_line_start: walk.has_line_start })
}

/// Whether a part of the pattern starts or ends it, on one of its branches.
#[derive(Clone, Copy)]
struct Edge {
    leads: bool,
    trails: bool,
}

struct Walk<'p> {
    pattern: &'p str,
    /// What holds at this point of the pattern.
    options: Options,
    /// Replacements of byte ranges of the pattern, in ascending order.
    edits: Vec<(Range<usize>, String)>,
    has_line_start: bool,
    /// Whether something can hold at the very end of a text and nowhere before.
    has_text_end: bool,
}

impl Walk<'_> {
    fn node(&mut self, node: &Ast, edge: Edge) -> Result<(), Refusal> {
        match node {
            Ast::Empty(_) | Ast::Dot(_) => Ok(()),
            Ast::Flags(set) => self.set_flags(&set.flags),
            Ast::Literal(literal) => self.literal(literal),
            Ast::Assertion(assertion) => self.assertion(assertion, edge),
            Ast::ClassUnicode(class) => self.category(class),
            Ast::ClassPerl(class) => {
                let negation = if class.negated { "^" } else { "" };
                self.edit(&class.span, format!("(?-i:[{negation}{}])", perl_members(class)));
                Ok(())
            }
            Ast::ClassBracketed(class) => self.class(class),
            Ast::Repetition(repetition) => self.repetition(repetition, edge),
            Ast::Group(group) => {
                let outside = self.options;
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.set_flags(flags)?;
                }
                self.node(&group.ast, edge)?;
                self.options = outside;
                Ok(())
            }
            Ast::Alternation(alternation) => {
                alternation.asts.iter().try_for_each(|branch| self.node(branch, edge))
            }
            Ast::Concat(concat) => self.concat(&concat.asts, edge),
        }
    }

    fn concat(&mut self, parts: &[Ast], edge: Edge) -> Result<(), Refusal> {
        let is_nothing = |part: &Ast| matches!(part, Ast::Flags(_) | Ast::Empty(_));
        let first = parts.iter().position(|part| !is_nothing(part));
        let last = parts.iter().rposition(|part| !is_nothing(part));
        for (at, part) in parts.iter().enumerate() {
            let leads = edge.leads && Some(at) == first;
            let trails = edge.trails && Some(at) == last;
            self.node(part, Edge { leads, trails })?;
        }
        Ok(())
    }

    fn repetition(&mut self, repetition: &ast::Repetition, edge: Edge) -> Result<(), Refusal> {
        match &*repetition.ast {
            // `a++` and the like: PCRE then never gives back what it took.
            Ast::Repetition(_) => return Err(Refusal::Unsupported("possessive or nested quantifiers")),
            Ast::Assertion(_) | Ast::Flags(_) | Ast::Empty(_) => {
                return Err(Refusal::Unsupported("a quantified assertion"));
            }
            Ast::Literal(_)
            | Ast::Dot(_)
            | Ast::ClassUnicode(_)
            | Ast::ClassPerl(_)
            | Ast::ClassBracketed(_)
            | Ast::Group(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => {}
        }
        let is_once = match &repetition.op.kind {
            RepetitionKind::ZeroOrOne => true,
            RepetitionKind::Range(RepetitionRange::Exactly(max) | RepetitionRange::Bounded(_, max)) => {
                *max <= 1
            }
            RepetitionKind::Range(RepetitionRange::AtLeast(_))
            | RepetitionKind::ZeroOrMore
            | RepetitionKind::OneOrMore => false,
        };
        // What is repeated stands between its own copies.
        let edge = if is_once { edge } else { Edge { leads: false, trails: false } };
        self.node(&repetition.ast, edge)
    }

    fn assertion(&mut self, assertion: &ast::Assertion, edge: Edge) -> Result<(), Refusal> {
        match assertion.kind {
            AssertionKind::StartText => {}
            AssertionKind::EndText => self.has_text_end = true,
            AssertionKind::StartLine if !self.options.is_multi_line => {}
            AssertionKind::StartLine => {
                if !edge.leads {
                    return Err(Refusal::Unsupported("^ of lines within a pattern"));
                }
                self.has_line_start = true;
            }
            AssertionKind::EndLine if self.options.is_multi_line => {}
            AssertionKind::EndLine => {
                if !edge.trails {
                    return Err(Refusal::Unsupported("$ within a pattern"));
                }
                let name = format!("{END_PREFIX}{}", assertion.span.start.offset);
                self.edit(&assertion.span, format!(r"(?:(?<{name}>\n?)\z)"));
            }
            AssertionKind::WordBoundary => self.edit(&assertion.span, r"(?-u:\b)".to_owned()),
            AssertionKind::NotWordBoundary => {
                self.has_text_end = true;
                self.edit(&assertion.span, r"(?-u:\B)".to_owned());
            }
            AssertionKind::WordBoundaryStartAngle => self.edit(&assertion.span, "<".to_owned()),
            AssertionKind::WordBoundaryEndAngle => self.edit(&assertion.span, ">".to_owned()),
            AssertionKind::WordBoundaryStart
            | AssertionKind::WordBoundaryEnd
            | AssertionKind::WordBoundaryStartHalf
            | AssertionKind::WordBoundaryEndHalf => {
                return Err(Refusal::Unsupported("a brace that is no repetition"));
            }
        }
        Ok(())
    }

    fn literal(&mut self, literal: &Literal) -> Result<(), Refusal> {
        if is_vertical_space(literal) {
            self.edit(&literal.span, format!("[{VERTICAL_SPACES}]"));
            return Ok(());
        }
        check_literal(literal)
    }

    fn category(&mut self, class: &ClassUnicode) -> Result<(), Refusal> {
        let name = match &class.kind {
            ClassUnicodeKind::OneLetter(letter) => letter.to_string(),
            ClassUnicodeKind::Named(name) => name.clone(),
            ClassUnicodeKind::NamedValue { .. } => String::new(),
        };
        if !CATEGORIES.contains(&name.as_str()) {
            return Err(Refusal::Unsupported("a Unicode property that is no general category"));
        }
        if self.options.ignores_case && matches!(name.as_str(), "Ll" | "Lt" | "Lu") {
            return Err(Refusal::Unsupported("letter case without regard to case"));
        }
        Ok(())
    }

    fn class(&mut self, class: &ClassBracketed) -> Result<(), Refusal> {
        let ClassSet::Item(item) = &class.kind else {
            return Err(Refusal::Unsupported("&&, -- or ~~ in a class"));
        };
        let single = std::slice::from_ref(item);
        let items = if let ClassSetItem::Union(union) = item { union.items.as_slice() } else { single };
        let text = self.pattern.get(bytes(&class.span)).unwrap_or_default();
        if self.options.ignores_space && text.contains(|letter: char| letter.is_whitespace() || letter == '#')
        {
            return Err(Refusal::Unsupported("space in a class with the option x"));
        }
        // ASCII sets keep to ASCII in PCRE even without regard to case, where `k` has a partner beyond ASCII.
        let keeps_case = self.options.ignores_case && items.iter().any(has_letters_of_ascii);
        if keeps_case && !items.iter().all(|item| has_letters_of_ascii(item) || is_without_case(item)) {
            return Err(Refusal::Unsupported("letters beside a set of letters without regard to case"));
        }
        let span = bytes(&class.span);
        if keeps_case {
            self.edits.push((span.start..span.start, "(?-i:".to_owned()));
        }
        for item in items {
            self.class_item(item)?;
        }
        if keeps_case {
            self.edits.push((span.end..span.end, ")".to_owned()));
        }
        Ok(())
    }

    fn class_item(&mut self, item: &ClassSetItem) -> Result<(), Refusal> {
        match item {
            ClassSetItem::Empty(_) => Ok(()),
            ClassSetItem::Literal(literal) if is_vertical_space(literal) => {
                self.edit(&literal.span, VERTICAL_SPACES.to_owned());
                Ok(())
            }
            ClassSetItem::Literal(literal) => check_literal(literal),
            ClassSetItem::Range(range) => {
                if is_vertical_space(&range.start) || is_vertical_space(&range.end) {
                    return Err(Refusal::Unsupported("\\v as the end of a range"));
                }
                check_literal(&range.start)?;
                check_literal(&range.end)
            }
            ClassSetItem::Ascii(class) => {
                let is_case = matches!(class.kind, ClassAsciiKind::Lower | ClassAsciiKind::Upper);
                if is_case && self.options.ignores_case {
                    return Err(Refusal::Unsupported("letter case without regard to case"));
                }
                Ok(())
            }
            ClassSetItem::Unicode(class) => self.category(class),
            ClassSetItem::Perl(class) => {
                let members = perl_members(class);
                self.edit(
                    &class.span,
                    if class.negated { format!("[^{members}]") } else { members.to_owned() },
                );
                Ok(())
            }
            ClassSetItem::Bracketed(_) | ClassSetItem::Union(_) => {
                Err(Refusal::Unsupported("[ within a class"))
            }
        }
    }

    fn set_flags(&mut self, flags: &ast::Flags) -> Result<(), Refusal> {
        let mut is_set = true;
        for item in &flags.items {
            match item.kind {
                FlagsItemKind::Negation => is_set = false,
                FlagsItemKind::Flag(Flag::CaseInsensitive) => self.options.ignores_case = is_set,
                FlagsItemKind::Flag(Flag::MultiLine) => self.options.is_multi_line = is_set,
                FlagsItemKind::Flag(Flag::IgnoreWhitespace) => self.options.ignores_space = is_set,
                FlagsItemKind::Flag(Flag::DotMatchesNewLine) => self.options.dot_matches_all = is_set,
                FlagsItemKind::Flag(Flag::SwapGreed) => {}
                FlagsItemKind::Flag(Flag::CRLF) => return Err(Refusal::Unsupported("recursion")),
                FlagsItemKind::Flag(Flag::Unicode) => {
                    return Err(Refusal::Invalid("unknown option in a group".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn edit(&mut self, span: &Span, replacement: String) {
        self.edits.push((bytes(span), replacement));
    }

    /// The pattern with all edits made.
    fn edited(&self) -> String {
        let mut text = String::with_capacity(self.pattern.len());
        let mut done = 0;
        for (span, replacement) in &self.edits {
            text.push_str(self.pattern.get(done..span.start).unwrap_or_default());
            text.push_str(replacement);
            done = span.end;
        }
        text.push_str(self.pattern.get(done..).unwrap_or_default());
        text
    }
}

fn bytes(span: &Span) -> Range<usize> {
    span.start.offset..span.end.offset
}

fn perl_members(class: &ClassPerl) -> &'static str {
    match class.kind {
        ClassPerlKind::Digit => DIGITS,
        ClassPerlKind::Space => SPACES,
        ClassPerlKind::Word => WORD_CHARACTERS,
    }
}

fn is_vertical_space(literal: &Literal) -> bool {
    literal.kind == LiteralKind::Special(SpecialLiteralKind::VerticalTab)
}

fn check_literal(literal: &Literal) -> Result<(), Refusal> {
    let (LiteralKind::HexFixed(kind) | LiteralKind::HexBrace(kind)) = &literal.kind else { return Ok(()) };
    match kind {
        HexLiteralKind::X => Ok(()),
        HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong => {
            Err(Refusal::Invalid("unknown escape \\u or \\U".to_owned()))
        }
    }
}

/// Whether a member of a class is a set in which ASCII letters are.
fn has_letters_of_ascii(item: &ClassSetItem) -> bool {
    match item {
        ClassSetItem::Perl(class) => class.kind == ClassPerlKind::Word,
        ClassSetItem::Ascii(class) => !matches!(
            class.kind,
            ClassAsciiKind::Blank
                | ClassAsciiKind::Cntrl
                | ClassAsciiKind::Digit
                | ClassAsciiKind::Punct
                | ClassAsciiKind::Space
        ),
        ClassSetItem::Empty(_)
        | ClassSetItem::Literal(_)
        | ClassSetItem::Range(_)
        | ClassSetItem::Unicode(_)
        | ClassSetItem::Bracketed(_)
        | ClassSetItem::Union(_) => false,
    }
}

/// Whether a member of a class holds no letter, so that regard to case makes no difference.
fn is_without_case(item: &ClassSetItem) -> bool {
    match item {
        ClassSetItem::Literal(literal) => literal.c.is_ascii() && !literal.c.is_ascii_alphabetic(),
        ClassSetItem::Range(range) => {
            let between = |low: char, high: char| low <= range.start.c && range.end.c <= high;
            between('\0', '@') || between('[', '`') || between('{', '\x7f')
        }
        ClassSetItem::Perl(class) => class.kind != ClassPerlKind::Word,
        ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) => true,
        ClassSetItem::Unicode(_) | ClassSetItem::Bracketed(_) | ClassSetItem::Union(_) => false,
    }
}

/// The characters that follow a `^` or `\A` at the start of a pattern without options.
fn literal_prefix(tree: &Ast) -> Option<String> {
    let Ast::Concat(concat) = tree else { return None };
    let (Ast::Assertion(start), rest) = concat.asts.split_first()? else { return None };
    if !matches!(start.kind, AssertionKind::StartLine | AssertionKind::StartText) {
        return None;
    }
    let letters = rest.iter().map_while(|part| match part {
        Ast::Literal(literal) if !is_vertical_space(literal) => Some(literal.c),
        Ast::Literal(_)
        | Ast::Empty(_)
        | Ast::Flags(_)
        | Ast::Dot(_)
        | Ast::Assertion(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_)
        | Ast::Repetition(_)
        | Ast::Group(_)
        | Ast::Alternation(_)
        | Ast::Concat(_) => None,
    });
    let prefix = letters.collect::<String>();
    if prefix.is_empty() { None } else { Some(prefix) }
}

/// Why the parser refused a pattern: only what PCRE refuses as well makes the pattern invalid.
#[expect(clippy::wildcard_enum_match_arm, reason = "most errors of the foreign parser are treated alike")]
fn explain(pattern: &str, error: &ast::Error) -> Refusal {
    let kind = error.kind();
    let culprit = pattern.get(error.span().start.offset..).unwrap_or_default();
    let is_invalid = match kind {
        ErrorKind::ClassRangeInvalid
        | ErrorKind::EscapeUnexpectedEof
        | ErrorKind::GroupUnclosed
        | ErrorKind::GroupUnopened
        | ErrorKind::RepetitionCountInvalid => true,
        // PCRE allows `[` in a class and `{` anywhere, and has verbs such as `(*UCP)`.
        ErrorKind::ClassUnclosed => pattern.matches('[').count() == 1,
        ErrorKind::RepetitionMissing => !culprit.starts_with('{') && !pattern.contains("(*"),
        ErrorKind::EscapeUnrecognized => culprit
            .chars()
            .nth(1)
            .is_some_and(|letter| letter.is_ascii_alphabetic() && !PCRE_ESCAPES.contains(letter)),
        _ => false,
    };
    if is_invalid {
        return Refusal::Invalid(kind.to_string());
    }
    Refusal::Unsupported(match kind {
        ErrorKind::UnsupportedLookAround => "look-around",
        ErrorKind::UnsupportedBackreference => "a backreference",
        ErrorKind::NestLimitExceeded(_) => "too many nested groups",
        ErrorKind::RepetitionCountUnclosed
        | ErrorKind::RepetitionCountDecimalEmpty
        | ErrorKind::RepetitionMissing => "a brace that is no repetition, or a verb",
        ErrorKind::FlagUnrecognized | ErrorKind::FlagDanglingNegation => "a special group",
        ErrorKind::EscapeUnrecognized | ErrorKind::ClassEscapeInvalid => "an unusual escape",
        _ => "unusual syntax",
    })
}
