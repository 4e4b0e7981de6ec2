"""What `cairn dump` writes is read by Python, and what Python writes in the form of mongodump is restored."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote_plus

import bson
from bson import json_util
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS
from pymongo import MongoClient

uri, cairn = sys.argv[1:3]
client = MongoClient(uri)
folder = Path(tempfile.mkdtemp())


def run(*arguments):
    subprocess.run([cairn, *map(str, arguments)], check=True, cwd=folder)


def stored(database):
    """The bytes of all documents, by collection."""
    database = client.get_database(database, codec_options=DEFAULT_RAW_BSON_OPTIONS)
    names = [one["name"] for one in client[database.name].list_collections() if one["type"] == "collection"]
    return {name: [document.raw for document in database[name].find(sort=[("_id", 1)])] for name in names}


shop = client["shop"]
shop["odd name%/.ü"].insert_many(
    {"_id": number, "value": value}
    for number, value in enumerate(
        [1, bson.Int64(1), 1.0, "ü\0", b"\xff", None, {}, [], bson.MinKey(), bson.Regex("a", "i"), bson.Timestamp(1, 2)]
    )
)
shop.create_collection("orders", validator={"total": {"$gte": 0}})
shop["orders"].insert_many({"_id": number, "total": number} for number in range(1_500))
shop["orders"].create_index([("total", -1), ("_id", 1)], name="totals", sparse=True)
shop.command({"create": "numbered", "autoIncrement": {"Field": "n", "Increment": 5}})
shop["numbered"].insert_many({} for _ in range(3))
shop.command({"create": "newest", "viewOn": "orders", "pipeline": [{"$limit": 3}]})
shop.command({"createSequence": "tickets"})
shop.command({"sequenceNext": "tickets"})

# Every file is what Python's own readers take.
run("dump", uri, "dump")
before = stored("shop")
for name, documents in before.items():
    file = folder / "dump" / "shop" / f"{quote_plus(name)}.bson"
    with file.open("rb") as stream:
        read = [document.raw for document in bson.decode_file_iter(stream, DEFAULT_RAW_BSON_OPTIONS)]
    assert read == documents, name
    metadata = json_util.loads(file.with_suffix(".metadata.json").read_text(), json_options=json_util.CANONICAL_JSON_OPTIONS)
    assert metadata["collectionName"] == name and metadata["type"] == "collection", metadata
    assert metadata["indexes"][0]["key"] == {"_id": 1} and "autoIncrement" not in metadata["options"], metadata
    bytes.fromhex(metadata["uuid"])
orders = json_util.loads((folder / "dump/shop/orders.metadata.json").read_text())
assert orders["options"]["validator"] == {"total": {"$gte": 0}}, orders
assert orders["indexes"][1] == {"v": 2, "key": {"total": -1, "_id": 1}, "name": "totals", "sparse": True}, orders
view = json_util.loads((folder / "dump/shop/newest.metadata.json").read_text())
assert view["options"]["viewOn"] == "orders" and view["indexes"] == [], view
assert not (folder / "dump/shop/newest.bson").exists()
prelude = json.loads((folder / "dump/prelude.json").read_text())
assert prelude["ServerVersion"] == client.server_info()["version"], prelude
assert prelude["cairndb"]["sequences"]["shop"][0]["Name"] == "tickets", prelude

# What another writer of the same form leaves out is not needed.
written = folder / "written" / "copy"
written.mkdir(parents=True)
for name, documents in before.items():
    (written / f"{quote_plus(name)}.bson").write_bytes(b"".join(documents))
metadata = {"options": {}, "indexes": [{"v": 2, "key": {"total": 1.0}, "name": "t", "ns": "copy.orders"}]}
(written / "orders.metadata.json").write_text(json_util.dumps(metadata, json_options=json_util.CANONICAL_JSON_OPTIONS))
run("restore", uri, "written", "--verify")
assert stored("copy") == before
assert client["copy"]["orders"].index_information()["t"]["key"] == [("total", 1)]

# And back: the database comes again as it was, and goes on where it stood.
client.drop_database("shop")
run("restore", uri, "dump", "--verify")
assert stored("shop") == before
inserted = shop["numbered"].insert_one({}).inserted_id
assert shop["numbered"].find_one({"_id": inserted})["n"] == 16
assert shop.command({"sequenceNext": "tickets"})["NextValue"] == 2
assert len(list(shop["newest"].find())) == 3

print("passed")
