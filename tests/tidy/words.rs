//! Words in comments that a colleague stumbles over: their number in 10,000 words, which `make house` prints.

use crate::tree::Tree;

/// Words that begin a comment without a name for its thing.
const STARTS: [&str; 8] = ["What", "How", "Why", "Who", "Whose", "Whom", "Where", "When"];
/// Words that have a plainer one, with the name of their figure.
const PRIVATE: [(&str, &[&str]); 4] = [
    ("tell, told", &["tell", "tells", "telling", "told"]),
    ("take, taken", &["take", "takes", "taking", "taken", "took"]),
    ("refuse", &["refuse", "refuses", "refused", "refusing", "refusal", "refusals"]),
    ("stands", &["stand", "stands", "standing", "stood"]),
];
/// Words before a "no" that is meant as "not a".
const BEINGS: [&str; 4] = ["is", "are", "was", "were"];

/// The occurrences in comments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Occurrences {
    words: usize,
    starts: usize,
    is_no: usize,
    private: [usize; PRIVATE.len()],
}

impl Occurrences {
    /// The figures with their names, each in 10,000 words.
    pub(crate) fn rates(&self) -> Vec<(&'static str, usize)> {
        let rate = |count: usize| count * 10_000 / self.words.max(1);
        let mut rates = vec![("What, How, … at the start", rate(self.starts)), ("is no …", rate(self.is_no))];
        rates.extend(PRIVATE.iter().zip(self.private).map(|((name, _), count)| (*name, rate(count))));
        rates
    }

    fn add_line(&mut self, comment: &str) {
        self.words += comment.split_whitespace().count();
        let mut is_after_being = false;
        for word in comment.split(|character: char| !character.is_alphanumeric()) {
            let word = word.to_lowercase();
            self.is_no += usize::from(is_after_being && word == "no");
            is_after_being = BEINGS.contains(&word.as_str());
            for (count, (_, words)) in self.private.iter_mut().zip(PRIVATE) {
                *count += usize::from(words.contains(&word.as_str()));
            }
        }
    }
}

/// Counts the comments of all files that have a line of their own, without the code of examples.
pub(crate) fn occurrences(tree: &Tree) -> Occurrences {
    let mut found = Occurrences::default();
    for file in tree.rust() {
        let (mut is_first, mut is_code) = (true, false);
        for line in file.text.lines() {
            let Some(comment) = comment_of(line) else {
                (is_first, is_code) = (true, false);
                continue;
            };
            let is_fence = comment.trim_start().starts_with("```");
            is_code ^= is_fence;
            if !is_fence && !is_code {
                let begins = comment.split_whitespace().next().is_some_and(|word| STARTS.contains(&word));
                found.starts += usize::from(is_first && begins);
                found.add_line(comment);
            }
            is_first = false;
        }
    }
    found
}

/// The text of a line that is a comment.
fn comment_of(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.strip_prefix(['/', '!']).unwrap_or(comment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn words_are_counted_in_comments_only() {
        let text = "/// What is told.\n/// How it stands.\n/// ```\n/// let taken = 1;\n/// ```\nfn told() {}\n    \
                    // This is no error.\n";
        let found = occurrences(&Tree::new(vec![File::new("engine/src/a.rs", text)]));
        let expected = Occurrences { words: 10, starts: 1, is_no: 1, private: [1, 0, 0, 1] };
        assert_eq!(found, expected);
        assert_eq!(found.rates().first(), Some(&("What, How, … at the start", 1_000)));
    }
}
