"""Writes with tokens over a network that loses requests and answers: each is repeated until there is an answer, and happens once.

The second argument is the URI of the proxy that loses them. The server is no replica set, so the driver repeats nothing by itself.
"""

import sys
import uuid

from bson import Binary, ObjectId
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure

WRITES = 12

shop = MongoClient(sys.argv[1]).shop
lossy = MongoClient(sys.argv[2]).shop
replays = 0


def once(command, token):
    """Sends a command until there is an answer, and counts those that had happened before."""
    global replays
    while True:
        try:
            reply = lossy.command({**command, "exactlyOnce": token})
        except ConnectionFailure:
            continue
        replays += reply.get("replayed", False)
        return reply


for number in range(WRITES):
    one = {"q": {"_id": "lamps"}, "u": {"$inc": {"sold": 1}}, "upsert": True}
    assert once({"update": "stock", "updates": [one]}, f"sale {number}")["n"] == 1
    both = [{"q": {"_id": name}, "u": {"$inc": {"n": 1}}, "upsert": True} for name in ("a", "b")]
    assert once({"update": "pairs", "updates": both}, Binary.from_uuid(uuid.uuid4()))["n"] == 2
    order = {"insert": "orders", "documents": [{"number": number}]}
    assert once(order, ObjectId())["n"] == 1
    modify = {"findAndModify": "stock", "query": {"_id": "next"}, "update": {"$inc": {"n": 1}}, "upsert": True, "new": True}
    assert once(modify, b"next %d" % number)["value"]["n"] == number + 1
    removal = {"delete": "orders", "deletes": [{"q": {"number": number - 1}, "limit": 1}]}
    assert once(removal, f"removal {number}")["n"] == (number > 0)

assert shop.stock.find_one({"_id": "lamps"})["sold"] == WRITES
assert [pair["n"] for pair in shop.pairs.find()] == [WRITES, WRITES]
assert [order["number"] for order in shop.orders.find()] == [WRITES - 1]
assert replays > 0, "the proxy loses answers"
try:
    shop.command({"insert": "orders", "documents": [{}], "exactlyOnce": "sale 1"})
    raise AssertionError("the token of another command was taken")
except OperationFailure as refused:
    assert refused.code == 72, refused
print("passed")
