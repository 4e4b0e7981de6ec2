//! Which PCRE2 is linked, and whether it is new enough: a build takes the system's where nothing says otherwise, and older ones
//! match some patterns differently.

use std::sync::OnceLock;

use crate::error::CompileError;
use crate::library;

/// The oldest version that the tests of patterns pass with: the one within `pcre2-sys`.
const OLDEST: (u32, u32) = (10, 46);

/// The version of the linked PCRE2, such as `10.46`.
pub fn linked() -> &'static str {
    static LINKED: OnceLock<String> = OnceLock::new();
    // The date of the release follows after a space.
    LINKED.get_or_init(|| library::version().split(' ').next().unwrap_or_default().to_owned())
}

/// Fails if the linked PCRE2 is older than the oldest that is tested.
pub(crate) fn check() -> Result<(), CompileError> {
    static PROBLEM: OnceLock<Option<CompileError>> = OnceLock::new();
    PROBLEM.get_or_init(|| problem(linked())).clone().map_or(Ok(()), Err)
}

fn problem(version: &str) -> Option<CompileError> {
    // What follows the digits is the mark of a version before its release.
    let number = |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u32>().ok();
    let found = version.split_once('.').and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
    if found.is_some_and(|found| found >= OLDEST) {
        return None;
    }
    let (major, minor) = OLDEST;
    let reason = format!(
        "this program is linked with PCRE2 {version}, and patterns need {major}.{minor} or newer: build it with \
         PCRE2_SYS_STATIC=1, which links the PCRE2 that comes with its sources"
    );
    Some(CompileError { number: 0, reason, offset: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_library_is_refused_by_both_versions_and_the_setting() {
        for old in ["10.42", "10.45", "9.99", "8.45", "10", "ten.46", ""] {
            let refused = problem(old).expect("refused").to_string();
            assert_eq!(
                refused,
                format!(
                    "this program is linked with PCRE2 {old}, and patterns need 10.46 or newer: build it with \
                     PCRE2_SYS_STATIC=1, which links the PCRE2 that comes with its sources"
                )
            );
        }
        for new in ["10.46", "10.47", "10.47-DEV", "10.100", "11.0"] {
            assert_eq!(problem(new), None, "{new}");
        }
    }

    #[test]
    fn the_linked_library_is_one_that_is_tested() {
        assert_eq!(check(), Ok(()));
        assert!(linked().starts_with("10."), "{}", linked());
    }
}
