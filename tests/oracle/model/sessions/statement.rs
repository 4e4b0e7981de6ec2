//! Statements: what they are, how they are chosen, and how the engine does them, as plain calls or within a session.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{ClientSession, Collection, Error, ErrorKind, Hint, ReturnDocument};
use cairndb_tests::choices::Choices;

/// A collection with indexes of several kinds, one of them unique.
pub(crate) const INDEXED: &str = "indexed";
/// A collection with a wildcard and a partial index.
pub(crate) const WILD: &str = "wild";
/// A collection that is dropped, truncated and gets indexes while transactions are open.
pub(crate) const CHANGING: &str = "changing";
/// Few values, so that sessions meet.
const IDS: u64 = 12;
const KS: u64 = 6;
const TAGS: u64 = 4;
const UNIQUE: u64 = 7;

#[derive(Clone, Debug)]
pub(crate) enum Filter {
    All,
    Id(i32),
    Between { from: i32, to: i32 },
    Unique(i32),
    Tag(i32),
}

impl Filter {
    fn choose(choices: &mut Choices) -> Self {
        match choices.below(10) {
            0..5 => Self::Id(small(choices, IDS)),
            5 | 6 => {
                let (one, other) = (small(choices, KS), small(choices, KS));
                Self::Between { from: one.min(other), to: one.max(other) }
            }
            7 => Self::Unique(small(choices, UNIQUE)),
            8 => Self::Tag(small(choices, TAGS)),
            _ => Self::All,
        }
    }

    fn to_document(&self) -> Document {
        match self {
            Self::All => doc! {},
            Self::Id(id) => doc! { "_id": id },
            Self::Between { from, to } => doc! { "k": { "$gte": from, "$lte": to } },
            Self::Unique(u) => doc! { "u": u },
            Self::Tag(tag) => doc! { "tags": tag },
        }
    }

    pub(crate) fn matches(&self, document: &Document) -> bool {
        let number = |field| document.get_i32(field).ok();
        match self {
            Self::All => true,
            Self::Id(id) => number("_id") == Some(*id),
            Self::Between { from, to } => number("k").is_some_and(|k| (*from..=*to).contains(&k)),
            Self::Unique(u) => number("u") == Some(*u),
            Self::Tag(tag) => document.get_array("tags").is_ok_and(|tags| tags.contains(&Bson::Int32(*tag))),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    SetK(i32),
    AddK(i32),
    SetUnique(i32),
    UnsetUnique,
    Push(i32),
    /// Writes nothing.
    AddNothing,
}

impl Change {
    fn choose(choices: &mut Choices) -> Self {
        match choices.below(12) {
            0..3 => Self::SetK(small(choices, KS)),
            3..5 => Self::AddK(1),
            5..8 => Self::SetUnique(small(choices, UNIQUE)),
            8 => Self::UnsetUnique,
            9 | 10 => Self::Push(small(choices, TAGS)),
            _ => Self::AddNothing,
        }
    }

    fn to_document(self) -> Document {
        match self {
            Self::SetK(k) => doc! { "$set": { "k": k } },
            Self::AddK(add) => doc! { "$inc": { "k": add } },
            Self::SetUnique(u) => doc! { "$set": { "u": u } },
            Self::UnsetUnique => doc! { "$unset": { "u": "" } },
            Self::Push(tag) => doc! { "$push": { "tags": tag } },
            Self::AddNothing => doc! { "$inc": { "k": 0 } },
        }
    }

    pub(crate) fn apply(self, document: &mut Document) {
        match self {
            Self::SetK(k) => drop(document.insert("k", k)),
            Self::AddK(add) => drop(document.insert("k", document.get_i32("k").unwrap_or(0) + add)),
            Self::SetUnique(u) => drop(document.insert("u", u)),
            Self::UnsetUnique => drop(document.remove("u")),
            Self::Push(tag) => {
                let mut tags = document.get_array("tags").cloned().unwrap_or_default();
                tags.push(Bson::Int32(tag));
                document.insert("tags", tags);
            }
            Self::AddNothing => drop(document.insert("k", document.get_i32("k").unwrap_or(0))),
        }
    }
}

/// The order of a search: by `_id`, or by `k` and then `_id`, which an index has too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) is_by_k: bool,
    pub(crate) is_descending: bool,
}

impl Order {
    fn choose(choices: &mut Choices) -> Self {
        Self { is_by_k: choices.one_in(2), is_descending: choices.one_in(2) }
    }

    fn to_document(self) -> Document {
        let direction = if self.is_descending { -1 } else { 1 };
        if self.is_by_k {
            doc! { "k": direction, "_id": direction }
        } else {
            doc! { "_id": direction }
        }
    }

    pub(crate) fn sort(self, documents: &mut [Document]) {
        let number = |document: &Document, field| document.get_i32(field).ok();
        documents
            .sort_by_key(|document| (self.is_by_k.then(|| number(document, "k")), number(document, "_id")));
        if self.is_descending {
            documents.reverse();
        }
    }
}

/// A search whose result has an order.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) filter: Filter,
    pub(crate) order: Order,
    pub(crate) skip: usize,
    pub(crate) limit: Option<usize>,
}

impl Search {
    pub(crate) fn choose(choices: &mut Choices) -> Self {
        let filter = Filter::choose(choices);
        let order = Order::choose(choices);
        let skip = if choices.one_in(4) { choices.index(3) } else { 0 };
        let limit = choices.one_in(3).then(|| 1 + choices.index(4));
        Self { filter, order, skip, limit }
    }

    pub(crate) fn open(
        &self,
        collection: &Collection<Document>,
        session: &mut ClientSession,
    ) -> cairndb::Result<cairndb::SessionCursor<Document>> {
        self.action(collection).batch_size(2).session(session).run()
    }

    fn action<'c>(&self, collection: &'c Collection<Document>) -> cairndb::action::Find<'c, Document> {
        let find = collection.find(self.filter.to_document()).sort(self.order.to_document());
        let find = find.skip(self.skip as u64);
        match self.limit {
            Some(limit) => find.limit(i64::try_from(limit).expect("small")),
            None => find,
        }
    }
}

/// A change of the first document, by `_id`, that a filter finds.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) filter: Filter,
    pub(crate) change: Change,
    pub(crate) is_upsert: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Find(Search),
    FindOne(Filter),
    Count(Filter),
    /// Groups by `k` in a pipeline: how many, and the sum of their `_id`s.
    Group(Filter),
    Distinct(Filter),
    InsertOne(Document),
    InsertMany(Vec<Document>),
    UpdateOne(Update),
    /// Its change sets no unique field: which document is rejected would depend on an order.
    UpdateMany(Filter, Change),
    Replace(Filter, Document),
    FindOneAndUpdate {
        update: Update,
        is_new_returned: bool,
    },
    FindOneAndDelete(Filter),
    DeleteOne(Filter),
    DeleteMany(Filter),
}

impl Statement {
    pub(crate) fn choose(choices: &mut Choices) -> Self {
        let update = |choices: &mut Choices| {
            let filter = Filter::choose(choices);
            // A document that an upsert makes has the `_id` of the filter.
            let is_upsert = matches!(filter, Filter::Id(_)) && choices.one_in(3);
            Update { filter, change: Change::choose(choices), is_upsert }
        };
        match choices.below(28) {
            0..4 => Self::Find(Search::choose(choices)),
            4..6 => Self::FindOne(Filter::choose(choices)),
            6 => Self::Count(Filter::choose(choices)),
            7 => Self::Group(Filter::choose(choices)),
            8 => Self::Distinct(Filter::choose(choices)),
            9..13 => Self::InsertOne(document(choices)),
            13 => Self::InsertMany((0..=choices.below(3)).map(|_| document(choices)).collect()),
            14..19 => Self::UpdateOne(update(choices)),
            19 => {
                let filter = Filter::choose(choices);
                let change = Change::choose(choices);
                let is_unique = matches!(change, Change::SetUnique(_));
                Self::UpdateMany(filter, if is_unique { Change::UnsetUnique } else { change })
            }
            20 | 21 => {
                let filter = Filter::Id(small(choices, IDS));
                let mut document = document(choices);
                document.remove("_id");
                Self::Replace(filter, document)
            }
            22 | 23 => Self::FindOneAndUpdate { update: update(choices), is_new_returned: choices.one_in(2) },
            24 => Self::FindOneAndDelete(Filter::choose(choices)),
            25 | 26 => Self::DeleteOne(Filter::choose(choices)),
            _ => Self::DeleteMany(Filter::choose(choices)),
        }
    }
}

fn small(choices: &mut Choices, limit: u64) -> i32 {
    i32::try_from(choices.below(limit)).expect("small")
}

fn document(choices: &mut Choices) -> Document {
    let mut document = doc! { "_id": small(choices, IDS), "k": small(choices, KS) };
    if choices.one_in(2) {
        document.insert("u", small(choices, UNIQUE));
    }
    if choices.one_in(2) {
        document.insert("tags", [small(choices, TAGS), small(choices, TAGS)].map(Bson::Int32).to_vec());
    }
    document
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Documents(Vec<Document>),
    Document(Option<Document>),
    Values(Vec<Bson>),
    Number(u64),
    Changed { matched: u64, modified: u64, upserted: Option<Bson> },
}

/// Does a statement in a session, or without one as a plain call. Fails with the code of the error.
pub(crate) fn perform(
    collection: &Collection<Document>,
    statement: &Statement,
    session: Option<&mut ClientSession>,
) -> Result<Answer, Error> {
    /// Runs an action, in the session if there is one.
    macro_rules! run {
        ($action:expr) => {
            match session {
                Some(session) => $action.session(session).run(),
                None => $action.run(),
            }
        };
    }
    let by_id = || doc! { "_id": 1 };
    Ok(match statement {
        Statement::Find(search) => Answer::Documents(find(collection, search, session)?),
        Statement::FindOne(filter) => {
            Answer::Document(run!(collection.find_one(filter.to_document()).sort(by_id()))?)
        }
        Statement::Count(filter) => Answer::Number(run!(collection.count_documents(filter.to_document()))?),
        Statement::Group(filter) => Answer::Documents(group(collection, filter, session)?),
        Statement::Distinct(filter) => {
            let mut values = run!(collection.distinct("k", filter.to_document()))?;
            values.sort_by_key(Bson::as_i32);
            Answer::Values(values)
        }
        Statement::InsertOne(document) => {
            run!(collection.insert_one(document))?;
            Answer::Number(1)
        }
        Statement::InsertMany(documents) => {
            Answer::Number(run!(collection.insert_many(documents))?.inserted_ids.len() as u64)
        }
        Statement::UpdateOne(Update { filter, change, is_upsert }) => {
            let update = collection.update_one(filter.to_document(), change.to_document());
            changed(&run!(update.sort(by_id()).upsert(*is_upsert))?)
        }
        Statement::UpdateMany(filter, change) => {
            changed(&run!(collection.update_many(filter.to_document(), change.to_document()))?)
        }
        Statement::Replace(filter, document) => {
            changed(&run!(collection.replace_one(filter.to_document(), document))?)
        }
        Statement::FindOneAndUpdate { update: Update { filter, change, is_upsert }, is_new_returned } => {
            let shown = if *is_new_returned { ReturnDocument::After } else { ReturnDocument::Before };
            let update = collection.find_one_and_update(filter.to_document(), change.to_document());
            Answer::Document(run!(update.sort(by_id()).upsert(*is_upsert).return_document(shown))?)
        }
        Statement::FindOneAndDelete(filter) => {
            Answer::Document(run!(collection.find_one_and_delete(filter.to_document()).sort(by_id()))?)
        }
        Statement::DeleteOne(filter) => {
            // A delete has no order, and the walk by `_id`s has one.
            let hint = Hint::Name("_id_".to_owned());
            Answer::Number(run!(collection.delete_one(filter.to_document()).hint(hint))?.deleted_count)
        }
        Statement::DeleteMany(filter) => {
            Answer::Number(run!(collection.delete_many(filter.to_document()))?.deleted_count)
        }
    })
}

fn find(
    collection: &Collection<Document>,
    search: &Search,
    session: Option<&mut ClientSession>,
) -> Result<Vec<Document>, Error> {
    let find = search.action(collection);
    match session {
        Some(session) => find.session(session).run()?.iter(session).collect(),
        None => find.run()?.collect(),
    }
}

fn group(
    collection: &Collection<Document>,
    filter: &Filter,
    session: Option<&mut ClientSession>,
) -> Result<Vec<Document>, Error> {
    let sums = doc! { "_id": "$k", "count": { "$sum": 1 }, "ids": { "$sum": "$_id" } };
    let stages =
        [doc! { "$match": filter.to_document() }, doc! { "$group": sums }, doc! { "$sort": { "_id": 1 } }];
    let aggregate = collection.aggregate(stages);
    match session {
        Some(session) => aggregate.session(session).run()?.iter(session).collect(),
        None => aggregate.run()?.collect(),
    }
}

fn changed(result: &cairndb::UpdateResult) -> Answer {
    Answer::Changed {
        matched: result.matched_count,
        modified: result.modified_count,
        upserted: result.upserted_id.clone(),
    }
}

/// The code of an error; of several documents, that of the first that was rejected.
pub(crate) fn code_of(error: &Error) -> i32 {
    if let ErrorKind::InsertMany(details) = error.kind()
        && let Some(refused) = details.write_errors.as_ref().and_then(|refused| refused.first())
    {
        return refused.code;
    }
    error.code().unwrap_or_default()
}
