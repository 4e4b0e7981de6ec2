//! The list of disagreements. It is bounded, so that a thoroughly damaged database still gives a readable
//! report.

use std::fmt::Write;

use crate::results::{Finding, VerifyReport};

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
        // In hexadecimal: keys are not text, and a damaged one may be anything.
        let key = key.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        self.listed.push(Finding { place, index: index.map(str::to_owned), key, problem: problem.into() });
    }

    pub(super) fn report_into(self, report: &mut VerifyReport) {
        report.findings = self.listed;
        report.findings_omitted = self.omitted;
    }
}
