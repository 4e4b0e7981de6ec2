//! From BSON to the tree of an expression.
//!
//! What an operator's argument may be stands with the operator; here is what all share: objects, arrays, arguments, and
//! the folding of what is constant. The invariant: parsing recurses at most `DEPTH_MAX` levels, and so does everything
//! that later walks the tree.

use bson::raw::CString;
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::expression::error::{Error, Fault};
use crate::expression::node::{Node, Scope};
use crate::expression::operator::{Form, Known, known};
use crate::expression::parser::{Parser, check_field_name, invalid};
use crate::expression::value::Value;
use crate::expression::variables::Variables;

/// Larger constants are not kept in place of the expression that makes them.
const FOLDED_BYTES_MAX: usize = 64 * 1024;

/// Reads a whole expression.
pub(super) fn parse(expression: RawBsonRef<'_>, variables: &Variables) -> Result<Node, Error> {
    Parser::new(variables).operand(expression)
}

impl Parser<'_> {
    /// Reads a value in the place of an expression.
    pub(super) fn operand(self, value: RawBsonRef<'_>) -> Result<Node, Error> {
        if let Some(text) = value.as_str() {
            return match text.strip_prefix('$') {
                Some(path) => self.path(path),
                None => Ok(Node::Constant(Value::copied(value))),
            };
        }
        if let Some(document) = value.as_document() {
            return self.deeper()?.document(document);
        }
        if let Some(array) = value.as_array() {
            return self.deeper()?.array(array);
        }
        Ok(Node::Constant(Value::copied(value)))
    }

    /// Reads the arguments of an operator: the members of an array, or the one that stands there.
    pub(super) fn list(self, operand: RawBsonRef<'_>) -> Result<Vec<Node>, Error> {
        match operand.as_array() {
            Some(array) => array.into_iter().map(|member| self.operand(member.map_err(invalid)?)).collect(),
            None => Ok(vec![self.operand(operand)?]),
        }
    }

    fn array(self, array: &RawArray) -> Result<Node, Error> {
        let members = array.into_iter().map(|member| self.operand(member.map_err(invalid)?));
        Ok(folded(Node::Array(members.collect::<Result<_, _>>()?)))
    }

    /// Reads an operator, or an object of computed fields.
    fn document(self, document: &RawDocument) -> Result<Node, Error> {
        let fields = document.iter().map(|field| field.map_err(invalid)).collect::<Result<Vec<_>, _>>()?;
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
        let mut seen = std::collections::BTreeSet::new();
        for (name, value) in fields {
            check_field_name(name.as_str())?;
            if !seen.insert(name.as_str()) {
                let fault = Fault::DuplicateName { name: name.as_str().to_owned() };
                return Err(Error::Argument { operator: "an object", fault, code: 16_406 });
            }
            computed.push((name.to_owned(), self.operand(value)?));
        }
        Ok(folded(Node::Object(computed)))
    }

    fn operator(self, name: &str, operand: RawBsonRef<'_>) -> Result<Node, Error> {
        let (operator, form) = match known(name) {
            None => return Err(Error::UnknownOperator { operator: name.to_owned() }),
            Some((_, Known::Unsupported)) => {
                return Err(Error::UnsupportedOperator { operator: name.to_owned() });
            }
            Some((operator, Known::Supported(form))) => (operator, form),
        };
        let (evaluate, arguments) = match form {
            Form::Special(parse) => return parse(self, operator, operand).map(folded),
            Form::List { count, evaluate } => {
                let arguments = self.list(operand)?;
                count.check(operator, arguments.len())?;
                (evaluate, arguments.into_iter().map(Some).collect())
            }
            Form::Named { names, evaluate } => (evaluate, names.parse(self, operator, operand)?),
        };
        Ok(folded(Node::Call { operator, evaluate, arguments }))
    }
}

/// A node whose parts are all constant becomes their value. Where that fails it stays as it is, so that the error
/// surfaces if, and only if, the node is evaluated.
fn folded(node: Node) -> Node {
    let parts = match &node {
        Node::Constant(_) | Node::Path(..) | Node::Random => return node,
        Node::Object(_)
        | Node::Array(_)
        | Node::Call { .. }
        | Node::Let { .. }
        | Node::Map { .. }
        | Node::Filter { .. }
        | Node::Reduce { .. }
        | Node::Regex(_) => node.parts(),
    };
    if !parts.into_iter().all(|part| part.constant().is_some()) {
        return node;
    }
    let (document, variables) = (RawDocumentBuf::new(), Variables::default());
    let value = node.evaluate(Scope::new(&document, &variables)).map(Value::into_static);
    match value {
        Ok(value) if value.content_bytes() <= FOLDED_BYTES_MAX => Node::Constant(value),
        Ok(_) | Err(_) => node,
    }
}
