//! Version edits: the records of a MANIFEST. Each describes a change to the set of files of a database.
//!
//! Only the fields that say which files must exist and how long they are, are kept. The others are checked
//! for their form and dropped.

use crate::varint::Input;

/// A change to the set of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The column family that the edit concerns.
    pub family: u32,
    /// The name of the family, if it is new.
    pub family_added: Option<Vec<u8>>,
    /// Whether the family is dropped.
    pub family_dropped: bool,
    /// All changes of the family in logs below this number are in tables.
    pub log_number: Option<u64>,
    /// Logs below this number are not needed.
    pub log_number_min: Option<u64>,
    /// The number that the next file gets.
    pub next_file: Option<u64>,
    /// The newest change when the edit was written.
    pub last_sequence: Option<u64>,
    /// Dropped tables: level and number.
    pub tables_dropped: Vec<(u32, u64)>,
    /// New tables.
    pub tables_added: Vec<Table>,
    /// Synced logs: number, and synced length in bytes.
    pub logs_synced: Vec<(u64, Option<u64>)>,
    /// Logs below this number are not tracked any more.
    pub logs_dropped_below: Option<u64>,
    /// The number of edits that must follow before this one counts.
    pub group_left: Option<u32>,
}

/// A table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The number of the table, which is also its file name.
    pub number: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The level of the table.
    pub level: u32,
    /// The number of the newest change in it. 0 if nothing tells it.
    pub newest: u64,
}

/// Bytes that are not a version edit, or one of a kind that databases of this library do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// A field is cut short, or is not what its tag says.
    #[error("the field {0} is malformed")]
    Field(&'static str),
    /// A tag that does not exist.
    #[error("the tag {0} is unknown")]
    Tag(u32),
}

/// The length of the number and the kind after the bytes of a key.
const KEY_TRAILER_BYTES: usize = 8;
/// A tag with this bit is followed by its length and may be skipped.
const IGNORABLE: u32 = 1 << 13;
/// A field of a table with this bit must not be skipped.
const TABLE_FIELD_NEEDED: u32 = 1 << 6;

mod tag {
    pub(super) const COMPARATOR: u32 = 1;
    pub(super) const LOG_NUMBER: u32 = 2;
    pub(super) const NEXT_FILE: u32 = 3;
    pub(super) const LAST_SEQUENCE: u32 = 4;
    pub(super) const COMPACT_CURSOR: u32 = 5;
    pub(super) const DELETED_FILE: u32 = 6;
    pub(super) const NEW_FILE: u32 = 7;
    pub(super) const PREVIOUS_LOG: u32 = 9;
    pub(super) const LOG_NUMBER_MIN: u32 = 10;
    pub(super) const NEW_FILE_2: u32 = 100;
    pub(super) const NEW_FILE_3: u32 = 102;
    pub(super) const NEW_FILE_4: u32 = 103;
    pub(super) const FAMILY: u32 = 200;
    pub(super) const FAMILY_ADD: u32 = 201;
    pub(super) const FAMILY_DROP: u32 = 202;
    pub(super) const FAMILY_MAX: u32 = 203;
    pub(super) const GROUP: u32 = 300;
    pub(super) const LOG_ADDITION: u32 = 8196;
    pub(super) const LOG_DELETION: u32 = 8197;
    pub(super) const LOG_ADDITION_2: u32 = 8199;
    pub(super) const LOG_DELETION_2: u32 = 8200;
}

/// Fields of a table, and of a log.
mod field {
    pub(super) const END: u32 = 1;
    pub(super) const LOG_NUMBER_MIN: u32 = 3;
    pub(super) const PATH: u32 = 65;
    pub(super) const SYNCED_BYTES: u32 = 2;
}

impl Edit {
    /// Parses an edit.
    ///
    /// # Errors
    /// [`EditError`] if the bytes are not an edit, or have an unknown tag that must not be ignored.
    pub fn parse(bytes: &[u8]) -> Result<Self, EditError> {
        let mut input = Input::new(bytes);
        let mut edit = Self::default();
        while !input.is_empty() {
            let tag = input.varint32().ok_or(EditError::Field("tag"))?;
            edit.take_field(tag, &mut input)?;
        }
        Ok(edit)
    }

    fn take_field(&mut self, tag: u32, input: &mut Input<'_>) -> Result<(), EditError> {
        // Fields follow each other without lengths, so each must be read to find the next one, needed or not.
        let mut number = |name| input.varint64().ok_or(EditError::Field(name));
        match tag {
            tag::LOG_NUMBER => self.log_number = Some(number("log number")?),
            tag::NEXT_FILE => self.next_file = Some(number("next file number")?),
            tag::LAST_SEQUENCE => self.last_sequence = Some(number("last sequence number")?),
            tag::LOG_NUMBER_MIN => self.log_number_min = Some(number("minimum log number")?),
            tag::PREVIOUS_LOG => {
                number("previous log number")?;
            }
            tag::FAMILY_MAX => {
                input.varint32().ok_or(EditError::Field("maximum column family"))?;
            }
            tag::COMPARATOR => {
                input.slice().ok_or(EditError::Field("comparator"))?;
            }
            tag::COMPACT_CURSOR => {
                let cursor = input.varint32().and_then(|_| key(input));
                cursor.ok_or(EditError::Field("compaction cursor"))?;
            }
            tag::DELETED_FILE => {
                let dropped = input.varint32().zip(input.varint64());
                self.tables_dropped.push(dropped.ok_or(EditError::Field("deleted file"))?);
            }
            tag::NEW_FILE | tag::NEW_FILE_2 | tag::NEW_FILE_3 | tag::NEW_FILE_4 => {
                let table = self.table(tag, input).ok_or(EditError::Field("new file"))?;
                self.tables_added.push(table);
            }
            tag::FAMILY => self.family = input.varint32().ok_or(EditError::Field("column family"))?,
            tag::FAMILY_ADD => {
                let name = input.slice().ok_or(EditError::Field("column family's name"))?;
                self.family_added = Some(name.to_vec());
            }
            tag::FAMILY_DROP => self.family_dropped = true,
            tag::GROUP => self.group_left = Some(input.varint32().ok_or(EditError::Field("atomic group"))?),
            other => self.take_log_field(other, input)?,
        }
        Ok(())
    }

    /// Reads a field that states its length, of which only those of logs are kept.
    fn take_log_field(&mut self, tag: u32, input: &mut Input<'_>) -> Result<(), EditError> {
        const ADDITION: EditError = EditError::Field("log addition");
        const DELETION: EditError = EditError::Field("log deletion");
        match tag {
            tag::LOG_ADDITION => self.logs_synced.push(log(input).ok_or(ADDITION)?),
            tag::LOG_DELETION => self.logs_dropped_below = Some(input.varint64().ok_or(DELETION)?),
            tag::LOG_ADDITION_2 => {
                let mut encoded = Input::new(input.slice().ok_or(ADDITION)?);
                self.logs_synced.push(log(&mut encoded).ok_or(ADDITION)?);
            }
            tag::LOG_DELETION_2 => {
                let mut encoded = Input::new(input.slice().ok_or(DELETION)?);
                self.logs_dropped_below = Some(encoded.varint64().ok_or(DELETION)?);
            }
            other if other & IGNORABLE != 0 => {
                input.slice().ok_or(EditError::Field("an ignorable tag"))?;
            }
            other => return Err(EditError::Tag(other)),
        }
        Ok(())
    }

    fn table(&mut self, tag: u32, input: &mut Input<'_>) -> Option<Table> {
        // Four versions of the same record: later ones add fields in the middle and at the end.
        let (level, number) = (input.varint32()?, input.varint64()?);
        if tag == tag::NEW_FILE_3 {
            // The number of the folder. A store has one folder, so any other number is damage.
            (input.varint32()? == 0).then_some(())?;
        }
        let bytes = input.varint64()?;
        // The smallest and the largest key, then the smallest and the largest number of a change.
        key(input)?;
        key(input)?;
        let mut newest = 0;
        if tag != tag::NEW_FILE {
            input.varint64()?;
            newest = input.varint64()?;
        }
        if tag == tag::NEW_FILE_4 {
            self.table_fields(input)?;
        }
        Some(Table { number, bytes, level, newest })
    }

    fn table_fields(&mut self, input: &mut Input<'_>) -> Option<()> {
        loop {
            let name = input.varint32()?;
            if name == field::END {
                return Some(());
            }
            let value = input.slice()?;
            match name {
                field::LOG_NUMBER_MIN => self.log_number_min = Some(Input::new(value).fixed64()?),
                field::PATH => (value == [0]).then_some(())?,
                other if other & TABLE_FIELD_NEEDED != 0 => return None,
                _ => {}
            }
        }
    }
}

/// A key with its number and kind.
fn key<'a>(input: &mut Input<'a>) -> Option<&'a [u8]> {
    input.slice().filter(|key| key.len() >= KEY_TRAILER_BYTES)
}

/// A log with the length that was synced.
fn log(input: &mut Input<'_>) -> Option<(u64, Option<u64>)> {
    let number = input.varint64()?;
    let mut bytes = None;
    loop {
        match input.varint32()? {
            field::END => return Some((number, bytes)),
            field::SYNCED_BYTES => bytes = Some(input.varint64()?),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let low = u8::try_from(number & 0x7f).expect("seven bits");
            number >>= 7;
            if number == 0 {
                bytes.push(low);
                return bytes;
            }
            bytes.push(low | 0x80);
        }
    }

    fn fields(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| varint(*number)).collect()
    }

    fn slice(bytes: &[u8]) -> Vec<u8> {
        [varint(bytes.len() as u64), bytes.to_vec()].concat()
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: Edit) {
        assert_eq!(Edit::parse(bytes), Ok(expected));
        // No shorter text is the same edit, and none panics.
        for cut in 0..bytes.len() {
            let _ = Edit::parse(&bytes[..cut]);
        }
    }

    #[test]
    fn numbers_are_read() {
        check(&[], Edit::default());
        check(
            &fields(&[2, 300, 3, 7, 4, 1 << 40, 10, 12, 9, 0, 203, 4]),
            Edit {
                log_number: Some(300),
                next_file: Some(7),
                last_sequence: Some(1 << 40),
                log_number_min: Some(12),
                ..Edit::default()
            },
        );
    }

    #[test]
    fn families_are_read() {
        let bytes = [fields(&[200, 3]), varint(201), slice(b"records")].concat();
        check(&bytes, Edit { family: 3, family_added: Some(b"records".to_vec()), ..Edit::default() });
        check(&fields(&[200, 3, 202]), Edit { family: 3, family_dropped: true, ..Edit::default() });
    }

    #[test]
    fn tables_are_read_in_all_versions() {
        let key = slice(b"key\x01\x00\x00\x00\x00\x00\x00\x01");
        let table = |newest| Table { number: 9, bytes: 5000, level: 6, newest };
        let with = |table| Edit { tables_added: vec![table], ..Edit::default() };
        let expected = with(table(2));
        let ends = [key.clone(), key.clone()].concat();
        check(&[fields(&[7, 6, 9, 5000]), ends.clone()].concat(), with(table(0)));
        check(&[fields(&[100, 6, 9, 5000]), ends.clone(), fields(&[1, 2])].concat(), expected.clone());
        check(&[fields(&[102, 6, 9, 0, 5000]), ends.clone(), fields(&[1, 2])].concat(), expected.clone());
        let custom = [varint(5), slice(&[1]), varint(3), slice(&12_u64.to_le_bytes()), varint(1)].concat();
        let bytes = [fields(&[103, 6, 9, 5000]), ends.clone(), fields(&[1, 2]), custom].concat();
        check(&bytes, Edit { log_number_min: Some(12), ..expected });
        let needed = [varint(70), slice(&[1]), varint(1)].concat();
        let bytes = [fields(&[103, 6, 9, 5000]), ends, fields(&[1, 2]), needed].concat();
        assert_eq!(Edit::parse(&bytes), Err(EditError::Field("new file")));
        check(&fields(&[6, 0, 9]), Edit { tables_dropped: vec![(0, 9)], ..Edit::default() });
    }

    #[test]
    fn tracked_logs_are_read() {
        let bytes = [varint(8199), slice(&fields(&[12, 2, 4096, 1]))].concat();
        check(&bytes, Edit { logs_synced: vec![(12, Some(4096))], ..Edit::default() });
        check(&fields(&[8196, 12, 1]), Edit { logs_synced: vec![(12, None)], ..Edit::default() });
        let bytes = [varint(8200), slice(&varint(13))].concat();
        check(&bytes, Edit { logs_dropped_below: Some(13), ..Edit::default() });
    }

    #[test]
    fn unknown_tags_are_passed_by_if_they_may_be() {
        check(&[varint(8300), slice(b"what")].concat(), Edit::default());
        assert_eq!(Edit::parse(&fields(&[55, 1])), Err(EditError::Tag(55)));
        assert_eq!(Edit::parse(&fields(&[400, 1])), Err(EditError::Tag(400)));
    }

    #[test]
    fn cut_fields_are_refused() {
        assert_eq!(Edit::parse(&fields(&[2])), Err(EditError::Field("log number")));
        assert_eq!(Edit::parse(&[0x80]), Err(EditError::Field("tag")));
        assert_eq!(
            Edit::parse(&[varint(201), vec![9]].concat()),
            Err(EditError::Field("column family's name"))
        );
    }
}
