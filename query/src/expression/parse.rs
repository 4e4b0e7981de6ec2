//! From BSON to the tree of an expression.
//!
//! What an operator's argument may be stands with the operator; here is what all share: paths, variables, objects,
//! arrays, and the folding of what is constant. The invariant: parsing recurses at most [`DEPTH_MAX`] levels, and so
//! does everything that later walks the tree.

use bson::raw::CString;
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use index::path::FieldPath;

use crate::expression::error::{Error, Fault};
use crate::expression::node::{Node, Scope, Source};
use crate::expression::operator::{Form, Known, known};
use crate::expression::value::Value;
use crate::expression::variables::{Variables, check_readable_name};
use crate::pattern::Room;

/// How deeply expressions may be nested.
pub(super) const DEPTH_MAX: usize = 100;
/// Larger constants are not kept in place of the expression that makes them.
const FOLDED_BYTES_MAX: usize = 64 * 1024;

const ZERO: &str = "a name must not hold a zero character";

/// Variables of MongoDB that this store does not have.
const UNSUPPORTED_VARIABLES: [&str; 6] =
    ["CLUSTER_TIME", "IS_MR", "JS_SCOPE", "SEARCH_META", "SEARCH_SCORE", "USER_ROLES"];

/// Reads a whole expression.
pub(super) fn parse(expression: RawBsonRef<'_>, variables: &Variables) -> Result<Node, Error> {
    Parser { variables, names: None, depth: 0 }.operand(expression)
}

/// Where in an expression something stands: what is defined there, and how deep it is.
#[derive(Clone, Copy)]
pub(super) struct Parser<'p> {
    variables: &'p Variables,
    names: Option<&'p Frame<'p>>,
    depth: usize,
}

/// The names that one operator defines, inside of those that operators around it define.
struct Frame<'p> {
    names: &'p [&'p str],
    outer: Option<&'p Frame<'p>>,
}

impl Parser<'_> {
    /// What compiled patterns may take.
    pub(super) fn room(&self) -> &Room {
        self.variables.room()
    }

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

    /// Reads something where the given names are variables.
    pub(super) fn with_names<T>(self, names: &[&str], read: impl FnOnce(Parser<'_>) -> T) -> T {
        let frame = Frame { names, outer: self.names };
        read(Parser { variables: self.variables, names: Some(&frame), depth: self.depth })
    }

    /// Reads the arguments of an operator: the members of an array, or the one that stands there.
    pub(super) fn list(self, operand: RawBsonRef<'_>) -> Result<Vec<Node>, Error> {
        match operand.as_array() {
            Some(array) => array.into_iter().map(|member| self.operand(member.map_err(invalid)?)).collect(),
            None => Ok(vec![self.operand(operand)?]),
        }
    }

    fn deeper(self) -> Result<Self, Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooDeep { limit: DEPTH_MAX });
        }
        Ok(Self { depth: self.depth + 1, ..self })
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

    /// Reads what stands behind the first dollar sign.
    pub(super) fn path(self, path: &str) -> Result<Node, Error> {
        let Some(variable) = path.strip_prefix('$') else {
            if path.is_empty() {
                let reason = "a dollar sign must be followed by a name";
                return Err(Error::Path { path: "$".to_owned(), reason, code: 16_872 });
            }
            return Ok(Node::Path(self.current(), split_path(path)?));
        };
        let (name, rest) = match variable.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (variable, None),
        };
        check_readable_name(name)?;
        let source = self.variable(name)?;
        let fields = rest.map(split_path).transpose()?.unwrap_or_default();
        Ok(match source {
            Source::Remove => Node::Constant(Value::Missing),
            Source::Root | Source::Now | Source::Local { .. } | Source::User(_) => Node::Path(source, fields),
        })
    }

    /// What paths with one dollar sign start at: the document, unless an operator says otherwise.
    pub(super) fn current(self) -> Source {
        self.local("CURRENT").unwrap_or(Source::Root)
    }

    fn variable(self, name: &str) -> Result<Source, Error> {
        if let Some(local) = self.local(name) {
            return Ok(local);
        }
        if self.variables.value(name).is_some() {
            return Ok(Source::User(name.to_owned()));
        }
        match name {
            "ROOT" | "CURRENT" => Ok(Source::Root),
            "NOW" => Ok(Source::Now),
            "REMOVE" => Ok(Source::Remove),
            name if UNSUPPORTED_VARIABLES.contains(&name) => {
                Err(Error::UnsupportedVariable { name: name.to_owned() })
            }
            name => Err(Error::UndefinedVariable { name: name.to_owned() }),
        }
    }

    fn local(self, name: &str) -> Option<Source> {
        let frames = std::iter::successors(self.names, |frame| frame.outer);
        frames.enumerate().find_map(|(outwards, frame)| {
            let place = frame.names.iter().rposition(|known| *known == name)?;
            Some(Source::Local { outwards, place })
        })
    }
}

/// Splits a path at its dots and checks the names.
pub(super) fn split_path(path: &str) -> Result<Vec<FieldPath>, Error> {
    if path.is_empty() || path.ends_with('.') {
        return Err(Error::Path {
            path: path.to_owned(),
            reason: "it must not end with a dot",
            code: 40_353,
        });
    }
    let names = path.split('.').collect::<Vec<_>>();
    if names.len() > 200 {
        return Err(Error::Path {
            path: crate::value::shorten(path),
            reason: "it has more than 200 names",
            code: 15,
        });
    }
    let field = |name: &&str| match name_fault(name) {
        Some((reason, code)) => Err(Error::Path { path: path.replace('\0', "\\0"), reason, code }),
        None => FieldPath::parse(name).map_err(|_| zero_byte(path)),
    };
    names.iter().map(field).collect()
}

/// Refuses what cannot be the name of a computed field.
pub(super) fn check_field_name(name: &str) -> Result<(), Error> {
    match name_fault(name) {
        Some((reason, code)) => Err(Error::Path { path: name.replace('\0', "\\0"), reason, code }),
        None => Ok(()),
    }
}

/// What is wrong with the name of a field, and MongoDB's number for it.
fn name_fault(name: &str) -> Option<(&'static str, i32)> {
    if name.is_empty() {
        return Some(("a name must not be empty", 15_998));
    }
    if name.starts_with('$') {
        return Some(("a name must not start with a dollar sign", 16_410));
    }
    if name.contains('\0') {
        return Some((ZERO, 16_411));
    }
    name.contains('.').then_some(("a name must not hold a dot", 16_412))
}

#[expect(clippy::needless_pass_by_value, reason = "this is what an error is mapped by")]
pub(super) fn invalid(error: bson::error::Error) -> Error {
    Error::InvalidBson { reason: error.to_string() }
}

fn zero_byte(path: &str) -> Error {
    Error::Path { path: path.replace('\0', "\\0"), reason: ZERO, code: 16_411 }
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
