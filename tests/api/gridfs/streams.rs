//! The streams: contents of every size, in pieces of every size, and positions everywhere.

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};

use cairndb::bson::{Bson, doc, spec::BinarySubtype};
use cairndb_tests::choices::{Choices, seed};

use super::{Files, content, count, download, upload};

const CHUNK: usize = 64;

#[track_caller]
fn check_stored(files: &Files, id: &Bson, expected: &[u8]) {
    let file = files.files().find_one(doc! { "_id": id.clone() }).run().expect("read").expect("it is there");
    let names: Vec<&str> = file.keys().map(String::as_str).collect();
    assert_eq!(names, ["_id", "length", "chunkSize", "uploadDate", "filename"]);
    assert_eq!(file.get("length"), Some(&Bson::Int64(expected.len().try_into().expect("it is small"))));
    assert_eq!(file.get("chunkSize"), Some(&Bson::Int32(CHUNK.try_into().expect("it is small"))));
    let chunks =
        files.chunks().find(doc! { "files_id": id.clone() }).sort(doc! { "n": 1 }).run().expect("read");
    let chunks: Vec<_> = chunks.collect::<Result<_, _>>().expect("documents");
    let parts: Vec<&[u8]> = expected.chunks(CHUNK).collect();
    assert_eq!(chunks.len(), parts.len());
    for (n, (chunk, part)) in chunks.iter().zip(parts).enumerate() {
        let names: Vec<&str> = chunk.keys().map(String::as_str).collect();
        assert_eq!(names, ["_id", "files_id", "n", "data"]);
        assert!(matches!(chunk.get("_id"), Some(Bson::ObjectId(_))));
        assert_eq!(chunk.get("n"), Some(&Bson::Int32(n.try_into().expect("it is small"))));
        let Some(Bson::Binary(data)) = chunk.get("data") else { panic!("{chunk}") };
        assert_eq!((data.subtype, data.bytes.as_slice()), (BinarySubtype::Generic, part));
    }
}

#[test]
fn files_of_every_size_come_back() {
    let files = Files::new();
    for length in
        [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 100 * CHUNK + 7]
    {
        let content = content(length);
        let id = files.upload("sized", &content, CHUNK.try_into().expect("it is small"));
        check_stored(&files, &id, &content);
        assert_eq!(download(&files.bucket, id).expect("read"), content, "{length}");
    }
    super::super::verify_clean(&files.client);
}

#[test]
fn more_than_a_batch_comes_back() {
    let files = Files::new();
    // Several batches, each with several chunks, and chunks larger than a batch.
    for (length, chunk_size) in [(11 << 20, 255 * 1024), (11 << 20, 5 << 20), (300_000, 100), (3000, 1)] {
        let content = content(length);
        let id = files.upload("large", &content, chunk_size);
        assert!(download(&files.bucket, id).expect("read") == content, "{length} bytes by {chunk_size}");
    }
    assert_eq!(count(&files.chunks()), 45 + 3 + 3000 + 3000);
}

#[test]
fn a_file_is_written_and_read_in_pieces_of_any_size() {
    let seed = seed();
    let (files, mut choices) = (Files::new(), Choices::seeded(seed));
    for round in 0..30 {
        let content = content(choices.index(700));
        let mut upload = files
            .bucket
            .open_upload_stream("pieces")
            .chunk_size_bytes(CHUNK.try_into().expect("it is small"))
            .run()
            .unwrap();
        let mut left = content.as_slice();
        while !left.is_empty() {
            let (piece, rest) = left.split_at(left.len().min(1 + choices.index(150)));
            upload.write_all(piece).expect("written");
            if choices.one_in(4) {
                upload.flush().expect("flushed");
            }
            left = rest;
        }
        upload.close().expect("closed");
        let mut stream = files.bucket.open_download_stream(upload.id().clone()).run().expect("opened");
        let mut found = Vec::new();
        loop {
            let mut buffer = vec![0; 1 + choices.index(150)];
            match stream.read(&mut buffer).expect("read") {
                0 => break,
                read => found.extend_from_slice(&buffer[..read]),
            }
        }
        assert_eq!(found, content, "seed {seed}, round {round}");
    }
}

/// The standard library's own stream over the same bytes is what positions and reads are compared with.
#[test]
fn positions_are_those_of_any_stream() {
    let seed = seed();
    let (files, mut choices) = (Files::new(), Choices::seeded(seed));
    for length in [0, 1, CHUNK, 3 * CHUNK, 10 * CHUNK + 5] {
        let content = content(length);
        let id = files.upload("sought", &content, CHUNK.try_into().expect("it is small"));
        let mut stream = files.bucket.open_download_stream(id).run().expect("opened");
        let mut model = Cursor::new(content);
        for _ in 0..200 {
            let far =
                i64::try_from(choices.index(2 * length + 20)).unwrap() - i64::try_from(length).unwrap() - 10;
            let to = match choices.index(4) {
                0 => SeekFrom::Start(choices.index(2 * length + 2) as u64),
                1 => SeekFrom::Current(far),
                2 => SeekFrom::End(far),
                _ => SeekFrom::Current(0),
            };
            let (found, expected) = (stream.seek(to), model.seek(to));
            assert_eq!(found.as_ref().ok(), expected.as_ref().ok(), "seed {seed}: {to:?}");
            if let Err(error) = found {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            }
            let mut buffers = [vec![0; choices.index(100)], Vec::new()];
            buffers[1] = buffers[0].clone();
            let [one, other] = &mut buffers;
            assert_eq!(read_full(&mut stream, one), read_full(&mut model, other), "seed {seed}: {to:?}");
            assert_eq!(one, other, "seed {seed}: {to:?}");
        }
    }
}

/// Reads until the buffer is full or the stream ends.
fn read_full(stream: &mut impl Read, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    while let read @ 1.. = stream.read(buffer.get_mut(filled..).unwrap_or_default()).expect("read") {
        filled += read;
    }
    filled
}

#[test]
fn positions_at_the_ends_of_the_range_are_refused_or_empty() {
    let files = Files::new();
    let id = files.upload("small", b"0123456789", 4);
    let mut stream = files.bucket.open_download_stream(id).run().expect("opened");
    let mut byte = [0];
    for to in [SeekFrom::Start(u64::MAX), SeekFrom::Start(10), SeekFrom::End(i64::MAX)] {
        stream.seek(to).expect("after the end");
        assert_eq!(stream.read(&mut byte).expect("nothing"), 0);
    }
    stream.seek(SeekFrom::Start(u64::MAX)).expect("after the end");
    for to in [SeekFrom::Current(1), SeekFrom::End(i64::MIN), SeekFrom::End(-11)] {
        assert_eq!(stream.seek(to).expect_err("no position").kind(), io::ErrorKind::InvalidInput);
    }
    // A rejected move leaves the position as it was.
    assert_eq!(stream.stream_position().expect("known"), u64::MAX);
    stream.seek(SeekFrom::End(-1)).expect("the last byte");
    assert_eq!((stream.read(&mut byte).expect("read"), byte[0]), (1, b'9'));
}

#[test]
fn a_reader_goes_on_in_what_it_began_to_read() {
    let files = Files::new();
    let content = content(10 * CHUNK);
    let id = files.upload("deleted", &content, CHUNK.try_into().expect("it is small"));
    let mut stream = files.bucket.open_download_stream(id.clone()).run().expect("opened");
    let mut found = vec![0; 10];
    stream.read_exact(&mut found).expect("read");
    files.bucket.delete(id).run().expect("deleted");
    stream.read_to_end(&mut found).expect("the chunks of the moment at which it began");
    assert_eq!(found, content);
    // Another position is looked up again.
    stream.rewind().expect("moved");
    assert!(stream.read(&mut [0]).is_err());
}

#[test]
fn streams_are_sent_to_other_threads() {
    let files = Files::new();
    let mut stream = files.bucket.open_upload_stream("sent").run().expect("opened");
    let stream = std::thread::spawn(move || {
        stream.write_all(b"from a thread").expect("written");
        stream
    });
    let mut stream = stream.join().expect("no panic");
    stream.close().expect("closed");
    let mut download = files.bucket.open_download_stream(stream.id().clone()).run().expect("opened");
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        download.read_to_string(&mut text).map(|_| text)
    });
    assert_eq!(read.join().expect("no panic").expect("read"), "from a thread");
}

#[test]
fn copies_go_from_stream_to_stream() {
    let files = Files::new();
    let content = content(1_000_000);
    let id = files.upload("one", &content, 1000);
    let mut from = files.bucket.open_download_stream(id).run().expect("opened");
    let mut to = files.bucket.open_upload_stream("other").run().expect("opened");
    assert_eq!(io::copy(&mut from, &mut to).expect("copied"), 1_000_000);
    to.close().expect("closed");
    assert!(download(&files.bucket, to.id().clone()).expect("read") == content);
    assert!(upload(&files.bucket, "third", &[], 1) != *to.id());
}
