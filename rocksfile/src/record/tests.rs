//! Logs are written as RocksDB writes them, damaged, and read.

use std::io::Cursor;

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::{collection::vec, prop_oneof};

use super::*;
use crate::log::{BLOCK_BYTES, HEADER_BYTES, RECYCLABLE_HEADER_BYTES, stored_checksum};

const LOG: u64 = 12;

/// A record with its bytes.
type Whole = (Record, Vec<u8>);

/// A log as RocksDB's writer makes it.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    recycled: bool,
}

impl Written {
    fn of(records: &[Vec<u8>]) -> Self {
        let mut log = Self::default();
        for record in records {
            log.add(record);
        }
        log
    }

    fn add(&mut self, record: &[u8]) {
        let header = if self.recycled { RECYCLABLE_HEADER_BYTES } else { HEADER_BYTES };
        let mut left = record;
        let mut first = true;
        while first || !left.is_empty() {
            let room = BLOCK_BYTES - self.bytes.len() % BLOCK_BYTES;
            if room < header {
                self.bytes.extend(vec![0; room]);
                continue;
            }
            let (payload, rest) = left.split_at(left.len().min(room - header));
            let kind = match (first, rest.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            self.fragment(kind, payload);
            (left, first) = (rest, false);
        }
    }

    fn fragment(&mut self, kind: u8, payload: &[u8]) {
        let mut covered = vec![if self.recycled { kind + 4 } else { kind }];
        if self.recycled {
            covered.extend_from_slice(&u32::try_from(LOG).expect("small").to_le_bytes());
        }
        covered.extend_from_slice(payload);
        let length = u16::try_from(payload.len()).expect("a block is shorter").to_le_bytes();
        self.bytes.extend(stored_checksum(&covered).to_le_bytes().into_iter().chain(length).chain(covered));
    }
}

/// Everything that is read: the records with where they begin, and the first fault.
fn read(bytes: &[u8]) -> (Vec<Whole>, Option<(u64, Fault)>) {
    let mut records = Records::new(Cursor::new(bytes), LOG, usize::MAX);
    let (mut whole, mut first) = (Vec::new(), None);
    // A step needs at least one byte, or is the end.
    for _ in 0..=2 * bytes.len() + 2 {
        match records.step().expect("memory can be read") {
            Step::Record(record) => whole.push((record, records.front().to_vec())),
            Step::Fault(offset, fault) => first = first.or(Some((offset, fault))),
            Step::End => {
                assert_eq!(records.offset(), bytes.len() as u64);
                return (whole, first);
            }
        }
    }
    panic!("reading {} bytes does not end", bytes.len());
}

fn payloads(whole: &[Whole]) -> Vec<Vec<u8>> {
    whole.iter().map(|(_, bytes)| bytes.clone()).collect()
}

/// Records of all sizes around those of a block.
fn some_records() -> Vec<Vec<u8>> {
    [0, 1, 100, BLOCK_BYTES - 300, 5, 40_000, 200, 3 * BLOCK_BYTES, 17]
        .into_iter()
        .enumerate()
        .map(|(number, length)| vec![u8::try_from(number).expect("few") + b'a'; length])
        .collect()
}

#[track_caller]
fn check(bytes: &[u8], expected_records: usize, expected_fault: Option<(u64, Fault)>) {
    let (whole, fault) = read(bytes);
    assert_eq!((whole.len(), fault), (expected_records, expected_fault));
}

#[test]
fn a_log_is_read_as_it_was_written() {
    for recycled in [false, true] {
        let mut log = Written { recycled, ..Written::default() };
        for record in some_records() {
            log.add(&record);
        }
        let (whole, fault) = read(&log.bytes);
        assert_eq!((payloads(&whole), fault), (some_records(), None));
    }
}

#[test]
fn only_the_front_of_a_record_is_kept() {
    let log = Written::of(&some_records());
    let mut records = Records::new(&log.bytes[..], LOG, 3);
    let mut fronts = Vec::new();
    while let Step::Record(record) = records.step().expect("read") {
        fronts.push((record.bytes, records.front().len()));
    }
    let expected: Vec<(u64, usize)> =
        some_records().iter().map(|record| (record.len() as u64, record.len().min(3))).collect();
    assert_eq!(fronts, expected);
}

#[test]
fn an_empty_file_holds_nothing() {
    check(&[], 0, None);
}

#[test]
fn a_log_that_ends_early_says_where() {
    let log = Written::of(&[vec![1; 10], vec![2; 10]]).bytes;
    let second = (HEADER_BYTES + 10) as u64;
    check(&log[..log.len() - 1], 1, Some((second, Fault::PayloadCut)));
    check(&log[..HEADER_BYTES + 10 + 6], 1, Some((second, Fault::HeaderCut)));
    check(&log[..HEADER_BYTES + 10], 1, None);
    let of_blocks = Written::of(&[vec![1; 10], vec![2; 2 * BLOCK_BYTES]]).bytes;
    check(&of_blocks[..BLOCK_BYTES], 1, Some((second, Fault::Unfinished)));
}

#[test]
fn records_after_damage_are_found_and_say_so() {
    let mut log = Written::of(&[vec![1; 10], vec![2; 10], vec![3; 10], vec![4; 10]]).bytes;
    log[HEADER_BYTES + 10 + 8] ^= 1;
    let (whole, fault) = read(&log);
    assert_eq!(fault, Some((17, Fault::Checksum)));
    assert_eq!(payloads(&whole), [vec![1; 10], vec![3; 10], vec![4; 10]]);
    assert_eq!(whole.iter().map(|(record, _)| record.after_fault).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn the_next_block_is_found_after_a_length_that_reaches_beyond_its_own() {
    let mut log = Written::of(&[vec![1; 10], vec![2; BLOCK_BYTES], vec![3; 10]]).bytes;
    log[HEADER_BYTES + 10 + 5] = 0xff;
    let (whole, fault) = read(&log);
    assert_eq!(fault, Some((17, Fault::Length)));
    assert_eq!(payloads(&whole), [vec![1; 10], vec![3; 10]]);
}

#[test]
fn zeros_in_the_middle_are_a_fault() {
    let mut log = Written::of(&[vec![1; 10], vec![2; 5000], vec![3; 10]]).bytes;
    log[17..17 + 4096].fill(0);
    check(&log, 2, Some((17, Fault::Zeros)));
}

#[test]
fn records_of_another_kind_are_faults_or_passed_by() {
    let with = |kind| {
        let mut log = Written::of(&[vec![1; 10]]);
        log.fragment(kind, b"what");
        log.add(&[2; 10]);
        log.bytes
    };
    check(&with(12), 2, Some((17, Fault::Kind(12))));
    check(&with(0), 2, Some((17, Fault::Kind(0))));
    check(&with(4), 2, Some((17, Fault::Headless)));
    check(&with(9), 2, Some((17, Fault::Compressed)));
    check(&with(2), 2, Some((17, Fault::Unfinished)));
    check(&with(10), 2, None);
    check(&with(130), 2, None);
    // RocksDB passes by what it does not know if it is asked to by the kind's high bit.
    check(&with(200), 2, None);
}

/// RocksDB's reader returns to such a record for ever, once it has read one that is whole. One flipped bit
/// makes it.
#[test]
fn a_recycled_kind_in_a_plain_log_is_a_trap() {
    for kind in [5, 6, 7, 8, 11, 131] {
        let mut log = Written::of(&[vec![1; 10], vec![2; 20]]).bytes;
        log[HEADER_BYTES + 10 + 6] = kind;
        let mut records = Records::new(&log[..], LOG, 64);
        assert!(matches!(records.step().expect("read"), Step::Record(_)));
        assert_eq!(records.step().expect("read"), Step::Fault(17, Fault::Recycled), "{kind}");
        assert!(records.traps_rocksdb());
        assert_eq!(records.whole_until(), 17);
    }
}

#[test]
fn a_trap_at_the_start_of_a_block_is_seen_while_searching() {
    let mut log = Written::of(&[vec![1; 10], vec![2; 2 * BLOCK_BYTES]]).bytes;
    log[20] ^= 1;
    log[BLOCK_BYTES + 6] = 7;
    let mut records = Records::new(&log[..], LOG, 64);
    while records.step().expect("read") != Step::End {}
    assert!(records.traps_rocksdb());
}

#[test]
fn a_log_of_another_number_is_no_record_of_a_recycled_one() {
    let mut log = Written { recycled: true, ..Written::default() };
    log.add(&[1; 10]);
    let mut records = Records::new(&log.bytes[..], LOG + 1, 64);
    assert_eq!(records.step().expect("read"), Step::Fault(0, Fault::OtherLog));
}

/// Every offset of these bytes looks like a header whose fragment nearly fills the block; without a bound
/// each block would be summed up some thirty thousand times.
#[test]
fn bytes_that_look_like_headers_everywhere_do_not_slow_the_search() {
    let bytes = vec![1; 80 * BLOCK_BYTES];
    let mut records = Records::new(Cursor::new(&bytes), LOG, 64);
    assert_eq!(records.step().expect("read"), Step::Fault(0, Fault::Checksum));
    assert_eq!(records.step().expect("read"), Step::End);
    assert_eq!(records.fragments.search_bytes_left(), 0);
}

#[test]
fn every_flipped_bit_is_noticed_or_harmless() {
    let written = [vec![1; 10], vec![2; 60], vec![3; 10], vec![]];
    let log = Written::of(&written).bytes;
    for bit in 0..8 * log.len() {
        let mut damaged = log.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (whole, fault) = read(&damaged);
        assert!(fault.is_some(), "bit {bit}");
        assert!(payloads(&whole).iter().all(|record| written.contains(record)), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_their_end(bytes in vec(prop_oneof![0..12_u8, any::<u8>()], 0..1500)) {
        read(&bytes);
    }

    #[test]
    fn any_records_are_read_as_they_were_written(lengths in vec(0..70_000_usize, 0..12)) {
        let records: Vec<Vec<u8>> = lengths.iter().map(|length| vec![7; *length]).collect();
        let (whole, fault) = read(&Written::of(&records).bytes);
        prop_assert_eq!(payloads(&whole), records);
        prop_assert!(fault.is_none());
    }

    #[test]
    fn a_cut_leaves_the_records_before_it(lengths in vec(0..20_000_usize, 1..8), cut in any::<proptest::sample::Index>()) {
        let records: Vec<Vec<u8>> = lengths.iter().map(|length| vec![7; *length]).collect();
        let log = Written::of(&records).bytes;
        let cut = cut.index(log.len() + 1);
        let (whole, _) = read(&log[..cut]);
        let ends: usize = read(&log).0.iter().filter(|(record, _)| record.end <= cut as u64).count();
        prop_assert_eq!(whole.len(), ends);
    }
}
