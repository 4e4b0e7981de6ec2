//! What may occur a known number of times in each file: a table is a ceiling and a floor, so that what is gone makes no room for what
//! comes unseen.

use crate::tree::{File, Finding, Tree};

/// What is counted.
pub(crate) struct Counted {
    pub(crate) what: &'static str,
    /// The lines on which a file has it.
    pub(crate) places: fn(&File) -> Vec<usize>,
}

impl Counted {
    /// Files that have it more often, or less often, than a table says. One that is not in the table has none.
    pub(crate) fn against(&self, tree: &Tree, allowed: &[(&str, usize)]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for file in tree.rust() {
            let limit = allowed.iter().find(|(path, _)| *path == file.path).map_or(0, |(_, limit)| *limit);
            let (lines, what) = ((self.places)(file), self.what);
            findings.extend(
                lines.iter().skip(limit).map(|line| file.finding(*line, format!("more than {limit} {what}"))),
            );
            if lines.len() < limit {
                let found = lines.len();
                findings.push(file.finding(0, format!("{found} {what}, so lower the limit of {limit}")));
            }
        }
        for (path, _) in allowed.iter().filter(|(path, _)| !tree.has(path)) {
            findings.push(Finding { path: (*path).to_owned(), line: 0, what: "is gone".to_owned() });
        }
        findings
    }
}
