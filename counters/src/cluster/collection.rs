//! Inserts into a collection whose fields number themselves.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::ops::Deref;

use bson::{Bson, Document, doc};
use mongodb::sync::{self, ClientSession};
use serde::Serialize;

use crate::cluster::blocks::Fields;
use crate::cluster::counter::{Contract, Counter};
use crate::cluster::document::{Fate, fate, number};
use crate::cluster::held::Held;
use crate::cluster::transaction::in_transaction;
use crate::error::{Error, ErrorKind, Result};
use crate::numbers::Numbered;
use crate::results::{Generated, InsertedMany, InsertedOne};
use crate::taken::is_duplicate_of;

/// A collection of a cluster, some of whose fields may number themselves. Which they are is read once for each client.
#[derive(Debug)]
pub struct Collection<T: Send + Sync> {
    driver: sync::Collection<T>,
    /// The name of its database.
    database: String,
    held: Held,
}

impl<T: Send + Sync> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self {
            driver: self.driver.clone_with_type(),
            database: self.database.clone(),
            held: self.held.clone(),
        }
    }
}

impl<T: Send + Sync> Deref for Collection<T> {
    type Target = sync::Collection<T>;

    fn deref(&self) -> &sync::Collection<T> {
        &self.driver
    }
}

impl<T: Send + Sync> Numbered<T> for Collection<T> {
    fn insert_one_numbered(&self, document: impl Borrow<T>) -> Result<InsertedOne>
    where
        T: Serialize,
    {
        let documents = [serialized(document.borrow())?];
        let first = self.insert(&documents);
        let again = match first {
            // Another process, or a document that came by another way, has the number: the rest of the block may be used
            // too.
            Err(error) if self.gives_up(&error)? => self.insert(&documents),
            other => other,
        };
        let mut inserted = again?;
        Ok(InsertedOne {
            inserted_id: inserted.inserted_ids.remove(&0).unwrap_or(Bson::Null),
            generated: inserted.generated.remove(&0).unwrap_or_default(),
        })
    }

    fn insert_many_numbered(
        &self,
        documents: impl IntoIterator<Item = impl Borrow<T>>,
    ) -> Result<InsertedMany>
    where
        T: Serialize,
    {
        let documents: Result<Vec<Document>> =
            documents.into_iter().map(|document| serialized(document.borrow())).collect();
        self.insert(&documents?)
    }
}

impl<T: Send + Sync> Collection<T> {
    pub(super) fn of(driver: sync::Collection<T>, database: &str, held: Held) -> Self {
        Self { driver, database: database.to_owned(), held }
    }

    fn insert(&self, documents: &[Document]) -> Result<InsertedMany> {
        let fields = self.fields()?;
        let collection = self.driver.clone_with_type::<Document>();
        if !fields.iter().any(|counter| counter.contract == Contract::Gapless) {
            let (numbered, generated) = self.numbered(&fields, documents, None)?;
            let inserted = collection.insert_many(numbered).run()?;
            return Ok(InsertedMany { inserted_ids: inserted.inserted_ids, generated });
        }
        in_transaction(&self.held.driver, |session| {
            let (numbered, generated) = self.numbered(&fields, documents, Some(&mut *session))?;
            let inserted = collection.insert_many(numbered).session(session).run()?;
            Ok(InsertedMany { inserted_ids: inserted.inserted_ids, generated })
        })
    }

    /// The documents with their numbers, in their order.
    fn numbered(
        &self,
        fields: &Fields,
        documents: &[Document],
        mut session: Option<&mut ClientSession>,
    ) -> Result<(Vec<Document>, HashMap<usize, Generated>)> {
        let mut numbered = documents.to_vec();
        let mut generated: HashMap<usize, Generated> = HashMap::new();
        for counter in fields.iter() {
            let Some(field) = &counter.field else { continue };
            // All are looked at before any number is drawn: a document that is rejected spends none.
            let fates: std::result::Result<Vec<Fate>, _> =
                documents.iter().map(|document| fate(document, field)).collect();
            let values = self.values(counter, &fates?, session.as_deref_mut())?;
            for (at, value) in values {
                if let Some(document) = numbered.get_mut(at) {
                    number(document, &field.path, value);
                    generated.entry(at).or_default().insert(field.path.clone(), value);
                }
            }
        }
        Ok((numbered, generated))
    }

    /// The numbers of a field, by the positions of the documents.
    fn values(
        &self,
        counter: &Counter,
        fates: &[Fate],
        mut session: Option<&mut ClientSession>,
    ) -> Result<Vec<(usize, i64)>> {
        let Self { database, held, .. } = self;
        let counters = held.counters_of(database);
        let mut values = Vec::new();
        let mut at = 0;
        while let Some(fate) = fates.get(at) {
            match fate {
                Fate::Kept => at += 1,
                Fate::Passed(value) => {
                    held.blocks.pass(&counters, counter, *value, session.as_deref_mut())?;
                    at += 1;
                }
                Fate::Numbered => {
                    // As many at once as follow each other.
                    let rest = fates.get(at..).unwrap_or_default();
                    let count = rest.iter().take_while(|fate| **fate == Fate::Numbered).count();
                    let session = session.as_deref_mut();
                    let taken = held.blocks.take(&counters, &counter.id, count as u64, session)?;
                    let next = at + taken.len();
                    values.extend((at..).zip(taken));
                    at = next;
                }
            }
        }
        Ok(values)
    }

    /// Gives up what is left of the blocks whose fields are in a key that is taken. Returns whether there are any.
    fn gives_up(&self, error: &Error) -> Result<bool> {
        let ErrorKind::Driver(error) = error.kind() else { return Ok(false) };
        let Self { database, held, .. } = self;
        let counters = held.counters_of(database);
        let fields = self.fields()?;
        let mut is_any = false;
        for counter in fields.iter().filter(|counter| counter.contract == Contract::Fast) {
            let field = counter.field.as_ref();
            if !field.is_some_and(|field| is_duplicate_of(error, &field.path)) {
                continue;
            }
            held.blocks.give_up(&counters, &counter.id);
            is_any = true;
        }
        Ok(is_any)
    }

    fn fields(&self) -> Result<Fields> {
        let Self { database, held, .. } = self;
        let namespace = self.driver.namespace().to_string();
        held.blocks.fields(&namespace, || {
            let filter = doc! { "database": database.as_str(), "collection": self.driver.name() };
            let found = held.counters_of(database).find(filter).sort(doc! { "_id": 1 }).run()?;
            found.map(|counter| Counter::parse(&counter?)).collect()
        })
    }
}

fn serialized<T: Serialize>(document: &T) -> Result<Document> {
    bson::serialize_to_document(document).map_err(|error| Error::from(ErrorKind::Bson(error.to_string())))
}
