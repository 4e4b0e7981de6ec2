//! Where a statement ends that is typed line by line: not while a bracket, a text or a comment is open.

/// Whether more lines belong to the statement.
pub(super) fn is_open(text: &str) -> bool {
    let mut scan = Scan { rest: text.chars().collect(), at: 0, brackets: Vec::new(), last: None };
    scan.run()
}

struct Scan {
    rest: Vec<char>,
    at: usize,
    /// Open brackets; `$` is one that a template has opened by `${`.
    brackets: Vec<char>,
    /// The last character that is no space, by which a slash is told from the begin of a regular expression.
    last: Option<char>,
}

impl Scan {
    /// Whether something is open at the end.
    fn run(&mut self) -> bool {
        while let Some(character) = self.next() {
            let is_whole = match character {
                '\'' | '"' => {
                    if !self.quoted(character) {
                        return false;
                    }
                    true
                }
                '`' => self.template(),
                '/' => self.slash(),
                '(' | '[' | '{' => {
                    self.brackets.push(character);
                    true
                }
                ')' | ']' => {
                    self.brackets.pop();
                    true
                }
                '}' => match self.brackets.pop() {
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
                self.last = Some(character);
            }
        }
        !self.brackets.is_empty() || self.rest.last() == Some(&'\\')
    }

    fn next(&mut self) -> Option<char> {
        let character = self.rest.get(self.at).copied();
        self.at += usize::from(character.is_some());
        character
    }

    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    /// Goes to the end of a text. Returns whether there is one: a text that its line leaves open is an error that the engine
    /// tells of, and more lines do not mend it.
    fn quoted(&mut self, quote: char) -> bool {
        while let Some(character) = self.next() {
            match character {
                '\\' => drop(self.next()),
                '\n' => return false,
                _ if character == quote => return true,
                _ => {}
            }
        }
        false
    }

    /// Goes to the end of a template, or to a value within it. Returns whether it was found.
    fn template(&mut self) -> bool {
        while let Some(character) = self.next() {
            match character {
                '\\' => drop(self.next()),
                '`' => return true,
                '$' if self.peek() == Some('{') => {
                    self.next();
                    self.brackets.push('$');
                    return true;
                }
                _ => {}
            }
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
                let mut before = ' ';
                while let Some(character) = self.next() {
                    if before == '*' && character == '/' {
                        return true;
                    }
                    before = character;
                }
                false
            }
            // After a value it divides.
            _ if self.last.is_some_and(|last| last.is_alphanumeric() || "_$)]}'\"`".contains(last)) => true,
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
                '\n' => return,
                _ => {}
            }
        }
    }
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
}
