//! Numbers that go on unchanged when a program moves from CairnDB to a MongoDB cluster.
//!
//! CairnDB has sequences and auto-increment fields; MongoDB has neither. `cairn migrate` makes each sequence a
//! document of a collection of counters, and this crate draws numbers from both by the same calls: [`Numbers`] for
//! databases, [`Numbered`] for collections. A program names the crate that it calls `store` by a Cargo feature, and its code
//! is the same:
//!
//! ```
//! # #[cfg(feature = "cairndb")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cairndb_counters::{Numbered, Numbers};
//! # use cairndb as store;
//! # use cairndb::bson::{Document, doc};
//! # let folder = tempfile::tempdir()?;
//! # let client = store::Client::open(folder.path().join("db"))?;
//! # let db = client.database("shop");
//! # db.create_sequence("tickets").run()?;
//! # db.create_collection("orders").auto_increment(cairndb::AutoIncrement::builder().field("number").build()).run()?;
//! // With `use cairndb as store;`, or with `use cairndb_counters::cluster as store;`
//! let orders = db.collection::<Document>("orders");
//! let inserted = orders.insert_one_numbered(doc! { "total": 20 })?;
//! assert_eq!(inserted.generated.get("number"), Some(&1));
//! assert_eq!(db.next_value("tickets")?, 1);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "cairndb"))]
//! # fn main() {}
//! ```
//!
//! | contract | in a store of CairnDB | in a cluster |
//! |---|---|---|
//! | fast | blocks of the engine | blocks by one `findAndModify`, held by a `cluster::Client`; a process that dies loses its values |
//! | gapless | the mark is written with the document | counter and documents in one transaction: one writer at a time, and several round trips |
//! | ordered | writers take turns | rejected: follow the cluster's change streams instead |
//!
//! It is not a way to make counters: `cairn migrate` does that, and a counter that is not there is an error.
//!
//! A recipe: [moving to a cluster](https://github.com/cairndb/cairndb/blob/main/docs/guide/data.md#moving-to-a-cluster).
#![forbid(unsafe_code)]

#[cfg(feature = "mongodb")]
pub mod cluster;
#[cfg(feature = "cairndb")]
mod embedded;
pub mod error;
mod numbers;
mod results;
#[cfg(feature = "mongodb")]
mod taken;

pub use crate::error::{Error, ErrorKind, Result};
pub use crate::numbers::{Numbered, Numbers};
pub use crate::results::{Generated, InsertedMany, InsertedOne};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
