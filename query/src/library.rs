//! The library that matches patterns: which one is linked.

/// The version of the linked PCRE2, such as `10.46`.
///
/// ```
/// assert!(cairndb_query::library::pcre2_version().contains('.'));
/// ```
pub fn pcre2_version() -> &'static str {
    pcre::version::linked()
}
