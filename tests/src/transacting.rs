//! The collections of the crash suite for transactions and writes that are sent again. Each of its threads makes versions:
//! by a transaction over several collections, or by a command. All that is stored follows from the thread and the version.

use std::collections::{BTreeMap, BTreeSet};

use cairndb::bson::{Bson, Document, doc};
use cairndb::{
    AutoIncrement, Client, Collection, Contract, Error, IndexModel, IndexOptions, RetryableWrite,
    WriteConcern,
};

use crate::choices::mix;
use crate::following::Copy;

/// The threads, as tags of the journal. Each is a session.
pub const THREADS: u64 = 3;
/// The number of versions that one life may have. Versions ascend through all lives.
pub const VERSIONS_PER_LIFE: u64 = 100_000;
/// The database of the collections.
pub const DATABASE: &str = "crash";
/// The collections of a transaction's documents, in turns.
const COLLECTIONS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// The state of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The last one.
    pub version: u64,
    /// The number of versions that came from transactions.
    pub transactions: u64,
    /// The number of those that came from commands.
    pub commands: u64,
}

fn collection(client: &Client, name: &str) -> Collection<Document> {
    client.database(DATABASE).collection(name)
}

/// Whether a transaction makes the version, and no command.
pub fn is_transaction(tag: u64, version: u64) -> bool {
    !mark(tag, version).is_multiple_of(3)
}

fn mark(tag: u64, version: u64) -> u64 {
    mix(tag.rotate_left(32) ^ version)
}

/// The number of documents that the transaction of a version inserts.
fn documents(tag: u64, version: u64) -> u64 {
    let mark = mark(tag, version) / 3;
    let most = match mark % 32 {
        0 => 2000,
        1..6 => 100,
        _ => 10,
    };
    1 + mark / 32 % most
}

/// The name of a version's write.
pub fn write(tag: u64, version: u64) -> RetryableWrite {
    let [tag, ..] = tag.to_le_bytes();
    RetryableWrite::new([tag; 16], [0; 16], version.cast_signed())
}

/// Makes the collections and their indexes, unless they are there.
pub fn make(client: &Client) -> Result<(), Error> {
    let unique = IndexOptions::builder().unique(true).build();
    let unique = IndexModel::builder().keys(doc! { "thread": 1, "place": 1 }).options(unique).build();
    for name in COLLECTIONS {
        collection(client, name).create_index(unique.clone()).run()?;
        collection(client, name)
            .create_index(IndexModel::builder().keys(doc! { "parts": 1 }).build())
            .run()?;
    }
    let database = client.database(DATABASE);
    if !database.list_collection_names().run()?.iter().any(|name| name == "invoices") {
        let field = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
        database.create_collection("invoices").auto_increment(field).run()?;
    }
    // No command of two threads makes it at once.
    collection(client, "counters")
        .create_index(IndexModel::builder().keys(doc! { "version": 1 }).build())
        .run()?;
    Ok(())
}

/// Replaces the documents of a thread in all collections by those of a version, with an invoice, in one transaction.
pub fn transact(client: &Client, tag: u64, version: u64, is_journaled: bool) -> Result<(), Error> {
    let (thread, number) = (tag.cast_signed(), version.cast_signed());
    let mut session = client.start_session().run()?;
    session.start_transaction().run()?;
    for (turn, name) in (0..).zip(COLLECTIONS) {
        let collection = collection(client, name);
        collection.delete_many(doc! { "thread": thread }).session(&mut session).run()?;
        let places = (turn..documents(tag, version)).step_by(COLLECTIONS.len()).map(u64::cast_signed);
        let document =
            |place| doc! { "thread": thread, "place": place, "version": number, "parts": [place, number] };
        let documents: Vec<Document> = places.map(document).collect();
        if !documents.is_empty() {
            collection.insert_many(documents).session(&mut session).run()?;
        }
    }
    let invoice = doc! { "thread": thread, "version": number };
    collection(client, "invoices").insert_one(invoice).session(&mut session).run()?;
    let step = doc! { "$inc": { "transactions": 1_i64 }, "$set": { "version": number } };
    let counters = collection(client, "counters");
    counters.update_one(doc! { "_id": thread }, step).upsert(true).session(&mut session).run()?;
    let commit = session.commit_transaction().retryable(write(tag, version));
    if is_journaled { commit.write_concern(WriteConcern::journaled()).run() } else { commit.run() }
}

/// Makes a version by a command, or by the same one again, which changes nothing. Fails where the answer is not that of a
/// command which has changed one document.
pub fn command(client: &Client, tag: u64, version: u64, is_journaled: bool) -> Result<(), Error> {
    let step = doc! { "$inc": { "commands": 1_i64 }, "$set": { "version": version.cast_signed() } };
    let update = doc! { "q": { "_id": tag.cast_signed() }, "u": step, "upsert": true };
    let concern = doc! { "w": 1, "j": is_journaled };
    let command = doc! { "update": "counters", "updates": [update], "writeConcern": concern };
    let answer = client.database(DATABASE).run_command(command).retryable(write(tag, version)).run()?;
    match answer.get("n").and_then(Bson::as_i32) {
        Some(1) => Ok(()),
        _ => Err(Error::custom(format!("version {version} of thread {tag} was answered with {answer}"))),
    }
}

/// The state of a thread; says what is wrong with a mixture.
pub fn state(client: &Client, tag: u64) -> Result<State, String> {
    let failed = |error: Error| error.to_string();
    let thread = tag.cast_signed();
    let counter = collection(client, "counters").find_one(doc! { "_id": thread }).run().map_err(failed)?;
    let number = |document: &Document, field| document.get_i64(field).unwrap_or_default().cast_unsigned();
    let counter = counter.unwrap_or_default();
    let state = State {
        version: number(&counter, "version"),
        transactions: number(&counter, "transactions"),
        commands: number(&counter, "commands"),
    };
    let all = |name| -> Result<Vec<Document>, String> {
        let found = collection(client, name).find(doc! { "thread": thread }).run().map_err(failed)?;
        found.collect::<Result<_, _>>().map_err(failed)
    };
    let invoices = all("invoices")?;
    let last = invoices.iter().map(|invoice| number(invoice, "version")).max().unwrap_or(0);
    let is_last = last == state.version || last < state.version && !is_transaction(tag, state.version);
    if invoices.len() as u64 != state.transactions || !is_last {
        return Err(format!(
            "thread {tag}: {} invoices, the last of version {last}, and {state:?}",
            invoices.len()
        ));
    }
    let mut wanted = if last == 0 { 0 } else { documents(tag, last) };
    for name in COLLECTIONS {
        let found = all(name)?;
        if let Some(other) = found.iter().find(|document| number(document, "version") != last) {
            return Err(format!("thread {tag}: {other} in {name}, and an invoice of version {last}"));
        }
        wanted = wanted
            .checked_sub(found.len() as u64)
            .ok_or(format!("thread {tag}: too many documents of {last}"))?;
    }
    match wanted {
        0 => Ok(state),
        missing => Err(format!("thread {tag}: {missing} documents of version {last} are missing")),
    }
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
    let number = |document: &Document, field| document.get_i64(field).unwrap_or_default().cast_unsigned();
    let documents_of = |name: &str| copy.get(name).into_iter().flatten().map(|(_, document)| document);
    let transactions: u64 = documents_of("counters").map(|counter| number(counter, "transactions")).sum();
    let invoices = copy.get("invoices").map_or(0, BTreeMap::len) as u64;
    if transactions != invoices {
        return Err(format!(
            "a transaction is divided: {transactions} are counted, {invoices} invoices are there"
        ));
    }
    // By thread and version.
    let mut found: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for document in COLLECTIONS.into_iter().flat_map(documents_of) {
        *found.entry((number(document, "thread"), number(document, "version"))).or_default() += 1;
    }
    let threads: BTreeSet<u64> = found.keys().map(|(thread, _)| *thread).collect();
    let is_whole = |(&(tag, version), &count): (&(u64, u64), &u64)| count == documents(tag, version);
    if threads.len() == found.len() && found.iter().all(is_whole) {
        return Ok(());
    }
    Err(format!("a transaction is divided: by thread and version, the documents that are there: {found:?}"))
}
