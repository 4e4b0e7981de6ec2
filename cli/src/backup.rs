//! `cairn backup`: a verified copy of a store, or the next of several generations of copies.

use std::path::PathBuf;
use std::time::Instant;

use cairndb::BackupPhase;
use cairndb::bson::Bson;

use crate::failure::Failure;
use crate::figures::{DOCUMENTS, counted, size};
use crate::signals::Signals;
use crate::store::{Access, BackedUp, BackupWish, Store, open_to_copy};
use crate::talk::{Phases, Reached, Report, Talk, Unit, warn};
use crate::verify;

/// Copies a store, and verifies the copy before it has its name.
///
/// The copy shares no file with the store, so it may be on another disk, and damage of the one is none of the other.
/// `cairn restore-backup` makes a store of it, and `cairn serve FOLDER` opens it as it is.
///
/// With --generations the destination holds several copies, each in a folder named by the time in UTC. Tables that did not
/// change are links to those of the newest one; they are read, but not written again. The oldest copies go once the new one
/// was verified, but for those that a process has open for writing, or that were opened for writing since they were made: these
/// stay, and are named. A copy that does not verify stays as `.partial`, nothing older is removed, and the exit status is 4.
///
/// A folder that a process has open is backed up through its socket: the server must have been started with
/// --backup-folder, and the destination is a name within that folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn backup shop-data /mnt/backups/shop-before-upgrade
  cairn backup shop-data /mnt/backups/shop --generations 14
      every night, for two weeks back
  cairn serve shop-data --unix-socket shop.sock --backup-folder /mnt/backups
  cairn backup shop.sock shop --generations 14
      the same while the store is served")]
pub(crate) struct Arguments {
    /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
    store: PathBuf,
    /// The folder to make; through a server, its name in the server's folder for backups.
    #[arg(value_name = "DEST")]
    target: PathBuf,
    /// The number of copies that the destination keeps, the new one among them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    generations: Option<u32>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Runs the command and reports.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let words = Words {
        command: "backup",
        verb: "backed up",
        interrupted: "interrupted before the backup was done; a server may have finished it",
    };
    report(&words, &arguments.talk, |signals| back_up(arguments, signals))
}

/// The name of a command that makes a copy, and of its work.
pub(crate) struct Words {
    pub(crate) command: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) interrupted: &'static str,
}

/// Makes a copy by `copy`, and reports.
pub(crate) fn report(
    words: &Words,
    talk: &Talk,
    copy: impl FnOnce(&Signals) -> Result<BackedUp, Failure>,
) -> Result<(), Failure> {
    talk.start_log();
    let started = Instant::now();
    let done = Signals::watch().and_then(|signals| {
        // A signal that came after the end has ended nothing: the copy is there.
        copy(&signals).or_else(|failure| signals.judge(Err(failure), words.interrupted))
    });
    let (made, failure) = match done {
        Ok(made) => (made, None),
        Err(failure) => (BackedUp::default(), Some(failure)),
    };
    let list = |names: &[String]| names.iter().map(|name| Bson::String(name.clone())).collect();
    let mut report = Report {
        command: words.command,
        elapsed: started.elapsed(),
        counts: vec![
            ("collections", made.collections),
            ("documents", made.documents),
            ("indexes", made.indexes),
            ("entries", made.entries),
            ("sequences", made.sequences),
            ("files", made.files),
            ("bytes", made.bytes),
            ("bytesLinked", made.bytes_linked),
            ("filesLinked", made.files_linked),
        ],
        names: vec![("folder", made.folder.clone())],
        found: vec![("removed", list(&made.removed)), ("kept", list(&made.kept))],
        failure,
    };
    talk.report(&mut report, false);
    if report.failure.is_none() {
        let BackedUp { folder, removed, kept, documents, bytes, bytes_linked, .. } = &made;
        let linked = match bytes_linked {
            0 => String::new(),
            &linked => format!(", {} of them linked", size(linked)),
        };
        talk.say(&format!(
            "{} {} into {folder}: {}{linked}, verified",
            words.verb,
            counted(*documents, DOCUMENTS),
            size(*bytes)
        ));
        for name in removed {
            talk.say(&format!("removed {name}"));
        }
        for name in kept {
            talk.say(&format!("kept {name}, which is open for writing, or no longer as it was made"));
        }
    }
    report.failure.map_or(Ok(()), Err)
}

fn back_up(arguments: &Arguments, signals: &Signals) -> Result<BackedUp, Failure> {
    let store = open_to_copy(&arguments.store, &arguments.access, signals, &mut warn)?;
    let wish = BackupWish { target: &arguments.target, generations: arguments.generations };
    made(&*store, wish, &arguments.talk, signals)
}

/// Makes a copy, and shows how far it is.
pub(crate) fn made(
    store: &dyn Store,
    wish: BackupWish<'_>,
    talk: &Talk,
    signals: &Signals,
) -> Result<BackedUp, Failure> {
    let mut shown = Phases::of(talk);
    let made = store.back_up(wish, signals, &mut |at| {
        shown.show(at.phase, Reached { place: "", done: at.done, total: at.total, unit: unit_of(at.phase) });
    });
    shown.finish();
    made
}

/// The unit of a phase of a backup.
fn unit_of(phase: BackupPhase) -> Unit {
    match phase {
        BackupPhase::Verifying(phase) => verify::unit_of(phase),
        BackupPhase::Copying | _ => Unit::Bytes,
    }
}
