//! Inserting one document that lacks both an `_id` and the only auto-increment field of its collection, which may be one
//! and the same: the common case, in which the value is put where it belongs without copying the document.

use sequence::generator::Generator;

use crate::catalog::sequences::AutoField;
use crate::document::draft::{Drafts, Timestamps};
use crate::document::validate::validate;
use crate::error::{Error, Result};
use crate::generated::GeneratedValues;
use crate::write::Target;
use crate::write::insert::{Inserted, insert_prepared};
use crate::write::numbered::{index_on_field, settle, unsynced};
use crate::write::numbering::Writer;
use crate::write::prepare::{KEY_BYTES, MadeId, prepare_made};

/// Position of the only field.
const ONLY: usize = 0;

/// What is known of such a document.
pub(super) struct Lacking<'a> {
    field: &'a AutoField,
    is_id: bool,
    timestamps: Timestamps,
}

impl<'a> Lacking<'a> {
    /// Nothing if the collection has several fields or a nested one, if the document has an `_id` or something in the
    /// field's place, or if it cannot be stored.
    #[inline]
    pub(super) fn of(target: Target<'a>, document: &Drafts) -> Option<Self> {
        let field = target.fields.single()?;
        let is_id = field.field.path() == "_id";
        let document = document.documents().next()?;
        let valid = if is_id { validate(document).ok()? } else { target.fields.tree().unmet(document)? };
        let timestamps = Timestamps::of(&valid);
        valid.id_element().is_none().then_some(Self { field, is_id, timestamps })
    }

    /// Stores the document. As for all others, a value that is in use is passed once.
    #[inline]
    pub(super) fn insert(
        &self,
        target: Target<'_>,
        generator: &Generator,
        document: &mut Drafts,
    ) -> Result<Inserted> {
        let (mut writer, mut value) = Writer::enter_taking(target, ONLY)?;
        let line = unsynced(target, writer.takes_turns());
        let place = (!self.is_id).then(|| document.append_integer(self.field.field.path(), value));
        let mut id = self.made_id(generator, value);
        if let Err(error) = self.store(line, document, id, &mut writer) {
            if !is_in_use(target, &error) {
                return Err(error);
            }
            (id, value) = self.store_next(line, generator, (document, place), &mut writer)?;
        }
        writer.finish(target);
        settle(target, line)?;
        Ok(Inserted { id: id.value(), generated: GeneratedValues::of_one(&self.field.name, value) })
    }

    /// Stores the document with the value that follows the one that is in use.
    #[cold]
    fn store_next(
        &self,
        line: Target<'_>,
        generator: &Generator,
        (document, place): (&mut Drafts, Option<usize>),
        writer: &mut Writer<'_>,
    ) -> Result<(MadeId, i64)> {
        // A gapless sequence has passed the value by taking it.
        writer.give_up();
        let value = writer.next(line)?;
        if let Some(place) = place {
            document.write_value(place, value);
        }
        let id = self.made_id(generator, value);
        match self.store(line, document, id, writer) {
            Ok(()) => Ok((id, value)),
            Err(error) => {
                if is_in_use(line, &error) {
                    // Both values are in use by other documents, so passing them leaves no gap.
                    writer.write_alone(line, line.level)?;
                }
                Err(error)
            }
        }
    }

    #[inline]
    fn made_id(&self, generator: &Generator, value: i64) -> MadeId {
        if self.is_id { MadeId::Integer(value) } else { MadeId::object_id(generator) }
    }

    #[inline]
    fn store(
        &self,
        target: Target<'_>,
        document: &mut Drafts,
        id: MadeId,
        writer: &mut Writer<'_>,
    ) -> Result<()> {
        let draft = document.iter_mut().next().expect("insert_one() is given a document");
        let mut scratch = Vec::with_capacity(KEY_BYTES);
        let prepared = prepare_made(draft, (id, self.timestamps), target.collection.id, &mut scratch)
            .map_err(Error::write)?;
        insert_prepared(target, &prepared, writer)
    }
}

fn is_in_use(target: Target<'_>, error: &Error) -> bool {
    index_on_field(target, error).is_some()
}
