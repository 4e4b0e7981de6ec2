//! The treatment of the current document when a walk is suspended.

/// The treatment of the current document by a suspended walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is kept, for a stage of a pipeline that has not finished with it.
    Keep,
    /// It is released. The next step goes on behind it.
    Release,
    /// It is released. The next step reads it again.
    Repeat,
}
