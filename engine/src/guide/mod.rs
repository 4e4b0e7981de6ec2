//! The guide, page by page. It stands as Markdown in `docs/guide`; every Rust block of it is run as a test.
//!
//! | you want to | page |
//! |---|---|
//! | begin with nothing, from the command line | [`first_half_hour`] |
//! | open a store, close it, know who else may | [`opening`] |
//! | store structs and documents | [`documents`] |
//! | ask, change, aggregate | [`queries`] |
//! | change several documents as one | [`transactions`] |
//! | repeat a write whose answer was lost | [`exactly_once`] |
//! | learn what was changed, and miss nothing | [`change_streams`] |
//! | keep the result of a search up to date | [`live_queries`] |
//! | make a search fast | [`indexes`] |
//! | keep the newest documents, and follow them | [`capped`] |
//! | number documents | [`numbering`] |
//! | know what survives | [`durability`] |
//! | use threads, async, several processes | [`threads`] |
//! | run it in production | [`production`] |
//! | copy what others do | [`recipes`] |
//! | get data in, out, and elsewhere | [`data`] |
//! | know what an error means | [`errors`] |
//! | know the limits | [`limits`] |
//! | decide whether to use it | [`questions`] |
//! | see it beside other stores | [`comparison`] |
//! | come from MongoDB, SQLite or PoloDB | [`coming_from`] |

#[doc = include_str!("../../linked/guide/capped.md")]
pub mod capped {}
#[doc = include_str!("../../linked/guide/change_streams.md")]
pub mod change_streams {}
#[doc = include_str!("../../linked/guide/coming_from.md")]
pub mod coming_from {}
#[doc = include_str!("../../linked/guide/comparison.md")]
pub mod comparison {}
// Its examples need the server, whose crate runs them.
#[cfg_attr(not(doctest), doc = include_str!("../../linked/guide/data.md"))]
pub mod data {}
#[doc = include_str!("../../linked/guide/documents.md")]
pub mod documents {}
#[doc = include_str!("../../linked/guide/durability.md")]
pub mod durability {}
#[doc = include_str!("../../linked/guide/errors.md")]
pub mod errors {}
#[doc = include_str!("../../linked/guide/exactly_once.md")]
pub mod exactly_once {}
#[doc = include_str!("../../linked/guide/first_half_hour.md")]
pub mod first_half_hour {}
#[doc = include_str!("../../linked/guide/indexes.md")]
pub mod indexes {}
#[doc = include_str!("../../linked/guide/limits.md")]
pub mod limits {}
#[doc = include_str!("../../linked/guide/live_queries.md")]
pub mod live_queries {}
#[doc = include_str!("../../linked/guide/numbering.md")]
pub mod numbering {}
#[doc = include_str!("../../linked/guide/opening.md")]
pub mod opening {}
#[doc = include_str!("../../linked/guide/production.md")]
pub mod production {}
#[doc = include_str!("../../linked/guide/queries.md")]
pub mod queries {}
#[doc = include_str!("../../linked/guide/questions.md")]
pub mod questions {}
#[doc = include_str!("../../linked/guide/recipes.md")]
pub mod recipes {}
#[doc = include_str!("../../linked/guide/threads.md")]
pub mod threads {}
#[doc = include_str!("../../linked/guide/transactions.md")]
pub mod transactions {}

// Pages beside the guide, whose examples are run as well.
#[cfg(doctest)]
#[doc = include_str!("../../linked/sequences.md")]
mod sequences {}
#[cfg(doctest)]
#[doc = include_str!("../../linked/versions.md")]
mod versions {}
