//! Options and writes as values, by which two calls with one token are distinguished.

use bson::{Bson, Document};

use crate::options::collation::Collation;
use crate::options::indexes::Hint;
use crate::options::writes::UpdateModifications;

/// A value that can be an argument of a call.
pub(crate) trait Argument {
    fn to_argument(&self) -> Bson;
}

/// An option, if it was given.
pub(crate) fn argument<A: Argument>(given: Option<&A>) -> Option<Bson> {
    given.map(Argument::to_argument)
}

impl Argument for bool {
    fn to_argument(&self) -> Bson {
        Bson::Boolean(*self)
    }
}

impl Argument for Document {
    fn to_argument(&self) -> Bson {
        Bson::Document(self.clone())
    }
}

impl Argument for Vec<Document> {
    fn to_argument(&self) -> Bson {
        Bson::Array(self.iter().map(Argument::to_argument).collect())
    }
}

impl Argument for UpdateModifications {
    fn to_argument(&self) -> Bson {
        match self {
            Self::Document(operators) => operators.to_argument(),
            Self::Pipeline(stages) => stages.to_argument(),
        }
    }
}

impl Argument for Hint {
    fn to_argument(&self) -> Bson {
        match self {
            Self::Keys(keys) => keys.to_argument(),
            Self::Name(name) => Bson::String(name.clone()),
        }
    }
}

impl Argument for Collation {
    fn to_argument(&self) -> Bson {
        Bson::Document(self.to_document())
    }
}
