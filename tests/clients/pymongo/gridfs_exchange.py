"""Files that PyMongo and the embedded API write for each other. The second argument says which half of the exchange it is."""

import os
import signal
import sys

import gridfs
from gridfs.synchronous import grid_file
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure

SIZES = [0, 1, 999, 1000, 1001, 12_345]
client = MongoClient(sys.argv[1], serverSelectionTimeoutMS=2000)
media = client.media
bucket = gridfs.GridFSBucket(media)


def content(length):
    return bytes(place * 31 % 251 for place in range(length))


def write():
    """Files of every kind that the driver makes."""
    for size in SIZES:
        bucket.upload_from_stream(f"python {size}", content(size), chunk_size_bytes=1000, metadata={"size": size})
    with bucket.open_upload_stream_with_id("own id", "python large") as upload:
        for _ in range(30):
            upload.write(content(100_000))
    # The legacy class puts fields of its own beside those of the specification.
    gridfs.GridFS(media).put(content(5000), _id=7, filename="python legacy", contentType="text/plain", extra=[1, 2])


def die():
    """An upload whose server is killed, by the number of its process in the third argument."""
    # The driver gathers many chunks before it sends them. It has no option for that, only this constant.
    assert grid_file._UPLOAD_BUFFER_CHUNKS > 10
    grid_file._UPLOAD_BUFFER_CHUNKS = 10
    upload = bucket.open_upload_stream("python killed", chunk_size_bytes=1000)
    for _ in range(40):
        upload.write(content(1000))
    assert media.fs.chunks.count_documents({"files_id": upload._id}) >= 30
    os.kill(int(sys.argv[3]), signal.SIGKILL)
    try:
        for _ in range(1000):
            upload.write(content(100_000))
        raise AssertionError("the server is dead")
    except ConnectionFailure:
        pass


def read():
    """What the embedded API has written is read, moved in, renamed and removed."""
    names = sorted(file.filename for file in bucket.find())
    assert [name for name in names if name.startswith("rust")] == sorted(f"rust {size}" for size in SIZES + [3_000_000]), names
    for file in bucket.find({"filename": {"$regex": "^rust"}}):
        assert file.read() == content(file.length), file.filename
        assert file.metadata == {"size": file.length}
        for place in (0, file.length // 2, max(file.length - 1, 0)):
            file.seek(place)
            assert file.read(10) == content(file.length)[place : place + 10], (file.filename, place)
    indexes = media.fs.chunks.index_information()
    assert [index["key"] for index in indexes.values()] == [[("_id", 1)], [("files_id", 1), ("n", 1)]], indexes
    # What the driver does with a file of its own it does with these.
    bucket.rename(bucket.open_download_stream_by_name("rust 1000")._id, "renamed by python")
    bucket.delete(bucket.open_download_stream_by_name("rust 1001")._id)
    assert bucket.open_download_stream_by_name("python 12345").read() == content(12_345)


{"write": write, "die": die, "read": read}[sys.argv[2]]()
client.close()
print("passed")
