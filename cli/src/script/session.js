// Sessions and their transactions. What is called of a session's database runs within the session, and so do its cursors.
(function (cairn, native) {
    "use strict";

    const { invalid, pick } = cairn;

    // How long a transaction is tried again, and the pause before that, in milliseconds, as drivers do.
    const RETRY_TIME = 120000;
    const PAUSE_MAX = 500;
    const TRANSACTION = ["maxCommitTimeMS", "readConcern", "writeConcern"];
    const MAX_TIME_EXPIRED = 50;

    class Session {
        constructor(options) {
            const started = native.startSession(cairn.makers);
            cairn.answered(started);
            cairn.hide(this, "_native", started);
            cairn.hide(this, "_defaults", options?.defaultTransactionOptions ?? {});
            cairn.hide(this, "_isOver", false);
            cairn.hide(this, "_isOpen", false);
        }

        _open() {
            if (this._isOver) invalid("the session has ended");
            return this._native;
        }

        get id() { return this._open().id(cairn.makers); }
        getSessionId() { return this.id; }
        get hasEnded() { return this._isOver; }
        getDatabase(name) {
            this._open();
            return cairn.database(name, this);
        }

        startTransaction(options) {
            const given = { ...this._defaults, ...options };
            const unknown = Object.keys(given).find((name) => !TRANSACTION.includes(name));
            if (unknown !== undefined) invalid(`${cairn.inspect(unknown)} is no option of a transaction`);
            cairn.answered(this._open().begin(cairn.makers, pick(given, TRANSACTION)));
            this._isOpen = true;
        }

        commitTransaction() {
            this._isOpen = false;
            cairn.answered(this._open().commit(cairn.makers));
        }

        abortTransaction() {
            this._isOpen = false;
            cairn.answered(this._open().abort(cairn.makers));
        }

        // Runs a function in a transaction and commits it. Where another writer came first, all of that is tried again.
        withTransaction(run, options) {
            if (typeof run !== "function") invalid(`withTransaction needs a function, and not ${cairn.inspect(run)}`);
            const end = Date.now() + RETRY_TIME;
            const isTransient = (error) => error?.errorLabels?.includes("TransientTransactionError") && Date.now() < end;
            let pause = 1;
            for (;;) {
                this.startTransaction(options);
                try {
                    const result = run(this);
                    if (this._isOpen) this._commit(end);
                    return result;
                } catch (error) {
                    if (this._isOpen) {
                        try {
                            this.abortTransaction();
                        } catch {
                            // The server has aborted it already.
                        }
                    }
                    if (!isTransient(error)) throw error;
                    native.sleep(Math.random() * pause);
                    pause = Math.min(pause * 1.5, PAUSE_MAX);
                }
            }
        }

        // Commits, and commits again as long as it is not known whether that was done.
        _commit(end) {
            for (;;) {
                try {
                    return this.commitTransaction();
                } catch (error) {
                    const isUnknown = error?.errorLabels?.includes("UnknownTransactionCommitResult") && error.code !== MAX_TIME_EXPIRED;
                    if (!isUnknown || Date.now() >= end) throw error;
                }
            }
        }

        // A transaction that is in progress is aborted.
        endSession() {
            if (this._isOver) return;
            this._isOver = true;
            this._isOpen = false;
            this._native.end();
        }

        "\0display"() { return this._isOver ? "a session that has ended" : cairn.inspect(this.id); }
    }

    cairn.Store.prototype.startSession = function (options) {
        return new Session(options);
    };
    cairn.Session = Session;
})
