"""Files that Python writes are imported by `cairn import`, and what `cairn export` writes is read by Python."""

import csv
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import bson
from bson import json_util
from bson.codec_options import CodecOptions
from pymongo import MongoClient

uri, cairn = sys.argv[1:3]
# Dates with their zone, as json_util reads them.
options = CodecOptions(tz_aware=True)
shop = MongoClient(uri).get_database("shop", codec_options=options)
folder = Path(tempfile.mkdtemp())

documents = [
    {
        "_id": bson.ObjectId("507f1f77bcf86cd799439011"),
        "int": 1,
        "long": bson.Int64(1 << 40),
        "double": 1.5,
        "text": 'a "b",\n\tü\u2028\x01',
        "list": [1, [True, None], {}],
        "date": datetime.datetime(2024, 2, 29, 12, 0, 0, 500000, tzinfo=datetime.timezone.utc),
        "early": datetime.datetime(1960, 1, 1, tzinfo=datetime.timezone.utc),
        "bytes": b"\x00\xff",
        "uuid": bson.Binary(b"0123456789abcdef", 4),
        "decimal": bson.Decimal128("1.50"),
        "pattern": bson.Regex("a/b", "im"),
        "stamp": bson.Timestamp(4, 5),
        "code": bson.Code("f()", {"x": 1}),
        "min": bson.MinKey(),
        "max": bson.MaxKey(),
        "reference": bson.DBRef("other", 7),
    },
    {"_id": 2, "nothing": None},
]


def run(*arguments):
    done = subprocess.run([cairn, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)


def imported(path, *more):
    run("import", uri, "shop.files", str(path), "--drop", *more)
    return list(shop.files.find().sort("_id", -1))


modes = {
    "canonical": json_util.CANONICAL_JSON_OPTIONS,
    "relaxed": json_util.RELAXED_JSON_OPTIONS,
    "legacy": json_util.LEGACY_JSON_OPTIONS,
}
for mode, how in modes.items():
    # Regular expressions of the old dialect look like operators of a query, and stay documents.
    kept = [{name: value for name, value in document.items() if mode != "legacy" or name != "pattern"} for document in documents]
    path = folder / f"{mode}.ndjson"
    path.write_text("".join(json_util.dumps(document, json_options=how) + "\n" for document in kept))
    assert imported(path) == kept, mode
    path = folder / f"{mode}.json"
    path.write_text(json_util.dumps(kept, json_options=how, indent=2))
    assert imported(path) == kept, mode

path = folder / "all.bson"
path.write_bytes(b"".join(bson.encode(document) for document in documents))
assert imported(path) == documents

# Plain JSON, by the module of every Python: as lines and as an array, indented or not, with escapes or without.
plain = [
    {"_id": 2, "text": 'ü "quoted"\n\u2028 𝄞', "numbers": [1, -1.5, 1e300, 0, 1 << 40], "none": None, "flag": True},
    {"_id": 1, "nested": {"list": [[], {}, [{"a": 1}]], "": "an empty name"}},
]
for ascii_only in (True, False):
    path = folder / "plain.ndjson"
    path.write_text("".join(json.dumps(document, ensure_ascii=ascii_only) + "\n" for document in plain), encoding="utf-8")
    assert imported(path) == plain, ascii_only
    for indent in (None, 2):
        path = folder / "plain.json"
        path.write_text(json.dumps(plain, ensure_ascii=ascii_only, indent=indent), encoding="utf-8")
        assert imported(path) == plain, (ascii_only, indent)
run("export", uri, "shop.files", str(folder / "plain-out.json"), "--format", "json", "--sort", '{"_id":-1}')
assert json.loads((folder / "plain-out.json").read_text(encoding="utf-8")) == plain

rows = [
    {"_id": "1", "text": 'a "b",\nc', "number": "007", "price": "1.25", "flag": "true"},
    {"_id": "2", "text": "ü\t", "number": "", "price": "-3.5", "flag": "false"},
]
for dialect, name in (("excel", "rows.csv"), ("excel-tab", "rows.tsv"), ("unix", "unix.csv")):
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), dialect=dialect)
        writer.writeheader()
        writer.writerows(rows)
    found = imported(path, "--types", "text")
    assert found == rows[::-1], (name, found)
    found = imported(path)
    assert [row["price"] for row in found] == [-3.5, 1.25] and [row["flag"] for row in found] == [False, True], found
    back = folder / f"back-{name}"
    kind = "tsv" if dialect == "excel-tab" else "csv"
    run("export", uri, "shop.files", str(back), "--format", kind, "--fields", ",".join(rows[0]), "--sort", '{"_id":1}')
    with back.open(newline="") as file:
        assert list(csv.DictReader(file, dialect="excel-tab" if kind == "tsv" else "excel")) == rows

shop.files.drop()
shop.files.insert_many(documents)
run("export", uri, "shop.files", str(folder / "out.ndjson"), "--canonical", "--sort", '{"_id":-1}')
lines = (folder / "out.ndjson").read_text().split("\n")[:-1]
aware = json_util.JSONOptions(tz_aware=True)
assert [json_util.loads(line, json_options=aware) for line in lines] == documents
run("export", uri, "shop.files", str(folder / "out.bson"), "--format", "bson", "--sort", '{"_id":-1}')
with (folder / "out.bson").open("rb") as file:
    assert list(bson.decode_file_iter(file, options)) == documents
print("passed")
