//! A place in an expression while it is parsed: which variables are defined there, and how deep it is. Paths and
//! names are checked here.
//!
//! Parsing the expressions themselves is in `parse`.

use index::path::FieldPath;

use crate::code::Code;
use crate::expression::error::Error;
use crate::expression::node::{Node, PathStart};
use crate::expression::value::Value;
use crate::expression::variables::{Variables, check_readable_name};
use crate::pattern::Room;

/// The most levels that expressions may be nested.
pub(super) const DEPTH_MAX: usize = 100;

const ZERO: &str = "a name must not hold a zero character";

/// Variables of MongoDB that this store does not have.
const UNSUPPORTED_VARIABLES: [&str; 6] =
    ["CLUSTER_TIME", "IS_MR", "JS_SCOPE", "SEARCH_META", "SEARCH_SCORE", "USER_ROLES"];

/// A place in an expression: the variables that are defined there, and how deep it is.
#[derive(Clone, Copy)]
pub(super) struct Parser<'p> {
    variables: &'p Variables,
    names: Option<&'p NameFrame<'p>>,
    depth: usize,
}

/// The names of the variables that one operator defines, and the operators around it.
struct NameFrame<'p> {
    names: &'p [&'p str],
    outer: Option<&'p NameFrame<'p>>,
}

impl<'p> Parser<'p> {
    /// The outermost place of an expression.
    pub(super) fn new(variables: &'p Variables) -> Self {
        Self { variables, names: None, depth: 0 }
    }
}

impl Parser<'_> {
    /// The variables of the caller.
    pub(super) fn variables(&self) -> &Variables {
        self.variables
    }

    /// The memory that compiled patterns may use.
    pub(super) fn room(&self) -> &Room {
        self.variables.room()
    }

    /// Calls `read` for a place where `names` are variables besides those that are defined already.
    pub(super) fn with_names<T>(self, names: &[&str], read: impl FnOnce(Parser<'_>) -> T) -> T {
        let frame = NameFrame { names, outer: self.names };
        read(Parser { variables: self.variables, names: Some(&frame), depth: self.depth })
    }

    /// The place one level deeper.
    pub(super) fn deeper(self) -> Result<Self, Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooDeep { limit: DEPTH_MAX });
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Parses a path or a variable: the text after the first dollar sign.
    pub(super) fn path(self, path: &str) -> Result<Node, Error> {
        // One dollar sign starts a path in the document, two start a variable.
        let Some(variable) = path.strip_prefix('$') else {
            if path.is_empty() {
                let reason = "a dollar sign must be followed by a name";
                return Err(Error::Path {
                    path: "$".to_owned(),
                    reason,
                    code: Code::FIELD_PATH_DOLLAR_ALONE,
                });
            }
            return Ok(Node::Path(self.current(), split_path(path)?));
        };
        let (name, rest) = match variable.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (variable, None),
        };
        check_readable_name(name)?;
        // The name may be one of the system, which starts with a capital; whether it is defined is asked
        // after that.
        let source = self.variable(name)?;
        let fields = rest.map(split_path).transpose()?.unwrap_or_default();
        Ok(match source {
            // Known to be missing, so it participates in the folding of constants.
            PathStart::Remove => Node::Constant(Value::Missing),
            PathStart::Root | PathStart::Now | PathStart::Local { .. } | PathStart::User(_) => {
                Node::Path(source, fields)
            }
        })
    }

    /// The start of paths with one dollar sign: the document, unless an operator defines `CURRENT`.
    pub(super) fn current(self) -> PathStart {
        self.local("CURRENT").unwrap_or(PathStart::Root)
    }

    /// Finds a variable: those of operators hide those of the caller, which hide those of the system.
    fn variable(self, name: &str) -> Result<PathStart, Error> {
        if let Some(local) = self.local(name) {
            return Ok(local);
        }
        if self.variables.value(name).is_some() {
            return Ok(PathStart::User(name.to_owned()));
        }
        match name {
            "ROOT" | "CURRENT" => Ok(PathStart::Root),
            "NOW" => Ok(PathStart::Now),
            "REMOVE" => Ok(PathStart::Remove),
            // A variable of MongoDB that is missing here is another error than a wrong name, so that a caller
            // knows which it is.
            name if UNSUPPORTED_VARIABLES.contains(&name) => {
                Err(Error::UnsupportedVariable { name: name.to_owned() })
            }
            name => Err(Error::UndefinedVariable { name: name.to_owned() }),
        }
    }

    /// Finds a variable of an operator, the innermost first.
    fn local(self, name: &str) -> Option<PathStart> {
        let frames = std::iter::successors(self.names, |frame| frame.outer);
        frames.enumerate().find_map(|(outwards, frame)| {
            // Of two variables of one name in the same `$let` the later definition holds.
            let position = frame.names.iter().rposition(|known| *known == name)?;
            Some(PathStart::Local { outwards, position })
        })
    }
}

/// Splits a path at its dots and checks the names.
pub(super) fn split_path(path: &str) -> Result<Vec<FieldPath>, Error> {
    if path.is_empty() || path.ends_with('.') {
        return Err(Error::Path {
            path: path.to_owned(),
            reason: "it must not end with a dot",
            code: Code::FIELD_PATH_TRAILING_DOT,
        });
    }
    let names = path.split('.').collect::<Vec<_>>();
    if names.len() > 200 {
        return Err(Error::Path {
            path: crate::value::shorten(path),
            reason: "it has more than 200 names",
            code: Code::OVERFLOW,
        });
    }
    let field = |name: &&str| match name_fault(name) {
        Some((reason, code)) => Err(Error::Path { path: path.replace('\0', "\\0"), reason, code }),
        None => FieldPath::parse(name).map_err(|_| zero_byte(path)),
    };
    names.iter().map(field).collect()
}

/// Rejects a name that a computed field cannot have.
pub(super) fn check_field_name(name: &str) -> Result<(), Error> {
    match name_fault(name) {
        Some((reason, code)) => Err(Error::Path { path: name.replace('\0', "\\0"), reason, code }),
        None => Ok(()),
    }
}

/// The flaw of a field's name, and MongoDB's number for it.
fn name_fault(name: &str) -> Option<(&'static str, Code)> {
    if name.is_empty() {
        return Some(("a name must not be empty", Code::FIELD_NAME_EMPTY));
    }
    if name.starts_with('$') {
        return Some(("a name must not start with a dollar sign", Code::FIELD_NAME_DOLLAR));
    }
    if name.contains('\0') {
        return Some((ZERO, Code::FIELD_NAME_ZERO_BYTE));
    }
    name.contains('.').then_some(("a name must not hold a dot", Code::FIELD_NAME_DOT))
}

/// The error for bytes that are not BSON.
#[expect(clippy::needless_pass_by_value, reason = "this is what an error is mapped by")]
pub(super) fn invalid(error: bson::error::Error) -> Error {
    Error::InvalidBson { reason: error.to_string() }
}

fn zero_byte(path: &str) -> Error {
    Error::Path { path: path.replace('\0', "\\0"), reason: ZERO, code: Code::FIELD_NAME_ZERO_BYTE }
}
