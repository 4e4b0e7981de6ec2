//! The values of a document that an operator was applied to, and the names of their types.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bson::spec::ElementType;
use bson::{Bson, Document, RawBsonRef, RawDocument};
use index::path::{FieldPath, leaves};

use crate::filter::element::type_name;
use crate::value::elements;

/// The limit of values that are shown.
const VALUES_MAX: usize = 10;

/// Values that an operator was applied to.
pub(super) struct Considered<'d> {
    pub(super) values: Vec<RawBsonRef<'d>>,
    /// Whether there are more of them.
    pub(super) is_cut: bool,
}

/// Whether an operator is applied to the elements of an array, or to the array as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrays {
    Elements,
    Whole,
}

impl<'d> Considered<'d> {
    /// The values at a path. Returns `None` if there is none.
    pub(super) fn at(document: &'d RawDocument, path: &FieldPath, arrays: Arrays) -> Option<Self> {
        let (mut values, mut is_there, mut is_cut) = (Vec::new(), false, false);
        // Broken off once it is known that there are more values than are reported.
        let _ = leaves(document, path, &mut |leaf| {
            // An element without the field has no value that could be reported.
            let Some(value) = leaf.value else { return ControlFlow::Continue(()) };
            is_there = true;
            let mut add = |value| {
                is_cut = values.len() == VALUES_MAX;
                if is_cut {
                    return ControlFlow::Break(());
                }
                values.push(value);
                ControlFlow::Continue(())
            };
            // Of an array that is looked into, the elements were compared and not the array.
            match value.as_array().filter(|_| arrays == Arrays::Elements && leaf.expand) {
                Some(array) => elements(array).try_for_each(add),
                None => add(value),
            }
        });
        is_there.then_some(Self { values, is_cut })
    }

    /// The only value that a rule of a schema is applied to.
    pub(super) fn only(value: RawBsonRef<'d>) -> Self {
        Self { values: vec![value], is_cut: false }
    }

    /// Whether a value has one of the types.
    pub(super) fn has_type(&self, types: &[ElementType]) -> bool {
        self.values.iter().any(|value| types.contains(&value.element_type()))
    }

    /// Adds the names of the types of all values.
    pub(super) fn tell_types(&self, details: &mut Document) {
        let types: Vec<ElementType> = self.values.iter().map(RawBsonRef::element_type).collect();
        tell_names(details, ("consideredType", "consideredTypes"), &types);
    }
}

/// Adds the names of types: under the first field a single one, under the second several, ascending.
pub(super) fn tell_names(details: &mut Document, fields: (&str, &str), types: &[ElementType]) {
    // A set: ten numbers of one type are one type, and MongoDB sorts the names.
    let names: BTreeSet<&str> = types.iter().map(|found| type_name(*found)).collect();
    let mut names = names.into_iter();
    match (names.next(), names.len()) {
        (None, _) => {}
        (Some(only), 0) => drop(details.insert(fields.0, only)),
        (Some(first), _) => {
            let names: Vec<Bson> = [first].into_iter().chain(names).map(Bson::from).collect();
            details.insert(fields.1, names);
        }
    }
}
