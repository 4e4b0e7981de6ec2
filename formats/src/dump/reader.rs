//! Reading an archive from its first byte to its last. Segments of collections may alternate in any way.
//!
//! What is read is checked as far as an archive allows it: the checksum of each collection, and that each has an end. An
//! archive that was cut is never mistaken for a short one.

use std::collections::HashMap;
use std::io::Read;

use bson::{Document, RawDocument};

use crate::dump::archive::{
    COLLECTION_BYTES, Checksum, DECLARED_BYTES_MAX, Declared, Header, MAGIC, TERMINATOR, VERSION,
};
use crate::dump::known::{CARRIED, check_carried_by_collection, check_kind};
use crate::dump::stream::{DumpError, Source, damaged};
use crate::refusal::shown;

/// The names in the header of an archive, of a collection, and of a segment.
const HEADER: [&str; 5] = ["concurrent_collections", "version", "server_version", "tool_version", CARRIED];
const DECLARED: [&str; 5] = ["db", "collection", "metadata", "size", "type"];
const SEGMENT: [&str; 5] = ["db", "collection", "EOF", "CRC", CARRIED];

/// An archive that is being read.
pub struct ArchiveReader<R> {
    source: Source<R>,
    header: Header,
    declared: Vec<Declared>,
    by_name: HashMap<(String, String), usize>,
    /// For each that is declared.
    states: Vec<State>,
    /// The collection of the segment that is being read.
    current: Option<usize>,
    /// A document of the archive's own.
    own: Vec<u8>,
}

/// The next piece of an archive.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// A document of the collection with this position among those that are declared.
    Document(usize),
    /// The end of a collection, whose checksum is right, with the field `cairndb`.
    End(usize, Option<Document>),
}

#[derive(Default)]
struct State {
    checksum: Checksum,
    has_begun: bool,
    is_ended: bool,
}

impl<R: Read> ArchiveReader<R> {
    /// Reads all that comes before the first segment. The stream should be buffered.
    ///
    /// ```
    /// use cairndb_formats::dump::{archive::{Header, push_prelude}, reader::ArchiveReader};
    ///
    /// let mut archive = Vec::new();
    /// push_prelude(&mut archive, &Header::default(), &[])?;
    /// let mut reader = ArchiveReader::open(&archive[..])?;
    /// assert_eq!(reader.next(&mut Vec::new())?, None);
    /// assert_eq!(
    ///     ArchiveReader::open(&b"{}"[..]).err().expect("refused").to_string(),
    ///     "byte 0: this is not an archive of mongodump",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(read: R) -> Result<Self, DumpError> {
        let mut source = Source::new(read);
        let no_archive = || damaged(0, "this is not an archive of mongodump");
        let magic = source.length().map_err(|error| match error {
            DumpError::Damaged { .. } => no_archive(),
            DumpError::Io(error) => DumpError::Io(error),
        })?;
        if magic != Some(MAGIC) {
            return Err(no_archive());
        }
        let mut reader = Self {
            source,
            header: Header::default(),
            declared: Vec::new(),
            by_name: HashMap::new(),
            states: Vec::new(),
            current: None,
            own: Vec::new(),
        };
        let start = reader.source.offset();
        if !reader.read_own()? {
            return Err(damaged(start, "the header is missing"));
        }
        reader.header = header(raw(&reader.own, start)?, start)?;
        reader.read_declared()?;
        Ok(reader)
    }

    /// The description of the archive.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The collections that are in the archive.
    pub fn declared(&self) -> &[Declared] {
        &self.declared
    }

    /// The number of bytes that were read.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Reads on. A document comes in place of what `document` has. Returns `None` at the end of the archive, where every
    /// collection has ended.
    pub fn next(&mut self, document: &mut Vec<u8>) -> Result<Option<Piece>, DumpError> {
        loop {
            let start = self.source.offset();
            let Some(current) = self.current else {
                // Between two segments, the only place where an archive may end.
                return match self.source.length()? {
                    None => self.end().map(|()| None),
                    Some(TERMINATOR) => Err(damaged(start, "a segment without a header")),
                    Some(length) => {
                        let mut own = std::mem::take(&mut self.own);
                        let read = self.source.document(start, length, &mut own);
                        self.own = own;
                        read?;
                        match self.begin(start)? {
                            None => continue,
                            Some(end) => Ok(Some(end)),
                        }
                    }
                };
            };
            match self.source.length()? {
                None => return Err(damaged(start, "the archive ends within a segment")),
                Some(TERMINATOR) => self.current = None,
                Some(length) => {
                    self.source.document(start, length, document)?;
                    if let Some(state) = self.states.get_mut(current) {
                        state.checksum.update(document);
                    }
                    return Ok(Some(Piece::Document(current)));
                }
            }
        }
    }

    /// Begins the segment whose header was read. Returns the piece if it is the end of a collection.
    fn begin(&mut self, start: u64) -> Result<Option<Piece>, DumpError> {
        let header = raw(&self.own, start)?;
        only(header, &SEGMENT, start)?;
        let (database, collection) = (text(header, "db", start)?, text(header, "collection", start)?);
        let (Ok(checksum), Ok(is_end)) = (header.get_i64("CRC"), header.get_bool("EOF")) else {
            return Err(damaged(start, "a header without EOF or CRC"));
        };
        let carried = carried(header, start)?;
        if let Some(carried) = &carried {
            check_carried_by_collection(carried).map_err(|error| damaged(start, error.to_string()))?;
        }
        let name = (database.to_owned(), collection.to_owned());
        let shown_name = || format!("{}.{}", shown(&name.0), shown(&name.1));
        let Some(&at) = self.by_name.get(&name) else {
            let reason = format!("{} is not among the collections of the archive", shown_name());
            return Err(damaged(start, reason));
        };
        let Some(state) = self.states.get_mut(at).filter(|state| !state.is_ended) else {
            return Err(damaged(start, format!("{} continues after its end", shown_name())));
        };
        if !is_end {
            state.has_begun = true;
            self.current = Some(at);
            return Ok(None);
        }
        if checksum != state.checksum.value() {
            return Err(damaged(start, format!("the checksum of {} is wrong", shown_name())));
        }
        state.is_ended = true;
        let after = self.source.offset();
        if self.source.length()? != Some(TERMINATOR) {
            return Err(damaged(after, format!("the end of {} is not terminated", shown_name())));
        }
        Ok(Some(Piece::End(at, carried)))
    }

    /// Whether an archive may end here.
    fn end(&self) -> Result<(), DumpError> {
        // mongodump declares time series, and writes their buckets under another name. Of a view it may write nothing.
        let mut open = self.declared.iter().zip(&self.states).filter(|(one, state)| {
            !state.is_ended && (state.has_begun || !matches!(one.kind.as_str(), "view" | "timeseries"))
        });
        match open.next() {
            None => Ok(()),
            Some((one, _)) => {
                let (database, collection) = (shown(&one.database), shown(&one.collection));
                let reason = format!("the archive ends before {database}.{collection} does");
                Err(damaged(self.source.offset(), reason))
            }
        }
    }

    fn read_declared(&mut self) -> Result<(), DumpError> {
        let mut bytes = 0;
        loop {
            let start = self.source.offset();
            if !self.read_own()? {
                return Ok(());
            }
            bytes += self.own.len() + COLLECTION_BYTES;
            if bytes > DECLARED_BYTES_MAX {
                return Err(damaged(start, "the descriptions of the collections are larger than 32 MiB"));
            }
            let fields = raw(&self.own, start)?;
            only(fields, &DECLARED, start)?;
            let one = Declared {
                database: text(fields, "db", start)?.to_owned(),
                collection: text(fields, "collection", start)?.to_owned(),
                metadata: text_if_any(fields, "metadata", start)?.to_owned(),
                kind: text_if_any(fields, "type", start)?.to_owned(),
            };
            if one.database.is_empty() {
                let reason = format!("archives with an {} are not supported", shown(&one.collection));
                return Err(damaged(start, reason));
            }
            check_kind(&one.kind).map_err(|error| damaged(start, error.to_string()))?;
            self.declare(one, start)?;
        }
    }

    fn declare(&mut self, one: Declared, start: u64) -> Result<(), DumpError> {
        let at = self.declared.len();
        let name = (one.database.clone(), one.collection.clone());
        if one.kind == "timeseries" {
            let buckets = (one.database.clone(), format!("system.buckets.{}", one.collection));
            self.by_name.insert(buckets, at);
        }
        if self.by_name.insert(name, at).is_some() {
            let (database, collection) = (shown(&one.database), shown(&one.collection));
            return Err(damaged(start, format!("{database}.{collection} is there twice")));
        }
        self.declared.push(one);
        self.states.push(State::default());
        Ok(())
    }

    /// Reads a document of the archive's own. Returns `false` at a terminator.
    fn read_own(&mut self) -> Result<bool, DumpError> {
        let start = self.source.offset();
        match self.source.length()? {
            None => Err(damaged(start, "the archive ends within its header")),
            Some(TERMINATOR) => Ok(false),
            Some(length) => {
                let mut own = std::mem::take(&mut self.own);
                let read = self.source.document(start, length, &mut own);
                self.own = own;
                read.map(|()| true)
            }
        }
    }
}

fn raw(bytes: &[u8], start: u64) -> Result<&RawDocument, DumpError> {
    RawDocument::from_bytes(bytes).map_err(|error| damaged(start, error.to_string()))
}

fn header(fields: &RawDocument, start: u64) -> Result<Header, DumpError> {
    only(fields, &HEADER, start)?;
    let version = text(fields, "version", start)?;
    if version != VERSION {
        let reason = format!("the archive has the version {}, and {VERSION} is known", shown(version));
        return Err(damaged(start, reason));
    }
    Ok(Header {
        concurrent_collections: fields.get_i32("concurrent_collections").unwrap_or_default(),
        server_version: text_if_any(fields, "server_version", start)?.to_owned(),
        tool_version: text_if_any(fields, "tool_version", start)?.to_owned(),
        carried: carried(fields, start)?,
    })
}

fn carried(fields: &RawDocument, start: u64) -> Result<Option<Document>, DumpError> {
    let wrong = || damaged(start, format!("{CARRIED} is not a document"));
    let Some(carried) = fields.get(CARRIED).map_err(|error| damaged(start, error.to_string()))? else {
        return Ok(None);
    };
    let carried = carried.as_document().ok_or_else(wrong)?;
    Document::try_from(carried).map(Some).map_err(|error| damaged(start, error.to_string()))
}

/// Rejects a name that no version of mongodump writes.
fn only(fields: &RawDocument, known: &[&str], start: u64) -> Result<(), DumpError> {
    for field in fields {
        let (name, _) = field.map_err(|error| damaged(start, error.to_string()))?;
        if !known.contains(&name.as_str()) {
            return Err(damaged(start, format!("the name {} is not known", shown(name.as_str()))));
        }
    }
    Ok(())
}

/// The text in a field that older archives may lack.
fn text_if_any<'a>(fields: &'a RawDocument, name: &str, start: u64) -> Result<&'a str, DumpError> {
    if matches!(fields.get(name), Ok(None)) { Ok("") } else { text(fields, name, start) }
}

fn text<'a>(fields: &'a RawDocument, name: &str, start: u64) -> Result<&'a str, DumpError> {
    fields.get_str(name).map_err(|_| damaged(start, format!("a header without the text {name:?}")))
}

#[cfg(test)]
mod tests {
    use bson::{doc, serialize_to_vec};

    use super::*;
    use crate::dump::archive::{push_end, push_prelude, push_segment};

    fn declared(collection: &str, kind: &str) -> Declared {
        Declared {
            database: "shop".into(),
            collection: collection.into(),
            metadata: "{}".into(),
            kind: kind.into(),
        }
    }

    /// Two collections whose segments alternate, and a view.
    fn archive() -> Vec<u8> {
        let carried = Some(doc! { "format": 1 });
        let header = Header { server_version: "7.0.0".into(), carried, ..Header::default() };
        let mut out = Vec::new();
        let all = [declared("v", "view"), declared("a", "collection"), declared("b", "collection")];
        push_prelude(&mut out, &header, &all).unwrap();
        push_end(&mut out, "shop", "v", &Checksum::default(), None).unwrap();
        let mut checksums = [Checksum::default(), Checksum::default()];
        for number in 0..4_i32 {
            let at = usize::from(number % 2 == 1);
            let document = serialize_to_vec(&doc! { "_id": number }).unwrap();
            push_segment(&mut out, "shop", ["a", "b"][at]);
            out.extend_from_slice(&document);
            out.extend_from_slice(&TERMINATOR);
            checksums[at].update(&document);
        }
        push_end(&mut out, "shop", "b", &checksums[1], None).unwrap();
        push_end(&mut out, "shop", "a", &checksums[0], Some(&doc! { "autoIncrement": [] })).unwrap();
        out
    }

    fn read(bytes: &[u8]) -> Result<Vec<Piece>, DumpError> {
        let mut reader = ArchiveReader::open(bytes)?;
        let (mut document, mut pieces) = (Vec::new(), Vec::new());
        while let Some(piece) = reader.next(&mut document)? {
            pieces.push(piece);
        }
        Ok(pieces)
    }

    #[track_caller]
    fn refused(bytes: &[u8], words: &str) {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.starts_with("byte ") && error.contains(words), "{error}");
    }

    #[test]
    fn what_is_written_is_read() {
        let documents = [1, 2, 1, 2].map(Piece::Document);
        let ends = [Piece::End(2, None), Piece::End(1, Some(doc! { "autoIncrement": [] }))];
        let expected: Vec<_> = [Piece::End(0, None)].into_iter().chain(documents).chain(ends).collect();
        assert_eq!(read(&archive()).unwrap(), expected);
        let archive = archive();
        let reader = ArchiveReader::open(&archive[..]).unwrap();
        assert_eq!(reader.header().carried, Some(doc! { "format": 1 }));
        assert_eq!(reader.declared()[1], declared("a", "collection"));
    }

    #[test]
    fn an_archive_that_is_cut_anywhere_is_refused() {
        let archive = archive();
        for len in 0..archive.len() {
            assert!(read(&archive[..len]).is_err(), "cut after {len} bytes");
        }
    }

    #[test]
    fn an_archive_with_one_wrong_bit_is_refused_or_says_the_same() {
        let archive = archive();
        let said = |bytes: &[u8]| {
            let reader = ArchiveReader::open(bytes).unwrap();
            let name = |one: &Declared| (one.database.clone(), one.collection.clone(), one.kind.clone());
            reader.declared().iter().map(name).collect::<Vec<_>>()
        };
        let whole = (read(&archive).unwrap(), said(&archive));
        for at in 0..archive.len() {
            for bit in 0..8 {
                let mut wrong = archive.clone();
                wrong[at] ^= 1 << bit;
                if let Ok(pieces) = read(&wrong) {
                    assert_eq!((pieces, said(&wrong)), whole, "at {at}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_belong_is_refused_with_its_place() {
        refused(b"", "not an archive");
        refused(b"PK\x03\x04", "not an archive");
        let with = |more: &dyn Fn(&mut Vec<u8>)| {
            let mut archive = archive();
            more(&mut archive);
            archive
        };
        refused(&with(&|out| push_segment(out, "shop", "a")), "continues after its end");
        refused(&with(&|out| push_segment(out, "shop", "c")), "is not among the collections");
        refused(&with(&|out| out.extend_from_slice(&TERMINATOR)), "a segment without a header");
        refused(&with(&|out| out.extend_from_slice(&[0; 4])), "0 is not the length of a document");
        let too_long = ((16 << 20) + (16 << 10) + 1_i32).to_le_bytes();
        refused(&with(&|out| out.extend_from_slice(&too_long)), "16793601 is not the length");
        let mut out = Vec::new();
        let mut oplog = declared("oplog", "");
        oplog.database.clear();
        push_prelude(&mut out, &Header::default(), &[oplog]).unwrap();
        refused(&out, "archives with an \"oplog\" are not supported");
        out.clear();
        let twice = [declared("a", "collection"), declared("a", "collection")];
        push_prelude(&mut out, &Header::default(), &twice).unwrap();
        refused(&out, "\"shop\".\"a\" is there twice");
    }

    #[test]
    fn descriptions_are_limited_when_they_are_written_and_read() {
        let large = Declared { metadata: "x".repeat(15 << 20), ..declared("a", "") };
        let all = [large.clone(), Declared { collection: "b".into(), ..large.clone() }];
        let mut out = Vec::new();
        push_prelude(&mut out, &Header::default(), &all).unwrap();
        assert!(read(&out).unwrap_err().to_string().contains("ends before"));
        let three = [all[0].clone(), all[1].clone(), Declared { collection: "c".into(), ..large }];
        let refusal = push_prelude(&mut Vec::new(), &Header::default(), &three).unwrap_err();
        assert!(refusal.to_string().contains("32 MiB"));
    }
}
