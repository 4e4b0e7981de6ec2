//! The gate that every compaction passes before it begins: it waits there until it was looked whether a cursor keeps the tables
//! that compactions replace. If so, and too little room is left for both, compactions pause before the next one can begin.
//!
//! RocksDB says that a compaction begins only by asking for its filter, and it asks before the first file is made.

use std::ffi::CStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::sync::{Condvar, Mutex};
use crossbeam::channel::Sender;
use rocksdb::CompactionDecision;
use rocksdb::compaction_filter::CompactionFilter;
use rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};

/// The longest wait of a compaction. To look needs milliseconds, but the machine may be busy. One that does not wait
/// to the end is held back no less than before there was a gate.
const PATIENCE: Duration = Duration::from_secs(1);
const FILTER_NAME: &CStr = c"cairndb.quota";

/// The gate at which compactions wait before they begin.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    looked: Condvar,
}

#[derive(Default)]
struct State {
    /// Wakes the thread that looks. Absent while there is none: then nothing waits.
    wake: Option<Sender<()>>,
    arrived: u64,
    passed: u64,
}

impl Gate {
    /// From now on compactions wait for a thread, which is woken by `wake`.
    pub(super) fn guard(&self, wake: Sender<()>) {
        self.state.lock().wake = Some(wake);
    }

    /// Lets everything through from now on. Its thread ends by it.
    pub(super) fn leave_open(&self) {
        self.state.lock().wake = None;
        self.looked.notify_all();
    }

    /// The number of compactions that have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.state.lock().arrived
    }

    /// Lets the first `arrived` compactions through.
    pub(super) fn let_pass(&self, arrived: u64) {
        self.state.lock().passed = arrived;
        self.looked.notify_all();
    }

    /// Waits until somebody has looked after this call.
    fn pass(&self) {
        let since = Instant::now();
        let mut state = self.state.lock();
        state.arrived += 1;
        let number = state.arrived;
        if let Some(wake) = &state.wake {
            // No error: a full channel means that the thread has yet to look.
            let _ = wake.try_send(());
        }
        while state.wake.is_some() && state.passed < number && since.elapsed() < PATIENCE {
            self.looked.wait_for(&mut state, PATIENCE);
        }
    }
}

/// Makes a filter for each compaction, after it has passed the gate.
pub(crate) struct AtTheGate(pub Arc<Gate>);

impl CompactionFilterFactory for AtTheGate {
    type Filter = KeepsAll;

    fn create(&mut self, _: CompactionFilterContext) -> KeepsAll {
        self.0.pass();
        KeepsAll
    }

    fn name(&self) -> &CStr {
        FILTER_NAME
    }
}

/// A filter that removes nothing.
pub(crate) struct KeepsAll;

impl CompactionFilter for KeepsAll {
    fn filter(&mut self, _: u32, _: &[u8], _: &[u8]) -> CompactionDecision {
        CompactionDecision::Keep
    }

    fn name(&self) -> &CStr {
        FILTER_NAME
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use crossbeam::channel::bounded;

    use super::*;

    #[test]
    fn who_arrives_passes_after_somebody_has_looked_and_not_before() {
        let gate = Arc::new(Gate::default());
        let (wake, woken) = bounded(1);
        gate.guard(wake);
        let (let_through, passes) = mpsc::channel();
        let compaction = thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                gate.pass();
                let_through.send(()).expect("somebody listens");
            }
        });
        woken.recv().expect("it wakes who looks");
        // A look that began before it had arrived is not for it.
        gate.let_pass(0);
        assert!(passes.try_recv().is_err());
        assert_eq!(gate.arrived(), 1);
        gate.let_pass(1);
        passes.recv().expect("it was let through");
        compaction.join().expect("no panic");
    }

    #[test]
    fn nobody_waits_at_a_gate_that_is_left_open() {
        let gate = Arc::new(Gate::default());
        gate.pass();
        let (wake, woken) = bounded(1);
        gate.guard(wake);
        let compaction = thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.pass()
        });
        woken.recv().expect("it wakes who looks");
        gate.leave_open();
        compaction.join().expect("no panic");
        assert!(woken.recv().is_err(), "who looks ends");
    }
}
