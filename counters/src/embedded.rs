//! The traits for a store of CairnDB: they are the engine's own calls.

use std::borrow::Borrow;

use cairndb::{Collection, Database, GeneratedValues};
use serde::Serialize;

use crate::error::Result;
use crate::numbers::{Numbered, Numbers};
use crate::results::{Generated, InsertedMany, InsertedOne};

impl Numbers for Database {
    fn next_value(&self, sequence: &str) -> Result<i64> {
        Ok(self.sequence(sequence).next_value().run()?)
    }

    fn fetch(&self, sequence: &str, count: u32) -> Result<Vec<i64>> {
        Ok(self.sequence(sequence).fetch(i64::from(count)).run()?.values().collect())
    }
}

impl<T> Numbered<T> for Collection<T> {
    fn insert_one_numbered(&self, document: impl Borrow<T>) -> Result<InsertedOne>
    where
        T: Serialize,
    {
        let inserted = self.insert_one(document).run()?;
        Ok(InsertedOne { generated: generated(&inserted.generated), inserted_id: inserted.inserted_id })
    }

    fn insert_many_numbered(
        &self,
        documents: impl IntoIterator<Item = impl Borrow<T>>,
    ) -> Result<InsertedMany>
    where
        T: Serialize,
    {
        let inserted = self.insert_many(documents).run()?;
        let numbered = inserted.generated.iter().map(|(at, values)| (*at, generated(values)));
        Ok(InsertedMany { generated: numbered.collect(), inserted_ids: inserted.inserted_ids })
    }
}

fn generated(values: &GeneratedValues) -> Generated {
    values.iter().map(|(field, value)| (field.to_owned(), value)).collect()
}
