//! Where in an expression a reader is, and what that place defines: variables, paths, and how deep it is.
//!
//! Reading the expressions themselves is in `parse`.

use index::path::FieldPath;

use crate::expression::error::Error;
use crate::expression::node::{Node, Source};
use crate::expression::value::Value;
use crate::expression::variables::{Variables, check_readable_name};
use crate::pattern::Room;

/// How deeply expressions may be nested.
pub(super) const DEPTH_MAX: usize = 100;

const ZERO: &str = "a name must not hold a zero character";

/// Variables of MongoDB that this store does not have.
const UNSUPPORTED_VARIABLES: [&str; 6] =
    ["CLUSTER_TIME", "IS_MR", "JS_SCOPE", "SEARCH_META", "SEARCH_SCORE", "USER_ROLES"];

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

impl<'p> Parser<'p> {
    /// The outermost place of an expression.
    pub(super) fn new(variables: &'p Variables) -> Self {
        Self { variables, names: None, depth: 0 }
    }
}

impl Parser<'_> {
    /// What compiled patterns may take.
    pub(super) fn room(&self) -> &Room {
        self.variables.room()
    }

    /// Reads something where the given names are variables.
    pub(super) fn with_names<T>(self, names: &[&str], read: impl FnOnce(Parser<'_>) -> T) -> T {
        let frame = Frame { names, outer: self.names };
        read(Parser { variables: self.variables, names: Some(&frame), depth: self.depth })
    }

    pub(super) fn deeper(self) -> Result<Self, Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooDeep { limit: DEPTH_MAX });
        }
        Ok(Self { depth: self.depth + 1, ..self })
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
