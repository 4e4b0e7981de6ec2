//! The keys of a document in a wildcard index.

use bson::{RawBsonRef, RawDocument};

use super::{ExtractedKeys, KeyExtractor};
use crate::collation::SIMPLE;
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
        let fields = self.spec.fields().len();
        let mut has_arrays = false;
        self.paths.visit(document, &mut || has_arrays = true, &mut |path, value| {
            // Paths are names of fields, which are not texts.
            keys.append(RawBsonRef::String(path), 0, self.spec, &SIMPLE);
            keys.append(value, 1, self.spec, self.spec.collation());
            keys.finish()
        })?;
        keys.sort();
        if has_arrays {
            // One mark for all paths: an index with a mark for each could grow without bounds.
            keys.arrays.resize(fields, ArrayComponents::NONE);
            if let Some(anywhere) = keys.arrays.last_mut() {
                anywhere.insert(0);
            }
        }
        Ok(())
    }
}
