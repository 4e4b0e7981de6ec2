//! Three ways to number, each where it belongs:
//!
//! - invoices by a **gapless** sequence: an auditor finds no number missing, even after failed inserts;
//! - tickets by a **fast** one: any number of threads, nobody waits, a number may be missing;
//! - an outbox by an **ordered** one: a consumer that remembers the last number it saw misses nothing.
//!
//! Run it with `cargo run --release -p cairndb --example numbering`.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Database, IndexModel, IndexOptions, Result};

const WRITERS: i64 = 4;
const EACH: i64 = 500;

fn main() -> Result<()> {
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

/// A numbered collection.
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
                    // Every second writer bills the orders of the one before him again, and is refused.
                    let order = (writer / 2) * EACH + order;
                    let _ = invoices.insert_one(doc! { "order": order }).run();
                }
            });
        }
    });
    let mut numbers = numbers(&invoices)?;
    numbers.sort_unstable();
    let billed = WRITERS / 2 * EACH;
    assert_eq!(numbers, (1..=billed).collect::<Vec<_>>(), "refused invoices took no number");
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

/// Reads what lies above the last number seen, until everything was written and seen.
fn consume(outbox: &Collection<Document>, done: &AtomicBool) -> Result<i64> {
    let (mut last, mut seen) = (0_i64, 0);
    loop {
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
