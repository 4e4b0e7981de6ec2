//! Running a plan: walking records and keeping those that match.

pub(crate) mod matches;
