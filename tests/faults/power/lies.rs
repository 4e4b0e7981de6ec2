//! Disks that lie: a sync of a table, of the MANIFEST, of CURRENT, the marker or the witness that says yes and loses, and a write
//! that damages bytes beside its own, in the same file or in another one.
//!
//! No store can keep its word on such a disk. What is shown is that the damage is rejected or found, or harms nothing: no answer
//! is wrong, and nothing is missing in silence of what the witness knows.

use std::collections::BTreeMap;

use cairndb::bson::doc;
use cairndb::{Client, Error, ErrorKind};
use cairndb_tests::choices::number_from_environment;
use cairndb_tests::files::contents;
use cairndb_tests::journal::Record;
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Scratch, small};
use cairndb_tests::workload;

use crate::power::disk::{Aftermath, Disk, Image};
use crate::power::life::Level;
use crate::power::mount::{Neighbor, is_possible};
use crate::power::oracle::{FINDINGS, Oracle};
use crate::power::say;
use crate::power::stage::{Asks, Stage};

/// A sixteenth of the cases of faults by default.
const CASES_DEFAULT: u64 = 80;

/// The result for a damaged folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// Opening rejected it.
    Refused,
    /// A read or `verify` reported it, and no read gave anything wrong.
    Found,
    /// Everything is there, and `verify` is clean.
    Harmless,
}

/// A life with tables, a log, several edits of the MANIFEST and a compaction, and its orderly end.
fn live(stage: &Stage) {
    // The damage of a write may be met at once. Then the store says so, and what it says is not an acknowledgement.
    let insert = |asks| {
        for _ in 0..6 {
            if stage.insert(asks).is_err() {
                break;
            }
        }
    };
    for asks in [Asks::Nothing, Asks::Sync, Asks::HandingOver] {
        insert(asks);
        let _ = stage.client.flush();
    }
    let _ = stage.client.compact().run();
    insert(Asks::Sync);
}

fn is_damage(error: &Error) -> bool {
    let is_marker =
        matches!(error.kind(), ErrorKind::NotADatabase { .. } | ErrorKind::UnsupportedFormat { .. });
    error.is_corruption() || is_marker
}

/// The files of a folder that may not change when it is rejected: RocksDB's text file may.
fn files(scratch: &Scratch) -> BTreeMap<String, Vec<u8>> {
    let mut files = contents(&scratch.path());
    files.retain(|name, _| !name.starts_with("LOG"));
    files
}

fn read_all(client: &Client) -> Result<(), Error> {
    for document in workload::tagged(client).find(doc! {}).run()? {
        document?;
    }
    Ok(())
}

fn judge(image: &Image, records: &[Record]) -> Result<Verdict, String> {
    let scratch = Scratch::new();
    image.write_to(scratch.folder()).map_err(|error| error.to_string())?;
    let mut oracle = Oracle::new(false);
    records.iter().try_for_each(|record| oracle.hear(*record))?;
    let before = files(&scratch);
    let client = match small().open(scratch.path()) {
        Ok(client) => client,
        // In RocksDB's words: it was open, and a compaction met the damage before opening was over.
        Err(error) if error.is_corruption() && error.to_string().contains("Corruption: ") => {
            return Ok(Verdict::Found);
        }
        Err(error) if is_damage(&error) => {
            let is_changed = files(&scratch) != before;
            let may_change = matches!(error.kind(), ErrorKind::DataLoss { .. });
            return if is_changed && !may_change {
                Err(format!("it was refused and changed: {error:?}"))
            } else {
                Ok(Verdict::Refused)
            };
        }
        Err(error) => return Err(format!("the folder does not open: {error:?}")),
    };
    match read_all(&client) {
        Ok(()) => {}
        Err(error) if error.is_corruption() => return Ok(Verdict::Found),
        Err(error) => return Err(format!("reading says: {error:?}")),
    }
    match oracle.audit(&client) {
        Ok(()) => Ok(Verdict::Harmless),
        // The result of reading is right all the same.
        Err(fault) if fault.starts_with(FINDINGS) => oracle.audit_stored(&client).map(|()| Verdict::Found),
        Err(fault) => Err(fault),
    }
}

/// The number of cases by their end.
fn count(verdicts: impl IntoIterator<Item = Verdict>) -> BTreeMap<Verdict, u64> {
    let mut counts = BTreeMap::new();
    for verdict in verdicts {
        *counts.entry(verdict).or_default() += 1;
    }
    counts
}

/// The content of a closed database, and the acknowledged operations.
fn closed(level: Level) -> (Disk, Vec<Record>) {
    let stage = Stage::open(level);
    live(&stage);
    stage.close()
}

/// The places where a confirmed end of a file may be lost: before each of its syncs, and within what the last one
/// confirmed.
fn ends(disk: &Disk, name: &str) -> Vec<usize> {
    let mut ends = disk.ends_before_syncs(name);
    let last = ends.first().copied().unwrap_or(0);
    ends.push(last + (disk.bytes_named(name).len() - last) / 2);
    ends
}

/// Every file of a database that was closed loses what its syncs had confirmed: it is shorter, or has zeros there.
#[test]
fn a_confirmed_end_of_a_file_is_not_lost_in_silence() {
    if !is_possible() {
        return;
    }
    let mut verdicts = Vec::new();
    for level in [Level::Delayed, Level::Buffered, Level::Journaled] {
        let (disk, records) = closed(level);
        let image = disk.left(&Aftermath::Killed);
        assert_eq!(judge(&image, &records), Ok(Verdict::Harmless), "{level:?}: the control");
        let names = image.entries.keys().filter_map(|path| path.file_name()?.to_str());
        let is_kept = |name: &&str| {
            !["LOG", "LOCK", "OPTIONS", "IDENTITY"].iter().any(|text| name.starts_with(text)) && *name != "db"
        };
        for name in names.filter(is_kept) {
            for (kept, has_zeros) in
                ends(&disk, name).into_iter().flat_map(|kept| [(kept, false), (kept, true)])
            {
                let verdict = judge(&disk.left_cut(name, kept, has_zeros), &records);
                let verdict = verdict.unwrap_or_else(|fault| {
                    panic!("{level:?}: {name} has its first {kept} bytes, zeros after: {has_zeros}: {fault}")
                });
                // A table that ends early is never one that RocksDB wrote.
                let is_short = name.ends_with("sst") && !has_zeros;
                assert!(
                    !is_short || verdict == Verdict::Refused,
                    "{level:?}: {name} of {kept} bytes: {verdict:?}"
                );
                verdicts.push(verdict);
            }
        }
    }
    let counts = count(verdicts);
    say(&format!("power: lies: ends of files that were confirmed and lost: {counts:?}"));
    assert!(counts.len() > 1, "{counts:?}");
}

/// A write damages eight bytes beside its own. The store goes on, and is closed if it can be.
#[test]
fn a_write_that_damages_its_neighbor_is_not_believed() {
    if !is_possible() {
        return;
    }
    let cases = number_from_environment("CAIRNDB_FAULTS", CASES_DEFAULT).div_ceil(4).max(6);
    let writes = {
        let stage = Stage::open(Level::Buffered);
        let before = stage.disk.writes();
        live(&stage);
        let writes = stage.disk.writes() - before;
        stage.close();
        writes
    };
    let verdicts = on_lanes(cases, |number| {
        let neighbors = [Neighbor::Before, Neighbor::OtherFile, Neighbor::After];
        let neighbor =
            *neighbors.iter().cycle().nth(usize::try_from(number % 3).expect("small")).expect("a cycle");
        let level = if number % 2 == 0 { Level::Buffered } else { Level::Delayed };
        let at = 1 + number * writes / cases;
        let stage = Stage::open(level);
        stage.disk.let_stray(at, neighbor);
        live(&stage);
        let strayed = stage.disk.strayed();
        let (disk, records) = stage.close();
        let verdict = judge(&disk.left(&Aftermath::Killed), &records);
        let verdict = verdict.unwrap_or_else(|fault| {
            panic!("write {at} of {writes}, {neighbor:?}, {level:?}: {strayed:?}: {fault}")
        });
        strayed.is_some().then_some(verdict)
    });
    let counts = count(verdicts.into_iter().flatten());
    say(&format!("power: lies: writes that damaged a neighbor: {counts:?}"));
    assert!(counts.contains_key(&Verdict::Refused) || counts.contains_key(&Verdict::Found), "{counts:?}");
}
