// What a script finds: `db`, the shell's words, and the types; and how the tool shows what a statement gave.
(function (cairn, native) {
    "use strict";

    const global = globalThis;
    const PAGE = 20;
    const CALL = "\0call";

    // A document's fields in the order of another one, which they were copied from.
    cairn.withOrder = function (copy, original) {
        const order = original["\0order"];
        if (order) cairn.hide(copy, "\0order", Object.keys(copy).filter((name) => !order.includes(name)).concat(order));
        return copy;
    };

    function define(name, value) {
        // As with what is declared by `var`: a script may use the name for something else.
        Object.defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });
        // The tool says so where the function itself would be stored. What has two names keeps the first.
        if (typeof value === "function" && !Object.hasOwn(value, CALL)) cairn.hide(value, CALL, `${name}()`);
    }
    // These are there already.
    cairn.hide(Date, CALL, "new Date()");

    for (const [name, value] of Object.entries(cairn.types)) define(name, value);
    for (const name of ["MongoServerError", "MongoBulkWriteError", "MongoInvalidArgumentError"]) define(name, cairn[name]);

    // ---- words

    const shown = (value) => (value === undefined ? "" : cairn.result(value));
    function print(...values) { native.print(values.map(shown).join(" ") + "\n"); }
    define("print", print);
    // As in mongosh: every field on a line of its own, to any depth.
    define("printjson", (value) => {
        const text = typeof value === "object" && !value?.["\0display"] ? cairn.marked(() => cairn.expanded(value)) : shown(value);
        native.print(`${text}\n`);
    });
    define("tojson", (value) => cairn.display(value));
    const ABSENT_CONSOLE = ["table", "dir", "dirxml", "trace", "assert", "count", "countReset", "group", "groupCollapsed", "groupEnd", "time", "timeEnd", "timeLog", "clear"];
    const console = { log: print, info: print, debug: print, warn: print, error: print };
    for (const name of ABSENT_CONSOLE) {
        cairn.hide(console, name, function () { throw new cairn.NotSupported(`console.${name}`, "print(…) and printjson(…) show values"); });
    }
    define("console", console);

    // The engine looks for the reason to stop within this loop, and no script can catch that.
    function stop() { for (;;); }
    function exit(code = 0) {
        native.exit(Number(code) | 0);
        stop();
    }
    cairn.stop = stop;
    define("exit", exit);
    define("quit", exit);
    define("sleep", (milliseconds) => native.sleep(Number(milliseconds) || 0));
    define("load", (path) => {
        const failure = native.load(String(path));
        if (failure) throw new Error(failure);
        return true;
    });
    define("DBQuery", { Option: cairn.cursorOptions });
    define("version", () => native.version());

    // The engine's own goes through a large value without a look at signals. It looks at every call of a function.
    const stringify = JSON.stringify;
    cairn.hide(JSON, "stringify", function (value, replacer, space) {
        const isLarge = value !== null && typeof value === "object" && (replacer === undefined || replacer === null);
        return stringify(value, isLarge ? (_, part) => part : replacer, space);
    });
    define("isInteractive", () => false);

    // What a command of the shell shows: a text for people, and a value for scripts.
    class Shown {
        constructor(value, text) {
            this.value = value;
            cairn.hide(this, "text", text);
        }
        "\0display"() { return this.text; }
    }

    function use(name) {
        global.db = cairn.database(name);
        return new Shown(name, `switched to db ${name}`);
    }
    define("use", use);

    function size(bytes) {
        const units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let [number, at] = [Number(bytes), 0];
        while (number >= 1024 && at < units.length - 1) [number, at] = [number / 1024, at + 1];
        return `${number.toFixed(at === 0 ? 0 : 2)} ${units[at]}`;
    }

    const SHOWS = {
        dbs() {
            const list = cairn.run("admin", { listDatabases: 1 }).databases;
            const width = Math.max(0, ...list.map((one) => one.name.length));
            const sizes = list.map((one) => size(one.sizeOnDisk));
            const wide = Math.max(0, ...sizes.map((text) => text.length));
            return new Shown(list, list.map((one, at) => `${one.name.padEnd(width)}  ${sizes[at].padStart(wide)}`).join("\n"));
        },
        collections() {
            const list = global.db.getCollectionInfos({}, { nameOnly: true });
            const value = list.map((one) => ({ name: one.name, badge: one.type === "view" ? "[view]" : "" }));
            return new Shown(value, value.map((one) => (one.badge ? `${one.name}  ${one.badge}` : one.name)).join("\n"));
        },
        sequences() {
            const names = global.db.getSequenceNames();
            return new Shown(names, names.join("\n"));
        },
        users() {
            const { users } = global.db.getUsers();
            return new Shown(users, users.map((one) => cairn.inspect(one)).join("\n"));
        },
    };
    SHOWS.databases = SHOWS.dbs;
    SHOWS.tables = SHOWS.collections;

    function show(what) {
        const shows = Object.hasOwn(SHOWS, what) ? SHOWS[what] : undefined;
        if (shows) return shows();
        if (["logs", "log", "profile", "roles", "startupWarnings", "automationNotices", "nonGenuineMongoDBCheck"].includes(what)) throw new cairn.NotSupported(`show ${what}`);
        throw new TypeError(`show needs one of ${Object.keys(SHOWS).join(", ")}, and not ${cairn.inspect(what)}`);
    }
    define("show", show);

    const HELP = [
        ["use NAME", "the database that db stands for"],
        ["show dbs, collections, sequences, users", "what there is"],
        ["db.NAME.find({total: {$gt: 20}})", "documents, twenty at a time; it shows the next ones"],
        ["db.NAME.insertOne({…}), updateOne, deleteMany, aggregate, …", "the verbs of a collection"],
        ["db.NAME.find({…}).explain()", "what a search looks at"],
        ["db.createCollection(NAME, {autoIncrement: {Field: \"number\"}})", "a collection whose documents are numbered"],
        ["db.sequence(NAME).next(), current(), snapshot(), gaps()", "a sequence"],
        ["load(\"FILE.js\"), print(…), sleep(MILLISECONDS)", "scripts"],
        ["exit, Ctrl-D", "the end; Ctrl-C ends a statement"],
    ];
    function help() {
        const width = Math.max(...HELP.map(([words]) => words.length));
        return new Shown(undefined, HELP.map(([words, meaning]) => `  ${words.padEnd(width)}  ${meaning}`).join("\n"));
    }
    define("help", help);

    // ---- cursors, a page at a time

    let paged;
    function page(cursor) {
        const documents = [];
        while (documents.length < PAGE && cursor._hasNow()) documents.push(cursor.tryNext());
        // A cursor that follows a collection goes on with what comes until then.
        const hasMore = cursor._isFollowing() || (documents.length === PAGE && cursor._hasNow());
        paged = hasMore ? cursor : undefined;
        cairn.last = documents[0];
        return documents.map((document) => cairn.inspect(document)).join(documents.some((one) => cairn.inspect(one).includes("\n")) ? ",\n" : "\n") + (hasMore ? "\nType \"it\" for more" : "");
    }
    cairn.more = () => (paged ? page(paged) : "no cursor");

    const isCursor = (value) => value instanceof cairn.Cursor;

    // A value as a statement's result, or as `print` writes it.
    cairn.display = function (value) {
        if (typeof value === "function" && value["\0display"]) return value["\0display"]();
        if (value !== null && typeof value === "object") {
            if (typeof value["\0display"] === "function") return value["\0display"]();
            if (isCursor(value)) return page(value);
            cairn.last = Array.isArray(value) ? value[0] : value;
        }
        return cairn.inspect(value);
    };

    // The text of a statement's result. Nothing is shown of `undefined`.
    cairn.result = (value) => (value === undefined ? undefined : typeof value === "string" ? cairn.unmarked(value) : cairn.marked(() => cairn.display(value)));

    // Statements of a line that are no JavaScript.
    cairn.words = function (line) {
        const words = line.trim().replace(/;+$/, "").trim().split(/\s+/);
        if (words.length === 1) {
            if (words[0] === "it") return { text: cairn.marked(() => cairn.more()) };
            if (words[0] === "help") return { text: help().text };
            if (words[0] === "exit" || words[0] === "quit") return exit();
        }
        if (words.length === 2 && words[0] === "use" && /^[^("'`]/.test(words[1])) return { text: use(words[1]).text };
        if (words.length === 2 && words[0] === "show" && /^[A-Za-z]+$/.test(words[1])) return { text: cairn.marked(() => show(words[1])).text };
        return undefined;
    };

    // ---- assert, as Node.js has it

    class AssertionError extends Error {}
    cairn.hide(AssertionError.prototype, "name", "AssertionError");

    function refuse(message, otherwise) {
        if (message instanceof Error) throw message;
        throw new AssertionError(message === undefined ? otherwise : String(message));
    }

    function isDeepEqual(one, other, isStrict, seen = []) {
        if (isStrict ? Object.is(one, other) : one == other || (one !== one && other !== other)) return true;
        if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return false;
        if (isStrict && Object.getPrototypeOf(one) !== Object.getPrototypeOf(other)) return false;
        const kind = one[cairn.KIND];
        if (kind !== other[cairn.KIND]) return false;
        if (typeof kind === "string" && kind !== "Map") return cairn.inspect(one) === cairn.inspect(other);
        if (seen.some((pair) => pair[0] === one && pair[1] === other)) return true;
        const inner = seen.concat([[one, other]]);
        if (one instanceof Error && (one.name !== other.name || one.message !== other.message)) return false;
        const [names, others] = [Object.keys(one), Object.keys(other)];
        if (names.length !== others.length || Array.isArray(one) !== Array.isArray(other)) return false;
        return names.every((name) => Object.hasOwn(other, name) && isDeepEqual(one[name], other[name], isStrict, inner));
    }

    // Whether what was thrown is what was asked for.
    function isExpected(error, expected) {
        if (expected === undefined) return true;
        if (expected instanceof RegExp) return expected.test(String(error));
        if (typeof expected === "function") {
            if (expected.prototype !== undefined && error instanceof expected) return true;
            return !Error.isPrototypeOf(expected) && expected !== Error && expected(error) === true;
        }
        return Object.keys(expected).every((name) => (expected[name] instanceof RegExp ? expected[name].test(error[name]) : isDeepEqual(error[name], expected[name], true)));
    }

    const against = (found, word, expected) => `${cairn.inspect(found)} ${word} ${cairn.inspect(expected)}`;
    function assert(value, message) { if (!value) refuse(message, `${cairn.inspect(value)} is not true`); }
    Object.assign(assert, {
        AssertionError,
        ok: assert,
        equal(found, expected, message) { if (!(found == expected)) refuse(message, against(found, "is not", expected)); },
        notEqual(found, expected, message) { if (found == expected) refuse(message, against(found, "is", expected)); },
        strictEqual(found, expected, message) { if (!Object.is(found, expected)) refuse(message, against(found, "is not", expected)); },
        notStrictEqual(found, expected, message) { if (Object.is(found, expected)) refuse(message, against(found, "is", expected)); },
        deepEqual(found, expected, message) { if (!isDeepEqual(found, expected, false)) refuse(message, against(found, "does not equal", expected)); },
        notDeepEqual(found, expected, message) { if (isDeepEqual(found, expected, false)) refuse(message, against(found, "equals", expected)); },
        deepStrictEqual(found, expected, message) { if (!isDeepEqual(found, expected, true)) refuse(message, against(found, "does not equal", expected)); },
        notDeepStrictEqual(found, expected, message) { if (isDeepEqual(found, expected, true)) refuse(message, against(found, "equals", expected)); },
        match(text, pattern, message) { if (!pattern.test(text)) refuse(message, against(text, "does not match", pattern)); },
        doesNotMatch(text, pattern, message) { if (pattern.test(text)) refuse(message, against(text, "matches", pattern)); },
        fail(message) { refuse(message, "failed"); },
        throws(work, expected, message) {
            const words = typeof expected === "string" ? expected : message;
            let thrown;
            try {
                work();
            } catch (error) {
                thrown = { error };
            }
            if (!thrown) return refuse(words, "nothing was thrown");
            if (!isExpected(thrown.error, typeof expected === "string" ? undefined : expected)) throw thrown.error;
        },
        doesNotThrow(work, message) {
            try {
                work();
            } catch (error) {
                refuse(typeof message === "string" ? message : undefined, `it has thrown ${cairn.errorText(error)}`);
            }
        },
    });
    assert.strict = assert;
    define("assert", assert);

    // Node.js's modules are not here, but for what tests are written with.
    define("require", (name) => {
        if (["assert", "node:assert", "assert/strict", "node:assert/strict"].includes(name)) return assert;
        throw new cairn.NotSupported(`require(${cairn.quoted(String(name))})`, "there are no modules but \"assert\"; load(FILE) runs a script");
    });

    const CALLS = "calls return when they are done";
    const NO_SYSTEM = "scripts reach nothing of the system but what they are given";
    const NO_NETWORK = "scripts have no network";
    const BYTES = "BinData and HexData hold bytes";
    const HASHES = "hash outside of the shell, as by md5sum";
    const STORE = "give the store on the command line";
    const ENCRYPTION = "encrypt in the application, by a driver";
    const EDITOR = "the shell has no editor: load(FILE) runs a script";
    // The globals of mongosh and of Node.js within it that are not here, and what to use in their place. A function throws when it
    // is called, and an object when something of it is used, so that `typeof` can be asked.
    const ABSENT_FUNCTIONS = {
        connect: STORE, Mongo: STORE, MongoClient: STORE, passwordPrompt: "give --password-file",
        edit: EDITOR, editor: EDITOR, snippet: "load(FILE) runs a script", cls: "the terminal clears itself, by Ctrl-L",
        enableTelemetry: "there is no telemetry", disableTelemetry: "there is no telemetry",
        setTimeout: `${CALLS}: use sleep(MILLISECONDS)`, setInterval: `${CALLS}: use a loop with sleep(MILLISECONDS)`, setImmediate: CALLS,
        clearTimeout: CALLS, clearInterval: CALLS, clearImmediate: CALLS, queueMicrotask: CALLS,
        fetch: NO_NETWORK, WebSocket: NO_NETWORK, EventSource: NO_NETWORK, Request: NO_NETWORK, Response: NO_NETWORK,
        Headers: NO_NETWORK, FormData: NO_NETWORK, Worker: CALLS, BroadcastChannel: CALLS, MessageChannel: CALLS,
        AbortController: "maxTimeMS ends a call, and Ctrl-C a statement", Buffer: BYTES, Blob: BYTES, File: BYTES,
        TextEncoder: BYTES, TextDecoder: BYTES, atob: BYTES, btoa: BYTES,
        URL: "take texts apart by regular expressions", URLSearchParams: "take texts apart by regular expressions",
        MD5: HASHES, hex_md5: HASHES, md5sumFile: HASHES,
        structuredClone: "EJSON.parse(EJSON.stringify(VALUE)) copies a value",
        EventTarget: CALLS, Event: CALLS, ReadableStream: CALLS, WritableStream: CALLS, TransformStream: CALLS,
        convertShardKeyToHashed: "there are no shards", bsonsize: "a document's size is $bsonSize in an aggregation",
        KeyVault: ENCRYPTION, ClientEncryption: ENCRYPTION,
        ls: NO_SYSTEM, cd: NO_SYSTEM, pwd: NO_SYSTEM, cat: NO_SYSTEM, listFiles: NO_SYSTEM, mkdir: NO_SYSTEM, removeFile: NO_SYSTEM,
        writeFile: NO_SYSTEM, run: NO_SYSTEM, runProgram: NO_SYSTEM, hostname: "db.hostInfo() names the host", getHostName: "db.hostInfo() names the host",
    };
    const ABSENT_OBJECTS = {
        config: "the options of cairn shell are on the command line", process: NO_SYSTEM, module: "load(FILE) runs a script",
        exports: "load(FILE) runs a script", crypto: "UUID() makes one at random; hash outside of the shell, as by md5sum", performance: "new Date() tells the time", navigator: NO_SYSTEM,
        fs: NO_SYSTEM, os: NO_SYSTEM, path: NO_SYSTEM, child_process: NO_SYSTEM, http: NO_NETWORK, https: NO_NETWORK, net: NO_NETWORK,
        util: "print(…) and printjson(…) show values", bson: "the types of BSON are globals, as ObjectId and Long",
        Intl: "$dateToString in an aggregation formats dates, and a collation sorts texts", log: "cairn serve logs to its standard error",
    };
    // What a value is asked for while it is shown.
    const isShowing = (property) => property !== "\0display" && cairn.isAsked(property);
    function absent(target, name, instead) {
        const refuse = () => { throw new cairn.NotSupported(name, instead); };
        return new Proxy(target, {
            apply: refuse,
            construct: refuse,
            set: refuse,
            get(_, property) {
                if (isShowing(property)) return undefined;
                if (property === "\0display") return refuse;
                throw new cairn.NotSupported(`${name}.${property}`, instead);
            },
        });
    }
    for (const [name, instead] of Object.entries(ABSENT_FUNCTIONS)) {
        if (!(name in global)) define(name, absent(function () {}, name, instead));
    }
    for (const [name, instead] of Object.entries(ABSENT_OBJECTS)) {
        if (!(name in global)) define(name, absent({}, name, instead));
    }
    // The replica set that a server is, or a server within this process.
    const SET = {
        status: () => cairn.database("admin").adminCommand({ replSetGetStatus: 1 }),
        conf: () => cairn.database("admin").adminCommand({ replSetGetConfig: 1 }).config,
        config: () => SET.conf(),
        hello: () => cairn.database("admin").hello(),
        isMaster: () => cairn.database("admin").isMaster(),
    };
    define("rs", new Proxy(SET, {
        get(set, verb) {
            if (typeof verb === "symbol" || verb.startsWith("\0") || Object.hasOwn(set, verb)) return set[verb];
            return () => { throw new cairn.NotSupported(`rs.${verb}`); };
        },
    }));
    for (const name of ["sh", "sp"]) {
        define(name, new Proxy({}, {
            get(_, verb) {
                if (typeof verb === "symbol" || verb.startsWith("\0")) return undefined;
                return () => { throw new cairn.NotSupported(`${name}.${verb}`); };
            },
        }));
    }

    // ---- what the tool asks for

    define("db", cairn.database(native.database()));
    // What `cairn query` prints of a value: a command whose documents come as they are stored, a function that gives the next
    // of what is changed on the way, or a value.
    cairn.answer = function (given, collection, isExplained) {
        let value = given;
        if (collection !== undefined) {
            if (value === null || typeof value !== "object") throw new TypeError(`a filter is a document, and a pipeline an array: ${cairn.inspect(value)} is neither`);
            const found = global.db.getCollection(collection);
            value = Array.isArray(value) ? found.aggregate(value) : found.find(value);
        }
        if (!isCursor(value)) {
            if (isExplained) throw new TypeError("only a search is explained, as db.NAME.find(…) or db.NAME.aggregate(…)");
            return { value: value?.["\0display"] ? cairn.display(value) : value };
        }
        if (isExplained) return { value: value.explain() };
        if (Object.hasOwn(value, "\0display")) return { value: value.next() };
        if (value.read || value.change || value.isOver || value.command.tailable) {
            return { next: () => (value._hasNow() ? value.tryNext() : undefined) };
        }
        return { database: value.database, command: value._sent() };
    };
    cairn.databaseName = () => (global.db instanceof cairn.Database ? global.db.getName() : "");

    // Names that can follow a text at its end, for completion.
    cairn.names = function (owner) {
        if (owner === "db") {
            let collections = [];
            try {
                collections = global.db.getCollectionNames().filter((name) => /^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$/.test(name));
            } catch {
                // What cannot be listed is not completed.
            }
            return collections.concat(verbs(cairn.Database.prototype));
        }
        if (owner === "collection") return verbs(cairn.Collection.prototype);
        if (owner === "cursor") return verbs(cairn.FindCursor.prototype).concat(verbs(cairn.Cursor.prototype));
        if (owner === "databases") return cairn.store.getDBNames();
        if (owner === "fields") return cairn.last !== null && typeof cairn.last === "object" ? cairn.fields(cairn.last) : [];
        return Object.keys(SHOWS);
    };
    function verbs(prototype) {
        return Object.getOwnPropertyNames(prototype).filter((name) => /^[a-z][A-Za-z]+$/.test(name) && name !== "constructor");
    }
})
