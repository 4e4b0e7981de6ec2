//! Sequences and ids through the public API.

mod fork;
mod sequences;
