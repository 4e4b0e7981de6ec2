//! `backup`: a verified copy of the store, in the folder that the server was given for copies. A client names no path.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use cairndb::IndependentBackupReport;
use cairndb::bson::{Bson, Document, doc};
use query::code::Code;

use crate::auth::users::DATABASE;
use crate::dispatch::call::Call;
use crate::failure::{Failure, quoted};
use crate::reply::Reply;

/// The longest name of a backup in bytes. What is added to it while the backup is made must have room, too.
const NAME_BYTES_MAX: usize = 200;

/// Makes a copy called `name`, or, with `generations`, the next one of several in a folder called so.
pub(super) fn backup(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["generations", "name"])?;
    if call.command.database() != DATABASE {
        return Err(Failure::new(Code::UNAUTHORIZED, "backup may only be run against the admin database."));
    }
    let Some(folder) = &call.shared.settings.backup_folder else {
        let message = "this server has no folder for backups: it is started with --backup-folder for them";
        return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
    };
    let name = fields.text("name")?.ok_or_else(|| fields.missing("name"))?;
    check_name(name)?;
    let client = call.client();
    let mut backup = client.independent_backup(folder.join(name));
    if let Some(keep) = fields.count("generations")? {
        backup = backup.generations(usize::try_from(keep).unwrap_or(usize::MAX));
    }
    if let Some(limit) = fields.count("maxTimeMS")?.filter(|limit| *limit > 0) {
        backup = backup.max_time(Duration::from_millis(limit));
    }
    let report = backup.run().map_err(|error| {
        // Distinguished from every other failure, because something is damaged.
        if error.is_corruption() {
            Failure::new(Code::OPERATION_FAILED, error.to_string())
        } else {
            error.into()
        }
    })?;
    Ok(reply(name, &report).into())
}

/// Rejects names that are not those of a new folder in the folder for backups.
fn check_name(name: &str) -> Result<(), Failure> {
    let mut components = Path::new(name).components();
    let is_one = matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name);
    // Beginnings and ends that hide a folder, or that represent one that is being made.
    let is_own = name.starts_with('.') || name.ends_with(".partial") || name.contains(['\0', '\\']);
    if !is_one || is_own || name.len() > NAME_BYTES_MAX {
        return Err(Failure::bad_value(format!(
            "the name of a backup is that of one folder, of up to {NAME_BYTES_MAX} bytes, not {}",
            quoted(name)
        )));
    }
    Ok(())
}

fn reply(name: &str, report: &IndependentBackupReport) -> Document {
    let last = |path: &Path| path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
    let names = |paths: &[PathBuf]| paths.iter().map(|path| Bson::String(last(path))).collect::<Vec<_>>();
    let verified = &report.verified;
    doc! {
        "name": name,
        // The folder of a generation within that of its backups; else the same as the name.
        "folder": last(&report.path),
        "bytes": long(report.bytes),
        "bytesLinked": long(report.bytes_linked),
        "filesLinked": long(report.files_linked),
        "removed": names(&report.removed),
        "kept": names(&report.kept),
        "collections": long(verified.collections),
        "documents": long(verified.documents),
        "indexes": long(verified.indexes),
        "entries": long(verified.entries),
        "sequences": long(verified.sequences),
        "files": long(verified.files),
    }
}

fn long(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_one_new_folder_and_nowhere_else() {
        for name in ["daily", "2026 november", "a.b", "größe", &"x".repeat(200)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let refused = [
            "",
            ".",
            "..",
            "/",
            "/a",
            "a/b",
            "a/",
            "./a",
            "../a",
            "a/..",
            "a\\b",
            "a\0b",
            ".hidden",
            "a.partial",
        ];
        for name in refused {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name(&"x".repeat(201)).is_err());
    }
}
