//! The end of a statement that is typed line by line: not while a bracket, a string or a comment is open.

/// Whether more lines belong to the statement.
pub(crate) fn is_open(text: &str) -> bool {
    Statement::default().push(text)
}

/// The construct that is open at the end of an incomplete text, and its begin: line and column, from 1.
pub(crate) fn unclosed(text: &str) -> Option<(&'static str, usize, usize)> {
    let mut statement = Statement::default();
    statement.push(text);
    // The engine finds that mistake, and its place.
    if statement.is_broken {
        return None;
    }
    let Open { what, line, column } = *statement.open.last()?;
    let what = match what {
        '(' => "(",
        '[' => "[",
        '{' => "{",
        '$' => "${",
        '`' => "`",
        _ => "/*",
    };
    Some((what, line, column))
}

/// A statement, as far as it has come. Each line is looked at once.
#[derive(Default)]
pub(crate) struct Statement {
    /// The open constructs, the innermost last.
    open: Vec<Open>,
    /// The last character that is not space, by which a slash is distinguished from the begin of a regular expression.
    last: Option<char>,
    /// A text in quotes that goes on in the next line.
    quote: Option<char>,
    /// Whether there is another mistake: a bracket that was closed by one of another kind, or a text that its line leaves open.
    is_broken: bool,
    /// The number of lines before.
    lines: usize,
}

/// A bracket, a template (a backtick), a value within one (`$`) or a comment (`*`).
#[derive(Clone, Copy, Debug)]
struct Open {
    what: char,
    line: usize,
    column: usize,
}

impl Statement {
    /// Looks at what comes next. Returns whether more belongs to the statement.
    pub(crate) fn push(&mut self, text: &str) -> bool {
        let mut scan =
            Scan { rest: text.chars().collect(), at: 0, line: self.lines + 1, begin: 0, statement: self };
        let is_open = scan.run();
        self.lines += text.matches('\n').count();
        is_open
    }
}

struct Scan<'a> {
    rest: Vec<char>,
    at: usize,
    /// The current line, and where it begins.
    line: usize,
    begin: usize,
    statement: &'a mut Statement,
}

impl Scan<'_> {
    /// Whether something is open at the end.
    fn run(&mut self) -> bool {
        let is_on = match (self.statement.quote.take(), self.statement.open.last().map(|open| open.what)) {
            (Some(quote), _) => match self.quoted(quote) {
                Quoted::Whole => true,
                Quoted::Broken => return false,
                Quoted::GoesOn => return true,
            },
            (None, Some('`')) => self.template(),
            (None, Some('*')) => self.comment(),
            (None, Some(_) | None) => true,
        };
        if !is_on {
            return true;
        }
        while let Some(character) = self.next() {
            let is_whole = match character {
                '\'' | '"' => match self.quoted(character) {
                    Quoted::Whole => true,
                    // An error that the engine describes, and more lines do not mend it.
                    Quoted::Broken => {
                        self.statement.is_broken = true;
                        return false;
                    }
                    Quoted::GoesOn => false,
                },
                '`' => {
                    self.open('`');
                    self.template()
                }
                '/' => self.slash(),
                '(' | '[' | '{' => {
                    self.open(character);
                    true
                }
                ')' | ']' => {
                    let begin = if character == ')' { '(' } else { '[' };
                    self.close(&[begin]);
                    true
                }
                '}' => match self.close(&['{', '$']) {
                    // The text of a template goes on after its value.
                    Some('$') => self.template(),
                    Some(_) | None => true,
                },
                _ => true,
            };
            if !is_whole {
                return true;
            }
            if !character.is_whitespace() {
                self.statement.last = Some(character);
            }
        }
        !self.statement.open.is_empty() || self.rest.last() == Some(&'\\')
    }

    fn close(&mut self, begins: &[char]) -> Option<char> {
        let open = self.statement.open.pop().map(|open| open.what);
        self.statement.is_broken |= open.is_none_or(|open| !begins.contains(&open));
        open
    }

    fn open(&mut self, what: char) {
        let column = self.at.saturating_sub(self.begin).max(1);
        self.statement.open.push(Open { what, line: self.line, column });
    }

    fn next(&mut self) -> Option<char> {
        let character = self.rest.get(self.at).copied();
        self.at += usize::from(character.is_some());
        if character == Some('\n') {
            self.line += 1;
            self.begin = self.at;
        }
        character
    }

    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    /// Goes to the end of a text, which is on one line unless a backslash ends that.
    fn quoted(&mut self, quote: char) -> Quoted {
        while let Some(character) = self.next() {
            match character {
                '\\' if self.next() == Some('\n') && self.peek().is_none() => {
                    self.statement.quote = Some(quote);
                    return Quoted::GoesOn;
                }
                // The character before it was passed over.
                '\\' => {}
                '\n' => return Quoted::Broken,
                _ if character == quote => return Quoted::Whole,
                _ => {}
            }
        }
        Quoted::Broken
    }

    /// Goes to the end of a template that is open, or to a value within it. Returns whether it was found.
    fn template(&mut self) -> bool {
        while let Some(character) = self.next() {
            match character {
                '\\' => drop(self.next()),
                '`' => {
                    self.statement.open.pop();
                    return true;
                }
                '$' if self.peek() == Some('{') => {
                    self.next();
                    self.open('$');
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Goes to the end of a comment that is open. Returns whether there is one.
    fn comment(&mut self) -> bool {
        let mut before = ' ';
        while let Some(character) = self.next() {
            if before == '*' && character == '/' {
                self.statement.open.pop();
                return true;
            }
            before = character;
        }
        false
    }

    /// A comment, a regular expression, or a division. Returns whether it is whole.
    fn slash(&mut self) -> bool {
        match self.peek() {
            Some('/') => {
                while self.peek().is_some_and(|character| character != '\n') {
                    self.next();
                }
                true
            }
            Some('*') => {
                self.next();
                self.open('*');
                self.comment()
            }
            // After a value it divides.
            _ if self
                .statement
                .last
                .is_some_and(|last| last.is_alphanumeric() || "_$)]}'\"`".contains(last)) =>
            {
                true
            }
            _ => {
                self.pattern();
                true
            }
        }
    }

    /// Goes to the end of a regular expression, which is on one line.
    fn pattern(&mut self) {
        let mut is_in_class = false;
        while let Some(character) = self.next() {
            match character {
                '\\' => drop(self.next()),
                '[' => is_in_class = true,
                ']' => is_in_class = false,
                '/' if !is_in_class => return,
                '\n' => break,
                _ => {}
            }
        }
        self.statement.is_broken = true;
    }
}

/// The result of reading a string in quotes.
enum Quoted {
    Whole,
    /// Its line leaves it open.
    Broken,
    /// A backslash at the end of the line continues it.
    GoesOn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(is_open(text), expected, "{text}");
    }

    #[test]
    fn brackets_and_comments_are_open_until_they_are_closed() {
        check("", false);
        check("db.a.find()", false);
        check("db.a.find({", true);
        check("db.a.find({\n})", false);
        check("function f() {\n  return [1,", true);
        check("f() /* a ( ", true);
        check("f() /* a ( */", false);
        check("f() // a (", false);
        check("f())", false);
    }

    #[test]
    fn brackets_in_texts_and_patterns_count_for_nothing() {
        check("f('(')", false);
        check("f(\"\\\"(\")", false);
        check("f('(", false);
        check("f(`(`)", false);
        check("f(`(", true);
        check("f(`${[1, {a: `x`}]} (`)", false);
        check("f(`${[1", true);
        check("f(/[(/]/)", false);
        check("f({a: /\\(/i})", false);
        check("a = b / (c", true);
        check("a = (b) / 2 / (c)", false);
    }

    /// Line by line the end is where it is in the text as a whole.
    #[test]
    fn lines_are_looked_at_one_by_one() {
        let text = "f(`a\n${[1,\n`x\n`]} (\n`, /* (\n` */ {a: 'b\\\nc('\n}, /[(/]/\n)\n";
        let mut statement = Statement::default();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (at, line) in lines.iter().enumerate() {
            assert_eq!(statement.push(line), at + 1 < lines.len(), "{line}");
        }
    }

    #[test]
    fn what_is_unclosed_has_its_place() {
        assert_eq!(unclosed("db.a.find({"), Some(("{", 1, 11)));
        assert_eq!(unclosed("f(\n [1, 2"), Some(("[", 2, 2)));
        assert_eq!(unclosed("f(`a${1} b"), Some(("`", 1, 3)));
        assert_eq!(unclosed("f() /* x"), Some(("/*", 1, 6)));
        assert_eq!(unclosed("f())"), None);
        assert_eq!(unclosed("f([1)"), None);
        assert_eq!(unclosed("f('x"), None);
    }
}
