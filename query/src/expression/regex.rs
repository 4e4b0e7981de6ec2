//! Regular expressions: `$regexMatch`, `$regexFind` and `$regexFindAll`.
//!
//! A constant pattern is compiled once, while parsing. A computed one is kept until another one is computed at the same
//! place: a pattern from a variable is compiled once for all documents.

use std::ops::Range;

use bson::RawBsonRef;
use bson::raw::cstr;
use pcre::error::MatchError;
use pcre::program::Found;

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Compiled, Node, RegexCall, RegexResult, Scope};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::value::{ArrayBuilder, ObjectBuilder, Value};
use crate::operation::OperationContext;
use crate::pattern::{LastPattern, Pattern, PatternError};
use crate::value::shorten;

const ARGUMENTS: Signature = Signature {
    names: &["input", "regex", "options"],
    required: 2,
    not_object: Code::REGEX_NOT_OBJECT,
    unknown: Code::REGEX_UNKNOWN_ARGUMENT,
    missing: &[Code::REGEX_INPUT_MISSING, Code::REGEX_PATTERN_MISSING],
};

pub(super) fn parse(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [input, regex, options] = ARGUMENTS.read::<3>(operator, operand)?;
    let input = parser.operand(input.unwrap_or(RawBsonRef::Null))?;
    let regex = parser.operand(regex.unwrap_or(RawBsonRef::Null))?;
    let options = options.map(|options| parser.operand(options)).transpose()?;
    // One function parses all three operators, which differ only in what they return.
    let wanted = match operator {
        "$regexFind" => RegexResult::First,
        "$regexFindAll" => RegexResult::All,
        _ => RegexResult::Whether,
    };
    // Options that were not given count as constant.
    let none = Value::Missing;
    let constant_options = options.as_ref().map_or(Some(&none), Node::constant);
    let compiled = match (regex.constant(), constant_options) {
        (Some(regex), Some(options)) => {
            let parse = |pattern: &str, options: &str| Pattern::parse(pattern, options, parser.room());
            Compiled::Constant(compile(operator, regex, options, &parse)?)
        }
        (_, _) => Compiled::Varying(LastPattern::default()),
    };
    Ok(Node::Regex(Box::new(RegexCall { operator, wanted, input, regex, options, compiled })))
}

pub(super) fn evaluate<'d>(call: &RegexCall, scope: Scope<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = call.input.evaluate(scope)?;
    let fresh;
    let pattern = match &call.compiled {
        Compiled::Constant(pattern) => pattern,
        Compiled::Varying(last) => {
            let regex = call.regex.evaluate(scope)?;
            let options = call.options.as_ref().map(|options| options.evaluate(scope)).transpose()?;
            let options = options.unwrap_or(Value::Missing);
            let parse = |pattern: &str, options: &str| last.parse(pattern, options, scope.room());
            fresh = compile(call.operator, &regex, &options, &parse)?;
            &fresh
        }
    };
    // The pattern is compiled before the input is looked at, so that a wrong one is an error for every
    // document.
    let text = input.get().and_then(RawBsonRef::as_str);
    if text.is_none() && !input.is_nullish() {
        let found = input.type_name();
        let fault = Fault::WrongType { argument: "input", expected: "a string", found };
        return Err(Error::Argument { operator: call.operator, fault, code: Code::REGEX_INPUT_TYPE });
    }
    // A null pattern or input matches nothing.
    match (call.wanted, pattern, text) {
        (RegexResult::Whether, Some(pattern), Some(text)) => {
            let search = TextSearch { operator: call.operator, pattern, text, operation: scope.operation() };
            Ok(Value::boolean(search.matches()?))
        }
        (RegexResult::First, Some(pattern), Some(text)) => {
            TextSearch { operator: call.operator, pattern, text, operation: scope.operation() }.first()
        }
        (RegexResult::All, Some(pattern), Some(text)) => {
            TextSearch { operator: call.operator, pattern, text, operation: scope.operation() }.all()
        }
        (RegexResult::Whether, _, _) => Ok(Value::FALSE),
        (RegexResult::First, _, _) => Ok(Value::NULL),
        (RegexResult::All, _, _) => Ok(ArrayBuilder::new(call.operator, scope.operation()).finish()),
    }
}

/// Makes a pattern of a text and its options.
type Parse<'p> = &'p dyn Fn(&str, &str) -> Result<Pattern, PatternError>;

/// Makes a pattern of a text or a regular expression. Returns `None` for null.
fn compile(
    operator: &'static str,
    regex: &Value<'_>,
    options: &Value<'_>,
    parse: Parse<'_>,
) -> Result<Option<Pattern>, Error> {
    let fault = |fault, code| Err(Error::Argument { operator, fault, code });
    let given = options.get().and_then(RawBsonRef::as_str);
    let (pattern, own) = match regex.or_null().as_regex() {
        Some(regex) => (Some(regex.pattern.as_str()), regex.options.as_str()),
        None => (regex.get().and_then(RawBsonRef::as_str), ""),
    };
    if pattern.is_none() && !regex.is_nullish() {
        let expected = "a string or a regular expression";
        return fault(
            Fault::WrongType { argument: "regex", expected, found: regex.type_name() },
            Code::REGEX_PATTERN_TYPE,
        );
    }
    if given.is_none() && !options.is_nullish() {
        let found = options.type_name();
        return fault(
            Fault::WrongType { argument: "options", expected: "a string", found },
            Code::REGEX_OPTIONS_TYPE,
        );
    }
    // Options given twice are rejected, even if both are the same.
    if given.is_some() && !own.is_empty() {
        return fault(Fault::OptionsTwice, Code::REGEX_OPTIONS_TWICE);
    }
    let options = given.unwrap_or(own);
    let Some(pattern) = pattern else { return Ok(None) };
    parse(pattern, options).map(Some).map_err(|error| refuse(operator, pattern, options, error))
}

fn refuse(operator: &'static str, pattern: &str, options: &str, error: PatternError) -> Error {
    let shown = shorten(pattern);
    let (reason, code) = match error {
        PatternError::Zero => {
            // The zero character is in the pattern, or else in the options.
            let code = if pattern.contains('\0') {
                Code::REGEX_PATTERN_ZERO_BYTE
            } else {
                Code::REGEX_OPTIONS_ZERO_BYTE
            };
            ("it holds a zero character".to_owned(), code)
        }
        PatternError::TooLong { length, limit } => {
            (format!("{length} bytes are more than {limit}"), Code::REGEX_PATTERN_INVALID)
        }
        PatternError::OptionUnknown { option } => {
            (format!("'{option}' in \"{}\" is not an option", shorten(options)), Code::PATTERN_OPTION_UNKNOWN)
        }
        PatternError::Invalid { reason, .. } => (reason, Code::REGEX_PATTERN_INVALID),
        PatternError::TooMany { limit } => (
            format!("the regular expressions take more than {limit} bytes together"),
            Code::REGEX_PATTERN_INVALID,
        ),
    };
    Error::Argument { operator, fault: Fault::Pattern { pattern: shown, reason }, code }
}

/// A search for a pattern in a text.
#[derive(Clone, Copy)]
struct TextSearch<'s> {
    operator: &'static str,
    pattern: &'s Pattern,
    text: &'s str,
    operation: &'s OperationContext,
}

impl TextSearch<'_> {
    fn matches(self) -> Result<bool, Error> {
        // The search asks the closure from time to time whether to stop: a token may be cancelled during one
        // long match.
        let matched = self.pattern.matches_text(self.text, &|| !self.operation.works_on());
        matched.map_err(|error| self.unanswered(&error))
    }

    fn first<'d>(self) -> Result<Value<'d>, Error> {
        let Some(found) = self.find_at(0)? else { return Ok(Value::NULL) };
        let before = self.text.get(..found.span.start).unwrap_or_default().chars().count();
        self.describe(&found, before)
    }

    /// All matches that do not overlap.
    fn all<'d>(self) -> Result<Value<'d>, Error> {
        let text = self.text;
        let mut matches = ArrayBuilder::new(self.operator, self.operation);
        let (mut start, mut before, mut counted) = (0, 0, 0);
        while let Some(found) = self.find_at(start)? {
            let span = found.span.clone();
            // Characters are counted on from the last match: counted from the start each time, many matches
            // in a long text would need time in the square of its length.
            before += text.get(counted..span.start).unwrap_or_default().chars().count();
            counted = span.start;
            matches.push(self.describe(&found, before)?.or_null())?;
            // After an empty match the search goes on one character further; it would find the same match for ever.
            let next = text.get(span.end..).and_then(|rest| rest.chars().next());
            start = if span.is_empty() { span.end + next.map_or(1, char::len_utf8) } else { span.end };
            if start >= text.len() {
                break;
            }
        }
        Ok(matches.finish())
    }

    fn find_at(self, start: usize) -> Result<Option<Found>, Error> {
        // Each search may read the text up to its end.
        self.operation.pass(self.text.len().saturating_sub(start))?;
        let found = self.pattern.find_at(self.text, start, &|| !self.operation.works_on());
        found.map_err(|error| self.unanswered(&error))
    }

    fn unanswered(self, error: &MatchError) -> Error {
        // A search that was stopped looks like one that reached a limit; the operation knows which it was.
        if let Err(reason) = self.operation.verdict() {
            return reason.into();
        }
        let fault = Fault::PatternFailed { pattern: shorten(self.pattern.text()), reason: error.to_string() };
        Error::Argument { operator: self.operator, fault, code: Code::PATTERN_FAILED }
    }

    /// A match as an object: the text, its position in characters, and the texts of its groups.
    fn describe<'d>(self, found: &Found, before: usize) -> Result<Value<'d>, Error> {
        let part = |span: &Range<usize>| RawBsonRef::String(self.text.get(span.clone()).unwrap_or_default());
        let groups = found.groups.iter().map(|group| group.as_ref().map_or(RawBsonRef::Null, part));
        let mut object = ObjectBuilder::new(self.operator, self.operation);
        object.append(cstr!("match"), &Value::Borrowed(part(&found.span)))?;
        object.append(cstr!("idx"), &Value::count(before))?;
        object.append(cstr!("captures"), &ArrayBuilder::collect(self.operator, self.operation, groups)?)?;
        Ok(object.finish())
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, RawBson, bson};

    use super::*;
    use crate::expression::cases::{check, check_error, document, regex};
    use crate::expression::{Expression, Variables};

    fn arguments(regex: impl Into<Bson>) -> Bson {
        bson!({ "input": "$text", "regex": (regex.into()) })
    }

    #[test]
    fn texts_match_or_not() {
        check(bson!({ "$regexMatch": (arguments("l+o$")) }), bson!(true));
        check(bson!({ "$regexMatch": (arguments(regex("^h", ""))) }), bson!(false));
        check(bson!({ "$regexMatch": (arguments(regex("^h", "i"))) }), bson!(true));
        check(bson!({ "$regexMatch": { "input": "$text", "regex": "^h", "options": "i" } }), bson!(true));
        check(bson!({ "$regexMatch": { "input": "$text", "regex": "$pattern" } }), bson!(true));
        check(bson!({ "$regexMatch": { "input": "$missing", "regex": "a" } }), bson!(false));
        check(bson!({ "$regexMatch": { "input": "a", "regex": null } }), bson!(false));
    }

    #[test]
    fn a_computed_pattern_is_compiled_once_for_all_documents() {
        let written =
            bson!({ "$regexFind": { "input": "$text", "regex": { "$concat": ["$pattern", ".+"] } } });
        let written = RawBson::try_from(written).unwrap();
        let variables = Variables::new(DateTime::from_millis(1_000));
        let expression = Expression::parse(written.as_raw_bson_ref(), &variables).unwrap();
        let Node::Regex(call) = &expression.root else { panic!("it is one call") };
        let Compiled::Varying(last) = &call.compiled else { panic!("the pattern is computed") };
        let compiled = || {
            expression.evaluate(&document(), &variables).unwrap();
            last.parse("^H.+", "", variables.room()).unwrap()
        };
        assert!(compiled().is_same(&compiled()));
    }

    #[test]
    fn the_first_match_is_described() {
        let expected = bson!({ "match": "llo", "idx": 2, "captures": ["ll", null] });
        check(bson!({ "$regexFind": (arguments("(l+)o|(x)")) }), expected);
        check(bson!({ "$regexFind": (arguments("x")) }), Bson::Null);
        check(bson!({ "$regexFind": { "input": "$missing", "regex": "x" } }), Bson::Null);
    }

    // A fixed text that `.*` follows is compared without PCRE2, and what `.*` matches was left out of the match.
    #[test]
    fn a_match_takes_the_rest_of_the_line() {
        let check_found = |input: &str, pattern: &str, options: &str, expected: &str| {
            let found = bson!({ "$regexFind": { "input": input, "regex": pattern, "options": options } });
            check(bson!({ "$getField": { "field": "match", "input": found } }), bson!(expected));
        };
        check_found("abcdef", "bc.*", "", "bcdef");
        check_found("abcdef\nghi", "bc.*", "", "bcdef");
        check_found("abcdef\nghi", "bc.*", "s", "bcdef\nghi");
        check_found("bcdef", "^bc.*", "", "bcdef");
        check_found("bcdef", "\\Abc.*", "", "bcdef");
        check_found("abc", "bc", "", "bc");
        let all = bson!({ "$regexFindAll": { "input": "ab1\nab2", "regex": "ab.*" } });
        check(bson!({ "$map": { "input": all, "in": "$$this.match" } }), bson!(["ab1", "ab2"]));
    }

    #[test]
    fn all_matches_are_described() {
        let one = |text: &str, at: i32| bson!({ "match": text, "idx": at, "captures": [] });
        check(bson!({ "$regexFindAll": (arguments("l")) }), bson!([(one("l", 2)), (one("l", 3))]));
        check(bson!({ "$regexFindAll": (arguments("x")) }), bson!([]));
        check(
            bson!({ "$regexFindAll": { "input": "éa", "regex": "" } }),
            bson!([(one("", 0)), (one("", 1))]),
        );
        check(bson!({ "$regexFindAll": { "input": "", "regex": "" } }), bson!([(one("", 0))]));
        check(bson!({ "$regexFindAll": { "input": null, "regex": "a" } }), bson!([]));
    }

    #[test]
    fn arguments_are_checked() {
        check_error(bson!({ "$regexMatch": "a" }), 51_103);
        check_error(bson!({ "$regexMatch": { "regex": "a" } }), 31_022);
        check_error(bson!({ "$regexMatch": { "input": "a" } }), 31_023);
        check_error(bson!({ "$regexMatch": { "input": "a", "regex": "a", "x": 1 } }), 31_024);
        check_error(bson!({ "$regexMatch": { "input": 1, "regex": "a" } }), 51_104);
        check_error(bson!({ "$regexMatch": { "input": "a", "regex": 1 } }), 51_105);
        check_error(bson!({ "$regexMatch": { "input": "a", "regex": "a", "options": 1 } }), 51_106);
        let twice = bson!({ "input": "a", "regex": (regex("a", "i")), "options": "i" });
        check_error(bson!({ "$regexMatch": twice }), 51_107);
        check_error(bson!({ "$regexMatch": { "input": "a", "regex": "a", "options": "q" } }), 51_108);
        check_error(bson!({ "$regexMatch": (arguments("a\0")) }), 51_109);
        check_error(bson!({ "$regexMatch": (arguments("(")) }), 51_111);
        check(bson!({ "$regexMatch": (arguments("(?=l)l")) }), bson!(true));
    }
}
