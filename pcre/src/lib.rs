//! A part of `cairndb`, without a stable API of its own: regular expressions by PCRE2, the
//! library that MongoDB matches them with, behind a safe interface.
//!
//! A [`Program`](program::Program) is a compiled pattern. PCRE2's interpreter matches it, never machine code
//! made at run time: only the interpreter obeys limits of steps and memory and can be stopped between two
//! steps. This crate knows neither BSON nor the letters of options, nor what a database does with a match.
//!
//! The invariant: no pattern and no text, however malicious, makes a function of this crate run past its
//! limits, use memory without bound, or touch memory that is not its own.

// Denied, not forbidden: a C library has no safe interface. All unsafe code is in `library`.
#![deny(unsafe_code)]

pub mod error;
mod library;
pub mod program;
pub mod version;
