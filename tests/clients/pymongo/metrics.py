"""The page of metrics, read by the library of Prometheus, and the same numbers in serverStatus."""

import sys
from urllib.request import urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pymongo import MongoClient

client = MongoClient(sys.argv[1])
things = client.shop.things


def read():
    """The page: its families by name, and its samples by name and labels."""
    with urlopen(sys.argv[2]) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.values()))
            assert key not in samples, f"{key} is there twice"
            samples[key] = sample.value
    return {family.name: family for family in families}, samples


families, before = read()
assert families["cairndb_operation_seconds"].type == "histogram"
assert families["cairndb_documents"].type == "counter"
assert families["cairndb_state"].type == "gauge"
assert all(family.documentation for family in families.values())

things.insert_many([{"_id": n, "n": n} for n in range(100)])
assert things.count_documents({"n": {"$lt": 50}}) == 50
things.update_many({"n": {"$lt": 10}}, {"$inc": {"n": 1}})
assert len(list(things.find({"n": {"$gte": 90}}))) == 10
things.delete_many({"n": {"$gte": 90}})

_, after = read()


def change(*key):
    return after[key] - before.get(key, 0)


assert change("cairndb_documents_total", "inserted") == 100
assert change("cairndb_documents_total", "updated") == 10
assert change("cairndb_documents_total", "deleted") == 10
assert change("cairndb_operation_seconds_count", "insert_many") == 1
assert change("cairndb_operation_seconds_count", "find") == 1
assert change("cairndb_operation_seconds_bucket", "+Inf", "find") == 1
assert change("cairndb_searches_total", "collection_scan") == 4
assert change("cairndb_network_bytes_total", "in") > 1000
assert after["cairndb_state", "open"] == 1
assert after["cairndb_quota_limit_bytes",] == 256 << 20
assert 0 < after["cairndb_quota_used_bytes",] < 256 << 20

# What was counted never falls, and a histogram has all its buckets from the start.
counters = [name for name, family in families.items() if family.type in ("counter", "histogram")]
assert len(counters) > 10
for key, value in before.items():
    if key[0].endswith(("_total", "_count", "_bucket", "_sum")):
        assert after[key] >= value, key
assert sum(1 for key in after if key[0] == "cairndb_operation_seconds_bucket" and key[-1] == "find") == 28

status = client.admin.command("serverStatus")
assert status["metrics"]["document"]["inserted"] >= 100
assert status["cairndb"]["operations"]["find"]["times"]["count"] == 1
print("passed")
