//! Whatever bytes a log or a MANIFEST of RocksDB has: reading ends, neither panics nor takes memory out of proportion, and
//! gives only records whose checksum fits. Records that were written come back, and a flipped bit is noticed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rocksfile::batch::Batch;
use rocksfile::log::stored_checksum;
use rocksfile::manifest::Manifest;
use rocksfile::names::FileName;
use rocksfile::record::{Records, Step};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => read_any(rest),
        1 => read_damaged(rest),
        2 => read_manifest(&written(rest)),
        _ => read_manifest(rest),
    }
    if let Some(number) = FileName::parse_current(rest) {
        assert_eq!(format!("{}\n", FileName::Manifest(number)).as_bytes(), rest);
    }
});

/// Where records begin, and the first fault.
fn read(bytes: &[u8]) -> (Vec<u64>, Option<u64>) {
    let mut records = Records::new(bytes, 12, 64);
    let (mut offsets, mut fault) = (Vec::new(), None);
    for _ in 0..=2 * bytes.len() + 2 {
        match records.step().expect("memory can be read") {
            Step::Record(record) => {
                assert!(record.offset < record.end && record.end <= bytes.len() as u64);
                assert_eq!(record.after_fault, fault.is_some());
                if let Some(batch) = Batch::parse(records.front()) {
                    assert!(batch.next_sequence() >= batch.sequence);
                    assert!(batch.notes().map(|note| note.len() + 1).sum::<usize>() <= records.front().len());
                }
                offsets.push(record.offset);
            }
            Step::Fault(offset, _) => fault = fault.or(Some(offset)),
            Step::End => return (offsets, fault),
        }
    }
    panic!("reading does not end");
}

fn read_any(bytes: &[u8]) {
    let (offsets, _) = read(bytes);
    assert!(offsets.is_sorted());
}

/// Records with right checksums: each byte of the input that is zero ends one.
fn written(bytes: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    for payload in bytes.split(|byte| *byte == 0) {
        let covered = [&[1], payload].concat();
        log.extend_from_slice(&stored_checksum(&covered).to_le_bytes());
        log.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        log.extend_from_slice(&covered);
    }
    log
}

fn read_damaged(bytes: &[u8]) {
    let Some((at, payloads)) = bytes.split_first_chunk::<4>() else { return };
    // One block is enough: what a record's parts are is not the question here.
    let mut log = written(payloads.get(..2000).unwrap_or(payloads));
    let (whole, fault) = read(&log);
    assert_eq!(
        (whole.len(), fault),
        (payloads.get(..2000).unwrap_or(payloads).split(|byte| *byte == 0).count(), None)
    );
    let at = u32::from_le_bytes(*at) as usize % (8 * log.len());
    log[at / 8] ^= 1 << (at % 8);
    let (left, fault) = read(&log);
    let fault = fault.expect("a flipped bit is noticed");
    let before = whole.iter().take_while(|offset| **offset < fault).count();
    assert_eq!(left.get(..before), whole.get(..before));
    assert!(fault <= (at / 8) as u64);
}

fn read_manifest(bytes: &[u8]) {
    let reading = Manifest::read(bytes, 5).expect("memory can be read");
    assert!(reading.whole_until <= bytes.len() as u64);
    assert!(reading.manifest.tables().count() <= bytes.len());
}
