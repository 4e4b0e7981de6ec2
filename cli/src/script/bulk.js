// `bulkWrite`: neighboring operations of one kind go as one command.
(function (cairn, native) {
    "use strict";

    const KINDS = {
        insertOne: "insert", updateOne: "update", updateMany: "update", replaceOne: "update", deleteOne: "delete", deleteMany: "delete",
    };
    const FIELDS = { insert: "documents", update: "updates", delete: "deletes" };

    class BulkWrite {
        constructor(collection, options) {
            this.collection = collection;
            this.options = options;
            this.isOrdered = options?.ordered !== false;
            this.result = cairn.noCounts();
            this.errors = [];
        }

        // An operation as a statement of its command.
        statement(operation, at) {
            const verb = cairn.needDocument("bulkWrite", `operation ${at}`, operation) && cairn.fields(operation)[0];
            const kind = KINDS[verb];
            if (!kind) cairn.invalid(`bulkWrite has no operation ${cairn.inspect(verb)}: it has ${Object.keys(KINDS).join(", ")}`);
            const body = cairn.needDocument(verb, "body", operation[verb]);
            if (kind === "insert") {
                const given = cairn.needDocument(verb, "document", body.document ?? body);
                return { kind, at, body: this.collection._identified([given])[0] };
            }
            const q = cairn.needDocument(verb, "filter", body.filter);
            const hint = cairn.pick(cairn.hintOf(body), ["collation", "hint"]);
            if (kind === "delete") return { kind, at, body: { q, limit: verb === "deleteOne" ? 1 : 0, ...hint } };
            const u = verb === "replaceOne" ? cairn.needReplacement(verb, body.replacement) : cairn.needUpdate(verb, body.update);
            return { kind, at, body: { q, u, multi: verb === "updateMany", ...cairn.pick(body, cairn.UPDATE), ...hint } };
        }

        run(operations) {
            if (!Array.isArray(operations)) cairn.invalid(`bulkWrite needs an array of operations, and not ${cairn.inspect(operations)}`);
            if (operations.length === 0) cairn.invalid("Invalid BulkOperation, Batch cannot be empty");
            // All of them are looked at first, so that a mistake in the last one does not leave the others done.
            const statements = operations.map((operation, at) => this.statement(operation, at));
            for (let start = 0; start < statements.length;) {
                const end = cairn.batchEnd(statements, start, (statement) => statement.body, (one, other) => one.kind === other.kind);
                if (!this.send(statements.slice(start, end))) break;
                start = end;
            }
            if (this.errors.length > 0) throw cairn.bulkError(this.errors, this.result);
            return this.result;
        }

        // Sends neighbors of one kind. Returns whether the rest is to be sent.
        send(statements) {
            const kind = statements[0].kind;
            const name = this.collection._name;
            const command = { [kind]: name, [FIELDS[kind]]: statements.map((one) => one.body), ordered: this.isOrdered, ...cairn.pick(this.options, cairn.WRITE) };
            const reply = cairn.run(this.collection._database._name, command);
            const refused = new Set();
            for (const error of reply.writeErrors ?? []) {
                refused.add(error.index);
                this.errors.push({ ...error, index: statements[error.index].at });
            }
            this.count(kind, reply, statements, refused);
            if (reply.writeConcernError) cairn.check(reply);
            return !(this.isOrdered && refused.size > 0);
        }

        count(kind, reply, statements, refused) {
            const result = this.result;
            if (kind === "insert") {
                result.insertedCount += reply.n;
                const tried = this.isOrdered && refused.size > 0 ? Math.min(...refused) : statements.length;
                let done = 0;
                for (let at = 0; at < tried; at += 1) {
                    if (refused.has(at)) continue;
                    result.insertedIds[statements[at].at] = statements[at].body._id ?? reply.generated?.[done]?._id;
                    done += 1;
                }
            } else if (kind === "delete") {
                result.deletedCount += reply.n;
            } else {
                const upserted = reply.upserted ?? [];
                result.matchedCount += reply.n - upserted.length;
                result.modifiedCount += reply.nModified;
                result.upsertedCount += upserted.length;
                for (const one of upserted) result.upsertedIds[statements[one.index].at] = one._id;
            }
        }
    }

    cairn.BulkWrite = BulkWrite;
})
