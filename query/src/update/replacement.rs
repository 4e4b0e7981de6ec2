//! Distinguishing replacements from updates: both are given as one document.

use bson::RawDocument;

use crate::raw::Fields;
use crate::update::error::Error;

/// Whether a document given as an update is a replacement: its first field name is not an operator.
///
/// # Errors
/// [`Error::DollarField`] if an operator follows a plain field, [`Error::UnknownOperator`] if a plain field follows an
/// operator.
pub fn is_replacement(update: &RawDocument) -> Result<bool, Error> {
    let mut is_replacement = true;
    for (at, field) in Fields::of(update).enumerate() {
        let name = field?.name();
        let is_operator = name.starts_with('$');
        if at == 0 {
            is_replacement = !is_operator;
        // The three names of a DBRef may be stored at the top level.
        } else if is_replacement && is_operator && !matches!(name, "$ref" | "$id" | "$db") {
            return Err(Error::DollarField { name: name.to_owned() });
        } else if !is_replacement && !is_operator {
            return Err(Error::UnknownOperator { operator: name.to_owned() });
        }
    }
    Ok(is_replacement)
}
