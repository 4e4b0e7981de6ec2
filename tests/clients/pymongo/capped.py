"""Capped collections: what stays of them, in which order, and cursors that follow them."""

import sys
import threading

from pymongo import CursorType, MongoClient
from pymongo.errors import CollectionInvalid, OperationFailure

client = MongoClient(sys.argv[1])
shop = client.shop


def ids(documents):
    return [document["_id"] for document in documents]


def refused(code, work):
    try:
        work()
        raise AssertionError(f"it is not refused with {code}")
    except OperationFailure as error:
        assert error.code == code, error


# The oldest documents make room for new ones, and all come in the order in which they were inserted.
log = shop.create_collection("log", capped=True, size=1 << 16, max=4)
assert log.options() == {"capped": True, "size": 1 << 16, "max": 4}, log.options()
log.insert_many([{"_id": number} for number in (9, 3, 7)])
assert ids(log.find()) == [9, 3, 7]
log.insert_many([{"_id": number} for number in (1, 8)])
assert ids(log.find()) == [3, 7, 1, 8]
assert ids(log.find().sort("$natural", -1)) == [8, 1, 7, 3]
assert ids(log.find().sort("_id", 1)) == [1, 3, 7, 8]
assert log.count_documents({}) == log.estimated_document_count() == 4
stats = shop.command("collStats", "log")
assert (stats["capped"], stats["max"], stats["maxSize"]) == (True, 4, 1 << 16), stats

# A change keeps the place of a document.
assert log.update_one({"_id": 7}, {"$set": {"n": 1}}).modified_count == 1
assert ids(log.find()) == [3, 7, 1, 8]

# A tailable cursor is at its end for now, and goes on.
tail = log.find(cursor_type=CursorType.TAILABLE)
assert ids(tail) == [3, 7, 1, 8]
assert tail.alive
log.insert_one({"_id": 2})
assert ids(tail) == [2]
assert tail.alive
tail.close()

# One that waits is woken by each insert.
seen = []


def follow():
    waiting = shop.log.find({"_id": {"$gte": 100}}, cursor_type=CursorType.TAILABLE_AWAIT)
    waiting = waiting.max_await_time_ms(500)
    while waiting.alive and len(seen) < 3:
        seen.extend(ids(waiting)[: 3 - len(seen)])


log.insert_one({"_id": 100})
reader = threading.Thread(target=follow)
reader.start()
for number in (5, 101, 102):
    log.insert_one({"_id": number})
reader.join(timeout=60)
assert seen == [100, 101, 102], seen

# One whose next documents are gone is told so (136), which ends a cursor of PyMongo: it leaves no document out unseen.
slow = log.find(cursor_type=CursorType.TAILABLE, batch_size=1)
first = next(slow)["_id"]
stored = ids(log.find())
log.insert_many([{"_id": number} for number in range(200, 206)])
assert [first, *ids(slow)] == stored
assert not slow.alive

# What is refused.
refused(72, lambda: shop.command("create", "boundless", capped=True))
try:
    shop.create_collection("log", capped=True, size=1 << 16, max=4)
    raise AssertionError("it is there")
except CollectionInvalid:
    pass
shop.things.insert_one({"_id": 1})
refused(2, lambda: list(shop.things.find(cursor_type=CursorType.TAILABLE)))

# A collection becomes a capped one, and limits are changed.
shop.things.insert_many([{"_id": number, "text": "x" * 1000} for number in range(2, 22)])
shop.command("convertToCapped", "things", size=1 << 13)
assert shop.things.options()["capped"] is True
left = ids(shop.things.find())
assert left == list(range(22 - len(left), 22)) and 0 < len(left) < 9, left
shop.command("collMod", "log", cappedMax=2)
log.insert_one({"_id": 300})
assert ids(log.find()) == [205, 300]
print("passed")
