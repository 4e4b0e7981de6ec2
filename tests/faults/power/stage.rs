//! A database that is open in this process on a disk of the suite's, with writers side by side and a journal of what they were
//! answered. What is on the disk at a moment, and what was acknowledged by then, can be judged later.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cairndb::{Client, ClientBuilder, Durability, Error, WriteConcern};
use cairndb_tests::files::is_log;
use cairndb_tests::journal::Record;
use cairndb_tests::power::is_journaled;
use cairndb_tests::race::race;
use cairndb_tests::scratch::small;
use cairndb_tests::workload;

use crate::power::disk::{Aftermath, Disk, Image};
use crate::power::life::Level;
use crate::power::mount::Mounted;

pub(crate) const WRITERS: u64 = 3;
/// Inserts of each writer between two steps of a case.
pub(crate) const INSERTS: u64 = 4;

/// The event that an insert waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Nothing,
    HandingOver,
    Sync,
}

/// A database that is open on a disk, with the journal of its writers.
pub(crate) struct Stage {
    pub(crate) disk: Mounted,
    pub(crate) client: Client,
    pub(crate) level: Level,
    journal: Arc<Mutex<Vec<Record>>>,
    next_tag: AtomicU64,
    /// Whether inserts are acknowledged before they are made, as a control.
    pub(crate) acknowledges_first: bool,
}

/// The content of a disk at a moment, and the operations that were acknowledged by then.
pub(crate) struct Moment {
    pub(crate) disk: Disk,
    pub(crate) acknowledged: Vec<Record>,
}

fn options(level: Level) -> ClientBuilder {
    // Long intervals: nothing is synced or handed over that nothing asks for.
    let long = Duration::from_secs(1);
    small().durability(match level {
        Level::Delayed | Level::HandedOver => {
            Durability::Delayed { write_interval: long, sync_interval: long }
        }
        Level::Buffered => Durability::Buffered { sync_interval: long },
        Level::Journaled => Durability::Journaled,
    })
}

impl Stage {
    /// With documents that are on stable storage, some of them because a sync says so.
    pub(crate) fn open(level: Level) -> Self {
        let disk = Mounted::new(&Image::default(), false, None, std::sync::mpsc::channel().0);
        let disk = disk.expect("mounted");
        let client = options(level).open(disk.folder().join("db")).expect("opened");
        let tagged = workload::tagged(&client);
        tagged.create_index(workload::unique_index()).run().expect("made");
        let (journal, next_tag) = (Arc::default(), AtomicU64::new(1));
        let stage = Self { disk, client, level, journal, next_tag, acknowledges_first: false };
        let asks = [Asks::Nothing, Asks::HandingOver, Asks::Sync];
        race(asks, |asks| stage.insert(asks).expect("stored"));
        stage.tell(Record::SyncBegun { number: 0 });
        stage.client.sync().expect("synced");
        stage.tell(Record::SyncDone { number: 0 });
        stage
    }

    fn tell(&self, record: Record) {
        self.journal.lock().expect("no writer panics").push(record);
    }

    /// Inserts one document, which waits for what it asks for.
    pub(crate) fn insert(&self, asks: Asks) -> Result<(), Error> {
        let is_synced = asks == Asks::Sync || self.level == Level::Journaled;
        let tag = loop {
            let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
            // The oracle knows by the tag what was asked for.
            if is_journaled(tag, 1) == is_synced {
                break tag;
            }
        };
        let concern = match asks {
            _ if is_synced => WriteConcern::journaled(),
            Asks::Nothing if self.level != Level::HandedOver => WriteConcern::default(),
            Asks::Nothing | Asks::HandingOver | Asks::Sync => WriteConcern::buffered(),
        };
        self.tell(Record::Begun { tag, version: 1 });
        if self.acknowledges_first {
            self.tell(Record::Done { tag, version: 1 });
        }
        let tagged = workload::tagged(&self.client);
        tagged.insert_one(workload::document(tag, 1)).write_concern(concern).run()?;
        self.tell(Record::Done { tag, version: 1 });
        Ok(())
    }

    /// Each writer inserts some documents that wait for no sync.
    pub(crate) fn insert_side_by_side(&self) {
        race(0..WRITERS, |_| (0..INSERTS).for_each(|_| self.insert(Asks::Nothing).expect("stored")));
        // Writes in memory are written with it.
        self.insert(Asks::HandingOver).expect("stored");
    }

    pub(crate) fn newest_log(&self) -> String {
        newest_log(&self.disk.disk())
    }

    pub(crate) fn moment(&self) -> Moment {
        // The acknowledgements first: what they cover is on the disk by then.
        let acknowledged = self.journal.lock().expect("no writer panics").clone();
        Moment { disk: self.disk.disk(), acknowledged }
    }

    /// Collects the moments before all changes of the disk from now on.
    pub(crate) fn watch(&self) -> Arc<Mutex<Vec<Moment>>> {
        let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
        let (seen, journal) = (Arc::clone(&moments), Arc::clone(&self.journal));
        self.disk.watch(Some(Box::new(move |disk| {
            let acknowledged = journal.lock().expect("no writer panics").clone();
            seen.lock().expect("no watch panics").push(Moment { disk: disk.clone(), acknowledged });
        })));
        moments
    }

    /// Closes the database, and returns what is on the disk, with what was acknowledged. That it was closed is part of it, if it
    /// could be.
    pub(crate) fn close(self) -> (Disk, Vec<Record>) {
        let Self { disk, client, journal, .. } = self;
        let closed = client.close();
        let mut records = journal.lock().expect("no writer panics").clone();
        if closed.is_ok() {
            records.push(Record::Closed);
        }
        (disk.end().expect("unmounted").disk, records)
    }

    /// Closes the database, whatever it says, and unmounts the disk.
    pub(crate) fn end(self) {
        self.disk.watch(None);
        // A store that met a fault may say so here too; what it leaves is judged.
        let _ = self.client.close();
        self.disk.end().expect("unmounted");
    }
}

fn newest_log(disk: &Disk) -> String {
    let image = disk.left(&Aftermath::Killed);
    let names = image.entries.keys().filter_map(|path| path.file_name()?.to_str());
    names.filter(|name| is_log(name)).max().expect("the database has a log").to_owned()
}
