//! Updates that move no byte of a document: counters, flags, dates, texts of equal length. The document is copied once and the
//! new values are written over the old ones.
//!
//! This decides nothing by itself. Whatever is more than that, an error too, is left to the walk.

use bson::RawDocument;
use bson::spec::ElementType;

use crate::numeric::Numeric;
use crate::operation::Interruption;
use crate::raw::{Field, Fields, Operand};
use crate::update::action::Action;
use crate::update::context::Context;
use crate::update::path::Component;
use crate::update::tree::{UpdateBranch, UpdateNode};

/// The limit of fields that are searched one by one: each is searched from the start of its document.
const FIELDS_MAX: usize = 4;

/// Whether an update may be one that moves no byte, whatever the document is.
pub(super) fn may_patch(tree: &UpdateBranch) -> bool {
    fields_of(tree).is_some_and(|fields| fields <= FIELDS_MAX)
}

/// The number of fields that a branch changes. `None` if it is more than new values of fields.
fn fields_of(branch: &UpdateBranch) -> Option<usize> {
    branch.children().try_fold(0, |sum, (component, node)| {
        let fields = match (component, node) {
            (Component::Name(_), UpdateNode::Branch(below)) => fields_of(below)?,
            (Component::Name(_), UpdateNode::Leaf(action)) => {
                matches!(**action, Action::Set(_) | Action::Arithmetic(..)).then_some(1)?
            }
            (Component::Matched | Component::All | Component::Filtered(_), _) => return None,
        };
        Some(sum + fields)
    })
}

/// The new value of a field, which replaces the old one.
enum NewValue<'u> {
    Operand(&'u Operand),
    Number(Numeric),
}

/// The new values, each with the offset in the document of the old one.
type Patches<'u> = Vec<(usize, NewValue<'u>)>;

/// The document with the values of an update that [may be one](may_patch) in the places of the old ones. Returns `None` if only the
/// walk can say what it becomes.
pub(super) fn patched(
    tree: &UpdateBranch,
    document: &RawDocument,
    context: &Context,
) -> Result<Option<Vec<u8>>, Interruption> {
    let mut patches = Patches::with_capacity(FIELDS_MAX);
    if !find(tree, document, 0, context, &mut patches)? {
        return Ok(None);
    }
    // Only now: a large document is not copied twice.
    let mut bytes = document.as_bytes().to_vec();
    let mut write = |at: usize, new: &[u8]| {
        if let Some(old) = bytes.get_mut(at..at + new.len()) {
            old.copy_from_slice(new);
        }
    };
    for (at, value) in patches {
        match value {
            NewValue::Operand(operand) => write(at, operand.bytes()),
            NewValue::Number(number) => number.with_bytes(|new| write(at, new)),
        }
    }
    Ok(Some(bytes))
}

/// Finds what a branch changes in a document that begins at the offset `base` of the whole one. Returns `false` if it is more than
/// patches.
fn find<'u>(
    branch: &'u UpdateBranch,
    document: &RawDocument,
    base: usize,
    context: &Context,
    patches: &mut Patches<'u>,
) -> Result<bool, Interruption> {
    for (component, node) in branch.children() {
        let Component::Name(name) = component else { return Ok(false) };
        let Some(field) = first(document, name, context)? else { return Ok(false) };
        let at = base + field.end() - field.bytes().len();
        let is_found = match node {
            UpdateNode::Leaf(action) => match new_value(action, &field) {
                Some(value) => {
                    patches.push((at, value));
                    true
                }
                None => false,
            },
            UpdateNode::Branch(below) if field.kind() == ElementType::EmbeddedDocument => {
                let Ok(inner) = field.container() else { return Ok(false) };
                find(below, inner, at, context, patches)?
            }
            UpdateNode::Branch(_) => false,
        };
        if !is_found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first field of a name. `None` if there is none, or something before it cannot be read.
fn first<'d>(
    document: &'d RawDocument,
    name: &str,
    context: &Context,
) -> Result<Option<Field<'d>>, Interruption> {
    let mut fields = Fields::of(document);
    loop {
        while fields.pass(|other| other == name.as_bytes()) {
            context.operation.step()?;
        }
        context.operation.step()?;
        match fields.next() {
            Some(Ok(field)) if field.name() == name => return Ok(Some(field)),
            // A name with other letters than those of ASCII is not passed.
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Ok(None),
        }
    }
}

/// The new value of a field, if it has the type and the length of the old one.
fn new_value<'u>(action: &'u Action, field: &Field<'_>) -> Option<NewValue<'u>> {
    if let Action::Set(operand) = action {
        let fits = operand.kind() == field.kind() && operand.bytes().len() == field.bytes().len();
        return fits.then_some(NewValue::Operand(operand));
    }
    // Only these two: see `may_patch`. Numbers of one type have one length.
    let Action::Arithmetic(operation, operand) = action else { return None };
    let result = operation.apply(Numeric::of(field.value().ok()?)?, *operand)?;
    (result.kind() == field.kind()).then_some(NewValue::Number(result))
}

#[cfg(test)]
mod tests {
    use bson::raw::{CStr, cstr};
    use bson::{DateTime, RawBson, RawDocumentBuf, Timestamp, rawdoc};
    use index::collation::Collation;

    use super::*;
    use crate::update::context::Phase;
    use crate::update::parse::Operators;

    fn context() -> Context {
        Context::new(Phase::Modify, DateTime::from_millis(0), Timestamp { time: 0, increment: 1 })
    }

    fn parsed(update: &RawDocument) -> Operators {
        Operators::parse(update, &[], &Collation::simple()).expect("an update")
    }

    /// The walk and the patch agree. Returns whether there was a patch.
    #[track_caller]
    fn agrees(update: &RawDocument, document: &RawDocument) -> bool {
        let mut operators = parsed(update);
        if !operators.is_patch {
            return false;
        }
        let patched = patched(&operators.tree, document, &context()).expect("nothing ends it");
        operators.is_patch = false;
        let walked = operators.apply(document, &context());
        let Some(patched) = patched else { return false };
        assert_eq!(Ok(patched), walked, "{update:?} {document:?}");
        true
    }

    #[test]
    fn values_of_the_same_length_are_written_over_the_old_ones() {
        let document = rawdoc! {
            "_id": 1, "i": 1, "l": 2_i64, "d": 0.5, "t": "abc", "f": true, "ä": 1,
            "in": { "i": 1, "t": "xyz", "deep": { "l": 7_i64 } }, "array": [1, 2],
        };
        let patches = [
            rawdoc! { "$inc": { "i": 1 } },
            rawdoc! { "$inc": { "l": 1 } },
            rawdoc! { "$inc": { "l": -1_i64 }, "$mul": { "i": 3 } },
            rawdoc! { "$inc": { "d": 1 } },
            rawdoc! { "$mul": { "d": 2_i64 } },
            rawdoc! { "$set": { "t": "xyz", "f": false } },
            rawdoc! { "$set": { "in.t": "abc", "in.deep.l": 9_i64, "ä": 2 } },
            rawdoc! { "$inc": { "in.i": 0 } },
            rawdoc! { "$set": { "array": [3, 4] } },
        ];
        for update in patches {
            assert!(agrees(&update, &document), "{update:?}");
        }
        let others = [
            // Another type or length.
            rawdoc! { "$inc": { "i": 1_i64 } },
            rawdoc! { "$inc": { "i": i32::MAX } },
            rawdoc! { "$inc": { "d": 1, "i": 0.5 } },
            rawdoc! { "$set": { "t": "longer" } },
            rawdoc! { "$set": { "f": 1 } },
            // Missing, or no document.
            rawdoc! { "$inc": { "new": 1 } },
            rawdoc! { "$set": { "in.new": 1 } },
            rawdoc! { "$set": { "array.0": 5 } },
            // Rejected.
            rawdoc! { "$inc": { "l": i64::MAX } },
            rawdoc! { "$inc": { "t": 1 } },
            rawdoc! { "$set": { "t.x": 1 } },
            // More than values, or than a few.
            rawdoc! { "$inc": { "i": 1 }, "$unset": { "t": "" } },
            rawdoc! { "$set": { "_id": 1 } },
            rawdoc! { "$set": { "i": 1, "l": 1_i64, "d": 1.0, "t": "123", "f": true } },
        ];
        for update in others {
            assert!(!agrees(&update, &document), "{update:?}");
        }
    }

    #[test]
    fn of_fields_with_one_name_the_first_is_changed() {
        let mut bytes = rawdoc! { "a": 1, "b": 1 }.into_bytes();
        let at = bytes.windows(3).position(|part| part == [0x10, b'b', 0]).expect("the field");
        bytes[at + 1] = b'a';
        let document = RawDocumentBuf::from_bytes(bytes).expect("a document");
        assert!(agrees(&rawdoc! { "$inc": { "a": 1 } }, &document));
    }

    /// Every update of small documents: whatever can be patched is what the walk makes of it.
    #[test]
    fn patches_agree_with_the_walk_on_every_pair_of_values() {
        let values = [
            bson::rawbson!(1),
            bson::rawbson!(-1_i64),
            bson::rawbson!(0.5),
            bson::rawbson!(f64::NAN),
            bson::rawbson!(i32::MAX),
            bson::rawbson!(i64::MIN),
            bson::rawbson!("abc"),
            bson::rawbson!("äb"),
            bson::rawbson!(null),
            bson::rawbson!({ "b": 1 }),
            bson::rawbson!([1]),
            RawBson::Decimal128("1.5".parse().expect("a number")),
            RawBson::DateTime(DateTime::from_millis(7)),
        ];
        let updates = |operand: &RawBson| {
            let is_number = Numeric::of(operand.as_raw_bson_ref()).is_some();
            let operators =
                if is_number { &[cstr!("$set"), cstr!("$inc"), cstr!("$mul")][..] } else { &[cstr!("$set")] };
            let of_paths = |operator: &&'static CStr| {
                [cstr!("a"), cstr!("c.b")].map(|path| rawdoc! { *operator: { path: operand.clone() } })
            };
            operators.iter().flat_map(of_paths).collect::<Vec<_>>()
        };
        let mut patches = 0;
        for stored in &values {
            let inner = rawdoc! { "b": stored.clone() };
            let document = rawdoc! { "z": 1, "a": stored.clone(), "c": inner };
            for update in values.iter().flat_map(updates) {
                patches += u32::from(agrees(&update, &document));
            }
        }
        assert!(patches > 100, "{patches}");
    }
}
