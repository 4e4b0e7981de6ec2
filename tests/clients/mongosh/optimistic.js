// Numbers by trying the next one, and again if it is taken; and ObjectIds from hexadecimal digits.

// What tutorials show was written for a shell that gave a result back; here a refused insert is thrown. Both forms of the
// loop look for code 11000, and for anything else they give up.
function insertDocument(doc, targetCollection) {
    while (1) {
        var cursor = targetCollection.find({}, { _id: 1 }).sort({ _id: -1 }).limit(1);
        var seq = cursor.hasNext() ? cursor.next()._id + 1 : 1;
        doc._id = seq;
        try {
            targetCollection.insertOne(doc);
        } catch (refusal) {
            if (refusal.code == 11000 /* dup key */) {
                collisions += 1;
                continue;
            }
            throw refusal;
        }
        break;
    }
}
let collisions = 0;
const myCollection = db.users2;
insertDocument({ name: "Grace H." }, myCollection);
insertDocument({ name: "Ted R." }, myCollection);
same(myCollection.find().toArray(), [{ _id: 1, name: "Grace H." }, { _id: 2, name: "Ted R." }]);
assert.strictEqual(collisions, 0);

// Somebody else is faster once: between looking and inserting the number is taken.
const racing = {
    find: (...all) => myCollection.find(...all),
    insertOne: (doc) => {
        if (collisions === 0) myCollection.insertOne({ _id: doc._id, name: "who was faster" });
        return myCollection.insertOne(doc);
    },
};
insertDocument({ name: "Ada L." }, racing);
assert.strictEqual(collisions, 1);
same(myCollection.find().sort({ _id: -1 }).limit(1).next(), { _id: 4, name: "Ada L." });

// A refusal of another kind is not tried again.
const unknown = { find: racing.find, insertOne: () => db.runCommand({ bogus: 1 }) };
assert.strictEqual(thrownBy(() => insertDocument({ name: "x" }, unknown)).code, 59);

// What a refused insert says.
const refusal = thrownBy(() => myCollection.insertOne({ _id: 4 }));
assert.strictEqual(refusal.code, 11000);
assert.match(refusal.message, /E11000 duplicate key error collection: shop.users2 index: _id_ dup key: { _id: 4 }/);

// ObjectIds.
const x = ObjectId("507f191e810c19729de860ea");
assert.strictEqual(x.toString(), "507f191e810c19729de860ea");
assert.strictEqual(x.getTimestamp().toISOString(), "2012-10-17T20:46:22.000Z");
db.ids.insertOne({ _id: x });
assert.strictEqual(db.ids.findOne({ _id: ObjectId("507F191E810C19729DE860EA") })._id.toString(), x.toString());
assert.strictEqual(db.ids.findOne({ _id: "507f191e810c19729de860ea" }), null);
assert.throws(() => ObjectId("507f"));
const made = db.ids.insertOne({}).insertedId;
assert.match(made.toString(), /^[0-9a-f]{24}$/);
same(db.ids.find().sort({ _id: 1 }).toArray().map((one) => one._id.toString()), [x, made].map(String));
print("passed");
