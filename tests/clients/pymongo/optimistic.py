"""Numbers without a counter: look for the highest, try the next, and begin again if somebody was faster (code 11000)."""

import sys
import threading

from pymongo import DESCENDING, MongoClient
from pymongo.errors import DuplicateKeyError

THREADS, EACH = 6, 40
client = MongoClient(sys.argv[1])
users = client.shop.users
start = threading.Barrier(THREADS)
lost, failures = [], []


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
    try:
        start.wait()
        previous = 0
        for _ in range(EACH):
            number = insert_document({"thread": thread}, users)
            assert number > previous
            previous = number
    except BaseException as failure:
        failures.append(failure)


threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert failures == [], failures
assert [user["_id"] for user in users.find().sort("_id")] == list(range(1, THREADS * EACH + 1)), "no gap, none twice"
for thread in range(THREADS):
    assert users.count_documents({"thread": thread}) == EACH
print(f"{len(lost)} attempts were lost")
print("passed")
