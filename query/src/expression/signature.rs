//! Operators whose arguments have names: which names there are, which must be given, and MongoDB's numbers for an
//! object of arguments that is wrong.

use bson::RawBsonRef;

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::Node;
use crate::expression::parser::{Parser, invalid};
use crate::expression::value::type_name;

/// The named arguments of an operator, and MongoDB's numbers for what can be wrong with them.
#[derive(Clone, Copy)]
pub(super) struct Signature {
    /// All names, in the order in which the operator's function counts them.
    pub(super) names: &'static [&'static str],
    /// The number of them that must be given: the first `required` names.
    pub(super) required: usize,
    pub(super) not_object: Code,
    pub(super) unknown: Code,
    /// The number for each required name that is missing; the last one holds for all that follow.
    pub(super) missing: &'static [Code],
}

impl Signature {
    /// Splits the object of arguments: the result has the operand of each name, in the order of `names`.
    pub(super) fn read<'b, const N: usize>(
        &self,
        operator: &'static str,
        operand: RawBsonRef<'b>,
    ) -> Result<[Option<RawBsonRef<'b>>; N], Error> {
        let fault = |fault, code| Error::Argument { operator, fault, code };
        let Some(document) = operand.as_document() else {
            return Err(fault(Fault::NotAnObject { found: type_name(operand) }, self.not_object));
        };
        let mut given = [None; N];
        // Unknown names come before missing ones: a name with a typing error is both, and the first says
        // more.
        for field in document {
            let (name, value) = field.map_err(invalid)?;
            let position = self.names.iter().position(|known| *known == name.as_str());
            let Some(slot) = position.and_then(|position| given.get_mut(position)) else {
                let argument = name.as_str().to_owned();
                return Err(fault(Fault::Unknown { argument }, self.unknown));
            };
            // A name that is given twice: the later operand holds.
            *slot = Some(value);
        }
        for (position, argument) in self.names.iter().copied().enumerate().take(self.required) {
            if given.get(position).is_some_and(Option::is_none) {
                let code = self.missing.get(position).or(self.missing.last()).copied();
                return Err(fault(Fault::Missing { argument }, code.unwrap_or(self.unknown)));
            }
        }
        Ok(given)
    }

    /// Parses the object of arguments, each of which is an expression.
    pub(super) fn parse(
        &self,
        parser: Parser<'_>,
        operator: &'static str,
        operand: RawBsonRef<'_>,
    ) -> Result<Vec<Option<Node>>, Error> {
        /// More names than any operator has.
        const NAMES_MAX: usize = 12;
        let given = self.read::<NAMES_MAX>(operator, operand)?;
        let given = given.into_iter().take(self.names.len());
        given.map(|value| value.map(|value| parser.operand(value)).transpose()).collect()
    }
}
