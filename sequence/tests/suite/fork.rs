//! A forked child and its parent never make the same id.
#![cfg(unix)]

use std::collections::HashSet;
use std::io::{Read, Write};

use cairndb_sequence::clock::Clock;
use cairndb_sequence::generator::Generator;
use cairndb_sequence::object_id::{Layout, OBJECT_ID_BYTES, ObjectId};

const IDS: usize = 1_000;

/// A clock that stands still, so that parent and child count through the same numbers.
struct StoppedClock;

impl Clock for StoppedClock {
    fn seconds(&self) -> u64 {
        1_700_000_000
    }
}

/// Forks, makes ids on both sides and returns the parent's and the child's.
#[expect(unsafe_code, reason = "the standard library cannot fork")]
fn fork_and_generate(generator: &Generator) -> (Vec<ObjectId>, Vec<ObjectId>) {
    let (mut receiver, mut sender) = std::io::pipe().expect("a pipe");
    // SAFETY: the child only makes ids into a buffer it already has, writes them to the pipe and leaves by
    // `_exit`, so that it neither unwinds into the test harness nor runs its exit handlers.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        let mut bytes = [0_u8; IDS * OBJECT_ID_BYTES];
        for place in bytes.chunks_exact_mut(OBJECT_ID_BYTES) {
            place.copy_from_slice(&generator.generate().bytes());
        }
        let status = i32::from(sender.write_all(&bytes).is_err());
        // SAFETY: `_exit` ends the child at once and has no precondition.
        unsafe { libc::_exit(status) };
    }
    drop(sender);
    let parents = (0..IDS).map(|_| generator.generate()).collect::<Vec<_>>();
    let mut bytes = Vec::new();
    receiver.read_to_end(&mut bytes).expect("the child's ids");
    let mut status = 0;
    // SAFETY: `status` outlives the call, and `child` is a child of this process that no other code waits
    // for.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((ended, status), (child, 0));
    let children = bytes
        .chunks_exact(OBJECT_ID_BYTES)
        .map(|id| ObjectId::from_bytes(id.try_into().expect("a whole id")))
        .collect();
    (parents, children)
}

#[track_caller]
fn check(generator: &Generator) {
    let before = generator.generate();
    let (parents, children) = fork_and_generate(generator);
    assert_eq!((parents.len(), children.len()), (IDS, IDS));
    for ids in [&parents, &children] {
        assert!(ids.is_sorted_by(|a, b| a < b));
    }
    assert!(parents.iter().all(|id| id.origin() == before.origin()));
    assert!(children.iter().all(|id| id.origin() != before.origin()));
    let distinct = parents.iter().chain(&children).chain([&before]).collect::<HashSet<_>>();
    assert_eq!(distinct.len(), 2 * IDS + 1);
    let (_, siblings) = fork_and_generate(generator);
    assert!(siblings.iter().all(|id| id.origin() != before.origin()));
    assert!(siblings.iter().zip(&children).all(|(id, other)| id.origin() != other.origin()));
}

#[test]
fn a_child_has_its_own_process_bytes() {
    check(&Generator::with_clock(Layout::MachineProcess, StoppedClock));
}

#[test]
fn a_child_has_its_own_random_bytes() {
    check(&Generator::with_clock(Layout::Random, StoppedClock));
}

#[test]
fn a_child_leaves_the_series_of_the_process() {
    check(&Generator::new(Layout::MachineProcess));
}
