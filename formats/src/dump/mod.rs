//! Dumps in the form of mongodump: directories of BSON files with a description beside each, and archives in one
//! stream.
//!
//! What of CairnDB mongorestore does not know is in fields named `cairndb`, where mongorestore does not look, and
//! never in the options of a collection, which it would send to the server.
//!
//! Here are bytes alone. Which collections there are, and where the files go, is the caller's.
//!
//! - [`names`]: what the files are called.
//! - [`known`]: the names that there are in descriptions.
//! - [`metadata`]: the description of a collection.
//! - [`prelude`]: what a dump says of itself.
//! - [`stream`]: documents one after the other.
//! - [`archive`]: writing an archive.
//! - [`reader`]: reading one.

pub mod archive;
pub mod known;
pub mod metadata;
pub mod names;
pub mod prelude;
pub mod reader;
pub mod stream;
