"""Fields that a driver encrypts: explicit encryption, keys, decryption, and what the server sees of it."""

import os
import sys

from bson.binary import Binary
from bson.codec_options import CodecOptions
from pymongo import ASCENDING, MongoClient
from pymongo.encryption import Algorithm, ClientEncryption
from pymongo.encryption_options import AutoEncryptionOpts
from pymongo.errors import DuplicateKeyError, EncryptionError, OperationFailure

uri = sys.argv[1]
plain = MongoClient(uri)
vault = plain.keys.vault
vault.create_index(
    "keyAltNames", unique=True, partialFilterExpression={"keyAltNames": {"$exists": True}}
)
providers = {"local": {"key": os.urandom(96)}}
encryption = ClientEncryption(providers, "keys.vault", plain, CodecOptions())

# Keys.
key = encryption.create_data_key("local", key_alt_names=["people"])
assert encryption.get_key(key)["keyAltNames"] == ["people"]
try:
    encryption.create_data_key("local", key_alt_names=["people"])
except EncryptionError as error:
    assert isinstance(error.cause, DuplicateKeyError), error
else:
    raise AssertionError("the name is taken")
encryption.add_key_alt_name(key, "persons")
assert set(encryption.get_key_by_alt_name("persons")["keyAltNames"]) == {"people", "persons"}
encryption.remove_key_alt_name(key, "persons")
assert encryption.get_key_by_alt_name("persons") is None
second = encryption.create_data_key("local")
assert len(list(encryption.get_keys())) == 2

# Values.
people = plain.shop.people
people.create_index([("ssn", ASCENDING)], unique=True)
DETERMINISTIC = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic
RANDOM = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random


def hidden(value, algorithm=DETERMINISTIC):
    return encryption.encrypt(value, algorithm, key_id=key)


for ssn, name in (("123", "Ada"), ("456", "Grace")):
    random = encryption.encrypt(name, RANDOM, key_alt_name="people")
    people.insert_one({"ssn": hidden(ssn), "name": random})
stored = people.find_one({"ssn": hidden("456")})
assert isinstance(stored["ssn"], Binary) and stored["ssn"].subtype == 6, stored
assert encryption.decrypt(stored["name"]) == "Grace"
plan = people.find({"ssn": hidden("456")}).explain()["queryPlanner"]["winningPlan"]
assert plan["inputStage"]["stage"] == "IXSCAN", plan
assert people.count_documents({"ssn": {"$type": "binData"}}) == 2
assert people.count_documents({"name": hidden("Grace", RANDOM)}) == 0
try:
    people.insert_one({"ssn": hidden("123")})
except DuplicateKeyError:
    pass
else:
    raise AssertionError("the number is taken")

# Decryption by itself, with a client that encrypts nothing by itself.
options = AutoEncryptionOpts(providers, "keys.vault", bypass_auto_encryption=True)
with MongoClient(uri, auto_encryption_opts=options) as reader:
    found = reader.shop.people.find_one({"ssn": hidden("123")})
    assert (found["ssn"], found["name"]) == ("123", "Ada"), found
    stages = [{"$sort": {"_id": 1}}, {"$project": {"name": 1, "_id": 0}}]
    by_pipeline = list(reader.shop.people.aggregate(stages))
    assert by_pipeline == [{"name": "Ada"}, {"name": "Grace"}], by_pipeline
    changed = reader.shop.people.find_one_and_update({"ssn": hidden("123")}, {"$set": {"seen": True}})
    assert changed["name"] == "Ada"

# Keys under another master key.
result = encryption.rewrap_many_data_key({}, provider="local")
assert result.bulk_write_result.modified_count == 2, result
assert encryption.decrypt(people.find_one({"ssn": hidden("123")})["name"]) == "Ada"
assert encryption.delete_key(second).deleted_count == 1

# What a server would have to know of encryption is refused by name.
for command in (
    {"create": "queryable", "encryptedFields": {"fields": [{"path": "ssn", "bsonType": "string"}]}},
    {"create": "schema", "validator": {"$jsonSchema": {"properties": {"ssn": {"encrypt": {}}}}}},
    {"compactStructuredEncryptionData": "people", "compactionTokens": {}},
):
    try:
        plain.shop.command(command)
    except OperationFailure as error:
        assert error.code == 238, error
    else:
        raise AssertionError(f"{command} is refused")
print("passed")
