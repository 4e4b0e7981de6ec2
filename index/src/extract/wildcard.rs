//! The keys of a document in a wildcard index.

use bson::{RawBsonRef, RawDocument};

use super::{ExtractedKeys, KeyExtractor};
use crate::collation::Collation;
use crate::error::Error;
use crate::multikey::ArrayComponents;
use crate::spec::IndexSpec;
use crate::wildcard::WildcardPaths;

/// A key for each value at a path of the index: the path and the value.
pub(super) struct WildcardKeys<'a> {
    pub(super) spec: &'a IndexSpec,
    pub(super) paths: &'a WildcardPaths,
}

impl KeyExtractor for WildcardKeys<'_> {
    fn extract(&self, document: &RawDocument, keys: &mut ExtractedKeys) -> Result<(), Error> {
        let [path_field, value_field] = self.spec.fields() else { return Ok(()) };
        let mut has_arrays = false;
        self.paths.visit(document, &mut || has_arrays = true, &mut |path, value| {
            // Paths are names of fields, which are no texts.
            keys.append(RawBsonRef::String(path), path_field, &Collation::simple());
            keys.append(value, value_field, self.spec.collation());
            keys.finish()
        })?;
        keys.sort();
        if has_arrays {
            // One mark for all paths: an index with a mark for each could grow without bounds.
            let mut anywhere = ArrayComponents::NONE;
            anywhere.insert(0);
            keys.arrays.extend([ArrayComponents::NONE, anywhere]);
        }
        Ok(())
    }
}
