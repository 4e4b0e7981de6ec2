//! The common knowledge of `cairn dump` and `cairn restore` about a dump: its place, and its content.

use std::path::Path;

use crate::failure::Failure;

/// The place of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpPlace<'a> {
    Directory(&'a Path),
    Archive(&'a Path),
    /// An archive on standard output, or from standard input.
    Standard,
}

impl<'a> DumpPlace<'a> {
    /// The place that the command line names.
    pub(crate) fn of(directory: Option<&'a Path>, archive: Option<&'a Path>) -> Result<Self, Failure> {
        match (directory, archive) {
            (_, Some(archive)) if archive == Path::new("-") => Ok(Self::Standard),
            (_, Some(archive)) => Ok(Self::Archive(archive)),
            (Some(directory), None) => Ok(Self::Directory(directory)),
            (None, None) => Err(Failure::usage("give a directory, or --archive")),
        }
    }
}

/// The kind of an object in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpedKind {
    Collection,
    View,
    /// The users of a folder, which are not a collection that a command can reach.
    Users,
}
