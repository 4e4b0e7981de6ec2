//! The language of `query` and `shell`: JavaScript with mongosh's names, over a store. The Rust files are the engine and the
//! way of values in and out; the `.js` files are what a script finds.

mod answer;
mod engine;
mod evaluate;
mod native;
mod sessions;
mod shared;
pub(crate) mod statement;
mod to_bson;
mod to_script;

pub(crate) use self::engine::{Engine, Stopped, Target, memory, name_from_line, on_thread, uncaught, words};
pub(crate) use self::evaluate::read_script;
pub(crate) use self::shared::cairn;
pub(crate) use self::to_bson::{Purpose, document, text, value};
pub(crate) use self::to_script::{Numbers, Reader};
