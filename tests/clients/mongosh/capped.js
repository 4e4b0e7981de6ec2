// Capped collections, as a shell makes them, looks at them and changes them.
const ids = (cursor) => cursor.toArray().map((one) => one._id);
db.createCollection("log", { capped: true, size: 65536, max: 3 });
assert.strictEqual(db.log.isCapped(), true);
for (const id of [9, 3, 7, 1]) db.log.insertOne({ _id: id });
same(ids(db.log.find()), [3, 7, 1]);
same(ids(db.log.find().sort({ $natural: -1 })), [1, 7, 3]);
same(ids(db.log.find().sort({ _id: 1 })), [1, 3, 7]);
assert.strictEqual(db.log.countDocuments(), 3);
const { options } = db.runCommand({ listCollections: 1, filter: { name: "log" } }).cursor.firstBatch[0];
same([options.capped, Number(options.size), Number(options.max)], [true, 65536, 3]);
assert.strictEqual(db.log.updateOne({ _id: 7 }, { $set: { n: 1 } }).modifiedCount, 1);
same(ids(db.log.find()), [3, 7, 1]);
assert.strictEqual(thrownBy(() => db.createCollection("boundless", { capped: true })).code, 72);

db.runCommand({ collMod: "log", cappedMax: 2 });
db.log.insertOne({ _id: 5 });
same(ids(db.log.find()), [1, 5]);

assert.strictEqual(db.things.insertOne({ _id: 1 }).acknowledged, true);
assert.strictEqual(db.things.isCapped(), false);
assert.strictEqual(db.runCommand({ convertToCapped: "things", size: 4096 }).ok, 1);
assert.strictEqual(db.things.isCapped(), true);
print("passed");
