//! From BSON to the tree of an expression.
//!
//! What an operator's argument may be is in the file of the operator. Here is what all share: objects, arrays, lists
//! of arguments, and the folding of constants. The invariant: parsing recurses at most `DEPTH_MAX` levels, and so
//! does everything that later walks the tree.

use bson::raw::CString;
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Node, Scope};
use crate::expression::operator::{Form, OperatorSupport, known};
use crate::expression::parser::{Parser, check_field_name, invalid};
use crate::expression::value::Value;
use crate::expression::variables::Variables;
use crate::operation::{Allowance, OperationContext};

/// A larger value does not replace the constant expression that makes it.
const FOLDED_BYTES_MAX: usize = 64 * 1024;
/// The memory that evaluating a constant expression may use while parsing.
const FOLDED_MEMORY_MAX: usize = 1 << 20;
/// The steps that it may make, besides those for its parts.
const FOLDED_STEPS: u64 = 256;
/// Steps for each part.
const STEPS_PER_PART: usize = 4;
/// The bytes of parts for which there is another step.
const BYTES_PER_STEP: usize = 4;

/// Parses a whole expression.
pub(super) fn parse(expression: RawBsonRef<'_>, variables: &Variables) -> Result<Node, Error> {
    Parser::new(variables).operand(expression)
}

/// Parses the key of groups. As in MongoDB the key of an object of one field is the value of that field alone, so a missing
/// value is null; with several fields, and deeper, it stays missing.
pub(super) fn parse_group_key(key: RawBsonRef<'_>, variables: &Variables) -> Result<Node, Error> {
    let parser = Parser::new(variables);
    let mut fields = key.as_document().into_iter().flat_map(RawDocument::iter);
    let (Some(field), None) = (fields.next(), fields.next()) else { return parser.operand(key) };
    let (name, value) = field.map_err(invalid)?;
    if name.as_str().starts_with('$') {
        return parser.operand(key);
    }
    check_field_name(name.as_str())?;
    let value = Some(parser.deeper()?.operand(value)?);
    // Not folded: where it is constant the value would be missing before it became null.
    let value = Node::Call { operator: "$group", evaluate: null_if_missing, arguments: vec![value] };
    Ok(Node::Object(vec![(name.to_owned(), value)]))
}

fn null_if_missing<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    match arguments.value(0)? {
        Value::Missing => Ok(Value::Borrowed(RawBsonRef::Null)),
        value @ (Value::Borrowed(_) | Value::Shared(_)) => Ok(value),
    }
}

impl Parser<'_> {
    /// Parses a value in place of an expression: a path, an operator, an object, an array or a constant.
    pub(super) fn operand(self, value: RawBsonRef<'_>) -> Result<Node, Error> {
        if let Some(text) = value.as_str() {
            return match text.strip_prefix('$') {
                Some(path) => self.path(path),
                None => Ok(Node::Constant(Value::copied(value))),
            };
        }
        if let Some(document) = value.as_document() {
            // Only containers nest, so only they count as levels.
            return self.deeper()?.document(document);
        }
        if let Some(array) = value.as_array() {
            return self.deeper()?.array(array);
        }
        Ok(Node::Constant(Value::copied(value)))
    }

    /// Parses the arguments of an operator: the members of an array, or one argument without an array around it.
    pub(super) fn list(self, operand: RawBsonRef<'_>) -> Result<Vec<Node>, Error> {
        match operand.as_array() {
            Some(array) => array.into_iter().map(|member| self.operand(member.map_err(invalid)?)).collect(),
            None => Ok(vec![self.operand(operand)?]),
        }
    }

    fn array(self, array: &RawArray) -> Result<Node, Error> {
        let members = array.into_iter().map(|member| self.operand(member.map_err(invalid)?));
        folded(Node::Array(members.collect::<Result<_, _>>()?), self.variables())
    }

    /// Parses an operator, or an object of computed fields.
    fn document(self, document: &RawDocument) -> Result<Node, Error> {
        let fields = document.iter().map(|field| field.map_err(invalid)).collect::<Result<Vec<_>, _>>()?;
        // The first name decides: an object whose first name starts with a dollar sign is an operator.
        if let Some((name, operand)) = fields.first()
            && name.as_str().starts_with('$')
        {
            if fields.len() > 1 {
                let operator = name.as_str().to_owned();
                return Err(Error::NotAlone { operator, found: fields.len() });
            }
            return self.operator(name.as_str(), *operand);
        }
        let mut computed: Vec<(CString, Node)> = Vec::with_capacity(fields.len());
        // A name twice would make an object of which readers see only one of both fields.
        let mut seen = std::collections::BTreeSet::new();
        for (name, value) in fields {
            check_field_name(name.as_str())?;
            if !seen.insert(name.as_str()) {
                let fault = Fault::DuplicateName { name: name.as_str().to_owned() };
                return Err(Error::Argument { operator: "an object", fault, code: Code::FIELD_TWICE });
            }
            computed.push((name.to_owned(), self.operand(value)?));
        }
        folded(Node::Object(computed), self.variables())
    }

    fn operator(self, name: &str, operand: RawBsonRef<'_>) -> Result<Node, Error> {
        let (operator, form) = match known(name) {
            None => return Err(Error::UnknownOperator { operator: name.to_owned() }),
            Some((_, OperatorSupport::Unsupported)) => {
                return Err(Error::UnsupportedOperator { operator: name.to_owned() });
            }
            Some((operator, OperatorSupport::Supported(form))) => (operator, form),
        };
        let (evaluate, arguments) = match form {
            // An operator with a form of its own reads its operand itself, before any of it is mistaken for an
            // expression.
            Form::Special(parse) => {
                let node = parse(self, operator, operand)?;
                return folded(node, self.variables());
            }
            Form::List { count, evaluate } => {
                let arguments = self.list(operand)?;
                count.check(operator, arguments.len())?;
                (evaluate, arguments.into_iter().map(Some).collect())
            }
            Form::Named { names, evaluate } => (evaluate, names.parse(self, operator, operand)?),
        };
        folded(Node::Call { operator, evaluate, arguments }, self.variables())
    }
}

/// Replaces a node whose parts are all constant by its value, if that costs little.
///
/// A node whose evaluation fails stays as it is, so that the error is reported only if the node is evaluated. So does one that
/// lasts long or makes much: nothing is computed while parsing that an operation does not count.
fn folded(node: Node, variables: &Variables) -> Result<Node, Error> {
    let parts = match &node {
        // `$rand`, `$createObjectId` and `$currentDate` have no parts and are not constants: each evaluation gives another
        // value.
        Node::Constant(_) | Node::Path(..) | Node::Random | Node::NewObjectId | Node::CurrentDate => {
            return Ok(node);
        }
        Node::Object(_)
        | Node::Array(_)
        | Node::Call { .. }
        | Node::Let { .. }
        | Node::Map { .. }
        | Node::Filter { .. }
        | Node::Reduce { .. }
        | Node::Percentile { .. }
        | Node::Regex(_) => node.parts(),
    };
    let Some(constants) = parts.into_iter().map(Node::constant).collect::<Option<Vec<_>>>() else {
        return Ok(node);
    };
    let bytes: usize = constants.iter().map(|constant| constant.content_bytes()).sum();
    // In proportion to what the request has written down: an array of a thousand values is one of them.
    let steps_max = FOLDED_STEPS + (STEPS_PER_PART * constants.len() + bytes / BYTES_PER_STEP) as u64;
    // Of its own, because what goes beyond is not an error of the request.
    let operation =
        OperationContext::new(Allowance { bytes: Some(FOLDED_MEMORY_MAX), ..Allowance::default() });
    // Nothing constant reads the document or the variables, so empty ones do; constants are compared, though.
    let (document, empty) = (RawDocumentBuf::new(), Variables::default().within(operation.clone()));
    let empty = empty.with_collation(variables.collation().clone());
    let slice = operation.slice(steps_max);
    let value = node.evaluate(Scope::new(&document, &empty)).map(Value::into_static);
    drop(slice);
    // There can be many of them, so the request has a time and can be ended.
    variables.operation().steps(operation.steps_taken())?;
    Ok(match value {
        // A small expression can make a large value, `$range` for one. Kept in the tree it would use memory
        // that no operation accounts for.
        Ok(value) if value.content_bytes() <= FOLDED_BYTES_MAX => Node::Constant(value),
        Ok(_) | Err(_) => node,
    })
}

#[cfg(test)]
mod tests {
    use bson::{RawBson, rawdoc};

    use super::*;
    use crate::expression::Expression;
    use crate::operation::CancellationToken;

    fn parsed(expression: &RawDocument, operation: OperationContext) -> Result<Expression, Error> {
        Expression::parse(RawBsonRef::Document(expression), &Variables::default().within(operation))
    }

    /// Constant parts were evaluated to their end while parsing, without a clock and without memory that counts.
    #[test]
    fn what_takes_long_is_not_evaluated_while_parsing() {
        let long = [
            rawdoc! { "$size": { "$range": [0, 3000] } },
            rawdoc! { "$reduce": { "input": { "$range": [0, 100_000] }, "initialValue": 0, "in": 1 } },
            rawdoc! { "$map": { "input": { "$range": [0, 10_000] }, "in": { "$size": { "$range": [0, 10_000] } } } },
        ];
        for expression in long {
            let operation = OperationContext::counting();
            let parsed = parsed(&expression, operation.clone()).expect("it can be evaluated");
            assert_eq!(parsed.constant(), None, "{expression:?}");
            assert!(operation.steps_taken() < 5000, "{expression:?}: {}", operation.steps_taken());
        }
    }

    #[test]
    fn what_takes_little_is_its_value() {
        let thousand: Vec<i32> = (0..1000).collect();
        for (expression, value) in [
            (rawdoc! { "$add": [1, { "$multiply": [2, 3] }] }, RawBson::Int32(7)),
            (rawdoc! { "$size": { "$range": [0, 50] } }, RawBson::Int32(50)),
            (
                rawdoc! { "$size": { "$setUnion": [bson::RawArrayBuf::from_iter(thousand)] } },
                RawBson::Int32(1000),
            ),
        ] {
            let parsed = parsed(&expression, OperationContext::unlimited()).expect("it can be evaluated");
            assert_eq!(parsed.constant(), Some(Some(value.as_raw_bson_ref())), "{expression:?}");
        }
    }

    #[test]
    fn a_request_that_is_to_end_ends_while_parsing() {
        let token = CancellationToken::new();
        token.cancel();
        let operation = OperationContext::new(Allowance { tokens: vec![token], ..Allowance::default() });
        let ended = parsed(&rawdoc! { "$add": [1, 2] }, operation);
        assert!(matches!(ended, Err(Error::Interrupted(_))), "{ended:?}");
    }

    #[test]
    fn a_key_of_one_field_is_null_where_it_is_missing() {
        let variables = Variables::default();
        let key = |key: RawDocumentBuf, document: &RawDocument| {
            let key = Expression::parse_group_key(RawBsonRef::Document(&key), &variables).expect("a key");
            key.evaluate(document, &variables).expect("evaluated").expect("an object")
        };
        let empty = rawdoc! {};
        for (of, value) in [
            (rawdoc! { "k": "$k" }, rawdoc! { "k": null }),
            (rawdoc! { "k": { "$arrayElemAt": [[1], 5] } }, rawdoc! { "k": null }),
            (rawdoc! { "k": "$k", "l": 1 }, rawdoc! { "l": 1 }),
            (rawdoc! { "x": { "k": "$k" } }, rawdoc! { "x": {} }),
        ] {
            assert_eq!(key(of, &empty), RawBson::Document(value));
        }
        assert_eq!(key(rawdoc! { "k": "$k" }, &rawdoc! { "k": 3 }), RawBson::Document(rawdoc! { "k": 3 }));
    }
}
