//! An import that replaces what is there: records come into a collection aside, which replaces the other once all of them
//! are in.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, doc};
use query::code::Code;

use crate::aside;
use crate::command::raw;
use crate::dump::catalog::Found;
use crate::dumped::DumpedKind;
use crate::failure::{Exit, Failure};
use crate::import::earlier::{CollectionUuid, uuid};
use crate::import::options::Arguments;
use crate::import::write::{Target, truncate};
use crate::restore::make::{is_to_make, to_make, with_collation};
use crate::restore::numbers;
use crate::restore::plan::Planned;
use crate::restore::tally::Tally;
use crate::restore::verify::stored_indexes;
use crate::sign::Sign;
use crate::store::Store;

/// The reason why a user needs more rights than to write documents.
const WHY: &str = "--drop and --truncate make a collection for the new documents, and rename it in the end";

/// The treatment of the definition of the collection that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Definition {
    /// It goes with the documents.
    Goes,
    /// The new collection has the same options, indexes and auto-increment fields.
    Stays,
}

/// A collection that replaces another one.
#[derive(Debug)]
pub(super) struct Replacement {
    /// The collection that is replaced.
    target: Target,
    /// The target of records until then.
    pub(super) aside: Target,
    /// The id in the name of the collection aside.
    id: ObjectId,
    definition: Definition,
    /// The identity of the collection aside.
    uuid: Option<CollectionUuid>,
}

impl Replacement {
    /// The replacement that the options ask for, if they do, under a name with this id.
    pub(super) fn of(arguments: &Arguments, target: &Target, id: ObjectId) -> Option<Self> {
        let definition = match (arguments.drop, arguments.truncate) {
            (true, _) => Definition::Goes,
            (false, true) => Definition::Stays,
            (false, false) => return None,
        };
        let collection = aside::name(&target.database, &target.collection, id);
        let aside = Target { collection, ..target.clone() };
        Some(Self { target: target.clone(), aside, id, definition, uuid: None })
    }

    /// Makes the collection aside, and removes those that killed imports into the same collection have left. Returns what it is
    /// known by.
    pub(super) fn make(&mut self, sign: &mut Sign) -> Result<Option<CollectionUuid>, Failure> {
        let made = self.make_all(sign);
        let store = sign.store();
        made.map_err(|failure| {
            // The failure is why, and not what may follow from it.
            let _ = self.discard(store);
            let is_refused = failure.code == Some(Code::UNAUTHORIZED.number());
            let told = self.told(&failure.message);
            Failure { message: if is_refused { format!("{told}: {WHY}") } else { told }, ..failure }
        })?;
        Ok(self.uuid.clone())
    }

    /// Goes on with a collection that an earlier process made.
    pub(super) fn go_on(&mut self, sign: &mut Sign) -> Result<(), Failure> {
        sign.show(&self.aside.database, self.id)?;
        self.uuid = uuid(sign.store(), &self.aside)?;
        Ok(())
    }

    /// Whether an earlier process put the collection in its place, and was killed before it could say so.
    pub(super) fn is_in_place(
        &self,
        store: &dyn Store,
        known: Option<&CollectionUuid>,
    ) -> Result<bool, Failure> {
        let is_known = |uuid: &CollectionUuid| !uuid.is_empty() && Some(uuid) == known;
        Ok(uuid(store, &self.aside)?.is_none() && uuid(store, &self.target)?.as_ref().is_some_and(is_known))
    }

    fn make_all(&mut self, sign: &mut Sign) -> Result<(), Failure> {
        let Target { database, collection, .. } = &self.target;
        sign.remove_leftovers(database, &|name| aside::is_for(database, collection, name))?;
        // Before the collection, so that there is none without a sign.
        sign.show(database, self.id)?;
        let store = sign.store();
        match self.definition {
            Definition::Goes => self.create(store, Document::new())?,
            Definition::Stays => self.create_same(store)?,
        }
        self.uuid = uuid(store, &self.aside)?;
        Ok(())
    }

    fn create(&self, store: &dyn Store, options: Document) -> Result<(), Failure> {
        let mut command = doc! { "create": self.aside.collection.as_str() };
        command.extend(options);
        store.run(&self.aside.database, raw(&command)?).map(drop)
    }

    /// Makes the collection with the definition of the other.
    fn create_same(&self, store: &dyn Store) -> Result<(), Failure> {
        let Some(found) = self.find_target(store)? else { return self.create(store, Document::new()) };
        self.create(store, found.options.clone())?;
        let inherits = found.options.contains_key("collation");
        let indexes = stored_indexes(store, &found.database, &found.name)?.into_iter().filter(is_to_make);
        let indexes: Vec<Document> =
            indexes.map(|index| with_collation(to_make(index).index, inherits)).collect();
        if !indexes.is_empty() {
            let command = doc! { "createIndexes": self.aside.collection.as_str(), "indexes": indexes };
            store.run(&found.database, raw(&command)?)?;
        }
        let fields = found.numbered(store)?;
        if fields.is_empty() {
            return Ok(());
        }
        self.number(store, fields)?;
        // As it would be with the other: fields begin again or go on, as they are declared to.
        truncate(store, &self.aside)
    }

    /// The collection that is replaced, if it is there.
    fn find_target(&self, store: &dyn Store) -> Result<Option<Found>, Failure> {
        let list =
            raw(&doc! { "listCollections": 1, "filter": { "name": self.target.collection.as_str() } })?;
        let mut listed = store.stream(&self.target.database, list)?;
        if !listed.advance()? {
            return Ok(None);
        }
        let one = Document::try_from(listed.current());
        let one = one.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let Target { database, collection, .. } = &self.target;
        if one.get_str("type").is_ok_and(|kind| kind == "view") {
            let message = format!("{database}.{collection} is a view, which has no documents to truncate");
            return Err(Failure::new(Exit::Failed, message));
        }
        let mut options = one.get_document("options").cloned().unwrap_or_default();
        // Fields that number themselves are made with the values that were used.
        options.remove("autoIncrement");
        let (database, name) = (database.clone(), collection.clone());
        Ok(Some(Found { database, name, kind: DumpedKind::Collection, options, uuid: None }))
    }

    /// Makes auto-increment fields in the collection aside, or moves those that are there on to the positions of these.
    fn number(&self, store: &dyn Store, fields: Vec<Document>) -> Result<(), Failure> {
        let Target { database, collection, .. } = &self.aside;
        let (tally, name) = (Tally::keeping(), (database.clone(), collection.clone()));
        let planned = Planned::of(self.shown(), name, DumpedKind::Collection, String::new());
        numbers::fields(store, &planned.with_numbered(fields), &tally)?;
        tally.kept().into_iter().next().map_or(Ok(()), |reason| Err(Failure::new(Exit::Failed, reason)))
    }

    /// Puts the collection in place of the other.
    pub(super) fn put_in_place(&self, store: &dyn Store) -> Result<(), Failure> {
        self.put(store).map_err(|failure| Failure { message: self.told(&failure.message), ..failure })
    }

    fn put(&self, store: &dyn Store) -> Result<(), Failure> {
        // One that is gone would be made again by the next batch, with a part of the documents.
        if uuid(store, &self.aside)? != self.uuid {
            let aside = &self.aside.collection;
            let message = format!("{aside} was removed by others while documents came into it");
            return Err(Failure::new(Exit::Failed, message));
        }
        if let Some(found) = self.find_going_on(store)? {
            self.number(store, found)?;
        }
        let Target { database, collection, .. } = &self.target;
        aside::put_in_place(store, database, &self.aside.collection, collection)
    }

    /// The fields that go on after a truncation, which may have numbered more documents meanwhile.
    fn find_going_on(&self, store: &dyn Store) -> Result<Option<Vec<Document>>, Failure> {
        if self.definition == Definition::Goes {
            return Ok(None);
        }
        let Some(found) = self.find_target(store)? else { return Ok(None) };
        let mut fields = found.numbered(store)?;
        fields.retain(|field| field.get_str("OnTruncate").is_ok_and(|what| what == "continue"));
        Ok(Some(fields).filter(|fields| !fields.is_empty()))
    }

    /// Removes the collection aside.
    pub(super) fn discard(&self, store: &dyn Store) -> Result<(), Failure> {
        aside::remove(store, &self.aside.database, &self.aside.collection)
    }

    /// The store's message about the collection aside, with the name that the user knows.
    pub(super) fn told(&self, message: &str) -> String {
        message.replace(&self.aside.collection, &self.target.collection)
    }

    /// The name that the user knows.
    pub(super) fn shown(&self) -> String {
        format!("{}.{}", self.target.database, self.target.collection)
    }
}
