//! What the argument STORE names: a URI by its scheme, a socket by its file, and otherwise a folder.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// Where a store is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Folder(PathBuf),
    Socket(PathBuf),
    Uri(String),
}

impl Place {
    pub(super) fn of(name: &str) -> Self {
        if name.starts_with("mongodb://") || name.starts_with("mongodb+srv://") {
            return Self::Uri(name.to_owned());
        }
        let path = PathBuf::from(name);
        // An absent path counts as a folder, whose opening says that there is none.
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.file_type().is_socket() => Self::Socket(path),
            Ok(_) | Err(_) => Self::Folder(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_sockets_and_folders_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(Place::of("mongodb://a/"), Place::Uri("mongodb://a/".into()));
        assert_eq!(Place::of("mongodb+srv://a/"), Place::Uri("mongodb+srv://a/".into()));
        assert_eq!(Place::of(socket.to_str().unwrap()), Place::Socket(socket));
        assert_eq!(Place::of("mongodb"), Place::Folder("mongodb".into()));
    }
}
