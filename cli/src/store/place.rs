//! The meaning of the argument STORE: a URI by its scheme, a socket by its file, and otherwise a folder.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure};

/// The endings of the names of sockets.
const SOCKET_ENDS: [&str; 2] = ["sock", "socket"];
/// The file that every store has. It says which format the folder has.
pub(super) const MARKER: &str = "CAIRNDB";

/// The beginnings of URIs.
const SCHEMES: [&str; 2] = ["mongodb://", "mongodb+srv://"];

/// The place of a store.
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

/// The name of a store, if it is a URI. In one that is not UTF-8 a mark means what is not, and the driver rejects it.
pub(crate) fn uri(name: &Path) -> Option<String> {
    let bytes = name.as_os_str().as_encoded_bytes();
    let is_uri = SCHEMES.iter().any(|scheme| bytes.starts_with(scheme.as_bytes()));
    is_uri.then(|| name.to_string_lossy().into_owned())
}

/// Rejects a path that is absent and has the name of a server: an address, or a socket. Who mistypes an address would find what
/// was written in a folder of that name. A server removes its socket when it stops: the command that wrote into the server would
/// make a folder of that name as well.
pub(crate) fn refuse_absent_server(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let name = path.display();
    if let Some(meant) = path.to_str().and_then(address) {
        let reason = format!("it looks like an address, which is written {meant}");
        return Err(Failure::new(Exit::NoStore, format!("there is no folder {name}: {reason}")));
    }
    if !path.extension().is_some_and(|end| SOCKET_ENDS.iter().any(|other| end == *other)) {
        return Ok(());
    }
    let reason =
        "a server that listened there may have stopped, and no folder is made under the name of a socket";
    Err(Failure::new(Exit::NoStore, format!("there is no socket {name}: {reason}")))
}

/// The URI that was probably meant by a text that looks like an address and is none: `localhost:27017`, `mongodb:/host`,
/// `http://host:27017`. Returns `None` if it does not look like one.
fn address(text: &str) -> Option<String> {
    let (scheme, rest) = match text.split_once(":/") {
        Some((scheme, rest)) if scheme.bytes().all(is_of_scheme) && !scheme.is_empty() => (scheme, rest),
        Some(_) | None => return has_port(text).then(|| meant("mongodb", text)),
    };
    let is_srv = scheme.to_ascii_lowercase().ends_with("+srv");
    Some(meant(if is_srv { "mongodb+srv" } else { "mongodb" }, rest.trim_start_matches('/')))
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Whether a text has a host and a port before its first slash, as in `localhost:27017/shop`, `[::1]:27017` and `a:1,b:2`.
fn has_port(text: &str) -> bool {
    let hosts = text.split('/').next().unwrap_or_default();
    hosts.split(',').all(|host| {
        // A folder may have a time in its name, whose parts have two digits.
        let is_port = |port: &str| port.len() > 2 && port.parse::<u16>().is_ok();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
        host.rsplit_once(':')
            .is_some_and(|(name, port)| !name.is_empty() && is_port(port) && name.bytes().all(is_name))
    })
}

/// The URI of hosts. A database would be that of the users, and is not what is meant after a slash.
fn meant(scheme: &str, rest: &str) -> String {
    let hosts = rest.split('/').next().unwrap_or_default();
    let hosts = if hosts.is_empty() { "HOST" } else { hosts };
    // The part before the last at sign is a name and a password, which no message repeats.
    let shown = hosts.rsplit_once('@').map_or_else(|| hosts.to_owned(), |(_, host)| format!("USER@{host}"));
    format!("{scheme}://{shown}/")
}

/// Whether a path has no store.
pub(super) fn lacks_marker(path: &Path) -> bool {
    !path.join(MARKER).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_an_address_is_told_as_a_uri() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(address(text).as_deref(), expected, "{text}");
        check("localhost:27017", Some("mongodb://localhost:27017/"));
        check("localhost:27017/shop", Some("mongodb://localhost:27017/"));
        check("[::1]:27017", Some("mongodb://[::1]:27017/"));
        check("a:1001,b:1002", Some("mongodb://a:1001,b:1002/"));
        check("mongodb:/host/", Some("mongodb://host/"));
        check("mongodb:///host", Some("mongodb://host/"));
        check("MongoDB://host:1/", Some("mongodb://host:1/"));
        check("mongodb+srv:/host", Some("mongodb+srv://host/"));
        check("http://host:27017/shop?x", Some("mongodb://host:27017/"));
        check("https://ada:secret@host", Some("mongodb://USER@host/"));
        check("mongo://", Some("mongodb://HOST/"));
        for text in [
            "shop-data",
            "./a:b",
            "data/2024:01",
            "a:",
            ":1",
            "a:99999",
            "2024-01-01T12:30:00",
            "backup 12:300",
            "/mnt/x:27017",
            "C:data",
            "a:b:c",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_folder_whose_name_is_an_address_is_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("localhost:27017");
        std::fs::create_dir(&path).unwrap();
        assert!(refuse_absent_server(&path).is_ok());
        let failure = refuse_absent_server(Path::new("localhost:27017")).unwrap_err();
        assert_eq!(failure.exit, Exit::NoStore);
        assert_eq!(
            failure.message,
            "there is no folder localhost:27017: it looks like an address, which is written mongodb://localhost:27017/"
        );
    }

    #[test]
    fn only_an_absent_path_is_refused_for_the_name_of_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.sock", "b.socket"] {
            let path = folder.path().join(name);
            assert_eq!(refuse_absent_server(&path).unwrap_err().exit, Exit::NoStore);
            std::fs::create_dir(&path).unwrap();
            assert!(refuse_absent_server(&path).is_ok());
        }
        for name in ["sock", "a.sock.d", "a"] {
            assert!(refuse_absent_server(&folder.path().join(name)).is_ok(), "{name}");
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
