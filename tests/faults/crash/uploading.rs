//! Processes that upload files are killed: a file that was acknowledged is there as a whole, no file is there in part, and what
//! is left of the others is named by `verify` and removed by one call.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use cairndb::Client;
use cairndb::bson::{Document, doc};
use cairndb_tests::choices::{SEED_VARIABLE, number_from_environment, seed};
use cairndb_tests::journal::{Record, Step};
use cairndb_tests::uploading;

use crate::crash::kill::{Audited, fault_of_early_answers, kill_in_folders};
use crate::crash::say;

const KILLS_DEFAULT: u64 = 200;
/// Files are large, so only one kill of so many falls to them.
const KILLS_PER_UPLOAD: u64 = 5;

/// The expected content, and the result of killing.
#[derive(Default)]
struct Uploaded {
    /// The versions that a file may have: 1 is whole, 0 is absent.
    versions: HashMap<u64, BTreeSet<u64>>,
    acknowledged: u64,
    /// Kills after which there were orphans.
    kills_in_uploads: u64,
}

impl Audited for Uploaded {
    const WORK: &'static str = "upload";

    fn hear(&mut self, record: Record) -> Result<(), String> {
        let Some(Step { tag, version, is_done }) = record.step()? else { return Ok(()) };
        if is_done {
            self.acknowledged += 1;
            self.versions.insert(tag, BTreeSet::from([version]));
        } else {
            // Absent until the upload ends, and there until the removal does.
            self.versions.entry(tag).or_insert_with(|| BTreeSet::from([0])).insert(version);
        }
        Ok(())
    }

    fn audit(&mut self, client: &Client) -> Result<(), String> {
        let bucket = uploading::bucket(client);
        let report = verify(client)?;
        let left: u64 = report.iter().map(|(_, chunks)| chunks).sum();
        self.kills_in_uploads += u64::from(left > 0);
        for (id, _) in report {
            let known = id.parse().ok().and_then(|tag: u64| self.versions.get(&tag));
            // Of an upload or a removal that was under way: once either is acknowledged nothing is left.
            if known.is_none_or(|versions| versions.len() < 2) {
                return Err(format!("chunks of the file {id} are named as orphans: {known:?}"));
            }
        }
        let mut chunks = 0;
        for (&tag, versions) in &mut self.versions {
            let version = u64::from(uploading::is_whole(&bucket, tag)?);
            if !versions.contains(&version) {
                return Err(format!("file {tag} is version {version}, one of {versions:?} was acknowledged"));
            }
            *versions = BTreeSet::from([version]);
            let length = uploading::content(tag).len() as u64;
            chunks += version * length.div_ceil(u64::from(uploading::chunk_size(tag)));
        }
        let removed = bucket.remove_orphans(Duration::ZERO).run().map_err(|error| error.to_string())?;
        if removed.chunks != left || !verify(client)?.is_empty() {
            return Err(format!("{left} orphans were named, {removed:?} removed"));
        }
        let stored =
            client.database("crash").collection::<Document>("fs.chunks").count_documents(doc! {}).run();
        match stored {
            Ok(stored) if stored == chunks => Ok(()),
            other => Err(format!("{other:?} chunks are stored, the files have {chunks}")),
        }
    }
}

/// The orphans: the `_id` of each upload, and the number of its chunks.
fn verify(client: &Client) -> Result<Vec<(String, u64)>, String> {
    let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
    if !report.is_clean() {
        return Err(format!("verify found: {:?}", report.findings));
    }
    Ok(report.orphans.into_iter().map(|orphans| (orphans.files_id, orphans.chunks)).collect())
}

#[test]
fn files_are_whole_or_absent_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT).div_ceil(KILLS_PER_UPLOAD);
    let seed = seed();
    let started = Instant::now();
    let oracles = kill_in_folders::<Uploaded>(seed, 16, kills);
    let sum = |part: fn(&Uploaded) -> u64| oracles.iter().map(part).sum::<u64>();
    let (in_uploads, acknowledged) =
        (sum(|oracle| oracle.kills_in_uploads), sum(|oracle| oracle.acknowledged));
    say(&format!(
        "uploading: {kills} kills, {in_uploads} of them left orphans; {acknowledged} acknowledged uploads and removals checked in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
    // On a machine without other work there are several times as many of both.
    assert!(in_uploads * 40 > kills, "few kills fell within an upload");
    assert!(acknowledged * 4 > kills, "the children hardly uploaded");
}

#[test]
fn an_upload_that_is_acknowledged_before_it_ends_is_found_out() {
    let fault = fault_of_early_answers::<Uploaded>(seed()).expect("files were missing");
    assert!(
        fault.contains("is version 0, one of {1} was acknowledged") || fault.contains("named as orphans"),
        "{fault}"
    );
}
