//! The work of every store of the comparison: one stream of documents, one order of work.
//!
//! A runner is a program around one [`Store`] whose `main` is [`run`]. It gets its documents in the
//! form that its store accepts (BSON bytes, JSON text, a tree), made before the clock starts, so that
//! what is timed is the store. It knows nothing of the other stores: the driver starts each in turn.

#![forbid(unsafe_code)]

mod arguments;
mod durability;
pub mod indexed;
pub mod numbers;
pub mod order;
pub mod pipeline;
mod random;
mod store;
mod warm;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

pub use durability::{Durability, Result};
pub use indexed::{IndexedStore, Kind, Read};
pub use order::{Order, Wanted};
pub use pipeline::{City, Parcel, PipelineStore};
use random::Random;
pub use store::{DocumentStore, Seen, Store};
use store::{expect_seen, report};
use warm::warm;

/// The number of documents that one transaction stores.
const TRANSACTION_DOCUMENTS: usize = 10;
/// The number of documents that one call of [`Store::insert_many`] gets.
pub const BATCH_DOCUMENTS: usize = 1_000;

/// The request of the driver to a runner, as its command line in this order.
struct Request {
    folder: PathBuf,
    durability: Durability,
    ones: u64,
    batches: u64,
    reads: u64,
    finds: u64,
    updates: u64,
    indexed: u64,
}

impl Request {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (folder, durability) = arguments::place(&mut arguments)?;
        let mut number = |name| arguments::number(name, &mut arguments);
        Ok(Self {
            folder,
            durability,
            ones: number("ONES")?,
            batches: number("BATCHES")?,
            reads: number("READS")?,
            finds: number("FINDS")?,
            updates: number("UPDATES")?,
            indexed: number("INDEXED")?,
        })
    }
}

/// A runner's `main`: does the work that the command line asks for, and prints one line a figure,
/// `name operations_per_second`.
///
/// The command line is `FOLDER synced|unsynced|delayed ONES BATCHES READS FINDS UPDATES INDEXED`; the last three are for stores
/// that look into their documents: groups are made as often as filtered scans, and as many orders are joined as are read by an index.
pub fn run<S: Store>() -> ExitCode {
    end(request().and_then(|request| perform::<S>(&request).map(|_| ())))
}

/// The workload of a store that looks into its documents.
pub fn run_documents<S: IndexedStore>() -> ExitCode {
    end(request().and_then(|request| perform_documents::<S>(&request).map(|_| ())))
}

/// The workload of a store that groups and joins documents too.
pub fn run_pipelines<S: PipelineStore>() -> ExitCode {
    end(request().and_then(|request| {
        let (mut store, stored) = perform_documents::<S>(&request)?;
        pipeline::perform(&mut store, stored, request.finds, request.indexed)
    }))
}

/// Does what a store can that looks into its documents; the store, and how many it holds.
fn perform_documents<S: IndexedStore>(request: &Request) -> Result<(S, u64)> {
    let (mut store, ids) = perform::<S>(request)?;
    let stored = ids.len() as u64;
    scan_filter(&store, stored, request.finds)?;
    update_inc(&mut store, &ids, request.updates)?;
    indexed::perform(&mut store, stored, request.indexed)?;
    Ok((store, stored))
}

fn request() -> Result<Request> {
    Request::parse(std::env::args().skip(1))
}

fn end(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what every store can; the store, opened again, and the ids of what it holds.
fn perform<S: Store>(request: &Request) -> Result<(S, Vec<S::Id>)> {
    let mut store = S::open(&request.folder, request.durability)?;
    let mut ids = insert_ones(&mut store, request.ones)?;
    ids.extend(transact(&mut store, request.ones)?);
    ids.extend(insert_batches(&mut store, ids.len() as u64, request.batches)?);
    // Read from what reached the files, not from what insertion happens to leave in memory.
    drop(store);
    let store = S::open(&request.folder, request.durability)?;
    read(&store, &ids, request.reads)?;
    scan(&store, ids.len() as u64)?;
    Ok((store, ids))
}

fn insert_ones<S: Store>(store: &mut S, count: u64) -> Result<Vec<S::Id>> {
    let documents = (0..count).map(|n| S::prepare(&Order::nth(n))).collect::<Result<Vec<_>>>()?;
    let mut ids = Vec::with_capacity(documents.len());
    let start = Instant::now();
    for document in documents {
        ids.push(store.insert_one(document)?);
    }
    report("insert_one", count, start);
    Ok(ids)
}

/// Inserts about as many documents as one by one, after those, and some in one transaction each.
fn transact<S: Store>(store: &mut S, first: u64) -> Result<Vec<S::Id>> {
    let total = first.next_multiple_of(TRANSACTION_DOCUMENTS as u64);
    let orders: Vec<Order> = (first..first + total).map(Order::nth).collect();
    let transactions = orders
        .chunks(TRANSACTION_DOCUMENTS)
        .map(|orders| orders.iter().map(S::prepare).collect())
        .collect::<Result<Vec<Vec<_>>>>()?;
    let mut ids = Vec::with_capacity(orders.len());
    let start = Instant::now();
    for documents in transactions {
        ids.extend(store.transact(documents)?);
    }
    if S::HAS_TRANSACTIONS {
        report("transaction_ten", total, start);
    }
    Ok(ids)
}

fn insert_batches<S: Store>(store: &mut S, first: u64, count: u64) -> Result<Vec<S::Id>> {
    let total = count * BATCH_DOCUMENTS as u64;
    let orders: Vec<Order> = (first..first + total).map(Order::nth).collect();
    let batches = orders
        .chunks(BATCH_DOCUMENTS)
        .map(|batch| batch.iter().map(S::prepare).collect())
        .collect::<Result<Vec<Vec<_>>>>()?;
    let mut ids = Vec::with_capacity(orders.len());
    let start = Instant::now();
    for batch in batches {
        ids.extend(store.insert_many(batch)?);
    }
    report("insert_many", total, start);
    Ok(ids)
}

fn read<S: Store>(store: &S, ids: &[S::Id], count: u64) -> Result<()> {
    for (figure, among) in [("find_by_id", ids.len()), ("find_by_id_warm", warm(ids.len() as u64, count))] {
        let mut random = Random::new(1);
        let mut seen = Seen::default();
        let start = Instant::now();
        for _ in 0..count {
            let Some(id) = ids.get(random.below(among)) else { break };
            store.read(id, &mut seen)?;
        }
        report(figure, count, start);
        expect_seen(figure, &seen, count)?;
    }
    Ok(())
}

fn scan<S: Store>(store: &S, stored: u64) -> Result<()> {
    let mut seen = Seen::default();
    let start = Instant::now();
    store.scan(&mut seen)?;
    report("scan", stored, start);
    expect_seen("scan", &seen, stored)
}

/// The rate is that of documents looked at, as in a scan of all.
fn scan_filter<S: DocumentStore>(store: &S, stored: u64, count: u64) -> Result<()> {
    let wanted = Wanted::among(stored);
    let matching = (0..stored).filter(|n| wanted.matches(&Order::nth(*n))).count() as u64;
    let mut seen = Seen::default();
    let start = Instant::now();
    for _ in 0..count {
        store.find(&wanted, &mut seen)?;
    }
    report("scan_filter", stored * count, start);
    expect_seen("filtered scans", &seen, matching * count)
}

fn update_inc<S: DocumentStore>(store: &mut S, ids: &[S::Id], count: u64) -> Result<()> {
    let mut random = Random::new(2);
    let mut changed = 0;
    let start = Instant::now();
    for _ in 0..count {
        let Some(id) = ids.get(random.below(ids.len())) else { break };
        changed += store.increment(id)?;
    }
    report("update_inc", count, start);
    if changed == count {
        return Ok(());
    }
    Err(format!("{count} updates changed {changed} documents").into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(line: &str) -> Result<Request> {
        Request::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_command_line_is_read_in_order() {
        let request = parse("folder unsynced 10 2 30 4 50 60").unwrap();
        assert_eq!(request.folder, Path::new("folder"));
        assert_eq!(request.durability, Durability::Unsynced);
        assert_eq!((request.ones, request.batches, request.reads), (10, 2, 30));
        assert_eq!((request.finds, request.updates, request.indexed), (4, 50, 60));
    }

    #[test]
    fn a_wrong_command_line_names_the_argument() {
        let message = |line: &str| parse(line).err().unwrap().to_string();
        assert_eq!(message("folder"), "argument DURABILITY is missing");
        assert_eq!(
            message("folder maybe 1 1 1"),
            "durability 'maybe' is neither synced, unsynced nor delayed"
        );
        assert_eq!(message("folder synced 1 x 1"), "BATCHES 'x' is not a number");
    }
}
