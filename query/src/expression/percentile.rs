//! `$percentile` and `$median`: what they are asked, as expressions and as accumulators, and their value as expressions.
//!
//! An expression has its numbers in an array, all of which is there, so it is never approximate: as in MongoDB,
//! `approximate` gives what `discrete` gives.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocumentBuf};

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Node, PathStart, Scope};
use crate::expression::parser::Parser;
use crate::expression::signature::Signature;
use crate::expression::value::Value;
use crate::numeric::Numeric;
use crate::percentile::{Method, PercentileRequest};

/// The arguments of `$percentile`; those of `$median` are the first two.
const PERCENTILE: Signature = Signature {
    names: &["input", "method", "p"],
    required: 3,
    not_object: Code::PERCENTILE_NOT_OBJECT,
    unknown: Code::IDL_UNKNOWN_FIELD,
    missing: &[Code::IDL_FAILED_TO_PARSE],
};
const MEDIAN: Signature =
    Signature { names: &["input", "method"], required: 2, not_object: Code::MEDIAN_NOT_OBJECT, ..PERCENTILE };

/// Parses the argument of an accumulator: its input, and what is wanted. `operator` is `$percentile` or `$median`.
pub(super) fn parse_accumulator(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<(Node, PercentileRequest), Error> {
    // An argument that is not an object has another number here than in an expression.
    let (signature, not_object) = match operator {
        "$median" => (MEDIAN, Code::MEDIAN_GROUP_NOT_OBJECT),
        _ => (PERCENTILE, Code::PERCENTILE_GROUP_NOT_OBJECT),
    };
    read(parser, &Signature { not_object, ..signature }, operator, operand)
}

/// Parses the expression `$percentile`.
pub(super) fn parse_percentile(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let (input, request) = read(parser, &PERCENTILE, operator, operand)?;
    Ok(Node::Percentile { input: Box::new(input), request })
}

/// Parses the expression `$median`.
pub(super) fn parse_median(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let (input, request) = read(parser, &MEDIAN, operator, operand)?;
    Ok(Node::Percentile { input: Box::new(input), request })
}

/// The percentiles of a number or of the numbers in an array. Whatever else there is counts for nothing.
pub(super) fn evaluate<'d>(
    input: &Node,
    request: &PercentileRequest,
    scope: Scope<'_, 'd>,
) -> Result<Value<'d>, Error> {
    // A text, an object or nothing has no numbers, and is not a mistake.
    let operand = input.evaluate(scope)?;
    let value = operand.or_null();
    let percentiles = if let Some(number) = Numeric::of(value) {
        // All percentiles of one number are this number.
        Some(vec![number.to_double(); request.shares().len()])
    } else if let Some(array) = value.as_array() {
        let operation = scope.operation();
        let bytes = array.as_bytes().len();
        // No element has fewer bytes than a double, so there is room for all.
        let _held = operation.reserve(bytes)?;
        let numbers = crate::value::elements(array).filter_map(Numeric::of).map(Numeric::to_double);
        let mut numbers: Vec<f64> = numbers.filter(|number| !number.is_nan()).collect();
        operation.pass(bytes)?;
        numbers.sort_unstable_by(f64::total_cmp);
        let at = |share: &f64| request.method().at(*share, numbers.len(), |at| numbers.get(at).copied());
        request.shares().iter().map(at).collect()
    } else {
        None
    };
    Ok(Value::computed(request.result(percentiles)))
}

/// Reads the arguments: the input, and what is wanted.
fn read(
    parser: Parser<'_>,
    signature: &Signature,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<(Node, PercentileRequest), Error> {
    let [input, method, shares] = signature.read::<3>(operator, operand)?;
    let fault = |fault, code| Error::Argument { operator, fault, code };
    // The method is checked first: without it the rest means nothing.
    let method = Value::found(method);
    let Some(name) = method.or_null().as_str() else {
        let found = method.type_name();
        let wrong = Fault::WrongType { argument: "method", expected: "a string", found };
        return Err(fault(wrong, Code::TYPE_MISMATCH));
    };
    let Some(known) = Method::named(name) else {
        let expected = "'approximate', 'discrete' or 'continuous'";
        let wrong = Fault::WrongValue { argument: "method", expected, found: method.describe() };
        return Err(fault(wrong, Code::BAD_VALUE));
    };
    let input = parser.operand(input.unwrap_or(RawBsonRef::Null))?;
    let is_median = shares.is_none();
    let shares = match shares {
        None => Arc::from([0.5]),
        Some(shares) => read_shares(parser, operator, shares)?,
    };
    Ok((input, PercentileRequest::new(shares, known, is_median)))
}

/// Reads `p`: an array of numbers from 0 to 1, which may be computed, but not from a document.
fn read_shares(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Arc<[f64]>, Error> {
    let wrong = |expected, found: &Value<'_>, code| Error::Argument {
        operator,
        fault: Fault::WrongValue { argument: "p", expected, found: found.describe() },
        code,
    };
    let node = parser.operand(operand)?;
    let document = RawDocumentBuf::new();
    // A value that depends on a document would need another computation for each.
    let value = match node.constant() {
        Some(constant) => constant.clone(),
        // Variables of the caller have their values while an expression is parsed.
        None if is_fixed(&node) => node.evaluate(Scope::new(&document, parser.variables()))?,
        None => {
            let found = Value::Borrowed(operand);
            return Err(wrong("a constant", &found, Code::PERCENTILE_P_NOT_CONSTANT));
        }
    };
    let elements = value.elements().filter(|elements| !elements.is_empty());
    let elements = elements
        .ok_or_else(|| wrong("an array of numbers from 0 to 1", &value, Code::PERCENTILE_P_NOT_ARRAY))?;
    let share = |element: &Value<'_>| {
        let number = Numeric::of(element.or_null());
        let number =
            number.ok_or_else(|| wrong("made of numbers", element, Code::PERCENTILE_P_TYPE))?.to_double();
        // NaN is not a share either.
        if (0.0..=1.0).contains(&number) {
            Ok(number)
        } else {
            Err(wrong("made of numbers from 0 to 1", element, Code::PERCENTILE_P_VALUE))
        }
    };
    elements.iter().map(share).collect()
}

/// Whether a node depends on nothing but variables of the caller.
fn is_fixed(node: &Node) -> bool {
    match node {
        Node::Constant(_) | Node::Path(PathStart::User(_), _) => true,
        Node::Array(_) | Node::Object(_) | Node::Call { .. } => node.parts().into_iter().all(is_fixed),
        // An expression with its own variables would have to be distinguished from one that depends on others.
        Node::Path(..)
        | Node::Let { .. }
        | Node::Map { .. }
        | Node::Filter { .. }
        | Node::Reduce { .. }
        | Node::Regex(_)
        | Node::Percentile { .. }
        | Node::Random
        | Node::NewObjectId
        | Node::CurrentDate => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, check_error, decimal};

    fn percentile(input: Bson, shares: Bson, method: &str) -> Bson {
        bson!({ "$percentile": { "input": input, "p": shares, "method": method } })
    }

    fn median(input: Bson, method: &str) -> Bson {
        bson!({ "$median": { "input": input, "method": method } })
    }

    #[test]
    fn percentiles_of_an_array_are_exact() {
        let numbers = bson!([4, 1, 3, 2, "x", null]);
        for method in ["approximate", "discrete"] {
            check(percentile(numbers.clone(), bson!([0.5, 0, 1]), method), bson!([2.0, 1.0, 4.0]));
            check(median(numbers.clone(), method), bson!(2.0));
        }
        check(percentile(numbers.clone(), bson!([0.5, 0.25]), "continuous"), bson!([2.5, 1.75]));
        check(median(numbers, "continuous"), bson!(2.5));
        check(median(bson!("$list"), "approximate"), bson!(2.0));
    }

    #[test]
    fn all_percentiles_of_a_number_are_the_number() {
        check(percentile(bson!("$n"), bson!([0.1, 0.9]), "approximate"), bson!([5.0, 5.0]));
        check(median(decimal("2.5"), "continuous"), bson!(2.5));
    }

    #[test]
    fn percentiles_of_no_numbers_are_null() {
        for input in [bson!("x"), bson!([]), bson!(["x"]), bson!("$missing"), bson!([[1, 2]])] {
            check(median(input.clone(), "discrete"), Bson::Null);
            check(percentile(input, bson!([0.1, 0.9]), "discrete"), bson!([null, null]));
        }
    }

    #[test]
    fn shares_are_constants_from_0_to_1() {
        check(percentile(bson!([1, 2]), bson!([{ "$divide": [1, 2] }]), "discrete"), bson!([1.0]));
        check(percentile(bson!([1, 2]), bson!([decimal("0.9")]), "discrete"), bson!([2.0]));
        for (shares, code) in [
            (bson!("$list"), 7_750_300),
            (bson!([{ "$rand": {} }]), 7_750_300),
            (bson!(0.5), 7_750_301),
            (bson!([]), 7_750_301),
            (bson!(["x"]), 7_750_302),
            (bson!([1.1]), 7_750_303),
            (bson!([-0.1]), 7_750_303),
            (bson!([f64::NAN]), 7_750_303),
        ] {
            check_error(percentile(bson!([1]), shares, "discrete"), code);
        }
    }

    #[test]
    fn arguments_are_checked() {
        check_error(bson!({ "$percentile": 1 }), 7_436_200);
        check_error(bson!({ "$median": [1] }), 7_436_201);
        check_error(bson!({ "$median": { "input": 1 } }), 40_414);
        check_error(bson!({ "$percentile": { "input": 1, "method": "discrete" } }), 40_414);
        check_error(bson!({ "$median": { "input": 1, "method": "discrete", "p": [0.5] } }), 40_415);
        check_error(median(bson!(1), "exact"), 2);
        check_error(bson!({ "$median": { "input": 1, "method": 1 } }), 14);
    }
}
