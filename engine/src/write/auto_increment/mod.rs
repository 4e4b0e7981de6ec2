//! Auto-increment fields during an insert: the step that completes documents by the values that they lack.
//!
//! The rules are SequoiaDB's. All documents of a call are completed before one is stored; what a field's mode rejects
//! rejects the call. Values that were acquired stay used when the insert fails, but those of gapless sequences, which
//! are written with their documents or not at all.
//!
//! The line of an insert calls this folder, and this folder never calls back: it hands out completed drafts, and is
//! informed of what became of them.

mod copies;
mod gapless;
mod hold;
pub(crate) mod holds;
pub(crate) mod many_documents;
pub(crate) mod one_document;
pub(crate) mod stored_values;
