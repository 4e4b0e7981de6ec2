// Cursors: a read that runs when its first document is asked for, or when it is explained.
(function (cairn, native) {
    "use strict";

    // Between two looks for another document, in milliseconds.
    const PAUSE = 50;
    // How long a cursor that awaits data waits in the store unless it is told, in milliseconds, as in MongoDB.
    const AWAIT = 1000;
    cairn.cursorOptions = Object.freeze({ tailable: 2, noTimeout: 16, awaitData: 32 });

    const ORDER = ["find", "aggregate", "filter", "pipeline", "sort", "projection", "hint", "skip", "limit"];

    class Cursor {
        constructor(database, command) {
            cairn.hide(this, "database", database);
            cairn.hide(this, "command", command);
            cairn.hide(this, "session", cairn.session);
            cairn.hide(this, "read", undefined);
            // Documents that were read ahead by `hasNext`.
            cairn.hide(this, "ahead", []);
            cairn.hide(this, "change", undefined);
            cairn.hide(this, "awaitTime", undefined);
            cairn.hide(this, "isOver", false);
            // Whether each step waits in the store, as those of change streams do.
            cairn.hide(this, "follows", false);
        }

        _set(name, value) {
            if (this.read) cairn.invalid(`${name} must be called before the cursor is read`);
            this.command[name] = value;
            return this;
        }

        // The command, with its fields in the order of MongoDB's driver for Node.js.
        _sent() {
            return { ...cairn.pick(this.command, ORDER), ...this.command };
        }

        _step() {
            if (this.isOver) return undefined;
            if (!this.read) this._open();
            return this.read();
        }

        _open() {
            const { tailable, awaitData } = this.command;
            const isWaiting = awaitData || this.follows;
            const waits = tailable || this.follows ? (isWaiting ? this.awaitTime ?? AWAIT : 0) : undefined;
            this.read = cairn.within(this.session, () => cairn.open(this.database, this._sent(), waits));
        }

        // Whether a cursor that follows a collection may have another document later.
        _isFollowing() { return !this.isOver && this.read !== undefined && this.read.isOpen(); }

        // The next document as it is stored. One that follows a collection waits for it.
        await() {
            let document = this._take();
            while (document === undefined && this._isFollowing()) {
                // A cursor that awaits data has waited in the store.
                if (!this.command.awaitData && !this.follows) native.sleep(PAUSE);
                document = this._take();
            }
            return document;
        }

        // The next document as it is stored, and `undefined` at the end.
        _take() { return this.ahead.length > 0 ? this.ahead.shift() : this._step(); }

        _changed(document) { return this.change ? this.change(document) : document; }

        tryNext() {
            const document = this._take();
            return document === undefined ? null : this._changed(document);
        }

        next() {
            const document = this.await();
            return document === undefined ? null : this._changed(document);
        }

        // Whether there is a document without waiting for one.
        _hasNow() {
            if (this.ahead.length === 0) {
                const document = this._step();
                if (document !== undefined) this.ahead.push(document);
            }
            return this.ahead.length > 0;
        }

        hasNext() {
            if (this.ahead.length === 0) {
                const document = this.await();
                if (document !== undefined) this.ahead.push(document);
            }
            return this.ahead.length > 0;
        }

        toArray() {
            const documents = [];
            this.forEach((document) => { documents.push(document); });
            return documents;
        }

        forEach(visit) {
            for (let document = this.await(); document !== undefined; document = this.await()) {
                if (visit(this._changed(document)) === false) break;
            }
        }

        map(change) {
            const before = this.change;
            this.change = before ? (document) => change(before(document)) : change;
            return this;
        }

        itcount() {
            let count = 0;
            for (; this.hasNext(); count += 1) this.ahead.shift();
            return count;
        }

        *[Symbol.iterator]() {
            while (this.hasNext()) yield this.tryNext();
        }

        close() {
            this.isOver = true;
            this.read = undefined;
            this.ahead = [];
        }

        isClosed() { return this.isOver || (this.read !== undefined && this.read.isAtEnd()); }
        isExhausted() { return !this.hasNext(); }
        objsLeftInBatch() { return this.ahead.length; }
        pretty() { return this; }
        maxTimeMS(milliseconds) { return this._set("maxTimeMS", milliseconds); }
        hint(index) { return this._set("hint", index); }
        comment(text) { return this._set("comment", text); }
        collation(collation) { return this._set("collation", collation); }

        explain(verbosity) {
            const { cursor, explain, ...command } = this._sent();
            return cairn.explain(this.database, command.aggregate ? { ...command, cursor: {} } : command, verbosity);
        }
    }

    class FindCursor extends Cursor {
        sort(keys) { return this._set("sort", cairn.sortOf(keys)); }
        skip(count) { return this._set("skip", count); }
        limit(count) {
            // A negative limit is one batch, as in every MongoDB shell.
            if (count < 0) this._set("singleBatch", true);
            return this._set("limit", Math.abs(count));
        }
        batchSize(count) { return this._set("batchSize", count); }
        projection(fields) { return this._set("projection", fields); }
        project(fields) { return this.projection(fields); }
        min(keys) { return this._set("min", keys); }
        max(keys) { return this._set("max", keys); }
        returnKey(is = true) { return this._set("returnKey", is); }
        showRecordId(is = true) { return this._set("showRecordId", is); }
        allowDiskUse(is = true) { return this._set("allowDiskUse", is); }
        noCursorTimeout(is = true) { return this._set("noCursorTimeout", is); }

        // Follows a capped collection: at its end `tryNext` gives null, and goes on after the next insert.
        tailable({ awaitData = false } = {}) {
            if (awaitData) this._set("awaitData", true);
            return this._set("tailable", true);
        }

        // How long a cursor that awaits data waits in the store, each time.
        maxAwaitTimeMS(milliseconds) {
            if (this.read) cairn.invalid("maxAwaitTimeMS must be called before the cursor is read");
            this.awaitTime = milliseconds;
            return this;
        }

        // The flags of the wire protocol, by the numbers of DBQuery.Option.
        addOption(flags) {
            const known = cairn.cursorOptions.tailable | cairn.cursorOptions.awaitData | cairn.cursorOptions.noTimeout;
            if (!Number.isInteger(flags) || (flags & ~known) !== 0) throw new cairn.NotSupported(`cursor.addOption(${flags})`, "it takes DBQuery.Option.tailable, awaitData and noTimeout");
            if (flags & cairn.cursorOptions.noTimeout) this.noCursorTimeout();
            if (flags & cairn.cursorOptions.awaitData) this._set("awaitData", true);
            return flags & cairn.cursorOptions.tailable ? this._set("tailable", true) : this;
        }

        _counted(names) {
            const { find, filter } = this.command;
            const count = { count: find, query: filter || {}, ...cairn.pick(this.command, ["hint", "maxTimeMS", "collation", ...names]) };
            return cairn.within(this.session, () => cairn.run(this.database, count)).n;
        }

        count(applySkipLimit = false) { return this._counted(applySkipLimit ? ["skip", "limit"] : []); }
        size() { return this._counted(["skip", "limit"]); }
    }

    class AggregationCursor extends Cursor {
        batchSize(count) { return this._set("cursor", { ...this.command.cursor, batchSize: count }); }
        allowDiskUse(is = true) { return this._set("allowDiskUse", is); }
    }

    // The changes of a collection, a database or the store. It is opened at once: what is written from then on is shown.
    class ChangeStreamCursor extends Cursor {
        constructor(database, command, awaitTime) {
            super(database, command);
            this.follows = true;
            this.awaitTime = awaitTime;
            cairn.hide(this, "token", undefined);
            this._open();
        }

        // An event that `hasNext` has read ahead is not handed out yet: a script that stores the token would pass it by.
        _changed(event) {
            this.token = event._id;
            return event;
        }

        // The token of the last event that was handed out.
        getResumeToken() { return this.token; }
    }
    for (const name of ["map", "maxTimeMS", "hint", "comment", "collation", "explain", "toArray", "isExhausted"]) {
        cairn.hide(ChangeStreamCursor.prototype, name, function () { throw new cairn.NotSupported(`changeStream.${name}`); });
    }

    const OF_STREAM = ["fullDocument", "fullDocumentBeforeChange", "resumeAfter", "startAfter", "startAtOperationTime", "showExpandedEvents"];
    const OF_AGGREGATE = ["batchSize", "collation", "comment", "maxAwaitTimeMS"];
    // The stream of a collection by its name, or of a database (`of` is 1), or of the store (`isAll`).
    cairn.watch = function (database, of, given, isAll = false) {
        let [stages, options] = given;
        // As in mongosh, options may stand alone.
        if (stages !== undefined && !Array.isArray(stages)) [stages, options] = [[], stages];
        options = options ?? {};
        const unknown = Object.keys(options).find((name) => !OF_STREAM.includes(name) && !OF_AGGREGATE.includes(name));
        if (unknown !== undefined) cairn.invalid(`watch has no option ${cairn.inspect(unknown)}`);
        const stage = { ...cairn.pick(options, OF_STREAM), ...(isAll ? { allChangesForCluster: true } : {}) };
        const pipeline = [{ $changeStream: stage }, ...(stages ?? [])];
        const command = { aggregate: of, pipeline, cursor: cairn.pick(options, ["batchSize"]), ...cairn.pick(options, ["collation", "comment"]) };
        return new ChangeStreamCursor(database, command, options.maxAwaitTimeMS);
    };

    for (const name of ["readConcern", "readPref", "showDiskLoc", "oplogReplay"]) {
        cairn.hide(Cursor.prototype, name, function () { throw new cairn.NotSupported(`cursor.${name}`); });
    }

    const ORDERS = { asc: 1, ascending: 1, "1": 1, desc: -1, descending: -1, "-1": -1 };

    // A sort as a command takes it; mongosh also takes pairs and words.
    cairn.sortOf = function (keys) {
        if (typeof keys === "string") return { [keys]: 1 };
        if (!Array.isArray(keys) && !(keys instanceof Map)) return keys;
        const pairs = Array.from(keys, (pair) => (Array.isArray(pair) ? pair : [pair, 1]));
        return new Map(pairs.map(([name, order]) => [name, ORDERS[order] ?? order]));
    };

    cairn.explain = (database, command, verbosity = "queryPlanner") => cairn.run(database, { explain: command, verbosity: verbosity === true ? "allPlansExecution" : verbosity || "queryPlanner" });

    Object.assign(cairn, { Cursor, FindCursor, AggregationCursor });
})
