//! The engine against independent references: a naive store, the same questions without indexes, histories of threads that some
//! order of calls must explain, and the rules that MongoDB documents.

mod conformance;
mod histories;
mod indexes;
mod model;
