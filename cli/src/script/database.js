// Databases, sequences, and the store as a whole.
(function (cairn, native) {
    "use strict";

    const { invalid, run } = cairn;

    class Sequence {
        constructor(database, name) {
            cairn.hide(this, "_database", database);
            cairn.hide(this, "_name", name);
        }

        run(command, options) { return run(this._database._name, { [command]: this._name, ...options }); }

        // The next value, or the next `count` of them.
        next(count) {
            if (count === undefined) return this.run("sequenceNext").NextValue;
            const wanted = Number(count);
            if (!Number.isSafeInteger(wanted) || wanted < 1) invalid(`a sequence gives a whole number of values, and not ${cairn.inspect(count)}`);
            const values = [];
            // A reply ends where a block ends.
            while (values.length < wanted) {
                const reply = this.run("sequenceNext", { n: new cairn.Long(wanted - values.length) });
                const [first, step] = [reply.NextValue, reply.Increment].map((number) => (typeof number === "object" ? number.value : BigInt(number)));
                for (let at = 0n; at < BigInt(Number(reply.ReturnNum)); at += 1n) values.push(cairn.number(first + step * at));
            }
            return values;
        }

        current() { return this.run("sequenceCurrent").CurrentValue; }
        snapshot() { return this.run("sequenceSnapshot").snapshot; }
        gaps() { return this.run("sequenceGaps").gaps; }
        alter(options) { return this.run("alterSequence", { options }); }
        drop() { return this.run("dropSequence"); }
        rename(name) { return this.run("renameSequence", { to: name }); }
        restart(value) { return this.run("sequenceRestart", { value: new cairn.Long(value) }); }
        setCurrent(value) { return this.run("sequenceSetCurrent", { value: new cairn.Long(value) }); }
        "\0display"() { return `${this._database._name}.sequence(${cairn.quoted(this._name)})`; }
    }

    class Database {
        constructor(name, session) {
            if (typeof name !== "string" || name === "" || /[\0/\\. "$]/.test(name)) invalid(`${cairn.inspect(name)} is not a name of a database`);
            cairn.hide(this, "_name", name);
            cairn.hide(this, "_session", session);
        }

        getName() { return this._name; }
        toString() { return this._name; }
        "\0display"() { return this._name; }
        getMongo() { return cairn.store; }
        getSiblingDB(name) { return cairn.database(name, this._session); }
        getSession() { return this._session; }
        getCollection(name) {
            if (typeof name !== "string" || name === "") invalid(`${cairn.inspect(name)} is not a name of a collection`);
            return cairn.collection(this, name);
        }

        runCommand(command, options) {
            const named = typeof command === "string" ? { [command]: 1, ...options } : command;
            return run(this._name, cairn.needDocument("runCommand", "command", named));
        }

        adminCommand(command) {
            return run("admin", cairn.needDocument("adminCommand", "command", typeof command === "string" ? { [command]: 1 } : command));
        }

        aggregate(...given) { return cairn.aggregate(this._name, 1, given); }
        watch(...given) { return cairn.watch(this._name, 1, given); }

        getCollectionInfos(filter = {}, options) {
            const found = cairn.all(this._name, { listCollections: 1, filter, ...cairn.pick(options, ["nameOnly", "authorizedCollections"]) });
            return found.sort((one, other) => (one.name < other.name ? -1 : 1));
        }

        getCollectionNames() { return this.getCollectionInfos({}, { nameOnly: true }).map((one) => one.name); }
        createCollection(name, options) { return run(this._name, { create: name, ...options }); }
        createView(name, source, pipeline, options) { return run(this._name, { create: name, viewOn: source, pipeline, ...options }); }
        dropDatabase() {
            const reply = run(this._name, { dropDatabase: 1 });
            return { ok: reply.ok, ...(reply.dropped === undefined ? {} : { dropped: reply.dropped }) };
        }

        sequence(name) { return new Sequence(this, String(name)); }
        createSequence(name, options) {
            run(this._name, { createSequence: name, ...(options ? { options } : {}) });
            return this.sequence(name);
        }
        getSequenceNames() { return run(this._name, { listSequences: 1 }).sequences.map((one) => one.Name); }

        hello() { return run("admin", { hello: 1 }); }
        isMaster() { return run("admin", { isMaster: 1 }); }
        ping() { return run(this._name, { ping: 1 }); }
        version() { return this.serverBuildInfo().version; }
        serverBuildInfo() { return run("admin", { buildInfo: 1 }); }
        serverStatus(options) { return run("admin", { serverStatus: 1, ...options }); }
        serverCmdLineOpts() { return run("admin", { getCmdLineOpts: 1 }); }
        hostInfo() { return run("admin", { hostInfo: 1 }); }
        listCommands() { return run(this._name, { listCommands: 1 }); }
        stats(options) {
            const scale = typeof options === "number" ? options : options?.scale;
            return run(this._name, { dbStats: 1, ...(scale === undefined ? {} : { scale }) });
        }
        currentOp(options) { return run("admin", { currentOp: 1, ...(options === true ? { $all: true } : options) }); }
        killOp(id) { return run("admin", { killOp: 1, op: id }); }
        getUsers() { return run(this._name, { usersInfo: 1 }); }
        getUser(name) { return run(this._name, { usersInfo: name }).users[0] ?? null; }
        getLastError() { return null; }
        getProfilingStatus() { return run(this._name, { profile: -1 }); }
    }

    const UNSUPPORTED = [
        "auth", "changeUserPassword", "checkMetadataConsistency", "cloneCollection", "cloneDatabase", "commandHelp", "copyDatabase",
        "createEncryptedCollection", "createRole", "createUser", "disableFreeMonitoring", "dropAllRoles", "dropAllUsers", "dropRole",
        "dropUser", "enableFreeMonitoring", "eval", "fsyncLock", "fsyncUnlock", "getFreeMonitoringStatus", "getLogComponents",
        "getReplicationInfo", "getRole", "getRoles", "grantPrivilegesToRole", "grantRolesToRole", "grantRolesToUser", "logout",
        "printCollectionStats", "printReplicationInfo", "printSecondaryReplicationInfo", "printShardingStatus", "revokePrivilegesFromRole",
        "revokeRolesFromRole", "revokeRolesFromUser", "rotateCertificates", "setLogLevel", "setProfilingLevel", "setSecondaryOk",
        "shutdownServer", "sql", "updateRole", "updateUser",
    ];
    for (const name of UNSUPPORTED) {
        cairn.hide(Database.prototype, name, function () { throw new cairn.NotSupported(`db.${name}`); });
    }

    const databases = new Map();

    function made(name, session) {
        return new Proxy(new Database(name, session), {
            get(target, property, receiver) {
                if (!cairn.isAsked(property) && !(property in target)) return target.getCollection.call(receiver, property);
                const value = Reflect.get(target, property, receiver);
                if (session === undefined || typeof value !== "function" || property === "constructor") return value;
                return (...given) => cairn.within(session, () => value.apply(receiver, given));
            },
        });
    }

    // The database of a name, or of a session: the same object each time, but for a session. What is none of its verbs is a collection.
    cairn.database = function (name, session) {
        if (session !== undefined) return made(name, session);
        if (!databases.has(name)) databases.set(name, made(name));
        return databases.get(name);
    };

    // The store, as `db.getMongo()` gives it.
    class Store {
        getDB(name) { return cairn.database(name); }
        getDBs(options) { return run("admin", { listDatabases: 1, ...options }); }
        getDBNames() { return this.getDBs({ nameOnly: true }).databases.map((one) => one.name); }
        adminCommand(command) { return cairn.database("admin").adminCommand(command); }
        watch(...given) { return cairn.watch("admin", 1, given, true); }
        getCollection(namespace) {
            const at = String(namespace).indexOf(".");
            if (at < 1) invalid(`${cairn.inspect(namespace)} is not a DB.COLLECTION`);
            return cairn.database(namespace.slice(0, at)).getCollection(namespace.slice(at + 1));
        }
        "\0display"() { return native.storeName(); }
    }
    for (const name of ["setReadPref", "setReadConcern", "setWriteConcern", "getReadPref", "connect", "close"]) {
        cairn.hide(Store.prototype, name, function () { throw new cairn.NotSupported(`Mongo.${name}`); });
    }
    cairn.store = new Store();

    // A whole number as the shell shows it: a Long only where a number would not be exact.
    cairn.number = (big) => (big >= -(2n ** 31n) && big < 2n ** 31n ? Number(big) : new cairn.Long(big));

    Object.assign(cairn, { Database, Sequence, Store });
})
