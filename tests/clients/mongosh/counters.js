// Ids from a collection of counters, in the forms that tutorials show and their readers type.

// The counter is made first.
db.counters.insertOne({
    _id: "userid",
    seq: 0
});

function getNextSequence(name) {
    var ret = db.counters.findAndModify({
        query: { _id: name },
        update: { $inc: { seq: 1 } },
        new: true
    });
    return ret.seq;
}

const inserted = db.users.insertOne({ _id: getNextSequence("userid"), name: "Ada L." });
same({ acknowledged: inserted.acknowledged, id: Number(inserted.insertedId) }, { acknowledged: true, id: 1 });
db.users.insertOne({ _id: getNextSequence("userid"), name: "Blaise P." });
same(
    db.users.find().sort({ _id: 1 }).toArray(),
    [{ _id: 1, name: "Ada L." }, { _id: 2, name: "Blaise P." }]
);

// Without a counter there is nothing to count up, and nothing is made.
assert.strictEqual(thrownBy(() => getNextSequence("orderid")).name, "TypeError");
assert.strictEqual(db.counters.countDocuments({}), 1);

// With upsert whoever asks first makes it.
function getNextSequenceUpsert(name) {
    var ret = db.counters.findAndModify({
        query: { _id: name },
        update: { $inc: { seq: 1 } },
        new: true,
        upsert: true
    });
    return ret.seq;
}
assert.strictEqual(getNextSequenceUpsert("orderid"), 1);
assert.strictEqual(getNextSequenceUpsert("orderid"), 2);
db.orders.insertOne({ _id: getNextSequenceUpsert("orderid"), user: 1 });
same(db.orders.findOne(), { _id: 3, user: 1 });

// Some write the field names in quotes.
function counter(name) {
    var ret = db.counters.findAndModify({ "query": { "_id": name }, "update": { "$inc": { "next": 1 } }, "new": true, "upsert": true });
    return ret.next;
}
db.page.insertOne({ "_id": counter("page"), "title": "first" });
db.page.insertOne({ "_id": counter("page"), "title": "second" });
same(db.page.find().toArray().map((page) => [page._id, page.title]), [[1, "first"], [2, "second"]]);

// The shape of the command's own reply.
const reply = db.runCommand({ findAndModify: "counters", query: { _id: "page" }, update: { $inc: { next: 1 } } });
same(reply.value, { _id: "page", next: 2 });
same(reply.lastErrorObject, { n: 1, updatedExisting: true });

// And in the driver's newer words.
const updated = db.counters.findOneAndUpdate({ _id: "page" }, { $inc: { next: 1 } }, { returnDocument: "after" });
assert.strictEqual(updated.next, 4);
print("passed");
