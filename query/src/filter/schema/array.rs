//! What a schema says of the elements of an array.

use std::collections::HashSet;

use bson::RawArray;

use crate::filter::schema::equality::Identity;
use crate::filter::schema::{Rest, Schema};
use crate::pattern::Watch;
use crate::value::elements;

/// Schemas of the first elements, and of all that follow.
#[derive(Clone, Debug)]
pub(super) struct Items {
    pub(super) first: Vec<Schema>,
    pub(super) rest: Rest,
}

impl Items {
    pub(super) fn matches(&self, array: &RawArray, watch: &Watch<'_>) -> bool {
        let mut first = self.first.iter();
        elements(array).take_while(|_| watch.goes_on()).all(|element| match first.next() {
            Some(schema) => schema.matches(element, watch),
            None => self.rest.matches(element, watch),
        })
    }
}

/// Whether no two elements are the same.
pub(super) fn are_distinct(array: &RawArray, watch: &Watch<'_>) -> bool {
    let mut seen = HashSet::new();
    elements(array).take_while(|_| watch.goes_on()).all(|element| seen.insert(Identity::of(element)))
}
