// What every script begins with: it is given to the shell in front of them.
const assert = require("assert");
const same = (found, expected) => assert.strictEqual(EJSON.stringify(found), EJSON.stringify(expected));
// What is thrown is caught here: the shell waits for its own calls only where it sees them, which a library's function hides.
function thrownBy(work) {
    let thrown = null;
    try {
        work();
    } catch (error) {
        thrown = error;
    }
    assert.notStrictEqual(thrown, null, "nothing was thrown");
    return thrown;
}
db = db.getSiblingDB("shop");
