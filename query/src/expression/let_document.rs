//! The variables of a command's `let`: a document of names with constant expressions.
//!
//! `variables` cannot hold this: it is below the parser, which asks it for names, and these variables are parsed.

use bson::RawDocument;

use crate::expression::error::Error;
use crate::expression::node::Scope;
use crate::expression::parse::parse;
use crate::expression::variables::{Variables, check_name};

impl Variables {
    /// Adds the variables of a command's `let`: names with constant expressions, each of which may use the variables
    /// before it.
    ///
    /// # Errors
    /// [`Error::VariableName`] for a name that a variable cannot have, [`Error::VariableNotConstant`] for an
    /// expression that reads a field, and the errors of parsing and evaluating the expressions.
    pub fn with_let(self, let_document: &RawDocument) -> Result<Self, Error> {
        let mut variables = self;
        let empty = bson::RawDocumentBuf::new();
        for element in let_document {
            let (name, value) = element.map_err(|error| Error::InvalidBson { reason: error.to_string() })?;
            let name = name.as_str();
            check_name(name)?;
            // Variables before this one are defined already, so the expression may use them.
            let tree = parse(value, &variables)?;
            // There is no document yet: a field would be missing without a word, where MongoDB rejects it.
            if tree.reads_document() {
                return Err(Error::VariableNotConstant { name: name.to_owned() });
            }
            let value = tree.evaluate(Scope::new(&empty, &variables))?.into_static();
            variables.define(name, value);
        }
        Ok(variables)
    }
}
