// Moving money by transactions, and counting. The connection is one that a proxy cuts; the shell tries again as its driver does.

const MOVES = 20;
db.accounts.insertMany([{ _id: "Ada", has: 1000 }, { _id: "Grace", has: 0 }]);
db.moves.insertOne({ _id: "first" });

function move(number) {
    const session = db.getMongo().startSession();
    session.withTransaction(() => {
        const bank = session.getDatabase(db.getName());
        bank.moves.insertOne({ _id: number });
        const taken = bank.accounts.updateOne({ _id: "Ada", has: { $gte: 10 } }, { $inc: { has: -10 } });
        assert.strictEqual(taken.modifiedCount, 1);
        bank.accounts.updateOne({ _id: "Grace" }, { $inc: { has: 10 } });
    });
    session.endSession();
}
for (let number = 0; number < MOVES; number++) {
    try {
        move(number);
    } catch (error) {
        // The driver gives a transaction up whose connection ends while it is opened. Then the shell looks whether it was committed.
        if (error.name !== "MongoNetworkError") throw error;
        if (db.moves.findOne({ _id: number }) === null) move(number);
    }
    // Not in a transaction: the driver sends it again.
    db.counters.updateOne({ _id: "moves" }, { $inc: { n: 1 } }, { upsert: true });
}
same(db.accounts.find().sort({ _id: 1 }).toArray(), [
    { _id: "Ada", has: 1000 - 10 * MOVES },
    { _id: "Grace", has: 10 * MOVES },
]);
same(db.counters.findOne(), { _id: "moves", n: MOVES });
assert.strictEqual(db.moves.countDocuments(), MOVES + 1);
print("passed");
