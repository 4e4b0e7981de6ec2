//! Tables that are put together byte by byte, whole and damaged. Tables of RocksDB's own are read in the engine's tests.

use std::io::{self, Cursor};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.extend(number.to_le_bytes().first());
    bytes
}

fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![0], varint(key.len() as u64), varint(value.len() as u64), key.to_vec(), value.to_vec()].concat()
}

fn block(entries: &[u8]) -> Vec<u8> {
    [entries, &0_u32.to_le_bytes(), &1_u32.to_le_bytes()].concat()
}

fn handle(handle: Handle) -> Vec<u8> {
    [varint(handle.offset), varint(handle.bytes)].concat()
}

fn internal(key: u32, sequence: u64) -> Vec<u8> {
    [key.to_be_bytes().to_vec(), (sequence << 8 | 1).to_le_bytes().to_vec()].concat()
}

struct Written {
    bytes: Vec<u8>,
    checksum: ChecksumKind,
}

impl Written {
    fn add(&mut self, block: &[u8]) -> Handle {
        let handle = Handle { offset: self.bytes.len() as u64, bytes: block.len() as u64 };
        self.bytes.extend_from_slice(block);
        self.bytes.extend(self.checksum.trailer(block, 0));
        handle
    }

    /// A table with `count` blocks of data, each with one key, a filter, deleted ranges, properties and an index.
    fn table(checksum: ChecksumKind, count: u32) -> Vec<u8> {
        let mut table = Self { bytes: Vec::new(), checksum };
        let mut index = Vec::new();
        for number in 0..count {
            let placed = table.add(&block(&entry(&internal(number, 7), &[number.to_le_bytes()[0]; 50])));
            index.extend([vec![0, 4], number.to_be_bytes().to_vec(), handle(placed)].concat());
        }
        let filter = table.add(&[9; 70]);
        let index = table.add(&block(&index));
        let ranges = table.add(&block(&entry(&[b"a".as_slice(), &[15, 9, 0, 0, 0, 0, 0, 0]].concat(), b"b")));
        let properties = [
            entry(b"rocksdb.column.family.id", &varint(2)),
            entry(b"rocksdb.column.family.name", b"records"),
            entry(b"rocksdb.index.key.is.user.key", &varint(1)),
            entry(b"rocksdb.index.value.is.delta.encoded", &varint(1)),
            entry(b"rocksdb.num.entries", &varint(u64::from(count) + 1)),
            entry(b"rocksdb.num.range-deletions", &varint(1)),
        ];
        let properties = table.add(&block(&properties.concat()));
        let meta = [
            entry(b"fullfilter.rocksdb.BuiltinBloomFilter", &handle(filter)),
            entry(b"rocksdb.properties", &handle(properties)),
            entry(b"rocksdb.range_del", &handle(ranges)),
        ];
        let meta = table.add(&block(&meta.concat()));
        let mut middle = [handle(meta), handle(index)].concat();
        middle.resize(40, 0);
        let number = match checksum {
            ChecksumKind::Crc32c => 1,
            ChecksumKind::XxHash32 => 2,
            ChecksumKind::XxHash64 => 3,
            ChecksumKind::Xxh3 => 4,
        };
        table.bytes.push(number);
        table.bytes.extend(middle);
        table.bytes.extend(5_u32.to_le_bytes());
        table.bytes.extend(0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
        table.bytes
    }
}

/// Everything that is damaged in a table: when it is opened, and when its blocks are read.
fn damages(bytes: &[u8]) -> Vec<(Option<BlockKind>, TableFault)> {
    let mut table = Table::open(Cursor::new(bytes)).expect("memory can be read");
    let mut all: Vec<_> = table.damages().iter().map(|damage| (damage.kind, damage.fault)).collect();
    for block in table.blocks().to_vec() {
        let checked = table.check(block.handle).expect("read");
        let loaded = table.load(block.handle).expect("read");
        assert!(checked.is_none() || loaded.is_err(), "what is damaged is not given out");
        all.extend(checked.map(|fault| (Some(block.kind), fault)));
    }
    all
}

#[test]
fn a_table_is_read_as_it_was_written() {
    for checksum in [ChecksumKind::Crc32c, ChecksumKind::XxHash32, ChecksumKind::XxHash64, ChecksumKind::Xxh3]
    {
        let bytes = Written::table(checksum, 5);
        assert_eq!(damages(&bytes), []);
        let mut table = Table::open(Cursor::new(&bytes)).expect("read");
        let kinds: Vec<BlockKind> = table.blocks().iter().map(|block| block.kind).collect();
        let meta = [
            BlockKind::Filter,
            BlockKind::Index,
            BlockKind::RangeDeletions,
            BlockKind::Properties,
            BlockKind::MetaIndex,
        ];
        assert_eq!(kinds, [[BlockKind::Data; 5].as_slice(), &meta].concat());
        let properties = table.properties().expect("there").clone();
        assert_eq!(
            (properties.family, properties.entries, properties.range_deletions),
            (Some(2), Some(6), 1)
        );
        assert_eq!(properties.family_name.as_deref(), Some(b"records".as_slice()));
        let third = table.blocks()[3].clone();
        assert_eq!(third.key_bound, Some(3_u32.to_be_bytes().to_vec()));
        let content = table.load(third.handle).expect("read").expect("whole");
        let mut entries = Entries::of(content).expect("a block");
        let (key, value) = entries.step().expect("an entry").expect("the first");
        let key = TableKey::parse(key).expect("a key");
        assert_eq!((key.user, key.sequence, key.kind), (&3_u32.to_be_bytes()[..], 7, ChangeKind::Value));
        assert_eq!(value, [3; 50]);
        assert_eq!(entries.step(), Ok(None));
    }
}

#[test]
fn every_flipped_bit_of_a_table_is_found() {
    let bytes = Written::table(ChecksumKind::Xxh3, 3);
    for bit in 0..8 * bytes.len() {
        // The oldest version that has the same form is 4: its number differs in one bit, and nothing else tells.
        if bit / 8 == bytes.len() - 12 && bit % 8 == 0 {
            continue;
        }
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(damages(&damaged), [], "bit {bit} of {}", bytes.len());
    }
}

#[test]
fn a_table_that_is_cut_is_damaged() {
    let bytes = Written::table(ChecksumKind::Xxh3, 3);
    for cut in 0..bytes.len() {
        assert_ne!(damages(&bytes[..cut]), [], "cut at {cut}");
    }
}

#[test]
fn blocks_are_found_without_an_index() {
    let whole = Written::table(ChecksumKind::Xxh3, 6);
    let search = |bytes: &[u8]| {
        let mut found = Vec::new();
        let mut table = Table::open(Cursor::new(bytes)).expect("read");
        let end = table.search(|handle, content| {
            let Ok(mut entries) = Entries::of(content) else { return Ok(false) };
            let key = entries.step().ok().flatten().and_then(|(key, _)| TableKey::parse(key));
            let is_data = key.is_some_and(|key| key.kind == ChangeKind::Value && key.user.len() == 4);
            found.extend(is_data.then_some(handle));
            Ok::<bool, io::Error>(is_data)
        });
        (found.len(), end.expect("read"))
    };
    let data = Table::open(Cursor::new(&whole)).expect("read").blocks()[6].handle.offset;
    // The footer is gone, and with it the kind of checksum.
    let mut cut = whole[..whole.len() - 40].to_vec();
    assert_eq!(search(&cut).0, 6);
    assert_eq!(search(&cut).1, data);
    let second = usize::try_from(data).expect("short") / 6 + 20;
    cut[second] ^= 4;
    assert_eq!(search(&cut), (1, data / 6));
}

#[test]
fn lengths_that_reach_beyond_the_file_are_refused() {
    let bytes = Written::table(ChecksumKind::Xxh3, 1);
    let mut table = Table::open(Cursor::new(&bytes)).expect("read");
    for handle in [
        Handle { offset: 0, bytes: u64::MAX },
        Handle { offset: u64::MAX, bytes: u64::MAX },
        Handle { offset: bytes.len() as u64, bytes: 0 },
    ] {
        assert_eq!(table.check(handle).expect("read"), Some(TableFault::Handle));
        assert_eq!(table.load(handle).expect("read"), Err(TableFault::Handle));
    }
}

/// A frame that asks for a window of terabytes must not be given it.
#[test]
fn a_window_without_measure_is_refused() {
    let frame = [&0xfd2f_b528_u32.to_le_bytes()[..], &[0, 0xff, 1, 0, 0]].concat();
    let stored = [varint(16), frame].concat();
    assert_eq!(compression::decompress(stored, 7), Err(TableFault::Compressed(7)));
    assert_eq!(compression::decompress(vec![0xff, 0xff, 0xff, 0xff, 0xf], 4), Err(TableFault::Compressed(4)));
    assert_eq!(compression::decompress(vec![3, 1, 2], 1), Err(TableFault::Compression(1)));
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_their_end(bytes in vec(any::<u8>(), 0..300)) {
        damages(&bytes);
        if let Ok(mut entries) = Entries::of(&bytes) {
            while let Ok(Some(_)) = entries.step() {}
        }
        let _ = block::index_entries(&bytes, true);
        let _ = block::index_entries(&bytes, false);
        for compression in [0, 4, 7] {
            let _ = compression::decompress(bytes.clone(), compression);
        }
    }
}

/// A table of the format 6: checksums depend on where a block is, the footer has one of its own, and the list of meta
/// blocks leads to the index, whose second handle is written as a difference.
fn newer_table(checksum: ChecksumKind, number: u8) -> Vec<u8> {
    const CONTEXT: u32 = 0x0123_4567;
    let mut bytes = Vec::new();
    let modifier = |offset: usize| CONTEXT ^ u32::try_from(offset).expect("a short table");
    let mut add = |block: &[u8]| {
        let placed = Handle { offset: bytes.len() as u64, bytes: block.len() as u64 };
        let sum = checksum.of_block(block, 0).wrapping_add(modifier(bytes.len()));
        bytes.extend([block, &[0], &sum.to_le_bytes()].concat());
        placed
    };
    let first = add(&block(&entry(&internal(1, 7), &[1; 50])));
    let second = add(&block(&entry(&internal(2, 7), &[2; 43])));
    let negative = 2 * (first.bytes - second.bytes) - 1;
    let keys = [1_u32, 2].map(u32::to_be_bytes);
    let index = [[0, 4].as_slice(), &keys[0], &handle(first), &[3, 1], &keys[1][3..], &varint(negative)];
    let index = add(&block(&index.concat()));
    let properties = [
        entry(b"rocksdb.block.based.table.index.type", &0_u32.to_le_bytes()),
        entry(b"rocksdb.index.key.is.user.key", &varint(1)),
        entry(b"rocksdb.index.value.is.delta.encoded", &varint(1)),
    ];
    let properties = add(&block(&properties.concat()));
    let meta = [entry(b"rocksdb.index", &handle(index)), entry(b"rocksdb.properties", &handle(properties))];
    let meta = u32::try_from(add(&block(&meta.concat())).bytes).expect("a short block").to_le_bytes();
    let footer = |sum: u32| {
        let start = [&[number, 0x3e, 0, 0x7a, 0], &sum.to_le_bytes()[..], &CONTEXT.to_le_bytes(), &meta];
        let mut footer = start.concat();
        footer.resize(41, 0);
        footer.extend(6_u32.to_le_bytes());
        footer.extend(0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
        footer
    };
    let sum = checksum.of_bytes(&footer(0)).wrapping_add(modifier(bytes.len()));
    bytes.extend(footer(sum));
    bytes
}

#[test]
fn a_table_whose_checksums_depend_on_the_place_is_read() {
    for (number, checksum) in
        (1..).zip([ChecksumKind::Crc32c, ChecksumKind::XxHash32, ChecksumKind::XxHash64, ChecksumKind::Xxh3])
    {
        let bytes = newer_table(checksum, number);
        assert_eq!(damages(&bytes), []);
        let mut table = Table::open(Cursor::new(&bytes)).expect("read");
        assert!(table.has_index());
        let second = table.blocks()[1].clone();
        assert_eq!((second.kind, second.key_bound), (BlockKind::Data, Some(2_u32.to_be_bytes().to_vec())));
        let content = table.load(second.handle).expect("read").expect("whole");
        let mut entries = Entries::of(content).expect("a block");
        assert_eq!(entries.step().expect("an entry").expect("the first").1, [2; 43]);
        assert_eq!(entries.key(), internal(2, 7));
    }
}

#[test]
fn every_flipped_bit_of_such_a_table_is_found() {
    let bytes = newer_table(ChecksumKind::Xxh3, 4);
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(damages(&damaged), [], "bit {bit} of {}", bytes.len());
    }
}

#[test]
fn without_the_list_of_meta_blocks_the_index_is_lost_where_the_footer_does_not_name_it() {
    let mut bytes = newer_table(ChecksumKind::Crc32c, 1);
    let list = Table::open(Cursor::new(&bytes)).expect("read").blocks()[4].clone();
    assert_eq!(list.kind, BlockKind::MetaIndex);
    bytes[usize::try_from(list.handle.offset).expect("short")] ^= 1;
    assert!(!Table::open(Cursor::new(&bytes)).expect("read").has_index());

    let mut bytes = Written::table(ChecksumKind::Crc32c, 1);
    let list = Table::open(Cursor::new(&bytes)).expect("read").blocks()[5].clone();
    assert_eq!(list.kind, BlockKind::MetaIndex);
    bytes[usize::try_from(list.handle.offset).expect("short")] ^= 1;
    assert!(Table::open(Cursor::new(&bytes)).expect("read").has_index());
}

/// Frames of Zstandard with one block that is not compressed, whose content's length has 1, 2 or 4 bytes.
#[test]
fn a_frame_says_how_long_its_content_is() {
    for (descriptor, length_bytes, subtracted) in [(0x20, 1, 0), (0x60, 2, 256), (0xa0, 4, 0)] {
        let content = vec![7; 255 + subtracted];
        let length = u32::try_from(content.len() - subtracted).expect("short").to_le_bytes();
        let header = u32::try_from(content.len() << 3 | 1).expect("short").to_le_bytes();
        let frame = [&[0x28, 0xb5, 0x2f, 0xfd, descriptor], &length[..length_bytes], &header[..3], &content];
        let stored = [varint(content.len() as u64), frame.concat()].concat();
        assert_eq!(decompress(stored, 7), Ok(content.clone()));
        let longer = [varint(content.len() as u64 + 1), frame.concat()].concat();
        assert_eq!(decompress(longer, 7), Err(TableFault::Compressed(7)));
        let shorter = [varint(content.len() as u64 - 1), frame.concat()].concat();
        assert_eq!(decompress(shorter, 7), Err(TableFault::Compressed(7)));
    }
}

#[test]
fn bytes_that_are_no_table_are_damage_and_no_error() {
    let table = Table::open(Cursor::new(vec![7; 100])).expect("memory is read");
    assert!(table.blocks().is_empty());
    assert_eq!(table.damages()[0].fault, TableFault::Footer);
}

#[test]
fn a_block_is_followed_by_its_compression_and_its_checksum() {
    let [compression, checksum @ ..] = ChecksumKind::Crc32c.trailer(b"cairn", 0);
    assert_eq!((compression, u32::from_le_bytes(checksum)), (0, 0xf9b2_7826));
}
