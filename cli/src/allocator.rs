//! The memory of the process, and how it is given back to the system.

#![allow(unsafe_code, reason = "a setting of the C library is a foreign call")]

/// Has the C library allocate blocks of a MiB and more from the system one by one, and give each back when it is freed.
///
/// By itself glibc raises that size, up to 32 MiB, with each block that is freed (`mallopt(3)`, "dynamic mmap
/// threshold"), and keeps what is smaller in a heap whose holes fit no other size. A command that works on one
/// large document after the other then has twice the memory that it uses.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn return_large_blocks() {
    // SAFETY: the call gets two numbers, and no other thread runs yet. It fails for sizes above 32 MiB only.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
}

/// Other libraries give large blocks back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_large_blocks() {}

/// Gives the free pages of all heaps back to the system.
///
/// By itself glibc gives back what is free at the end of a heap alone (`malloc_trim(3)`): a few blocks that are used keep all
/// that was freed before them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back() {
    // SAFETY: the call gets a number and locks each heap while it looks at it.
    unsafe { libc::malloc_trim(0) };
}

/// Other libraries give free pages back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
