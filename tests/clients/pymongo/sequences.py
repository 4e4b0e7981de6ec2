"""CairnDB's own commands, as any driver sends them: sequences, and fields that number themselves."""

import sys
import threading

from bson import Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

client = MongoClient(sys.argv[1])
db = client.shop


def refused(command, sequoia_code):
    try:
        db.command(command)
    except OperationFailure as error:
        assert error.details.get("sequoiaCode") == sequoia_code, error.details
        return error
    raise AssertionError(f"{command} is refused")


# A sequence.
db.command("createSequence", "tickets", options={"StartValue": 1000, "Increment": 5})
first = db.command("sequenceNext", "tickets")
assert (first["NextValue"], first["ReturnNum"], first["Increment"]) == (1000, 1, 5), first
several = db.command("sequenceNext", "tickets", n=3)
assert (several["NextValue"], several["ReturnNum"]) == (1005, 3), several
assert db.command("sequenceNext", "tickets")["NextValue"] == 1020
assert db.command("sequenceCurrent", "tickets")["CurrentValue"] == 1020
db.command({"sequenceSetCurrent": "tickets", "value": Int64(2000)})
assert db.command("sequenceNext", "tickets")["NextValue"] == 2005
db.command({"sequenceRestart": "tickets", "value": Int64(1)})
assert db.command("sequenceNext", "tickets")["NextValue"] == 1
assert db.command("sequenceSnapshot", "tickets")["snapshot"]["Increment"] == 5
db.command("alterSequence", "tickets", options={"Increment": 1})
db.command("renameSequence", "tickets", to="seats")
assert db.command("listSequences")["sequences"] == [{"Name": "seats"}]
refused({"sequenceNext": "tickets"}, -324)
refused({"createSequence": "seats"}, -323)
refused({"createSequence": "SYSseats"}, -6)
db.command("createSequence", "few", options={"MaxValue": 2, "CacheSize": 1, "AcquireSize": 1})
assert [db.command("sequenceNext", "few")["NextValue"] for _ in range(2)] == [1, 2]
refused({"sequenceNext": "few"}, -325)
db.command("dropSequence", "few")

# A field that numbers itself: the reply of an insert says what was generated.
db.command("create", "invoices", autoIncrement={"Field": "number", "Contract": "gapless"})
reply = db.command("insert", "invoices", documents=[{"_id": 1}, {"_id": 2, "number": 10}, {"_id": 3}])
assert reply["n"] == 3 and reply["lastGenerateID"] == 1, reply
assert reply["generated"] == [{"number": 1}, {}, {"number": 11}], reply
invoices = [(invoice["_id"], invoice["number"]) for invoice in db.invoices.find().sort("_id")]
assert invoices == [(1, 1), (2, 10), (3, 11)], invoices
fields = db.command("listAutoIncrements", "invoices")["autoIncrements"]
assert [field["Field"] for field in fields] == ["number"], fields

# The driver's own inserts are numbered as well, from all threads.
db.invoices.delete_many({})
THREADS, EACH = 8, 25
start = threading.Barrier(THREADS)


def work():
    start.wait()
    for _ in range(EACH):
        db.invoices.insert_one({})


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
numbers = [invoice["number"] for invoice in db.invoices.find().sort("number")]
assert numbers == list(range(12, 12 + THREADS * EACH)), numbers

# A field of a collection that is there already, altered and dropped.
db.books.insert_one({"_id": 1})
db.command("createAutoIncrement", "books", autoIncrement={"Field": "shelf"})
db.command("alterAutoIncrement", "books", autoIncrement={"Field": "shelf", "Increment": 10})
refused({"createAutoIncrement": "books", "autoIncrement": {"Field": "shelf"}}, -332)
assert db.command("insert", "books", documents=[{"_id": 2}])["generated"] == [{"shelf": 1}]
db.command("truncate", "books")
assert db.books.count_documents({}) == 0
db.command("dropAutoIncrement", "books", field="shelf")
refused({"dropAutoIncrement": "books", "field": "shelf"}, -333)
assert "generated" not in db.command("insert", "books", documents=[{"_id": 3}])
print("passed")
