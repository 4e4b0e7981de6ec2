//! The list of disagreements. It is bounded, so that a thoroughly damaged database still gives a readable
//! report.

use std::fmt::Write;

use store::checksums::FileFlaw;

use crate::results::{Finding, VerifyReport};

/// The subject of a finding: a collection or a column family, and an index.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) index: Option<String>,
}

#[derive(Default)]
pub(super) struct Findings {
    listed: Vec<Finding>,
    omitted: u64,
}

impl Findings {
    pub(super) fn add(&mut self, place: String, index: Option<&str>, key: &[u8], problem: impl Into<String>) {
        if self.listed.len() >= VerifyReport::FINDINGS_MAX {
            // Counted, so that a report that is cut short says so.
            self.omitted += 1;
            return;
        }
        let (index, key, problem) = (index.map(str::to_owned), hexadecimal(key), problem.into());
        self.listed.push(Finding { place, index, key, problem, file: None, offset: None });
    }

    /// Adds a finding of a file. It has the place and the key that depend on the damaged bytes.
    pub(super) fn add_of_file(&mut self, place: Place, key: &[u8], flaw: &FileFlaw, problem: String) {
        if self.listed.len() >= VerifyReport::FINDINGS_MAX {
            self.omitted += 1;
            return;
        }
        let Place { name: place, index } = place;
        let (file, offset, key) = (Some(flaw.path.clone()), Some(flaw.offset), hexadecimal(key));
        self.listed.push(Finding { place, index, key, problem, file, offset });
    }

    /// The findings of a report, to which others are added.
    pub(super) fn resume(report: &mut VerifyReport) -> Self {
        Self { listed: std::mem::take(&mut report.findings), omitted: report.findings_omitted }
    }

    pub(super) fn report_into(self, report: &mut VerifyReport) {
        report.findings = self.listed;
        report.findings_omitted = self.omitted;
    }
}

/// Keys are not text, and a damaged one may be anything.
fn hexadecimal(key: &[u8]) -> String {
    key.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
