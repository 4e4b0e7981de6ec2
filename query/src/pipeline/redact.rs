//! `$redact`: an expression decides for the document, and for each object in it, whether it is kept as it is, left out,
//! or kept with its own objects decided one by one.

use bson::raw::CStr;
use bson::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::expression::Variables;
use crate::expression::scoped::ScopedExpression;
use crate::pipeline::error::Fault;
use crate::value::{describe, elements};

const STAGE: &str = "$redact";
const KEEP: &str = "keep";
const PRUNE: &str = "prune";
const DESCEND: &str = "descend";

/// The expression of a `$redact`.
#[derive(Clone, Debug)]
pub(super) struct Redaction {
    expression: ScopedExpression,
}

/// The verdict of the expression about an object.
#[derive(Clone, Copy)]
enum Verdict {
    Keep,
    Prune,
    Descend,
}

impl Redaction {
    /// Parses the argument of `$redact`: any expression.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        let constants = [("KEEP", KEEP), ("PRUNE", PRUNE), ("DESCEND", DESCEND)];
        Ok(Self { expression: ScopedExpression::parse(operand, &constants, variables)? })
    }

    /// The rest of a document. Returns `None` if it is left out.
    pub(super) fn apply(
        &self,
        document: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<RawDocumentBuf>, Fault> {
        Walk { redaction: self, root: document, variables }.object(document)
    }
}

/// The context of a walk through one document.
#[derive(Clone, Copy)]
struct Walk<'w> {
    redaction: &'w Redaction,
    root: &'w RawDocument,
    variables: &'w Variables,
}

/// The rest of a value.
enum Left {
    /// All of it: it is neither an object nor an array.
    Same,
    Object(RawDocumentBuf),
    Array(RawArrayBuf),
    Nothing,
}

impl Walk<'_> {
    /// The rest of an object. Documents are checked for their depth before, so the recursion is bounded.
    fn object(self, object: &RawDocument) -> Result<Option<RawDocumentBuf>, Fault> {
        // Each level copies what is below it, so each is counted in full.
        self.variables.operation().pass(object.as_bytes().len())?;
        let mut left = RawDocumentBuf::new();
        // Asked before anything below is looked at: what is pruned costs no more than its verdict.
        match self.verdict(object)? {
            Verdict::Keep => return Ok(Some(object.to_owned())),
            Verdict::Prune => return Ok(None),
            Verdict::Descend => {}
        }
        // Whatever is left of a field stays at its place.
        for field in object {
            let (name, value) = field.map_err(crate::raw::Malformed::from)?;
            self.field(name, value, &mut left)?;
        }
        Ok(Some(left))
    }

    /// Adds what is left of a field.
    fn field(self, name: &CStr, value: RawBsonRef<'_>, left: &mut RawDocumentBuf) -> Result<(), Fault> {
        match self.value(value)? {
            Left::Same => left.append(name, value),
            Left::Object(object) => left.append(name, object),
            Left::Array(array) => left.append(name, array),
            Left::Nothing => {}
        }
        Ok(())
    }

    /// The rest of an array: objects may be left out, every other element is kept.
    fn array(self, array: &RawArray) -> Result<RawArrayBuf, Fault> {
        self.variables.operation().pass(array.as_bytes().len())?;
        let mut left = RawArrayBuf::new();
        // The array is built again, so that the places of what is left follow each other.
        for element in elements(array) {
            match self.value(element)? {
                Left::Same => left.push(element),
                Left::Object(object) => left.push(object),
                Left::Array(array) => left.push(array),
                Left::Nothing => {}
            }
        }
        Ok(left)
    }

    fn value(self, value: RawBsonRef<'_>) -> Result<Left, Fault> {
        if let Some(object) = value.as_document() {
            return Ok(self.object(object)?.map_or(Left::Nothing, Left::Object));
        }
        // An array itself is never left out, nor is what is not an object.
        value.as_array().map_or(Ok(Left::Same), |array| Ok(Left::Array(self.array(array)?)))
    }

    fn verdict(self, object: &RawDocument) -> Result<Verdict, Fault> {
        let expected = "$$KEEP, $$PRUNE or $$DESCEND as the value of the expression";
        self.redaction.expression.with_value(self.root, object, self.variables, |value| {
            let value = value.unwrap_or(RawBsonRef::Null);
            match value.as_str() {
                Some(KEEP) => Ok(Verdict::Keep),
                Some(PRUNE) => Ok(Verdict::Prune),
                Some(DESCEND) => Ok(Verdict::Descend),
                Some(_) | None => {
                    let found = describe(value);
                    Err(Fault::Operand { stage: STAGE, expected, found, code: Code::REDACT_RESULT })
                }
            }
        })?
    }
}
