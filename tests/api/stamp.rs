//! The format stamp inside the database, which must be rejected like the one in the marker file.
//!
//! The stamp is changed where it lies, in the write-ahead log, with the checksum of its record.

use std::fs;
use std::path::{Path, PathBuf};

use cairndb::ErrorKind;
use cairndb_tests::scratch::{Scratch, small};

const HEADER_BYTES: usize = 7;

/// Changes the stamp in the log of a closed database; the log holds it, because nothing was flushed.
fn write_stamp(folder: &Path, version: u32) {
    let logs = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let logs: Vec<PathBuf> = logs.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    // Length and text of the key, length of the value, the value.
    let stamp = [&[1, b'f', 4][..], &cairndb::FORMAT_VERSION.to_be_bytes()].concat();
    let mut changed = 0;
    for log in logs {
        let mut bytes = fs::read(&log).expect("a log");
        let mut at = 0;
        while let Some(record) = record_at(&mut bytes, at) {
            at += record.len();
            if let Some(place) = record.windows(stamp.len()).position(|window| window == stamp) {
                let value = record.get_mut(place + 3..place + 7).expect("the stamp is there");
                value.copy_from_slice(&version.to_be_bytes());
                let checksum = masked(crc32c(record.get(6..).expect("a type and a body")));
                record.get_mut(..4).expect("a header").copy_from_slice(&checksum.to_le_bytes());
                changed += 1;
            }
        }
        fs::write(&log, bytes).expect("the log is written");
    }
    assert_eq!(changed, 1, "one record holds the stamp");
}

/// The record that starts at a place of a log that is shorter than a block.
fn record_at(bytes: &mut [u8], at: usize) -> Option<&mut [u8]> {
    let header: &[u8; HEADER_BYTES] = bytes.get(at..)?.first_chunk()?;
    let &[_, _, _, _, low, high, _] = header;
    bytes.get_mut(at..at + HEADER_BYTES + usize::from(u16::from_le_bytes([low, high])))
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// As logs store checksums.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[track_caller]
fn check(version: u32, opens: bool) {
    let scratch = Scratch::new();
    scratch.open().close().expect("closed");
    write_stamp(&scratch.path(), version);
    match small().open(scratch.path()) {
        Ok(_) => assert!(opens, "format {version} was opened"),
        Err(error) => {
            assert!(!opens, "{error:?}");
            let ErrorKind::UnsupportedFormat { path, found, oldest, supported } = error.kind() else {
                panic!("{error:?}")
            };
            assert_eq!((found, *oldest, *supported), (&version.to_string(), 3, 7));
            assert_eq!(path, &scratch.path());
        }
    }
}

#[test]
fn checksums_are_those_of_the_log() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn only_formats_from_3_to_7_are_opened() {
    // The marker says 7: what a crash in the middle of an upgrade leaves.
    check(3, true);
    check(4, true);
    check(5, true);
    check(6, true);
    check(7, true);
    check(0, false);
    check(1, false);
    check(2, false);
}

#[test]
fn a_stamp_that_is_newer_than_its_marker_is_damage() {
    for version in [8, u32::MAX] {
        let scratch = Scratch::new();
        scratch.open().close().expect("closed");
        write_stamp(&scratch.path(), version);
        let error = small().open(scratch.path()).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::Corruption { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("names version {version}")), "{error}");
    }
}
