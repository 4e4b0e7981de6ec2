//! Detects that this process is a fork of the one that set things up.
//!
//! Asking for the process id costs a system call, which is too much for every id. Instead the C library calls
//! `count_fork` in each new child before `fork` returns there, and the test is one load. A child made by a
//! `clone` system call without the C library is not detected.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Whether the C library reports forks.
static WATCHED: LazyLock<bool> = LazyLock::new(watch);

/// The process in which something was made. A forked child is another process, although it has a copy.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    watch: ForkWatch,
    generation: u32,
}

impl Process {
    /// The process of the caller.
    pub fn current() -> Self {
        let watch = ForkWatch::start();
        Self { watch, generation: watch.generation() }
    }

    /// Whether the caller is still in this process, and not in a fork of it.
    #[inline]
    pub fn is_current(self) -> bool {
        self.watch.generation() == self.generation
    }
}

/// A number that differs between this process and every process that it was forked from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForkWatch {
    watched: bool,
}

impl ForkWatch {
    /// Starts to watch for forks. Later calls only return the result of the first.
    pub(crate) fn start() -> ForkWatch {
        ForkWatch { watched: *WATCHED }
    }

    /// The generation of this process: the number of forks before it, or its process id if forks are not
    /// counted.
    #[inline]
    pub(crate) fn generation(self) -> u32 {
        // Relaxed: the count changes only before `fork` returns in the child, whose one thread made the
        // change itself.
        if self.watched { FORKS.load(Ordering::Relaxed) } else { unwatched_generation() }
    }
}

#[cfg(all(unix, not(miri)))]
#[expect(unsafe_code, reason = "the standard library has no way to run code in a forked child")]
fn watch() -> bool {
    extern "C" fn count_fork() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: `pthread_atfork` keeps the function pointer for the life of the process, and `count_fork` is a
    // function of this binary, so it lives as long. In a child of a threaded program only async-signal-safe
    // work is allowed: it adds to one lock-free atomic, allocates nothing and cannot unwind.
    unsafe { libc::pthread_atfork(None, None, Some(count_fork)) == 0 }
}

#[cfg(any(not(unix), miri))]
fn watch() -> bool {
    // Without `fork` the count stays zero, and every test finds the process current.
    true
}

/// The process id, for the case that the C library had no memory for the registration: slower, but as safe.
#[cold]
fn unwatched_generation() -> u32 {
    std::process::id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_stands_still_without_a_fork() {
        let watch = ForkWatch::start();
        assert_eq!(watch.generation(), ForkWatch::start().generation());
    }

    #[test]
    fn a_process_is_itself() {
        assert!(Process::current().is_current());
    }

    #[test]
    fn an_unwatched_process_falls_back_to_its_id() {
        assert_eq!(ForkWatch { watched: false }.generation(), std::process::id());
    }
}
