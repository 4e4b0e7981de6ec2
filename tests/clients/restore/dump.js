// A reader of dumps that the project did not write: the package @cdxoo/mongodb-restore restores what `cairn dump` wrote, in a server whose
// documents are then those that were dumped. It reads documents alone, and as JavaScript's values: a whole number of 64 bits, or a
// double without a fraction, is written as whatever JavaScript's driver makes of a number.
//
// Its arguments are the URI of a server, the tool, and the folder of the package.

"use strict";

const assert = require("assert");
const { execFileSync } = require("child_process");
const fs = require("fs");
const { createRequire } = require("module");
const os = require("os");
const path = require("path");

const [uri, cairn, installed] = process.argv.slice(2);
const required = createRequire(path.join(installed, "package.json"));
const restore = required(".");
const { EJSON } = required("bson");
const { Binary, Decimal128, Double, Int32, Long, MaxKey, MinKey, MongoClient, ObjectId, Timestamp } = required("mongodb");

/** All documents of a database, by collection. */
async function stored(client, database) {
    const handle = client.db(database);
    const names = (await handle.listCollections({ type: "collection" }).toArray()).map((one) => one.name).sort();
    const found = {};
    for (const name of names) {
        const documents = await handle.collection(name).find({}, { sort: { _id: 1 } }).toArray();
        found[name] = documents.map((document) => EJSON.stringify(document));
    }
    return found;
}

async function main() {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "cairn-"));
    const client = await MongoClient.connect(uri);
    const shop = client.db("shop");
    await shop.collection("kinds").insertMany([
        { _id: 1, int: new Int32(1), long: Long.fromString("1099511627776"), double: new Double(2), half: 1.5 },
        { _id: 2, text: "ü\0\u2028", bytes: new Binary(Buffer.from([0, 255])), date: new Date(-1), none: null },
        { _id: 3, id: new ObjectId(), decimal: Decimal128.fromString("1.50"), stamp: new Timestamp({ t: 1, i: 2 }) },
        { _id: 4, pattern: /^a/i, least: new MinKey(), most: new MaxKey(), nested: [[], {}, [{ a: [1] }]] },
    ]);
    const many = Array.from({ length: 1_500 }, (_, number) => ({ _id: number, total: number / 2 }));
    await shop.collection("orders").insertMany(many);
    await shop.collection("orders").createIndex({ total: -1 });
    await shop.command({ create: "numbered", autoIncrement: { Field: "n" } });
    await shop.collection("numbered").insertMany([{}, {}]);
    await client.db("other").collection("orders").insertOne({ _id: "of another database" });
    const [before, other] = [await stored(client, "shop"), await stored(client, "other")];
    assert.deepStrictEqual(Object.keys(before), ["kinds", "numbered", "orders"]);

    execFileSync(cairn, ["dump", uri, "dump", "--quiet"], { cwd: folder });
    for (const name of ["shop", "other"]) {
        await client.db(name).dropDatabase();
    }
    assert.deepStrictEqual(await stored(client, "shop"), {});
    // What is beside the folders of databases, as `prelude.json`, is none of one.
    await restore.dump({ uri, from: path.join(folder, "dump") });
    assert.deepStrictEqual(await stored(client, "shop"), before);
    assert.deepStrictEqual(await stored(client, "other"), other);
    await client.close();
    fs.rmSync(folder, { recursive: true });
    console.log("passed");
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
