//! The folder in which a salvaged database is made before it gets its place.
//!
//! It is called as the new folder with `.partial` after it, and the database lies one level deeper, so that neither can be
//! opened for the finished one. A process that is killed leaves it; nothing else does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base::error::{Error, Result};

use crate::folder::{beside, failed, make_private, move_copy, sync_folder, sync_parent};
use crate::fork;

/// The ending of the folder's name.
const SUFFIX: &str = ".partial";

/// A database that is not finished. Dropping it removes it.
pub struct PartialFolder {
    path: PathBuf,
    target: PathBuf,
    is_published: bool,
}

impl PartialFolder {
    /// Makes the folder. The target must not exist.
    pub fn make(target: &Path) -> Result<Self> {
        let path = beside(target, SUFFIX);
        if target.symlink_metadata().is_ok() {
            return Err(Error::invalid_argument(format!("the folder {} exists already", target.display())));
        }
        if path.symlink_metadata().is_ok() {
            return Err(Error::invalid_argument(format!(
                "the folder {} exists: a salvage is running, or was killed; remove it then",
                path.display()
            )));
        }
        make_private(&path)?;
        Ok(Self { path, target: target.to_owned(), is_published: false })
    }

    /// The path of the new database.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// The folder in which changes of logs are sorted.
    pub fn scratch(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// Gives the finished database its place. It must be closed.
    pub fn publish(mut self) -> Result<()> {
        match fs::remove_dir_all(self.scratch()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove the folder", &self.scratch())(error));
            }
            Ok(()) | Err(_) => {}
        }
        // The target of the new name must be durable before the name is.
        sync_folder(&self.store())?;
        move_copy(&self.store(), &self.path, &self.target)?;
        self.is_published = true;
        sync_parent(&self.target)
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if !self.is_published
            && !fork::is_child()
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "an unfinished salvage could not be removed");
        }
    }
}
