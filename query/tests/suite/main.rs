//! The query languages through the public API, a module for each part.

mod filter;
mod operation;
mod pipeline;
mod projection;
mod sort;
mod spill;
mod update;
