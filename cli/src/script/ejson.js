// Extended JSON of values of scripts, in the words of MongoDB's library for JavaScript.
(function (cairn, native) {
    "use strict";

    const isInt32 = (number) => Number.isInteger(number) && (number | 0) === number && !Object.is(number, -0);

    function numberText(number) {
        if (Object.is(number, -0)) return "-0.0";
        return Number.isFinite(number) ? (Number.isInteger(number) ? number.toFixed(1) : String(number)) : String(number);
    }

    // What stands for a value; `undefined` for what is left out.
    class Writer {
        constructor(isRelaxed, indent) {
            this.isRelaxed = isRelaxed;
            this.indent = indent;
            this.above = [];
        }

        number(number) {
            if (this.isRelaxed && Number.isFinite(number)) return JSON.stringify(number);
            if (isInt32(number)) return `{"$numberInt":"${number}"}`;
            if (Number.isSafeInteger(number) && !Object.is(number, -0)) return `{"$numberLong":"${number}"}`;
            return `{"$numberDouble":"${numberText(number)}"}`;
        }

        date(date) {
            const milliseconds = date[cairn.PARTS];
            const hasText = milliseconds >= 0 && date.getUTCFullYear() <= 9999;
            if (this.isRelaxed && hasText) return `{"$date":${JSON.stringify(date.toISOString().replace(".000Z", "Z"))}}`;
            return `{"$date":{"$numberLong":"${milliseconds}"}}`;
        }

        typed(kind, parts, value) {
            switch (kind) {
                case "Primitive": return this.value(parts);
                case "Date": return this.date(value);
                case "ObjectId": return `{"$oid":"${parts}"}`;
                case "Int32": return this.isRelaxed ? String(parts) : `{"$numberInt":"${parts}"}`;
                case "Double": return this.isRelaxed && Number.isFinite(parts) ? this.number(parts) : `{"$numberDouble":"${numberText(parts)}"}`;
                case "Long": return this.isRelaxed ? String(Number(parts)) : `{"$numberLong":"${parts}"}`;
                case "Decimal128": return `{"$numberDecimal":"${parts}"}`;
                case "Binary": return `{"$binary":{"base64":"${parts[1]}","subType":"${parts[0].toString(16).padStart(2, "0")}"}}`;
                case "Bytes": return `{"$binary":{"base64":"${parts}","subType":"00"}}`;
                case "Timestamp": return `{"$timestamp":{"t":${parts[0]},"i":${parts[1]}}}`;
                case "RegExp": case "BSONRegExp": {
                    const [pattern, options] = parts;
                    const flags = kind === "RegExp" ? value.flags : options;
                    return `{"$regularExpression":{"pattern":${JSON.stringify(pattern)},"options":${JSON.stringify(flags)}}}`;
                }
                case "Code": {
                    const scope = parts[1] ? `,"$scope":${this.value(parts[1])}` : "";
                    return `{"$code":${JSON.stringify(parts[0])}${scope}}`;
                }
                case "BSONSymbol": return `{"$symbol":${JSON.stringify(parts)}}`;
                case "MinKey": return `{"$minKey":1}`;
                case "MaxKey": return `{"$maxKey":1}`;
                case "Map": return this.members(parts);
                default: throw new TypeError(`EJSON cannot write a ${kind}`);
            }
        }

        value(given) {
            const value = given !== null && typeof given === "object" && typeof given.toBSON === "function" ? given.toBSON() : given;
            if (value === null) return "null";
            switch (typeof value) {
                case "string": case "boolean": return JSON.stringify(value);
                case "number": return this.number(value);
                case "bigint": return this.isRelaxed ? String(Number(BigInt.asIntN(64, value))) : `{"$numberLong":"${BigInt.asIntN(64, value)}"}`;
                case "function":
                    if (typeof value[cairn.KIND] === "string") return this.typed(value[cairn.KIND], value[cairn.PARTS], value);
                    if (typeof value["\0call"] === "string") throw new TypeError(`EJSON cannot write a function of the shell: write ${value["\0call"]}`);
                    return undefined;
                case "undefined": case "symbol": return undefined;
            }
            const kind = value[cairn.KIND];
            if (typeof kind === "string") return this.typed(kind, value[cairn.PARTS], value);
            if (value instanceof Error) return this.members([["name", value.name], ["message", value.message]]);
            if (this.above.includes(value)) throw new TypeError("EJSON cannot write a value that is within itself");
            this.above.push(value);
            try {
                if (Array.isArray(value)) return this.lines("[", "]", value.map((item) => this.value(item) ?? "null"));
                return this.members(cairn.fields(value).map((name) => [name, value[name]]));
            } finally {
                this.above.pop();
            }
        }

        members(pairs) {
            const colon = this.indent ? ": " : ":";
            const items = [];
            for (const [name, inner] of pairs) {
                const text = inner === undefined ? "null" : this.value(inner);
                if (text !== undefined) items.push(JSON.stringify(name) + colon + text);
            }
            return this.lines("{", "}", items);
        }

        lines(open, close, items) {
            if (!this.indent || items.length === 0) return open + items.join(",") + close;
            // Inner lines are moved as a whole: texts have no line ends in JSON.
            const inner = items.join(",\n").replace(/\n/g, `\n${this.indent}`);
            return `${open}\n${this.indent}${inner}\n${close}`;
        }
    }

    function stringify(value, replacer, space, options) {
        let [replace, indent, chosen] = [replacer, space, options];
        if (replace !== null && typeof replace === "object" && !Array.isArray(replace)) [replace, indent, chosen] = [undefined, undefined, replace];
        if (indent !== null && typeof indent === "object") [indent, chosen] = [undefined, indent];
        if (replace !== undefined && replace !== null) throw new cairn.NotSupported("a replacer of EJSON.stringify");
        const margin = typeof indent === "number" ? " ".repeat(Math.min(10, indent)) : String(indent ?? "").slice(0, 10);
        return new Writer(!(chosen && chosen.relaxed === false), margin).value(value);
    }

    cairn.types.EJSON = {
        stringify,
        parse(text, options) {
            const isRelaxed = !(options && options.relaxed === false);
            const parsed = native.parse(cairn.makers, String(text), isRelaxed);
            if (parsed.failure) throw new SyntaxError(parsed.failure);
            return parsed.value;
        },
        serialize: (value, options) => JSON.parse(stringify(value, { relaxed: false, ...options })),
        deserialize: (value, options) => cairn.types.EJSON.parse(JSON.stringify(value), options),
    };
})
