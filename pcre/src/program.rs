//! A compiled pattern, and searching with it within limits.
//!
//! A search is watched: PCRE2 calls back before every item of the pattern. Each call back adds the distance
//! that the matcher has moved in the text, and from time to time it asks the caller whether to stop. A
//! pattern that grows too large with call backs is compiled without them, if the limit of steps alone bounds
//! the time of a match from one start. It is then searched for a few starts at a time.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pcre2_sys as c;

use crate::error::{CompileError, MatchError};
use crate::library::{Answer, Code, Request, Watched};
use crate::version;

/// The options of a pattern; groups within it can change them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the independent letters i, m, s and x")]
pub struct Options {
    /// `i`: letters match in either case.
    pub ignores_case: bool,
    /// `m`: `^` and `$` match at every line's start and end.
    pub is_multi_line: bool,
    /// `s`: a dot matches a newline, too.
    pub dot_matches_all: bool,
    /// `x`: white space and comments in the pattern are left out.
    pub ignores_space: bool,
}

/// A compiled pattern. Cheap to clone; threads may share it.
///
/// ```
/// use cairndb_pcre::program::{Options, Program};
///
/// let password = Program::compile(r"^(?=.*[A-Z])(?=.*\d).{8,}$", Options::default())?;
/// assert_eq!(password.is_match("correctHorse7", &|| false), Ok(true));
/// assert_eq!(password.is_match("battery", &|| false), Ok(false));
/// # Ok::<(), cairndb_pcre::error::CompileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    code: Arc<Code>,
    watched: Watched,
}

/// The place in a text that a pattern matched, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The whole match.
    pub span: Range<usize>,
    /// The matches of the capturing groups that took part.
    pub groups: Vec<Option<Range<usize>>>,
}

/// The number of steps that a search may take, apart from those for the length of the text.
const STEPS_MAX: u64 = 10_000_000;
/// The number of further steps for each byte of the text.
const STEPS_PER_BYTE: u64 = 64;
/// The number of steps after which the caller is asked whether to stop.
const STEPS_BETWEEN_QUESTIONS: u64 = 4096;
/// In texts longer than this a step counts more, because one step can read the whole text. In bytes.
const BYTES_OF_A_STEP: usize = 64 << 10;
/// The limit of a match's memory, in KiB.
const KIB_MAX: u32 = 64 << 10;
/// The number of starts that one call of the matcher tries, for patterns without callbacks.
const STARTS_AT_ONCE: usize = 256;
/// PCRE2's error for a hyphen next to a set.
const BAD_RANGE: i32 = c::PCRE2_ERROR_CLASS_INVALID_RANGE.cast_signed();
/// The limit of such hyphens in a pattern.
const HYPHENS_MAX: usize = 32;
/// PCRE2's error for a pattern that grows too large when it is compiled.
const TOO_LARGE: i32 = c::PCRE2_ERROR_PATTERN_TOO_LARGE.cast_signed();

impl Program {
    /// Compiles a pattern. A hyphen next to a set, as in `[\w-.]`, is a plain hyphen, as in Perl and in
    /// MongoDB up to 6.0, although PCRE2 rejects it.
    ///
    /// # Errors
    /// [`CompileError`] if PCRE2 rejects the pattern, or is older than the oldest that is tested.
    pub fn compile(pattern: &str, options: Options) -> Result<Self, CompileError> {
        version::check()?;
        let mut pattern = Cow::Borrowed(pattern);
        let mut escaped = 0;
        // PCRE2 reports one hyphen at a time, so the pattern is compiled again after each is escaped. The
        // bound keeps a long pattern of hyphens from being compiled thousands of times.
        loop {
            match Self::compile_exactly(&pattern, options) {
                Err(error) if error.number == BAD_RANGE && escaped < HYPHENS_MAX => {
                    let hyphen = error.offset.and_then(|offset| hyphen_beside_set(&pattern, offset));
                    let Some(hyphen) = hyphen else { return Err(error) };
                    pattern.to_mut().insert(hyphen, '\\');
                    escaped += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn compile_exactly(pattern: &str, options: Options) -> Result<Self, CompileError> {
        let flags = flags(options);
        let watched = match Code::compile(pattern, flags, Watched::Always) {
            Ok(code) => return Ok(Self { code: Arc::new(code), watched: Watched::Always }),
            Err(error) if error.number == TOO_LARGE && is_counted(pattern) => Watched::BetweenStarts,
            Err(error) => return Err(error),
        };
        let code = Code::compile(pattern, flags, watched)?;
        if code.highest_reference() > 0 {
            // A back reference compares the whole text of a group in one step, so the steps do not bound the
            // time.
            return Err(Code::refusal(TOO_LARGE, pattern.len()));
        }
        Ok(Self { code: Arc::new(code), watched })
    }

    /// The approximate memory of the program in bytes.
    pub fn bytes(&self) -> usize {
        self.code.bytes() + size_of::<Code>()
    }

    /// Whether the pattern matches somewhere in a text. `is_over` is asked from time to time; `true` stops
    /// the search.
    ///
    /// # Errors
    /// If the search went beyond a limit or was stopped.
    pub fn is_match(&self, text: &str, is_over: &dyn Fn() -> bool) -> Result<bool, MatchError> {
        self.search(text, 0, is_over, |_| ()).map(|found| found.is_some())
    }

    /// The first match that starts at the byte `start` or later, which must lie between two characters.
    ///
    /// # Errors
    /// If the search went beyond a limit or was stopped.
    pub fn find_at(
        &self,
        text: &str,
        start: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Found>, MatchError> {
        let groups = self.code.groups() as usize;
        self.search(text, start, is_over, |positions| {
            // `\K` can move the start of a match past its end.
            let span = |pair: &[usize]| match *pair {
                [first, last] if first != c::PCRE2_UNSET => Some(first.min(last)..last),
                _ => None,
            };
            let mut pairs = positions.chunks_exact(2).map(span);
            let whole = pairs.next().flatten().unwrap_or_default();
            Found { span: whole, groups: pairs.take(groups).collect() }
        })
    }

    fn search<R>(
        &self,
        text: &str,
        start: usize,
        is_over: &dyn Fn() -> bool,
        read: impl Fn(&[usize]) -> R,
    ) -> Result<Option<R>, MatchError> {
        let mut steps = Steps::new(text, start, is_over);
        let answer = match self.watched {
            Watched::Always => {
                let request = Request {
                    text,
                    start,
                    last_start: c::PCRE2_UNSET,
                    steps_max: u32::MAX,
                    kib_max: KIB_MAX,
                };
                self.code.search(&request, &mut |position| steps.count(position), read)
            }
            Watched::BetweenStarts => return self.search_starts(text, start, &mut steps, &read),
        };
        steps.outcome(answer)
    }

    /// Searches for a few starts at a time, and asks the caller in between whether to stop.
    fn search_starts<R>(
        &self,
        text: &str,
        start: usize,
        steps: &mut Steps<'_>,
        read: &impl Fn(&[usize]) -> R,
    ) -> Result<Option<R>, MatchError> {
        let mut start = start;
        loop {
            if (steps.is_over)() {
                return Err(MatchError::Stopped);
            }
            let last_start = boundary(text, start.saturating_add(STARTS_AT_ONCE));
            let steps_max = u32::try_from(STEPS_MAX).unwrap_or(u32::MAX);
            let request = Request { text, start, last_start, steps_max, kib_max: KIB_MAX };
            let answer = self.code.search(&request, &mut |_| false, read);
            // Each call has the full limit of steps for its starts, so the time between two questions is
            // bounded.
            let is_end = last_start >= text.len();
            if is_end || !matches!(answer, Err(Answer::NoMatch)) {
                return steps.outcome(answer);
            }
            start = boundary(text, last_start + 1);
        }
    }
}

/// The first boundary between two characters at or after a byte.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// The steps of a watched search so far.
struct Steps<'s> {
    is_over: &'s dyn Fn() -> bool,
    /// The count of one step.
    weight: u64,
    position: usize,
    taken: u64,
    limit: u64,
    next_question: u64,
    /// Whether the search ended because of the limit.
    is_exceeded: bool,
}

impl<'s> Steps<'s> {
    fn new(text: &str, start: usize, is_over: &'s dyn Fn() -> bool) -> Self {
        let length = text.len() as u64;
        Self {
            is_over,
            weight: 1 + (text.len() / BYTES_OF_A_STEP) as u64,
            position: start,
            taken: 0,
            limit: STEPS_MAX.saturating_add(length.saturating_mul(STEPS_PER_BYTE)),
            next_question: STEPS_BETWEEN_QUESTIONS,
            is_exceeded: false,
        }
    }

    /// Counts a step and the distance moved in the text since the last one. Returns whether the search must
    /// end.
    fn count(&mut self, position: usize) -> bool {
        // Between two call backs the matcher may read far, as in `.*`: the distance makes that visible.
        let distance = self.position.abs_diff(position) as u64;
        self.position = position;
        self.taken = self.taken.saturating_add(self.weight).saturating_add(distance);
        if self.taken < self.next_question {
            return false;
        }
        self.next_question = self.taken.saturating_add(STEPS_BETWEEN_QUESTIONS);
        self.is_exceeded = self.taken > self.limit;
        self.is_exceeded || (self.is_over)()
    }

    fn outcome<R>(&self, answer: Result<R, Answer>) -> Result<Option<R>, MatchError> {
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(Answer::NoMatch) => Ok(None),
            Err(Answer::StepsExceeded) => Err(MatchError::Steps { limit: STEPS_MAX }),
            Err(Answer::Stopped) if self.is_exceeded => Err(MatchError::Steps { limit: self.limit }),
            Err(Answer::Stopped) => Err(MatchError::Stopped),
            Err(Answer::MemoryExceeded) => Err(MatchError::Memory { limit: KIB_MAX }),
            Err(Answer::Failed(reason)) => Err(MatchError::Library { reason }),
        }
    }
}

fn flags(options: Options) -> u32 {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    flag(options.ignores_case, c::PCRE2_CASELESS)
        | flag(options.is_multi_line, c::PCRE2_MULTILINE)
        | flag(options.dot_matches_all, c::PCRE2_DOTALL)
        | flag(options.ignores_space, c::PCRE2_EXTENDED)
}

/// The position of the hyphen that PCRE2 rejected: directly before the offset of the error, or before the set
/// that ends there.
fn hyphen_beside_set(pattern: &str, offset: usize) -> Option<usize> {
    let read = pattern.as_bytes().get(..offset)?;
    let hyphen = match read {
        [.., b'-'] => offset - 1,
        [.., b'-', b'\\', _] => offset - 3,
        _ => return None,
    };
    pattern.is_char_boundary(hyphen).then_some(hyphen)
}

/// Whether the matcher's own count of steps bounds the time from one start. Atomic groups, lookaround and
/// possessive repetitions can read far without being counted, and `\G` depends on where a search began. Only
/// the text of the pattern is tested, so some harmless patterns are rejected.
fn is_counted(pattern: &str) -> bool {
    let has_special_group = pattern.match_indices('(').any(|(at, _)| {
        let rest = pattern.get(at + 1..).unwrap_or_default();
        rest.starts_with('*') || rest.starts_with('?') && !rest.starts_with("?:")
    });
    let is_possessive = ["*+", "++", "?+", "}+", "\\G"].iter().any(|part| pattern.contains(part));
    !has_special_group && !is_possessive
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const NEVER: &dyn Fn() -> bool = &|| false;

    fn compile(pattern: &str) -> Program {
        Program::compile(pattern, Options::default()).unwrap()
    }

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: &[&str]) {
        let found = compile(pattern).find_at(text, 0, NEVER).unwrap();
        let shown = found.map(|found| {
            let groups = found.groups.into_iter().map(|group| group.map_or("-", |group| &text[group]));
            std::iter::once(&text[found.span]).chain(groups).collect::<Vec<_>>()
        });
        assert_eq!(shown.unwrap_or_default(), expected, "{pattern:?} in {text:?}");
    }

    #[track_caller]
    fn check_error(pattern: &str, reason: &str, offset: usize) {
        let error = Program::compile(pattern, Options::default()).unwrap_err();
        assert_eq!((error.reason.as_str(), error.offset), (reason, Some(offset)));
    }

    #[test]
    fn matches_and_groups_are_found() {
        check("b(.)", "abcabd", &["bc", "c"]);
        check("(a)|(b)", "b", &["b", "-", "b"]);
        check("x", "abc", &[]);
        check("", "", &[""]);
        check("(?<n>a)+", "aa", &["aa", "a"]);
        check("é(.)", "eéß", &["éß", "ß"]);
        let many = "(.)".repeat(40);
        assert_eq!(compile(&many).find_at(&"x".repeat(40), 0, NEVER).unwrap().unwrap().groups.len(), 40);
    }

    #[test]
    fn a_start_is_moved_behind_the_end_by_no_pattern() {
        check(r"ab\Kc", "abc", &["c"]);
        check(r"(a\K)", "a", &["", "a"]);
    }

    #[test]
    fn what_pcre_refuses_is_told_in_its_words() {
        check_error("(", "missing closing parenthesis", 1);
        check_error("a**", "quantifier does not follow a repeatable item", 2);
        check_error("[b-a]", "range out of order in character class", 3);
        check_error(r"a\C", "using \\C is disabled by the application", 3);
        check_error(&"(".repeat(300), "parentheses are too deeply nested", 251);
    }

    #[test]
    fn one_search_serves_the_next() {
        let text = "a".repeat(3000);
        for _ in 0..3 {
            check("(?:a|b)*c", &text, &[]);
            check("^(a)", "abc", &["a", "a"]);
        }
    }

    #[test]
    fn a_search_that_explodes_ends_at_the_limit_of_steps() {
        let text = format!("{}b", "a".repeat(40));
        let found = compile("^(a+)+c?$").is_match(&text, NEVER);
        assert_eq!(found, Err(MatchError::Steps { limit: STEPS_MAX + 41 * STEPS_PER_BYTE }));
    }

    #[test]
    fn a_search_that_remembers_too_much_ends_at_the_limit_of_memory() {
        let found = compile("^(?:(a)|b)*c").is_match(&format!("{}c", "a".repeat(3_000_000)), NEVER);
        assert_eq!(found, Err(MatchError::Memory { limit: KIB_MAX }));
    }

    /// Such a pattern takes one step to read the rest of the text, so a limit of steps alone would not bound
    /// its time.
    #[test]
    fn a_step_that_reads_far_counts_as_far() {
        let questions = Cell::new(0);
        let text = "a".repeat(10_000);
        let ask = || {
            questions.set(questions.get() + 1);
            questions.get() > 50
        };
        assert_eq!(compile("a.*?a.*+[yz]?+(?!)").is_match(&text, &ask), Err(MatchError::Stopped));
        assert_eq!(questions.get(), 51);
    }

    #[test]
    fn a_caller_stops_a_search() {
        let text = format!("{}b", "a".repeat(40));
        assert_eq!(compile("^(a+)+c?$").is_match(&text, &|| true), Err(MatchError::Stopped));
    }

    #[test]
    fn a_pattern_too_large_to_be_watched_is_searched_for_few_starts_at_a_time() {
        let words = (0..4000).map(|number| format!("w{number:05}")).collect::<Vec<_>>().join("|");
        let program = compile(&format!("({words})$"));
        assert_eq!(program.watched, Watched::BetweenStarts);
        let text = format!("{}w03999", "é ".repeat(5000));
        let found = program.find_at(&text, 0, NEVER).unwrap().unwrap();
        assert_eq!(&text[found.span.clone()], "w03999");
        assert_eq!(found.groups, [Some(found.span)]);
        assert_eq!(program.is_match(&text[..text.len() - 1], NEVER), Ok(false));
        assert_eq!(program.is_match(&text, &|| true), Err(MatchError::Stopped));
    }

    #[test]
    fn a_pattern_too_large_to_be_watched_has_no_part_that_reads_uncounted() {
        let words = "wordy|".repeat(3000);
        for part in ["(?=a)", "a++", "(a)\\1", "(?>a)", "\\G", "(*atomic:a)"] {
            check_error(
                &format!("{words}{part}"),
                "regular expression is too large",
                words.len() + part.len(),
            );
        }
    }

    #[test]
    fn a_compiled_pattern_is_small() {
        assert!(compile(r"\p{L}{90}n").bytes() < 1024);
        assert!(compile("((a{100}){100}){6}").bytes() < 64 << 10);
    }

    #[test]
    fn threads_share_a_program() {
        let program = compile(r"(\w+)@(\w+)");
        let search = || {
            let answers = (0..200).map(|_| program.is_match("somebody@somewhere", NEVER));
            assert!(answers.into_iter().all(|answer| answer == Ok(true)));
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(search))));
    }
}
