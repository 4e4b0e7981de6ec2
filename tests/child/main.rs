//! The process that suites start beside their own: it holds a folder open, or writes until it is killed.
//!
//! `child hold FOLDER` opens the folder and waits for the end of standard input. `child write FOLDER SEED LIFE
//! FLAW` writes from several threads and journals to standard output; with the flaw `acknowledge-first` it says
//! that an insert is done before it is, which the crash suite must notice. `child number FOLDER SEED` numbers documents
//! from several threads, and journals the values. `child expire FOLDER SEED LIFE FLAW` makes TTL passes and builds indexes while
//! it writes. `child upload FOLDER SEED LIFE FLAW` uploads, gives up and removes files; `child replace FOLDER SEED LIFE FLAW`
//! runs pipelines that write. `child transact FOLDER SEED LIFE FLAW` commits transactions, and `child spend FOLDER SEED LIFE FLAW` makes calls with tokens. `child cap FOLDER SEED LIFE FLAW` fills a capped collection and converts another. `child fill FOLDER` inserts until the storage refuses, and prints what it
//! saw then; so do `child fill-numbered FOLDER WHAT`, which takes values, `child fill-files FOLDER SIZE`, which uploads files, and `child fill-tokens FOLDER DOCUMENTS`, which makes calls with tokens. `child load FOLDER BUDGET` writes and
//! reads more than the memory budget, and prints the most memory that it had; so does `child long FOLDER FIELD` with values of megabytes. `child spill FOLDER STAGE_MEMORY` sorts, groups and joins
//! more than a stage may hold, and prints the same. `child power FOLDER …` does a short workload
//! on a disk that fails, as the suite `power` asks for it. `child bounded FOLDER DOORS` sends requests that ask for too much under
//! a limit on its address space, and `child starve FOLDER` writes until it has no more memory.

#![forbid(unsafe_code)]

mod bounded;
mod cap;
mod expire;
mod fill;
mod journal;
mod load;
mod long;
mod number;
mod power;
mod replace;
mod shown;
mod spend;
mod spill;
mod starve;
mod transact;
mod upload;
mod versions;
mod writer;

use std::io::{Read, Write};
use std::process::ExitCode;

use cairndb_tests::scratch;

use crate::journal::Flaw;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["hold", folder] => hold(folder),
        ["write", folder, seed, life, flaw] => write(folder, (seed, life), flaw),
        ["expire", folder, seed, life, flaw] => expire(folder, (seed, life), flaw),
        ["upload", folder, seed, life, flaw] => upload(folder, (seed, life), flaw),
        ["replace", folder, seed, life, flaw] => replace(folder, (seed, life), flaw),
        ["transact", folder, seed, life, flaw] => transact(folder, (seed, life), flaw),
        ["spend", folder, seed, life, flaw] => spend(folder, (seed, life), flaw),
        ["cap", folder, seed, life, flaw] => cap(folder, (seed, life), flaw),
        ["number", folder, seed] => number(folder, seed),
        ["fill", folder] => fill::run(folder),
        ["fill-files", folder, chunk_size] => fill::run_files(folder, chunk_size),
        ["fill-tokens", folder, documents] => fill::run_tokens(folder, documents),
        ["long", folder, field] => long::run(folder.as_ref(), field),
        ["load", folder, memory_budget] => load(folder, memory_budget),
        ["spill", folder, stage_memory] => spill(folder, stage_memory),
        ["fill-numbered", folder, what] => number::fill(folder, what),
        ["bounded", folder, doors] => bounded::run(folder, doors),
        ["starve", folder] => starve::run(folder),
        ["power", words @ ..] => power::run(words),
        _ => Err(format!("unknown arguments: {words:?}").into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("child: {error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn hold(folder: &str) -> Outcome<()> {
    let client = scratch::small().open(folder)?;
    std::io::stdout().write_all(b"open\n")?;
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    client.close()?;
    Ok(())
}

fn expire(folder: &str, (seed, life): (&str, &str), flaw: &str) -> Outcome<()> {
    let flaw = match flaw {
        "none" => expire::Flaw::None,
        "acknowledge-pass-first" => expire::Flaw::AcknowledgePassFirst,
        "acknowledge-index-first" => expire::Flaw::AcknowledgeIndexFirst,
        other => return Err(format!("unknown flaw {other:?}").into()),
    };
    expire::run(folder.as_ref(), (seed.parse()?, life.parse()?), flaw)
}

fn upload(folder: &str, (seed, life): (&str, &str), flaw: &str) -> Outcome<()> {
    upload::run(folder.as_ref(), (seed.parse()?, life.parse()?), Flaw::named(flaw)?)
}

fn replace(folder: &str, (seed, life): (&str, &str), flaw: &str) -> Outcome<()> {
    replace::run(folder.as_ref(), (seed.parse()?, life.parse()?), Flaw::named(flaw)?)
}

fn transact(folder: &str, (seed, life): (&str, &str), flaw: &str) -> Outcome<()> {
    transact::WORK.run(folder.as_ref(), (seed.parse()?, life.parse()?), Flaw::named(flaw)?)
}

fn spend(folder: &str, (seed, life): (&str, &str), flaw: &str) -> Outcome<()> {
    spend::WORK.run(folder.as_ref(), (seed.parse()?, life.parse()?), Flaw::named(flaw)?)
}

fn cap(folder: &str, (seed, _): (&str, &str), flaw: &str) -> Outcome<()> {
    cap::run(folder.as_ref(), seed.parse()?, Flaw::named(flaw)?)
}

fn spill(folder: &str, stage_memory: &str) -> Outcome<()> {
    spill::run(folder.as_ref(), stage_memory.parse()?)
}

fn load(folder: &str, memory_budget: &str) -> Outcome<()> {
    load::run(folder.as_ref(), memory_budget.parse()?)
}

fn number(folder: &str, seed: &str) -> Outcome<()> {
    number::run(folder.as_ref(), seed.parse()?)
}

fn write(folder: &str, (seed, life): (&str, &str), flaw: &str) -> Outcome<()> {
    writer::run(folder.as_ref(), (seed.parse()?, life.parse()?), Flaw::named(flaw)?)
}
