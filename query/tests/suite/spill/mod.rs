//! Sorts, groups and joins beyond memory give what they give in memory, and leave no file.

mod files;
mod groups;
mod joins;
mod sorts;
