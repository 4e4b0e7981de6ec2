//! When a write counts as done, and what a runner's calls return.

use std::error::Error;

/// What a runner's calls return: any error ends the run with its message.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// When a call that writes may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After its commit was synced to stable storage.
    Synced,
    /// As soon as the store has it; nothing waits for the disk.
    Unsynced,
}

impl Durability {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        match name {
            "synced" => Ok(Self::Synced),
            "unsynced" => Ok(Self::Unsynced),
            other => Err(format!("durability '{other}' is neither synced nor unsynced").into()),
        }
    }
}
