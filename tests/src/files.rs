//! The files of a database's folder, for suites that damage them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// The offset in its header at which a record of a log has its type.
pub const TYPE_AT: usize = 6;

/// Every file with its bytes, by name. What an open database deletes meanwhile is left out.
pub fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = names(folder).into_iter().filter_map(|name| match fs::read(folder.join(&name)) {
        Ok(bytes) => Some((name, bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("{name} cannot be read: {error}"),
    });
    read.collect()
}

/// The name of every file.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("names are text");
    entries.map(|entry| name(entry.expect("the folder can be read"))).collect()
}

/// Whether a file of that name is a log.
pub fn is_log(name: &str) -> bool {
    name.strip_suffix(".log").is_some()
}

/// Whether a file of that name is a table.
pub fn is_table(name: &str) -> bool {
    name.strip_suffix(".sst").is_some()
}

/// The name of the log that is written to.
pub fn newest_log(folder: &Path) -> String {
    names(folder).into_iter().filter(|name| is_log(name)).max().expect("the database has a log")
}

/// The file's name that is named by CURRENT.
pub fn manifest(folder: &Path) -> String {
    let current = fs::read_to_string(folder.join("CURRENT")).expect("there is a CURRENT");
    current.trim_end().to_owned()
}

/// The beginnings of the records of an undamaged log, and the end of the last one.
pub fn records(log: &[u8]) -> Vec<usize> {
    let mut at = 0;
    let mut found = Vec::new();
    loop {
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < HEADER_BYTES {
            at += left;
        }
        found.push(at);
        let Some([_, _, _, _, low, high, _]) = log.get(at..).and_then(<[u8]>::first_chunk::<HEADER_BYTES>)
        else {
            return found;
        };
        at += HEADER_BYTES + usize::from(u16::from_le_bytes([*low, *high]));
    }
}

/// Changes a file in place.
pub fn change(folder: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = folder.join(name);
    let mut bytes = fs::read(&path).expect("the file is there");
    change(&mut bytes);
    fs::write(&path, bytes).expect("the file can be written");
}
