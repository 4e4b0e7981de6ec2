//! The size of a filter for planning: parts, members of lists, and the bytes of their values.

use bson::RawBson;

use crate::filter::compare::Membership;
use crate::filter::evaluate::{Condition, Node, Test};
use crate::filter::value_test::{BYTES_OF_A_VALUE, pattern_weight};
use crate::value::content_bytes;

/// The values and the bytes of each value up to which a test is light.
const LIGHT_VALUES: usize = 8;
const LIGHT_BYTES: usize = 512;

/// The weight of a part of a filter: about the number of intervals that it gives, and of steps that a look at it needs.
pub(super) fn of_node(node: &Node) -> usize {
    match node {
        Node::All(nodes) | Node::Any(nodes) => nodes.iter().map(of_node).fold(1, usize::saturating_add),
        Node::Not(node) => of_node(node).saturating_add(1),
        Node::Field(_, test) => of_test(test),
        Node::Implied(test) => of_list(test.operands()),
        // No bounds are made of either.
        Node::Expression(_) | Node::Schema(_) => 1,
    }
}

/// The weight of a test.
pub(super) fn of_test(test: &Test) -> usize {
    match test {
        Test::Compare(comparison) => of_value(comparison.operand()),
        Test::In(membership) => of_members(membership),
        Test::Type(types) => 1 + types.types().len(),
        Test::Value(test) => test.weight(),
        Test::AnyObject(node) => of_node(node).saturating_add(1),
        Test::AnyElement(condition) => of_condition(condition).saturating_add(1),
        Test::Exists => 1,
    }
}

/// The weight of a list of values.
pub(super) fn of_list<'v>(values: impl Iterator<Item = &'v RawBson>) -> usize {
    values.map(of_value).fold(1, usize::saturating_add)
}

/// Whether the set of a test is so small that to keep it for another index would cost as much.
pub(super) fn is_light(test: &Test) -> bool {
    match test {
        Test::Compare(comparison) => is_light_list(std::iter::once(comparison.operand())),
        Test::In(membership) => {
            is_light_list(membership.values().iter()) && membership.patterns().len() < LIGHT_VALUES
        }
        Test::Type(types) => types.types().len() < LIGHT_VALUES,
        Test::AnyElement(_) => false,
        // Of a pattern only its text is in the set, and that has a limit. The others have no values.
        Test::Value(_) | Test::AnyObject(_) | Test::Exists => true,
    }
}

/// Whether a list has few values, none of them long.
pub(super) fn is_light_list<'v>(values: impl Iterator<Item = &'v RawBson>) -> bool {
    let mut count = 0;
    for value in values {
        count += 1;
        if count > LIGHT_VALUES || content_bytes(value.as_raw_bson_ref()) > LIGHT_BYTES {
            return false;
        }
    }
    true
}

fn of_condition(condition: &Condition) -> usize {
    match condition {
        Condition::All(conditions) | Condition::Any(conditions) => {
            conditions.iter().map(of_condition).fold(1, usize::saturating_add)
        }
        Condition::Not(condition) => of_condition(condition).saturating_add(1),
        Condition::Test(test) => of_test(test),
    }
}

fn of_members(membership: &Membership) -> usize {
    let values = membership.values().iter().map(of_value);
    values.chain(membership.patterns().iter().map(pattern_weight)).fold(1, usize::saturating_add)
}

fn of_value(value: &RawBson) -> usize {
    1 + content_bytes(value.as_raw_bson_ref()) / BYTES_OF_A_VALUE
}
