// What is looked at in a shell: databases, collections, sizes, counts, indexes, cursors.
for (let id = 0; id < 300; id += 1) db.things.insertOne({ _id: id, kind: id % 3 });
db.books.insertMany([{ _id: 1, title: "Kim" }, { _id: 2, title: "Emma" }]);

same(show("dbs").value.map((one) => one.name), ["admin", "shop"]);
same(show("collections").value.map((one) => one.name), ["books", "things"]);
same(db.getCollectionNames().sort(), ["books", "things"]);
same(db.adminCommand({ listDatabases: 1, nameOnly: true }).databases, [{ name: "admin" }, { name: "shop" }]);

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

// What a search looks at: one record by its id, a range of them, or all.
const stage = (explained) => explained.queryPlanner.winningPlan.stage;
assert.strictEqual(stage(db.things.find({ _id: 7 }).explain()), "IDHACK");
assert.strictEqual(stage(db.things.find({ _id: { $lt: 9 } }).explain()), "CLUSTERED_IXSCAN");
const looked = db.things.find({ kind: 1 }).sort({ kind: 1 }).limit(5).explain("executionStats");
assert.strictEqual(stage(looked), "SORT");
same([looked.executionStats.nReturned, looked.executionStats.totalDocsExamined], [5, 300]);
assert.strictEqual(looked.serverInfo.version, db.version());
assert.strictEqual(stage(db.things.explain().aggregate([{ $match: { _id: 7 } }])), "IDHACK");
assert.strictEqual(stage(db.things.aggregate([{ $match: { _id: 7 } }], { explain: true })), "IDHACK");
assert.strictEqual(db.things.explain("executionStats").count({ kind: 1 }).executionStats.executionStages.nCounted, 100);
assert.strictEqual(stage(db.things.explain().distinct("kind")), "COLLSCAN");
const removal = db.things.explain("allPlansExecution").remove({ kind: 1 });
assert.strictEqual(removal.executionStats.executionStages.nWouldDelete, 100);
const change = db.things.explain("executionStats").update({ _id: 1 }, { $set: { kind: 1 } });
same([change.executionStats.executionStages.nMatched, change.executionStats.executionStages.nWouldModify], [1, 0]);
assert.strictEqual(stage(db.things.explain().findAndModify({ query: { _id: 1 }, remove: true })), "DELETE");
assert.strictEqual(thrownBy(() => db.things.find({ $bogus: 1 }).explain()).code, 2);
assert.strictEqual(db.things.estimatedDocumentCount(), 300);

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
assert.match(db.version(), /^8\./);
assert.strictEqual(db.serverStatus().process, "cairn");
assert.strictEqual(db.runCommand({ ping: 1 }).ok, 1);
assert.strictEqual(thrownBy(() => db.runCommand({ bogus: 1 })).codeName, "CommandNotFound");

assert.strictEqual(db.things.drop(), true);
same(db.dropDatabase(), { ok: 1, dropped: "shop" });
same(show("dbs").value.map((one) => one.name), ["admin"]);
print("passed");
