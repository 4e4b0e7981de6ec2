//! Any bytes as an archive, as a stream of documents, as the metadata of a collection, as a prelude and as the name of a
//! file: reading ends, and what is read is what was written.

#![no_main]

use cairndb_formats::dump::archive::{Checksum, TERMINATOR, push_end, push_prelude, push_segment};
use cairndb_formats::dump::metadata::Metadata;
use cairndb_formats::dump::names::{FILE_NAME_BYTES_MAX, Named, collection_name, file_name};
use cairndb_formats::dump::prelude::{Carried, Prelude};
use cairndb_formats::dump::reader::{ArchiveReader, Piece};
use cairndb_formats::dump::stream::DocumentStream;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    match kind % 5 {
        0 => archive(bytes),
        1 => documents(bytes),
        2 => metadata(bytes),
        3 => prelude(bytes),
        _ => name(&String::from_utf8_lossy(bytes)),
    }
});

/// An archive that is read to its end is written again, collection after collection, and has the same documents.
fn archive(bytes: &[u8]) {
    let Ok(mut reader) = ArchiveReader::open(bytes) else { return };
    let (header, declared) = (reader.header().clone(), reader.declared().to_vec());
    let mut bodies: Vec<(Vec<u8>, Checksum)> = declared.iter().map(|_| Default::default()).collect();
    let mut document = Vec::new();
    loop {
        match reader.next(&mut document) {
            Ok(Some(Piece::Document(at))) => {
                bodies[at].0.extend_from_slice(&document);
                bodies[at].1.update(&document);
            }
            Ok(Some(Piece::End(..))) => {}
            Ok(None) => break,
            Err(_) => return,
        }
        assert!(reader.offset() <= bytes.len() as u64);
    }
    let mut written = Vec::new();
    push_prelude(&mut written, &header, &declared).expect("it was read");
    for (one, (body, checksum)) in declared.iter().zip(&bodies) {
        if !body.is_empty() {
            push_segment(&mut written, &one.database, &one.collection);
            written.extend_from_slice(body);
            written.extend_from_slice(&TERMINATOR);
        }
        push_end(&mut written, &one.database, &one.collection, checksum, None).expect("it is small");
    }
    let mut again = ArchiveReader::open(&*written).expect("it was written");
    let mut read: Vec<Vec<u8>> = vec![Vec::new(); declared.len()];
    while let Some(piece) = again.next(&mut document).expect("it was written") {
        if let Piece::Document(at) = piece {
            read[at].extend_from_slice(&document);
        }
    }
    assert!(read.iter().zip(&bodies).all(|(read, (body, _))| read == body));
    if let Some(carried) = header.carried {
        let _ = Carried::parse(carried);
    }
}

fn documents(bytes: &[u8]) {
    let mut stream = DocumentStream::new(bytes);
    let (mut document, mut all) = (Vec::new(), Vec::new());
    while let Ok(true) = stream.next(&mut document) {
        all.extend_from_slice(&document);
    }
    assert!(bytes.starts_with(&all));
}

fn metadata(bytes: &[u8]) {
    let Ok(metadata) = Metadata::parse(bytes) else { return };
    let _ = metadata.is_view();
    let document = metadata.to_document();
    assert_eq!(document.get_array("indexes").map(Vec::len).ok(), Some(metadata.indexes.len()));
}

fn prelude(bytes: &[u8]) {
    let Ok(prelude) = Prelude::parse(bytes) else { return };
    if let Some(carried) = prelude.carried {
        assert!(Carried::parse(carried.to_document()).is_ok());
    }
}

fn name(text: &str) {
    let _ = collection_name(text);
    let escaped = file_name(text);
    assert!(escaped.len() <= FILE_NAME_BYTES_MAX && !escaped.contains('/') && escaped.is_ascii());
    match collection_name(&escaped) {
        Some(Named::Whole(name)) => assert_eq!(name, text),
        Some(Named::Shortened) => assert_eq!(escaped.len(), FILE_NAME_BYTES_MAX),
        None => panic!("{text:?} is {escaped:?}"),
    }
}
