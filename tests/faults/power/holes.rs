//! Holes: writes that are there after a crash though one before them is not. Two reports of RocksDB's tracker describe them, and
//! each has its case here, for every level of durability, with writers side by side and all families in use.
//!
//! Issue 13169 is about writes that no sync covers. Families are flushed one by one, and each flush begins a new log. If the
//! end of an older log does not reach the disk and the new log does, RocksDB replays both, unless it notices that something is
//! missing between.
//!
//! Pull request 13263 is about a write of the log that fails halfway: what the buffer of the log had is dropped, and what comes
//! after the recovery from the error is in a new log. RocksDB's own stress test found a hole then.
//!
//! The database is open in this process, on a disk whose syncs of logs wait as long as the case needs them to, so that what is
//! on the disk depends little on time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairndb::PlantedFault;
use cairndb_tests::choices::number_from_environment;
use cairndb_tests::journal::Record;
use cairndb_tests::race::{race, wait_until};
use cairndb_tests::scratch::{Scratch, small};

use crate::power::disk::{Aftermath, Image};
use crate::power::life::Level;
use crate::power::mount::{Held, is_possible};
use crate::power::oracle::Oracle;
use crate::power::say;
use crate::power::stage::{Asks, INSERTS, Moment, Stage, WRITERS};

/// The number of times that a moment is tried that a sync in the background may spoil.
const TRIES: u64 = 20;
/// More bytes than a log has without a document.
const EMPTY_LOG_BYTES: usize = 100;
/// Moments at which a case is judged, of those that it has.
const MOMENTS_DEFAULT: u64 = 12;
/// For so many cuts that are asked for there is one moment. It is judged three times, at four levels and with two errors.
const CUTS_PER_MOMENT: u64 = 100;
/// RocksDB looks every five seconds whether a full disk has room again.
const HEALING_MAX: Duration = Duration::from_secs(40);

/// The result for an image.
struct Judged {
    lost: u64,
    /// Whether opening reported that it left something out.
    is_torn: bool,
}

/// Opens an image and compares it with what was acknowledged.
fn judge(
    image: &Image,
    acknowledged: &[Record],
    mut oracle: Oracle,
    fault: PlantedFault,
) -> Result<Judged, String> {
    let scratch = Scratch::new();
    image.write_to(scratch.folder()).map_err(|error| error.to_string())?;
    for record in acknowledged {
        oracle.hear(*record)?;
    }
    let client = small().planted_fault(fault).open(scratch.path());
    let client = client.map_err(|error| format!("the folder does not open: {error:?}"))?;
    let is_torn = !client.recovery_report().is_clean();
    oracle.audit(&client)?;
    client.close().map_err(|error| format!("the folder does not close: {error:?}"))?;
    Ok(Judged { lost: oracle.lost, is_torn })
}

fn power_oracle(level: Level) -> Oracle {
    Oracle::new(level == Level::Journaled)
}

/// A moment at which an older log has an end that no sync covers, the flush of one family waits for its sync, and writes have
/// gone on in a newer log. The sync that waits is that of the flush, or of a journaled write. On a slow machine the sync in the
/// background may come before it, and then no such end exists.
fn between_two_logs(level: Level) -> Option<(Moment, String)> {
    let stage = Stage::open(level);
    let older = stage.newest_log();
    let moment = std::thread::scope(|scope| {
        let held = if level == Level::Journaled {
            let held = stage.disk.hold_logs(Held::All);
            scope.spawn(|| stage.insert(Asks::Sync).expect("stored"));
            wait_until(|| stage.disk.is_held());
            held
        } else {
            stage.insert_side_by_side();
            stage.disk.hold_logs(Held::OfFlushes)
        };
        scope.spawn(|| stage.client.flush().expect("flushed"));
        wait_until(|| stage.newest_log() != older);
        if level != Level::Journaled {
            stage.insert_side_by_side();
        }
        for _ in 0..WRITERS {
            scope.spawn(|| stage.insert(Asks::Sync).expect("stored"));
        }
        let newer = stage.newest_log();
        wait_until(|| stage.disk.disk().bytes_named(&newer).len() > EMPTY_LOG_BYTES);
        let moment = stage.moment();
        drop(held);
        moment
    });
    stage.end();
    (moment.disk.unsynced_changes(&older) > 0).then_some((moment, older))
}

/// RocksDB's issue 13169. In every image the newer log is whole, and the older one ends early, between two writes or within
/// one: what follows the hole must be left out, and nothing that a sync covers may be missing.
#[test]
fn what_follows_the_lost_end_of_an_older_log_is_left_out() {
    if !is_possible() {
        return;
    }
    let (mut images, mut holes) = (0, 0);
    for level in [Level::Delayed, Level::HandedOver, Level::Buffered, Level::Journaled] {
        let met = (0..TRIES).find_map(|_| between_two_logs(level));
        let (Moment { disk, acknowledged }, older) = met.expect("an end that no sync covers");
        let changes = disk.unsynced_changes(&older);
        for (kept, is_torn) in (0..changes).flat_map(|kept| [(kept, false), (kept, true)]) {
            let image = disk.left_without_end(&older, kept, is_torn);
            let judge = |fault| judge(&image, &acknowledged, power_oracle(level), fault);
            let judged = judge(PlantedFault::None).unwrap_or_else(|fault| {
                panic!("{level:?}: {kept} of {changes} writes kept, torn: {is_torn}: {fault}")
            });
            assert!(judged.is_torn, "{level:?}: {kept} of {changes} writes kept, and nothing is reported");
            // The control: without the look at the logs, RocksDB opens some of them with the hole.
            holes += u64::from(judge(PlantedFault::PreflightOff).is_err());
            images += 1;
        }
    }
    say(&format!(
        "power: holes: {images} images with a lost end of an older log, {holes} with a hole by RocksDB"
    ));
    assert!(images > 20 && holes > 0, "{holes} holes in {images} images");
}

/// The moments around a write of the log that fails halfway, and how many writes were rejected after it.
fn around_a_failed_write(level: Level, errno: i32, acknowledges_first: bool) -> Vec<Moment> {
    let mut stage = Stage::open(level);
    stage.acknowledges_first = acknowledges_first;
    let moments = stage.watch();
    stage.disk.refuse_log(errno);
    let refused = race(0..WRITERS, |_| (0..INSERTS).filter(|_| stage.insert(Asks::Nothing).is_err()).count());
    // Writes in memory reach the disk at the latest by a write that asks for it.
    let last = stage.insert(Asks::Sync);
    assert!(stage.disk.has_refused(), "{level:?}: no write of the log has failed");
    assert!(refused.iter().sum::<usize>() > 0 || last.is_err(), "{level:?}: no writer was told");
    // Writes go on where the store does: a full disk that has room again.
    let started = Instant::now();
    while errno == libc::ENOSPC && level.heals() && stage.insert(Asks::Sync).is_err() {
        assert!(started.elapsed() < HEALING_MAX, "{level:?}: the store does not go on");
        std::thread::yield_now();
    }
    race(0..WRITERS, |_| (0..INSERTS).filter(|_| stage.insert(Asks::Nothing).is_err()).count());
    let last = stage.moment();
    stage.end();
    let moments = Arc::into_inner(moments).expect("nothing watches any more");
    let mut moments = moments.into_inner().expect("no watch panics");
    moments.push(last);
    moments
}

/// The result of judging moments.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    judged: u64,
    lost: u64,
    refused: u64,
}

/// RocksDB flushes family by family while it recovers from a full disk, and does not sync the log that failed before. If the
/// power fails between two, the folder is rejected by the name of that log: see the known limits in docs/reliability.md.
fn is_known_refusal(fault: &str) -> bool {
    fault.contains("DamagedFile") && fault.contains("holds writes of one column family up to")
}

/// Judges some of the moments, of which each is the death of the process, or the failure of the power.
fn judge_moments(level: Level, moments: &[Moment], most: u64) -> Result<Tally, String> {
    let count = moments.len() as u64;
    let mut tally = Tally::default();
    for number in 0..most.min(count) {
        // The last one always.
        let at = usize::try_from((number + 1) * count / most.min(count) - 1).expect("few");
        let Some(Moment { disk, acknowledged }) = moments.get(at) else { continue };
        let aftermaths = [Aftermath::Killed, Aftermath::Synced, Aftermath::Some { seed: number }];
        for aftermath in aftermaths {
            let is_killed = matches!(aftermath, Aftermath::Killed);
            let outlives = is_killed && level.outlives_process();
            let oracle = if outlives { Oracle::new(true) } else { power_oracle(level) };
            match judge(&disk.left(&aftermath), acknowledged, oracle, PlantedFault::None) {
                Ok(after) => tally.lost += after.lost,
                Err(fault) if !is_killed && is_known_refusal(&fault) => tally.refused += 1,
                Err(fault) => return Err(format!("moment {at} of {count}, {aftermath:?}: {fault}")),
            }
            tally.judged += 1;
        }
    }
    Ok(tally)
}

/// RocksDB's pull request 13263. The process dies, or the power fails, at any operation after the write that failed: while the
/// store recovers, family by family, or once it has gone on.
#[test]
fn a_write_of_the_log_that_fails_halfway_leaves_no_hole() {
    if !is_possible() {
        return;
    }
    let most = number_from_environment("CAIRNDB_CUTS", MOMENTS_DEFAULT * CUTS_PER_MOMENT) / CUTS_PER_MOMENT;
    let (mut judged, mut lost, mut refused) = (0, 0, 0);
    for level in [Level::Delayed, Level::HandedOver, Level::Buffered, Level::Journaled] {
        for errno in [libc::EIO, libc::ENOSPC] {
            let moments = around_a_failed_write(level, errno, false);
            let tally = judge_moments(level, &moments, most.max(2))
                .unwrap_or_else(|fault| panic!("{level:?}, error {errno}: {fault}"));
            let may_refuse = errno == libc::ENOSPC && level.heals();
            assert!(tally.refused == 0 || may_refuse, "{level:?}, error {errno}: {tally:?}");
            (judged, lost, refused) = (judged + tally.judged, lost + tally.lost, refused + tally.refused);
        }
    }
    say(&format!(
        "power: holes: {judged} images after a failed write of the log, {lost} buffered writes rightly lost, {refused} \
         refused as known"
    ));
    // The control: with acknowledgements of what was rejected the same moments are a fault.
    let moments = around_a_failed_write(Level::HandedOver, libc::EIO, true);
    let found = judge_moments(Level::HandedOver, &moments, most.max(2));
    assert!(found.as_ref().is_err_and(|found| found.contains("lost")), "{found:?}");
}
