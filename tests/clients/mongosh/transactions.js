// Transactions: several writes as one, what others see meanwhile, and what a conflict says.

db.accounts.insertMany([{ _id: 1, has: 100 }, { _id: 2, has: 0 }]);
const session = db.getMongo().startSession();
const accounts = session.getDatabase(db.getName()).getCollection("accounts");
const all = () => db.accounts.find().sort({ _id: 1 }).toArray();

// All of it, or nothing.
session.startTransaction({ readConcern: { level: "snapshot" }, writeConcern: { w: "majority" } });
accounts.updateOne({ _id: 1 }, { $inc: { has: -30 } });
accounts.updateOne({ _id: 2 }, { $inc: { has: 30 } });
accounts.insertOne({ _id: 3, has: 7 });
same(accounts.find().sort({ _id: 1 }).toArray(), [{ _id: 1, has: 70 }, { _id: 2, has: 30 }, { _id: 3, has: 7 }]);
same(accounts.aggregate([{ $group: { _id: null, has: { $sum: "$has" } } }]).toArray(), [{ _id: null, has: 107 }]);
same(accounts.findOne({ _id: 3 }), { _id: 3, has: 7 });
same(all(), [{ _id: 1, has: 100 }, { _id: 2, has: 0 }]);
session.commitTransaction();
same(all(), [{ _id: 1, has: 70 }, { _id: 2, has: 30 }, { _id: 3, has: 7 }]);
session.startTransaction();
accounts.deleteMany({});
assert.strictEqual(accounts.countDocuments({}), 0);
session.abortTransaction();
assert.strictEqual(db.accounts.countDocuments({}), 3);

// The second writer of a document loses, and may try it all again.
const other = db.getMongo().startSession();
session.startTransaction();
other.startTransaction();
accounts.updateOne({ _id: 1 }, { $inc: { has: 1 } });
const conflict = thrownBy(() => other.getDatabase(db.getName()).accounts.updateOne({ _id: 1 }, { $inc: { has: 1 } }));
assert.strictEqual(conflict.code, 112);
assert.ok(conflict.hasErrorLabel("TransientTransactionError"));
session.commitTransaction();
try {
    other.abortTransaction();
} catch (gone) {
    assert.strictEqual(gone.code, 251);
}
other.endSession();

// What no transaction can have aborts it.
session.startTransaction();
accounts.updateOne({ _id: 1 }, { $inc: { has: 1 } });
assert.strictEqual(thrownBy(() => session.getDatabase(db.getName()).runCommand({ count: "accounts" })).code, 263);
try {
    session.abortTransaction();
} catch (gone) {
    assert.strictEqual(gone.code, 251);
}

// A function is called again until nothing came between.
let calls = 0;
session.withTransaction(() => {
    calls += 1;
    const { has } = accounts.findOne({ _id: 2 });
    // Somebody else is faster once.
    if (calls === 1) db.accounts.updateOne({ _id: 2 }, { $inc: { has: 1000 } });
    accounts.updateOne({ _id: 2 }, { $set: { has: has + 1 } });
});
assert.strictEqual(calls, 2);
same(db.accounts.findOne({ _id: 2 }), { _id: 2, has: 1031 });
const refused = thrownBy(() => session.withTransaction(() => {
    accounts.updateOne({ _id: 2 }, { $set: { has: 0 } });
    throw new Error("enough");
}));
assert.strictEqual(refused.message, "enough");
same(db.accounts.findOne({ _id: 2 }), { _id: 2, has: 1031 });
session.endSession();

// The replica set of one.
const status = rs.status();
assert.strictEqual(status.members.length, 1);
assert.strictEqual(status.members[0].stateStr, "PRIMARY");
assert.strictEqual(rs.conf()._id, status.set);
print("passed");
