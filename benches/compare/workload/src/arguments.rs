//! A runner's command line, word by word.

use std::path::PathBuf;

use crate::durability::{Durability, Result};

/// `FOLDER DURABILITY`, with which every command line begins.
pub(crate) fn place(arguments: &mut impl Iterator<Item = String>) -> Result<(PathBuf, Durability)> {
    let folder = next("FOLDER", arguments)?;
    Ok((PathBuf::from(folder), Durability::parse(&next("DURABILITY", arguments)?)?))
}

/// The next word, which must be a number; `name` is what it is called.
pub(crate) fn number(name: &str, arguments: &mut impl Iterator<Item = String>) -> Result<u64> {
    let text = next(name, arguments)?;
    text.parse().map_err(|_| format!("{name} '{text}' is not a number").into())
}

fn next(name: &str, arguments: &mut impl Iterator<Item = String>) -> Result<String> {
    Ok(arguments.next().ok_or_else(|| format!("argument {name} is missing"))?)
}
