//! Processes that are killed and disks that fail: no acknowledged write is lost, and nothing half done is left.

mod crash;
#[cfg(target_os = "linux")]
mod power;
