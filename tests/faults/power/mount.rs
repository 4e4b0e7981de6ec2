//! The disk as a file system of the machine, by FUSE: it counts what is done to it, and at the chosen operation the power
//! fails, or the operation does.
//!
//! The kernel caches nothing of it: files are opened for direct input and output, and attributes are asked for again.
//! RocksDB's text file LOG is on the disk too, but what is done to it is not counted.
//!
//! A test can also have syncs of logs wait until it lets them go on, have one write of a log fail, and look at the disk before
//! each change.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use cairndb_tests::files::is_log;
use cairndb_tests::scratch::Scratch;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::mount::{UnmountFlags, unmount};

use crate::power::disk::{Content, Disk, Done, Image, Names, Node};

/// The device by which file systems outside of the kernel are mounted.
const DEVICE: &str = "/dev/fuse";
const TTL: Duration = Duration::ZERO;
const HANDLE: FileHandle = FileHandle(0);
const BLOCK_BYTES: u32 = 4096;
/// The time that a disk may be in use that is to be unmounted.
const BUSY_MAX: Duration = Duration::from_secs(30);
/// More than any test fills.
const BLOCKS: u64 = 1 << 20;
/// The free space where an operation is rejected for want of it: with less than 256 MiB the engine counts a disk as
/// nearly full.
const FEW_BLOCKS: u64 = 1 << 10;

/// The kind of an operation, as far as faults distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Making and opening of files and folders.
    Open,
    Read,
    Write,
    Sync,
    /// Renames, links, removals and changes of a length.
    Rename,
}

impl Class {
    pub(crate) const ALL: [Self; 5] = [Self::Open, Self::Read, Self::Write, Self::Sync, Self::Rename];
}

/// The effect at the chosen operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// It and all later ones fail: the power is off, or the process is about to be killed.
    Stop,
    /// It fails, and all later ones of its class do if it is `lasting`. After `stop_after` more operations the power fails.
    Fail { errno: i32, lasting: bool, stop_after: Option<u64> },
}

/// Which operation is met, and by what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Counted from 1: of the class, or of all that change something.
    pub(crate) at: u64,
    pub(crate) class: Option<Class>,
    pub(crate) act: Act,
}

/// The call before each change of a disk.
pub(crate) type Watch = Box<dyn FnMut(&Disk) + Send>;

/// Which syncs of logs wait. The kernel lets no write of a file begin while a sync of it runs, so a test must know what comes
/// after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    All,
    /// Those of RocksDB's threads that flush memtables.
    OfFlushes,
}

/// Syncs of logs wait as long as this is kept.
pub(crate) struct Hold<'a> {
    disk: &'a Mounted,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.disk.release_logs();
    }
}

/// The neighbor that a write damages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbor {
    /// The bytes before the written ones.
    Before,
    /// The bytes after them.
    After,
    /// Bytes at the same place of another file.
    OtherFile,
}

/// The number of bytes of a neighbor that are damaged.
const STRAY_BYTES: usize = 8;

/// The actions of a test on a database that is open on the disk.
#[derive(Default)]
struct Hands {
    watch: Option<Watch>,
    /// Which syncs of logs wait.
    holds: Option<Held>,
    /// The syncs that wait, and of which file each is.
    held: Vec<(u64, ReplyEmpty)>,
    /// The number of writes that are made until one damages a neighbor.
    stray: Option<(u64, Neighbor)>,
    /// The damage that was made: the file with it, and where it begins.
    strayed: Option<(String, usize)>,
    /// The error of the next write of a log. Half of it reaches the file.
    refuses_log: Option<i32>,
}

/// The state of a disk.
pub(crate) struct State {
    pub(crate) disk: Disk,
    hands: Hands,
    plan: Option<Plan>,
    /// Parts of files that cannot be read, by the names of the files.
    bad: Vec<(String, Range<u64>)>,
    /// Operations that change something.
    pub(crate) changes: u64,
    /// Operations by class.
    pub(crate) counts: [u64; Class::ALL.len()],
    /// The operation that was met: what it was, of which file, by which thread.
    pub(crate) met: Option<String>,
    stops_at: Option<u64>,
    pub(crate) is_stopped: bool,
    stopped: Sender<()>,
}

impl State {
    /// Counts an operation, and fails if it is to fail.
    fn admit(&mut self, class: Class, what: &str, node: u64, thread: u32) -> Done<()> {
        if self.is_stopped {
            return Err(libc::EIO);
        }
        let name = self.disk.name_of(node).to_owned();
        if name == "LOG" || name.starts_with("LOG.old") {
            return Ok(());
        }
        let is_change = class != Class::Read && what != "open";
        if is_change && let Some(watch) = &mut self.hands.watch {
            watch(&self.disk);
        }
        self.changes += u64::from(is_change);
        let count = self.counts.get_mut(class as usize).expect("a class");
        *count += 1;
        let number = match self.plan {
            Some(Plan { class: None, .. }) => Some(self.changes).filter(|_| is_change),
            Some(Plan { class: Some(wanted), .. }) => Some(*count).filter(|_| wanted == class),
            None => None,
        };
        if self.stops_at.is_some_and(|last| self.changes > last) {
            return self.stop();
        }
        let (Some(plan), Some(number)) = (self.plan, number) else { return Ok(()) };
        if number == plan.at {
            self.met = Some(describe(what, &name, thread));
        }
        match plan.act {
            Act::Stop if number == plan.at => self.stop(),
            Act::Fail { errno, lasting, stop_after }
                if number == plan.at || (lasting && number > plan.at) =>
            {
                self.stops_at = self.stops_at.or(stop_after.map(|more| self.changes + more));
                Err(errno)
            }
            Act::Stop | Act::Fail { .. } => Ok(()),
        }
    }

    /// Fails a write of a log that is to fail, after half of it was made.
    fn write(&mut self, node: u64, at: usize, bytes: &[u8]) -> Done<()> {
        let is_met = self.hands.refuses_log.is_some() && is_log(self.disk.name_of(node));
        let Some(errno) = self.hands.refuses_log.take_if(|_| is_met) else {
            self.disk.write(node, at, bytes)?;
            self.stray(node, at..at + bytes.len());
            return Ok(());
        };
        self.disk.write(node, at, bytes.get(..bytes.len() / 2).unwrap_or_default())?;
        Err(errno)
    }

    /// Damages a neighbor of the part of a file that was written, if this is the write to do so. A write without such a
    /// neighbor leaves it to the next one.
    fn stray(&mut self, node: u64, written: Range<usize>) {
        let Some((left, neighbor)) = &mut self.hands.stray else { return };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return;
        }
        let (file, at) = match neighbor {
            Neighbor::Before => (node, written.start.saturating_sub(STRAY_BYTES)),
            Neighbor::After => (node, written.end),
            Neighbor::OtherFile => {
                let others = self.disk.others(node);
                let Some((file, bytes)) = others.get(written.start % others.len().max(1)) else { return };
                (*file, written.start % bytes)
            }
        };
        let end = if *neighbor == Neighbor::Before { written.start } else { at + STRAY_BYTES };
        if self.disk.damage(file, at..end) {
            self.hands.stray = None;
            self.hands.strayed = Some((self.disk.name_of(file).to_owned(), at));
        }
    }

    fn stop(&mut self) -> Done<()> {
        self.is_stopped = true;
        // No error: the receiver is gone if the life is over.
        let _ = self.stopped.send(());
        Err(libc::EIO)
    }

    fn attributes(&self, number: u64) -> Done<FileAttr> {
        let (kind, size, perm, nlink) = match self.disk.node(number)? {
            Node::File(Content { now, links, .. }) => {
                (FileType::RegularFile, now.len() as u64, 0o600, *links)
            }
            Node::Folder(_) => (FileType::Directory, 0, 0o700, 2),
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    /// Rejects operations that are not counted once the power is off.
    fn running(&self) -> Done<()> {
        if self.is_stopped { Err(libc::EIO) } else { Ok(()) }
    }
}

/// Names an operation by its kind, the kind of its file and the thread: RocksDB's threads for flushes and compactions
/// have names of their own.
fn describe(what: &str, name: &str, thread: u32) -> String {
    let kinds = [".log", ".sst", ".dbtmp"];
    let stem = name.split('-').next().unwrap_or(name);
    let kind = kinds.into_iter().find(|kind| name.ends_with(kind)).unwrap_or(stem);
    let thread = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
    match thread.trim() {
        "rocksdb:low" => format!("{what} {kind} (compaction)"),
        "rocksdb:high" => format!("{what} {kind} (flush)"),
        _ => format!("{what} {kind}"),
    }
}

/// The file system that the kernel asks.
struct Server {
    state: Arc<Mutex<State>>,
}

impl Server {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> Done<T>) -> Result<T, Errno> {
        let mut state = self.state.lock().expect("no operation panics");
        work(&mut state).map_err(Errno::from_i32)
    }

    /// Does something that is counted.
    fn counted<T>(
        &self,
        (class, what): (Class, &str),
        node: u64,
        request: &Request,
        work: impl FnOnce(&mut State) -> Done<T>,
    ) -> Result<T, Errno> {
        self.with(|state| {
            state.admit(class, what, node, request.pid())?;
            work(state)
        })
    }
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn length(number: u64) -> usize {
    usize::try_from(number).expect("lengths of files in memory")
}

macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $done:expr) => {
        match $result {
            Ok($value) => $done,
            Err(errno) => $reply.error(errno),
        }
    };
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.with(|state| {
            state.running()?;
            let node = state.disk.find(parent.0, &text(name))?;
            state.attributes(node)
        });
        answer!(reply, found, found => reply.entry(&TTL, &found, Generation(0)));
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        // Also when the power is off: the folder is unmounted then.
        answer!(reply, self.with(|state| state.attributes(node.0)), found => reply.attr(&TTL, &found));
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = match size {
            None => self.with(|state| state.running()),
            Some(size) => self.counted((Class::Rename, "truncate"), node.0, request, |state| {
                state.disk.set_length(node.0, length(size))
            }),
        };
        let set = set.and_then(|()| self.with(|state| state.attributes(node.0)));
        answer!(reply, set, found => reply.attr(&TTL, &found));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = self.counted((Class::Open, "mkdir"), parent.0, request, |state| {
            let node = state.disk.make(parent.0, &text(name), true)?;
            state.attributes(node)
        });
        answer!(reply, made, made => reply.entry(&TTL, &made, Generation(0)));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let node = self.with(|state| state.disk.find(parent.0, &text(name))).unwrap_or_default();
        let done = self.counted((Class::Rename, "unlink"), node, request, |state| {
            state.disk.remove(parent.0, &text(name))
        });
        answer!(reply, done, () => reply.ok());
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let node = self.with(|state| state.disk.find(parent.0, &text(name))).unwrap_or_default();
        let done = self.counted((Class::Rename, "rename"), node, request, |state| {
            if parent != new_parent {
                return Err(libc::EXDEV);
            }
            state.disk.rename(parent.0, &text(name), &text(new_name))
        });
        answer!(reply, done, () => reply.ok());
    }

    fn link(&self, request: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let done = self.counted((Class::Rename, "link"), node.0, request, |state| {
            state.disk.link(node.0, parent.0, &text(name))?;
            state.attributes(node.0)
        });
        answer!(reply, done, found => reply.entry(&TTL, &found, Generation(0)));
    }

    fn open(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let done = self.counted((Class::Open, "open"), node.0, request, |_| Ok(()));
        answer!(reply, done, () => reply.opened(HANDLE, FopenFlags::FOPEN_DIRECT_IO));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        // A new file is on no list yet, and the name decides whether it counts.
        let name = text(name);
        let make = |state: &mut State| {
            let node = state.disk.make(parent.0, &name, false)?;
            state.attributes(node)
        };
        let created = if name.starts_with("LOG") {
            self.with(|state| state.running().and_then(|()| make(state)))
        } else {
            self.counted((Class::Open, "create"), parent.0, request, make)
        };
        answer!(reply, created, found => {
            reply.created(&TTL, &found, Generation(0), HANDLE, FopenFlags::FOPEN_DIRECT_IO);
        });
    }

    fn read(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.counted((Class::Read, "read"), node.0, request, |state| {
            let (name, end) = (state.disk.name_of(node.0), offset + u64::from(size));
            let is_in =
                |(file, span): &(String, Range<u64>)| file == name && span.start < end && span.end > offset;
            if state.bad.iter().any(is_in) {
                return Err(libc::EIO);
            }
            let bytes = state.disk.content(node.0)?.now.get(length(offset)..).unwrap_or_default();
            Ok(bytes.get(..length(size.into())).unwrap_or(bytes).to_vec())
        });
        answer!(reply, read, bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.counted((Class::Write, "write"), node.0, request, |state| {
            state.write(node.0, length(offset), data)
        });
        let count = u32::try_from(data.len()).expect("the kernel's limit is lower");
        answer!(reply, written, () => reply.written(count));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, request: &Request, node: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        let what = if data { "fdatasync" } else { "fsync" };
        let mut reply = Some(reply);
        let synced = self.with(|state| {
            let is_held = match state.hands.holds {
                None => false,
                Some(Held::All) => true,
                Some(Held::OfFlushes) => describe("", "", request.pid()).ends_with("(flush)"),
            };
            if is_held && is_log(state.disk.name_of(node.0)) {
                state.hands.held.extend(reply.take().map(|reply| (node.0, reply)));
                return Ok(());
            }
            let admitted = state.admit(Class::Sync, what, node.0, request.pid());
            if admitted.is_err() && !state.is_stopped {
                state.disk.forget_unsynced(node.0);
            }
            admitted.and_then(|()| state.disk.sync(node.0))
        });
        if let Some(reply) = reply {
            answer!(reply, synced, () => reply.ok());
        }
    }

    fn fsyncdir(&self, request: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced =
            self.counted((Class::Sync, "fsync folder"), node.0, request, |state| state.disk.sync(node.0));
        answer!(reply, synced, () => reply.ok());
    }

    fn readdir(&self, _: &Request, node: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.with(|state| {
            state.running()?;
            let Names { now, .. } = state.disk.names(node.0)?;
            let names: Vec<(String, u64)> = now.iter().map(|(name, node)| (name.clone(), *node)).collect();
            let listed =
                |(name, node): (String, u64)| -> Done<_> { Ok((name, (node, state.attributes(node)?.kind))) };
            names.into_iter().map(listed).collect::<Done<Vec<_>>>()
        });
        let names = match listed {
            Ok(names) => names,
            Err(errno) => return reply.error(errno),
        };
        for (next, (name, (node, kind))) in (1..).zip(names).skip(length(offset)) {
            if reply.add(INodeNo(node), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let plan = self.state.lock().expect("no operation panics").plan;
        let is_full = plan.is_some_and(|plan| matches!(plan.act, Act::Fail { errno: libc::ENOSPC, .. }));
        let free = if is_full { FEW_BLOCKS } else { BLOCKS };
        reply.statfs(BLOCKS, free, free, BLOCKS, BLOCKS, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}

/// A mounted disk. It is unmounted by [`Mounted::end`], or with the process.
pub(crate) struct Mounted {
    state: Arc<Mutex<State>>,
    session: BackgroundSession,
    scratch: Scratch,
}

impl Mounted {
    /// Mounts a disk. `stopped` hears when the power fails.
    pub(crate) fn new(
        image: &Image,
        syncs_names: bool,
        plan: Option<Plan>,
        stopped: Sender<()>,
    ) -> io::Result<Self> {
        let state = State {
            disk: Disk::new(image, syncs_names),
            hands: Hands::default(),
            plan,
            bad: Vec::new(),
            changes: 0,
            counts: [0; Class::ALL.len()],
            met: None,
            stops_at: None,
            is_stopped: false,
            stopped,
        };
        let state = Arc::new(Mutex::new(state));
        let scratch = Scratch::new();
        let mut options = Config::default();
        options.mount_options = vec![MountOption::FSName("cairndb-power".to_owned()), MountOption::NoAtime];
        let session = fuser::spawn_mount(Server { state: Arc::clone(&state) }, scratch.folder(), &options)?;
        Ok(Self { state, session, scratch })
    }

    /// Makes a part of a file one that cannot be read.
    pub(crate) fn spoil(&self, file: &str, part: Range<u64>) {
        self.with(|state| state.bad.push((file.to_owned(), part)));
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().expect("no operation panics"))
    }

    /// Has syncs of logs wait.
    pub(crate) fn hold_logs(&self, held: Held) -> Hold<'_> {
        self.with(|state| state.hands.holds = Some(held));
        Hold { disk: self }
    }

    /// Whether a sync waits.
    pub(crate) fn is_held(&self) -> bool {
        self.with(|state| !state.hands.held.is_empty())
    }

    /// Makes the syncs that wait.
    fn release_logs(&self) {
        self.with(|state| {
            state.hands.holds = None;
            for (node, reply) in std::mem::take(&mut state.hands.held) {
                match state.disk.sync(node) {
                    Ok(()) => reply.ok(),
                    Err(errno) => reply.error(Errno::from_i32(errno)),
                }
            }
        });
    }

    /// Has the next write of a log fail, after half of it.
    pub(crate) fn refuse_log(&self, errno: i32) {
        self.with(|state| state.hands.refuses_log = Some(errno));
    }

    /// Has the `number`th write from now on damage a neighbor, or the first one after it that has such a neighbor.
    pub(crate) fn let_stray(&self, number: u64, neighbor: Neighbor) {
        self.with(|state| state.hands.stray = Some((number, neighbor)));
    }

    /// The file that a write has damaged besides its own part, and where.
    pub(crate) fn strayed(&self) -> Option<(String, usize)> {
        self.with(|state| state.hands.strayed.clone())
    }

    /// The number of writes that were made.
    pub(crate) fn writes(&self) -> u64 {
        self.with(|state| state.counts.get(Class::Write as usize).copied().unwrap_or_default())
    }

    /// Whether the write that was to fail has failed.
    pub(crate) fn has_refused(&self) -> bool {
        self.with(|state| state.hands.refuses_log.is_none())
    }

    /// Has `watch` look at the disk before each change from now on, or nothing any more.
    pub(crate) fn watch(&self, watch: Option<Watch>) {
        self.with(|state| state.hands.watch = watch);
    }

    /// The disk as it is now.
    pub(crate) fn disk(&self) -> Disk {
        self.with(|state| state.disk.clone())
    }

    pub(crate) fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    /// Unmounts the disk, which no process uses any more.
    pub(crate) fn end(self) -> io::Result<State> {
        // A process that another test is starting has copies of this one's open files for a moment.
        let until = Instant::now() + BUSY_MAX;
        while let Err(error) = unmount(self.folder(), UnmountFlags::empty()) {
            if error != rustix::io::Errno::BUSY || Instant::now() > until {
                return Err(error.into());
            }
            std::thread::yield_now();
        }
        match self.session.join() {
            // The connection ended while the server was about to read from it. It is unmounted.
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
            ended => ended?,
        }
        let state = Arc::into_inner(self.state).expect("the server has ended");
        Ok(state.into_inner().expect("no operation panics"))
    }
}

/// Whether the device is missing, or root.
fn lacks_fuse() -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open(DEVICE);
    opened.is_err() || !rustix::process::geteuid().is_root()
}

/// Whether disks can be mounted here. If not, it says so, as the suite's caller expects it.
pub(crate) fn is_possible() -> bool {
    let mounted = Mounted::new(&Image::default(), false, None, std::sync::mpsc::channel().0);
    match mounted.and_then(Mounted::end) {
        Ok(_) => true,
        // If root has the device, nothing else may keep the suite from running.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied || lacks_fuse() => {
            crate::power::say(&format!("skipped: no fuse ({error})"));
            false
        }
        Err(error) => panic!("a disk cannot be mounted, though root has {DEVICE}: {error}"),
    }
}
