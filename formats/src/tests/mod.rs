//! Files of every format through the whole crate: any bytes, rows of any length, columns as a whole.

mod any_bytes;
mod rows;
mod survey;
