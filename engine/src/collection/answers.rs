//! The answers of calls with tokens, as their rows have them. The fields of writes of one document are those of `outcomes::once`.

use std::sync::Arc;

use base::error::Result;
use base::generated::GeneratedValues;
use base::insert_error::IndexedWriteError;
use base::write_error::WriteError;
use bson::{Bson, Document, RawDocumentBuf, doc};
use query::code::Code;

use crate::collection::modify::Modified;
use crate::outcomes::once::Undamaged;
use crate::results::{DeleteResult, InsertOneResult, UpdateResult};
use crate::write::outcome::{InsertOutcome, Inserted, InsertedSet};

const ID: &str = "i";
const GENERATED: &str = "g";
const MATCHED: &str = "n";
const CHANGED: &str = "m";
const SHOWN: &str = "v";
/// Of an `insert_many`: what was stored, what was rejected, and the first generated value.
const STORED: &str = "s";
const REFUSED: &str = "e";
const LAST: &str = "l";

/// The result of a call that can have a token.
pub(crate) trait Answer: Sized {
    /// The result as its row has it.
    fn to_answer(&self) -> Result<Document>;

    /// The result of a row. Fails if it is not one that `to_answer` made, and says why.
    fn of_answer(answer: Document) -> Undamaged<Self>;

    /// Whether it says that everything was rejected. That spends no token.
    fn is_refusal(&self) -> bool {
        false
    }
}

impl Answer for InsertOneResult {
    fn to_answer(&self) -> Result<Document> {
        Ok(of_one(&self.inserted_id, &self.generated))
    }

    fn of_answer(answer: Document) -> Undamaged<Self> {
        let Inserted { id, generated } = inserted(answer)?;
        let last = generated.first();
        Ok(Self::new(id, generated, last).replayed())
    }
}

impl Answer for UpdateResult {
    fn to_answer(&self) -> Result<Document> {
        if let Some(id) = &self.upserted_id {
            return Ok(doc! { ID: id });
        }
        Ok(doc! { MATCHED: signed(self.matched_count), CHANGED: signed(self.modified_count) })
    }

    fn of_answer(mut answer: Document) -> Undamaged<Self> {
        let result = match answer.remove(ID) {
            Some(id) => Self::new(0, 0, Some(id)),
            None => Self::new(count(&answer, MATCHED)?, count(&answer, CHANGED)?, None),
        };
        Ok(result.replayed())
    }
}

impl Answer for DeleteResult {
    fn to_answer(&self) -> Result<Document> {
        Ok(doc! { MATCHED: signed(self.deleted_count) })
    }

    fn of_answer(answer: Document) -> Undamaged<Self> {
        Ok(Self::new(count(&answer, MATCHED)?).replayed())
    }
}

impl Answer for Modified {
    fn to_answer(&self) -> Result<Document> {
        let mut answer = if let Some(id) = &self.upserted_id {
            doc! { ID: id }
        } else {
            doc! { MATCHED: i64::from(self.is_found) }
        };
        if let Some(shown) = &self.document {
            answer.insert(SHOWN, Document::try_from(shown)?);
        }
        Ok(answer)
    }

    fn of_answer(mut answer: Document) -> Undamaged<Self> {
        let upserted_id = answer.remove(ID);
        let document = match answer.remove(SHOWN) {
            None => None,
            Some(Bson::Document(shown)) => {
                Some(RawDocumentBuf::try_from(&shown).map_err(|_| "what it shows is not BSON")?)
            }
            Some(_) => return Err("what it shows is not a document"),
        };
        let is_found = upserted_id.is_none() && count(&answer, MATCHED)? > 0;
        Ok(Self { is_found, document, upserted_id, was_replayed: true })
    }
}

impl<S: InsertedSet> Answer for InsertOutcome<S> {
    fn to_answer(&self) -> Result<Document> {
        let mut positions: Vec<usize> = self.inserted.positions();
        positions.sort_unstable();
        let stored = positions.into_iter().map(|position| {
            let mut stored = doc! { "p": signed(position as u64) };
            stored.extend(self.inserted.id(position).map(|id| (ID.to_owned(), id)));
            if let Some(generated) = self.generated.get(&position) {
                stored.insert(GENERATED, document_of(generated));
            }
            Bson::Document(stored)
        });
        let mut answer = doc! { STORED: stored.collect::<Vec<_>>() };
        if !self.refused.is_empty() {
            answer.insert(REFUSED, self.refused.iter().map(of_refused).collect::<Vec<_>>());
        }
        answer.extend(self.last_generate_id.map(|last| (LAST.to_owned(), Bson::Int64(last))));
        Ok(answer)
    }

    fn of_answer(mut answer: Document) -> Undamaged<Self> {
        if answer.contains_key(ID) {
            // The only document of the call, which has committed by itself.
            return Ok(Self { was_replayed: true, ..Self::of_one(inserted(answer)?) });
        }
        let mut outcome = Self { was_replayed: true, ..Self::default() };
        for mut stored in documents(answer.remove(STORED))? {
            let position = position(&stored)?;
            if let Some(generated) = stored.remove(GENERATED) {
                outcome.generated.insert(position, values_of(generated)?);
            }
            outcome.inserted.put(position, stored.remove(ID).unwrap_or(Bson::Null));
        }
        for refused in documents(answer.remove(REFUSED))? {
            outcome.refused.push(refused_of(&refused)?);
        }
        outcome.last_generate_id = answer.get_i64(LAST).ok();
        Ok(outcome)
    }

    fn is_refusal(&self) -> bool {
        self.inserted.positions().is_empty()
    }
}

fn of_one(id: &Bson, generated: &GeneratedValues) -> Document {
    let mut answer = doc! { ID: id };
    if !generated.is_empty() {
        answer.insert(GENERATED, document_of(generated));
    }
    answer
}

fn inserted(mut answer: Document) -> Undamaged<Inserted> {
    let id = answer.remove(ID).ok_or("it has no _id")?;
    let generated = answer.remove(GENERATED).map(values_of).transpose()?.unwrap_or_default();
    Ok(Inserted { id, generated })
}

fn document_of(generated: &GeneratedValues) -> Document {
    generated.iter().map(|(field, value)| (field.to_owned(), Bson::Int64(value))).collect()
}

fn values_of(generated: Bson) -> Undamaged<GeneratedValues> {
    let Bson::Document(generated) = generated else { return Err("its generated values are none") };
    let mut values = GeneratedValues::default();
    for (field, value) in generated {
        let value = value.as_i64().ok_or("a generated value is not a number")?;
        values.push(&Arc::from(field), value);
    }
    Ok(values)
}

fn of_refused(refused: &IndexedWriteError) -> Bson {
    let IndexedWriteError { index, code, code_name, message, details, .. } = refused;
    let mut document = doc! { "p": signed(*index as u64), "c": code, "t": message };
    document.extend(code_name.clone().map(|name| ("k".to_owned(), Bson::String(name))));
    document.extend(details.clone().map(|details| ("d".to_owned(), Bson::Document(details))));
    Bson::Document(document)
}

fn refused_of(refused: &Document) -> Undamaged<IndexedWriteError> {
    let position = position(refused)?;
    let code = refused.get_i32("c").map_err(|_| "a refusal has no code")?;
    let message = refused.get_str("t").map_err(|_| "a refusal has no message")?.to_owned();
    let details = refused.get_document("d").ok().cloned();
    let mut refusal = *WriteError::boxed(Code::of(code), message);
    refusal.details = details;
    refusal.code_name = refused.get_str("k").ok().map(str::to_owned);
    Ok(refusal.at(position))
}

fn position(document: &Document) -> Undamaged<usize> {
    let position = document.get_i64("p").ok().and_then(|position| usize::try_from(position).ok());
    position.ok_or("a document has no position")
}

fn documents(array: Option<Bson>) -> Undamaged<Vec<Document>> {
    let Some(array) = array else { return Ok(Vec::new()) };
    let Bson::Array(array) = array else { return Err("its documents are not an array") };
    let document = |value: Bson| {
        let Bson::Document(document) = value else { return Err("a value of it is not a document") };
        Ok(document)
    };
    array.into_iter().map(document).collect()
}

fn count(answer: &Document, field: &str) -> Undamaged<u64> {
    let count = answer.get_i64(field).ok().and_then(|count| u64::try_from(count).ok());
    count.ok_or("it has no count")
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
