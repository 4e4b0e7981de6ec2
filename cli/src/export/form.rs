//! The formats of an export, over one trait: what is before, between and after documents.

use cairndb::bson::{RawBsonRef, RawDocument};

use crate::extended_json::{Layout, is_wrapper, lay_out_document};
use crate::failure::Failure;

/// A way to write documents.
pub(crate) trait Form {
    fn begin(&mut self, out: &mut Vec<u8>);
    /// Appends a document. Returns what of it the format cannot carry.
    fn write(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure>;
    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Failure>;
}

/// Extended JSON, a document on each line, or indented.
pub(crate) struct Lines {
    pub(crate) layout: Layout,
}

impl Form for Lines {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn write(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        lay_out_document(out, document, self.layout)?;
        out.push(b'\n');
        Ok(wrapper_in(document))
    }

    fn end(&mut self, _: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }
}

/// One array of Extended JSON.
pub(crate) struct OneArray {
    pub(crate) layout: Layout,
    pub(crate) is_first: bool,
}

impl Form for OneArray {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.push(b'[');
    }

    fn write(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        out.extend_from_slice(if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" });
        if self.layout.indent.is_some() {
            out.extend_from_slice(b"  ");
        }
        lay_out_document(out, document, self.layout)?;
        Ok(wrapper_in(document))
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        out.extend_from_slice(b"\n]\n");
        Ok(())
    }
}

/// BSON, as it is stored.
pub(crate) struct Stored;

impl Form for Stored {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn write(&mut self, out: &mut Vec<u8>, document: &RawDocument) -> Result<Option<String>, Failure> {
        out.extend_from_slice(document.as_bytes());
        Ok(None)
    }

    fn end(&mut self, _: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }
}

/// The first field whose name a reader of Extended JSON mistakes for a type. Documents were written before, so that
/// they are well-formed and not too deep.
fn wrapper_in(document: &RawDocument) -> Option<String> {
    document.iter().flatten().find_map(|(name, value)| {
        if is_wrapper(name.as_str()) {
            return Some(format!("the field {:?} reads as a type of Extended JSON", name.as_str()));
        }
        wrapper_below(value)
    })
}

fn wrapper_below(value: RawBsonRef<'_>) -> Option<String> {
    if let Some(array) = value.as_array() {
        return array.into_iter().flatten().find_map(wrapper_below);
    }
    let scope = || value.as_javascript_with_scope().map(|code| code.scope);
    wrapper_in(value.as_document().or_else(scope)?)
}
