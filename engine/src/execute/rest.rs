//! What becomes of the current document when a walk rests.

/// What a resting walk does with its current document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is kept, for a stage of a pipeline that has not finished with it.
    Keep,
    /// It is released. The next step goes on behind it.
    Release,
    /// It is released. The next step reads it again.
    Repeat,
}
