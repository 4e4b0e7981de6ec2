//! Collections as maps, and what statements do to them: written to be obvious.

use std::collections::{BTreeMap, BTreeSet};

use cairndb::bson::{Bson, Document, doc};

use crate::model::sessions::statement::{Answer, CHANGING, Filter, INDEXED, Search, Statement, Update, WILD};

pub(crate) const DUPLICATE: i32 = 11000;

/// The key of a write: a record, or a value of the unique index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// With the number of the collection: one that is dropped and made again has others.
    Record(u64, i32),
    Unique(i32),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Which of all collections that were made it is. Absent if there is none.
    pub(crate) number: Option<u64>,
    pub(crate) documents: BTreeMap<i32, Document>,
}

#[derive(Clone, Debug)]
pub(crate) struct Tables {
    tables: BTreeMap<&'static str, Table>,
}

/// A hook that is asked before a document is written, and informed afterwards.
pub(crate) trait Claims {
    /// Fails with a code if the key is another's.
    fn claim(&mut self, key: Key) -> Result<(), i32>;
    fn written(&mut self, id: i32);
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self { tables: [INDEXED, WILD, CHANGING].map(|name| (name, Table::default())).into() }
    }

    pub(crate) fn of(&self, at: &'static str) -> &Table {
        self.tables.get(at).expect("one of three")
    }

    pub(crate) fn of_mut(&mut self, at: &'static str) -> &mut Table {
        self.tables.get_mut(at).expect("one of three")
    }

    pub(crate) fn search(&self, at: &'static str, search: &Search) -> Vec<Document> {
        let mut found: Vec<Document> = self.of(at).find(&search.filter).cloned().collect();
        search.order.sort(&mut found);
        found.into_iter().skip(search.skip).take(search.limit.unwrap_or(usize::MAX)).collect()
    }

    /// Does a statement. What was written before an error stays.
    pub(crate) fn perform(
        &mut self,
        at: &'static str,
        statement: &Statement,
        claims: &mut impl Claims,
    ) -> Result<Answer, i32> {
        let table = self.tables.get_mut(at).expect("one of three");
        let mut writer = Writer { has_unique: at == INDEXED, table, claims };
        Ok(match statement {
            Statement::Find(search) => Answer::Documents(self.search(at, search)),
            Statement::FindOne(filter) => Answer::Document(writer.table.find(filter).next().cloned()),
            Statement::Count(filter) => Answer::Number(writer.table.find(filter).count() as u64),
            Statement::Group(filter) => Answer::Documents(writer.table.group(filter)),
            Statement::Distinct(filter) => {
                let values: BTreeSet<i32> =
                    writer.table.find(filter).filter_map(|document| document.get_i32("k").ok()).collect();
                Answer::Values(values.into_iter().map(Bson::Int32).collect())
            }
            Statement::InsertOne(document) => {
                writer.insert(document)?;
                Answer::Number(1)
            }
            Statement::InsertMany(documents) => {
                documents.iter().try_for_each(|document| writer.insert(document))?;
                Answer::Number(documents.len() as u64)
            }
            Statement::UpdateOne(update) => writer.update(update)?.0,
            Statement::UpdateMany(filter, change) => {
                let found: Vec<i32> = writer.table.ids(filter);
                let mut modified = 0;
                for id in &found {
                    modified += u64::from(writer.change(*id, |document| change.apply(document))?);
                }
                Answer::Changed { matched: found.len() as u64, modified, upserted: None }
            }
            Statement::Replace(filter, document) => {
                let Some(id) = writer.table.ids(filter).first().copied() else {
                    return Ok(Answer::Changed { matched: 0, modified: 0, upserted: None });
                };
                let modified = writer.change(id, |old| {
                    *old = doc! { "_id": id };
                    old.extend(document.clone());
                })?;
                Answer::Changed { matched: 1, modified: u64::from(modified), upserted: None }
            }
            Statement::FindOneAndUpdate { update, is_new_returned } => {
                let (_, before, after) = writer.update(update)?;
                Answer::Document(if *is_new_returned { after } else { before })
            }
            Statement::FindOneAndDelete(filter) => {
                let first = writer.table.ids(filter).first().copied();
                Answer::Document(first.map(|id| writer.delete(id)).transpose()?)
            }
            Statement::DeleteOne(filter) => writer.delete_all(filter, 1)?,
            Statement::DeleteMany(filter) => writer.delete_all(filter, usize::MAX)?,
        })
    }
}

impl Table {
    /// In the order of `_id`s.
    fn find<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Document> {
        self.documents.values().filter(|document| filter.matches(document))
    }

    fn ids(&self, filter: &Filter) -> Vec<i32> {
        self.documents.iter().filter(|found| filter.matches(found.1)).map(|found| *found.0).collect()
    }

    fn group(&self, filter: &Filter) -> Vec<Document> {
        let mut groups: BTreeMap<Option<i32>, (i32, i32)> = BTreeMap::new();
        for document in self.find(filter) {
            let group = groups.entry(document.get_i32("k").ok()).or_default();
            *group = (group.0 + 1, group.1 + document.get_i32("_id").expect("a number"));
        }
        let group =
            |(k, (count, ids)): (Option<i32>, (i32, i32))| doc! { "_id": k, "count": count, "ids": ids };
        groups.into_iter().map(group).collect()
    }
}

struct Writer<'a, C> {
    has_unique: bool,
    table: &'a mut Table,
    claims: &'a mut C,
}

impl<C: Claims> Writer<'_, C> {
    fn record(&self, id: i32) -> Key {
        Key::Record(self.table.number.expect("it is there"), id)
    }

    fn insert(&mut self, document: &Document) -> Result<(), i32> {
        let id = document.get_i32("_id").expect("a number");
        self.claims.claim(self.record(id))?;
        if self.table.documents.contains_key(&id) {
            return Err(DUPLICATE);
        }
        self.claim_unique(None, document)?;
        self.table.documents.insert(id, document.clone());
        self.claims.written(id);
        Ok(())
    }

    /// Claims the value of the unique field, if it is a new one of the document.
    fn claim_unique(&mut self, before: Option<&Document>, document: &Document) -> Result<(), i32> {
        let unique = |document: &Document| document.get_i32("u").ok();
        let Some(u) = unique(document).filter(|u| self.has_unique && before.and_then(unique) != Some(*u))
        else {
            return Ok(());
        };
        self.claims.claim(Key::Unique(u))?;
        if self.table.documents.values().any(|other| unique(other) == Some(u)) {
            return Err(DUPLICATE);
        }
        Ok(())
    }

    /// Returns whether the document became another one.
    fn change(&mut self, id: i32, change: impl FnOnce(&mut Document)) -> Result<bool, i32> {
        let before = self.table.documents.get(&id).expect("it was found").clone();
        let mut document = before.clone();
        change(&mut document);
        // Documents are equal to the crate `bson` whatever the order of their fields is, and to the engine they are not.
        if document.iter().eq(&before) {
            return Ok(false);
        }
        self.claims.claim(self.record(id))?;
        self.claim_unique(Some(&before), &document)?;
        self.table.documents.insert(id, document);
        self.claims.written(id);
        Ok(true)
    }

    /// Returns the document before and after, too.
    fn update(&mut self, update: &Update) -> Result<(Answer, Option<Document>, Option<Document>), i32> {
        if let Some(id) = self.table.ids(&update.filter).first().copied() {
            let before = self.table.documents.get(&id).cloned();
            let is_modified = self.change(id, |document| update.change.apply(document))?;
            let answer = Answer::Changed { matched: 1, modified: u64::from(is_modified), upserted: None };
            return Ok((answer, before, self.table.documents.get(&id).cloned()));
        }
        let (true, Filter::Id(id)) = (update.is_upsert, &update.filter) else {
            return Ok((Answer::Changed { matched: 0, modified: 0, upserted: None }, None, None));
        };
        let mut document = doc! { "_id": id };
        update.change.apply(&mut document);
        self.insert(&document)?;
        let answer = Answer::Changed { matched: 0, modified: 0, upserted: Some(Bson::Int32(*id)) };
        Ok((answer, None, Some(document)))
    }

    fn delete(&mut self, id: i32) -> Result<Document, i32> {
        self.claims.claim(self.record(id))?;
        let document = self.table.documents.remove(&id).expect("it was found");
        self.claims.written(id);
        Ok(document)
    }

    fn delete_all(&mut self, filter: &Filter, limit: usize) -> Result<Answer, i32> {
        let found: Vec<i32> = self.table.ids(filter).into_iter().take(limit).collect();
        for id in &found {
            self.delete(*id)?;
        }
        Ok(Answer::Number(found.len() as u64))
    }
}
