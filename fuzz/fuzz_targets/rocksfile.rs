//! Whatever bytes a log, a MANIFEST or a table of RocksDB has: reading ends, neither panics nor takes memory out of proportion, and
//! gives only records whose checksum fits. Records that were written come back, and a flipped bit is noticed.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use rocksfile::batch::Batch;
use rocksfile::log::stored_checksum;
use rocksfile::manifest::Manifest;
use rocksfile::names::FileName;
use rocksfile::record::{Records, Step};
use rocksfile::table::{BlockKind, ChecksumKind, Entries, Table, TableKey};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    match kind % 7 {
        0 => read_any(rest),
        1 => read_damaged(rest),
        2 => read_manifest(&written(rest)),
        3 => read_manifest(rest),
        4 => read_table(rest),
        5 => read_table(&table(rest, 0)),
        _ => read_table(&table(rest, *[0, 4, 7].get(usize::from(kind) / 7 % 3).unwrap_or(&0))),
    }
    if let Some(number) = FileName::parse_current(rest) {
        assert_eq!(format!("{}\n", FileName::Manifest(number)).as_bytes(), rest);
    }
});

/// The begins of records, and the first fault.
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

/// Reads every block of a table, and searches for blocks as if there were no index.
fn read_table(bytes: &[u8]) {
    let mut table = Table::open(Cursor::new(bytes)).expect("memory can be read");
    for block in table.blocks().to_vec() {
        let checked = table.check(block.handle).expect("memory can be read");
        let loaded = table.load(block.handle).expect("memory can be read");
        assert!(checked.is_none() || loaded.is_err(), "what is damaged is given out");
        if let Ok(content) = loaded
            && block.kind != BlockKind::Filter
        {
            read_entries(content);
        }
    }
    let end = table.search(|handle, content| {
        assert!(handle.offset + handle.stored_bytes() <= bytes.len() as u64);
        read_entries(content);
        Ok::<bool, std::io::Error>(true)
    });
    assert!(end.expect("memory can be read") <= bytes.len() as u64);
}

fn read_entries(content: Vec<u8>) {
    let Ok(mut entries) = Entries::of(content) else { return };
    while let Ok(Some((key, _))) = entries.step() {
        TableKey::parse(key);
    }
}

/// A table whose checksums are right, made of the input cut at `ff ff`: blocks of data, the index, the properties, the list of
/// meta blocks. What is in them is the input's.
fn table(input: &[u8], compression: u8) -> Vec<u8> {
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.windows(2).position(|pair| pair == [0xff, 0xff]) {
        blocks.push(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    blocks.push(rest);
    let (mut bytes, mut handles) = (Vec::new(), Vec::new());
    for block in blocks {
        handles.push((bytes.len(), block.len()));
        bytes.extend_from_slice(block);
        bytes.extend(ChecksumKind::Xxh3.trailer(block, compression));
    }
    let last = handles.pop().unwrap_or_default();
    let index = handles.pop().unwrap_or(last);
    let mut footer = vec![4];
    for number in [last.0, last.1, index.0, index.1] {
        // Two bytes are enough for a fuzzer's input.
        if number < 128 {
            footer.push(number as u8);
        } else {
            footer.extend([(number & 0x7f) as u8 | 0x80, (number >> 7) as u8 & 0x7f]);
        }
    }
    footer.resize(41, 0);
    footer.extend(5_u32.to_le_bytes());
    footer.extend(0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
    bytes.extend(footer);
    bytes
}
