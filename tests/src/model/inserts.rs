//! Inserts into the naive database: documents are completed and numbered, and a generated value that is in use is tried
//! again, as the contract says.

use std::ops::Range;

use cairndb::bson::{Bson, Document};

use super::numbering::{Field, Want, complete};
use super::state::{Collection, Refusal, with_id};

/// MongoDB's number for what a sequence rejects within a batch that has begun.
const BAD_VALUE: i32 = 2;

/// The number of documents that a gapless sequence numbers at once behind a rejected one; then twice as many, and so
/// on.
const CHUNK_LEN_BEHIND_REFUSAL: usize = 8;

/// The values that were generated for a document, ascending by path.
pub(super) type Made = Vec<(&'static str, i64)>;

/// A document as it was completed, without a made `_id`, and what was generated for it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) document: Document,
    pub(super) made: Made,
}

/// The result for a batch, by position.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) stored: Vec<(usize, Stored)>,
    pub(super) refused: Vec<(usize, Refusal)>,
}

/// The action of a part of a batch at a rejected document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtRefusal {
    Stop,
    GoOn,
}

/// The reason why a document was not stored, and which fields had a generated value that is in use.
struct Refused {
    refusal: Refusal,
    in_use: Vec<usize>,
    /// A mode or a sequence rejected, which rejects a call and no single document of it.
    is_of_call: bool,
}

impl Refused {
    fn of_call(refusal: Refusal) -> Self {
        Self { refusal, in_use: Vec::new(), is_of_call: true }
    }
}

impl Batch {
    fn refuse(&mut self, positions: Range<usize>) {
        let refusal = Refusal { code: BAD_VALUE, index: None };
        self.refused.extend(positions.map(|position| (position, refusal.clone())));
    }
}

impl Collection {
    /// Stores a document; `made_id` is the `_id` that the engine made for it, if it did.
    pub(super) fn insert_one(&mut self, document: &Document, made_id: &Bson) -> Result<Stored, Refusal> {
        self.insert_alone(document, made_id).map_err(|refused| refused.refusal)
    }

    /// Stores the only document of a call: a generated value that is in use is tried again once.
    fn insert_alone(&mut self, document: &Document, made_id: &Bson) -> Result<Stored, Refused> {
        let wants = self.wants(document).map_err(Refused::of_call)?;
        let first = match self.attempt(document, (&wants, &[]), made_id) {
            Ok(stored) => return Ok(stored),
            Err(refused) => refused,
        };
        if first.in_use.is_empty() {
            return Err(first);
        }
        for place in &first.in_use {
            let field = self.fields.get_mut(*place).expect("a field");
            field.numbers.give_up();
        }
        self.attempt(document, (&wants, &first.in_use), made_id).inspect_err(|second| {
            // Values that are in use by others are passed for good, but only by two rejections of this kind.
            if !second.in_use.is_empty() {
                let mut fields = self.fields.clone();
                pass(&mut fields, &first.in_use);
                pass(&mut fields, &second.in_use);
                self.fields = fields;
            }
        })
    }

    /// Stores documents; `made_id` gives the `_id`s that the engine made, by position.
    pub(super) fn insert_many(
        &mut self,
        documents: &[Document],
        ordered: bool,
        made_id: impl Fn(usize) -> Bson,
    ) -> Result<Batch, Refusal> {
        if let [only] = documents {
            return match self.insert_alone(only, &made_id(0)) {
                Ok(stored) => Ok(Batch { stored: vec![(0, stored)], refused: Vec::new() }),
                Err(refused) if refused.is_of_call => Err(refused.refusal),
                Err(refused) => Ok(Batch { stored: Vec::new(), refused: vec![(0, refused.refusal)] }),
            };
        }
        let wants = documents.iter().map(|document| self.wants(document)).collect::<Result<Vec<_>, _>>()?;
        let is_gapless = self.fields.iter().any(Field::is_gapless);
        let at_refusal = if ordered || is_gapless { AtRefusal::Stop } else { AtRefusal::GoOn };
        let mut batch = Batch::default();
        let mut base = self.fields.clone();
        let mut done = 0;
        let mut chunk_len = usize::MAX;
        while done < documents.len() {
            self.keep_gapless(&mut base);
            let mut fields = base.clone();
            let end = done.saturating_add(chunk_len).min(documents.len());
            let chunk = wants.get(done..end).unwrap_or_default();
            let numbered = number(&mut fields, chunk);
            self.keep_taken(&fields);
            let made = match numbered {
                Ok(made) => made,
                Err(refusal) if done == 0 => return Err(refusal),
                Err(_) => {
                    batch.refuse(if ordered { done..done + 1 } else { done..documents.len() });
                    break;
                }
            };
            let refused = batch.refused.len();
            let chunk = documents.iter().skip(done).zip(made).collect();
            let tried = self.try_chunk(&mut batch, (done, chunk), at_refusal, &made_id);
            let is_stored = |position: &usize| batch.stored.iter().any(|(stored, _)| stored == position);
            let stored = (done..done + tried).filter(is_stored);
            let accepted: Vec<_> = stored.filter_map(|position| wants.get(position).cloned()).collect();
            // A gapless sequence numbers only what is stored, and passes what is in use.
            number(&mut base, &accepted).expect("they were numbered before");
            done += tried;
            let Some((position, refusal)) = batch.refused.get(refused..).and_then(<[_]>::first) else {
                chunk_len = chunk_len.saturating_mul(2);
                continue;
            };
            chunk_len = CHUNK_LEN_BEHIND_REFUSAL;
            let mut in_use = self.fields_in(refusal);
            in_use.retain(|place| {
                wants.get(*position).and_then(|wants| wants.get(*place)) == Some(&Want::Value)
            });
            pass(&mut base, &in_use);
            if ordered {
                break;
            }
        }
        for (own, stood) in self.fields.iter_mut().zip(base).filter(|(own, _)| own.is_gapless()) {
            own.numbers = stood.numbers;
        }
        Ok(batch)
    }

    /// Inserts numbered documents from a position on, or until one is rejected; says how many were tried.
    fn try_chunk(
        &mut self,
        batch: &mut Batch,
        (from, chunk): (usize, Vec<(&Document, Made)>),
        at_refusal: AtRefusal,
        made_id: &impl Fn(usize) -> Bson,
    ) -> usize {
        let mut tried = 0;
        for (document, made) in chunk {
            let position = from + tried;
            tried += 1;
            match self.try_insert(document, &made, &made_id(position)) {
                Ok(document) => batch.stored.push((position, Stored { document, made })),
                Err(refusal) => {
                    batch.refused.push((position, refusal));
                    if at_refusal == AtRefusal::Stop {
                        break;
                    }
                }
            }
        }
        tried
    }

    fn attempt(
        &mut self,
        document: &Document,
        (wants, passed): (&[Want], &[usize]),
        made_id: &Bson,
    ) -> Result<Stored, Refused> {
        let mut fields = self.fields.clone();
        pass(&mut fields, passed);
        let numbered = number(&mut fields, &[wants.to_vec()]);
        self.keep_taken(&fields);
        let made = numbered.map_err(Refused::of_call)?.remove(0);
        match self.try_insert(document, &made, made_id) {
            Ok(document) => {
                self.fields = fields;
                Ok(Stored { document, made })
            }
            Err(refusal) => {
                let brings = wants.iter().any(|want| *want != Want::Value);
                let in_use = if brings { Vec::new() } else { self.fields_in(&refusal) };
                Err(Refused { refusal, in_use, is_of_call: false })
            }
        }
    }

    fn try_insert(&mut self, document: &Document, made: &Made, made_id: &Bson) -> Result<Document, Refusal> {
        let completed = complete(document, made);
        let id = completed.get("_id").unwrap_or(made_id);
        self.insert(with_id(id, &completed))?;
        Ok(completed)
    }

    fn wants(&self, document: &Document) -> Result<Vec<Want>, Refusal> {
        self.fields.iter().map(|field| field.wants(document)).collect()
    }

    /// Fields that the index of a duplicate key holds.
    fn fields_in(&self, refusal: &Refusal) -> Vec<usize> {
        let Some(name) = &refusal.index else { return Vec::new() };
        let index = self.indexes.iter().find(|index| index.name == *name);
        let paths: Vec<&str> =
            index.map_or_else(|| vec!["_id"], |index| index.fields.iter().map(|(path, _)| *path).collect());
        (0..)
            .zip(&self.fields)
            .filter(|(_, field)| paths.contains(&field.path))
            .map(|(place, _)| place)
            .collect()
    }

    /// Copies the positions of sequences whose values are gone once they are drawn.
    fn keep_taken(&mut self, fields: &[Field]) {
        for (own, taken) in self.fields.iter_mut().zip(fields).filter(|(own, _)| !own.is_gapless()) {
            own.numbers = taken.numbers.clone();
        }
    }

    /// The same the other way round, for all but gapless ones.
    fn keep_gapless(&self, base: &mut [Field]) {
        for (own, base) in self.fields.iter().zip(base).filter(|(own, _)| !own.is_gapless()) {
            base.numbers = own.numbers.clone();
        }
    }
}

/// Numbers documents, field by field in the order in which fields were made.
fn number(fields: &mut [Field], wants: &[Vec<Want>]) -> Result<Vec<Made>, Refusal> {
    let mut made = vec![Made::new(); wants.len()];
    for (place, field) in fields.iter_mut().enumerate() {
        for (wants, made) in wants.iter().zip(&mut made) {
            match wants.get(place) {
                Some(Want::Value) => made.push((field.path, field.numbers.take()?)),
                Some(Want::Nothing(Some(value))) => field.numbers.announce(*value),
                Some(Want::Nothing(None)) | None => {}
            }
        }
    }
    for made in &mut made {
        made.sort_unstable();
    }
    Ok(made)
}

/// Skips the next value of each gapless field among these.
fn pass(fields: &mut [Field], places: &[usize]) {
    for place in places {
        if let Some(field) = fields.get_mut(*place).filter(|field| field.is_gapless()) {
            // One that has no value left has none to pass.
            let _ = field.numbers.take();
        }
    }
}
