"""Numbers without a counter: look for the highest, try the next, and begin again if somebody was faster (code 11000)."""

import sys

from pymongo import DESCENDING, MongoClient
from pymongo.errors import DuplicateKeyError

from racing import race

THREADS, EACH = 6, 40
client = MongoClient(sys.argv[1])
users = client.shop.users
lost = []


def insert_document(document, collection):
    while True:
        highest = collection.find({}, {"_id": 1}).sort("_id", DESCENDING).limit(1)
        document["_id"] = next((found["_id"] for found in highest), 0) + 1
        try:
            return collection.insert_one(document).inserted_id
        except DuplicateKeyError as refusal:
            assert refusal.code == 11000
            assert refusal.details["keyValue"] == {"_id": document["_id"]}, refusal.details
            lost.append(document["_id"])


def work(thread):
    previous = 0
    for _ in range(EACH):
        number = insert_document({"thread": thread}, users)
        assert number > previous
        previous = number


race(THREADS, work)
assert [user["_id"] for user in users.find().sort("_id")] == list(range(1, THREADS * EACH + 1)), "no gap, none twice"
for thread in range(THREADS):
    assert users.count_documents({"thread": thread}) == EACH
print(f"{len(lost)} attempts were lost")
print("passed")
