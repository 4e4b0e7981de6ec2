//! The fields that a pipeline needs of the documents that it reads.
//!
//! Its first stages make new documents of them. Where one of these reads only certain fields, an index may have them all.

use index::path::FieldPath;

use crate::pipeline::shape::Shape;
use crate::pipeline::stage::{PlacedStage, Stage};

/// The fields that the stages read. Returns `None` if they may read any.
pub(super) fn needed_fields(stages: &[PlacedStage]) -> Option<Vec<FieldPath>> {
    let mut paths = Vec::new();
    for placed in stages {
        match &placed.stage {
            // These drop documents, and leave the others as they are.
            Stage::Skip(_) | Stage::Limit(_) => {}
            Stage::Count(_) => return Some(paths),
            Stage::Shape(Shape::Project(projection)) => {
                paths.extend(projection.included_fields()?);
                return Some(paths);
            }
            Stage::Group(group) => {
                group.collect_fields(&mut paths)?;
                return Some(paths);
            }
            Stage::BucketAuto(buckets) => {
                buckets.collect_fields(&mut paths)?;
                return Some(paths);
            }
            Stage::Match(_)
            | Stage::Redact(_)
            | Stage::Windows(_)
            | Stage::Densify(_)
            | Stage::Sort(_)
            | Stage::Shape(Shape::Set(_) | Shape::Replace(_))
            | Stage::Unwind(_)
            | Stage::Lookup(_)
            | Stage::GraphLookup(_)
            | Stage::Union(_)
            | Stage::Sample(_)
            | Stage::Facet(_) => return None,
        }
    }
    // Whole documents come out at the end.
    None
}
