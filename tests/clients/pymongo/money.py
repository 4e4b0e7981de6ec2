"""Moving money by transactions, and counting, over a network that loses requests and answers: each effect is there once.

The second argument is the URI of the proxy that loses them. With a third one, `killed`, the server is killed and started again meanwhile.
"""

import sys

from pymongo import MongoClient
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

MOVES = 20

bank = MongoClient(sys.argv[1]).bank
bank.accounts.insert_many([{"_id": "Ada", "has": 1000}, {"_id": "Grace", "has": 0}])
bank.moves.insert_one({"_id": "first"})
lossy = MongoClient(sys.argv[2]).bank


def move(number):
    def moving(session):
        lossy.moves.insert_one({"_id": number}, session=session)
        taken = lossy.accounts.update_one({"_id": "Ada", "has": {"$gte": 10}}, {"$inc": {"has": -10}}, session=session)
        assert taken.modified_count == 1
        lossy.accounts.update_one({"_id": "Grace"}, {"$inc": {"has": 10}}, session=session)

    with lossy.client.start_session() as session:
        session.with_transaction(
            moving, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority", wtimeout=1000)
        )


for number in range(MOVES):
    move(number)
    # Not in a transaction: the driver sends it again.
    lossy.counters.update_one({"_id": "moves"}, {"$inc": {"n": 1}}, upsert=True)
has = {account["_id"]: account["has"] for account in bank.accounts.find()}
assert has == {"Ada": 1000 - 10 * MOVES, "Grace": 10 * MOVES}, has
assert bank.counters.find_one() == {"_id": "moves", "n": MOVES}
assert bank.moves.count_documents({}) == MOVES + 1
if sys.argv[3:] == ["killed"]:
    # What a process has counted is gone with it.
    print("passed")
    sys.exit()
status = bank.client.admin.command("serverStatus")["transactions"]
assert status["totalCommitted"] == MOVES and status["totalStarted"] > MOVES, status
print("passed")
