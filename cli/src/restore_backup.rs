//! `cairn restore-backup`: a backup made into a store again, without a change of the backup.

use std::path::{Path, PathBuf};

use crate::backup;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::store::{Access, BackedUp, BackupWish, folder_alone, open_for_reading};
use crate::talk::{Talk, warn};

/// The file that marks a folder of generations.
const GENERATIONS: &str = "CAIRNDB.backups";

/// Copies a backup to a new folder, and verifies the copy.
///
/// The backup is read and never changed, so that it can be restored again, and later backups go on from it. The new folder gets
/// its name once it was verified, and is a store as any other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn restore-backup /mnt/backups/shop-before-upgrade shop-again")]
pub(crate) struct Arguments {
    /// The backup: a folder that `cairn backup` has made, one generation of several.
    #[arg(value_name = "GENERATION")]
    backup: PathBuf,
    /// The folder to make.
    #[arg(value_name = "TO")]
    target: PathBuf,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    talk: Talk,
}

/// Runs the command and reports.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let words = backup::Words {
        command: "restore-backup",
        verb: "restored",
        interrupted: "interrupted before the store was made",
    };
    backup::report(&words, &arguments.talk, |signals| restore(arguments, signals))
}

fn restore(arguments: &Arguments, signals: &Signals) -> Result<BackedUp, Failure> {
    let folder = folder_alone("restore-backup", &arguments.backup)?;
    refuse_generations(&folder)?;
    // For reading: a generation that was opened for writing is no longer as it was made.
    let store = open_for_reading(&folder, &arguments.access, signals, &mut warn)?;
    backup::made(
        &*store,
        BackupWish { target: &arguments.target, generations: None },
        &arguments.talk,
        signals,
    )
}

/// Names the newest of several generations, where one of them is meant.
fn refuse_generations(folder: &Path) -> Result<(), Failure> {
    if !folder.join(GENERATIONS).exists() {
        return Ok(());
    }
    let entries =
        std::fs::read_dir(folder).map_err(|error| Failure::io(&folder.display().to_string(), &error))?;
    let is_whole =
        |path: &PathBuf| path.is_dir() && path.extension().is_none_or(|ending| ending != "partial");
    let newest = entries.flatten().map(|entry| entry.path()).filter(is_whole).max();
    let shown = folder.display();
    Err(Failure::usage(match newest {
        Some(newest) => {
            format!("{shown} has several generations: give one, the newest is {}", newest.display())
        }
        None => format!("{shown} is a folder for backups, and has none"),
    }))
}
