//! What the argument STORE names: a URI by its scheme, a socket by its file, and otherwise a folder.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};

/// How names of sockets end.
const SOCKET_ENDS: [&str; 2] = ["sock", "socket"];
/// The file that every store has. It says which format the folder has.
pub(super) const MARKER: &str = "CAIRNDB";

/// How URIs begin.
const SCHEMES: [&str; 2] = ["mongodb://", "mongodb+srv://"];

/// Where a store is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Folder(PathBuf),
    Socket(PathBuf),
    Uri(String),
}

impl Place {
    /// Any bytes may be the name of a file.
    pub(super) fn of(name: &Path) -> Self {
        if let Some(uri) = uri(name) {
            return Self::Uri(uri);
        }
        let path = name.to_owned();
        // An absent path counts as a folder, whose opening says that there is none.
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.file_type().is_socket() => Self::Socket(path),
            Ok(_) | Err(_) => Self::Folder(path),
        }
    }
}

/// The name of a store, if it is a URI. In one that is not UTF-8 a mark stands for what is not, and the driver refuses it.
pub(crate) fn uri(name: &Path) -> Option<String> {
    let bytes = name.as_os_str().as_encoded_bytes();
    let is_uri = SCHEMES.iter().any(|scheme| bytes.starts_with(scheme.as_bytes()));
    is_uri.then(|| name.to_string_lossy().into_owned())
}

/// Refuses a path that is absent and has the name of a socket. A server removes its socket when it stops: the command that wrote
/// into the server would make a folder of that name, and write there.
pub(crate) fn refuse_absent_socket(path: &Path) -> Result<(), Failure> {
    let is_named_so = path.extension().is_some_and(|end| SOCKET_ENDS.iter().any(|other| end == *other));
    if !is_named_so || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let name = path.display();
    let reason =
        "a server that listened there may have stopped, and no folder is made under the name of a socket";
    Err(Failure::new(Exit::NoStore, format!("there is no socket {name}: {reason}")))
}

/// Whether a path has no store.
pub(super) fn lacks_marker(path: &Path) -> bool {
    !path.join(MARKER).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_absent_path_is_refused_for_the_name_of_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.sock", "b.socket"] {
            let path = folder.path().join(name);
            assert_eq!(refuse_absent_socket(&path).unwrap_err().exit, Exit::NoStore);
            std::fs::create_dir(&path).unwrap();
            assert!(refuse_absent_socket(&path).is_ok());
        }
        for name in ["sock", "a.sock.d", "a"] {
            assert!(refuse_absent_socket(&folder.path().join(name)).is_ok(), "{name}");
        }
    }

    #[test]
    fn schemes_sockets_and_folders_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(Place::of(Path::new("mongodb://a//b")), Place::Uri("mongodb://a//b".into()));
        assert_eq!(Place::of(Path::new("mongodb+srv://a/")), Place::Uri("mongodb+srv://a/".into()));
        assert_eq!(Place::of(&socket), Place::Socket(socket));
        assert_eq!(Place::of(Path::new("mongodb")), Place::Folder("mongodb".into()));
    }
}
