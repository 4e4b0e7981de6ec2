//! `$switch`: the first branch whose case is true.

use bson::RawBsonRef;

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Node};
use crate::expression::parser::{Parser, invalid};
use crate::expression::signature::Signature;
use crate::expression::value::{Value, type_name};

const SWITCH: Signature = Signature {
    names: &["branches", "default"],
    required: 0,
    not_object: Code::SWITCH_NOT_OBJECT,
    unknown: Code::SWITCH_UNKNOWN_ARGUMENT,
    missing: &[],
};
const BRANCH: Signature = Signature {
    names: &["case", "then"],
    required: 2,
    not_object: Code::SWITCH_BRANCH_NOT_OBJECT,
    unknown: Code::SWITCH_BRANCH_UNKNOWN_ARGUMENT,
    missing: &[Code::SWITCH_CASE_MISSING, Code::SWITCH_THEN_MISSING],
};

pub(super) fn parse(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let [branches, default] = SWITCH.read::<2>(operator, operand)?;
    let default = default.map(|default| parser.operand(default)).transpose()?;
    // The default is the first argument, absent or not, so that cases have odd positions and their values even ones.
    let mut arguments = vec![default];
    if let Some(branches) = branches {
        let Some(array) = branches.as_array() else {
            let found = type_name(branches);
            let fault = Fault::WrongType { argument: "branches", expected: "an array", found };
            return Err(Error::Argument { operator, fault, code: Code::SWITCH_BRANCHES_TYPE });
        };
        for branch in array {
            arguments.extend(BRANCH.parse(parser, operator, branch.map_err(invalid)?)?);
        }
    }
    if arguments.len() == 1 {
        let fault = Fault::Missing { argument: "branches" };
        return Err(Error::Argument { operator, fault, code: Code::SWITCH_BRANCHES_EMPTY });
    }
    Ok(Node::Call { operator, evaluate, arguments })
}

fn evaluate<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    for case in (1..arguments.count()).step_by(2) {
        // Cases after the first true one are not evaluated, and of the values only the one that is chosen.
        if arguments.value(case)?.is_true() {
            return arguments.value(case + 1);
        }
    }
    match arguments.given(0)? {
        Some(default) => Ok(default),
        // Without a default, a document that no case covers is an error and not null.
        None => Err(arguments.fault(Code::SWITCH_NO_BRANCH_APPLIES, Fault::NoBranch)),
    }
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::cases::{check, check_error, check_missing};

    #[test]
    fn the_first_true_case_decides() {
        let branches =
            bson!([{ "case": "$missing", "then": 1 }, { "case": { "$gt": ["$n", 1] }, "then": "$n" }]);
        check(bson!({ "$switch": { "branches": branches } }), bson!(5));
        check(bson!({ "$switch": { "branches": [{ "case": 0, "then": 1 }], "default": 2 } }), bson!(2));
        check_missing(
            bson!({ "$switch": { "branches": [{ "case": 0, "then": 1 }], "default": "$missing" } }),
        );
        check_error(bson!({ "$switch": { "branches": [{ "case": 0, "then": 1 }] } }), 40_066);
    }

    #[test]
    fn its_form_is_checked() {
        check_error(bson!({ "$switch": 1 }), 40_060);
        check_error(bson!({ "$switch": { "branches": 1 } }), 40_061);
        check_error(bson!({ "$switch": { "branches": [1] } }), 40_062);
        check_error(bson!({ "$switch": { "branches": [{ "case": 1, "then": 1, "x": 1 }] } }), 40_063);
        check_error(bson!({ "$switch": { "branches": [{ "then": 1 }] } }), 40_064);
        check_error(bson!({ "$switch": { "branches": [{ "case": 1 }] } }), 40_065);
        check_error(bson!({ "$switch": { "branches": [], "x": 1 } }), 40_067);
        check_error(bson!({ "$switch": { "branches": [], "default": 1 } }), 40_068);
        check_error(bson!({ "$switch": {} }), 40_068);
    }
}
