//! The collections of the crash suite for calls with tokens. Each of its threads makes versions, each by one call with a token of its own.
//! All that is stored follows from the thread and the version.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Error, ReturnDocument, WriteConcern};

use crate::choices::mix;
use crate::following::Copy;

/// The database of all that is written.
pub const DATABASE: &str = "crash";
/// The threads, as tags of the journal.
pub const THREADS: u64 = 3;
/// The number of versions that one life may have. Versions ascend through all lives.
pub const VERSIONS_PER_LIFE: u64 = 100_000;
/// The number of kinds of calls.
pub const KINDS: usize = 7;
/// The number of documents of a thread that are updated, or inserted, together.
const MANY: i64 = 5;

/// The answer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// A number that is another one for each call of the kind, where there is one.
    pub value: i64,
    /// Whether the call had happened before. Absent where results do not say.
    pub was_replayed: Option<bool>,
}

fn collection(client: &Client, name: &str) -> Collection<Document> {
    client.database(DATABASE).collection(name)
}

/// Which kind of call makes a version.
pub fn kind(tag: u64, version: u64) -> usize {
    usize::try_from(mix(tag.rotate_left(32) ^ version) % KINDS as u64).unwrap_or_default()
}

/// The name of a version of a thread in the journal.
pub fn course(tag: u64, version: u64) -> u64 {
    tag << 48 | version
}

/// Makes what is written to, unless it is there.
pub fn make(client: &Client) -> Result<(), Error> {
    let database = client.database(DATABASE);
    if !database.list_collection_names().run()?.iter().any(|name| name == "invoices") {
        let field = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
        database.create_collection("invoices").auto_increment(field).run()?;
    }
    let many = collection(client, "many");
    for thread in 0..THREADS.cast_signed() {
        for place in 0..MANY {
            let id = doc! { "_id": format!("{thread} {place}") };
            many.update_one(id, doc! { "$set": { "thread": thread } }).upsert(true).run()?;
        }
    }
    Ok(())
}

/// Makes a version by a call with its token.
pub fn call(client: &Client, tag: u64, version: u64, is_journaled: bool) -> Result<Answer, Error> {
    let (thread, token) = (tag.cast_signed(), format!("{tag} {version}"));
    let concern = if is_journaled { WriteConcern::journaled() } else { WriteConcern::default() };
    let one = || doc! { "$inc": { "n": 1_i64 } };
    let told = |value, was_replayed| Answer { value, was_replayed: Some(was_replayed) };
    let answer = match kind(tag, version) {
        0 => {
            let invoice = doc! { "thread": thread, "version": version.cast_signed() };
            let invoices = collection(client, "invoices");
            let done = invoices.insert_one(invoice).write_concern(concern).exactly_once(token).run()?;
            told(done.generated.get("n").unwrap_or_default(), done.was_replayed)
        }
        1 => {
            let shown = collection(client, "shown");
            let next = shown.find_one_and_update(doc! { "_id": thread }, one()).upsert(true);
            let next = next.return_document(ReturnDocument::After).write_concern(concern);
            let shown = next.exactly_once(token).run()?.unwrap_or_default();
            Answer { value: shown.get_i64("n").unwrap_or_default(), was_replayed: None }
        }
        2 => {
            let into = collection(client, "many");
            let update = into.update_many(doc! { "thread": thread }, one());
            let done = update.write_concern(concern).exactly_once(token).run()?;
            told(done.modified_count.cast_signed(), done.was_replayed)
        }
        3 => {
            let (counters, steps) = (collection(client, "counters"), collection(client, "steps"));
            let mut session = client.start_session().run()?;
            let transaction = session.start_transaction().write_concern(concern).exactly_once(token);
            let value = transaction.and_run(|session| {
                let next = counters.find_one_and_update(doc! { "_id": thread }, one()).upsert(true);
                let next = next.return_document(ReturnDocument::After).session(&mut *session).run()?;
                steps.insert_one(doc! { "thread": thread }).session(&mut *session).run()?;
                Ok(next.unwrap_or_default().get_i64("n").unwrap_or_default())
            })?;
            Answer { value, was_replayed: None }
        }
        4 => {
            let documents = (0..MANY).map(|place| doc! { "thread": thread, "place": place });
            let into = collection(client, "inserted");
            let insert = into.insert_many(documents);
            let done = insert.write_concern(concern).exactly_once(token).run()?;
            // They follow from the `_id`s, which the engine makes.
            let mut ids: Vec<(usize, Bson)> = done.inserted_ids.into_iter().collect();
            ids.sort_by_key(|(place, _)| *place);
            let hash = ids.iter().fold(0, |hash, id| mix(hash ^ hash_of(&format!("{id:?}"))));
            told(hash.cast_signed(), done.was_replayed)
        }
        5 => {
            let into = collection(client, "upserted");
            let update = into.update_one(doc! { "_id": thread }, one()).upsert(true);
            let done = update.write_concern(concern).exactly_once(token).run()?;
            let answer = format!("{:?} {} {}", done.upserted_id, done.matched_count, done.modified_count);
            told(hash_of(&answer).cast_signed(), done.was_replayed)
        }
        _ => {
            // It matches nothing, and that is its answer.
            let into = collection(client, "upserted");
            let delete = into.delete_one(doc! { "_id": "none" });
            let done = delete.write_concern(concern).exactly_once(token).run()?;
            told(done.deleted_count.cast_signed(), done.was_replayed)
        }
    };
    Ok(answer)
}

fn hash_of(text: &str) -> u64 {
    text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// The number of versions of a thread that are there, by the kinds of their calls. Those that leave nothing are 0.
pub fn state(client: &Client, tag: u64) -> Result<[u64; KINDS], String> {
    let failed = |error: Error| error.to_string();
    let thread = tag.cast_signed();
    let count = |name: &str| collection(client, name).count_documents(doc! { "thread": thread }).run();
    let counter = |name: &str, id: Bson| -> Result<u64, Error> {
        let found = collection(client, name).find_one(doc! { "_id": id }).run()?.unwrap_or_default();
        Ok(found.get_i64("n").unwrap_or_default().cast_unsigned())
    };
    let of_thread = || Bson::from(thread);
    let mut of_many = Vec::new();
    for place in 0..MANY {
        of_many.push(counter("many", Bson::from(format!("{thread} {place}"))).map_err(failed)?);
    }
    of_many.dedup();
    let [many] = of_many[..] else {
        return Err(format!("thread {tag}: a part of its many is there: {of_many:?}"));
    };
    let inserted = count("inserted").map_err(failed)?;
    if inserted % MANY.cast_unsigned() != 0 {
        return Err(format!("thread {tag}: {inserted} documents came from calls of {MANY} each"));
    }
    let (added, steps) = (counter("counters", of_thread()).map_err(failed)?, count("steps").map_err(failed)?);
    if added != steps {
        return Err(format!("thread {tag}: {added} is counted, and {steps} steps are there"));
    }
    Ok([
        count("invoices").map_err(failed)?,
        counter("shown", of_thread()).map_err(failed)?,
        many,
        added,
        inserted / MANY.cast_unsigned(),
        counter("upserted", of_thread()).map_err(failed)?,
        0,
    ])
}

/// The numbers of all invoices are those from 1 on.
pub fn check_numbers(client: &Client) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let invoices =
        collection(client, "invoices").find(doc! {}).sort(doc! { "n": 1 }).run().map_err(failed)?;
    for (wanted, invoice) in (1_i64..).zip(invoices) {
        let invoice = invoice.map_err(failed)?;
        if invoice.get_i64("n").ok() != Some(wanted) {
            return Err(format!("{invoice} is invoice {wanted}"));
        }
    }
    Ok(())
}

/// Whether a copy by events has each transaction whole, or not at all.
pub fn check_copy(copy: &Copy) -> Result<(), String> {
    let counters = copy.get("counters").into_iter().flatten();
    let counted: i64 = counters.map(|(_, counter)| counter.get_i64("n").unwrap_or_default()).sum();
    let steps = copy.get("steps").map_or(0, std::collections::BTreeMap::len);
    if usize::try_from(counted) == Ok(steps) {
        return Ok(());
    }
    Err(format!("a transaction is divided: {counted} is counted, and {steps} steps are there"))
}
