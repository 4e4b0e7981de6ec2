// What is looked at in a shell: databases, collections, sizes, counts, indexes, cursors.
for (let id = 0; id < 300; id += 1) db.things.insertOne({ _id: id, kind: id % 3 });
db.books.insertMany([{ _id: 1, title: "Kim" }, { _id: 2, title: "Emma" }]);

same(show("dbs").value.map((one) => one.name), ["shop"]);
same(show("collections").value.map((one) => one.name), ["books", "things"]);
same(db.getCollectionNames().sort(), ["books", "things"]);
same(db.adminCommand({ listDatabases: 1, nameOnly: true }).databases, [{ name: "shop" }]);

assert.strictEqual(db.things.countDocuments(), 300);
assert.strictEqual(db.things.countDocuments({ kind: 1 }), 100);
assert.strictEqual(db.things.estimatedDocumentCount(), 300);
same(db.things.distinct("kind"), [0, 1, 2]);
assert.strictEqual(db.things.find({ kind: 2 }).sort({ _id: -1 }).skip(1).next()._id, 296);
assert.strictEqual(db.things.find().batchSize(7).toArray().length, 300);
same(
    db.things.aggregate([{ $group: { _id: "$kind", n: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray(),
    [0, 1, 2].map((kind) => ({ _id: kind, n: 100 }))
);

const stats = db.runCommand({ collStats: "things" });
assert.strictEqual(Number(stats.count), 300);
assert.strictEqual(Number(db.stats().collections), 2);
assert.strictEqual(Number(db.stats().objects), 302);

assert.strictEqual(db.books.createIndex({ title: 1 }, { unique: true }), "title_1");
same(db.books.getIndexes().map((index) => index.name), ["_id_", "title_1"]);
assert.strictEqual(thrownBy(() => db.books.insertOne({ title: "Kim" })).code, 11000);
db.books.dropIndex("title_1");
same(db.books.getIndexes().map((index) => index.name), ["_id_"]);

assert.strictEqual(db.books.updateOne({ _id: 1 }, { $set: { year: 1901 } }).modifiedCount, 1);
assert.strictEqual(db.books.updateOne({ _id: 3 }, { $set: { year: 1813 } }, { upsert: true }).insertedId, 3);
assert.strictEqual(db.books.deleteMany({ year: { $exists: true } }).deletedCount, 2);
const bulk = db.books.bulkWrite([{ insertOne: { document: { _id: 9 } } }, { updateOne: { filter: { _id: 9 }, update: { $set: { a: 1 } } } }]);
same([bulk.insertedCount, bulk.modifiedCount], [1, 1]);

assert.strictEqual(db.hello().isWritablePrimary, true);
assert.match(db.version(), /^7\./);
assert.strictEqual(db.serverStatus().process, "cairn");
assert.strictEqual(db.runCommand({ ping: 1 }).ok, 1);
assert.strictEqual(thrownBy(() => db.runCommand({ bogus: 1 })).codeName, "CommandNotFound");

assert.strictEqual(db.things.drop(), true);
same(db.dropDatabase(), { ok: 1, dropped: "shop" });
same(show("dbs").value, []);
print("passed");
