//! A document that is inserted alone: its numbers, and others if those are in use.
//!
//! The common document lacks its `_id` and the only field of its collection, which may be one and the same. It was
//! worth a shortcut of its own: the value is put where it belongs, without copying the document. Every other document is
//! copied into a draft with room for its values.

use base::error::{Error, Result};
use base::generated::GeneratedValues;
use bson::Document;
use sequence::generator::Generator;

use crate::catalog::sequences::AutoField;
use crate::document::complete::CopiedDrafts;
use crate::document::draft::{Draft, Drafts};
use crate::document::field_tree::Surveyed;
use crate::document::timestamp::Timestamps;
use crate::write::Target;
use crate::write::auto_increment::copies::values_of;
use crate::write::auto_increment::gapless::Acceptance;
use crate::write::auto_increment::holds::SequenceHolds;
use crate::write::complete::{CompleteDraft, DocumentId, MadeId};
use crate::write::duplicate::taken_key;

/// A document that is inserted alone, with the sequences that it is numbered by.
pub(in crate::write) struct OneDocument<'a> {
    /// The document as it came.
    drafts: &'a mut Drafts,
    form: Form<'a>,
    holds: SequenceHolds<'a>,
}

/// The way in which the values get into the document.
enum Form<'a> {
    /// Its collection has no auto-increment field.
    Unnumbered,
    InPlace(InPlace<'a>),
    Copied(Copied),
}

/// A document that lacks the only field and the `_id`.
struct InPlace<'a> {
    field: &'a AutoField,
    timestamps: Timestamps,
    value: i64,
    /// The offset of the value in the drafts. `None` if it is the `_id`, which is put in front later.
    offset: Option<usize>,
}

/// A document that is copied, with what was seen of the original.
struct Copied {
    surveyed: Surveyed,
    copies: CopiedDrafts,
    generated: GeneratedValues,
}

impl<'a> OneDocument<'a> {
    /// The only document of `drafts`, not numbered yet.
    #[inline]
    pub(in crate::write) fn of(drafts: &'a mut Drafts) -> Self {
        Self { drafts, form: Form::Unnumbered, holds: SequenceHolds::default() }
    }

    /// Enters the sequences of the collection and acquires the values that the document lacks.
    ///
    /// # Errors
    /// What makes the document unfit to be stored, what a field's mode rejects, and what a sequence rejects.
    #[inline]
    pub(in crate::write) fn number(&mut self, target: Target<'a>) -> Result<()> {
        if target.fields.is_empty() {
            return Ok(());
        }
        // The only validation of this document. What it sees decides the form, and goes along with a copy.
        let document = self.drafts.documents().next().expect("an insert has a document");
        let surveyed = target.fields.tree().survey(document).map_err(Error::write)?;
        match target.fields.single() {
            // The one decision of this step. Measured: a copy costs a twentieth of such an insert.
            Some(field) if surveyed.lacks_id_and_fields() => {
                self.number_in_place(target, field, surveyed.timestamps())
            }
            Some(_) | None => {
                // Turns first, then the copy: numbers depend on what the writers before this one stored.
                self.holds = SequenceHolds::enter(target)?;
                self.copy(target, surveyed)
            }
        }
    }

    /// Whether other writers wait for this insert.
    #[inline]
    pub(in crate::write) fn takes_turns(&self) -> bool {
        self.holds.takes_turns()
    }

    /// The document with its values and an `_id`, to be prepared and stored; and the sequences whose marks are stored
    /// with it.
    #[inline]
    pub(in crate::write) fn complete(
        &mut self,
        generator: &Generator,
    ) -> Result<(CompleteDraft<'_>, &mut SequenceHolds<'a>)> {
        let complete = match &mut self.form {
            Form::Unnumbered => CompleteDraft::of(only(self.drafts), generator).map_err(Error::write)?,
            Form::InPlace(InPlace { timestamps, value, offset, .. }) => {
                let id = offset.map_or(MadeId::Integer(*value), |_| MadeId::object_id(generator));
                CompleteDraft { draft: only(self.drafts), id: DocumentId::Made(id), timestamps: *timestamps }
            }
            Form::Copied(Copied { copies, .. }) => {
                CompleteDraft::of(only(&mut copies.drafts), generator).map_err(Error::write)?
            }
        };
        Ok((complete, &mut self.holds))
    }

    /// The values generated for the document so far.
    pub(in crate::write) fn generated(&self) -> GeneratedValues {
        match &self.form {
            Form::Unnumbered => GeneratedValues::default(),
            Form::InPlace(InPlace { field, value, .. }) => GeneratedValues::of_one(&field.name, *value),
            Form::Copied(Copied { generated, .. }) => generated.clone(),
        }
    }

    /// To be called with the error of what stores the document.
    pub(in crate::write) fn failed(&self, error: &Error) {
        self.holds.failed(error);
    }

    /// Acquires the next values if `error` says that a generated one is in use by another document, as SequoiaDB does, and
    /// gives up the rest of its block. Returns whether the document is to be stored again.
    pub(in crate::write) fn renumber(&mut self, target: Target<'_>, error: &Error) -> Result<bool> {
        let Some(index) = self.index_in_use(target, error) else { return Ok(false) };
        match &mut self.form {
            Form::Unnumbered => return Ok(false),
            Form::InPlace(InPlace { value, offset, .. }) => {
                // The drafts have the value before already, so it is overwritten.
                *value = self.holds.next_of_only(target)?;
                if let Some(offset) = offset {
                    self.drafts.write_value(*offset, *value);
                }
            }
            Form::Copied(Copied { surveyed, .. }) => {
                let surveyed = surveyed.clone();
                self.pass(index)?;
                self.holds.give_up(index);
                // Copied again: preparing the first copy may have moved its fields.
                self.copy(target, surveyed)?;
            }
        }
        Ok(true)
    }

    /// Writes that gapless values were passed, if `error` says that the second value is in use too. Both are in use by
    /// other documents, so passing them leaves no gap; without this the next insert would try the same two again.
    pub(in crate::write) fn write_passed(&mut self, target: Target<'_>, error: &Error) -> Result<()> {
        let Some(index) = self.index_in_use(target, error) else { return Ok(()) };
        self.pass(index)?;
        self.holds.write_passed(target)
    }

    /// Makes what was committed with the document the state of its sequences, and ends the hold on them. Returns what was
    /// generated.
    #[inline]
    pub(in crate::write) fn publish(self, target: Target<'_>) -> GeneratedValues {
        let generated = match self.form {
            Form::Unnumbered => return GeneratedValues::default(),
            Form::InPlace(InPlace { field, value, .. }) => GeneratedValues::of_one(&field.name, value),
            Form::Copied(Copied { generated, .. }) => generated,
        };
        self.holds.finish(target);
        generated
    }

    #[inline]
    fn number_in_place(
        &mut self,
        target: Target<'a>,
        field: &'a AutoField,
        timestamps: Timestamps,
    ) -> Result<()> {
        let (holds, value) = SequenceHolds::enter_only(target)?;
        self.holds = holds;
        let path = field.field.path();
        // The `_id` needs no room in the fields: its place is the headroom in front.
        let offset = (path != "_id").then(|| self.drafts.append_integer(path, value));
        self.form = Form::InPlace(InPlace { field, timestamps, value, offset });
        Ok(())
    }

    fn copy(&mut self, target: Target<'_>, surveyed: Surveyed) -> Result<()> {
        let document = self.drafts.documents().next().expect("an insert has a document");
        let mut copies = CopiedDrafts::default();
        let field = |position| &target.fields.at(position).field;
        copies.push_surveyed(document, surveyed.clone(), target.fields.tree(), field)?;
        self.holds.fill(target, &mut copies, Acceptance::AllOrNone)?;
        let generated = values_of(target, &copies.drafts, &copies.values);
        self.form = Form::Copied(Copied { surveyed, copies, generated });
        Ok(())
    }

    /// Passes the value that is in use, and no other: those of other gapless fields are given again.
    fn pass(&mut self, index: &Document) -> Result<()> {
        let Form::Copied(Copied { copies, .. }) = &self.form else { return Ok(()) };
        // Back to the state before this document, and then past the one value: whatever else this attempt acquired is given
        // again.
        self.holds.begin_again()?;
        self.holds.pass(copies, 0, Some(index));
        Ok(())
    }

    /// The fields of the index, if the error is a duplicate key of one that holds an auto-increment field, and the
    /// document brings no value itself.
    fn index_in_use<'e>(&self, target: Target<'_>, error: &'e Error) -> Option<&'e Document> {
        if let Form::Copied(Copied { copies, .. }) = &self.form
            && copies.brings_values()
        {
            return None;
        }
        let pattern = taken_key(error)?.pattern;
        // Any unique index may be the one that rejected. A generated value can be at fault only if the index has its field;
        // else another value would be rejected for the same reason.
        let is_numbered = target.fields.iter().any(|field| pattern.contains_key(field.field.path()));
        is_numbered.then_some(pattern)
    }
}

#[inline]
fn only(drafts: &mut Drafts) -> Draft<'_> {
    drafts.iter_mut().next().expect("an insert has a document")
}
