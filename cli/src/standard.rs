//! Whether standard input and standard output were open when the process began. Before `main` the standard library puts
//! `/dev/null` in place of what is closed, and then nothing distinguishes a closed output from one that was not wanted.

#![allow(unsafe_code, reason = "what runs before `main` is named to the linker, and asks the C library")]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Exit, Failure};

static INPUT_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the loader before the standard library starts.
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for (descriptor, is_closed) in
        [(libc::STDIN_FILENO, &INPUT_CLOSED), (libc::STDOUT_FILENO, &OUTPUT_CLOSED)]
    {
        // SAFETY: the call gets two numbers, and fails for a descriptor that is not open.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        is_closed.store(flags == -1, Ordering::Relaxed);
    }
}

pub(crate) fn was_input_closed() -> bool {
    INPUT_CLOSED.load(Ordering::Relaxed)
}

/// Rejects a standard output that was closed: what is written there would be lost without a word.
pub(crate) fn check_output() -> Result<(), Failure> {
    if OUTPUT_CLOSED.load(Ordering::Relaxed) {
        return Err(Failure::new(
            Exit::Failed,
            "standard output is closed, and what was asked for would be lost: redirect it, if only to /dev/null",
        ));
    }
    Ok(())
}
