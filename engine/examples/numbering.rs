//! Three contracts of sequences, each for what it is good for:
//!
//! - invoices by a **gapless** sequence: no number is missing, even after failed inserts;
//! - tickets by a **fast** one: any number of threads take numbers without waiting, and a number can be missing;
//! - an outbox by an **ordered** one: a consumer that remembers the last number that it saw misses no event.
//!
//! Run it with `cargo run --release -p cairndb --example numbering`.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Database, IndexModel, IndexOptions, Result};

const WRITERS: i64 = 4;
const EACH: i64 = 500;

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(folder.path().join("shop"))?;
    let db = client.database("shop");
    let mut out = std::io::stdout().lock();
    invoices(&db, &mut out)?;
    tickets(&db, &mut out)?;
    outbox(&db, &mut out)?;
    let report = client.verify()?;
    assert!(report.is_clean(), "everything stored agrees: {report:?}");
    client.close()
}

/// Creates a collection with an auto-increment field.
fn numbered(db: &Database, name: &str, contract: Contract) -> Result<Collection<Document>> {
    let number = AutoIncrement::builder().field("number").contract(contract).build();
    db.create_collection(name).auto_increment(number).run()?;
    Ok(db.collection(name))
}

fn invoices(db: &Database, out: &mut impl Write) -> Result<()> {
    let invoices = numbered(db, "invoices", Contract::Gapless)?;
    let unique = IndexOptions::builder().unique(true).build();
    invoices.create_index(IndexModel::builder().keys(doc! { "order": 1 }).options(unique).build()).run()?;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let invoices = invoices.clone();
            scope.spawn(move || {
                for order in 0..EACH {
                    // Two writers each bill the same orders, so every second insert is refused.
                    let order = (writer / 2) * EACH + order;
                    let _ = invoices.insert_one(doc! { "order": order }).run();
                }
            });
        }
    });
    let mut numbers = numbers(&invoices)?;
    numbers.sort_unstable();
    let billed = WRITERS / 2 * EACH;
    assert_eq!(numbers, (1..=billed).collect::<Vec<_>>(), "refused invoices take no number");
    writeln!(out, "invoices: {billed} stored, {billed} refused, numbers 1 to {billed} without a gap")?;
    Ok(())
}

fn tickets(db: &Database, out: &mut impl Write) -> Result<()> {
    db.create_sequence("tickets").start_value(1000).run()?;
    let tickets = db.sequence("tickets");
    let mut taken: Vec<i64> = thread::scope(|scope| {
        let draw = || {
            let tickets = tickets.clone();
            scope.spawn(move || (0..EACH).map(|_| tickets.next_value().run()).collect::<Result<Vec<_>>>())
        };
        let threads: Vec<_> = (0..WRITERS).map(|_| draw()).collect();
        let drawn = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        drawn.collect::<Result<Vec<_>>>().map(|drawn| drawn.concat())
    })?;
    taken.sort_unstable();
    taken.dedup();
    let drawn = i64::try_from(taken.len()).unwrap_or(i64::MAX);
    assert_eq!(drawn, WRITERS * EACH, "no ticket twice");
    writeln!(out, "tickets: {drawn} drawn by {WRITERS} threads, none twice")?;
    Ok(())
}

fn outbox(db: &Database, out: &mut impl Write) -> Result<()> {
    let outbox = numbered(db, "outbox", Contract::Ordered)?;
    let done = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&outbox, &done));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let outbox = outbox.clone();
                scope.spawn(move || {
                    (0..EACH).try_for_each(|event| {
                        outbox.insert_one(doc! { "writer": writer, "event": event }).run().map(|_| ())
                    })
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("no panic")?;
        }
        done.store(true, Ordering::Release);
        consumer.join().expect("no panic")
    })?;
    assert_eq!(seen, WRITERS * EACH, "the consumer saw every event once");
    writeln!(out, "outbox: {seen} events seen, each once, by polling above the last number")?;
    Ok(())
}

/// Reads events with numbers above the last one seen, until all are written and seen.
fn consume(outbox: &Collection<Document>, done: &AtomicBool) -> Result<i64> {
    let (mut last, mut seen) = (0_i64, 0);
    loop {
        // Read before the search: what the search does not find after this was not written.
        let finished = done.load(Ordering::Acquire);
        let mut highest = last;
        for event in outbox.find(doc! { "number": { "$gt": last } }).run()? {
            highest = highest.max(event?.get_i64("number").expect("every event is numbered"));
            seen += 1;
        }
        if finished && highest == last {
            return Ok(seen);
        }
        last = highest;
    }
}

fn numbers(collection: &Collection<Document>) -> Result<Vec<i64>> {
    let read = |found: Result<Document>| Ok(found?.get_i64("number").expect("every document is numbered"));
    collection.find(doc! {}).run()?.map(read).collect()
}
