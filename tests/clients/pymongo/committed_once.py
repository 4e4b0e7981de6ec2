"""Transactions with tokens over a network that loses requests and answers: each attempt is a new transaction, and one of them happens.

The second argument is the URI of the proxy that loses them. The driver is not told to commit, because it knows no tokens.
"""

import sys
import uuid

from bson import Binary, ObjectId
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

MOVES = 12

bank = MongoClient(sys.argv[1]).bank
lossy = MongoClient(sys.argv[2], retryWrites=False).bank
bank.accounts.insert_many([{"_id": "Ada", "has": 1000}, {"_id": "Grace", "has": 0}])
bank.moves.insert_one({"_id": "first"})
replays = attempts = 0


def commit(session, token):
    """Sends a commit with a token within a session, whose transaction the driver holds to be in progress."""
    return session.client.admin.command({"commitTransaction": 1, "exactlyOnce": token}, session=session)


def move(number, token):
    """Tries until a commit is answered. What became of an attempt without an answer is not known, and need not be."""
    global replays, attempts
    for _ in range(100):
        attempts += 1
        with lossy.client.start_session() as session:
            try:
                session.start_transaction()
                # Not by its number: without the token it would be made as often as it is tried.
                lossy.moves.insert_one({"number": number}, session=session)
                for name, amount in (("Ada", -10), ("Grace", 10)):
                    lossy.accounts.update_one({"_id": name}, {"$inc": {"has": amount}}, session=session)
                reply = commit(session, token)
            except OperationFailure as refused:
                # An attempt whose answer was lost holds its accounts until its session ends.
                assert refused.has_error_label("TransientTransactionError"), refused
                continue
            except PyMongoError:
                continue
        replays += reply.get("replayed", False)
        return
    raise AssertionError(f"the move {number} is never answered")


for number in range(MOVES):
    token = [f"move {number}", Binary.from_uuid(uuid.uuid4()), ObjectId(), b"move %d" % number][number % 4]
    move(number, token)
has = {account["_id"]: account["has"] for account in bank.accounts.find()}
assert has == {"Ada": 1000 - 10 * MOVES, "Grace": 10 * MOVES}, has
numbers = [made["number"] for made in bank.moves.find({"number": {"$exists": True}}, sort=[("number", 1)])]
assert numbers == list(range(MOVES)), numbers
assert attempts > MOVES and replays > 0, f"the proxy loses messages: {attempts}, {replays}"

# What is no token commits nothing, and the transaction goes on.
with bank.client.start_session() as session:
    session.start_transaction()
    bank.moves.insert_one({"_id": "last"}, session=session)
    for token, code in (("", 2), ("x" * 65, 2), (b"x" * 65, 2), (7, 14)):
        try:
            commit(session, token)
            raise AssertionError(f"{token!r} was taken")
        except OperationFailure as refused:
            assert refused.code == code, refused
        assert bank.moves.count_documents({"_id": "last"}) == 0
    assert "replayed" not in commit(session, "the last one")
assert bank.moves.count_documents({"_id": "last"}) == 1
# Another transaction with a token that is spent is aborted.
with bank.client.start_session() as session:
    session.start_transaction()
    bank.moves.insert_one({"_id": "later"}, session=session)
    assert commit(session, "the last one")["replayed"] is True
assert bank.moves.count_documents({"_id": "later"}) == 0
print("passed")
