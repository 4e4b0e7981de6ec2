"""Ids from a collection of counters: one document for each counter, and a step that counts up and answers in one."""

import sys

from pymongo import MongoClient, ReturnDocument

from racing import race

client = MongoClient(sys.argv[1])
db = client.shop

# The plain form: the counter is made first, and whoever asks for one that is not there gets nothing.
db.counters.insert_one({"_id": "userid", "seq": 0})


def get_next_sequence(name, upsert=False):
    counter = db.counters.find_one_and_update(
        {"_id": name}, {"$inc": {"seq": 1}}, upsert=upsert, return_document=ReturnDocument.AFTER
    )
    return None if counter is None else counter["seq"]


db.users.insert_one({"_id": get_next_sequence("userid"), "name": "Ada"})
db.users.insert_one({"_id": get_next_sequence("userid"), "name": "Blaise"})
assert list(db.users.find().sort("_id")) == [{"_id": 1, "name": "Ada"}, {"_id": 2, "name": "Blaise"}]
assert db.counters.find_one() == {"_id": "userid", "seq": 2}
assert get_next_sequence("nobody made it") is None

# With upsert the first who asks makes it, also when several ask at once.
THREADS, EACH = 8, 40


def work(thread):
    for number in range(EACH):
        db.orders.insert_one({"_id": get_next_sequence("orderid", upsert=True), "thread": thread, "number": number})


race(THREADS, work)
assert [order["_id"] for order in db.orders.find().sort("_id")] == list(range(1, THREADS * EACH + 1))
for thread in range(THREADS):
    mine = [order["number"] for order in db.orders.find({"thread": thread}).sort("_id")]
    assert mine == list(range(EACH)), "who asks later gets more"
print("passed")
