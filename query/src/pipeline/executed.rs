//! Stages as they are executed, in the form in which they were given: what an explanation shows.

use bson::raw::cstr;
use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};

use crate::pipeline::lookup;
use crate::pipeline::stage::{PlacedStage, Stage, Unwound};

/// The stage that was given at a position. Returns `None` if it became part of another one.
pub(super) fn stage(stages: &[PlacedStage], position: usize, given: &RawDocument) -> Option<RawDocumentBuf> {
    for placed in stages {
        match &placed.stage {
            Stage::Lookup(join) => {
                let Some(unwound) = &join.unwound else { continue };
                if unwound.position == position || unwound.matches.contains(&position) {
                    return None;
                }
                if placed.position == position {
                    return Some(lookup_with(unwound, given));
                }
            }
            // Part of its filter may have become part of another stage.
            Stage::Match(selection) if placed.position == position => {
                return Some(rawdoc! { "$match": selection.given.clone() });
            }
            Stage::Match(_)
            | Stage::Shape(_)
            | Stage::Sort(_)
            | Stage::Skip(_)
            | Stage::Limit(_)
            | Stage::Count(_)
            | Stage::Group(_)
            | Stage::BucketAuto(_)
            | Stage::Windows(_)
            | Stage::Densify(_)
            | Stage::Redact(_)
            | Stage::Unwind(_)
            | Stage::GraphLookup(_)
            | Stage::Sample(_)
            | Stage::Facet(_)
            | Stage::Union(_) => {}
        }
    }
    Some(given.to_owned())
}

/// A `$lookup` with what became part of it, by MongoDB's names.
fn lookup_with(unwound: &Unwound, given: &RawDocument) -> RawDocumentBuf {
    // It was parsed, so it is an object.
    let Ok(argument) = given.get_document(lookup::STAGE) else { return given.to_owned() };
    let mut argument = argument.to_owned();
    let mut unwinding = rawdoc! { "preserveNullAndEmptyArrays": unwound.unwind.keeps_empty() };
    if let Some(path) = unwound.unwind.index_path() {
        unwinding.append(cstr!("includeArrayIndex"), path);
    }
    argument.append(cstr!("unwinding"), unwinding);
    if let Some(matching) = &unwound.matching {
        argument.append(cstr!("matching"), RawBson::Document(matching.given.clone()));
    }
    rawdoc! { "$lookup": argument }
}
