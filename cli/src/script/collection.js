// Collections: every verb is one command, or a batch of them, in the words of mongosh.
(function (cairn, native) {
    "use strict";

    const { invalid, pick, run } = cairn;

    const FIND = ["allowDiskUse", "awaitData", "batchSize", "collation", "comment", "hint", "let", "limit", "max", "maxTimeMS", "min", "noCursorTimeout", "returnKey", "showRecordId", "singleBatch", "skip", "sort", "tailable", "projection"];
    const AGGREGATE = ["allowDiskUse", "bypassDocumentValidation", "collation", "comment", "hint", "let", "maxTimeMS", "readConcern", "writeConcern"];
    const COUNT = ["collation", "comment", "hint", "maxTimeMS", "limit", "skip"];
    const WRITE = ["bypassDocumentValidation", "comment", "let", "maxTimeMS", "writeConcern"];
    const UPDATE = ["arrayFilters", "collation", "hint", "sort", "upsert"];
    const MODIFY = ["arrayFilters", "bypassDocumentValidation", "collation", "comment", "hint", "let", "maxTimeMS", "sort", "upsert", "writeConcern"];

    const isDocument = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
    const firstName = (document) => cairn.fields(document)[0];

    function needDocument(verb, name, value) {
        if (!isDocument(value)) invalid(`${verb} needs a document as its ${name}, and not ${cairn.inspect(value)}`);
        return value;
    }

    function needUpdate(verb, update) {
        if (Array.isArray(update)) return update;
        needDocument(verb, "update", update);
        const name = firstName(update);
        if (name === undefined || !name.startsWith("$")) invalid("Update document requires atomic operators");
        return update;
    }

    function needReplacement(verb, replacement) {
        needDocument(verb, "replacement", replacement);
        const name = firstName(replacement);
        if (name !== undefined && name.startsWith("$")) invalid("Replacement document must not contain atomic operators");
        return replacement;
    }

    const hintOf = (options) => (options && typeof options.hint === "object" ? { ...options, hint: cairn.sortOf(options.hint) } : options);

    function sorted(options) {
        const taken = { ...hintOf(options) };
        if (taken.sort !== undefined) taken.sort = cairn.sortOf(taken.sort);
        return taken;
    }

    // What a write command did not do is thrown: as in drivers, the first refusal stands for all.
    function check(reply) {
        const errors = reply.writeErrors;
        if (errors && errors.length > 0) {
            const first = errors[0];
            throw new cairn.MongoServerError(first.errmsg, { ...first, codeName: native.codeName(first.code) });
        }
        const concern = reply.writeConcernError;
        if (concern) throw new cairn.MongoServerError(concern.errmsg, { ...concern, codeName: native.codeName(concern.code) });
        return reply;
    }

    // The pipeline of a collection by its name, or of a database (`of` is 1).
    function aggregate(database, of, given) {
        let [stages, options] = Array.isArray(given[0]) ? given : [given, {}];
        options = hintOf(options) ?? {};
        const command = { aggregate: of, pipeline: stages, cursor: pick(options, ["batchSize"]), ...pick(options, AGGREGATE) };
        if (options.cursor) Object.assign(command.cursor, options.cursor);
        const cursor = new cairn.AggregationCursor(database, command);
        if (options.explain) return cursor.explain(options.explain === true ? "queryPlanner" : options.explain);
        // A pipeline that writes is not left to a reader that never comes.
        const last = stages[stages.length - 1];
        if (isDocument(last) && ("$out" in last || "$merge" in last)) cursor.hasNext();
        return cursor;
    }

    class Collection {
        constructor(database, name) {
            cairn.hide(this, "_database", database);
            cairn.hide(this, "_name", name);
        }

        // ---- what it is

        getName() { return this._name; }
        getFullName() { return `${this._database._name}.${this._name}`; }
        getDB() { return this._database; }
        getMongo() { return this._database.getMongo(); }
        getCollection(name) { return this._database.getCollection(`${this._name}.${name}`); }
        toString() { return this.getFullName(); }
        "\0display"() { return this.getFullName(); }

        runCommand(command, options) {
            const named = typeof command === "string" ? { [command]: this._name, ...options } : command;
            return this._database.runCommand(named);
        }

        exists() {
            return this._database.getCollectionInfos({ name: this._name })[0] ?? null;
        }

        convertToCapped(size) { return this.runCommand("convertToCapped", { size }); }

        isCapped() { return this.stats().capped === true; }

        // ---- reads

        find(filter, projection, options) {
            const command = { find: this._name, filter: filter ?? {}, ...pick(sorted(options), FIND) };
            if (projection !== undefined && projection !== null) command.projection = projection;
            const cursor = new cairn.FindCursor(this._database._name, command);
            return options?.maxAwaitTimeMS === undefined ? cursor : cursor.maxAwaitTimeMS(options.maxAwaitTimeMS);
        }

        findOne(filter, projection, options) {
            return this.find(filter, projection, options).limit(-1).tryNext();
        }

        aggregate(...given) { return aggregate(this._database._name, this._name, given); }
        watch(...given) { return cairn.watch(this._database._name, this._name, given); }

        count(filter, options) {
            return run(this._database._name, { count: this._name, query: filter ?? {}, ...pick(hintOf(options), COUNT) }).n;
        }

        countDocuments(filter, options) {
            const stages = [{ $match: filter ?? {} }];
            if (options?.skip !== undefined) stages.push({ $skip: options.skip });
            if (options?.limit !== undefined) stages.push({ $limit: options.limit });
            stages.push({ $group: { _id: 1, n: { $sum: 1 } } });
            return this.aggregate(stages, options).tryNext()?.n ?? 0;
        }

        estimatedDocumentCount(options) {
            return run(this._database._name, { count: this._name, ...pick(options, ["comment", "maxTimeMS"]) }).n;
        }

        distinct(path, filter, options) {
            return run(this._database._name, { distinct: this._name, key: path, query: filter ?? {}, ...pick(options, ["collation", "comment", "hint", "maxTimeMS"]) }).values;
        }

        // ---- inserts

        // Documents as they are sent, each with an `_id`: an ObjectId, unless the store numbers that field.
        _identified(documents) {
            let isNumbered;
            return documents.map((document, at) => {
                needDocument("insert", `document ${at}`, document);
                if (document._id !== undefined) return document;
                isNumbered ??= this.autoIncrements().some((field) => field.Field === "_id");
                if (isNumbered) return document;
                // The caller's document gets it too, as with every driver.
                document._id = new cairn.types.ObjectId();
                const { _id, ...rest } = document;
                return cairn.withOrder({ _id, ...rest }, document);
            });
        }

        // Inserts in batches. Returns the ids by position, and what was refused.
        #inserted(documents, options) {
            const sent = this._identified(documents);
            const ids = {};
            const errors = [];
            let count = 0;
            for (let start = 0; start < sent.length;) {
                const end = cairn.batchEnd(sent, start);
                const ordered = options?.ordered !== false;
                const reply = run(this._database._name, { insert: this._name, documents: sent.slice(start, end), ordered, ...pick(options, WRITE) });
                const refused = new Set();
                for (const error of reply.writeErrors ?? []) {
                    refused.add(error.index);
                    errors.push({ ...error, index: error.index + start });
                }
                // Of an ordered batch everything after the first refusal was not tried.
                const tried = ordered && refused.size > 0 ? Math.min(...refused) : end - start;
                let done = 0;
                for (let at = 0; at < tried; at += 1) {
                    if (refused.has(at)) continue;
                    ids[start + at] = sent[start + at]._id ?? reply.generated?.[done]?._id;
                    done += 1;
                }
                count += reply.n;
                if (ordered && refused.size > 0) break;
                if (reply.writeConcernError) check(reply);
                start = end;
            }
            return { ids, errors, count };
        }

        insertOne(document, options) {
            needDocument("insertOne", "document", document);
            const { ids, errors } = this.#inserted([document], options);
            check({ writeErrors: errors });
            return { acknowledged: true, insertedId: ids[0] };
        }

        insertMany(documents, options) {
            if (!Array.isArray(documents)) invalid(`insertMany needs an array of documents, and not ${cairn.inspect(documents)}`);
            if (documents.length === 0) invalid("Invalid BulkOperation, Batch cannot be empty");
            const { ids, errors, count } = this.#inserted(documents, options);
            if (errors.length > 0) throw bulkError(errors, { ...noCounts(), insertedCount: count, insertedIds: ids });
            return { acknowledged: true, insertedIds: ids };
        }

        insert(given, options) {
            return this.insertMany(Array.isArray(given) ? given : [given], options);
        }

        // ---- updates and deletes

        #updated(verb, statement, options) {
            const update = { ...statement, ...pick(hintOf(options), UPDATE) };
            const reply = check(run(this._database._name, { update: this._name, updates: [update], ...pick(options, WRITE) }));
            const upserted = reply.upserted?.[0];
            return {
                acknowledged: true,
                insertedId: upserted ? upserted._id : null,
                matchedCount: reply.n - (upserted ? 1 : 0),
                modifiedCount: reply.nModified,
                upsertedCount: upserted ? 1 : 0,
            };
        }

        updateOne(filter, update, options) {
            return this.#updated("updateOne", { q: needDocument("updateOne", "filter", filter), u: needUpdate("updateOne", update), multi: false }, options);
        }

        updateMany(filter, update, options) {
            return this.#updated("updateMany", { q: needDocument("updateMany", "filter", filter), u: needUpdate("updateMany", update), multi: true }, options);
        }

        replaceOne(filter, replacement, options) {
            return this.#updated("replaceOne", { q: needDocument("replaceOne", "filter", filter), u: needReplacement("replaceOne", replacement), multi: false }, options);
        }

        update(filter, update, options) {
            const { multi = false } = options ?? {};
            return multi ? this.updateMany(filter, update, options) : this.updateOne(filter, update, options);
        }

        #deleted(filter, limit, options) {
            const statement = { q: filter, limit, ...pick(hintOf(options), ["collation", "hint"]) };
            const reply = check(run(this._database._name, { delete: this._name, deletes: [statement], ...pick(options, WRITE) }));
            return { acknowledged: true, deletedCount: reply.n };
        }

        deleteOne(filter, options) { return this.#deleted(needDocument("deleteOne", "filter", filter), 1, options); }
        deleteMany(filter, options) { return this.#deleted(needDocument("deleteMany", "filter", filter), 0, options); }

        remove(filter, options) {
            const isOne = options === true || options === 1 || options?.justOne === true;
            return this.#deleted(needDocument("remove", "filter", filter), isOne ? 1 : 0, isDocument(options) ? options : {});
        }

        // ---- find and change

        findAndModify(options) {
            needDocument("findAndModify", "argument", options);
            const command = { findAndModify: this._name, query: options.query ?? {}, ...pick(sorted(options), MODIFY), ...pick(options, ["fields", "new", "remove", "update"]) };
            return check(run(this._database._name, command)).value ?? null;
        }

        #modified(filter, options, change) {
            const given = sorted(options);
            const command = { findAndModify: this._name, query: filter, ...change, ...pick(given, MODIFY) };
            if (given.projection !== undefined) command.fields = given.projection;
            const reply = check(run(this._database._name, command));
            if (given.includeResultMetadata === true) return reply;
            return reply.value ?? null;
        }

        #isAfter(options) {
            return options?.returnDocument === "after" || options?.returnNewDocument === true || options?.returnOriginal === false || options?.new === true;
        }

        findOneAndUpdate(filter, update, options) {
            return this.#modified(needDocument("findOneAndUpdate", "filter", filter), options, { update: needUpdate("findOneAndUpdate", update), new: this.#isAfter(options) });
        }

        findOneAndReplace(filter, replacement, options) {
            return this.#modified(needDocument("findOneAndReplace", "filter", filter), options, { update: needReplacement("findOneAndReplace", replacement), new: this.#isAfter(options) });
        }

        findOneAndDelete(filter, options) {
            return this.#modified(needDocument("findOneAndDelete", "filter", filter), options, { remove: true });
        }

        bulkWrite(operations, options) {
            return new cairn.BulkWrite(this, options).run(operations);
        }

        // ---- indexes

        createIndex(keys, options, commitQuorum) { return this.createIndexes([keys], options, commitQuorum)[0]; }
        ensureIndex(keys, options) { return this.createIndexes([keys], options); }

        createIndexes(list, options) {
            if (!Array.isArray(list)) invalid(`createIndexes needs an array of keys, and not ${cairn.inspect(list)}`);
            const { maxTimeMS, comment, commitQuorum, ...rest } = options ?? {};
            const indexes = list.map((keys) => {
                const key = cairn.sortOf(keys);
                const parts = key instanceof Map ? [...key] : cairn.fields(key).map((name) => [name, key[name]]);
                const name = rest.name ?? parts.map(([path, order]) => `${path}_${typeof order === "object" ? Number(order) : order}`).join("_");
                return { ...rest, name, key };
            });
            run(this._database._name, { createIndexes: this._name, indexes, ...pick(options, ["comment", "maxTimeMS"]) });
            return indexes.map((index) => index.name);
        }

        getIndexes() {
            try {
                return cairn.all(this._database._name, { listIndexes: this._name });
            } catch (error) {
                // A collection that is not there has no indexes.
                if (error.code === 26) return [];
                throw error;
            }
        }

        getIndices() { return this.getIndexes(); }
        getIndexSpecs() { return this.getIndexes(); }
        getIndexKeys() { return this.getIndexes().map((index) => index.key); }

        dropIndex(index) {
            if (index === "*") invalid("To drop indexes in the collection using '*', use db.collection.dropIndexes().");
            if (Array.isArray(index)) invalid("The index to drop must be either the index name or the index specification document.");
            return run(this._database._name, { dropIndexes: this._name, index });
        }

        dropIndexes(index = "*") { return run(this._database._name, { dropIndexes: this._name, index }); }

        #hidden(index, hidden) {
            const named = typeof index === "string" ? { name: index } : { keyPattern: index };
            return run(this._database._name, { collMod: this._name, index: { ...named, hidden } });
        }

        hideIndex(index) { return this.#hidden(index, true); }
        unhideIndex(index) { return this.#hidden(index, false); }

        // ---- the whole collection

        drop() {
            try {
                run(this._database._name, { drop: this._name });
                return true;
            } catch (error) {
                if (error.code === 26) return false;
                throw error;
            }
        }

        truncate() { return run(this._database._name, { truncate: this._name }); }

        renameCollection(name, dropTarget = false) {
            return run("admin", { renameCollection: this.getFullName(), to: `${this._database._name}.${name}`, dropTarget });
        }

        stats(options) {
            const scale = typeof options === "number" ? options : options?.scale;
            return run(this._database._name, { collStats: this._name, ...(scale === undefined ? {} : { scale }) });
        }

        dataSize() { return this.stats().size; }
        storageSize() { return this.stats().storageSize; }
        totalIndexSize() { return this.stats().totalIndexSize; }
        totalSize() { const stats = this.stats(); return Number(stats.storageSize) + Number(stats.totalIndexSize); }
        validate(options) { return run(this._database._name, { validate: this._name, ...(typeof options === "boolean" ? { full: options } : options) }); }
        explain(verbosity) { return new Explainable(this, verbosity); }

        // ---- fields that number themselves

        autoIncrements() {
            try {
                return run(this._database._name, { listAutoIncrements: this._name }).autoIncrements;
            } catch (error) {
                // MongoDB has no such fields, and a collection that is not there has none.
                if (error.code === 59 || error.code === 26) return [];
                throw error;
            }
        }

        createAutoIncrement(options) { return run(this._database._name, { createAutoIncrement: this._name, autoIncrement: options }); }
        alterAutoIncrement(options) { return run(this._database._name, { alterAutoIncrement: this._name, autoIncrement: options }); }
        dropAutoIncrement(field) { return run(this._database._name, { dropAutoIncrement: this._name, field }); }

        gaps(field) {
            const found = this.autoIncrements().find((one) => one.Field === field);
            if (!found) invalid(`${this.getFullName()} has no auto-increment field ${cairn.inspect(field)}`);
            return this._database.sequence(found.SequenceName).gaps();
        }
    }

    // What a verb would do, instead of doing it.
    class Explainable {
        constructor(collection, verbosity = "queryPlanner") {
            cairn.hide(this, "collection", collection);
            cairn.hide(this, "verbosity", verbosity);
        }

        told(command) { return cairn.explain(this.collection._database._name, command, this.verbosity); }

        find(...given) {
            const cursor = this.collection.find(...given);
            const verbosity = this.verbosity;
            // Setters go on as usual, and every way to the documents gives the explanation.
            for (const name of ["finish", "toArray", "next"]) cairn.hide(cursor, name, () => cursor.explain(verbosity));
            cairn.hide(cursor, "\0display", () => cairn.inspect(cursor.explain(verbosity)));
            return cursor;
        }

        aggregate(...given) {
            const [stages, options] = Array.isArray(given[0]) ? given : [given, {}];
            return this.told({ aggregate: this.collection._name, pipeline: stages, cursor: {}, ...pick(options, AGGREGATE) });
        }

        count(filter, options) { return this.told({ count: this.collection._name, query: filter ?? {}, ...pick(options, COUNT) }); }
        distinct(path, filter) { return this.told({ distinct: this.collection._name, key: path, query: filter ?? {} }); }
        remove(filter, options) { return this.told({ delete: this.collection._name, deletes: [{ q: filter ?? {}, limit: options === true || options?.justOne ? 1 : 0 }] }); }
        update(filter, update, options) { return this.told({ update: this.collection._name, updates: [{ q: filter ?? {}, u: update, multi: options?.multi === true, ...pick(options, UPDATE) }] }); }
        findAndModify(options) { return this.told({ findAndModify: this.collection._name, query: options.query ?? {}, ...pick(sorted(options), MODIFY), ...pick(options, ["fields", "new", "remove", "update"]) }); }
        findOneAndDelete(filter, options) { return this.findAndModify({ ...options, query: filter, remove: true }); }
        findOneAndUpdate(filter, update, options) { return this.findAndModify({ ...options, query: filter, update }); }
        findOneAndReplace(filter, update, options) { return this.findAndModify({ ...options, query: filter, update }); }
    }

    function noCounts() {
        return { acknowledged: true, insertedCount: 0, insertedIds: {}, matchedCount: 0, modifiedCount: 0, deletedCount: 0, upsertedCount: 0, upsertedIds: {} };
    }

    function bulkError(errors, result) {
        const first = errors[0];
        const error = new cairn.MongoBulkWriteError(first.errmsg, { code: first.code, codeName: native.codeName(first.code), ...pick(first, ["keyPattern", "keyValue"]) });
        error.writeErrors = errors;
        error.result = result;
        return error;
    }

    const UNSUPPORTED = [
        "analyzeShardKey", "checkMetadataConsistency", "compactStructuredEncryptionData", "configureQueryAnalyzer",
        "createSearchIndex", "createSearchIndexes", "dropSearchIndex", "getPlanCache", "getSearchIndexes", "getShardDistribution",
        "getShardLocation", "getShardVersion", "initializeOrderedBulkOp", "initializeUnorderedBulkOp", "latencyStats", "mapReduce",
        "reIndex", "save", "updateSearchIndex", "getTimeseriesOptions",
    ];
    for (const name of UNSUPPORTED) {
        cairn.hide(Collection.prototype, name, function () { throw new cairn.NotSupported(`db.collection.${name}`); });
    }

    // A collection also has the collections whose names begin with its own and a dot. It can be called, to name an unknown verb.
    cairn.collection = function (database, name) {
        const collection = new Collection(database, name);
        const session = database._session;
        const target = function () {};
        return new Proxy(target, {
            get(_, property) {
                if (cairn.isAsked(property) || property in collection) {
                    const value = collection[property];
                    if (typeof value !== "function" || property === "constructor") return value;
                    if (session === undefined) return value.bind(collection);
                    return (...given) => cairn.within(session, () => value.apply(collection, given));
                }
                return database.getCollection(`${name}.${property}`);
            },
            getPrototypeOf() { return Collection.prototype; },
            ownKeys() { return ["prototype"]; },
            apply() {
                const at = name.lastIndexOf(".");
                const [owner, verb] = at < 0 ? ["db", name] : [`db.${name.slice(0, at)}`, name.slice(at + 1)];
                throw new TypeError(`${owner}.${verb} is not a function`);
            },
        });
    };

    Object.assign(cairn, { Collection, aggregate, Explainable, bulkError, noCounts, check, needDocument, needUpdate, needReplacement, hintOf, UPDATE, WRITE });
})
