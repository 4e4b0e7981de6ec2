// A cursor that follows a capped collection: at its end for now, and after an insert it goes on.
db.createCollection("log", { capped: true, size: 65536 });
db.log.insertMany([{ _id: 2 }, { _id: 1 }]);
const tail = db.log.find().tailable();
same([tail.tryNext(), tail.tryNext(), tail.tryNext()], [{ _id: 2 }, { _id: 1 }, null]);
db.log.insertOne({ _id: 9 });
same(tail.tryNext(), { _id: 9 });
assert.strictEqual(tail.tryNext(), null);
assert.strictEqual(tail.isClosed(), false);
tail.close();

const waiting = db.log.find({ _id: { $gte: 9 } }).tailable({ awaitData: true }).maxAwaitTimeMS(100);
same(waiting.tryNext(), { _id: 9 });
assert.strictEqual(waiting.tryNext(), null);
db.log.insertOne({ _id: 10 });
same(waiting.tryNext(), { _id: 10 });
waiting.close();

db.things.insertOne({ _id: 1 });
assert.strictEqual(thrownBy(() => db.things.find().tailable().tryNext()).code, 2);
print("passed");
