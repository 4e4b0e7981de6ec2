//! Running a plan: walking records and keeping those that match, in the order that was asked for.

pub(crate) mod matches;
pub(crate) mod rows;
pub(crate) mod time_limit;
