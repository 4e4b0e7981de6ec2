"""MongoDB's specification tests of encrypted fields, run through PyMongo. The second argument is the folder that they are in.

They are data in the unified format: keys that are there already, operations, what each must return, which commands the driver must
send, and what must be stored in the end. What cannot run here is in encryption_skipped.json, with the reason. What this runner does
not know is an error, so that no test passes by being passed over.
"""

import base64
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path

from bson import json_util
from bson.binary import Binary
from bson.codec_options import CodecOptions
from bson.int64 import Int64
from pymongo import MongoClient, WriteConcern
from pymongo.encryption import ClientEncryption
from pymongo.errors import EncryptionError, PyMongoError
from pymongo.monitoring import CommandListener

# What the pinned version has, and what of it runs here.
TESTS, PASSED = 417, 35
# The local master key of the specification. Other secrets are those of clouds, which no test that runs here asks.
LOCAL_KEY = base64.b64decode(
    "Mng0NCt4ZHVUYUJCa1kxNkVyNUR1QURhZ2h2UzR2d2RrZzh0cFBwM3R6NmdWMDFBMUN3YkQ5aXRRMkhGRGdQV09wOGVNYUMxT2k3NjZKelhaQmRCZGJkTXVyZG9uSjFk"
)
NO_SECRET = {"endpoint": "localhost:1", "privateKey": base64.b64encode(b"none").decode()}
PLACEHOLDER = {"$$placeholder": 1}
TYPES = {
    "array": list,
    "binData": (Binary, bytes),
    "date": datetime,
    "int": int,
    "long": Int64,
    "object": Mapping,
    "string": str,
}

uri = sys.argv[1]
plain = MongoClient(uri)


class Started(CommandListener):
    """The commands that a client has sent."""

    def __init__(self):
        self.events = []

    def started(self, event):
        self.events.append(event)

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


class Entities:
    """What the operations of a test work on, by name."""

    def __init__(self, suite):
        self.named, self.listeners = {}, {}
        for entity in suite["createEntities"]:
            ((kind, options),) = entity.items()
            self.named[options["id"]] = getattr(self, kind)(options)

    def client(self, options):
        assert set(options) == {"id", "observeEvents"}, options
        listener = self.listeners[options["id"]] = Started()
        return MongoClient(uri, event_listeners=[listener])

    def database(self, options):
        return self.named[options["client"]][options["databaseName"]]

    def collection(self, options):
        return self.named[options["database"]][options["collectionName"]]

    def clientEncryption(self, options):
        options = dict(options["clientEncryptionOpts"])
        providers = {name: secrets(name, given) for name, given in options.pop("kmsProviders").items()}
        client, vault = self.named[options.pop("keyVaultClient")], options.pop("keyVaultNamespace")
        expiration = options.pop("keyExpirationMS", None)
        assert not options, options
        return ClientEncryption(providers, vault, client, CodecOptions(), key_expiration_ms=expiration)

    def close(self):
        for entity in self.named.values():
            if isinstance(entity, (ClientEncryption, MongoClient)):
                entity.close()


def secrets(provider, given):
    """The secrets of a provider of master keys, those filled in that the test leaves open."""
    if provider.split(":")[0] == "local":
        return {name: LOCAL_KEY if value == PLACEHOLDER else value for name, value in given.items()}
    return {name: NO_SECRET.get(name, "none") if value == PLACEHOLDER else value for name, value in given.items()}


def operate(entities, operation):
    """The result of an operation, in the words of the format."""
    name, arguments = operation["name"], dict(operation.get("arguments", {}))
    # The driver wants the options as arguments, with names of its own.
    arguments.update(arguments.pop("opts", {}))
    if name == "wait":
        return time.sleep(arguments["ms"] / 1000)
    target = entities.named[operation["object"]]
    if name in ("find", "aggregate"):
        if "sort" in arguments:
            arguments["sort"] = list(arguments["sort"].items())
        return list(getattr(target, name)(**arguments))
    if name == "rewrapManyDataKey":
        result = target.rewrap_many_data_key(**words(arguments)).bulk_write_result
        return {"bulkWriteResult": counts(result)} if result else {}
    if name == "deleteKey":
        return {"deletedCount": target.delete_key(**words(arguments)).deleted_count}
    methods = {
        "addKeyAltName": "add_key_alt_name",
        "createDataKey": "create_data_key",
        "decrypt": "decrypt",
        "encrypt": "encrypt",
        "getKey": "get_key",
        "getKeyByAltName": "get_key_by_alt_name",
        "getKeys": "get_keys",
        "removeKeyAltName": "remove_key_alt_name",
    }
    result = getattr(target, methods[name])(**words(arguments))
    return list(result) if name == "getKeys" else result


def words(arguments):
    """The arguments by the driver's names: key_alt_name instead of keyAltName."""
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): value for name, value in arguments.items()}


def counts(result):
    return {
        "insertedCount": result.inserted_count,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "deletedCount": result.deleted_count,
        "upsertedCount": result.upserted_count,
        "upsertedIds": result.upserted_ids or {},
    }


ABSENT = object()


def match(found, expected, is_root=True):
    """Compares by the rules of the format: at the root a document may have more fields than are expected."""
    if isinstance(expected, dict) and any(name.startswith("$$") for name in expected):
        ((operator, argument),) = expected.items()
        if operator == "$$exists":
            assert (found is not ABSENT) == argument, (found, expected)
        elif operator == "$$unsetOrMatches":
            if found is not ABSENT and not (argument is None and found is None):
                match(found, argument, is_root)
        elif operator == "$$type":
            types = [argument] if isinstance(argument, str) else argument
            assert any(isinstance(found, TYPES[name]) for name in types), (found, expected)
        else:
            raise AssertionError(f"an operator that is not known: {operator}")
    elif isinstance(expected, dict):
        assert isinstance(found, Mapping), (found, expected)
        for name, value in expected.items():
            match(found.get(name, ABSENT), value, False)
        assert is_root or set(found) <= set(expected), (found, expected)
    elif isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), (found, expected)
        for one, other in zip(found, expected):
            match(one, other, is_root)
    else:
        # True and 1 are equal in Python.
        assert found == expected and isinstance(found, bool) == isinstance(expected, bool), (found, expected)


def fill(data):
    collection = plain[data["databaseName"]][data["collectionName"]]
    collection.drop()
    if data["documents"]:
        collection.with_options(write_concern=WriteConcern(w="majority")).insert_many(data["documents"])


def check_error(expected, operation, entities):
    assert expected == {"isClientError": True}, expected
    try:
        result = operate(entities, operation)
    except EncryptionError as error:
        # One that comes from the server is the cause of it.
        assert not isinstance(error.cause, PyMongoError), error.cause
    else:
        raise AssertionError(f"{operation} is refused, but returned {result}")


def check_events(expected, listener):
    """Each command that was sent, and no other."""
    events = list(listener.events)
    assert len(events) == len(expected), (events, expected)
    for event, one in zip(events, expected):
        ((kind, parts),) = one.items()
        assert kind == "commandStartedEvent", kind
        for part, value in parts.items():
            found = {"databaseName": event.database_name, "commandName": event.command_name, "command": event.command}
            match(dict(found[part]) if part == "command" else found[part], value)


def run(suite, test):
    assert set(test) <= {"description", "operations", "expectEvents", "outcome"}, set(test)
    for data in suite.get("initialData", []):
        fill(data)
    entities = Entities(suite)
    for operation in test["operations"]:
        if "expectError" in operation:
            check_error(operation["expectError"], operation, entities)
            continue
        result = operate(entities, operation)
        if "expectResult" in operation:
            match(result, operation["expectResult"])
    for expected in test.get("expectEvents", []):
        check_events(expected["events"], entities.listeners[expected["client"]])
    for data in test.get("outcome", []):
        stored = plain[data["databaseName"]][data["collectionName"]].find().sort("_id", 1)
        match(list(stored), data["documents"])
    entities.close()


def reason_to_skip(skipped, unused, file, name):
    """Why a test cannot run here, if so. The entries of the table that no test needs stay in `unused`."""
    for pattern, reason in skipped.items():
        of_file, _, of_test = pattern.partition(": ")
        if fnmatch(file, of_file) and (not of_test or name == of_test):
            unused.discard(pattern)
            return reason
    return None


def main():
    table = json.loads((Path(__file__).parent / "encryption_skipped.json").read_text())
    skipped = {pattern: reason for reason, patterns in table.items() for pattern in patterns}
    unused, passed, reasons = set(skipped), 0, Counter()
    for file in sorted(Path(sys.argv[2]).glob("*.json")):
        suite = json_util.loads(file.read_text(), json_options=json_util.JSONOptions(tz_aware=False))
        for test in suite["tests"]:
            name = test["description"]
            if reason := reason_to_skip(skipped, unused, file.stem, name):
                reasons[reason] += 1
                continue
            print(f"{file.stem}: {name}")
            run(suite, test)
            passed += 1
    print(dict(reasons))
    assert not unused, f"no test is meant by {unused}"
    assert (passed + sum(reasons.values()), passed) == (TESTS, PASSED), (passed, reasons)
    print("passed")


main()
