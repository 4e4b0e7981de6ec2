//! A replacement for the rules of languages in a build without them: it rejects every language by name.

use std::cmp::Ordering;
use std::convert::Infallible;

use bson::RawDocumentBuf;

use crate::collation::error::Error;
use crate::collation::parse::Wanted;

/// The rules of a language, of which there are none.
#[derive(Debug)]
pub(super) struct Rules(Infallible);

impl Rules {
    /// Rejects the language.
    pub(super) fn load(wanted: &Wanted) -> Result<(Self, RawDocumentBuf), Error> {
        let what = format!("locale '{}'", wanted.name);
        Err(Error::Unsupported { what, reason: ", only 'simple' is: this build has no rules of languages" })
    }

    pub(super) fn compare(&self, _left: &str, _right: &str) -> Ordering {
        match self.0 {}
    }

    pub(super) fn key_text(&self, _text: &str) -> String {
        match self.0 {}
    }
}
