//! The time at which a write counts as done, and the result of a runner's calls.

use std::error::Error;

/// The result of a runner's calls: any error ends the run with its message.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The time at which a call that writes may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After its commit was synced to stable storage.
    Synced,
    /// Once the operating system has it: the death of the process loses nothing, a power failure may.
    Unsynced,
    /// As soon as the store has it in its own memory: the death of the process may lose it too.
    Delayed,
}

impl Durability {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        match name {
            "synced" => Ok(Self::Synced),
            "unsynced" => Ok(Self::Unsynced),
            "delayed" => Ok(Self::Delayed),
            other => Err(format!("durability '{other}' is neither synced, unsynced nor delayed").into()),
        }
    }
}
