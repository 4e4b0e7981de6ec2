"""What transactions may see of each other, by PyMongo: one schedule for each anomaly that isolation is described by.

Two rows, 1 with 10 and 2 with 20, and transactions whose steps are taken in the order that the anomaly needs. Snapshot isolation
has none of them but write skew (G2-item), which must occur: a test that never sees it could not see the others either.
"""

import sys

from pymongo import MongoClient
from pymongo.errors import OperationFailure

client = MongoClient(sys.argv[1])
rows = client.shop.rows


class Transaction:
    """A transaction that takes one step at a time."""

    def __init__(self):
        self.session = client.start_session()
        self.session.start_transaction()

    def read(self, key):
        return rows.find_one({"_id": key}, session=self.session)["value"]

    def where(self, filter):
        return [row["_id"] for row in rows.find(filter, session=self.session).sort("_id", 1)]

    def set(self, key, value):
        rows.update_one({"_id": key}, {"$set": {"value": value}}, session=self.session)

    def insert(self, key, value):
        rows.insert_one({"_id": key, "value": value}, session=self.session)

    def commit(self):
        self.session.commit_transaction()
        self.session.end_session()

    def abort(self):
        self.session.abort_transaction()
        self.session.end_session()


def begin():
    """Two rows anew, and three transactions."""
    rows.delete_many({})
    rows.insert_many([{"_id": 1, "value": 10}, {"_id": 2, "value": 20}])
    return Transaction(), Transaction(), Transaction()


def stored():
    return [row["value"] for row in rows.find().sort("_id", 1)]


def conflict(step):
    """The step meets another writer, and may be tried again as a whole."""
    try:
        step()
    except OperationFailure as error:
        assert error.code == 112 and error.has_error_label("TransientTransactionError"), error
    else:
        raise AssertionError("two writers of one row were both let through")


def g0_dirty_write():
    one, two, _ = begin()
    one.set(1, 11)
    conflict(lambda: two.set(1, 12))
    one.set(2, 21)
    one.commit()
    assert stored() == [11, 21], stored()


def g1a_aborted_read():
    one, two, _ = begin()
    one.set(1, 101)
    assert (two.read(1), two.read(2)) == (10, 20)
    one.abort()
    assert (two.read(1), two.read(2)) == (10, 20)
    two.commit()
    assert stored() == [10, 20], stored()


def g1b_intermediate_read():
    one, two, three = begin()
    one.set(1, 101)
    assert two.read(1) == 10
    one.set(1, 11)
    assert two.read(1) == 10
    one.commit()
    assert two.read(1) == 10 and three.read(1) == 11
    two.commit()


def g1c_circular_information():
    one, two, _ = begin()
    one.set(1, 11)
    two.set(2, 22)
    assert one.read(2) == 20 and two.read(1) == 10
    one.commit()
    two.commit()
    assert stored() == [11, 22], stored()


def otv_observed_transaction_vanishes():
    one, two, three = begin()
    one.set(1, 11)
    one.set(2, 19)
    conflict(lambda: two.set(1, 12))
    one.commit()
    again = Transaction()
    again.set(1, 12)
    assert three.read(1) == 11
    again.set(2, 18)
    again.commit()
    assert (three.read(2), three.read(1)) == (19, 11)
    three.commit()


def pmp_predicate_many_preceders():
    one, two, _ = begin()
    assert one.where({"value": 30}) == []
    two.insert(3, 30)
    two.commit()
    assert one.where({"value": {"$mod": [3, 0]}}) == []
    one.commit()
    one, two, _ = begin()
    rows.update_many({}, {"$inc": {"value": 10}}, session=one.session)
    assert two.where({"value": 20}) == [2]
    conflict(lambda: rows.delete_many({"value": 20}, session=two.session))
    one.commit()
    assert stored() == [20, 30], stored()


def p4_lost_update():
    one, two, _ = begin()
    assert one.read(1) == two.read(1) == 10
    one.set(1, 11)
    one.commit()
    conflict(lambda: two.set(1, 12))
    assert stored() == [11, 20], stored()


def g_single_read_skew():
    one, two, _ = begin()
    assert one.read(1) == 10
    assert (two.read(1), two.read(2)) == (10, 20)
    two.set(1, 12)
    two.set(2, 18)
    two.commit()
    assert one.read(2) == 20 and one.where({"value": {"$in": [12, 18]}}) == []
    conflict(lambda: rows.delete_one({"value": 20}, session=one.session))
    assert stored() == [12, 18], stored()


def g2_item_write_skew_occurs():
    one, two, _ = begin()
    assert one.where({"_id": {"$in": [1, 2]}}) == two.where({"_id": {"$in": [1, 2]}}) == [1, 2]
    one.set(1, 11)
    two.set(2, 21)
    one.commit()
    two.commit()
    assert stored() == [11, 21], stored()


rows.insert_one({"_id": 0})
for schedule in (
    g0_dirty_write,
    g1a_aborted_read,
    g1b_intermediate_read,
    g1c_circular_information,
    otv_observed_transaction_vanishes,
    pmp_predicate_many_preceders,
    p4_lost_update,
    g_single_read_skew,
    g2_item_write_skew_occurs,
):
    schedule()
    print(schedule.__name__)
print("passed")
