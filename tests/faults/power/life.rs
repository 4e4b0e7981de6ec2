//! One life of a database: a disk is mounted, a child writes to it until the power fails or its work is done, and what
//! the disk then has is judged.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairndb_tests::choices::Choices;
use cairndb_tests::journal::Record;
use cairndb_tests::scratch::{Scratch, small};

use crate::power::disk::{Aftermath, Image};
use crate::power::mount::{Mounted, Plan, State};
use crate::power::oracle::Oracle;

/// No life is so long, busy machine or not: a child that still runs then hangs.
const LIFE_MAX: Duration = Duration::from_secs(120);

/// The meaning of a child's acknowledgements, but for those that ask for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The write is in the memory of the child.
    Delayed,
    /// The operating system has the write, of a store that would leave it in memory.
    HandedOver,
    /// The operating system has the write.
    Buffered,
    Journaled,
}

impl Level {
    pub(crate) const ALL: [Self; 4] = [Self::Delayed, Self::HandedOver, Self::Buffered, Self::Journaled];

    /// All levels come round in turn.
    pub(crate) fn of(number: u64) -> Self {
        let [delayed, handed_over, buffered, journaled] = Self::ALL;
        match number % 4 {
            0 => delayed,
            1 => handed_over,
            2 => buffered,
            _ => journaled,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::HandedOver => "handed-over",
            Self::Buffered => "buffered",
            Self::Journaled => "journaled",
        }
    }

    /// Whether what was acknowledged outlives the child.
    pub(crate) fn outlives_process(self) -> bool {
        self != Self::Delayed
    }

    /// Whether the store goes on when a full disk has room again.
    pub(crate) fn heals(self) -> bool {
        !matches!(self, Self::Delayed | Self::HandedOver)
    }
}

/// The action of a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) seed: u64,
    /// Its number in the folder, from 1.
    pub(crate) life: u64,
    pub(crate) threads: u64,
    /// Of each thread.
    pub(crate) operations: u64,
    pub(crate) level: Level,
    /// Only values are drawn, nothing asks for a sync, and after this number of values the child is killed.
    pub(crate) values: Option<u64>,
    /// The fault that is planted in it.
    pub(crate) fault: &'static str,
}

impl Task {
    pub(crate) fn small(choices: &mut Choices) -> Self {
        let (seed, level) = (choices.number(), *choices.pick(&Level::ALL));
        Self { seed, life: 1, threads: 3, operations: 14, level, values: None, fault: "none" }
    }

    /// An oracle for a disk whose power fails.
    pub(crate) fn oracle(&self) -> Oracle {
        self.judging(self.level == Level::Journaled)
    }

    /// An oracle for a process that ends while its machine goes on.
    pub(crate) fn oracle_of_process(&self) -> Oracle {
        self.judging(self.level.outlives_process())
    }

    fn judging(&self, all_journaled: bool) -> Oracle {
        let oracle = Oracle::new(all_journaled);
        // A child opens the folder again when it was rejected.
        if self.level.outlives_process() { oracle } else { oracle.forgetting_at_opening() }
    }
}

/// A life that is over.
pub(crate) struct Lived {
    pub(crate) records: Vec<Record>,
    pub(crate) state: State,
    /// The output of the child on standard error.
    pub(crate) said: String,
}

/// Lets a child live on a disk with these files.
pub(crate) fn live(image: &Image, task: &Task, plan: Option<Plan>) -> Result<Lived, String> {
    let text = |error: io::Error| error.to_string();
    let (stopped, has_stopped) = channel();
    let ended = stopped.clone();
    // Half of the disks make a file's name durable with the file.
    let mounted = Mounted::new(image, task.seed % 2 == 1, plan, stopped).map_err(text)?;
    let notes = Scratch::new();
    let said = notes.folder().join("said");
    let mut child = start(&mounted, task, File::create(&said).map_err(text)?).map_err(text)?;
    let pipe = child.stdout.take().expect("standard output is a pipe");
    // The end of the journal is the end of the child.
    let journal = read_journal(pipe, task.values, move || {
        // No error: the receiver is gone if the life is over.
        let _ = ended.send(());
    });
    let in_time = has_stopped.recv_timeout(LIFE_MAX);
    child.kill().map_err(text)?;
    let status = child.wait().map_err(text)?;
    let records = journal.join().expect("the reader does not panic").map_err(text)?;
    let state = mounted.end().map_err(|error| format!("the disk cannot be unmounted: {error}"))?;
    let lived = Lived { records, state, said: fs::read_to_string(said).unwrap_or_default() };
    if in_time == Err(RecvTimeoutError::Timeout) {
        return Err(lived.blame("the child hangs"));
    }
    lived.check_end(status)?;
    Ok(lived)
}

fn start(mounted: &Mounted, task: &Task, said: File) -> io::Result<Child> {
    let Task { seed, life, threads, operations, level, values, fault } = task;
    let level = if values.is_some() { "values" } else { level.name() };
    Command::new(env!("CARGO_BIN_EXE_child"))
        .args(["power", &mounted.folder().join("db").to_string_lossy()])
        .args([seed, life, threads, operations].map(u64::to_string))
        .args([level, fault])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(said))
        .spawn()
}

fn read_journal(
    pipe: ChildStdout,
    values: Option<u64>,
    at_end: impl Fn() + Send + 'static,
) -> JoinHandle<io::Result<Vec<Record>>> {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let (mut records, mut taken) = (Vec::new(), 0);
        let read = loop {
            if matches!(records.last(), Some(Record::Taken { .. })) {
                taken += 1;
                if values == Some(taken) {
                    at_end();
                }
            }
            match Record::read_from(&mut pipe) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break Ok(records),
                Err(error) => break Err(error),
            }
        };
        at_end();
        read
    })
}

impl Lived {
    /// A child may be killed by us, and by nothing else.
    fn check_end(&self, status: ExitStatus) -> Result<(), String> {
        use std::os::unix::process::ExitStatusExt;

        if status.success() || status.signal() == Some(libc::SIGKILL) {
            return Ok(());
        }
        // With the power off there is no right answer any more.
        if self.state.is_stopped && status.code().is_some() {
            return Ok(());
        }
        Err(self.blame(&format!("the child ended: {status}")))
    }

    pub(crate) fn blame(&self, fault: &str) -> String {
        let met = self.state.met.as_deref().unwrap_or("no operation");
        format!("{fault}; met at {met}; {}", self.said.trim())
    }

    /// Lets the oracle hear what was acknowledged, and judge what is left.
    pub(crate) fn judge(&self, oracle: &mut Oracle, aftermath: &Aftermath) -> Result<Image, String> {
        for record in &self.records {
            // A fault that a child meets once the power is off is none.
            if *record != Record::Fault || !self.state.is_stopped {
                oracle.hear(*record).map_err(|fault| self.blame(&fault))?;
            }
        }
        let image = self.state.disk.left(aftermath);
        judge(oracle, &image).map_err(|fault| self.blame(&format!("{fault}; {aftermath:?}")))?;
        Ok(image)
    }
}

/// Opens a copy of what is left, and audits it.
pub(crate) fn judge(oracle: &mut Oracle, image: &Image) -> Result<(), String> {
    let scratch = Scratch::new();
    image.write_to(scratch.folder()).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let client =
        small().open(scratch.path()).map_err(|error| format!("the folder does not open: {error:?}"))?;
    oracle.audit(&client)?;
    // What this writes goes with the copy.
    oracle.repeat(&client)?;
    client.close().map_err(|error| format!("the folder does not close: {error:?}"))?;
    if started.elapsed() > LIFE_MAX {
        return Err("opening, reading and closing took minutes".to_owned());
    }
    Ok(())
}
