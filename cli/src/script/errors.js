// The errors that the shell throws, and the one way to a command.
(function (cairn, native) {
    "use strict";

    class MongoError extends Error {
        // Whether the store, or the driver, says so of the error.
        hasErrorLabel(label) { return this.errorLabels?.includes(label) === true; }

        get [Symbol.toStringTag]() { return "Error"; }
    }

    // What a store refuses: `code`, `codeName`, and what else its reply has.
    class MongoServerError extends MongoError {
        constructor(message, reply = {}) {
            super(message);
            for (const [name, value] of Object.entries(reply)) {
                if (name !== "ok" && name !== "errmsg" && name !== "message") this[name] = value;
            }
            cairn.hide(this, "errorResponse", reply);
        }
    }
    class MongoBulkWriteError extends MongoServerError {}
    class MongoInvalidArgumentError extends MongoError {}

    // What mongosh has and this shell does not, and what there is instead.
    class NotSupported extends MongoError {
        constructor(name, instead) {
            super(instead ? `${name} is not supported: ${instead}` : `${name} is not supported`);
        }
    }
    for (const made of [MongoError, MongoServerError, MongoBulkWriteError, MongoInvalidArgumentError, NotSupported]) {
        cairn.hide(made.prototype, "name", made.name);
    }
    Object.assign(cairn, { MongoServerError, MongoBulkWriteError, MongoInvalidArgumentError, NotSupported });

    cairn.invalid = function (message) {
        throw new MongoInvalidArgumentError(message);
    };

    // An error as it is shown: MongoDB's with the name of its code.
    cairn.errorText = function (error) {
        const name = error.name || "Error";
        const code = error instanceof MongoServerError && error.codeName ? `[${error.codeName}]` : "";
        return error.message ? `${name}${code}: ${error.message}` : `${name}${code}`;
    };

    function thrown(failure) {
        const reply = failure.reply || {};
        if (failure.code !== undefined) reply.code = failure.code;
        if (failure.codeName) reply.codeName = failure.codeName;
        const error = new MongoServerError(failure.message, reply);
        // It decides the exit status, and is nothing for scripts.
        if (failure.exit) cairn.hide(error, "\0exit", failure.exit);
        return error;
    }

    // What a function of the tool has answered, or its failure, thrown.
    cairn.answered = function (done) {
        if (done.failure) throw thrown(done.failure);
        return done.reply;
    };

    // The session that commands are run in, if there is one: set while a verb of its databases runs.
    cairn.session = undefined;
    cairn.within = function (session, verb) {
        const before = cairn.session;
        cairn.session = session;
        try {
            return verb();
        } finally {
            cairn.session = before;
        }
    };

    // Runs a command and returns its reply, or throws.
    cairn.run = function (database, command) {
        if (cairn.session) return cairn.answered(cairn.session._open().run(cairn.makers, database, command));
        return cairn.answered(native.run(cairn.makers, database, command));
    };

    // Runs a command whose result is a cursor. Returns a function that gives the next document, or `undefined`.
    // `waits` is how long each call waits for a document, of a cursor that follows a collection.
    cairn.open = function (database, command, waits) {
        const within = cairn.session?._open();
        const opened = within ? within.open(cairn.makers, database, command) : native.open(cairn.makers, database, command, Number(waits ?? 0));
        if (opened.failure) throw thrown(opened.failure);
        const { next, failed, isOpen } = opened;
        let isAtEnd = false;
        const read = function () {
            const document = next(cairn.makers);
            if (document === undefined) {
                isAtEnd = !isOpen();
                const failure = failed(cairn.makers);
                if (failure) throw thrown(failure);
            }
            return document;
        };
        // Whether another document may come after the last one that there is now.
        read.isOpen = () => isOpen();
        read.isAtEnd = () => isAtEnd;
        return read;
    };

    // All documents of a cursor.
    cairn.all = function (database, command) {
        const next = cairn.open(database, command);
        const documents = [];
        for (let document = next(); document !== undefined; document = next()) documents.push(document);
        return documents;
    };

    // One command takes no more.
    const BATCH = 1000;
    const BATCH_BYTES = 16 * 1024 * 1024;

    // Where the command ends that begins with the item at `start`: it is full, in number or in bytes, or an item does not go with the first.
    cairn.batchEnd = function (items, start, body = (item) => item, goTogether = () => true) {
        let [end, bytes] = [start, 0];
        while (end < items.length && end - start < BATCH && goTogether(items[end], items[start])) {
            bytes += native.size(body(items[end]));
            if (end > start && bytes > BATCH_BYTES) break;
            end += 1;
        }
        return end;
    };

    // Whether a property is one that the language or this shell looks for, and no collection is meant by it.
    cairn.isAsked = (property) => typeof property === "symbol" || property.startsWith("\0") || ["toBSON", "toJSON", "then"].includes(property);

    // The fields of `options` that a command takes under these names, as its fields.
    cairn.pick = function (options, names) {
        const picked = {};
        for (const name of names) {
            if (options && options[name] !== undefined) picked[name] = options[name];
        }
        return picked;
    };
})
