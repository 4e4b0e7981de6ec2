//! Every file that says what a database consists of is damaged, at every byte: opening rejects and names the file, and
//! leaves the folder as it was, or everything acknowledged is there. Of tables opening reads what leads to their blocks, and
//! rejects as well where that is damaged; what is damaged in the blocks is for `verify` to find.
//!
//! `CAIRNDB_DAMAGE=all` tries every case, and a number that many of those that are rejected; otherwise it is a sample, whose seed
//! is printed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{Client, ClientBuilder, Durability, ErrorKind, IndexModel, PlantedFault};
use cairndb_tests::choices::{Choices, SEED_VARIABLE, mix, seed};
use cairndb_tests::files::{TYPE_AT, contents, is_log, is_table, newest_log, records};
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Scratch, small, things};

use crate::crash::say;

/// Cases of a sample, if no number is asked for.
const CASES: usize = 1500;
/// Cases of a sample of the bytes of tables.
const TABLE_CASES: usize = 200;
/// Cases of a sample of folders that are salvaged.
const SALVAGES: usize = 150;
/// Cases of a sample of tables with several blocks that are salvaged.
const BLOCK_CASES: usize = 60;
/// A block has 16 KiB, and an entry of one of these documents no fewer than 30 bytes.
const BLOCK_DOCUMENTS_MAX: usize = (16 << 10) / 30;
/// Of a campaign too it is a sample: a salvage needs fifty times as long as an opening that is rejected.
const SALVAGES_OF_CAMPAIGN: usize = 5000;
/// Opening ends, whatever the bytes are.
const OPEN_TIME_MAX: Duration = Duration::from_secs(60);
const DOCUMENTS: i32 = 60;
/// The begin of the second slot of the witness, and the length of a slot. Between them is nothing.
const SLOT_AT: usize = 4096;
const SLOT_BYTES: usize = 76;

/// The damage of a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip { at: usize, bit: u32 },
    Set { at: usize, byte: u8 },
    Cut { at: usize },
    Zero { at: usize, bytes: usize },
    Remove,
    Replace { with: PathBuf },
}

/// One case: a file and what is done to it.
#[derive(Clone, Debug)]
struct Case {
    file: String,
    damage: Damage,
}

/// A folder with tables, a log and a witness, of which every document was acknowledged.
fn victim(options: &ClientBuilder) -> Scratch {
    victim_of(options, DOCUMENTS)
}

/// The same with `documents` documents, the first half of them in tables and the others in the log.
fn victim_of(options: &ClientBuilder, documents: i32) -> Scratch {
    let scratch = Scratch::new();
    let client = scratch.open_with(options.clone());
    let stored = things(&client);
    stored.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    for half in [0..documents / 2, documents / 2..documents] {
        for id in half {
            stored.insert_one(doc! { "_id": id, "n": id }).run().expect("stored");
        }
        if stored.count_documents(doc! {}).run().expect("counted") < documents.unsigned_abs().into() {
            client.flush().expect("flushed");
        }
    }
    client.close().expect("closed");
    scratch
}

fn journaled() -> ClientBuilder {
    small().durability(Durability::Journaled)
}

/// The files that say what there is, by name.
fn essential(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = contents(folder).into_keys().collect();
    names.retain(|name| {
        name.starts_with("CAIRNDB") || name.starts_with("MANIFEST-") || name == "CURRENT" || is_log(name)
    });
    names
}

/// Everything that can be done to the essential files, and to whole files of any kind.
fn all_cases(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    let files = contents(folder);
    for name in essential(folder) {
        let bytes = files.get(&name).expect("an essential file");
        let mut add = |damage| cases.push(Case { file: name.clone(), damage });
        let is_used = |at: &usize| name != "CAIRNDB.witness" || at % SLOT_AT < SLOT_BYTES;
        for at in (0..bytes.len()).filter(is_used) {
            (0..8).for_each(|bit| add(Damage::Flip { at, bit }));
            add(Damage::Cut { at });
            if bytes.get(at) != Some(&0) {
                add(Damage::Zero { at, bytes: 1 });
            }
        }
        for count in [16, 512, 4096] {
            let used =
                bytes.chunks(count).enumerate().filter(|(_, chunk)| chunk.iter().any(|byte| *byte != 0));
            used.for_each(|(number, _)| add(Damage::Zero { at: number * count, bytes: count }));
        }
        if is_log(&name) || name.starts_with("MANIFEST-") {
            for at in records(bytes).into_iter().map(|at| at + TYPE_AT).filter(|at| *at < bytes.len()) {
                (0..=255).for_each(|byte| add(Damage::Set { at, byte }));
            }
        }
    }
    for name in files.keys() {
        if !name.starts_with("LO") && !name.starts_with("OPTIONS-") && name != "IDENTITY" {
            cases.push(Case { file: name.clone(), damage: Damage::Remove });
            let others = files.keys().filter(|other| *other != name && extension(other) == extension(name));
            cases.extend(others.map(|other| Case {
                file: name.clone(),
                damage: Damage::Replace { with: folder.join(other) },
            }));
        }
    }
    cases
}

fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, extension)| extension)
}

fn apply(folder: &Path, case: &Case) -> io::Result<()> {
    let path = folder.join(&case.file);
    let mut bytes = fs::read(&path)?;
    match &case.damage {
        Damage::Flip { at, bit } => *bytes.get_mut(*at).expect("a byte of the file") ^= 1 << bit,
        Damage::Set { at, byte } => *bytes.get_mut(*at).expect("a byte of the file") = *byte,
        Damage::Cut { at } => bytes.truncate(*at),
        Damage::Zero { at, bytes: count } => {
            bytes.iter_mut().skip(*at).take(*count).for_each(|byte| *byte = 0);
        }
        Damage::Remove => return fs::remove_file(path),
        Damage::Replace { with } => bytes = fs::read(with)?,
    }
    fs::write(path, bytes)
}

/// The result of opening a damaged folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Refused,
    /// Everything is there.
    Whole,
}

/// Damages a copy of the folder and opens it; an error if that breaks the promise.
fn judge(victim: &Scratch, case: &Case, options: &ClientBuilder) -> Result<Outcome, String> {
    let scratch = victim.killed();
    apply(&scratch.path(), case).map_err(|error| error.to_string())?;
    let before = contents(&scratch.path());
    let fault = |what: String| Err(format!("{case:?}: {what}"));
    let opened = open_in_time(options.clone(), scratch.path()).map_err(|what| format!("{case:?}: {what}"))?;
    match opened {
        Err(error) => {
            let text = error.to_string();
            let names_it = text.contains(&case.file)
                || matches!(error.kind(), ErrorKind::UnsupportedFormat { .. } | ErrorKind::DataLoss { .. });
            if !names_it && !is_named_by_another(case, &text) {
                return fault(format!("the refusal does not name the file: {text}"));
            }
            if contents(&scratch.path()) != before {
                return fault(format!("the refused folder was changed: {text}"));
            }
            Ok(Outcome::Refused)
        }
        Ok(client) => {
            let stored = things(&client).find(doc! {}).run().and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let ids: Vec<i32> = match stored {
                Ok(stored) => stored.iter().filter_map(|document| document.get_i32("_id").ok()).collect(),
                // Tables are read when they are asked for, and say so then.
                Err(error) if error.is_corruption() => return Ok(Outcome::Refused),
                Err(error) => return fault(format!("reading fails: {error:?}")),
            };
            if ids != (0..DOCUMENTS).collect::<Vec<_>>() {
                return fault(format!("it opened with {} of {DOCUMENTS} documents", ids.len()));
            }
            let report = client.verify().map_err(|error| format!("{case:?}: {error:?}"))?;
            if !report.is_clean() {
                return fault(format!("{:?}", report.findings));
            }
            Ok(Outcome::Whole)
        }
    }
}

/// A file that is missing, or another one, may be noticed by the file that names it.
fn is_named_by_another(case: &Case, text: &str) -> bool {
    match case.damage {
        Damage::Remove | Damage::Replace { .. } => text.contains("CURRENT") || text.contains("MANIFEST-"),
        // A CURRENT that names another MANIFEST is noticed there.
        Damage::Flip { .. } | Damage::Set { .. } | Damage::Cut { .. } | Damage::Zero { .. } => {
            case.file == "CURRENT" && text.contains("MANIFEST-")
        }
    }
}

type Opened = Result<Client, cairndb::Error>;

/// Opens on another thread, so that one that never ends is a fault and not a hanging suite.
fn open_in_time(options: ClientBuilder, path: PathBuf) -> Result<Opened, String> {
    let (sender, opened) = channel();
    let _ = std::thread::spawn(move || sender.send(options.open(path)));
    match opened.recv_timeout(OPEN_TIME_MAX) {
        Ok(opened) => Ok(opened),
        Err(RecvTimeoutError::Timeout) => Err("opening does not end".to_owned()),
        Err(RecvTimeoutError::Disconnected) => Err("opening panicked".to_owned()),
    }
}

fn sample(cases: Vec<Case>, count: usize, seed: u64) -> Vec<Case> {
    if is_campaign() || cases.len() <= count { cases } else { picked(cases, count, seed) }
}

/// Cases of the sample of files that say what a database consists of.
fn cases_of_sample() -> usize {
    std::env::var("CAIRNDB_DAMAGE").ok().and_then(|count| count.parse().ok()).unwrap_or(CASES)
}

/// Whether every case is tried.
fn is_campaign() -> bool {
    std::env::var("CAIRNDB_DAMAGE").is_ok_and(|which| which == "all")
}

fn picked(cases: Vec<Case>, count: usize, seed: u64) -> Vec<Case> {
    let mut choices = Choices::seeded(seed);
    // Whole files are few, and always all of them.
    let (mut sampled, bytes): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| matches!(case.damage, Damage::Remove | Damage::Replace { .. }));
    sampled.extend((0..count).map(|_| choices.pick(&bytes).clone()));
    sampled
}

#[test]
fn damage_is_refused_by_name_or_harmless() {
    let (started, seed) = (Instant::now(), seed());
    let victim = victim(&journaled());
    let cases = sample(all_cases(&victim.path()), cases_of_sample(), mix(seed));
    let outcomes = on_lanes(cases.len() as u64, |number| {
        let case = &cases[usize::try_from(number).expect("small")];
        judge(&victim, case, &small())
    });
    let faults: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(
        faults.is_empty(),
        "{SEED_VARIABLE}={seed}: {} faults: {:#?}",
        faults.len(),
        &faults[..faults.len().min(8)]
    );
    let refused = outcomes.iter().filter(|outcome| **outcome == Ok(Outcome::Refused)).count();
    say(&format!(
        "damage: {} cases, {refused} refused, in {:.0} s; {SEED_VARIABLE}={seed}",
        cases.len(),
        started.elapsed().as_secs_f64()
    ));
    assert!(refused * 2 > cases.len(), "most damage must be refused, not {refused} of {}", cases.len());
}

/// Of a process that was killed only the last write may be in doubt: it may be the one that was cut short.
#[test]
fn a_flipped_bit_in_the_log_of_a_killed_process_costs_the_last_write_at_most() {
    let scratch = Scratch::new();
    let client = scratch.open_with(journaled());
    for id in 0..DOCUMENTS {
        things(&client).insert_one(doc! { "_id": id, "n": id }).run().expect("stored");
    }
    let killed = scratch.killed();
    let log = newest_log(&killed.path());
    let bytes = fs::read(killed.path().join(&log)).expect("the log");
    let cases: Vec<Case> = (0..bytes.len())
        .flat_map(|at| (0..8).map(move |bit| (at, bit)))
        .map(|(at, bit)| Case { file: log.clone(), damage: Damage::Flip { at, bit } })
        .collect();
    let cases = sample(cases, 400, mix(seed()));
    on_lanes(cases.len() as u64, |number| {
        let case = &cases[usize::try_from(number).expect("small")];
        let copy = killed.killed();
        apply(&copy.path(), case).expect("damaged");
        match open_in_time(small(), copy.path()).unwrap_or_else(|fault| panic!("{case:?}: {fault}")) {
            Err(error) => {
                assert!(error.is_corruption() && error.to_string().contains(&log), "{case:?}: {error:?}");
            }
            Ok(client) => {
                let left = things(&client).count_documents(doc! {}).run().expect("counted");
                let torn = client.recovery_report().torn.len();
                assert!(left == 60 || (left == 59 && torn == 1), "{case:?}: {left} left, {torn} torn");
            }
        }
    });
}

/// Every 64th byte of every table, with a bit flipped.
fn table_cases(folder: &Path) -> Vec<Case> {
    let tables = contents(folder).into_iter().filter(|(name, _)| is_table(name));
    let flips = tables.flat_map(|(file, bytes)| {
        let at = (0..bytes.len()).step_by(64);
        at.map(move |at| Case {
            file: file.clone(),
            damage: Damage::Flip { at, bit: u32::try_from(at / 64 % 8).unwrap_or(0) },
        })
    });
    flips.collect()
}

/// Damages a table of a copy, and says whether `verify` names the file or opening rejects it. An error if neither does and
/// something is wrong, or if a rejection does not name the table.
fn judge_table(victim: &Scratch, case: &Case, options: &ClientBuilder) -> Result<bool, String> {
    let scratch = victim.killed();
    apply(&scratch.path(), case).map_err(|error| error.to_string())?;
    let before = contents(&scratch.path());
    // Reading only: a compaction would replace the table, and with it the damage in what it does not read.
    let options = options.clone().read_only(true);
    let opened = open_in_time(options, scratch.path()).map_err(|what| format!("{case:?}: {what}"))?;
    let client = match opened {
        Ok(client) => client,
        Err(error) => return judge_refusal(&scratch, case, &before, &error).map(|()| true),
    };
    let report = client.verify().map_err(|error| format!("{case:?}: {error:?}"))?;
    let names_it = |file: &PathBuf| file.ends_with(&case.file);
    if report.findings.iter().any(|finding| finding.file.as_ref().is_some_and(names_it)) {
        return Ok(true);
    }
    let stored = things(&client).find(doc! {}).run().and_then(Iterator::collect::<Result<Vec<_>, _>>);
    if !report.is_clean()
        || stored.is_ok_and(|stored| stored.len() != usize::try_from(DOCUMENTS).expect("few"))
    {
        return Err(format!("{case:?}: it was not found: {:?}", report.findings));
    }
    Ok(false)
}

/// That a rejection names the damaged table, blames no other file, and left the folder as it was. RocksDB's text file LOG contains
/// each opening for writing.
///
/// What RocksDB needs of every table is rejected by its file. A block that the catalog is in is met once RocksDB has opened.
fn judge_refusal(
    scratch: &Scratch,
    case: &Case,
    before: &BTreeMap<String, Vec<u8>>,
    error: &cairndb::Error,
) -> Result<(), String> {
    let text = error.to_string();
    let is_refused =
        matches!(error.kind(), ErrorKind::DamagedFile { path, .. } if path.ends_with(&case.file));
    let is_met = matches!(error.kind(), ErrorKind::Corruption { .. }) && text.contains(&case.file);
    if !(is_refused || is_met) || text.contains("MANIFEST") {
        return Err(format!("{case:?}: the refusal does not name the table alone: {text}"));
    }
    let after = contents(&scratch.path());
    let names = before.keys().chain(after.keys()).filter(|name| !name.starts_with("LOG"));
    let changed: Vec<&String> = names.filter(|name| before.get(*name) != after.get(*name)).collect();
    if is_refused && !changed.is_empty() {
        return Err(format!("{case:?}: {changed:?} of the refused folder were changed: {text}"));
    }
    Ok(())
}

/// Opens a copy with a damaged table for writing: rejected by name, or what is read is right or reported as damaged. Returns whether it
/// was rejected.
fn judge_table_for_writing(victim: &Scratch, case: &Case) -> Result<bool, String> {
    let scratch = victim.killed();
    apply(&scratch.path(), case).map_err(|error| error.to_string())?;
    let before = contents(&scratch.path());
    let client = match open_in_time(small(), scratch.path()).map_err(|what| format!("{case:?}: {what}"))? {
        Ok(client) => client,
        Err(error) => return judge_refusal(&scratch, case, &before, &error).map(|()| true),
    };
    let stored = things(&client).find(doc! {}).run().and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match stored {
        Ok(stored) if stored.len() == usize::try_from(DOCUMENTS).expect("few") => Ok(false),
        Err(error) if error.is_corruption() => Ok(false),
        other => Err(format!("{case:?}: {:?}", other.map(|stored| stored.len()))),
    }
}

#[test]
fn a_damaged_table_that_is_opened_for_writing_is_refused_by_name_or_read_rightly() {
    let (started, seed) = (Instant::now(), seed());
    let victim = victim(&journaled());
    let cases = sample(table_cases(&victim.path()), TABLE_CASES, mix(seed));
    let outcomes = on_lanes(cases.len() as u64, |number| {
        judge_table_for_writing(&victim, &cases[usize::try_from(number).expect("small")])
    });
    let faults: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(faults.is_empty(), "{SEED_VARIABLE}={seed}: {:#?}", &faults[..faults.len().min(8)]);
    let refused = outcomes.iter().filter(|outcome| **outcome == Ok(true)).count();
    say(&format!(
        "tables: {} cases opened for writing, {refused} refused by name, in {:.0} s; {SEED_VARIABLE}={seed}",
        cases.len(),
        started.elapsed().as_secs_f64()
    ));
    // The properties alone are a third of such short tables.
    assert!(refused * 10 > cases.len(), "{refused} of {} were refused", cases.len());
}

#[test]
fn a_flipped_bit_in_a_table_is_found_by_verify() {
    let (started, seed) = (Instant::now(), seed());
    let victim = victim(&journaled());
    let cases = sample(table_cases(&victim.path()), TABLE_CASES, mix(seed));
    let outcomes = on_lanes(cases.len() as u64, |number| {
        judge_table(&victim, &cases[usize::try_from(number).expect("small")], &small())
    });
    let faults: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(faults.is_empty(), "{SEED_VARIABLE}={seed}: {:#?}", &faults[..faults.len().min(8)]);
    let harmless = outcomes.iter().filter(|outcome| **outcome == Ok(false)).count();
    say(&format!(
        "tables: {} cases, {harmless} of them harmless, in {:.0} s; {SEED_VARIABLE}={seed}",
        cases.len(),
        started.elapsed().as_secs_f64()
    ));
    // Only the lowest bit of the format's version in the footer is looked at by nothing.
    assert!(harmless * 50 <= cases.len(), "{harmless} of {} were not found", cases.len());
}

/// Damages a copy of the folder and salvages it; an error if something that is whole does not come, or something comes that was
/// never stored.
fn judge_salvage(victim: &Scratch, case: &Case, documents: i32) -> Result<(), String> {
    let scratch = victim.killed();
    apply(&scratch.path(), case).map_err(|error| error.to_string())?;
    let before = contents(&scratch.path());
    let new = Scratch::new();
    let fault = |what: String| Err(format!("{case:?}: {what}"));
    let salvaged = cairndb::salvage(scratch.path(), new.path()).run();
    if contents(&scratch.path()) != before {
        return fault("the damaged folder was changed".to_owned());
    }
    let report = match salvaged {
        Ok(report) => report,
        // A damaged marker can name a newer format.
        Err(error) if matches!(error.kind(), ErrorKind::UnsupportedFormat { .. }) => return Ok(()),
        Err(error) => return fault(format!("{error:?}")),
    };
    let client = new.open();
    let mut found: Vec<i32> = Vec::new();
    for collection in &report.collections {
        let (db, name) = collection.namespace.split_once('.').expect("a namespace");
        let stored = client.database(db).collection::<Document>(name).find(doc! {}).run();
        for document in
            stored.and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(|error| error.to_string())?
        {
            let id = document.get_i32("_id").map_err(|error| error.to_string())?;
            if document != doc! { "_id": id, "n": id } {
                return fault(format!("{document} was never stored"));
            }
            found.push(id);
        }
    }
    found.sort_unstable();
    let is_whole = found == (0..documents).collect::<Vec<_>>();
    found.dedup();
    let lost = usize::try_from(documents).expect("few").saturating_sub(found.len());
    if !is_whole && report.is_complete() {
        return fault(format!("{lost} documents are missing, and the report does not say so"));
    }
    let lost_max = lost_max(case, &before_damage(victim, case), documents);
    if lost > lost_max {
        let unreadable = &report.unreadable;
        return fault(format!("{lost} documents are missing, and not {lost_max} at most: {unreadable:?}"));
    }
    Ok(())
}

/// The damaged file as it was.
fn before_damage(victim: &Scratch, case: &Case) -> Vec<u8> {
    fs::read(victim.path().join(&case.file)).expect("a file of the folder")
}

/// The number of documents that damage may cost. What only names other files costs none.
fn lost_max(case: &Case, file: &[u8], documents: i32) -> usize {
    if is_table(&case.file) {
        let in_tables = usize::try_from(documents / 2).expect("few");
        // One block of data at most. Everything else in a table only leads to the blocks.
        return match case.damage {
            Damage::Flip { .. } => in_tables.min(BLOCK_DOCUMENTS_MAX),
            Damage::Set { .. }
            | Damage::Cut { .. }
            | Damage::Zero { .. }
            | Damage::Remove
            | Damage::Replace { .. } => in_tables,
        };
    }
    if !is_log(&case.file) {
        return 0;
    }
    // Each document was inserted by itself, so a record has one at most.
    let ends = records(file);
    let reached = |from: usize, to: usize| {
        ends.iter().zip(ends.iter().skip(1)).filter(|(start, end)| **end > from && **start < to).count()
    };
    match case.damage {
        Damage::Flip { at, .. } | Damage::Set { at, .. } => reached(at, at + 1),
        Damage::Zero { at, bytes } => reached(at, at + bytes),
        Damage::Cut { at } => reached(at, usize::MAX),
        Damage::Remove | Damage::Replace { .. } => reached(0, usize::MAX),
    }
}

/// Half of these documents fill several blocks of a table.
#[test]
fn a_flipped_bit_in_a_table_costs_a_salvage_one_block() {
    let (started, seed) = (Instant::now(), seed());
    let documents = 4000;
    let victim = victim_of(&journaled(), documents);
    let cases = sample(table_cases(&victim.path()), BLOCK_CASES, mix(seed));
    let outcomes = on_lanes(cases.len() as u64, |number| {
        judge_salvage(&victim, &cases[usize::try_from(number).expect("small")], documents)
    });
    let faults: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(faults.is_empty(), "{SEED_VARIABLE}={seed}: {:#?}", &faults[..faults.len().min(4)]);
    let seconds = started.elapsed().as_secs_f64();
    say(&format!("salvage: {} cases of blocks in {seconds:.0} s; {SEED_VARIABLE}={seed}", cases.len()));
}

#[test]
fn what_is_whole_in_a_damaged_folder_is_salvaged() {
    let (started, seed) = (Instant::now(), seed());
    let victim = victim(&journaled());
    let mut cases = all_cases(&victim.path());
    cases.extend(table_cases(&victim.path()));
    let count = if is_campaign() { SALVAGES_OF_CAMPAIGN } else { SALVAGES };
    let cases = picked(cases, count, mix(seed));
    let outcomes = on_lanes(cases.len() as u64, |number| {
        judge_salvage(&victim, &cases[usize::try_from(number).expect("small")], DOCUMENTS)
    });
    let faults: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(
        faults.is_empty(),
        "{SEED_VARIABLE}={seed}: {} faults: {:#?}",
        faults.len(),
        &faults[..faults.len().min(8)]
    );
    let seconds = started.elapsed().as_secs_f64();
    say(&format!("salvage: {} cases in {seconds:.0} s; {SEED_VARIABLE}={seed}", cases.len()));
}

#[test]
fn filters_that_verify_does_not_read_are_found_out() {
    let victim = victim(&journaled());
    let cases = table_cases(&victim.path());
    let options = small().planted_fault(PlantedFault::FiltersNotVerified);
    let missed = cases.iter().filter(|case| judge_table(&victim, case, &options) != Ok(true)).count();
    assert!(missed * 50 > cases.len(), "{missed} of {} flipped bits went unnoticed", cases.len());
}

#[test]
fn a_preflight_that_is_left_out_is_found_out() {
    let victim = victim(&journaled());
    let flips =
        |case: &Case| is_log(&case.file) && matches!(case.damage, Damage::Flip { at, .. } if at % 97 > 6);
    let cases: Vec<Case> = all_cases(&victim.path()).into_iter().filter(flips).step_by(50).collect();
    let options = small().planted_fault(PlantedFault::PreflightOff);
    let fault = cases.iter().find_map(|case| judge(&victim, case, &options).err());
    assert!(fault.is_some(), "{} flipped bits went unnoticed without the preflight", cases.len());
}

#[test]
fn a_witness_that_is_not_raised_is_found_out() {
    let victim = victim(&journaled().planted_fault(PlantedFault::WitnessNotRaised));
    let cuts = |case: &Case| is_log(&case.file) && matches!(case.damage, Damage::Cut { .. });
    let cases: Vec<Case> = all_cases(&victim.path()).into_iter().filter(cuts).step_by(50).collect();
    let fault = cases.iter().find_map(|case| judge(&victim, case, &small()).err()).expect("a log was cut");
    assert!(fault.contains("it opened with"), "{fault}");
}
