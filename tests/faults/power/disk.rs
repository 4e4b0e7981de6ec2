//! A disk in memory that knows what of it is on stable storage: for each file the bytes and the changes since its last
//! sync, for each folder the names and their changes.
//!
//! Folders are strict: a name that was made, changed or removed is durable after a sync of its folder. Of a disk that does
//! as ext4 does, the sync of a file makes its name durable too. Nothing here knows of mounts, or of when the power fails.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

use cairndb_tests::choices::Choices;

/// The unit that a disk writes as a whole.
const SECTOR_BYTES: usize = 512;
pub(crate) const ROOT: u64 = 1;

/// The number of an error of the operating system.
pub(crate) type Errno = i32;
pub(crate) type Done<T> = Result<T, Errno>;

/// The content of a disk when its machine starts again.
#[derive(Clone, Debug)]
pub(crate) enum Aftermath {
    /// Everything: only the process died.
    Killed,
    /// The synced part.
    Synced,
    /// The synced part, and some of the rest, with torn writes.
    Some { seed: u64 },
    /// Less than what was synced: the disk confirmed the syncs of these files and lost the last of their writes.
    Lying { suffix: &'static str },
}

/// A tree of files without anything unsynced. A folder is a path without bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) entries: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Set { name: String, node: u64 },
    Remove { name: String },
    Rename { from: String, to: String, node: u64 },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// The place where the content ended at the syncs before.
    synced_lengths: Vec<usize>,
    pub(crate) links: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) now: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    unsynced: Vec<NameChange>,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(Content),
    Folder(Names),
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    nodes: BTreeMap<u64, Node>,
    /// Whether the sync of a file makes its name durable too.
    pub(crate) syncs_names: bool,
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Length(length) => content.resize(*length, 0),
            Self::Write { at, bytes } => {
                let end = at + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                if let Some(place) = content.get_mut(*at..end) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }

    /// Applies the sectors of it that reached the disk.
    fn apply_torn(&self, content: &mut Vec<u8>, choices: &mut Choices) {
        let Self::Write { at, bytes } = self else { return self.apply(content) };
        let (mut at, mut rest) = (*at, bytes.as_slice());
        while !rest.is_empty() {
            let (sector, further) = rest.split_at(rest.len().min(SECTOR_BYTES - at % SECTOR_BYTES));
            if choices.one_in(2) {
                Self::Write { at, bytes: sector.to_vec() }.apply(content);
            }
            at += sector.len();
            rest = further;
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Set { name, node } => {
                names.insert(name.clone(), *node);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
            Self::Rename { from, to, node } => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }

    fn is_about(&self, wanted: u64) -> bool {
        matches!(self, Self::Set { node, .. } | Self::Rename { node, .. } if *node == wanted)
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }

    fn left(&self, aftermath: &Aftermath, name: &str, choices: &mut Choices) -> Vec<u8> {
        let mut left = self.durable.clone();
        match aftermath {
            Aftermath::Killed => left.clone_from(&self.now),
            Aftermath::Lying { suffix } if name.ends_with(suffix) => {
                left.truncate(self.synced_lengths.first().copied().unwrap_or(0));
            }
            Aftermath::Synced | Aftermath::Lying { .. } => {}
            Aftermath::Some { .. } => {
                // In their order: the system keeps one version of a page, so an older one never comes after a newer.
                for change in &self.unsynced {
                    match choices.below(6) {
                        0..=2 => change.apply(&mut left),
                        3 => change.apply_torn(&mut left, choices),
                        _ => {}
                    }
                }
            }
        }
        left
    }
}

impl Names {
    fn left(&self, aftermath: &Aftermath, choices: &mut Choices) -> BTreeMap<String, u64> {
        if matches!(aftermath, Aftermath::Killed) {
            return self.now.clone();
        }
        let mut left = self.durable.clone();
        if matches!(aftermath, Aftermath::Some { .. }) {
            // A journal of names is written in order.
            let count = choices.index(self.unsynced.len() + 1);
            self.unsynced.iter().take(count).for_each(|change| change.apply(&mut left));
        }
        left
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }
}

impl Disk {
    pub(crate) fn new(image: &Image, syncs_names: bool) -> Self {
        let root = Node::Folder(Names::default());
        let mut disk = Self { nodes: BTreeMap::from([(ROOT, root)]), syncs_names };
        for (path, bytes) in &image.entries {
            disk.load(path, bytes.as_deref());
        }
        disk
    }

    /// Adds what was on stable storage before. Folders come before what is in them.
    fn load(&mut self, path: &Path, bytes: Option<&[u8]>) {
        let mut parent = ROOT;
        for part in path.parent().into_iter().flat_map(Path::components) {
            parent = self.find(parent, &part.as_os_str().to_string_lossy()).expect("folders come first");
        }
        let name = path.file_name().expect("a path of names").to_string_lossy().into_owned();
        let node = match bytes {
            None => self.add(Node::Folder(Names::default())),
            Some(bytes) => {
                let (now, durable, synced_lengths) = (bytes.to_vec(), bytes.to_vec(), vec![bytes.len()]);
                self.add(Node::File(Content { now, durable, synced_lengths, links: 1, ..Content::default() }))
            }
        };
        let names = self.names(parent).expect("a folder");
        names.now.insert(name.clone(), node);
        names.durable.insert(name, node);
    }

    fn add(&mut self, node: Node) -> u64 {
        // Nodes are never removed: names that are still durable may mean them.
        let number = ROOT + self.nodes.len() as u64;
        self.nodes.insert(number, node);
        number
    }

    pub(crate) fn node(&self, number: u64) -> Done<&Node> {
        self.nodes.get(&number).ok_or(libc::ENOENT)
    }

    pub(crate) fn names(&mut self, folder: u64) -> Done<&mut Names> {
        match self.nodes.get_mut(&folder) {
            Some(Node::Folder(names)) => Ok(names),
            Some(Node::File(_)) => Err(libc::ENOTDIR),
            None => Err(libc::ENOENT),
        }
    }

    pub(crate) fn content(&mut self, file: u64) -> Done<&mut Content> {
        match self.nodes.get_mut(&file) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Folder(_)) => Err(libc::EISDIR),
            None => Err(libc::ENOENT),
        }
    }

    pub(crate) fn find(&mut self, folder: u64, name: &str) -> Done<u64> {
        self.names(folder)?.now.get(name).copied().ok_or(libc::ENOENT)
    }

    /// The name that a file or folder has now, or `/`.
    pub(crate) fn name_of(&self, node: u64) -> &str {
        let folders = self.nodes.values().filter_map(|node| match node {
            Node::Folder(names) => Some(names),
            Node::File(_) => None,
        });
        let mut names = folders.flat_map(|names| &names.now);
        names.find(|(_, number)| **number == node).map_or("/", |(name, _)| name)
    }

    /// Makes a file or a folder.
    pub(crate) fn make(&mut self, folder: u64, name: &str, is_folder: bool) -> Done<u64> {
        if self.find(folder, name).is_ok() {
            return Err(libc::EEXIST);
        }
        let node = if is_folder {
            self.add(Node::Folder(Names::default()))
        } else {
            self.add(Node::File(Content { links: 1, ..Content::default() }))
        };
        self.names(folder)?.change(NameChange::Set { name: name.to_owned(), node });
        Ok(node)
    }

    pub(crate) fn link(&mut self, node: u64, folder: u64, name: &str) -> Done<()> {
        if self.find(folder, name).is_ok() {
            return Err(libc::EEXIST);
        }
        self.content(node)?.links += 1;
        self.names(folder)?.change(NameChange::Set { name: name.to_owned(), node });
        Ok(())
    }

    pub(crate) fn remove(&mut self, folder: u64, name: &str) -> Done<()> {
        let node = self.find(folder, name)?;
        match self.nodes.get_mut(&node) {
            Some(Node::File(content)) => content.links -= 1,
            Some(Node::Folder(names)) if !names.now.is_empty() => return Err(libc::ENOTEMPTY),
            Some(Node::Folder(_)) | None => {}
        }
        self.names(folder)?.change(NameChange::Remove { name: name.to_owned() });
        Ok(())
    }

    /// Renames within a folder. No suite needs more.
    pub(crate) fn rename(&mut self, folder: u64, from: &str, to: &str) -> Done<()> {
        let node = self.find(folder, from)?;
        if let Ok(replaced) = self.find(folder, to)
            && replaced != node
        {
            self.content(replaced)?.links -= 1;
        }
        let change = NameChange::Rename { from: from.to_owned(), to: to.to_owned(), node };
        self.names(folder)?.change(change);
        Ok(())
    }

    pub(crate) fn write(&mut self, file: u64, at: usize, bytes: &[u8]) -> Done<()> {
        self.content(file)?.change(Change::Write { at, bytes: bytes.to_vec() });
        Ok(())
    }

    pub(crate) fn set_length(&mut self, file: u64, length: usize) -> Done<()> {
        let content = self.content(file)?;
        if content.now.len() != length {
            content.change(Change::Length(length));
        }
        Ok(())
    }

    pub(crate) fn sync(&mut self, number: u64) -> Done<()> {
        match self.nodes.get_mut(&number) {
            None => return Err(libc::ENOENT),
            Some(Node::Folder(names)) => {
                for change in std::mem::take(&mut names.unsynced) {
                    change.apply(&mut names.durable);
                }
                return Ok(());
            }
            Some(Node::File(content)) => {
                for change in std::mem::take(&mut content.unsynced) {
                    change.apply(&mut content.durable);
                }
                content.synced_lengths.push(content.durable.len());
            }
        }
        if self.syncs_names {
            self.sync_names_of(number);
        }
        Ok(())
    }

    /// As a journal of names does: with the newest name of the file all changes before it become durable.
    fn sync_names_of(&mut self, file: u64) {
        for node in self.nodes.values_mut() {
            let Node::Folder(names) = node else { continue };
            let Some(newest) = names.unsynced.iter().rposition(|change| change.is_about(file)) else {
                continue;
            };
            for change in names.unsynced.drain(..=newest) {
                change.apply(&mut names.durable);
            }
        }
    }

    /// The number of changes of the file of that name that no sync covers. The name must be that of one file only.
    pub(crate) fn unsynced_changes(&self, name: &str) -> usize {
        self.content_named(name).map_or(0, |content| content.unsynced.len())
    }

    /// The bytes that the file of that name has now.
    pub(crate) fn bytes_named(&self, name: &str) -> &[u8] {
        self.content_named(name).map_or(&[], |content| &content.now)
    }

    fn content_named(&self, name: &str) -> Option<&Content> {
        let mut folders = self.nodes.values().filter_map(|node| match node {
            Node::Folder(names) => Some(names),
            Node::File(_) => None,
        });
        let node = folders.find_map(|names| names.now.get(name))?;
        match self.nodes.get(node)? {
            Node::File(content) => Some(content),
            Node::Folder(_) => None,
        }
    }

    /// The files that are left if everything reached the disk but the end of one file: of its changes since its last sync the
    /// first `kept` did, and half of the next one if it `is_torn`.
    pub(crate) fn left_without_end(&self, name: &str, kept: usize, is_torn: bool) -> Image {
        let mut image = self.left(&Aftermath::Killed);
        let Some(content) = self.content_named(name) else { return image };
        let mut left = content.durable.clone();
        for change in content.unsynced.iter().take(kept) {
            change.apply(&mut left);
        }
        if is_torn && let Some(Change::Write { at, bytes }) = content.unsynced.get(kept) {
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default().to_vec();
            Change::Write { at: *at, bytes: half }.apply(&mut left);
        }
        for (path, bytes) in &mut image.entries {
            if path.ends_with(name) {
                *bytes = Some(left.clone());
            }
        }
        image
    }

    /// The files that are left if everything reached the disk but the end of one file, which the disk had confirmed: the file
    /// ends after `kept` bytes, or has zeros from there.
    pub(crate) fn left_cut(&self, name: &str, kept: usize, has_zeros: bool) -> Image {
        let mut image = self.left(&Aftermath::Killed);
        for (path, bytes) in &mut image.entries {
            if path.ends_with(name)
                && let Some(bytes) = bytes
            {
                let length = bytes.len();
                bytes.truncate(kept);
                bytes.resize(if has_zeros { length } else { bytes.len() }, 0);
            }
        }
        image
    }

    /// The ends of the file of that name at its syncs, the last one first, and at its beginning.
    pub(crate) fn ends_before_syncs(&self, name: &str) -> Vec<usize> {
        let lengths = self.content_named(name).map(|content| content.synced_lengths.clone());
        let mut lengths = lengths.unwrap_or_default();
        lengths.insert(0, 0);
        lengths.dedup();
        lengths.pop();
        lengths.reverse();
        lengths
    }

    /// Damages bytes of a file that are on the disk. Returns whether there are any.
    pub(crate) fn damage(&mut self, file: u64, part: Range<usize>) -> bool {
        let Ok(content) = self.content(file) else { return false };
        let mut is_met = false;
        for bytes in [&mut content.now, &mut content.durable] {
            let end = part.end.min(bytes.len());
            for byte in bytes.get_mut(part.start..end).unwrap_or_default() {
                *byte ^= 0x55;
                is_met = true;
            }
        }
        is_met
    }

    /// The files but this one that have bytes, and a name other than that of RocksDB's text files.
    pub(crate) fn others(&self, file: u64) -> Vec<(u64, usize)> {
        let has_bytes = |(number, node): (&u64, &Node)| match node {
            Node::File(Content { now, links: 1.., .. }) if *number != file && !now.is_empty() => {
                Some((*number, now.len()))
            }
            Node::File(_) | Node::Folder(_) => None,
        };
        let is_read = |(number, _): &(u64, usize)| {
            !["LOG", "OPTIONS", "IDENTITY"].iter().any(|text| self.name_of(*number).starts_with(text))
        };
        self.nodes.iter().filter_map(has_bytes).filter(is_read).collect()
    }

    /// A failed sync: the system forgets what it could not write, and no later sync brings it back.
    pub(crate) fn forget_unsynced(&mut self, file: u64) {
        if let Ok(content) = self.content(file) {
            content.unsynced.clear();
        }
    }

    /// The files that are left after the end of the machine, or of the process.
    pub(crate) fn left(&self, aftermath: &Aftermath) -> Image {
        let seed = if let Aftermath::Some { seed } = aftermath { *seed } else { 0 };
        let mut choices = Choices::seeded(seed);
        let mut image = Image::default();
        let mut folders = vec![(ROOT, PathBuf::new())];
        while let Some((folder, path)) = folders.pop() {
            let Some(Node::Folder(names)) = self.nodes.get(&folder) else { continue };
            for (name, number) in names.left(aftermath, &mut choices) {
                let path = path.join(&name);
                match self.nodes.get(&number) {
                    Some(Node::File(content)) => {
                        let bytes = content.left(aftermath, &name, &mut choices);
                        image.entries.insert(path, Some(bytes));
                    }
                    Some(Node::Folder(_)) => {
                        image.entries.insert(path.clone(), None);
                        folders.push((number, path));
                    }
                    None => {}
                }
            }
        }
        image
    }
}

impl Image {
    /// Writes the files into a folder of the machine.
    pub(crate) fn write_to(&self, folder: &Path) -> io::Result<()> {
        for (path, bytes) in &self.entries {
            match bytes {
                None => fs::create_dir(folder.join(path))?,
                Some(bytes) => fs::write(folder.join(path), bytes)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(image: &Image) -> Vec<String> {
        image.entries.keys().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    fn bytes(image: &Image, name: &str) -> Vec<u8> {
        image.entries[Path::new(name)].clone().expect("a file")
    }

    /// Two files, of which one was synced with its folder and then changed.
    fn disk() -> (Disk, u64, u64) {
        let mut disk = Disk::new(&Image::default(), false);
        let synced = disk.make(ROOT, "synced", false).expect("made");
        disk.write(synced, 0, &[1; 600]).expect("written");
        disk.sync(synced).expect("synced");
        disk.sync(ROOT).expect("synced");
        disk.write(synced, 600, &[2; 2000]).expect("written");
        let other = disk.make(ROOT, "other", false).expect("made");
        (disk, synced, other)
    }

    #[test]
    fn a_cut_takes_what_was_not_synced_and_a_kill_takes_nothing() {
        let (mut disk, synced, other) = disk();
        let cut = disk.left(&Aftermath::Synced);
        assert_eq!((names(&cut), bytes(&cut, "synced")), (vec!["synced".to_owned()], vec![1; 600]));
        assert_eq!(bytes(&disk.left(&Aftermath::Killed), "synced").len(), 2600);
        disk.sync(other).expect("synced");
        assert_eq!(names(&disk.left(&Aftermath::Synced)), ["synced"], "a name needs its folder");
        disk.syncs_names = true;
        disk.sync(other).expect("synced");
        assert_eq!(names(&disk.left(&Aftermath::Synced)), ["other", "synced"]);
        disk.rename(ROOT, "other", "synced").expect("renamed");
        assert_eq!(disk.content(synced).expect("a file").links, 0);
        assert_eq!(names(&disk.left(&Aftermath::Killed)), ["synced"]);
    }

    #[test]
    fn a_random_cut_keeps_whole_sectors_of_any_write() {
        let (disk, _, _) = disk();
        let mut lengths = Vec::new();
        for seed in 0..200 {
            let left = bytes(&disk.left(&Aftermath::Some { seed }), "synced");
            assert_eq!(left[..600], [1; 600]);
            let after_first_sector = left.get(1024..).unwrap_or_default();
            assert!(
                after_first_sector.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0]))
            );
            lengths.push(left.len());
        }
        lengths.sort_unstable();
        lengths.dedup();
        assert!(lengths.len() > 3, "{lengths:?}");
    }

    #[test]
    fn the_end_of_one_file_can_be_lost_alone() {
        let (mut disk, synced, other) = disk();
        disk.write(synced, 2600, &[3; 100]).expect("written");
        disk.write(other, 0, &[4; 10]).expect("written");
        assert_eq!(disk.unsynced_changes("synced"), 2);
        let length = |kept, is_torn| {
            let left = disk.left_without_end("synced", kept, is_torn);
            assert_eq!(bytes(&left, "other"), [4; 10]);
            bytes(&left, "synced").len()
        };
        let lengths = [(0, false), (0, true), (1, false), (1, true), (2, false)];
        assert_eq!(lengths.map(|(kept, is_torn)| length(kept, is_torn)), [600, 1600, 2600, 2650, 2700]);
    }

    #[test]
    fn what_a_failed_sync_forgot_no_later_sync_brings() {
        let (mut disk, synced, _) = disk();
        disk.forget_unsynced(synced);
        disk.sync(synced).expect("synced");
        assert_eq!(bytes(&disk.left(&Aftermath::Synced), "synced").len(), 600);
        assert_eq!(bytes(&disk.left(&Aftermath::Killed), "synced").len(), 2600);
    }

    #[test]
    fn an_image_comes_back_as_it_was() {
        let (mut disk, _, _) = disk();
        let folder = disk.make(ROOT, "folder", true).expect("made");
        disk.make(folder, "inner", false).expect("made");
        let image = disk.left(&Aftermath::Killed);
        let again = Disk::new(&image, false).left(&Aftermath::Synced);
        assert_eq!(again.entries, image.entries);
        assert_eq!(names(&again), ["folder", "folder/inner", "other", "synced"]);
    }
}
