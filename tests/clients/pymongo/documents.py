"""What PyMongo does all day: documents in, changed, out; bulk writes, indexes, and refusals by their numbers."""

import datetime
import sys

import pymongo
from bson import Decimal128, Int64, ObjectId, Regex
from pymongo import DeleteMany, InsertOne, MongoClient, ReplaceOne, ReturnDocument, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

client = MongoClient(sys.argv[1])
things = client.shop.things

# ObjectIds: made by the driver, or given as 24 hexadecimal digits.
made = things.insert_one({"name": "pen"}).inserted_id
assert isinstance(made, ObjectId)
given = ObjectId("507f1f77bcf86cd799439011")
things.insert_one({"_id": given, "name": "ink"})
assert things.find_one({"_id": ObjectId("507F1F77BCF86CD799439011")})["name"] == "ink"
assert things.find_one({"_id": "507f1f77bcf86cd799439011"}) is None, "a text is no ObjectId"
assert given.generation_time == datetime.datetime(2012, 10, 17, 21, 13, 27, tzinfo=datetime.timezone.utc)
assert [thing["_id"] for thing in things.find().sort("_id")] == sorted([given, made])

# Every document comes back as it went.
types = {
    "_id": Int64(1 << 40),
    "real": 0.5,
    "text": "näher",
    "list": [1, [2, {}], None],
    "bytes": b"\x00\x01",
    "date": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
    "pattern": Regex("^a", "i"),
    "decimal": Decimal128("1.50"),
}
things.insert_one(types)
assert things.find_one({"_id": 1 << 40}) == types
things.drop()

# A bulk write of all kinds; an unordered one goes on behind a refusal.
result = things.bulk_write(
    [
        InsertOne({"_id": 1, "n": 1}),
        InsertOne({"_id": 2, "n": 2}),
        UpdateOne({"_id": 1}, {"$inc": {"n": 10}}),
        UpdateOne({"_id": 3}, {"$set": {"n": 3}}, upsert=True),
        ReplaceOne({"_id": 2}, {"n": 20}),
        DeleteMany({"n": 3}),
    ]
)
assert (result.inserted_count, result.modified_count, result.deleted_count) == (2, 2, 1), result
assert result.upserted_ids == {3: 3}, result
assert list(things.find(sort=[("_id", 1)])) == [{"_id": 1, "n": 11}, {"_id": 2, "n": 20}]
try:
    things.bulk_write([InsertOne({"_id": 2}), InsertOne({"_id": 4}), InsertOne({"_id": 1})], ordered=False)
    raise AssertionError("two of three are there")
except BulkWriteError as error:
    assert error.details["nInserted"] == 1, error.details
    assert [(refusal["index"], refusal["code"]) for refusal in error.details["writeErrors"]] == [(0, 11000), (2, 11000)]

# Duplicate keys say which.
things.create_index([("mail", 1)], unique=True, sparse=True)
things.insert_one({"_id": 5, "mail": "a@b.c"})
try:
    things.insert_one({"_id": 6, "mail": "a@b.c"})
    raise AssertionError("the mail is taken")
except DuplicateKeyError as error:
    assert error.code == 11000
    assert error.details["keyPattern"] == {"mail": 1}, error.details
    assert error.details["keyValue"] == {"mail": "a@b.c"}, error.details
try:
    things.find_one_and_update({"_id": 4}, {"$set": {"mail": "a@b.c"}})
    raise AssertionError("the mail is taken")
except DuplicateKeyError as error:
    assert error.details["keyValue"] == {"mail": "a@b.c"}, error.details
assert sorted(things.index_information()) == ["_id_", "mail_1"]
assert things.index_information()["mail_1"]["unique"] is True

# Batches, sorts, projections, counts.
things.drop()
things.insert_many({"_id": number, "kind": number % 3} for number in range(500))
cursor = things.find({"kind": 1}, {"kind": 0}, batch_size=20).sort("_id", pymongo.DESCENDING)
assert [thing["_id"] for thing in cursor] == list(range(499, 0, -3))
assert things.count_documents({"kind": 1}) == 167
assert things.estimated_document_count() == 500
assert sorted(things.distinct("kind")) == [0, 1, 2]
groups = things.aggregate([{"$group": {"_id": "$kind", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
assert list(groups) == [{"_id": 0, "n": 167}, {"_id": 1, "n": 167}, {"_id": 2, "n": 166}]

# What a search looks at, and what a write would do.
explained = things.find({"_id": {"$gte": 10, "$lt": 30}, "kind": 1}).explain()
assert explained["queryPlanner"]["winningPlan"]["stage"] == "CLUSTERED_IXSCAN", explained
assert explained["executionStats"]["nReturned"] == 7, explained
assert explained["executionStats"]["totalDocsExamined"] == 20, explained
assert explained["executionStats"]["allPlansExecution"] == [], explained
write = {"update": "things", "updates": [{"q": {"kind": 1}, "u": {"$set": {"kind": 1}}, "multi": True}]}
told = client.shop.command("explain", write, verbosity="executionStats")["executionStats"]["executionStages"]
assert (told["stage"], told["nMatched"], told["nWouldModify"]) == ("UPDATE", 167, 0), told

changed = things.find_one_and_update({"_id": 7}, {"$set": {"kind": 9}}, return_document=ReturnDocument.AFTER)
assert changed == {"_id": 7, "kind": 9}
assert things.find_one_and_delete({"_id": 7}) == changed
assert things.find_one_and_delete({"_id": 7}) is None

# Writes that wait for no answer are done, the refused one among them without a word.
blind = things.with_options(write_concern=WriteConcern(w=0))
for number in [1000, 1000, 1001]:
    blind.insert_one({"_id": number})
assert any(things.count_documents({"_id": {"$gte": 1000}}) == 2 for _ in range(100_000))

# A session of the driver's own, and its end.
with client.start_session() as session:
    assert things.find_one({"_id": 8}, session=session) == {"_id": 8, "kind": 2}

# What is not there.
for command, code in [({"bogus": 1}, 59), ({"collStats": "none"}, 26), ({"listIndexes": "none"}, 26)]:
    try:
        client.shop.command(command)
        raise AssertionError(f"{command} is refused")
    except OperationFailure as error:
        assert error.code == code, error.details
assert client.shop.list_collection_names() == ["things"]
assert client.list_database_names() == ["admin", "shop"]
client.drop_database("shop")
assert client.list_database_names() == ["admin"]
assert client.server_info()["versionArray"][0] == 8
print("passed")
